//! Batches of messages, and several engines that share one.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use evener_core::{Cipher, Direction, Engine, EngineError, Job, Key, Outcome};
use evener_pipeline::{Load, PolicyName, Queue, Returned, RunOptions, Work, Worker, run_filled};

use crate::Nonce;
use crate::seats::seats;

/// A message to be sealed in a batch.
///
/// ```
/// # use evener::{Aead, AeadError, Cipher, NonceSequence, Sealing};
/// # let aead = Aead::new(Cipher::Aes128Gcm, &Aead::generate_key(Cipher::Aes128Gcm)?)?;
/// let mut sealed = [0; 5 + 16];
/// let mut batch = [Sealing::new(b"hello", &mut sealed).aad(b"greeting")];
/// aead.seal_batch(&mut NonceSequence::random(), &mut batch)?;
/// assert!(batch[0].nonce().is_some());
/// # Ok::<(), AeadError>(())
/// ```
pub struct Sealing<'m> {
    pub(super) plaintext: &'m [u8],
    pub(super) aad: &'m [u8],
    pub(super) sealed: &'m mut [u8],
    pub(super) nonce: Option<[u8; Nonce::LENGTH]>,
}

impl<'m> Sealing<'m> {
    /// A message without additional data. `sealed` has at least [`Aead::sealed_length`](crate::Aead::sealed_length)
    /// bytes and receives the ciphertext, with the tag at its end.
    pub fn new(plaintext: &'m [u8], sealed: &'m mut [u8]) -> Sealing<'m> {
        Sealing { plaintext, aad: &[], sealed, nonce: None }
    }

    /// Sets the additional data, which is authenticated and not part of the result.
    #[must_use]
    pub fn aad(self, aad: &'m [u8]) -> Sealing<'m> {
        Sealing { aad, ..self }
    }

    /// The nonce that the message was sealed with, for its receiver; `None` before.
    pub fn nonce(&self) -> Option<&[u8; Nonce::LENGTH]> {
        self.nonce.as_ref()
    }
}

impl fmt::Debug for Sealing<'_> {
    /// Prints lengths, not content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealing")
            .field("length", &self.plaintext.len())
            .field("nonce", &self.nonce)
            .finish_non_exhaustive()
    }
}

/// A message to be opened in a batch.
///
/// ```
/// # use evener::{Aead, AeadError, Cipher, NonceSequence, Opening};
/// # let aead = Aead::new(Cipher::Aes128Gcm, &Aead::generate_key(Cipher::Aes128Gcm)?)?;
/// # let mut sealed = b"hello".to_vec();
/// # let nonce = NonceSequence::random().next_nonce()?;
/// # let nonce = aead.seal_in_place_append_tag(nonce, b"greeting", &mut sealed)?;
/// let mut plaintext = [0; 5];
/// let mut batch = [Opening::new(&nonce, &sealed, &mut plaintext).aad(b"greeting")];
/// aead.open_batch(&mut batch)?;
/// assert!(batch[0].is_authentic());
/// assert_eq!(&plaintext, b"hello");
/// # Ok::<(), AeadError>(())
/// ```
pub struct Opening<'m> {
    pub(super) nonce: [u8; Nonce::LENGTH],
    pub(super) sealed: &'m [u8],
    pub(super) aad: &'m [u8],
    pub(super) plaintext: &'m mut [u8],
    pub(super) is_authentic: bool,
}

impl<'m> Opening<'m> {
    /// A message without additional data, as it was sealed. `plaintext` has at least the length of `sealed` without the
    /// tag's 16 bytes.
    pub fn new(
        nonce: &[u8; Nonce::LENGTH],
        sealed: &'m [u8],
        plaintext: &'m mut [u8],
    ) -> Opening<'m> {
        Opening { nonce: *nonce, sealed, aad: &[], plaintext, is_authentic: false }
    }

    /// Sets the additional data with which the message was sealed.
    #[must_use]
    pub fn aad(self, aad: &'m [u8]) -> Opening<'m> {
        Opening { aad, ..self }
    }

    /// Whether the message was opened and is authentic. Otherwise there is no plaintext.
    pub fn is_authentic(&self) -> bool {
        self.is_authentic
    }
}

impl fmt::Debug for Opening<'_> {
    /// Prints lengths, not content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening")
            .field("length", &self.sealed.len())
            .field("nonce", &self.nonce)
            .field("is_authentic", &self.is_authentic)
            .finish_non_exhaustive()
    }
}

/// Has several engines do a batch together, each job with `key`. What no engine could do stays pending.
///
/// # Errors
/// The last engine's failure, when jobs are left.
pub(super) fn share(
    engines: &[Arc<dyn Engine>],
    cipher: Cipher,
    direction: Direction,
    key: &Key,
    jobs: &mut [Job<'_>],
) -> Result<(), EngineError> {
    let workers = seats(engines, cipher, direction, None, None);
    let policy = PolicyName::usual(workers.iter().map(|engine| engine.description().kind));
    let options = RunOptions::new(policy, cipher, direction, QUEUED_TASKS);
    let before: Vec<_> = engines.iter().map(is_wrong).collect();
    let work = Messages { cipher, direction, failure: Mutex::default(), tasks: PhantomData };
    run_filled(&workers, &options, &work, tasks(jobs));
    let failure = work.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    // An engine computed wrong results now, so what it did of this batch before that is in doubt.
    if engines.iter().zip(before).any(|(engine, before)| !before && is_wrong(engine)) {
        jobs.iter_mut().for_each(|job| job.outcome = Outcome::Pending);
    }
    if jobs.iter().all(|job| job.outcome != Outcome::Pending) {
        return Ok(());
    }
    let reference = evener_engines::find(crate::Evener::REFERENCE_ENGINE)?;
    if reference.offer(cipher, direction).is_none() {
        let engine = reference.description().name.clone();
        return Err(failure.unwrap_or(EngineError::NotOffered { engine, cipher, direction }));
    }
    let request = evener_core::SessionRequest { cipher, direction, key: Some(key) };
    reference.open(&request)?.process(jobs)
}

/// Whether an engine is out of service for a wrong result.
fn is_wrong(engine: &Arc<dyn Engine>) -> bool {
    let fault = engine.account().and_then(|account| account.fault);
    matches!(fault, Some(EngineError::WrongResult { .. }))
}

/// A batch in pieces that a worker takes at once.
fn tasks<'j, 'm>(mut jobs: &'j mut [Job<'m>]) -> Vec<&'j mut [Job<'m>]> {
    let mut tasks = Vec::new();
    while !jobs.is_empty() {
        let mut bytes = 0;
        let lengths = jobs.iter().take(MOST_MESSAGES).map(|job| job.input.len());
        let count = lengths
            .take_while(|length| {
                let fits = bytes < LEAST_BYTES;
                bytes += length;
                fits
            })
            .count();
        let (task, rest) = jobs.split_at_mut(count);
        tasks.push(task);
        jobs = rest;
    }
    tasks
}

/// The messages of one batch.
struct Messages<'j, 'm> {
    cipher: Cipher,
    direction: Direction,
    /// Why messages are left.
    failure: Mutex<Option<EngineError>>,
    tasks: PhantomData<fn(&'j mut [Job<'m>])>,
}

impl<'j, 'm> Work for Messages<'j, 'm> {
    type Task = &'j mut [Job<'m>];
    type Workspace = ();

    fn workspace(&self, _: &dyn Engine) {}

    fn load(task: &Self::Task) -> Load {
        let bytes = task.iter().map(|job| job.input.len() as u64).sum();
        Load::jobs(task.len() as u64, bytes)
    }

    fn perform(
        &self,
        task: Self::Task,
        (): &mut (),
        worker: &mut Worker<'_>,
        _: &Queue<'_, Self::Task>,
    ) -> Result<(), Returned<Self::Task>> {
        match worker.process(self.cipher, self.direction, task) {
            Ok(()) => Ok(()),
            Err(cause) => Err(Returned { task, cause }),
        }
    }

    fn abandon(&self, _: Self::Task, cause: Option<&EngineError>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = cause.cloned();
    }
}

/// A worker takes at least so many bytes at once, if there are, so that claiming costs little.
const LEAST_BYTES: usize = 64 << 10;

/// And at most so many messages.
const MOST_MESSAGES: usize = 256;

/// All tasks of a batch are in the queue before the first worker starts.
const QUEUED_TASKS: usize = 1;

#[cfg(test)]
mod tests {
    use evener_core::Iv;

    use super::*;

    #[test]
    fn a_batch_is_cut_by_bytes_and_by_messages() {
        let input = vec![0; LEAST_BYTES];
        let count = |lengths: &[usize]| {
            let mut outputs = vec![[0; 0]; lengths.len()];
            let jobs = lengths.iter().zip(&mut outputs);
            let mut jobs: Vec<_> = jobs
                .map(|(length, output)| Job::new(Iv::NONE, &input[..*length], output))
                .collect();
            tasks(&mut jobs).iter().map(|task| task.len()).collect::<Vec<_>>()
        };
        assert_eq!(count(&[]), [0; 0]);
        assert_eq!(count(&[0]), [1]);
        assert_eq!(count(&[LEAST_BYTES, 1, LEAST_BYTES, 5]), [1, 2, 1]);
        assert_eq!(count(&[0; 600]), [256, 256, 88]);
    }
}
