//! Sessions, and messages without a session.

pub(crate) mod sys;

use std::ffi::c_int;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, TryLockError};

use facade::engines::{
    self, Job, Outcome, Padding, RecordLayout, Records, Session, SessionRequest,
};
use facade::{Cipher, Direction, Engine, EngineError, Evener, Key};

use crate::key::KeyHandle;
use crate::status::{Status, Trouble};

/// An engine opened for one cipher, direction and key. One thread at a time uses it; a second one
/// gets `EVENER_STATUS_BUSY`.
pub struct SessionHandle {
    session: Mutex<Box<dyn Session>>,
    cipher: Cipher,
    direction: Direction,
}

/// One message. Input and output never overlap, and the input is never changed. (To work in place,
/// use `evener_parallel_crypt_in_place`.) For a message of n bytes:
///
/// - ECB and CBC: n bytes to n bytes, in whole blocks. With `EVENER_PADDING_PKCS7` encryption adds
///   1 byte to one block; decryption takes whole blocks and sets `written` to the length without
///   padding.
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
    /// An `evener_padding`.
    pub padding: u32,
    /// Set by the call: an `evener_status`.
    pub status: c_int,
    /// Set by the call: the length of the result.
    pub written: usize,
}

/// How a message is padded to whole blocks.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaddingNumber {
    /// Not at all: the message is whole blocks, or the cipher needs none.
    None = 0,
    /// By 1 byte to one block of bytes that hold their number (RFC 5652), for ECB and CBC.
    Pkcs7 = 1,
}

/// Records: many short messages of one length in one buffer, such as the fields of a table. Record
/// i begins at i * `input_stride` of the input, its result at i * `output_stride` of the output,
/// and its IV is the i-th of `ivs`. The lengths are those of `evener_job`; removing padding needs
/// space for the padding too.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RecordsArguments {
    /// `sizeof(evener_records)`, set by the caller.
    pub size: usize,
    /// Number of records.
    pub count: usize,
    /// Length of a message, which is a record's plaintext, in bytes.
    pub length: usize,
    /// The records to encrypt or decrypt.
    pub input: *const u8,
    /// In bytes, of all records.
    pub input_length: usize,
    /// Distance from one record to the next; 0 for records without gaps.
    pub input_stride: usize,
    /// The buffer for the results.
    pub output: *mut u8,
    /// Its length in bytes. Nothing is written between two results.
    pub output_capacity: usize,
    /// Distance from one result to the next; 0 for results without gaps.
    pub output_stride: usize,
    /// The IVs without gaps.
    pub ivs: *const u8,
    /// In bytes: `count` times the cipher's IV length.
    pub ivs_length: usize,
    /// An `evener_padding`.
    pub padding: u32,
    /// Set by the call: an `evener_status`, that of the first rejected record if there is one.
    pub status: c_int,
    /// Set by the call: number of records done or rejected, from the first on. If the engine
    /// failed, less than `count`.
    pub done: usize,
    /// Set by the call: number of rejected records, which have no plaintext.
    pub rejected: usize,
    /// Set by the call: the number of the first rejected record, if there is one.
    pub first_rejected: usize,
}

impl SessionHandle {
    pub(crate) fn open(
        engine: &dyn Engine,
        cipher: Cipher,
        direction: Direction,
        key: Option<&Key>,
    ) -> Result<SessionHandle, EngineError> {
        let session = engine.open(&SessionRequest { cipher, direction, key })?;
        Ok(SessionHandle { session: Mutex::new(session), cipher, direction })
    }

    /// Processes all jobs, and returns the status of the first rejected one.
    pub(crate) fn process(&self, batch: &mut [Job<'_>]) -> Result<(), Trouble> {
        self.lock()?.process(batch)?;
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
    /// The records' layout, in which a distance of 0 means no gap between them.
    pub(crate) fn layout(&self, arguments: &RecordsArguments) -> Result<RecordLayout, Trouble> {
        let &RecordsArguments { count, length, input_stride, output_stride, .. } = arguments;
        let padding = padding(arguments.padding)?;
        let packed = RecordLayout::packed(self.cipher, self.direction, padding, count, length);
        let or = |stride, packed| if stride == 0 { packed } else { stride };
        Ok(RecordLayout {
            input_stride: or(input_stride, packed.input_stride),
            output_stride: or(output_stride, packed.output_stride),
            ..packed
        })
    }

    /// The records in these buffers.
    pub(crate) fn records<'a>(
        &self,
        layout: RecordLayout,
        ivs: &'a [u8],
        input: &'a [u8],
        output: &'a mut [u8],
    ) -> Result<Records<'a>, Trouble> {
        Records::new(self.cipher, self.direction, layout, ivs, input, output)
            .map_err(|rejection| Trouble::new(rejection.into(), rejection.to_string()))
    }

    /// Processes all records, and returns the status of the first rejected one.
    pub(crate) fn process_records(&self, records: &mut Records<'_>) -> Result<(), Trouble> {
        self.lock()?.process_records(records)?;
        match records.rejected() {
            [] => Ok(()),
            &[(record, rejection), ..] => {
                Err(Trouble::new(rejection.into(), format!("record {record}: {rejection}")))
            }
        }
    }

    /// Verifies the last unverified job.
    pub(crate) fn finish(&self) -> Result<(), Trouble> {
        Ok(self.lock()?.finish()?)
    }

    fn lock(&self) -> Result<MutexGuard<'_, Box<dyn Session>>, Trouble> {
        self.session.try_lock().map_err(|held| match held {
            TryLockError::WouldBlock => Trouble::new(Status::Busy, BUSY),
            TryLockError::Poisoned(_) => Trouble::new(Status::Internal, SPOILED),
        })
    }
}

/// The default engine, for calls without an engine. It is probed once.
pub(crate) fn default_engine() -> Result<&'static Arc<dyn Engine>, EngineError> {
    static FOUND: LazyLock<Result<Arc<dyn Engine>, EngineError>> =
        LazyLock::new(|| engines::find(Evener::REFERENCE_ENGINE));
    FOUND.as_ref().map_err(EngineError::clone)
}

/// The padding with this number.
pub(crate) fn padding(number: u32) -> Result<Padding, Trouble> {
    match number {
        _ if number == PaddingNumber::None as u32 => Ok(Padding::None),
        _ if number == PaddingNumber::Pkcs7 as u32 => Ok(Padding::Pkcs7),
        _ => Err(Trouble::argument(format!("there is no evener_padding {number}"))),
    }
}

/// A job's outcome in C's terms: its status, and the number of bytes written.
fn settled(outcome: Outcome) -> (Status, usize) {
    match outcome {
        Outcome::Pending => (Status::Pending, 0),
        Outcome::Done { written } => (Status::Ok, written),
        Outcome::Rejected(rejection) => (rejection.into(), 0),
    }
}

const BUSY: &str = "another thread is using the session; open one for each thread";
const SPOILED: &str = "a defect of Evener's has spoiled the session; open another";
