//! A case to measure, and the work done for it.

use std::time::Duration;

use evener_core::{Cipher, Direction, Iv, Key, Mode};

/// One cipher, direction and message length.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) cipher: Cipher,
    pub(super) direction: Direction,
    /// The length of a message.
    pub(super) bytes: usize,
    pub(super) key: Key,
    pub(super) iv: Iv,
}

impl Case {
    /// Makes a case with a random key and IV; `None` if the system has no random numbers.
    pub(super) fn new(cipher: Cipher, direction: Direction, bytes: usize) -> Option<Case> {
        let mut key = [0; Key::MAX_LENGTH];
        let mut iv = [0; Iv::MAX_LENGTH];
        getrandom::fill(&mut key).ok()?;
        getrandom::fill(&mut iv).ok()?;
        if cipher.mode() == Mode::Ctr {
            // The IV looks like a nonce followed by a counter from 1.
            iv[8..].copy_from_slice(&1_u64.to_be_bytes());
        }
        let key = Key::new(&key[..cipher.key_length()]).ok()?;
        let iv = Iv::new(&iv[..cipher.iv_length()]).ok()?;
        Some(Case { cipher, direction, bytes, key, iv })
    }

    /// Makes a message.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = vec![0; self.bytes];
        // Without random numbers, the text stays zero, which encrypts at the same speed.
        let _ = getrandom::fill(&mut text);
        text
    }
}

/// A contender on one thread, prepared for a case.
pub(super) trait Prepared {
    /// Works for at least this time. Keeps the number of messages between two readings of the clock
    /// for the next call.
    ///
    /// # Errors
    /// The reason, as text.
    fn work(&mut self, time: Duration) -> Result<Done, String>;
}

/// The work done and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) bytes: f64,
    pub(super) time: Duration,
}

impl Done {
    pub(super) fn kb_per_s(self) -> f64 {
        self.bytes / 1000.0 / self.time.as_secs_f64()
    }
}

/// The least time between two readings of the clock, each of which takes about 25 nanoseconds.
pub(super) const STRIDE: Duration = Duration::from_micros(20);
