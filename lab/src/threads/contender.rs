//! The contenders that process the message.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use evener::Pool;
use evener::hazmat::ParallelCipher;
use evener_core::{Cipher, Direction, Iv, Key};
use serde::Serialize;

use super::copy::copy;
use super::peer::{Peer, Way};
use crate::LabError;
use crate::done::{Amount, all_done};

/// A contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Contender {
    /// Evener's one buffer on many threads.
    Evener,
    /// OpenMP and EVP, in C: parts of 1 MiB.
    Openmp,
    /// The same, one 16-byte block at a time, as in the paper.
    OpenmpBlocks,
    /// Java's threads and JCE: parts of 1 MiB.
    Java,
    /// The same, one 16-byte block at a time, as in the paper.
    JavaBlocks,
    /// A copy of the message, as the lower bound.
    Memcpy,
}

impl Contender {
    /// The name, as in the report.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Evener => "evener",
            Contender::Openmp => "openmp",
            Contender::OpenmpBlocks => "openmp-blocks",
            Contender::Java => "java",
            Contender::JavaBlocks => "java-blocks",
            Contender::Memcpy => "memcpy",
        }
    }

    /// The way in which a peer divides the message for this contender.
    pub(super) fn way(self) -> Way {
        match self {
            Contender::OpenmpBlocks | Contender::JavaBlocks => Way::Blocks,
            _ => Way::Parts,
        }
    }
}

/// The message and the results, in memory that was touched.
pub(super) struct Buffers {
    pub(super) plaintext: Vec<u8>,
    pub(super) ciphertext: Vec<u8>,
}

impl Buffers {
    /// Makes a message that is the same in every run and in every peer.
    pub(super) fn new(bytes: usize) -> Buffers {
        let mut plaintext = vec![1; bytes];
        for (index, word) in plaintext.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *word = random(index as u64).to_le_bytes();
        }
        Buffers { plaintext, ciphertext: vec![1; bytes] }
    }

    /// The input and output of a direction.
    fn ends(&mut self, direction: Direction) -> (&[u8], &mut [u8]) {
        match direction {
            Direction::Encrypt => (&self.plaintext, &mut self.ciphertext),
            Direction::Decrypt => (&self.ciphertext, &mut self.plaintext),
        }
    }
}

/// Evener on a pool of this many threads.
///
/// # Errors
/// When no engine supports the cipher.
pub(super) fn evener(cipher: Cipher, threads: u16) -> Result<ParallelCipher, LabError> {
    let threads = NonZeroUsize::new(threads.into()).unwrap_or(NonZeroUsize::MIN);
    let pool = Arc::new(Pool::new(threads));
    ParallelCipher::new(cipher, &key(cipher)?, pool)
        .map_err(|error| LabError::Unavailable(error.to_string()))
}

/// A prepared contender.
pub(super) enum Prepared<'a> {
    Evener(&'a ParallelCipher),
    Peer(&'a mut Peer, Way),
    Copy,
}

impl Prepared<'_> {
    /// Processes the message once and returns the time.
    ///
    /// # Errors
    /// When it is not processed.
    pub(super) fn turn(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        threads: u16,
        buffers: &mut Buffers,
    ) -> Result<Duration, LabError> {
        match self {
            Prepared::Evener(parallel) => {
                let (iv, (input, output)) = (first_counter(), buffers.ends(direction));
                let start = Instant::now();
                let done = match direction {
                    Direction::Encrypt => parallel.encrypt(iv, input, output),
                    Direction::Decrypt => parallel.decrypt(iv, input, output),
                };
                let time = start.elapsed();
                let done = done.map_err(|error| LabError::Unavailable(error.to_string()))?;
                let amount = |bytes: usize| Amount::of(1, bytes);
                let bytes = buffers.plaintext.len();
                all_done(&format!("evener, {cipher} {direction}"), amount(done), amount(bytes))?;
                Ok(time)
            }
            Prepared::Peer(peer, way) => peer.turn(cipher, direction, *way, threads),
            Prepared::Copy => {
                let (input, output) = buffers.ends(direction);
                let (time, copied) = copy(input, output, threads);
                let wanted = Amount::of(1, input.len());
                all_done("memcpy", Amount::of(1, copied), wanted)?;
                Ok(time)
            }
        }
    }

    /// Overwrites the last result of a direction, so that the next result is this contender's own.
    /// (Peers have their own buffers.)
    pub(super) fn forget(&self, direction: Direction, buffers: &mut Buffers) {
        if !matches!(self, Prepared::Peer(..)) {
            buffers.ends(direction).1.fill(0);
        }
    }

    /// A digest of the last result of a direction; `None` for a copy.
    ///
    /// # Errors
    /// When a peer does not answer.
    pub(super) fn digest(
        &mut self,
        direction: Direction,
        buffers: &mut Buffers,
    ) -> Result<Option<u64>, LabError> {
        match self {
            Prepared::Evener(_) => Ok(Some(digest(buffers.ends(direction).1))),
            Prepared::Peer(peer, _) => peer.digest(direction).map(Some),
            Prepared::Copy => Ok(None),
        }
    }
}

/// A number that depends on every whole 64-bit word of the data.
pub(super) fn digest(data: &[u8]) -> u64 {
    let (words, _) = data.as_chunks();
    let step = |state: u64, word: &[u8; 8]| {
        (state ^ u64::from_le_bytes(*word)).wrapping_mul(0x0100_0000_01B3)
    };
    words.iter().fold(0xCBF2_9CE4_8422_2325, step)
}

/// The key of all contenders: 0, 1, 2, ….
pub(super) fn key(cipher: Cipher) -> Result<Key, LabError> {
    let bytes: Vec<u8> = (0..).take(cipher.key_length()).collect();
    Key::new(&bytes).map_err(|_| LabError::Unavailable(format!("{cipher} has no key")))
}

/// The first counter block of all contenders: 0, 1, 2, ….
pub(super) fn first_counter() -> Iv {
    let bytes: [u8; Iv::MAX_LENGTH] = std::array::from_fn(|index| index as u8);
    Iv::new(&bytes).unwrap_or(Iv::NONE)
}

/// SplitMix64, by position.
fn random(index: u64) -> u64 {
    let mixed = index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
