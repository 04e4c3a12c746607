//! Jobs that replace a message by its result.

use std::fmt;

use crate::{
    Cipher, Direction, EngineError, Iv, Job, Mode, Outcome, Rejection, Session, WipedBuffer,
};

/// One message that its result replaces, for ciphers that keep the length: ECB, CBC without
/// padding, and CTR. It uses the session's key.
///
/// The replaced bytes are gone, so the job counts them: an engine that fails leaves the bytes from
/// [`InPlaceJob::done`] on unchanged, and sets [`InPlaceJob::iv`] to the IV with which another
/// engine can continue from there.
pub struct InPlaceJob<'a> {
    /// The cipher that the session was opened for.
    pub cipher: Cipher,
    /// The direction that the session was opened for.
    pub direction: Direction,
    /// The IV of the remaining bytes, of the cipher's [`Cipher::iv_length`].
    pub iv: Iv,
    /// The message, of whole blocks for ECB and CBC; afterwards, its result.
    pub data: &'a mut [u8],
    /// The number of message bytes replaced; the engine sets it.
    pub done: usize,
    /// The result; the engine sets it.
    pub outcome: Outcome,
}

impl<'a> InPlaceJob<'a> {
    /// A new job.
    pub fn new(cipher: Cipher, direction: Direction, iv: Iv, data: &'a mut [u8]) -> InPlaceJob<'a> {
        InPlaceJob { cipher, direction, iv, data, done: 0, outcome: Outcome::Pending }
    }

    /// Checks the job's lengths. Every engine calls this first and rejects the job on an error.
    ///
    /// # Errors
    /// [`Rejection::Malformed`] names the error.
    pub fn check(&self) -> Result<(), Rejection> {
        let wrong = if !matches!(self.cipher.mode(), Mode::Ecb | Mode::Cbc | Mode::Ctr) {
            "the cipher does not work in place"
        } else if self.iv.bytes().len() != self.cipher.iv_length() {
            "the IV's length is not the cipher's"
        } else if self.done > self.data.len() {
            "more is done than there is"
        } else if !(self.data.len() - self.done).is_multiple_of(self.cipher.block_length()) {
            "the message is not a whole number of blocks"
        } else {
            return Ok(());
        };
        Err(Rejection::Malformed(wrong))
    }

    /// Processes the job with a session that can't work in place: piece by piece, each copied back
    /// from a buffer that fits the first-level cache and is wiped at the end.
    ///
    /// # Errors
    /// Those of [`Session::process`].
    pub fn through_scratch<S: Session + ?Sized>(
        &mut self,
        session: &mut S,
    ) -> Result<(), EngineError> {
        if self.outcome != Outcome::Pending {
            return Ok(());
        }
        if let Err(rejection) = self.check() {
            self.outcome = Outcome::Rejected(rejection);
            return Ok(());
        }
        let mut scratch = WipedBuffer::zeros((self.data.len() - self.done).min(SCRATCH_LENGTH));
        while self.done < self.data.len() {
            let end = self.data.len().min(self.done + SCRATCH_LENGTH);
            let piece = &mut self.data[self.done..end];
            let result = &mut scratch[..piece.len()];
            let mut batch = [Job::new(self.iv, piece, result)];
            session.process(&mut batch)?;
            let [Job { outcome, .. }] = batch;
            if !matches!(outcome, Outcome::Done { .. }) {
                self.outcome = outcome;
                return Ok(());
            }
            let ciphertext = match self.direction {
                Direction::Encrypt => &*result,
                Direction::Decrypt => &*piece,
            };
            // Nothing follows the last piece, so it needs no IV after it.
            self.iv = self.iv.following(self.cipher, ciphertext).unwrap_or(self.iv);
            piece.copy_from_slice(result);
            self.done = end;
        }
        self.outcome = Outcome::Done { written: self.data.len() };
        Ok(())
    }
}

impl fmt::Debug for InPlaceJob<'_> {
    /// Prints the length of the message, not its content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InPlaceJob")
            .field("cipher", &self.cipher)
            .field("direction", &self.direction)
            .field("length", &self.data.len())
            .field("done", &self.done)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

/// In bytes; a multiple of every cipher's block length.
const SCRATCH_LENGTH: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// "Encrypts" by XORing the IV into every block, or chains like CBC; fails after some jobs.
    struct Toy {
        chains: bool,
        direction: Direction,
        jobs_left: usize,
    }

    impl Session for Toy {
        fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
            for job in batch {
                let gone = || EngineError::failed("gone");
                self.jobs_left = self.jobs_left.checked_sub(1).ok_or_else(gone)?;
                let mut pad = job.iv;
                for (input, output) in job.input.chunks(16).zip(job.output.chunks_mut(16)) {
                    for ((input, output), pad) in input.iter().zip(&mut *output).zip(pad.bytes()) {
                        *output = input ^ pad;
                    }
                    let ciphertext =
                        if self.direction == Direction::Encrypt { &*output } else { input };
                    pad = match (self.chains, ciphertext.len()) {
                        (true, _) => Iv::new(ciphertext).unwrap(),
                        (false, _) => pad.advanced(1),
                    };
                }
                job.outcome = Outcome::Done { written: job.input.len() };
            }
            Ok(())
        }
    }

    const IV: [u8; 16] = [0xFF; 16];

    fn both_ways(cipher: Cipher, length: usize) {
        let chains = cipher.mode() == Mode::Cbc;
        let message: Vec<u8> = (0..length).map(|byte| (byte % 251) as u8).collect();
        let iv = Iv::new(&IV).unwrap();
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let session = |jobs_left| Toy { chains, direction, jobs_left };
            let mut expected = vec![0; length];
            session(1).process(&mut [Job::new(iv, &message, &mut expected)]).unwrap();

            let mut data = message.clone();
            let mut job = InPlaceJob::new(cipher, direction, iv, &mut data);
            assert!(job.through_scratch(&mut session(1)).is_err());
            assert_eq!((job.done, job.outcome), (SCRATCH_LENGTH, Outcome::Pending));
            job.through_scratch(&mut session(usize::MAX)).unwrap();
            assert_eq!(job.outcome, Outcome::Done { written: length });
            assert_eq!(data, expected, "{cipher} {direction}");
        }
    }

    #[test]
    fn pieces_make_the_whole_and_another_session_can_go_on() {
        both_ways(Cipher::Aes128Ctr, 3 * SCRATCH_LENGTH + 5);
        both_ways(Cipher::Aes128Cbc, 2 * SCRATCH_LENGTH + 32);
    }

    #[test]
    fn what_does_not_keep_its_length_is_rejected() {
        let mut data = [0; 33];
        let cases = [(Cipher::Aes128Gcm, 12), (Cipher::Aes128Xts, 16), (Cipher::Aes128Cbc, 16)];
        for (cipher, iv) in cases {
            let iv = Iv::new(&IV[..iv]).unwrap();
            let direction = Direction::Encrypt;
            let mut job = InPlaceJob::new(cipher, direction, iv, &mut data);
            let mut session = Toy { chains: false, direction, jobs_left: 0 };
            job.through_scratch(&mut session).unwrap();
            assert!(matches!(job.outcome, Outcome::Rejected(Rejection::Malformed(_))), "{cipher}");
        }
    }
}
