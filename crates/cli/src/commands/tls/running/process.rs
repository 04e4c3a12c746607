//! A process in /proc.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::config::system_configuration;
use super::super::counters::{self, Count, LENGTH, Work};
use super::super::loaded::Loaded;
use super::super::services::Membership;
use crate::trouble::{Trouble, shown};

/// The report about a process.
#[derive(Clone)]
pub(super) struct Finding {
    pub(super) number: u32,
    pub(super) program: String,
    pub(super) has_openssl: bool,
    pub(super) is_loaded: bool,
    pub(super) library: String,
    pub(super) configuration: String,
    /// The file in which it counts, or the reason why it counts in none.
    pub(super) counting: Result<String, String>,
    pub(super) work: Work,
}

/// The processes of a service: those in its units' control groups, or, if there are none, those
/// with its programs' names.
pub(super) fn of(service: &Membership) -> Result<Vec<u32>, Trouble> {
    let numbers: Vec<u32> = fs::read_dir("/proc")
        .map_err(|cause| Trouble::File { action: "read", path: "/proc".into(), cause })?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let text = |number: &u32, name: &str| {
        let text = fs::read_to_string(format!("/proc/{number}/{name}"));
        text.unwrap_or_default().trim_end().to_owned()
    };
    let is_in_group = |number: &&u32| {
        text(number, "cgroup")
            .lines()
            .any(|line| line.split('/').any(|part| service.has_group(part)))
    };
    let in_group: Vec<u32> = numbers.iter().filter(is_in_group).copied().collect();
    let candidates = if in_group.is_empty() { &numbers } else { &in_group };
    let has_name = |number: &&u32| service.has_program(&text(number, "comm"), !in_group.is_empty());
    let mut found: Vec<u32> = candidates.iter().filter(has_name).copied().collect();
    found.sort_unstable();
    if found.is_empty() {
        return Err(Trouble::Usage(format!(
            "{}: no process of such a service runs; name processes with --pid",
            shown(service.name.as_ref())
        )));
    }
    Ok(found)
}

/// Looks at a process.
pub(super) fn look(number: u32) -> Result<Finding, Trouble> {
    let place = PathBuf::from(format!("/proc/{number}"));
    let read = |name: &str| {
        let path = place.join(name);
        fs::read(&path).map_err(|cause| Trouble::File { action: "read", path, cause })
    };
    let name = read("comm")?;
    let program = shown(Path::new(OsStr::from_bytes(name.trim_ascii_end()))).to_string();
    let maps = read("maps")?;
    let mapped: Vec<Mapping<'_>> =
        maps.split(|&byte| byte == b'\n').filter_map(Mapping::of).collect();
    let named = |start: &str| {
        // A library that could not be loaded may have left a mapping that isn't executable.
        mapped.iter().find(|mapping| mapping.is_executable && mapping.is_named(start))
    };
    let (library, openssl) = (named("evener.so"), named("libcrypto.so"));
    let environment = read("environ")?;
    let variable = environment
        .split(|&byte| byte == 0)
        .find_map(|line| line.strip_prefix(b"OPENSSL_CONF="))
        .map(|value| PathBuf::from(OsStr::from_bytes(value)));
    let configured = variable.clone().or_else(system_configuration).map(|path| Loaded::by(&path));
    let (counting, work) = match (library, counted(&place, &mapped)) {
        (None, _) => (Err("Evener is not loaded".to_owned()), Work::default()),
        (_, Some((place, work))) => (Ok(place), work),
        (_, None) => {
            let reason = match &configured {
                Some(Ok(Loaded { counters: None, .. })) => {
                    "its configuration has no line `counters` (`evener tls config --counters`)"
                }
                _ => "it has opened no file of counters; the program's log may say why",
            };
            (Err(reason.to_owned()), Work::default())
        }
    };
    Ok(Finding {
        number,
        program,
        has_openssl: library.or(openssl).is_some(),
        is_loaded: library.is_some(),
        library: words_of_library(library, openssl),
        configuration: words_of_configuration(variable.as_deref(), configured, library.is_some()),
        counting,
        work,
    })
}

fn words_of_library(library: Option<&Mapping<'_>>, openssl: Option<&Mapping<'_>>) -> String {
    match (library, openssl) {
        (Some(library), _) => {
            let replaced = match library.is_deleted {
                true => "; its file was since removed or replaced, and a restart takes the new one",
                false => "",
            };
            format!("{} is loaded{replaced}", shown(library.path))
        }
        (None, Some(openssl)) if openssl.is_named("libcrypto.so.1") => {
            format!("{} has no providers: Evener needs OpenSSL 3", shown(openssl.path))
        }
        (None, Some(openssl)) => format!("{} is loaded, and Evener is not", shown(openssl.path)),
        (None, None) => {
            "the system's OpenSSL is not loaded: the program has another one or none, or has not begun \
             with TLS"
                .to_owned()
        }
    }
}

fn words_of_configuration(
    variable: Option<&Path>,
    configured: Option<Result<Loaded, String>>,
    is_loaded: bool,
) -> String {
    let absent = match variable {
        Some(_) => String::new(),
        // Programs that show their activity in `ps` overwrite their environment.
        None => "its environment has no OPENSSL_CONF, or no longer; ".to_owned(),
    };
    let said = match configured {
        _ if variable.is_none() && is_loaded => "what it was started with can't be told".to_owned(),
        None => "there is none".to_owned(),
        Some(Err(reason)) => reason,
        Some(Ok(loaded)) => match (loaded.unfit(), loaded.counters) {
            (Some(reason), _) => reason,
            (None, counters) => {
                let path =
                    variable.map_or("the system's".to_owned(), |path| shown(path).to_string());
                let counters = counters.map_or(String::new(), |value| {
                    format!(", with `counters = {}`", shown(&value))
                });
                let again = match is_loaded {
                    true => "",
                    false => "; restart the program if it was started before that was written",
                };
                format!("{path} loads {}{counters}{again}", shown(&loaded.module))
            }
        },
    };
    absent + &said
}

/// Describes the file in which a process counts, and returns its counts.
fn counted(place: &Path, mapped: &[Mapping<'_>]) -> Option<(String, Work)> {
    let status = fs::read_to_string(place.join("status")).unwrap_or_default();
    // The process's number in its own namespace.
    let own = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:")?.split_whitespace().last()?.parse().ok());
    let is_shared = |mapping: &&Mapping<'_>| mapping.is_shared && mapping.length == LENGTH as u64;
    mapped.iter().filter(is_shared).find_map(|mapping| {
        // Root can open a mapped file even if it was removed or is in another root.
        let counts = File::open(place.join("map_files").join(mapping.range))
            .or_else(|cause| match same_file(mapping) {
                true => File::open(mapping.path),
                false => Err(cause),
            })
            .and_then(counters::read_open);
        let counts = match counts {
            Ok(counts) => counts,
            Err(_) if mapping.is_named("evener-tls") => Vec::new(),
            Err(_) => return None,
        };
        let mut work = Work::default();
        let is_own = |count: &&Count| Some(count.process) == own;
        counts.iter().filter(is_own).for_each(|count| work.add(&count.work));
        let removed = match mapping.is_deleted {
            true => ", which was removed: `evener tls status` shows nothing of it until a restart",
            false => "",
        };
        Some((format!("{}{removed}", shown(mapping.path)), work))
    })
}

/// Returns whether the path still names the mapped file.
fn same_file(mapping: &Mapping<'_>) -> bool {
    !mapping.is_deleted
        && fs::metadata(mapping.path).is_ok_and(|found| found.ino() == mapping.inode)
}

/// A line of `maps`.
struct Mapping<'m> {
    /// The addresses in the format of the names in `map_files`.
    range: &'m str,
    length: u64,
    inode: u64,
    is_executable: bool,
    is_shared: bool,
    path: &'m Path,
    is_deleted: bool,
}

impl Mapping<'_> {
    fn of(line: &[u8]) -> Option<Mapping<'_>> {
        let at = line.iter().position(|&byte| byte == b'/')?;
        let (fields, path) = line.split_at(at);
        let mut fields = str::from_utf8(fields).ok()?.split_whitespace();
        let (range, rights) = (fields.next()?, fields.next()?);
        let inode = fields.nth(2)?.parse().ok()?;
        let (begin, end) = range.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        let (path, is_deleted) = match path.strip_suffix(b" (deleted)") {
            Some(path) => (path, true),
            None => (path, false),
        };
        Some(Mapping {
            range: range.trim_start_matches('0'),
            length: address(end)?.checked_sub(address(begin)?)?,
            inode,
            is_executable: rights.contains('x'),
            is_shared: rights.ends_with('s'),
            path: Path::new(OsStr::from_bytes(path)),
            is_deleted,
        })
    }

    /// Returns whether its file's name begins with `start`.
    fn is_named(&self, start: &str) -> bool {
        let name = self.path.file_name().unwrap_or_default();
        name.as_bytes().starts_with(start.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_read() {
        let line = b"7f01-7f03 r-xp 00001000 fe:00 123    /a b/evener.so (deleted)";
        let mapping = Mapping::of(line).unwrap();
        assert_eq!((mapping.range, mapping.length, mapping.inode), ("7f01-7f03", 2, 123));
        assert!(mapping.is_executable && !mapping.is_shared && mapping.is_deleted);
        assert!(mapping.path == Path::new("/a b/evener.so") && mapping.is_named("evener.so"));
        for other in
            [&b""[..], b"7f01-7f03 rw-p 0 00:00 0", b"7f01-7f03 rw-p 0 0 0 [heap]", b"/x", b"\xFF/"]
        {
            assert!(Mapping::of(other).is_none());
        }
    }

    #[test]
    fn this_process_is_looked_at() {
        let found = look(std::process::id()).unwrap();
        assert!(!found.is_loaded);
        // The result depends on the build.
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert_eq!(found.has_openssl, maps.contains("/libcrypto.so"));
        assert_eq!(found.counting, Err("Evener is not loaded".to_owned()));
    }
}
