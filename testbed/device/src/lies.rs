//! Wrong results that are reported as success.

use std::thread;
use std::time::Duration;

/// The defect of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// A flipped bit.
    Flip,
    /// The last right result again.
    Repeat,
    /// The result of the operation before, which itself returned the one before that.
    Swap,
    /// The second half is missing: the caller's memory is unchanged there.
    Truncate,
    /// The whole result is missing.
    Nothing,
    /// A flipped bit, and a late result.
    Late,
    /// A right result, but late.
    Slow,
    /// A flipped bit, only for long inputs.
    Long,
    /// A wrong bit in the IV, in both directions, so that the device can decrypt its own results.
    Symmetric,
    /// A message that is not genuine counts as genuine.
    Accept,
}

/// Keeps results for lies that need them.
#[derive(Default)]
pub(crate) struct Liar {
    /// An earlier result.
    kept: Vec<u8>,
}

impl Lie {
    pub(crate) fn of_name(name: &str) -> Option<Lie> {
        Some(match name {
            "flip" => Lie::Flip,
            "repeat" => Lie::Repeat,
            "swap" => Lie::Swap,
            "truncate" => Lie::Truncate,
            "nothing" => Lie::Nothing,
            "late" => Lie::Late,
            "slow" => Lie::Slow,
            "long" => Lie::Long,
            "symmetric" => Lie::Symmetric,
            "accept" => Lie::Accept,
            _ => return None,
        })
    }

    /// The IV used in place of the right one.
    pub(crate) fn iv(self, iv: Option<&[u8]>) -> Option<Vec<u8>> {
        let mut iv = iv?.to_vec();
        if self == Lie::Symmetric {
            flip(iv.first_mut());
        }
        Some(iv)
    }
}

impl Liar {
    /// Keeps a right result.
    pub(crate) fn keep(&mut self, result: &[u8]) {
        result.clone_into(&mut self.kept);
    }

    /// Turns a right result into the caller's, and waits for `delay` if it is late.
    pub(crate) fn tell(&mut self, lie: Lie, delay: Duration, result: &mut Vec<u8>) {
        let middle = result.len() / 2;
        match lie {
            Lie::Flip | Lie::Long => flip(result.get_mut(middle)),
            Lie::Repeat => *result = self.as_long_as(result),
            Lie::Swap => {
                let other = self.as_long_as(result);
                self.kept = std::mem::replace(result, other);
            }
            Lie::Truncate => result.truncate(middle),
            Lie::Nothing => result.clear(),
            Lie::Late => {
                thread::sleep(delay);
                flip(result.get_mut(middle));
            }
            Lie::Slow => thread::sleep(delay),
            Lie::Symmetric | Lie::Accept => {}
        }
    }

    /// The kept result, repeated to this length; zeros if there is none.
    fn as_long_as(&self, result: &[u8]) -> Vec<u8> {
        let kept = if self.kept.is_empty() { &[0] } else { &self.kept[..] };
        kept.iter().copied().cycle().take(result.len()).collect()
    }
}

fn flip(byte: Option<&mut u8>) {
    byte.into_iter().for_each(|byte| *byte ^= 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lie: Lie, results: [&[u8]; 3]) -> Vec<Vec<u8>> {
        let mut liar = Liar::default();
        liar.keep(&[9]);
        let tell = |result: &[u8]| {
            let mut told = result.to_vec();
            liar.tell(lie, Duration::ZERO, &mut told);
            told
        };
        results.into_iter().map(tell).collect()
    }

    #[test]
    fn each_lie_is_as_it_says() {
        let results: [&[u8]; 3] = [&[2, 4], &[6, 8, 10], &[]];
        let told = |lie| told(lie, results);
        assert_eq!(told(Lie::Flip), [&[2, 5][..], &[6, 9, 10], &[]]);
        assert_eq!(told(Lie::Repeat), [&[9, 9][..], &[9, 9, 9], &[]]);
        assert_eq!(told(Lie::Swap), [&[9, 9][..], &[2, 4, 2], &[]]);
        assert_eq!(told(Lie::Truncate), [&[2][..], &[6], &[]]);
        assert_eq!(told(Lie::Nothing), [[0; 0]; 3]);
        assert_eq!(told(Lie::Late), told(Lie::Flip));
        assert_eq!(told(Lie::Symmetric), results);
        assert_eq!(told(Lie::Slow), results);
        assert_eq!(Lie::Symmetric.iv(Some(&[2, 2])), Some(vec![3, 2]));
        assert_eq!(Lie::Flip.iv(Some(&[2, 2])), Some(vec![2, 2]));
        assert_eq!(Lie::Symmetric.iv(None), None);
    }
}
