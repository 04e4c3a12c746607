//! The files in memory and their results.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Outcome, Padding, SessionRequest,
};
use evener_engines::lanes::Arena;
use evener_pipeline::{Load, Queue, Returned, Work, Worker};

use crate::LabError;

/// Files of one size with random content, and buffers for the results.
pub(crate) struct Files {
    pub(crate) cipher: Cipher,
    pub(super) direction: Direction,
    count: usize,
    key: Key,
    iv: Iv,
    padding: Padding,
    input: Side,
    output: Side,
    /// The expected results: OpenSSL's, or the plaintext.
    expected: Side,
}

/// Buffers of one length.
struct Side {
    arena: Arena,
    length: usize,
}

impl Side {
    fn new(length: usize, count: usize) -> Side {
        let mut side = Side { arena: Arena::new(), length };
        // Touches every page before the clock starts.
        side.buffers(count).for_each(|buffer| buffer.fill(0));
        side
    }

    fn buffers(&mut self, count: usize) -> impl Iterator<Item = &mut [u8]> {
        self.arena.buffers(std::iter::repeat_n(self.length, count))
    }
}

impl Files {
    /// Makes files of `bytes` random bytes; for decryption, OpenSSL's ciphertext of them. Messages
    /// are padded if the cipher has padding, because files may have any length.
    ///
    /// # Errors
    /// When the system has no random bytes, or OpenSSL does not support the cipher.
    pub(crate) fn new(
        cipher: Cipher,
        direction: Direction,
        bytes: usize,
        count: usize,
    ) -> Result<Files, LabError> {
        let unavailable = |error: EngineError| LabError::Unavailable(error.to_string());
        let padding = if cipher.block_length() > 1 { Padding::Pkcs7 } else { Padding::None };
        let key = Key::new(&random(cipher.key_length())?).expect("every cipher's key fits");
        let iv = Iv::new(&random(cipher.iv_length())?).expect("every cipher's IV fits");
        let mut texts = Side::new(bytes, count);
        for text in texts.buffers(count) {
            getrandom::fill(text).map_err(no_random_bytes)?;
        }
        let encrypted = Job { padding, ..Job::new(iv, &vec![0; bytes], &mut []) }
            .output_length(cipher, Direction::Encrypt);
        let mut files = Files {
            cipher,
            direction: Direction::Encrypt,
            count,
            key,
            iv,
            padding,
            input: texts,
            output: Side::new(encrypted, count),
            expected: Side::new(encrypted, count),
        };
        files.compute_expected().map_err(unavailable)?;
        if direction == Direction::Decrypt {
            files.direction = direction;
            files.output = Side::new(encrypted, count);
            std::mem::swap(&mut files.input, &mut files.expected);
        }
        Ok(files)
    }

    /// The number of files.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The length of each file before encryption.
    pub(crate) fn bytes(&self) -> usize {
        match self.direction {
            Direction::Encrypt => self.input.length,
            Direction::Decrypt => self.expected.length,
        }
    }

    /// The files as jobs with their key.
    pub(crate) fn jobs(&mut self) -> Vec<Job<'_>> {
        let &mut Files { count, iv, padding, ref key, .. } = self;
        let inputs = self.input.buffers(count).map(|input| &*input);
        let jobs = inputs.zip(self.output.buffers(count)).map(|(input, output)| Job {
            padding,
            key: Some(key),
            ..Job::new(iv, input, output)
        });
        jobs.collect()
    }

    /// Returns whether every file's result is right. Clears the results.
    pub(crate) fn are_right(&mut self) -> bool {
        let mut right = true;
        let pairs = self.output.buffers(self.count).zip(self.expected.buffers(self.count));
        for (output, expected) in pairs {
            right &= output[..expected.len()] == *expected;
            output.fill(0);
        }
        right
    }

    fn compute_expected(&mut self) -> Result<(), EngineError> {
        let (cipher, direction) = (self.cipher, self.direction);
        let request = SessionRequest { cipher, direction, key: None };
        let mut session = crate::find("openssl")?.open(&request)?;
        session.process(&mut self.jobs())?;
        std::mem::swap(&mut self.output, &mut self.expected);
        Ok(())
    }
}

fn random(length: usize) -> Result<Vec<u8>, LabError> {
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).map_err(no_random_bytes)?;
    Ok(bytes)
}

fn no_random_bytes(error: getrandom::Error) -> LabError {
    LabError::Unavailable(format!("the system has no random bytes: {error}"))
}

/// Encrypts or decrypts files: each task is a job.
pub(super) struct Processing<'a> {
    cipher: Cipher,
    direction: Direction,
    undone: AtomicU64,
    cause: Mutex<Option<String>>,
    jobs: PhantomData<fn() -> Job<'a>>,
}

impl Processing<'_> {
    pub(super) fn new(cipher: Cipher, direction: Direction) -> Self {
        let (undone, cause) = (AtomicU64::new(0), Mutex::default());
        Processing { cipher, direction, undone, cause, jobs: PhantomData }
    }

    /// Succeeds if every file was done; the error is the reason why not.
    pub(super) fn result(self) -> Result<(), LabError> {
        let cause = self.cause.into_inner().unwrap_or_default();
        match (cause, self.undone.into_inner()) {
            (None, 0) => Ok(()),
            (Some(cause), _) => Err(LabError::Unavailable(cause)),
            (None, undone) => Err(LabError::Unavailable(format!("{undone} files were not done"))),
        }
    }
}

impl<'a> Work for Processing<'a> {
    type Task = Job<'a>;
    type Workspace = ();

    fn workspace(&self, _: &dyn Engine) {}

    fn load(job: &Job<'a>) -> Load {
        Load::job(job.input.len() as u64)
    }

    fn perform(
        &self,
        job: Job<'a>,
        workspace: &mut (),
        worker: &mut Worker<'_>,
        queue: &Queue<'_, Job<'a>>,
    ) -> Result<(), Returned<Job<'a>>> {
        let mut jobs = VecDeque::from([job]);
        let performed = self.perform_claim(&mut jobs, workspace, worker, queue);
        match (performed, jobs.pop_front()) {
            (Err(cause), Some(task)) => Err(Returned { task, cause }),
            _ => Ok(()),
        }
    }

    fn perform_claim(
        &self,
        jobs: &mut VecDeque<Job<'a>>,
        (): &mut (),
        worker: &mut Worker<'_>,
        _: &Queue<'_, Job<'a>>,
    ) -> Result<(), EngineError> {
        let all = jobs.len();
        let processed = worker.process(self.cipher, self.direction, jobs.make_contiguous());
        let is_done = |job: &Job<'_>| matches!(job.outcome, Outcome::Done { .. });
        let done = jobs.iter().filter(|job| is_done(job)).count();
        worker.count_units(done as u64);
        match &processed {
            Ok(()) => {
                self.undone.fetch_add((all - done) as u64, Ordering::Relaxed);
                jobs.clear();
            }
            Err(_) => jobs.retain(|job| job.outcome == Outcome::Pending),
        }
        processed
    }

    fn abandon(&self, _: Job<'a>, cause: Option<&EngineError>) {
        self.undone.fetch_add(1, Ordering::Relaxed);
        if let (Some(cause), Ok(mut first)) = (cause, self.cause.lock()) {
            first.get_or_insert_with(|| cause.to_string());
        }
    }
}
