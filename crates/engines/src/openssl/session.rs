//! Jobs, one after the other, through one reused context.

use std::sync::Arc;

use evener_core::{
    Cipher, Direction, EngineError, InPlaceJob, Iv, Job, Key, LoadedKey, Mode, Outcome, Padding,
    Rejection, Session, SessionRequest, Shortcuts, padding, wipe,
};
use zeroize::Zeroizing;

use super::failed;
use super::probe::Library;
use super::sys::{Context, Refusal, TAG_LENGTH};
use crate::serial::{self, perform_each, same};

/// A context for one cipher and direction, and the key that it is set up with.
pub(super) struct OpensslSession {
    context: Context,
    cipher: Cipher,
    direction: Direction,
    session_key: Option<Key>,
    loaded: LoadedKey,
    // Last, because the context's algorithm lives in it.
    library: Arc<Library>,
}

impl OpensslSession {
    pub(super) fn open(
        library: &Arc<Library>,
        request: &SessionRequest<'_>,
    ) -> Result<OpensslSession, EngineError> {
        let &SessionRequest { cipher, direction, key } = request;
        let algorithm = library
            .algorithm(cipher)
            .ok_or_else(|| EngineError::not_offered(cipher, direction).of(library.engine()))?;
        request.check_key()?;
        let context = Context::new(cipher, algorithm, direction, library.buffers());
        Ok(OpensslSession {
            context: context.map_err(|error| failed(library.engine(), &error))?,
            cipher,
            direction,
            session_key: key.cloned(),
            loaded: LoadedKey::none(),
            library: Arc::clone(library),
        })
    }

    /// Processes one job and returns the number of bytes that it wrote.
    fn perform(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        job.check(self.cipher, self.direction)?;
        match (self.cipher.is_authenticated(), self.direction) {
            (true, Direction::Encrypt) => self.seal(job),
            (true, Direction::Decrypt) => self.unseal(job),
            (false, Direction::Encrypt) => self.encrypt(job),
            (false, Direction::Decrypt) => self.decrypt(job),
        }
    }

    /// Converts the error of a job, and wipes its partial plaintext.
    #[cold]
    fn abandon(&self, job: &mut Job<'_>, stop: Stop) -> serial::Stop {
        if self.direction == Direction::Decrypt {
            let length = job.output_length(self.cipher, self.direction).min(job.output.len());
            wipe(&mut job.output[..length]);
        }
        self.in_words(stop)
    }

    fn in_words(&self, stop: Stop) -> serial::Stop {
        match stop {
            Stop::Settled(stop) => stop,
            Stop::Refused(error) => failed(self.library.engine(), &error).into(),
        }
    }

    fn encrypt(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        self.start(job)?;
        let length = job.output_length(self.cipher, self.direction);
        let whole = match job.padding {
            Padding::None => length,
            Padding::Pkcs7 => length - self.cipher.block_length(),
        };
        let (message, tail) = job.input.split_at(whole);
        let (output, last) = job.output[..length].split_at_mut(whole);
        self.context.transform(message, output)?;
        if job.padding == Padding::Pkcs7 {
            let mut block = Zeroizing::new([0; LONGEST_BLOCK]);
            let block = &mut block[..last.len()];
            padding::fill_last_block(block, tail);
            self.context.transform(block, last)?;
        }
        Ok(length)
    }

    fn decrypt(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        self.start(job)?;
        let output = &mut job.output[..job.input.len()];
        self.context.transform(job.input, output)?;
        if job.padding == Padding::None {
            return Ok(output.len());
        }
        let last = &output[output.len() - self.cipher.block_length()..];
        let padding = padding::padding_length(last).ok_or(Rejection::Padding)?;
        Ok(output.len() - padding)
    }

    fn replace(&mut self, job: &mut InPlaceJob<'_>) -> Result<(), Stop> {
        job.check()?;
        if (job.cipher, job.direction) != (self.cipher, self.direction) {
            return Err(ANOTHER_CIPHER.into());
        }
        self.start_with(None, &job.iv)?;
        self.context.transform_in_place(&mut job.data[job.done..])?;
        job.done = job.data.len();
        Ok(())
    }

    fn seal(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        self.start(job)?;
        let length = job.input.len();
        let (text, rest) = job.output.split_at_mut(length);
        let tag = rest.first_chunk_mut::<TAG_LENGTH>().ok_or(SHORT_OUTPUT)?;
        self.context.authenticate(job.aad)?;
        self.context.transform(job.input, text)?;
        self.context.finish_encryption(tag)?;
        Ok(length + TAG_LENGTH)
    }

    fn unseal(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        let (text, tag) = job.input.split_last_chunk::<TAG_LENGTH>().ok_or(SHORT_INPUT)?;
        self.start(job)?;
        self.context.authenticate(job.aad)?;
        self.context.transform(text, &mut job.output[..text.len()])?;
        if !self.context.finish_decryption(tag)? {
            return Err(Rejection::Tag.into());
        }
        Ok(text.len())
    }

    /// Starts a message. The key schedule is computed only if the key differs from the last
    /// message's.
    fn start(&mut self, job: &Job<'_>) -> Result<(), Stop> {
        self.start_with(job.key, &job.iv)
    }

    fn start_with(&mut self, key: Option<&Key>, iv: &Iv) -> Result<(), Stop> {
        let no_key = || EngineError::no_key().of(self.library.engine());
        let key = key.or(self.session_key.as_ref()).ok_or_else(no_key)?.bytes();
        if self.loaded.is(key) {
            return Ok(self.context.start(None, iv.bytes())?);
        }
        let (first, second) = key.split_at(key.len() / 2);
        if self.cipher.mode() == Mode::Xts
            && self.direction == Direction::Encrypt
            && same(first, second)
        {
            return Err(EQUAL_HALVES.into());
        }
        // No key counts as loaded until libcrypto has accepted it.
        self.loaded.clear();
        self.context.start(Some(key), iv.bytes())?;
        self.loaded.set(key);
        Ok(())
    }
}

impl Session for OpensslSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        perform_each(batch, |job| self.perform(job).map_err(|stop| self.abandon(job, stop)))
    }

    fn shortcuts(&mut self) -> Option<&mut dyn Shortcuts> {
        Some(self)
    }
}

impl Shortcuts for OpensslSession {
    fn process_in_place(&mut self, job: &mut InPlaceJob<'_>) -> Result<(), EngineError> {
        if job.outcome != Outcome::Pending {
            return Ok(());
        }
        job.outcome = match self.replace(job).map_err(|stop| self.in_words(stop)) {
            Ok(()) => Outcome::Done { written: job.done },
            Err(serial::Stop::Rejected(rejection)) => Outcome::Rejected(rejection),
            Err(serial::Stop::Failed(error)) => return Err(*error),
        };
        Ok(())
    }
}

/// The reason why a job was not done, before the library's errors are formatted.
enum Stop {
    Settled(serial::Stop),
    /// A call into libcrypto failed.
    Refused(Refusal),
}

impl From<Rejection> for Stop {
    fn from(rejection: Rejection) -> Stop {
        Stop::Settled(rejection.into())
    }
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Stop {
        Stop::Settled(error.into())
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

/// The longest block of a cipher that pads, in bytes.
const LONGEST_BLOCK: usize = 16;

const EQUAL_HALVES: Rejection = Rejection::Malformed("the two keys of XTS are the same");
const ANOTHER_CIPHER: Rejection =
    Rejection::Malformed("the session is for another cipher or direction");
const SHORT_OUTPUT: Rejection = Rejection::Malformed("the output is too short");
const SHORT_INPUT: Rejection = Rejection::Malformed("the message is shorter than its tag");
