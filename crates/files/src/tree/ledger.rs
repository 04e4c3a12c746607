//! The ledger of a file: the outcome of each segment, and of the whole file.

use std::ops::Range;

use crate::FileError;

/// Keeps account of a file that is done in segments.
///
/// A segment is *claimed* by a worker and then settled exactly once: it was done, it failed, or
/// nobody will ever do it. A failure ends all claiming. When nothing is left to claim and nothing
/// claimed is unsettled, the file has ended, which one caller is told, once. It was done only if
/// every segment was settled as done: no missing failure stands for a success.
#[derive(Debug)]
pub(super) struct Ledger {
    segments: u64,
    /// The first unclaimed segment.
    next: u64,
    /// How many are claimed and not settled.
    at_work: u64,
    /// How many were done.
    done: u64,
    /// How many bytes those made.
    written: u64,
    /// Why the file fails; the first reason counts.
    failure: Option<FileError>,
    has_ended: bool,
}

/// How a file in segments has ended.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum End {
    /// Each of its segments was done; the total output in bytes.
    Done { written: u64 },
    /// It will never be done.
    Failed(FileError),
}

impl Ledger {
    /// This many segments, all unclaimed.
    pub(super) fn new(segments: u64) -> Ledger {
        Ledger {
            segments,
            next: 0,
            at_work: 0,
            done: 0,
            written: 0,
            failure: None,
            has_ended: false,
        }
    }

    /// Claims the next segment, or the next ones up to `most`: half of those that are left, so that
    /// other workers have something to do until the end. `None` where there is nothing left to do.
    pub(super) fn claim(&mut self, most: u64) -> Option<Range<u64>> {
        if !self.has_some_to_claim() {
            return None;
        }
        let count = (self.segments - self.next).div_ceil(2).min(most.max(1));
        let claimed = self.next..self.next + count;
        self.next = claimed.end;
        self.at_work += count;
        Some(claimed)
    }

    /// Whether anybody can still help.
    pub(super) fn has_some_to_claim(&self) -> bool {
        self.failure.is_none() && self.next < self.segments
    }

    /// Whether a segment that is claimed need not be done any more.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Takes back the claim of the segments that were claimed last, and that must be the next.
    pub(super) fn give_back(&mut self, claimed: &Range<u64>) {
        self.next = claimed.start;
        self.at_work -= claimed.end - claimed.start;
    }

    /// So many claimed segments were done, with this many bytes of output.
    pub(super) fn done(&mut self, segments: u64, written: u64) -> Option<End> {
        self.at_work -= segments;
        self.done += segments;
        self.written += written;
        self.end()
    }

    /// So many claimed segments will never be done.
    pub(super) fn failed(&mut self, segments: u64, error: FileError) -> Option<End> {
        self.at_work -= segments;
        self.give_up(error)
    }

    /// Unclaimed segments will not be done.
    pub(super) fn give_up(&mut self, error: FileError) -> Option<End> {
        self.failure.get_or_insert(error);
        self.end()
    }

    fn end(&mut self) -> Option<End> {
        if self.has_ended || self.at_work > 0 || self.has_some_to_claim() {
            return None;
        }
        self.has_ended = true;
        Some(match &self.failure {
            None if self.done == self.segments => End::Done { written: self.written },
            None => End::Failed(FileError::Refused(UNACCOUNTED.to_owned())),
            Some(error) => End::Failed(error.clone()),
        })
    }
}

const UNACCOUNTED: &str = "not all of it was processed, so it was not done";

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known from outside about a file, along one course of events.
    #[derive(Clone)]
    struct Course {
        /// Segments that workers have.
        claimed: Vec<Range<u64>>,
        done: u64,
        failures: u32,
        ends: u32,
    }

    fn copy(ledger: &Ledger) -> Ledger {
        Ledger { failure: ledger.failure.clone(), ..*ledger }
    }

    fn check(course: &mut Course, ledger: &Ledger, end: Option<End>) {
        let Some(end) = end else { return };
        course.ends += 1;
        assert!(course.claimed.is_empty(), "it ended while a segment was at work");
        match end {
            End::Done { written } => {
                assert_eq!((course.done, course.failures), (ledger.segments, 0));
                assert_eq!(written, 10 * ledger.segments);
            }
            End::Failed(_) => assert!(course.failures > 0),
        }
    }

    /// Follows every course that events can take with at most so many workers and failures.
    fn follow(ledger: &Ledger, course: &Course, workers: usize, failures: u32, courses: &mut u64) {
        let mut moved = false;
        if course.claimed.len() < workers && ledger.has_some_to_claim() {
            for most in 1..=2 {
                let (mut ledger, mut course) = (copy(ledger), course.clone());
                course.claimed.push(ledger.claim(most).unwrap());
                follow(&ledger, &course, workers, failures, courses);
            }
            moved = true;
        }
        for at in 0..course.claimed.len() {
            moved = true;
            let mut next = course.clone();
            let claimed = next.claimed.remove(at);
            let segments = claimed.end - claimed.start;
            let mut done = copy(ledger);
            next.done += segments;
            let end = done.done(segments, 10 * segments);
            check(&mut next, &done, end);
            follow(&done, &next, workers, failures, courses);
            if course.failures < failures {
                let mut next = course.clone();
                next.claimed.remove(at);
                next.failures += 1;
                let mut failed = copy(ledger);
                let end = failed.failed(segments, FileError::Interrupted);
                check(&mut next, &failed, end);
                follow(&failed, &next, workers, failures, courses);
            }
        }
        // An invitation to help that nobody will follow.
        if course.failures < failures && ledger.has_some_to_claim() {
            moved = true;
            let (mut ledger, mut course) = (copy(ledger), course.clone());
            course.failures += 1;
            let end = ledger.give_up(FileError::Interrupted);
            check(&mut course, &ledger, end);
            follow(&ledger, &course, workers, failures, courses);
        }
        if !moved {
            assert_eq!(course.ends, 1, "every file ends, once");
            *courses += 1;
        }
    }

    #[test]
    fn a_file_ends_once_and_is_done_only_if_every_segment_was() {
        let course = Course { claimed: Vec::new(), done: 0, failures: 0, ends: 0 };
        let mut courses = 0;
        for segments in 1..=4 {
            for workers in 1..=3 {
                follow(&Ledger::new(segments), &course, workers, 2, &mut courses);
            }
        }
        assert!(courses > 1000, "{courses}");
    }

    #[test]
    fn a_segment_that_is_given_back_is_claimed_again() {
        let mut ledger = Ledger::new(2);
        assert_eq!(ledger.claim(1), Some(0..1));
        ledger.give_back(&(0..1));
        assert_eq!(ledger.claim(9), Some(0..1));
        assert_eq!(ledger.done(1, 3), None);
        assert_eq!(ledger.claim(9), Some(1..2));
        assert_eq!(ledger.done(1, 4), Some(End::Done { written: 7 }));
        assert_eq!(ledger.give_up(FileError::Interrupted), None);
    }

    #[test]
    fn after_a_failure_nothing_is_left_to_claim() {
        let mut ledger = Ledger::new(u64::MAX);
        ledger.claim(3);
        assert_eq!(ledger.failed(3, FileError::Changed), Some(End::Failed(FileError::Changed)));
        assert_eq!(ledger.claim(1), None);
    }
}
