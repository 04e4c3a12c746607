//! The file in which processes count their records. `bindings/openssl/src/counters` writes it and
//! documents its content.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::Serialize;

/// A process and its work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Count {
    /// Its number; 0 for processes that have ended and were added up.
    pub(super) process: u32,
    /// Empty if such processes had several programs.
    pub(super) program: String,
    pub(super) has_ended: bool,
    #[serde(flatten)]
    pub(super) work: Work,
}

/// Records and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Work {
    pub(super) encrypted_records: u64,
    pub(super) encrypted_bytes: u64,
    pub(super) decrypted_records: u64,
    pub(super) decrypted_bytes: u64,
    /// Records whose tag was wrong.
    pub(super) forged_records: u64,
    /// The records that a module processed, in whole or in part, and the bytes that it processed;
    /// they are part of the totals.
    pub(super) module_records: u64,
    pub(super) module_bytes: u64,
    /// The time of the last record, in seconds since 1970; `None` if there was none, or an older
    /// provider processed it.
    pub(super) last_seen: Option<u64>,
}

impl Count {
    fn of(line: &[u8]) -> Count {
        let mut numbers =
            line.chunks_exact(8).map(|bytes| bytes.try_into().map_or(0, u64::from_ne_bytes));
        let mut next = || numbers.next().unwrap_or_default();
        let process = u32::try_from(next()).unwrap_or_default();
        let work = Work {
            encrypted_records: next(),
            encrypted_bytes: next(),
            decrypted_records: next(),
            decrypted_bytes: next(),
            forged_records: next(),
            module_records: next(),
            module_bytes: next(),
            last_seen: Some(next()).filter(|&seconds| seconds > 0),
        };
        let name = line[LINE - 16..].split(|&byte| byte == 0).next().unwrap_or_default();
        let program = String::from_utf8_lossy(name).into_owned();
        Count { process, program, has_ended: !lives(process), work }
    }

    fn is_empty(&self) -> bool {
        let is_idle = self.work.records() == 0 && self.work.forged_records == 0;
        is_idle && (self.process == 0 || self.has_ended)
    }
}

impl Work {
    /// All records.
    pub(super) fn records(&self) -> u64 {
        self.encrypted_records.saturating_add(self.decrypted_records)
    }

    /// All bytes of their text.
    pub(super) fn bytes(&self) -> u64 {
        self.encrypted_bytes.saturating_add(self.decrypted_bytes)
    }

    /// Adds the work of another process.
    pub(super) fn add(&mut self, other: &Work) {
        for (sum, number) in [
            (&mut self.encrypted_records, other.encrypted_records),
            (&mut self.encrypted_bytes, other.encrypted_bytes),
            (&mut self.decrypted_records, other.decrypted_records),
            (&mut self.decrypted_bytes, other.decrypted_bytes),
            (&mut self.forged_records, other.forged_records),
            (&mut self.module_records, other.module_records),
            (&mut self.module_bytes, other.module_bytes),
        ] {
            *sum = sum.saturating_add(number);
        }
        self.last_seen = self.last_seen.max(other.last_seen);
    }
}

/// The work of a program's processes, including those that have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) program: String,
    /// The number of its processes that live.
    pub(super) living: usize,
    pub(super) work: Work,
}

/// Adds up processes by program; the program with the most bytes comes first.
pub(super) fn totals(counts: &[Count]) -> Vec<Total> {
    let mut totals = BTreeMap::<&str, Total>::new();
    for count in counts {
        let total = totals.entry(&count.program).or_default();
        total.program.clone_from(&count.program);
        total.living += usize::from(!count.has_ended);
        total.work.add(&count.work);
    }
    let mut totals: Vec<_> = totals.into_values().collect();
    totals.sort_by_key(|total| Reverse(total.work.bytes()));
    totals
}

/// Reads the counts of a file, which may have to belong to a user.
pub(super) fn read(path: &Path, owner: Option<u32>) -> io::Result<Vec<Count>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|cause| {
        match cause.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            true => io::Error::other("it is a symbolic link, which no process counts in"),
            false => cause,
        }
    })?;
    if let Some(owner) = owner
        && file.metadata()?.uid() != owner
    {
        return Err(io::Error::other("another user has put it there, and no process counts in it"));
    }
    read_open(file)
}

/// Reads the counts of an open file.
pub(super) fn read_open(file: File) -> io::Result<Vec<Count>> {
    let mut bytes = Vec::new();
    let found = file.metadata()?;
    let is_file = found.is_file();
    if is_file {
        file.take((LINES * LINE) as u64 + 1).read_to_end(&mut bytes)?;
    }
    // A process creates the file empty, then extends it, then fills it.
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

/// Puts live processes first, and within both groups those with the most bytes.
pub(super) fn sort(counts: &mut [Count]) {
    counts.sort_by_key(|count| (count.has_ended, Reverse(count.work.bytes()), count.process));
}

fn lives(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| !matches!(test_kill_process(process), Err(Errno::SRCH)))
}

const MAGIC: u64 = u64::from_be_bytes(*b"EVNRTLS2");
const LINE: usize = 128;
const LINES: usize = 256;

/// The length of a file, in bytes.
pub(super) const LENGTH: usize = LINES * LINE;

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
        let numbers = [std::process::id().into(), 1, 2, 3, 4, 5, 6, 7, 8_u64];
        for (place, number) in numbers.iter().enumerate() {
            bytes[2 * LINE + 8 * place..][..8].copy_from_slice(&number.to_ne_bytes());
        }
        bytes[3 * LINE - 16..][..4].copy_from_slice(b"curl");
        std::fs::write(&path, bytes).unwrap();
        let [count] = &read(&path, None).unwrap()[..] else { panic!("one line has something") };
        assert_eq!((count.process, &*count.program), (std::process::id(), "curl"));
        let work = &count.work;
        assert_eq!((work.records(), work.bytes(), work.forged_records), (4, 6, 5));
        assert_eq!((work.module_records, work.module_bytes, work.last_seen), (6, 7, Some(8)));
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
            work: Work { encrypted_bytes, ..Work::default() },
            ..Count::default()
        };
        let mut counts =
            [count(0, true, 9), count(1, true, 10), count(2, false, 1), count(3, false, 2)];
        sort(&mut counts);
        assert_eq!(counts.map(|count| count.process), [3, 2, 1, 0]);
    }

    #[test]
    fn processes_are_added_up_by_program() {
        let count = |program: &str, has_ended, encrypted_bytes, last_seen| Count {
            program: program.to_owned(),
            has_ended,
            work: Work { encrypted_bytes, last_seen, ..Work::default() },
            ..Count::default()
        };
        let found = totals(&[
            count("a", false, 1, Some(5)),
            count("b", true, u64::MAX, None),
            count("a", true, 2, Some(9)),
            count("b", false, 1, Some(3)),
        ]);
        let seen = |total: &Total| {
            (total.program.clone(), total.living, total.work.bytes(), total.work.last_seen)
        };
        let expected = [("b".to_owned(), 1, u64::MAX, Some(3)), ("a".to_owned(), 1, 3, Some(9))];
        assert_eq!(found.iter().map(seen).collect::<Vec<_>>(), expected);
    }
}
