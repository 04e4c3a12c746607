//! One driver, one socket, one job after the other.

use std::io;

use evener_core::parts::{COUNTER_BLOCK, LastBlock, Parts};
use evener_core::{
    Cipher, Direction, EngineError, Iv, Job, Key, LoadedKey, Mode, Rejection, Session,
    SessionRequest, shown_error, wipe,
};

use super::probe::{self, Driver};
use super::sys::{Operation, Transform};
use crate::kernel::is_gone;
use crate::serial::{Stop, perform_each, same};

/// A driver's transform, which holds the key, and the operation socket that jobs go through.
pub(super) struct AfAlgSession {
    driver: String,
    cipher: Cipher,
    direction: Direction,
    session_key: Option<Key>,
    loaded: LoadedKey,
    transform: Transform,
    /// True if long inputs go to the kernel without a copy.
    lends: bool,
    /// `None` before the first key, and after a failure, because it may hold an unfinished request.
    operation: Option<Operation>,
    /// Buffer for the additional data of an AEAD job, which the kernel writes back.
    echo: Vec<u8>,
}

impl AfAlgSession {
    pub(super) fn open(
        driver: &Driver,
        request: &SessionRequest<'_>,
    ) -> Result<AfAlgSession, EngineError> {
        let &SessionRequest { cipher, direction, key } = request;
        request.check_key()?;
        let transform = Transform::bind(driver.interface.name(), &driver.name)
            .map_err(|error| EngineError::unavailable(probe::reason(driver, &error)))?;
        if cipher.is_authenticated() {
            transform.set_tag_length(cipher.tag_length()).map_err(|error| {
                let words = shown_error(&error);
                EngineError::unavailable(format!("the driver refused 16-byte tags: {words}"))
            })?;
        }
        let mut session = AfAlgSession {
            driver: driver.name.clone(),
            cipher,
            direction,
            session_key: key.cloned(),
            loaded: LoadedKey::none(),
            transform,
            lends: !cipher.is_authenticated(),
            operation: None,
            echo: Vec::with_capacity(LONGEST_USUAL_AAD),
        };
        // Weak XTS keys are left to the jobs, which are then rejected.
        if let Some(key) = key.filter(|key| !session.is_weak(key.bytes())) {
            session.load(key.bytes())?;
        }
        Ok(session)
    }

    /// Processes one job and returns the number of bytes that it wrote.
    fn perform(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        job.check(self.cipher, self.direction)?;
        self.prepare(job)?;
        let result = match self.cipher.mode() {
            Mode::Gcm | Mode::Poly1305 => self.perform_aead(job),
            Mode::Xts => self.perform_whole(job),
            _ => self.perform_chained(job),
        };
        if result.is_err() && self.direction == Direction::Decrypt {
            let length = job.output_length(self.cipher, self.direction);
            wipe(&mut job.output[..length]);
        }
        if let Err(Stop::Failed(_)) = result {
            self.operation = None;
        }
        result
    }

    /// Opens the operation socket with the job's key, if it is not open.
    fn prepare(&mut self, job: &Job<'_>) -> Result<(), Stop> {
        let Some(key) = job.key.or(self.session_key.as_ref()) else {
            return Err(EngineError::no_key().into());
        };
        if self.operation.is_some() && self.loaded.is(key.bytes()) {
            return Ok(());
        }
        if self.is_weak(key.bytes()) {
            return Err(EQUAL_HALVES.into());
        }
        let key = key.clone();
        Ok(self.load(key.bytes())?)
    }

    /// Sets the key. The kernel refuses that while an operation socket is open.
    fn load(&mut self, key: &[u8]) -> Result<(), EngineError> {
        self.operation = None;
        if !self.loaded.is(key) {
            self.loaded.clear();
            self.transform.set_key(self.cipher, key).map_err(|error| {
                self.failed(format!("refused the key: {}", shown_error(&error)))
            })?;
            self.loaded.set(key);
        }
        self.reopen()
    }

    /// Opens the operation socket, again if necessary.
    fn reopen(&mut self) -> Result<(), EngineError> {
        self.operation = None;
        let mut operation =
            self.transform.accept(self.cipher, self.direction).map_err(|error| {
                self.failed(format!("could not be opened again: {}", shown_error(&error)))
            })?;
        if self.must_be_whole() {
            operation.widen(WIDE);
        }
        self.lends = self.lends && operation.lend(PART_LENGTH).is_ok();
        self.operation = Some(operation);
        Ok(())
    }

    /// Processes ECB, CBC and CTR in parts of a size that the socket accepts.
    fn perform_chained(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        let most = self.part_length()?;
        let mut last = LastBlock::default();
        let mut parts = Parts::of(job, self.cipher, self.direction);
        while let Some(part) = parts.next(job, most) {
            let input = part.input(&mut last);
            let length = part.output.len();
            self.request(part.iv, 0, input, [&mut [], part.output])?;
            parts.advance(job, length);
        }
        Ok(parts.finish(job)?)
    }

    /// Processes XTS in one request, because the kernel can't continue a tweak.
    fn perform_whole(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        let length = job.input.len();
        self.check_fit(length)?;
        self.request(job.iv, 0, [job.input, &[]], [&mut [], &mut job.output[..length]])?;
        Ok(length)
    }

    /// Processes AEAD. The kernel takes additional data, text and tag as one input and returns them
    /// as one output.
    fn perform_aead(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        let length = job.output_length(self.cipher, self.direction);
        self.check_fit(job.aad.len() + job.input.len().max(length))?;
        let mut echo = std::mem::take(&mut self.echo);
        echo.resize(job.aad.len(), 0);
        let output = &mut job.output[..length];
        let result = self.request(job.iv, job.aad.len(), [job.aad, job.input], [&mut echo, output]);
        self.echo = echo;
        result.map(|()| length)
    }

    fn request(
        &mut self,
        iv: Iv,
        aad_length: usize,
        input: [&[u8]; 2],
        output: [&mut [u8]; 2],
    ) -> Result<(), Stop> {
        let Some(operation) = &mut self.operation else {
            return Err(self.failed("has no operation socket".to_owned()).into());
        };
        let [first, second] = output;
        let again = [&mut *first, &mut *second];
        let is_lent = operation.lends(input[0].len() + input[1].len());
        match operation.perform(iv.bytes(), aad_length, input, again) {
            Ok(()) => Ok(()),
            Err(error) if is_refused(&error) && is_lent => {
                // A kernel may refuse pipes for these sockets; from now on inputs are copied.
                self.lends = false;
                self.reopen()?;
                self.request(iv, aad_length, input, [first, second])
            }
            Err(error) if self.checks_tags() && error.raw_os_error() == Some(libc::EBADMSG) => {
                Err(Rejection::Tag.into())
            }
            Err(error) => Err(self.failed(words(self.direction, &error)).into()),
        }
    }

    fn checks_tags(&self) -> bool {
        self.cipher.is_authenticated() && self.direction == Direction::Decrypt
    }

    /// Checks that a message of this length, with its additional data and tag, fits in a request.
    fn check_fit(&self, bytes: usize) -> Result<(), Stop> {
        let capacity = self.operation.as_ref().map_or(0, Operation::capacity);
        if bytes <= capacity {
            return Ok(());
        }
        Err(self
            .failed(format!(
                "was given {bytes} bytes, and a {} message must fit in {capacity} bytes of \
                 socket buffer; raise net.core.wmem_max and net.core.rmem_max, or use smaller \
                 messages",
                self.cipher
            ))
            .into())
    }

    /// Greatest part of a message in one request, in whole blocks.
    fn part_length(&self) -> Result<usize, Stop> {
        let capacity = self.operation.as_ref().map_or(0, Operation::capacity);
        let part = capacity.min(PART_LENGTH) / COUNTER_BLOCK * COUNTER_BLOCK;
        if part == 0 {
            self.check_fit(COUNTER_BLOCK)?;
        }
        Ok(part)
    }

    fn must_be_whole(&self) -> bool {
        matches!(self.cipher.mode(), Mode::Gcm | Mode::Poly1305 | Mode::Xts)
    }

    /// Returns whether the two keys of XTS are equal when encrypting, which IEEE 1619 and FIPS 140
    /// forbid.
    fn is_weak(&self, key: &[u8]) -> bool {
        let (first, second) = key.split_at(key.len() / 2);
        self.cipher.mode() == Mode::Xts
            && self.direction == Direction::Encrypt
            && same(first, second)
    }

    fn failed(&self, what: String) -> EngineError {
        EngineError::failed(format!("the driver {} {what}", self.driver))
    }
}

impl Session for AfAlgSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        perform_each(batch, |job| self.perform(job))
    }
}

fn words(direction: Direction, error: &io::Error) -> String {
    let words = shown_error(error);
    match error.raw_os_error() {
        Some(code) if is_gone(code) => "has lost its device".to_owned(),
        Some(libc::ENOMEM | libc::ENOBUFS) => format!(
            "could not {direction}: the kernel gave it no memory ({words}); net.core.optmem_max \
             bounds what a socket may use"
        ),
        _ => format!("could not {direction}: {words}"),
    }
}

/// Returns whether the error means that the kernel does not support the call.
fn is_refused(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM | libc::EACCES)
    )
}

/// Greatest part of a message in one request, in bytes: the kernel allocates the page list for it
/// at once, and it stays in the cache until the driver reads it.
const PART_LENGTH: usize = 1 << 16;

/// Requested capacity of a socket for messages that can't be divided, in bytes: a mebibyte, plus
/// additional data, tag and the pages at both ends.
const WIDE: usize = (1 << 20) + (1 << 16);

/// Length of the buffer for additional data before the first job, in bytes.
const LONGEST_USUAL_AAD: usize = 256;

const EQUAL_HALVES: Rejection = Rejection::Malformed("the two keys of XTS are the same");
