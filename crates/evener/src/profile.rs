//! The file with the engines' costs on this machine, which `evener engines --measure --keep`
//! writes.
//!
//! The file is a JSON document with one [`Profile`] for each cipher and direction. It holds names
//! of engines, sizes and times, and no keys or data. A file with a single profile can be read too.
//! Only a measurement writes the file: the figures of an ordinary run depend on the other load of
//! the machine.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use evener_core::{Cipher, Direction, Engine, EngineProfile, Profile};
use evener_pipeline::costs::{Costs, EngineCosts};
use serde::{Deserialize, Serialize};

/// The path where `evener engines --measure --keep` saves profiles: `evener/profile.json` below
/// `XDG_CACHE_HOME`, or below `.cache` in the home directory. `None` where there is neither.
pub fn default_profile() -> Option<PathBuf> {
    Some(evener_engines::cpu::cache_directory()?.join("profile.json"))
}

/// Checks that a file holds valid profiles of engines.
///
/// # Errors
/// When it can't be read, or a profile is not valid.
pub fn check_profile(path: &Path) -> io::Result<()> {
    for profile in read_all(path)?.profiles {
        profile.to_json().parse::<Profile>().map_err(invalid)?;
    }
    Ok(())
}

/// Adds a profile to a file of profiles: its engines replace those of the same names in the profile
/// of the same cipher and direction. The file is replaced as a whole; the content of a file of
/// another format or version is lost.
///
/// # Errors
/// When the file can't be written, or is no regular file or too long; it is unchanged then.
pub fn keep_profile(path: &Path, profile: &Profile) -> io::Result<()> {
    check(path)?;
    let mut profiles = read(path).map(|document| document.profiles).unwrap_or_default();
    let is_same = |known: &&mut Profile| {
        known.cipher == profile.cipher && known.direction == profile.direction
    };
    match profiles.iter_mut().find(is_same) {
        Some(known) => {
            known.engines.retain(|engine| profile.engine(&engine.name).is_none());
            known.engines.extend(profile.engines.iter().cloned());
        }
        None => profiles.push(profile.clone()),
    }
    write(path, &Document { version: VERSION, profiles })
}

/// Reads the costs of a cipher on those `engines` whose version and driver are still as measured.
///
/// # Errors
/// When the file can't be read or holds no profiles.
pub(crate) fn load(
    path: &Path,
    engines: &[&dyn Engine],
    cipher: Cipher,
    direction: Direction,
) -> io::Result<Costs> {
    let mut costs = Costs::default();
    let profiles = read(path)?.profiles;
    let is_asked_for = |profile: &&Profile| {
        profile.cipher == cipher.name() && profile.direction == direction.to_string()
    };
    for known in profiles.iter().filter(is_asked_for).flat_map(|profile| &profile.engines) {
        if engines.iter().any(|engine| is_same(*engine, known, cipher, direction)) {
            costs.insert(&known.name, EngineCosts::of(known));
        }
    }
    Ok(costs)
}

#[derive(Debug, Deserialize, Serialize)]
struct Document {
    version: u32,
    profiles: Vec<Profile>,
}

/// The valid profiles of a file.
fn read(path: &Path) -> io::Result<Document> {
    let document = read_all(path)?;
    // Each is checked like a single profile.
    let sound = |profile: &Profile| profile.to_json().parse::<Profile>().ok();
    let profiles = document.profiles.iter().filter_map(sound).collect();
    Ok(Document { profiles, ..document })
}

fn read_all(path: &Path) -> io::Result<Document> {
    check(path)?;
    let mut text = String::new();
    File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
    match serde_json::from_str::<Document>(&text) {
        Ok(document) if document.version == VERSION => Ok(document),
        Ok(_) => Err(invalid(OTHER_VERSION)),
        Err(error) => match text.parse::<Profile>() {
            Ok(profile) => Ok(Document { version: VERSION, profiles: vec![profile] }),
            Err(_) if error.is_data() => Err(invalid(NO_PROFILE)),
            Err(_) => Err(invalid(error)),
        },
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Rejects a file that is not regular (a device or pipe may be endless) or too long. Other faults
/// are found when the file is read.
fn check(path: &Path) -> io::Result<()> {
    let why = match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => "it is not a regular file",
        Ok(metadata) if metadata.len() > LONGEST => "it is longer than 1 MiB",
        _ => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

fn write(path: &Path, document: &Document) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    let mut text = serde_json::to_vec_pretty(document)?;
    text.push(b'\n');
    file.write_all(&text)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Returns whether the engine's version, driver and offer are still as measured.
fn is_same(
    engine: &dyn Engine,
    known: &EngineProfile,
    cipher: Cipher,
    direction: Direction,
) -> bool {
    let description = engine.description();
    let offer = engine.offer(cipher, direction);
    description.name == known.name
        && (known.detail.is_empty() || description.detail == known.detail)
        && offer
            .is_some_and(|offer| (offer.batch.max(1), offer.bytes) == (known.batch, known.bytes))
}

const NO_PROFILE: &str = "it holds no profile, as `evener engines --measure -o FILE` writes one";
const OTHER_VERSION: &str = "it is of another version of Evener; measure the engines again";

/// Version 1 was written by every run.
const VERSION: u32 = 2;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use evener_core::{Includes, Point};

    use super::*;

    const CIPHER: Cipher = Cipher::Aes256Gcm;

    fn openssl() -> Arc<dyn Engine> {
        evener_engines::find("openssl").unwrap()
    }

    fn measured(cpu_us: f64) -> Profile {
        let openssl = openssl();
        let description = openssl.description();
        let points = vec![Point { bytes: 4096, wall_us: cpu_us, cpu_us, hidden_us: 0.0 }];
        let engine = EngineProfile {
            name: description.name.clone(),
            kind: description.kind,
            detail: description.detail.clone(),
            depth: 1,
            batch: 1,
            bytes: 0,
            points,
            points_at_depth: Vec::new(),
            open_us: 0.0,
        };
        Profile {
            machine: "this".to_owned(),
            cores: 1,
            cipher: CIPHER.name().to_owned(),
            direction: Direction::Encrypt.to_string(),
            includes: Includes::Engine,
            engines: vec![engine],
        }
    }

    fn known(path: &Path) -> io::Result<Option<f64>> {
        let costs = load(path, &[&*openssl()], CIPHER, Direction::Encrypt)?;
        Ok(costs.engine("openssl").and_then(|known| known.cost(4096.0, 1.0)).map(|cost| cost.cpu))
    }

    #[test]
    fn what_was_measured_is_known_later() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("cache/evener/profile.json");
        for cpu_us in [10.0, 20.0] {
            keep_profile(&path, &measured(cpu_us)).unwrap();
            assert_eq!(known(&path).unwrap(), Some(cpu_us));
        }
        // The costs of another version or direction do not count.
        let other = load(&path, &[&*openssl()], CIPHER, Direction::Decrypt).unwrap();
        assert!(other.engine("openssl").is_none());
        let text = fs::read_to_string(&path).unwrap();
        let detail = openssl().description().detail.clone();
        fs::write(&path, text.replace(&detail, "OpenSSL 0.9.8")).unwrap();
        assert_eq!(known(&path).unwrap(), None);
        // As `evener engines --measure --output` writes it.
        fs::write(&path, measured(30.0).to_json()).unwrap();
        assert_eq!(known(&path).unwrap(), Some(30.0));
    }

    #[test]
    fn a_broken_or_old_file_is_not_used_and_a_measurement_replaces_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("profile.json");
        for broken in ["", "{", "[]", "\0\0", r#"{"version": 1, "profiles": []}"#] {
            fs::write(&path, broken).unwrap();
            assert!(known(&path).is_err(), "{broken}");
            assert!(check_profile(&path).is_err(), "{broken}");
            keep_profile(&path, &measured(10.0)).unwrap();
            assert_eq!(known(&path).unwrap(), Some(10.0));
            check_profile(&path).unwrap();
        }
        // Valid profiles are used; `check_profile` reports the others.
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(r#""cores": 1"#, r#""cores": 0"#)).unwrap();
        assert_eq!(known(&path).unwrap(), None);
        assert!(check_profile(&path).unwrap_err().to_string().contains("needs a core"));
        assert!(keep_profile(Path::new("/proc/no/such/place"), &measured(10.0)).is_err());
    }

    #[test]
    fn what_can_be_no_such_file_is_neither_read_nor_replaced() {
        let place = tempfile::tempdir().unwrap();
        let [long, pipe, device] = ["long", "pipe", "device"].map(|name| place.path().join(name));
        File::create(&long).unwrap().set_len(LONGEST + 1).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [long.as_path(), &pipe, &device, place.path()] {
            let before = fs::symlink_metadata(path).unwrap().file_type();
            assert!(known(path).is_err(), "{path:?}");
            assert!(keep_profile(path, &measured(10.0)).is_err(), "{path:?}");
            assert_eq!(fs::symlink_metadata(path).unwrap().file_type(), before, "{path:?}");
        }
        assert_eq!(fs::metadata(&long).unwrap().len(), LONGEST + 1);
    }

    #[test]
    fn programs_that_keep_profiles_at_once_leave_a_whole_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("profile.json");
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..20).for_each(|_| keep_profile(&path, &measured(10.0)).unwrap()));
            }
        });
        let files = fs::read_dir(place.path()).unwrap().count();
        assert_eq!((known(&path).unwrap(), files), (Some(10.0), 1));
    }
}
