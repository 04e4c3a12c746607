//! Sessions, and messages without a session.

pub(crate) mod sys;

use std::ffi::c_int;
use std::sync::{Arc, LazyLock, Mutex, TryLockError};

use facade::{
    Cipher, Direction, Engine, EngineError, Evener, Job, Key, Outcome, Padding, Session,
    SessionRequest, engines,
};

use crate::key::KeyHandle;
use crate::status::{Status, Trouble};

/// An engine opened for one cipher, direction and key. One thread at a time uses it; a second one
/// gets `EVENER_STATUS_BUSY`.
pub struct SessionHandle {
    session: Mutex<Box<dyn Session>>,
}

/// One message. Input and output never overlap (`evener_parallel_crypt_in_place` does), and the input is never changed. For a message
/// of n bytes:
///
/// - ECB and CBC: n bytes to n bytes, in whole blocks. With `EVENER_PKCS7` encryption adds 1 byte
///   to one block; decryption takes whole blocks and sets `written` to the length without padding.
/// - CTR and XTS (from 16 bytes on): n bytes to n bytes.
/// - GCM and ChaCha20-Poly1305 encrypt n bytes to n + 16, the tag last, and decrypt n + 16 to n.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct JobArguments {
    /// `sizeof(evener_job)`, set by the caller: the same in every job of an array.
    pub size: usize,
    /// The message to encrypt or decrypt.
    pub input: *const u8,
    /// In bytes.
    pub input_length: usize,
    /// The buffer for the result.
    pub output: *mut u8,
    /// Its length in bytes. No more are written than the message needs.
    pub output_capacity: usize,
    /// The IV, nonce or first counter block.
    pub iv: *const u8,
    /// In bytes; must be the cipher's, see `evener_cipher_info`.
    pub iv_length: usize,
    /// Additional authenticated data, for AEAD ciphers; else NULL.
    pub aad: *const u8,
    /// In bytes.
    pub aad_length: usize,
    /// This message's own key; NULL for the session's.
    pub key: *const KeyHandle,
    /// `EVENER_NO_PADDING` or, for ECB and CBC, `EVENER_PKCS7`.
    pub padding: u32,
    /// Set by the call: an `evener_status`.
    pub status: c_int,
    /// Set by the call: the length of the result.
    pub written: usize,
}

impl SessionHandle {
    pub(crate) fn open(
        engine: &dyn Engine,
        cipher: Cipher,
        direction: Direction,
        key: Option<&Key>,
    ) -> Result<SessionHandle, EngineError> {
        let session = engine.open(&SessionRequest { cipher, direction, key })?;
        Ok(SessionHandle { session: Mutex::new(session) })
    }

    /// Processes all jobs, and returns the status of the first rejected one.
    pub(crate) fn process(&self, batch: &mut [Job<'_>]) -> Result<(), Trouble> {
        let mut session = self.session.try_lock().map_err(|held| match held {
            TryLockError::WouldBlock => Trouble::new(Status::Busy, BUSY),
            TryLockError::Poisoned(_) => Trouble::new(Status::Internal, SPOILED),
        })?;
        session.process(batch)?;
        let rejections = batch.iter().enumerate().filter_map(|(index, job)| match job.outcome {
            Outcome::Rejected(rejection) => Some((index, rejection)),
            _ => None,
        });
        match rejections.into_iter().next() {
            None => Ok(()),
            Some((_, rejection)) if batch.len() == 1 => {
                Err(Trouble::new(rejection.into(), rejection.to_string()))
            }
            Some((index, rejection)) => {
                Err(Trouble::new(rejection.into(), format!("job {index}: {rejection}")))
            }
        }
    }
}

impl SessionHandle {
    /// Verifies the last unverified job.
    pub(crate) fn finish(&self) -> Result<(), Trouble> {
        let mut session = self.session.try_lock().map_err(|held| match held {
            TryLockError::WouldBlock => Trouble::new(Status::Busy, BUSY),
            TryLockError::Poisoned(_) => Trouble::new(Status::Internal, SPOILED),
        })?;
        Ok(session.finish()?)
    }
}

/// The default engine, for calls without an engine. It is probed once.
pub(crate) fn default_engine() -> Result<&'static dyn Engine, EngineError> {
    static FOUND: LazyLock<Result<Arc<dyn Engine>, EngineError>> =
        LazyLock::new(|| engines::find(Evener::REFERENCE_ENGINE));
    FOUND.as_ref().map(|engine| &**engine).map_err(EngineError::clone)
}

/// `EVENER_NO_PADDING` or `EVENER_PKCS7`.
pub(crate) fn padding(number: u32) -> Result<Padding, Trouble> {
    match number {
        sys::EVENER_NO_PADDING => Ok(Padding::None),
        sys::EVENER_PKCS7 => Ok(Padding::Pkcs7),
        _ => Err(Trouble::argument(format!(
            "the padding {number} is neither EVENER_NO_PADDING nor EVENER_PKCS7"
        ))),
    }
}

/// A job's outcome in C's terms: its status, and how many bytes were written.
fn settled(outcome: Outcome) -> (Status, usize) {
    match outcome {
        Outcome::Pending => (Status::Pending, 0),
        Outcome::Done { written } => (Status::Ok, written),
        Outcome::Rejected(rejection) => (rejection.into(), 0),
    }
}

const BUSY: &str = "another thread is using the session; open one for each thread";
const SPOILED: &str = "a defect of Evener's has spoiled the session; open another";
