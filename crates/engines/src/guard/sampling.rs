//! Chooses the jobs to verify at random, so that the engine can't predict them.
//!
//! Every job is chosen with the same probability, independently of the others. Instead of one
//! random number per job, one gives the distance to the next verified job, which has the geometric
//! distribution. So a session that verifies one job in 1,000 asks the system for random numbers
//! once in 1,000 jobs.

use std::f64::consts::LN_2;

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

    /// Returns whether any job is verified at all.
    pub(super) fn is_on(&self) -> bool {
        self.every > 0
    }

    /// Returns whether to verify the next job.
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
    let chance = 1.0 / every as f64;
    // The logarithm of 1 - chance, without its loss of digits.
    (logarithm(lot) / logarithm_of_ratio(-chance / (2.0 - chance))) as u64
}

/// The natural logarithm of a normal positive number. (The standard library's would link `libm`,
/// which a provider of OpenSSL must not need.)
fn logarithm(number: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = number.to_bits();
    let exponent = (bits >> 52) as f64 - 1023.0;
    let mantissa = f64::from_bits(bits & FRACTION | 1.0_f64.to_bits());
    exponent * LN_2 + logarithm_of_ratio((mantissa - 1.0) / (mantissa + 1.0))
}

/// The natural logarithm of (1 + `half`) / (1 - `half`), where `half` is within ⅓ of 0.
fn logarithm_of_ratio(half: f64) -> f64 {
    let square = half * half;
    let series =
        (0..TERMS).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    2.0 * half * series
}

/// This many terms give all digits.
const TERMS: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_those_of_the_standard_library() {
        let mut number = 1.0 / (1_u64 << 53) as f64;
        while number <= 1.0 {
            let (one, other) = (logarithm(number), number.ln());
            assert!((one - other).abs() <= 1e-14 * other.abs() + 1e-15, "{number}: {one} {other}");
            number *= 1.0173;
        }
        for every in [2.0, 3.0, 1_000.0, 1e9, 1e15] {
            let chance = 1.0 / every;
            let (one, other) = (logarithm_of_ratio(-chance / (2.0 - chance)), (-chance).ln_1p());
            assert!((one / other - 1.0).abs() < 1e-14, "{every}: {one} {other}");
        }
    }

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
