//! The calibration file in the user's cache directory.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use evener_core::Engine;
use serde::{Deserialize, Serialize};

use super::Crossovers;

/// Crossovers, with the processor and build for which they hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Document {
    version: u32,
    #[serde(flatten)]
    measured_on: MeasuredOn,
    crossovers: Crossovers,
}

/// The processor's model, Evener's build, and the versions of its engines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MeasuredOn {
    processor: String,
    build: String,
}

impl MeasuredOn {
    pub(super) fn here(openssl: &dyn Engine, lanes: &dyn Engine) -> MeasuredOn {
        let [openssl, lanes] = [openssl, lanes].map(|engine| &engine.description().detail);
        let build = format!("{} / {openssl} / {lanes}", env!("CARGO_PKG_VERSION"));
        MeasuredOn { processor: processor(), build }
    }
}

/// The user's cache directory: `XDG_CACHE_HOME`, or `.cache` in the home directory, and `evener` in
/// it. `None` where there is neither.
pub fn cache_directory() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("evener"))
}

/// The calibration file in the user's cache directory.
pub(super) fn path() -> Option<PathBuf> {
    Some(cache_directory()?.join("cpu.json"))
}

/// The crossovers in a file, if they are for this processor and build. In all other cases the
/// built-in ones are used.
pub(super) fn load(path: &Path, here: impl FnOnce() -> MeasuredOn) -> Option<Crossovers> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    let document: Document = serde_json::from_str(&text).ok()?;
    let is_of_here = document.version == VERSION && document.measured_on == here();
    is_of_here.then_some(document.crossovers)
}

/// Writes crossovers into a file, which is replaced as a whole.
pub(super) fn save(path: &Path, here: MeasuredOn, crossovers: &Crossovers) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let document = Document { version: VERSION, measured_on: here, crossovers: crossovers.clone() };
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(&text)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// The model of the first processor, or on ARM the numbers of its designer and part. Empty if the
/// system does not report it.
pub fn processor() -> String {
    // The file has an entry for every processor; the first is enough.
    let mut first = Vec::new();
    if let Ok(file) = File::open("/proc/cpuinfo") {
        // An unreadable file counts as empty.
        file.take(FIRST_PROCESSOR).read_to_end(&mut first).ok();
    }
    let text = String::from_utf8(first).unwrap_or_default();
    let mut values = Vec::new();
    for key in ["model name", "CPU implementer", "CPU part"] {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let mut named = lines.filter(|(name, _)| name.trim() == key);
        values.extend(named.next().map(|(_, value)| value.trim().to_owned()));
    }
    values.join(" ")
}

const VERSION: u32 = 1;

/// The number of bytes to read of the system's list of processors.
const FIRST_PROCESSOR: u64 = 2048;

/// The longest file to read, in bytes.
const LONGEST: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn here() -> MeasuredOn {
        MeasuredOn { processor: processor(), build: "this".to_owned() }
    }

    #[test]
    fn what_is_kept_serves_this_build_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("evener/cpu.json");
        assert_eq!(load(&path, here), None);
        let crossovers = Crossovers::built_in("aes-ni");
        save(&path, here(), &crossovers).unwrap();
        let mode = fs::metadata(path.parent().unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        save(&path, here(), &crossovers).unwrap();
        assert_eq!(load(&path, here), Some(crossovers));
        assert_eq!(load(&path, || MeasuredOn { build: "another".to_owned(), ..here() }), None);
    }

    #[test]
    fn what_is_no_such_file_is_ignored() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("cpu.json");
        for broken in ["", "{}", "\0", "[1]"] {
            fs::write(&path, broken).unwrap();
            assert_eq!(load(&path, here), None, "{broken}");
        }
        assert_eq!(load(place.path(), here), None);
        assert_eq!(load(Path::new("/dev/zero"), here), None);
    }
}
