//! The file in which processes count their records. `bindings/openssl/src/counters` writes it and
//! says what is in it.

use std::cmp::Reverse;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::Serialize;

/// What a process has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Count {
    /// Its number; 0 for processes that have ended.
    pub(super) process: u32,
    pub(super) program: String,
    pub(super) has_ended: bool,
    pub(super) encrypted_records: u64,
    pub(super) encrypted_bytes: u64,
    pub(super) decrypted_records: u64,
    pub(super) decrypted_bytes: u64,
    /// Records whose tag was wrong.
    pub(super) forged_records: u64,
    /// Of all records those that a module did, in whole or in part, and the bytes that it did.
    pub(super) module_records: u64,
    pub(super) module_bytes: u64,
}

impl Count {
    fn of(line: &[u8]) -> Count {
        let mut numbers =
            line.chunks_exact(8).map(|bytes| bytes.try_into().map_or(0, u64::from_ne_bytes));
        let mut next = || numbers.next().unwrap_or_default();
        let process = u32::try_from(next()).unwrap_or_default();
        let [encrypted_records, encrypted_bytes, decrypted_records, decrypted_bytes, forged] =
            [next(), next(), next(), next(), next()];
        let [module_records, module_bytes] = [next(), next()];
        let name = line[LINE - 16..].split(|&byte| byte == 0).next().unwrap_or_default();
        Count {
            process,
            program: String::from_utf8_lossy(name).into_owned(),
            has_ended: !lives(process),
            encrypted_records,
            encrypted_bytes,
            decrypted_records,
            decrypted_bytes,
            forged_records: forged,
            module_records,
            module_bytes,
        }
    }

    /// All records.
    pub(super) fn records(&self) -> u64 {
        self.encrypted_records.saturating_add(self.decrypted_records)
    }

    /// All bytes of their text.
    pub(super) fn bytes(&self) -> u64 {
        self.encrypted_bytes.saturating_add(self.decrypted_bytes)
    }

    fn is_empty(&self) -> bool {
        self.records() == 0 && self.forged_records == 0 && (self.process == 0 || self.has_ended)
    }
}

/// The counts of a file, which may have to belong to a user.
pub(super) fn read(path: &Path, owner: Option<u32>) -> io::Result<Vec<Count>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|cause| {
        match cause.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            true => io::Error::other("it is a symbolic link, which no process counts in"),
            false => cause,
        }
    })?;
    let mut bytes = Vec::new();
    let found = file.metadata()?;
    if owner.is_some_and(|owner| found.uid() != owner) {
        return Err(io::Error::other("another user has put it there, and no process counts in it"));
    }
    let is_file = found.is_file();
    if is_file {
        file.take((LINES * LINE) as u64 + 1).read_to_end(&mut bytes)?;
    }
    // A process makes it empty, then of its length, then what it is.
    let is_begun = is_file && [0, LINES * LINE].contains(&bytes.len());
    if is_begun && bytes.iter().all(|&byte| byte == 0) {
        return Ok(Vec::new());
    }
    if bytes.len() != LINES * LINE || !bytes.starts_with(&MAGIC.to_ne_bytes()) {
        return Err(io::Error::other("it is no file of counters"));
    }
    let counts = bytes.chunks_exact(LINE).skip(1).map(Count::of);
    Ok(counts.filter(|count| !count.is_empty()).collect())
}

/// Puts first what lives, and of that, as of the rest, first what did most.
pub(super) fn sort(counts: &mut [Count]) {
    counts.sort_by_key(|count| (count.has_ended, Reverse(count.bytes()), count.process));
}

fn lives(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| !matches!(test_kill_process(process), Err(Errno::SRCH)))
}

const MAGIC: u64 = u64::from_be_bytes(*b"EVNRTLS2");
const LINE: usize = 128;
const LINES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_or_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("counters");
        for begun in [vec![], vec![0; LINES * LINE]] {
            std::fs::write(&path, begun).unwrap();
            assert_eq!(read(&path, None).unwrap(), []);
        }
        for wrong in [vec![0], vec![7; LINES * LINE], vec![0; LINES * LINE + 1]] {
            std::fs::write(&path, wrong).unwrap();
            assert!(read(&path, None).is_err());
        }
        assert!(read(directory.path(), None).is_err());
        let mut bytes = vec![0; LINES * LINE];
        bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        let numbers = [std::process::id().into(), 1, 2, 3, 4, 5, 6, 7_u64];
        for (place, number) in numbers.iter().enumerate() {
            bytes[2 * LINE + 8 * place..][..8].copy_from_slice(&number.to_ne_bytes());
        }
        bytes[3 * LINE - 16..][..4].copy_from_slice(b"curl");
        std::fs::write(&path, bytes).unwrap();
        let [count] = &read(&path, None).unwrap()[..] else { panic!("one line has something") };
        assert_eq!((count.process, &*count.program), (std::process::id(), "curl"));
        assert_eq!((count.records(), count.bytes(), count.forged_records), (4, 6, 5));
        assert_eq!((count.module_records, count.module_bytes), (6, 7));
        assert!(!count.has_ended);
        let user = rustix::process::geteuid().as_raw();
        assert!(read(&path, Some(user)).is_ok());
        assert!(read(&path, Some(user + 1)).unwrap_err().to_string().contains("another user"));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read(&link, None).unwrap_err().to_string().contains("symbolic link"));
    }

    #[test]
    fn what_lives_and_did_most_is_first() {
        let count = |process, has_ended, encrypted_bytes| Count {
            process,
            has_ended,
            encrypted_bytes,
            ..Count::default()
        };
        let mut counts =
            [count(0, true, 9), count(1, true, 10), count(2, false, 1), count(3, false, 2)];
        sort(&mut counts);
        assert_eq!(counts.map(|count| count.process), [3, 2, 1, 0]);
    }
}
