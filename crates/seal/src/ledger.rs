//! The ledger of an object: the outcome of each segment, and of the whole.

use std::ops::Range;

use crate::{FileError, Refusal};

/// Tracks an object that is processed in segments.
///
/// A segment is *claimed* by a worker and then settled exactly once: it was done, it failed, or no
/// worker will ever do it. A failure ends all claiming. When nothing is left to claim and every
/// claim is settled, the object has ended, which is reported to one caller, once. It was done
/// only if every segment was settled as done: a missing failure does not count as a success.
///
/// Each segment is known by its number, so that a segment done twice never counts for another.
/// Settling a segment twice, or an unclaimed one, fails the object at once: it is then unknown
/// whether the remaining claims will ever be settled.
#[derive(Debug)]
pub(crate) struct Ledger {
    segments: u64,
    /// The first unclaimed segment.
    next: u64,
    /// The settled segments, in order, with a gap between one range and the next. There are at most
    /// as many gaps as claims in progress.
    settled: Vec<Range<u64>>,
    /// The number of bytes that they produced.
    written: u64,
    /// The file's failure; the first one counts.
    failure: Option<FileError>,
    has_ended: bool,
}

/// The outcome of a file in segments.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum End {
    /// Each of its segments was done, once; the total output in bytes.
    Done { written: u64 },
    /// The file will never be done.
    Failed(FileError),
}

impl Ledger {
    /// A ledger of `segments` segments, all unclaimed.
    pub(crate) fn new(segments: u64) -> Ledger {
        Ledger {
            segments,
            next: 0,
            settled: Vec::new(),
            written: 0,
            failure: None,
            has_ended: false,
        }
    }

    /// Claims the next segment, or the next ones up to `most`: half of the remaining ones, so that
    /// other workers have something to do until the end. `None` if there is nothing left to do, or
    /// nothing less than `window` segments behind the first that is not settled. Whoever settles
    /// that one is to claim again.
    pub(crate) fn claim(&mut self, most: u64, window: u64) -> Option<Range<u64>> {
        let settled = self.settled.first().filter(|first| first.start == 0);
        let end = settled.map_or(0, |first| first.end).saturating_add(window);
        if !self.has_some_to_claim() || self.next >= end {
            return None;
        }
        let count = (self.segments - self.next).div_ceil(2).min(most.max(1)).min(end - self.next);
        let claimed = self.next..self.next + count;
        self.next = claimed.end;
        Some(claimed)
    }

    /// Returns whether another worker can still help.
    pub(crate) fn has_some_to_claim(&self) -> bool {
        self.failure.is_none() && self.next < self.segments
    }

    /// Returns whether claimed segments need no longer be done.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Records that these claimed segments were done, with this many bytes of output.
    pub(crate) fn done(&mut self, segments: &Range<u64>, written: u64) -> Option<End> {
        self.written = self.written.saturating_add(written);
        self.settle(segments)
    }

    /// Records that these claimed segments will never be done.
    pub(crate) fn failed(&mut self, segments: &Range<u64>, error: FileError) -> Option<End> {
        self.failure.get_or_insert(error);
        self.settle(segments)
    }

    /// Records that the unclaimed segments will not be done.
    pub(crate) fn give_up(&mut self, error: FileError) -> Option<End> {
        self.failure.get_or_insert(error);
        self.end()
    }

    fn settle(&mut self, segments: &Range<u64>) -> Option<End> {
        let at = self.settled.partition_point(|before| before.end <= segments.start);
        let is_settled = self.settled.get(at).is_some_and(|it| it.start < segments.end);
        if is_settled || segments.is_empty() || segments.end > self.next {
            return self.end_with(End::Failed(Refusal::Unaccounted.into()));
        }
        self.settled.insert(at, segments.clone());
        self.settled.dedup_by(|behind, before| {
            let has_no_gap = before.end == behind.start;
            if has_no_gap {
                before.end = behind.end;
            }
            has_no_gap
        });
        self.end()
    }

    fn end(&mut self) -> Option<End> {
        if !self.is_settled_up_to(self.next) || self.has_some_to_claim() {
            return None;
        }
        let end = match &self.failure {
            None if self.is_settled_up_to(self.segments) => End::Done { written: self.written },
            None => End::Failed(Refusal::Unaccounted.into()),
            Some(error) => End::Failed(error.clone()),
        };
        self.end_with(end)
    }

    fn is_settled_up_to(&self, end: u64) -> bool {
        match &self.settled[..] {
            [] => end == 0,
            [all] => *all == (0..end),
            _ => false,
        }
    }

    /// Ends the file, if it has not ended yet.
    fn end_with(&mut self, end: End) -> Option<End> {
        if std::mem::replace(&mut self.has_ended, true) {
            return None;
        }
        if let End::Failed(error) = &end {
            self.failure.get_or_insert_with(|| error.clone());
        }
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outside view of a file, along one course of events.
    #[derive(Clone, Default)]
    struct Course {
        /// Segments that workers hold.
        claimed: Vec<Range<u64>>,
        /// Segments that were done, once or more often.
        done: Vec<u64>,
        failures: u32,
        /// The number of times that a settled or unclaimed segment was settled.
        faults: u32,
        ends: u32,
    }

    /// The most events that may happen to a file.
    #[derive(Clone, Copy)]
    struct Limits {
        workers: usize,
        failures: u32,
        faults: u32,
    }

    type Event<'e> = &'e dyn Fn(&mut Ledger, &mut Course) -> Option<End>;

    fn copy(ledger: &Ledger) -> Ledger {
        let (failure, settled) = (ledger.failure.clone(), ledger.settled.clone());
        Ledger { failure, settled, ..*ledger }
    }

    fn check(course: &mut Course, ledger: &Ledger, end: Option<End>) {
        let gaps = course.claimed.len();
        assert!(ledger.settled.len() <= gaps + 1, "{:?}, {gaps} gaps", ledger.settled);
        let Some(end) = end else { return };
        course.ends += 1;
        match end {
            End::Done { written } => {
                course.done.sort_unstable();
                assert!(course.done.iter().copied().eq(0..ledger.segments), "{:?}", course.done);
                assert_eq!((course.claimed.len(), course.failures, course.faults), (0, 0, 0));
                assert_eq!(written, 10 * ledger.segments);
            }
            End::Failed(error) => {
                assert!(course.failures + course.faults > 0);
                let is_fault = error == FileError::from(Refusal::Unaccounted);
                assert_eq!(is_fault, course.faults > 0, "{error}");
                assert!(is_fault || course.claimed.is_empty(), "a segment is at work");
            }
        }
    }

    /// Follows every course of events within the limits.
    fn follow(ledger: &Ledger, course: &Course, limits: Limits, courses: &mut u64) {
        let mut moved = false;
        let mut happens = |event: Event<'_>| {
            moved = true;
            let (mut ledger, mut course) = (copy(ledger), course.clone());
            let end = event(&mut ledger, &mut course);
            check(&mut course, &ledger, end);
            follow(&ledger, &course, limits, courses);
        };
        if course.claimed.len() < limits.workers && ledger.has_some_to_claim() {
            for most in 1..=2 {
                happens(&|ledger, course| {
                    course.claimed.push(ledger.claim(most, u64::MAX).unwrap());
                    None
                });
            }
        }
        for (at, claimed) in course.claimed.iter().enumerate() {
            // All of a claim, or its first segment only.
            for end in [claimed.end, claimed.start + 1] {
                let (settled, rest) = (claimed.start..end, end..claimed.end);
                let settle = |course: &mut Course| {
                    course.claimed.remove(at);
                    course.claimed.extend((!rest.is_empty()).then(|| rest.clone()));
                };
                happens(&|ledger, course| {
                    settle(course);
                    course.done.extend(settled.clone());
                    ledger.done(&settled, 10 * (settled.end - settled.start))
                });
                if course.failures < limits.failures {
                    happens(&|ledger, course| {
                        settle(course);
                        course.failures += 1;
                        ledger.failed(&settled, FileError::Interrupted)
                    });
                }
            }
        }
        // An invitation to help that no worker will follow.
        if course.failures < limits.failures && ledger.has_some_to_claim() {
            happens(&|ledger, course| {
                course.failures += 1;
                ledger.give_up(FileError::Interrupted)
            });
        }
        // Any range with a settled or unclaimed segment.
        let is_claimed = |segment| course.claimed.iter().any(|it| it.contains(&segment));
        for (start, length) in (0..=ledger.segments).flat_map(|it| [(it, 1), (it, 2)]) {
            let wrong = start..start + length;
            if course.faults == limits.faults || wrong.clone().all(is_claimed) {
                continue;
            }
            happens(&|ledger, course| {
                course.faults += 1;
                course.done.extend(wrong.clone());
                ledger.done(&wrong, 10 * length)
            });
            happens(&|ledger, course| {
                course.faults += 1;
                ledger.failed(&wrong, FileError::Interrupted)
            });
        }
        if !moved {
            assert_eq!(course.ends, 1, "every file ends, once");
            *courses += 1;
        }
    }

    #[test]
    fn a_file_ends_once_and_is_done_only_if_every_segment_was_done_once() {
        let mut courses = 0;
        for (most, failures, faults) in [(4, 2, 0), (3, 1, 1)] {
            for segments in 1..=most {
                for workers in 1..=3 {
                    let limits = Limits { workers, failures, faults };
                    follow(&Ledger::new(segments), &Course::default(), limits, &mut courses);
                }
            }
        }
        assert!(courses > 10_000, "{courses}");
    }

    #[test]
    fn a_segment_that_is_done_twice_does_not_stand_for_another() {
        let mut ledger = Ledger::new(2);
        assert_eq!(
            (ledger.claim(1, u64::MAX), ledger.claim(1, u64::MAX)),
            (Some(0..1), Some(1..2))
        );
        assert_eq!(ledger.done(&(0..1), 3), None);
        let fault = FileError::from(Refusal::Unaccounted);
        assert_eq!(ledger.done(&(0..1), 3), Some(End::Failed(fault)));
        assert_eq!(ledger.done(&(1..2), 4), None);
    }

    #[test]
    fn a_file_of_any_length_has_a_short_record() {
        let mut ledger = Ledger::new(u64::MAX);
        let mut claimed: Vec<_> =
            (0..8).map(|_| ledger.claim(1 << 40, u64::MAX).unwrap()).collect();
        for turn in 0..100_000 {
            // The first one is the slowest.
            let settled = claimed.remove(1 + turn % 7);
            assert_eq!(ledger.done(&settled, 1), None);
            assert!(ledger.settled.len() <= 8, "{:?}", ledger.settled);
            claimed.push(ledger.claim(1 << 40, u64::MAX).unwrap());
        }
        claimed.iter().for_each(|last| assert_eq!(ledger.done(last, 1), None));
        assert!(ledger.is_settled_up_to(ledger.next), "{:?}", ledger.settled);
    }

    #[test]
    fn nothing_is_claimed_far_behind_what_is_not_settled() {
        let mut ledger = Ledger::new(10);
        let claimed: Vec<_> = std::iter::from_fn(|| ledger.claim(1, 3)).collect();
        assert_eq!(claimed, [0..1, 1..2, 2..3]);
        for settled in [1..2, 2..3] {
            assert_eq!(ledger.done(&settled, 1), None);
            assert_eq!(ledger.claim(1, 3), None);
        }
        assert_eq!(ledger.done(&(0..1), 1), None);
        assert_eq!((ledger.claim(8, 3), ledger.claim(8, 3)), (Some(3..6), None));
    }

    #[test]
    fn after_a_failure_nothing_is_left_to_claim() {
        let mut ledger = Ledger::new(u64::MAX);
        assert_eq!(ledger.claim(3, u64::MAX), Some(0..3));
        let end = ledger.failed(&(0..3), FileError::Changed);
        assert_eq!(end, Some(End::Failed(FileError::Changed)));
        assert_eq!(ledger.claim(1, u64::MAX), None);
    }
}
