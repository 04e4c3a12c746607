//! Many short messages of one length.

use std::fmt;
use std::sync::Arc;

use evener_core::{
    Cipher, Direction, Engine, EngineError, Key, Padding, RecordLayout, Records, Rejection,
    Session, SessionRequest,
};

use crate::Evener;

/// A cipher and its key, for many short messages of one length: the fields of a table, samples
/// of a sensor, lines of a log.
///
/// The messages are at equal distances in one buffer, the results in a second, and the IVs without
/// gaps in a third. The lengths are checked once for all messages. The engine `lanes` processes up
/// to 32 messages at a time in these buffers, in a few cycles per message.
///
/// Only one thread at a time can use it. For several threads, give each its own and a range of the
/// records.
///
/// ```
/// use evener::hazmat::RecordCipher;
/// use evener::{Cipher, Key};
///
/// # let key = Key::new(&[1; 16]).unwrap();
/// let samples = vec![7; 1_000 * 24];
/// let ivs: Vec<u8> = (0..1_000_u128).flat_map(u128::to_be_bytes).collect();
/// // (CBC's IVs must be unpredictable; take random ones.)
/// let mut cipher = RecordCipher::new(Cipher::Aes128Cbc, &key)?.padded();
///
/// let mut sealed = vec![0; 1_000 * cipher.sealed_length(24)];
/// cipher.encrypt(24, &ivs, &samples, &mut sealed)?;
///
/// // Removing padding needs space for the padding too.
/// let mut opened = vec![0; sealed.len()];
/// cipher.decrypt(24, &ivs, &sealed, &mut opened)?;
/// assert!(opened.chunks(32).zip(samples.chunks(24)).all(|(open, sample)| open[..24] == *sample));
/// # Ok::<(), evener::hazmat::RecordError>(())
/// ```
pub struct RecordCipher {
    cipher: Cipher,
    key: Key,
    padding: Padding,
    encrypting: Side,
    decrypting: Side,
}

/// One direction: its engine, and its session, which opens at the first use.
struct Side {
    engine: Arc<dyn Engine>,
    session: Option<Box<dyn Session>>,
}

impl RecordCipher {
    /// Takes a key for a cipher, for the engine `cpu`.
    ///
    /// # Errors
    /// When no engine has the cipher, or the key has the wrong length.
    pub fn new(cipher: Cipher, key: &Key) -> Result<RecordCipher, RecordError> {
        RecordCipher::with_engine(cipher, key, Evener::CPU_ENGINE)
    }

    /// Like [`RecordCipher::new`], with the engine of this name, such as `openssl`.
    ///
    /// # Errors
    /// As [`RecordCipher::new`], and when the engine is not available.
    pub fn with_engine(
        cipher: Cipher,
        key: &Key,
        engine: &str,
    ) -> Result<RecordCipher, RecordError> {
        let engine = evener_engines::find(engine)?;
        RecordCipher::on(cipher, key, Arc::clone(&engine), engine)
    }

    fn on(
        cipher: Cipher,
        key: &Key,
        encrypting: Arc<dyn Engine>,
        decrypting: Arc<dyn Engine>,
    ) -> Result<RecordCipher, RecordError> {
        let both = [(&encrypting, Direction::Encrypt), (&decrypting, Direction::Decrypt)];
        for (engine, direction) in both {
            SessionRequest { cipher, direction, key: Some(key) }.check_key()?;
            if engine.offer(cipher, direction).is_none() {
                return Err(EngineError::not_offered(cipher, direction)
                    .of(&engine.description().name)
                    .into());
            }
        }
        let side = |engine| Side { engine, session: None };
        let (encrypting, decrypting) = (side(encrypting), side(decrypting));
        let padding = Padding::None;
        Ok(RecordCipher { cipher, key: key.clone(), padding, encrypting, decrypting })
    }

    /// Pads messages in ECB and CBC with PKCS #7 padding.
    #[must_use]
    pub fn padded(mut self) -> RecordCipher {
        self.padding = Padding::Pkcs7;
        self
    }

    /// The cipher.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The engine for a direction.
    pub fn engine(&self, direction: Direction) -> &Arc<dyn Engine> {
        match direction {
            Direction::Encrypt => &self.encrypting.engine,
            Direction::Decrypt => &self.decrypting.engine,
        }
    }

    /// The length of an encrypted message of `length` bytes, with padding or tag.
    pub fn sealed_length(&self, length: usize) -> usize {
        let layout = self.packed(Direction::Encrypt, 0, length);
        layout.output_length(self.cipher, Direction::Encrypt)
    }

    /// Encrypts messages of `length` bytes that follow each other in `messages`. Their results
    /// follow each other in `sealed`, [`RecordCipher::sealed_length`] bytes each, and so do their
    /// IVs in `ivs`, of the cipher's [`Cipher::iv_length`]. The length of `sealed` gives the number
    /// of messages.
    ///
    /// # Errors
    /// When a length is wrong or the engine failed. The content of `sealed` is then undefined.
    pub fn encrypt(
        &mut self,
        length: usize,
        ivs: &[u8],
        messages: &[u8],
        sealed: &mut [u8],
    ) -> Result<(), RecordError> {
        let count = whole(sealed.len(), self.sealed_length(length))?;
        let layout = self.packed(Direction::Encrypt, count, length);
        exactly(messages.len(), count, layout.input_stride)?;
        self.process(Direction::Encrypt, layout, ivs, messages, sealed)
    }

    /// Decrypts the result of [`RecordCipher::encrypt`]. Padded messages are at the same distances
    /// in `messages` as in `sealed`, other messages without gaps.
    ///
    /// # Errors
    /// As [`RecordCipher::encrypt`], and [`RecordError::Rejected`] when a message is forged: its
    /// tag is wrong, or its padding does not fit the length. Such messages become zeros; all others
    /// are decrypted.
    pub fn decrypt(
        &mut self,
        length: usize,
        ivs: &[u8],
        sealed: &[u8],
        messages: &mut [u8],
    ) -> Result<(), RecordError> {
        let count = whole(sealed.len(), self.sealed_length(length))?;
        let layout = self.packed(Direction::Decrypt, count, length);
        exactly(messages.len(), count, layout.output_stride)?;
        self.process(Direction::Decrypt, layout, ivs, sealed, messages)
    }

    /// Processes records of any layout; see [`RecordLayout`] and [`Records`] for the content of the
    /// buffers.
    ///
    /// # Errors
    /// As [`RecordCipher::decrypt`].
    pub fn process(
        &mut self,
        direction: Direction,
        layout: RecordLayout,
        ivs: &[u8],
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), RecordError> {
        let layout = RecordLayout { padding: self.padding, ..layout };
        let mut records = Records::new(self.cipher, direction, layout, ivs, input, output)?;
        let request = SessionRequest { cipher: self.cipher, direction, key: Some(&self.key) };
        let side = match direction {
            Direction::Encrypt => &mut self.encrypting,
            Direction::Decrypt => &mut self.decrypting,
        };
        let session = match &mut side.session {
            Some(session) => session,
            none => none.insert(side.engine.open(&request)?),
        };
        session.process_records(&mut records)?;
        if records.done() < layout.count {
            return Err(Rejection::Malformed("its engine left it undone").into());
        }
        match records.rejected() {
            [] => Ok(()),
            &[(record, rejection), ..] => {
                let count = records.rejected().len();
                Err(RecordError::Rejected { record, rejection, count })
            }
        }
    }

    fn packed(&self, direction: Direction, count: usize, length: usize) -> RecordLayout {
        RecordLayout::packed(self.cipher, direction, self.padding, count, length)
    }
}

impl fmt::Debug for RecordCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordCipher")
            .field("cipher", &self.cipher)
            .field("padding", &self.padding)
            .finish_non_exhaustive()
    }
}

/// The number of records of a size in a buffer.
fn whole(bytes: usize, size: usize) -> Result<usize, RecordError> {
    match size {
        0 => Err(Rejection::Malformed("records of no bytes can't be counted").into()),
        _ if !bytes.is_multiple_of(size) => {
            Err(Rejection::Malformed("the sealed buffer is not a whole number of records").into())
        }
        _ => Ok(bytes / size),
    }
}

fn exactly(bytes: usize, count: usize, stride: usize) -> Result<(), RecordError> {
    if count.checked_mul(stride) == Some(bytes) {
        return Ok(());
    }
    Err(Rejection::Malformed("the buffers do not hold the same number of records").into())
}

/// The reason why records could not be processed.
///
/// ```
/// use evener::hazmat::{RecordCipher, RecordError};
/// # use evener::{Cipher, Key};
///
/// # let key = Key::new(&[1; 16]).unwrap();
/// let mut cipher = RecordCipher::new(Cipher::Aes128Gcm, &key)?;
/// let forged = cipher.decrypt(4, &[0; 12], &[0; 20], &mut [0; 4]);
/// assert!(matches!(forged, Err(RecordError::Rejected { record: 0, .. })));
/// # Ok::<(), RecordError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The engine is not available, or failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The lengths do not match.
    #[error(transparent)]
    Malformed(#[from] Rejection),
    /// Some messages are forged, or were encrypted with another key or length.
    #[error("record {record}: {rejection} ({count} rejected in all)")]
    Rejected {
        /// The number of the first rejected record, from 0.
        record: usize,
        /// The reason.
        rejection: Rejection,
        /// The number of rejected records.
        count: usize,
    },
}
