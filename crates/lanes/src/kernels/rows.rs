//! Plans the rows of messages.

use evener_core::{Cipher, Direction, Job, Outcome, Padding};

use super::jobs::admit;
use super::vector::BLOCK;

/// The order of jobs of a batch: roughly by falling length, and jobs with the session's key before
/// those with their own.
pub(super) struct Plan {
    /// The jobs' indices in the batch.
    order: [u16; Plan::LONGEST],
    /// The number of jobs with the session's key.
    session: usize,
    count: usize,
    /// The classes of the jobs, in their own order.
    classes: [u16; Plan::LONGEST],
    /// Number of jobs of each class; later, the index at which they begin in the order. All are
    /// zero between two plans, because clearing all takes longer than many plans.
    starts: [u16; 2 * CLASSES],
}

impl Plan {
    /// Greatest number of jobs in a plan: they and their buffers' addresses stay in the L2 cache.
    pub(super) const LONGEST: usize = 1024;

    /// An empty plan.
    pub(super) fn new() -> Plan {
        Plan {
            order: [0; Plan::LONGEST],
            session: 0,
            count: 0,
            classes: [0; Plan::LONGEST],
            starts: [0; 2 * CLASSES],
        }
    }

    /// Plans the pending jobs with valid lengths and a key, and sets their outcome in advance;
    /// rejects those with invalid lengths. There are at most [`Plan::LONGEST`] jobs.
    #[inline(always)]
    pub(super) fn make(&mut self, window: &mut [Job<'_>], cipher: Cipher, has_key: bool) {
        let mut highest = [0; 2];
        for (job, class) in window.iter_mut().zip(&mut self.classes) {
            *class = NONE;
            if job.outcome != Outcome::Pending
                || job.key.is_none() && !has_key
                || !admit(job, cipher, Direction::Encrypt)
            {
                continue;
            }
            let blocks = job.input.len() / BLOCK + usize::from(job.padding == Padding::Pkcs7);
            job.outcome = Outcome::Done { written: blocks * BLOCK };
            if blocks > 0 {
                let own = usize::from(job.key.is_some());
                let of_length = class_of(blocks);
                highest[own] = highest[own].max(of_length);
                *class = (own * CLASSES + of_length) as u16;
                self.starts[usize::from(*class)] += 1;
            }
        }
        // Falling length within each half.
        let mut start = 0;
        for own in 0..2 {
            let classes = &mut self.starts[own * CLASSES..][..=highest[own]];
            for count in classes.iter_mut().rev() {
                start += std::mem::replace(count, start);
            }
            if own == 0 {
                self.session = usize::from(start);
            }
        }
        self.count = usize::from(start);
        for (place, &class) in self.classes[..window.len()].iter().enumerate() {
            if class != NONE {
                let start = &mut self.starts[usize::from(class)];
                self.order[usize::from(*start)] = place as u16;
                *start += 1;
            }
        }
        for own in 0..2 {
            self.starts[own * CLASSES..][..=highest[own]].fill(0);
        }
    }

    /// The indices of the jobs with the session's key.
    pub(super) fn with_session_key(&self) -> &[u16] {
        &self.order[..self.session]
    }

    /// The indices of the jobs with their own keys.
    pub(super) fn with_own_keys(&self) -> &[u16] {
        &self.order[self.session..self.count]
    }
}

/// The class of a number of blocks: exact up to 32, then 16 classes for each power of two.
#[inline(always)]
fn class_of(blocks: usize) -> usize {
    let shift = (usize::BITS - 5).saturating_sub(blocks.leading_zeros());
    let class = (blocks >> shift) + 16 * shift as usize;
    class.min(CLASSES - 1)
}

/// Number of classes, up to 2³⁰ blocks; longer messages are in the last one.
const CLASSES: usize = 16 * 27;

/// No class: the job is not in the order.
const NONE: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_grow_with_length_and_differ_by_little() {
        assert_eq!((class_of(1), class_of(63), class_of(64)), (1, 63 / 2 + 16, 48));
        let mut last = 0;
        for blocks in (1..5000).chain([1 << 20, 1 << 29, usize::MAX / 3, usize::MAX]) {
            let class = class_of(blocks);
            assert!(class >= last && class < CLASSES);
            assert!(class == last || class <= blocks);
            last = class;
        }
        for blocks in [100, 1000, 100_000] {
            assert_ne!(class_of(blocks), class_of(blocks + blocks / 8));
        }
    }
}
