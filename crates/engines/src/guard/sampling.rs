//! Which jobs are verified: lots that the engine can't foresee.
//!
//! Every job is drawn with the same chance and independently of the others. Instead of a lot
//! for each job, one is drawn for the distance to the next job that is verified, which has the
//! geometric distribution; so a session that verifies one job in 1,000 asks the system for
//! random numbers once in 1,000 jobs.

/// The lots of one session.
pub(super) struct Sampling {
    /// On the average one in so many; 0 for none.
    every: u64,
    /// Jobs before the next one that is verified.
    until: u64,
}

impl Sampling {
    /// The first job of a session is always verified, where any is.
    pub(super) fn new(every: u64) -> Sampling {
        Sampling { every, until: 0 }
    }

    /// Whether any job is verified at all.
    pub(super) fn is_on(&self) -> bool {
        self.every > 0
    }

    /// Whether the next job is drawn.
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

/// How many jobs are left out before the next one. Without randomness, none.
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
