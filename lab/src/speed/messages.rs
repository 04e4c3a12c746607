//! Measures an engine through its session, with as many messages at once as it recommends.

use std::time::{Duration, Instant};

use evener_core::{Direction, Engine, EngineError, Iv, Job, Outcome, Session, SessionRequest};
use evener_engines::lanes::Arena;

use super::case::{Case, Done, Prepared, STRIDE};

/// A session with its messages. The jobs are made before the clock starts. All messages have the
/// same content, which never changes; their buffers differ.
pub(super) struct Messages {
    session: Box<dyn Session>,
    iv: Iv,
    /// The number of messages that the session gets at once.
    batch: usize,
    /// The number of messages.
    most: usize,
    /// The number of messages processed between two readings of the clock; whole batches.
    stride: usize,
    inputs: Arena,
    outputs: Arena,
    input_length: usize,
    output_length: usize,
    /// The length of a message before encryption.
    bytes: usize,
}

impl Messages {
    /// Opens a session for a case and checks its result against the reference's.
    ///
    /// # Errors
    /// The reason, as text.
    pub(super) fn prepare(
        engine: &dyn Engine,
        reference: Option<&dyn Engine>,
        case: &Case,
    ) -> Result<Messages, String> {
        let &Case { cipher, direction, bytes, iv, .. } = case;
        // No other engine knows a key that an engine holds.
        let reference = if engine.holds_key() { Some(engine) } else { reference };
        let plain = case.text();
        let sealed = reference.and_then(|reference| seal(reference, case, &plain).ok());
        let (input, expected) = match (direction, sealed) {
            (Direction::Encrypt, sealed) => (plain, sealed),
            (Direction::Decrypt, Some(sealed)) => (sealed, Some(plain)),
            (Direction::Decrypt, None) if cipher.is_authenticated() => {
                return Err("there is no engine to encrypt what it should decrypt".to_owned());
            }
            (Direction::Decrypt, None) => (plain, None),
        };
        let liked = engine.offer(cipher, direction).map_or(1, |offer| offer.batch);
        let batch = liked.min(MOST_AT_ONCE / bytes.max(1)).max(1);
        let most = (ENOUGH / bytes.max(LINE)).max(1).next_multiple_of(batch);
        let mut messages = Messages {
            session: open(engine, case, direction).map_err(|error| error.to_string())?,
            iv,
            batch,
            most,
            stride: batch,
            inputs: Arena::new(),
            outputs: Arena::new(),
            input_length: input.len(),
            output_length: bytes
                + if direction == Direction::Encrypt { cipher.tag_length() } else { 0 },
            bytes,
        };
        for buffer in messages.inputs.buffers(std::iter::repeat_n(input.len(), most)) {
            buffer.copy_from_slice(&input);
        }
        messages.work(Duration::ZERO)?;
        let lengths = std::iter::repeat_n(messages.output_length, batch);
        match expected {
            Some(text) if messages.outputs.buffers(lengths).any(|output| output != text) => {
                Err("its result is not the one that OpenSSL has".to_owned())
            }
            _ => Ok(messages),
        }
    }
}

impl Prepared for Messages {
    fn work(&mut self, time: Duration) -> Result<Done, String> {
        let inputs = self.inputs.buffers(std::iter::repeat_n(self.input_length, self.most));
        let outputs = self.outputs.buffers(std::iter::repeat_n(self.output_length, self.most));
        let pairs = inputs.zip(outputs);
        let mut jobs: Vec<_> =
            pairs.map(|(input, output)| Job::new(self.iv, input, output)).collect();
        let mut messages = 0;
        let mut spent = Duration::ZERO;
        let start = Instant::now();
        loop {
            let jobs = &mut jobs[..self.stride];
            jobs.iter_mut().for_each(|job| job.outcome = Outcome::Pending);
            let stride = Instant::now();
            for batch in jobs.chunks_mut(self.batch) {
                self.session.process(batch).map_err(|error| error.to_string())?;
            }
            let took = stride.elapsed();
            if let Some(job) = jobs.iter().find(|job| !matches!(job.outcome, Outcome::Done { .. }))
            {
                return Err(format!("it did not do a message: {:?}", job.outcome));
            }
            spent += took;
            messages += self.stride;
            if start.elapsed() >= time {
                let bytes = messages as f64 * self.bytes as f64;
                return Ok(Done { bytes, time: spent.max(Duration::from_nanos(1)) });
            }
            if took < STRIDE {
                self.stride = (2 * self.stride).min(self.most);
            }
        }
    }
}

/// Encrypts a message and appends its tag.
fn seal(engine: &dyn Engine, case: &Case, plain: &[u8]) -> Result<Vec<u8>, EngineError> {
    let mut sealed = vec![0; plain.len() + case.cipher.tag_length()];
    let mut jobs = [Job::new(case.iv, plain, &mut sealed)];
    open(engine, case, Direction::Encrypt)?.process(&mut jobs)?;
    Ok(sealed)
}

fn open(
    engine: &dyn Engine,
    case: &Case,
    direction: Direction,
) -> Result<Box<dyn Session>, EngineError> {
    let key = (!engine.holds_key()).then_some(&case.key);
    engine.open(&SessionRequest { cipher: case.cipher, direction, key })
}

/// The most bytes in a batch: batches of long messages are smaller, so that those of many threads
/// fit in memory.
const MOST_AT_ONCE: usize = 64 << 20;

/// This many bytes of short messages, or one batch, are reused, so that they stay in the
/// second-level cache.
const ENOUGH: usize = 128 << 10;

/// The overhead of a short message, in bytes.
const LINE: usize = 64;

#[cfg(test)]
mod tests {
    use evener_core::Cipher;

    use super::*;

    #[test]
    fn every_engine_of_the_machine_can_be_prepared() {
        let reference = crate::find("openssl").unwrap();
        for probed in crate::probe_all() {
            let engine = match probed.engine {
                Ok(engine) => engine,
                Err(error) => {
                    evener_core::skipped!("{error}");
                    continue;
                }
            };
            for cipher in [Cipher::Aes256Cbc, Cipher::Aes128Gcm, Cipher::BfCbc] {
                for direction in [Direction::Encrypt, Direction::Decrypt] {
                    if engine.offer(cipher, direction).is_none() {
                        continue;
                    }
                    let case = Case::new(cipher, direction, 64).unwrap();
                    let prepared = Messages::prepare(&*engine, Some(&*reference), &case);
                    let done = prepared.unwrap().work(Duration::from_millis(1)).unwrap();
                    assert!(done.bytes >= 64.0 && done.time > Duration::ZERO);
                }
            }
        }
    }
}
