//! Counts the work of a user's processes in a file that they share; `evener tls status` reads it.
//! Nothing is counted unless the configuration asks for it.
//!
//! The file has lines of 128 bytes of numbers in the machine's byte order: [`MAGIC`]; a line for
//! processes that have ended and have no line below, and for those that found no line; then a line
//! for each process. A process that ends leaves its line. If few lines are free, a process that
//! starts or forks keeps one for each program ([`SUMMED`]) and adds the others to it. The file is
//! opened when the provider is loaded, and belongs to the process's user at that time: a server's
//! workers still count in it once they have another root, another user and no right to open files.

mod once;
#[allow(unsafe_code)]
mod sys;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use evener_core::Direction;

use crate::config::Counting;
pub(crate) use once::warn_once;

/// A line of the file: the counters of a process.
#[repr(C)]
struct Line {
    /// The process, [`FREE`], [`CLEARED`] or [`SUMMED`].
    process: AtomicU64,
    sealed: Sum,
    opened: Sum,
    /// Records whose tag was wrong.
    forged: AtomicU64,
    /// The records that a module computed, in whole or in part, and the bytes that it computed.
    by_module: Sum,
    /// The time of its last record, in seconds since 1970.
    last: AtomicU64,
    /// Reserved for further counters.
    _unused: [AtomicU64; 5],
    /// The program's name.
    name: [AtomicU64; 2],
}

/// Records, and bytes of their text.
#[repr(C)]
struct Sum {
    records: AtomicU64,
    bytes: AtomicU64,
}

/// Applies the configuration.
pub(crate) fn configure(counting: Counting) {
    let wanted = match counting {
        Counting::Off => return,
        Counting::On => sys::want(None),
        Counting::At(path) => sys::want(Some(path)),
    };
    if let Err(trouble) = wanted {
        warn_once(&trouble);
    }
}

/// Counts a record of this many bytes that was encrypted or decrypted, in GCM only if it is
/// genuine.
#[inline]
pub(crate) fn done(direction: Direction, bytes: u64) {
    if let Some(line) = sys::line() {
        let sum = match direction {
            Direction::Encrypt => &line.sealed,
            Direction::Decrypt => &line.opened,
        };
        sum.records.fetch_add(1, Ordering::Relaxed);
        sum.bytes.fetch_add(bytes, Ordering::Relaxed);
        line.last.store(sys::now(), Ordering::Relaxed);
    }
}

/// Counts a module's part of a record, if it computed any.
#[inline]
pub(crate) fn by_module(bytes: u64) {
    if bytes > 0
        && let Some(line) = sys::line()
    {
        line.by_module.records.fetch_add(1, Ordering::Relaxed);
        line.by_module.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Counts a record whose tag was wrong.
pub(crate) fn forged() {
    if let Some(line) = sys::line() {
        line.forged.fetch_add(1, Ordering::Relaxed);
    }
}

/// The user's file: in the user's own directory, or where all may write. The system removes the
/// former when the user logs out, but root's servers go on.
fn usual_place(user: u32, has_own: bool) -> PathBuf {
    if has_own && user != 0 {
        format!("/run/user/{user}/evener-tls").into()
    } else {
        format!("/dev/shm/evener-tls-{user}").into()
    }
}

/// Takes a free line of a file for a process. A process that finds none is counted with those that
/// have ended.
fn take(lines: &[Line], process: u64, name: [u64; 2]) -> Option<&Line> {
    let [_, total, rest @ ..] = lines else { return None };
    for line in rest {
        let holder = line.process.load(Ordering::Relaxed);
        // A line with this process's number belongs to an earlier program.
        if (holder == FREE || holder == process) && line.swap(holder, process) {
            line.give_to(sum_of(rest, line).unwrap_or(total));
            line.name[0].store(name[0], Ordering::Relaxed);
            line.name[1].store(name[1], Ordering::Relaxed);
            return Some(line);
        }
    }
    Some(total)
}

/// Frees the lines of ended processes if few lines are free. A process that takes a line can't do
/// this: a signal may end it when it tests for another process.
fn make_room(lines: &[Line], lives: impl Fn(u64) -> bool) {
    let [_, total, rest @ ..] = lines else { return };
    let holder = |line: &Line| line.process.load(Ordering::Relaxed);
    if rest.iter().filter(|line| holder(line) == FREE).count() >= SPARE {
        return;
    }
    for line in rest {
        let process = holder(line);
        if [FREE, SUMMED].contains(&process) || lives(process) {
            continue;
        }
        let of_program = sum_of(rest, line);
        let has_room = || sums(rest).count() < MOST_SUMMED;
        if of_program.is_none() && process != CLEARED && has_room() {
            line.swap(process, SUMMED);
        } else if line.swap(process, CLEARED) {
            line.give_to(of_program.unwrap_or(total));
            line.process.store(FREE, Ordering::Relaxed);
        }
    }
}

/// The lines that sum up ended processes.
fn sums(lines: &[Line]) -> impl Iterator<Item = &Line> {
    lines.iter().filter(|line| line.process.load(Ordering::Relaxed) == SUMMED)
}

/// The line that sums up a line's program.
fn sum_of<'l>(lines: &'l [Line], line: &Line) -> Option<&'l Line> {
    sums(lines).find(|sum| sum.program() == line.program())
}

impl Line {
    /// Hands the line to `next` if it is still `holder`'s.
    fn swap(&self, holder: u64, next: u64) -> bool {
        let relaxed = Ordering::Relaxed;
        self.process.compare_exchange(holder, next, relaxed, relaxed).is_ok()
    }

    /// Moves all counters to another line.
    fn give_to(&self, other: &Line) {
        for (from, to) in [
            (&self.sealed.records, &other.sealed.records),
            (&self.sealed.bytes, &other.sealed.bytes),
            (&self.opened.records, &other.opened.records),
            (&self.opened.bytes, &other.opened.bytes),
            (&self.forged, &other.forged),
            (&self.by_module.records, &other.by_module.records),
            (&self.by_module.bytes, &other.by_module.bytes),
        ] {
            to.fetch_add(from.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
        other.last.fetch_max(self.last.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The program's name.
    fn program(&self) -> [u64; 2] {
        [&self.name[0], &self.name[1]].map(|half| half.load(Ordering::Relaxed))
    }
}

/// The first number of the file: `EVNRTLS2`, read as a big-endian number.
const MAGIC: u64 = u64::from_be_bytes(*b"EVNRTLS2");

/// The number of lines.
const LINES: usize = 256;

/// The holder of a free line.
const FREE: u64 = 0;

/// The holder of a line that is being freed. No such process exists, so an interrupted freeing is
/// completed later.
const CLEARED: u64 = u64::MAX;

/// The holder of a line that sums up ended processes of its program.
const SUMMED: u64 = u64::MAX - 1;

/// The most programs with such a line.
const MOST_SUMMED: usize = 64;

/// The number of lines to keep free for new processes.
const SPARE: usize = 32;

const _: () = assert!(size_of::<Line>() == 128);

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<Line> {
        let none = || AtomicU64::new(0);
        let sum = || Sum { records: none(), bytes: none() };
        let line = || Line {
            process: none(),
            sealed: sum(),
            opened: sum(),
            forged: none(),
            by_module: sum(),
            last: none(),
            _unused: std::array::from_fn(|_| none()),
            name: [none(), none()],
        };
        (0..5).map(|_| line()).collect()
    }

    #[test]
    fn lines_of_processes_that_ended_are_added_up_and_taken_again() {
        let lines = lines();
        for process in [10, 11, 12] {
            let line = take(&lines, process, [1, 2]).unwrap();
            line.sealed.bytes.fetch_add(process, Ordering::Relaxed);
        }
        assert!(std::ptr::eq(take(&lines, 13, [0; 2]).unwrap(), &lines[1]));
        lines[3].last.store(99, Ordering::Relaxed);
        make_room(&lines, |process| process == 12);
        // The first line stays for the program.
        assert_eq!(lines[2].process.load(Ordering::Relaxed), SUMMED);
        assert_eq!(lines[2].sealed.bytes.load(Ordering::Relaxed), 21);
        assert_eq!((lines[2].program(), lines[2].last.load(Ordering::Relaxed)), ([1, 2], 99));
        let line = take(&lines, 14, [3, 4]).unwrap();
        assert!(std::ptr::eq(line, &lines[3]));
        assert_eq!(line.sealed.bytes.load(Ordering::Relaxed), 0);
        // A program that replaced another one in its process.
        assert!(std::ptr::eq(take(&lines, 12, [5, 6]).unwrap(), &lines[4]));
        assert_eq!(lines[2].sealed.bytes.load(Ordering::Relaxed), 33);
    }

    #[test]
    fn programs_without_a_line_of_their_own_are_added_up_together() {
        let lines: Vec<_> = (0..16).flat_map(|_| self::lines()).collect();
        for place in 0..MOST_SUMMED as u64 + 5 {
            take(&lines, 1000 + place, [place, 0])
                .unwrap()
                .sealed
                .bytes
                .store(1, Ordering::Relaxed);
        }
        make_room(&lines, |_| false);
        let of = |holder| {
            lines[2..].iter().filter(|line| line.process.load(Ordering::Relaxed) == holder).count()
        };
        assert_eq!((of(SUMMED), of(FREE)), (MOST_SUMMED, lines.len() - 2 - MOST_SUMMED));
        assert_eq!(lines[1].sealed.bytes.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn a_line_that_nobody_went_on_to_free_is_freed() {
        let lines = lines();
        lines[2].process.store(CLEARED, Ordering::Relaxed);
        make_room(&lines, |process| process < 100);
        assert!(std::ptr::eq(take(&lines, 7, [0; 2]).unwrap(), &lines[2]));
    }

    #[test]
    fn where_many_lines_are_free_those_of_ended_processes_stay() {
        let mut lines = lines();
        (0..SPARE).for_each(|_| lines.extend(self::lines()));
        take(&lines, 7, [0; 2]).unwrap();
        make_room(&lines, |_| false);
        assert_eq!(lines[2].process.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn the_place_belongs_to_the_user() {
        assert_eq!(usual_place(7, true), PathBuf::from("/run/user/7/evener-tls"));
        assert_eq!(usual_place(7, false), PathBuf::from("/dev/shm/evener-tls-7"));
        assert_eq!(usual_place(0, true), PathBuf::from("/dev/shm/evener-tls-0"));
    }
}
