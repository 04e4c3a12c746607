//! The identity of a process at the gate, unique in 48 bits.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

/// A process: its id (22 bits, Linux' limit) and when it started (the low 26 bits of the clock
/// ticks since boot, which come round after 7.7 days).
///
/// Process ids are reused; the start time distinguishes the processes. Both fit into one word with
/// a 16-bit tag, so one compare-and-exchange takes a place and records its owner: a taken place
/// always has a known owner.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity(u64);

impl Identity {
    /// The number of bits of an identity.
    pub(crate) const BITS: u32 = PROCESS_BITS + START_BITS;

    /// An identity from its parts; excess bits are cut off.
    pub(crate) fn new(process: u32, start: u64) -> Identity {
        let start = start & ((1 << START_BITS) - 1);
        Identity(start << PROCESS_BITS | u64::from(process) & PROCESS_MASK)
    }

    /// This process, from `/proc/self/stat`.
    pub(crate) fn of_this_process() -> io::Result<Identity> {
        let stat = Stat::read("self")?
            .ok_or_else(|| io::Error::other("/proc/self/stat is not as proc(5) has it"))?;
        Ok(Identity::new(std::process::id(), stat.start))
    }

    pub(crate) fn from_bits(bits: u64) -> Option<Identity> {
        (bits & PROCESS_MASK != 0).then_some(Identity(bits))
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// The process id.
    pub(crate) fn process(self) -> u32 {
        (self.0 & PROCESS_MASK) as u32
    }

    /// The state of the process, from `/proc`; takes some microseconds.
    ///
    /// If `/proc` hides other users' processes or can't be read now, the process counts as
    /// running while its id is in use: releasing its permit late is better than releasing it
    /// wrongly.
    pub(crate) fn fate(self) -> Fate {
        let process = self.process();
        let Ok(stat) = Stat::read(process) else {
            return if is_id_in_use(process) { Fate::Running } else { Fate::Dead };
        };
        match stat {
            None => Fate::Running,
            Some(stat) if Identity::new(process, stat.start) != self => Fate::Dead,
            // A process whose first thread has ended looks like a zombie while its other threads
            // run.
            Some(Stat { state: b'Z', threads: 0 | 1, .. }) => Fate::Dead,
            Some(Stat { state: b'X' | b'x', .. }) => Fate::Dead,
            Some(Stat { state: b'T' | b't', .. }) => Fate::Stopped,
            Some(_) => Fate::Running,
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} started {}", self.process(), self.0 >> PROCESS_BITS)
    }
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Running,
    /// By a signal (`SIGSTOP`, job control) or by a debugger.
    Stopped,
    Dead,
}

/// The fields of `/proc/PID/stat` (proc(5)) that the gate uses.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: u8,
    threads: u64,
    start: u64,
}

impl Stat {
    /// Returns `None` if the line does not have the format of proc(5).
    fn read(process: impl fmt::Display) -> io::Result<Option<Stat>> {
        let mut line = [0; LONGEST_LINE];
        let length = File::open(format!("/proc/{process}/stat"))?.read(&mut line)?;
        Ok(Stat::parse(&line[..length]))
    }

    fn parse(line: &[u8]) -> Option<Stat> {
        // The second field is the program's name in parentheses and may hold any byte.
        let name_end = line.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(&line[name_end + 1..]).ok()?;
        let field = |number: usize| rest.split_ascii_whitespace().nth(number - 3);
        Some(Stat {
            state: *field(3)?.as_bytes().first()?,
            threads: field(20)?.parse().ok()?,
            start: field(22)?.parse().ok()?,
        })
    }
}

fn is_id_in_use(process: u32) -> bool {
    i32::try_from(process)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .is_some_and(|id| rustix::process::test_kill_process(id) != Err(rustix::io::Errno::SRCH))
}

/// 52 numbers of at most 21 bytes with their spaces, and a name of at most 64.
const LONGEST_LINE: usize = 1280;

const PROCESS_BITS: u32 = 22;
const START_BITS: u32 = 26;
const PROCESS_MASK: u64 = (1 << PROCESS_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs() {
        let identity = Identity::of_this_process().unwrap();
        assert_eq!(identity.process(), std::process::id());
        assert_eq!(identity.fate(), Fate::Running);
        assert_eq!(Identity::from_bits(identity.bits()), Some(identity));
        assert!(identity.bits() >> Identity::BITS == 0);
    }

    #[test]
    fn an_id_in_other_hands_is_dead() {
        let identity = Identity::of_this_process().unwrap();
        let earlier = Identity::new(identity.process(), (identity.0 >> PROCESS_BITS) ^ 1);
        assert_eq!(earlier.fate(), Fate::Dead);
        // Above the highest id that Linux gives.
        assert_eq!(Identity::new(PROCESS_MASK as u32, 1).fate(), Fate::Dead);
    }

    #[test]
    fn a_killed_process_is_dead_before_its_parent_asks() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let start = Stat::read(child.id()).unwrap().unwrap().start;
        let identity = Identity::new(child.id(), start);
        assert_ne!(identity.fate(), Fate::Dead);
        child.kill().unwrap();
        while identity.fate() != Fate::Dead {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(identity.fate(), Fate::Dead);
    }

    #[test]
    fn a_name_with_parentheses_reads() {
        let line = b"7 (a) R (b)) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 12345 0";
        assert_eq!(Stat::parse(line), Some(Stat { state: b'S', threads: 3, start: 12345 }));
        assert_eq!(Stat::parse(b"7 (a"), None);
        assert_eq!(Stat::parse(b"7 (a) S 1"), None);
    }
}
