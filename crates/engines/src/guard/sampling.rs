//! Chooses the jobs to verify at random, so that the engine can't predict them.
//!
//! Every job is chosen with the same probability, independently of the others. Instead of one
//! random number per job, one gives the distance to the next verified job, which has the geometric
//! distribution. So a session that verifies one job in 1,000 asks the system for random numbers
//! once in 1,000 jobs.

/// The sampling of one session.
pub(super) struct Sampling {
    /// One job in this many on average; 0 for none.
    every: u64,
    /// Jobs before the next one that is verified.
    until: u64,
}

impl Sampling {
    /// Verifies the first job of a session, unless `every` is 0.
    pub(super) fn new(every: u64) -> Sampling {
        Sampling { every, until: 0 }
    }

    /// Whether any job is verified at all.
    pub(super) fn is_on(&self) -> bool {
        self.every > 0
    }

    /// Whether to verify the next job.
    pub(super) fn draw(&mut self) -> bool {
        if self.every == 0 {
            return false;
        }
        match self.until.checked_sub(1) {
            Some(left) => {
                self.until = left;
                false
            }
            None => {
                self.until = distance(self.every);
                true
            }
        }
    }
}

/// Number of jobs before the next verified one; 0 if the system has no random numbers.
fn distance(every: u64) -> u64 {
    let mut bytes = [0; 8];
    if every == 1 || getrandom::fill(&mut bytes).is_err() {
        return 0;
    }
    // In (0, 1], with 53 bits.
    let lot = ((u64::from_ne_bytes(bytes) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (lot.ln() / (-1.0 / every as f64).ln_1p()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_drawn_as_should_be_and_not_the_same_ones() {
        let drawn = |every| {
            let mut sampling = Sampling::new(every);
            (0..100_000_u32).filter(|_| sampling.draw()).collect::<Vec<_>>()
        };
        for every in [2, 10, 1_000] {
            let (one, two) = (drawn(every), drawn(every));
            let expected = 100_000.0 / every as f64;
            // Eight standard deviations.
            let off = (one.len() as f64 - expected).abs();
            assert!(off < 8.0 * expected.sqrt() + 2.0, "{every}: {} {expected}", one.len());
            assert_eq!((one[0], two[0]), (0, 0));
            assert_ne!(one, two);
        }
        assert_eq!((drawn(1).len(), drawn(0).len()), (100_000, 0));
    }
}
