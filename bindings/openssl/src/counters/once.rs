//! Gives a message once in a session (setsid(2)), since every process of it would give the same
//! one. A session is that of a server and its processes, or of a login and its programs. A server
//! that is started again gives it again.
//!
//! The file has a record for each message, which is appended: a hash of the message and its
//! session, and the process that gave it. If several processes append the same message at once, the
//! first one counts.

use std::fmt::Display;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, Write};

use super::sys;
use crate::warning::warn;

/// Prints a warning once in a session, since each process finds the same faults in its
/// configuration or its system.
pub(crate) fn warn_once(text: &dyn Display) {
    if is_first(&text.to_string()) {
        warn(text);
    }
}

/// Returns whether no process of the session has given this message; true if that can't be known.
fn is_first(text: &str) -> bool {
    let mut hasher = DefaultHasher::new();
    (sys::session(), text).hash(&mut hasher);
    let said = || is_first_in(&mut sys::open_said(MOST)?, hasher.finish(), sys::process());
    said().unwrap_or(true)
}

fn is_first_in(file: &mut File, said: u64, process: u64) -> io::Result<bool> {
    if teller(file, said)?.is_some() {
        return Ok(false);
    }
    if file.metadata()?.len() >= MOST as u64 {
        file.set_len(0)?;
    }
    file.write_all([said.to_ne_bytes(), process.to_ne_bytes()].as_flattened())?;
    Ok(teller(file, said)?.is_none_or(|teller| teller == process))
}

/// The first process that gave a message.
fn teller(file: &mut File, said: u64) -> io::Result<Option<u64>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(2 * MOST as u64).read_to_end(&mut bytes)?;
    let (records, _) = bytes.as_chunks::<16>();
    let first = records.iter().find(|record| record[..8] == said.to_ne_bytes());
    let process = |record: &[u8; 16]| record[8..].try_into().map(u64::from_ne_bytes).ok();
    Ok(first.and_then(process))
}

/// The size, in bytes, at which the file starts over.
const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_not_said_again() {
        let mut path = std::env::temp_dir();
        path.push(format!("evener-said-{}", std::process::id()));
        let open = || std::fs::OpenOptions::new().read(true).append(true).create(true).open(&path);
        let (mut file, mut other) = (open().unwrap(), open().unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(is_first_in(&mut file, 7, 1).unwrap());
        assert!(!is_first_in(&mut other, 7, 2).unwrap());
        assert!(is_first_in(&mut other, 8, 2).unwrap());
        // Two processes append at once: the first one gives the message.
        other.write_all([9_u64, 3, 9, 4].map(u64::to_ne_bytes).as_flattened()).unwrap();
        assert_eq!(teller(&mut file, 9).unwrap(), Some(3));
        for said in 100..1000 {
            assert!(is_first_in(&mut file, said, 1).unwrap());
        }
        assert!(file.metadata().unwrap().len() <= MOST as u64);
    }
}
