//! Nonces that are used once.

use std::fmt;

/// The nonce of one message, 96 bits.
///
/// It can't be copied, and sealing a message consumes it, so no second message gets it. A
/// [`NonceSequence`] makes nonces; [`hazmat::nonce`](crate::hazmat::nonce) takes the caller's own
/// bytes.
///
/// ```
/// # use evener::NonceSequence;
/// let nonce = NonceSequence::random().next_nonce()?;
/// assert_eq!(nonce.bytes().len(), evener::Nonce::LENGTH);
/// # Ok::<(), evener::NonceError>(())
/// ```
#[derive(PartialEq, Eq)]
pub struct Nonce([u8; Nonce::LENGTH]);

impl Nonce {
    /// The length, in bytes.
    pub const LENGTH: usize = 12;

    pub(crate) fn of(bytes: [u8; Nonce::LENGTH]) -> Nonce {
        Nonce(bytes)
    }

    /// The bytes, which are no secret. The receiver of a message needs them.
    pub fn bytes(&self) -> &[u8; Nonce::LENGTH] {
        &self.0
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({:02x?})", self.0)
    }
}

/// Makes the nonces of a key's messages, each once.
///
/// A sequence belongs to one key. It can't be cloned, and it ends before a nonce could repeat.
///
/// **One key with two sequences is the caller's responsibility.** Two counters need different
/// prefixes: one for each thread, process or machine that has the key. After a restart a counter
/// must not begin again at 0 under the same key: make a new key, take another prefix, or store
/// [`NonceSequence::position`] before the nonces are used and continue with
/// [`NonceSequence::counter_from`]. Random sequences under one key share the bound of 2³² messages
/// among them.
///
/// ```
/// use evener::{Nonce, NonceSequence};
///
/// let mut nonces = NonceSequence::counter(*b"left");
/// assert_eq!(nonces.next_nonce()?.bytes(), b"left\0\0\0\0\0\0\0\0");
/// assert_eq!(nonces.next_nonce()?.bytes(), b"left\0\0\0\0\0\0\0\x01");
///
/// let mut nonces = NonceSequence::random();
/// assert_ne!(nonces.next_nonce()?, nonces.next_nonce()?);
/// # Ok::<(), evener::NonceError>(())
/// ```
#[derive(Debug)]
pub struct NonceSequence {
    source: Source,
    /// The number of nonces left.
    left: u64,
}

#[derive(Debug)]
enum Source {
    Counter { prefix: [u8; 4], next: u64 },
    Random,
}

impl NonceSequence {
    /// The largest number of messages with random nonces under one key: 2³², after which two nonces
    /// are equal with a probability of 2⁻³³ (NIST SP 800-38D, section 8.3).
    pub const MOST_RANDOM: u64 = 1 << 32;

    /// A prefix and a counter from 0 on (RFC 5116, section 3.2). A child process after a fork
    /// continues with the same numbers as its parent: give it a sequence with another prefix.
    pub fn counter(prefix: [u8; 4]) -> NonceSequence {
        NonceSequence::counter_from(prefix, 0)
    }

    /// A prefix and a counter that continues where an earlier sequence
    /// [was](NonceSequence::position). Every number from there on must be unused under this key and
    /// prefix.
    pub fn counter_from(prefix: [u8; 4], next: u64) -> NonceSequence {
        NonceSequence { source: Source::Counter { prefix, next }, left: u64::MAX - next }
    }

    /// The system's random numbers, for at most [`NonceSequence::MOST_RANDOM`] messages.
    pub fn random() -> NonceSequence {
        NonceSequence { source: Source::Random, left: NonceSequence::MOST_RANDOM }
    }

    /// The number of the next nonce; `None` for random ones.
    pub fn position(&self) -> Option<u64> {
        match self.source {
            Source::Counter { next, .. } => Some(next),
            Source::Random => None,
        }
    }

    /// The number of nonces that are left.
    pub fn remaining(&self) -> u64 {
        self.left
    }

    /// Makes the next nonce.
    ///
    /// # Errors
    /// [`NonceError::Exhausted`] at the end of the sequence, [`NonceError::Random`] when the system
    /// has no randomness.
    pub fn next_nonce(&mut self) -> Result<Nonce, NonceError> {
        let mut bytes = [0; Nonce::LENGTH];
        self.fill(&mut bytes)?;
        Ok(Nonce(bytes))
    }

    /// Makes the next nonces. Random ones take one system call for all.
    ///
    /// # Errors
    /// As [`NonceSequence::next_nonce`]; also when fewer nonces are left.
    pub fn next_nonces(&mut self, count: usize) -> Result<Vec<Nonce>, NonceError> {
        let length = count.checked_mul(Nonce::LENGTH).filter(|_| count as u64 <= self.left);
        let mut bytes = vec![0; length.ok_or(NonceError::Exhausted)?];
        self.fill(&mut bytes)?;
        Ok(bytes.as_chunks().0.iter().copied().map(Nonce).collect())
    }

    /// Fills a buffer with nonces. Keeps none for later: after a fork, the child would have the
    /// same ones.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NonceError> {
        let count = (bytes.len() / Nonce::LENGTH) as u64;
        self.left = self.left.checked_sub(count).ok_or(NonceError::Exhausted)?;
        match &mut self.source {
            Source::Counter { prefix, next } => {
                for nonce in bytes.chunks_exact_mut(Nonce::LENGTH) {
                    nonce[..4].copy_from_slice(prefix);
                    nonce[4..].copy_from_slice(&next.to_be_bytes());
                    *next += 1;
                }
            }
            Source::Random => {
                getrandom::fill(bytes).map_err(|error| NonceError::Random(error.to_string()))?;
            }
        }
        Ok(())
    }
}

/// The reason why there is no further nonce.
///
/// ```
/// # use evener::{NonceError, NonceSequence};
/// let mut nonces = NonceSequence::counter_from([0; 4], u64::MAX);
/// assert_eq!(nonces.next_nonce(), Err(NonceError::Exhausted));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NonceError {
    /// All nonces of the sequence were used.
    #[error("all nonces of the sequence were used; go on with a new key")]
    Exhausted,
    /// The system has no randomness; the text says why.
    #[error("the system gave no random bytes for a nonce: {0}")]
    Random(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_goes_on_where_it_was_and_ends() {
        let mut first = NonceSequence::counter([9; 4]);
        let seen = [first.next_nonce().unwrap(), first.next_nonce().unwrap()];
        assert_ne!(seen[0], seen[1]);
        let mut second = NonceSequence::counter_from([9; 4], first.position().unwrap());
        assert_eq!(second.next_nonce(), first.next_nonce());

        let mut last = NonceSequence::counter_from([0; 4], u64::MAX - 1);
        assert_eq!(last.remaining(), 1);
        assert_eq!(last.next_nonce().unwrap().bytes()[4..], (u64::MAX - 1).to_be_bytes());
        for _ in 0..2 {
            assert_eq!(last.next_nonce(), Err(NonceError::Exhausted));
        }
        assert_eq!(
            NonceSequence::counter_from([0; 4], u64::MAX).next_nonce(),
            Err(NonceError::Exhausted)
        );
    }

    #[test]
    fn several_are_those_that_come_one_after_another() {
        let (mut first, mut second) =
            (NonceSequence::counter([9; 4]), NonceSequence::counter([9; 4]));
        let one_by_one: Vec<_> = (0..3).map(|_| first.next_nonce().unwrap()).collect();
        assert_eq!(second.next_nonces(3).unwrap(), one_by_one);
        assert_eq!(second.position(), Some(3));

        let mut few = NonceSequence::counter_from([9; 4], u64::MAX - 2);
        assert_eq!(few.next_nonces(3), Err(NonceError::Exhausted));
        assert_eq!(few.next_nonces(2).unwrap().len(), 2);
        for mut sequence in [NonceSequence::counter([9; 4]), NonceSequence::random()] {
            assert_eq!(sequence.next_nonces(usize::MAX), Err(NonceError::Exhausted));
        }
        let random = NonceSequence::random().next_nonces(2).unwrap();
        assert_ne!(random[0], random[1]);
    }

    #[test]
    fn random_nonces_are_bounded() {
        let mut nonces = NonceSequence::random();
        assert_eq!((nonces.remaining(), nonces.position()), (1 << 32, None));
        assert!(nonces.next_nonce().is_ok());
        nonces.left = 0;
        assert_eq!(nonces.next_nonce(), Err(NonceError::Exhausted));
    }
}
