//! One buffer on all cores.

use std::fmt;
use std::sync::Arc;

use evener_core::{
    Cipher, Direction, Engine, EngineError, InPlaceJob, Iv, Job, Key, Mode, Outcome, Padding,
    Rejection, SessionRequest,
};
use evener_pipeline::{Pool, parallel};

use crate::Evener;

/// A cipher and its key, for buffers that all threads of a pool process together.
///
/// A buffer is divided into blocks of pages. Threads claim the blocks one by one and process them
/// in place, without a copy. This works for ECB, CTR and CBC decryption. CBC encryption runs on the
/// calling thread, and so does any mode on buffers that take less time than waking another thread
/// (AES: less than half a megabyte).
///
/// Many threads may use it at once.
///
/// ```
/// # use std::sync::Arc;
/// use evener::hazmat::{Iv, ParallelCipher};
/// use evener::{Cipher, Key, Pool};
///
/// # let (key, iv) = ([1; 16], [2; 16]);
/// let pool = Arc::new(Pool::on_all_cores());
/// let cipher = ParallelCipher::new(Cipher::Aes128Ctr, &Key::new(&key).unwrap(), pool)?;
/// let (plaintext, mut ciphertext) = (vec![0; 1_000_003], vec![0; 1_000_003]);
/// cipher.encrypt(Iv::new(&iv).unwrap(), &plaintext, &mut ciphertext)?;
/// cipher.decrypt_in_place(Iv::new(&iv).unwrap(), &mut ciphertext)?;
/// assert_eq!(ciphertext, plaintext);
/// # Ok::<(), evener::hazmat::BufferError>(())
/// ```
pub struct ParallelCipher {
    cipher: Cipher,
    key: Key,
    padding: Padding,
    encrypting: Arc<dyn Engine>,
    decrypting: Arc<dyn Engine>,
    pool: Arc<Pool>,
}

impl ParallelCipher {
    /// Takes a key for a cipher of the modes ECB, CBC and CTR, for the engine `cpu`.
    ///
    /// # Errors
    /// When the mode is not one of these, no engine has the cipher, or the key has the wrong
    /// length.
    pub fn new(cipher: Cipher, key: &Key, pool: Arc<Pool>) -> Result<ParallelCipher, BufferError> {
        ParallelCipher::with_engine(cipher, key, pool, Evener::CPU_ENGINE)
    }

    /// Like [`ParallelCipher::new`], with the engine of this name, such as `openssl`.
    ///
    /// # Errors
    /// As [`ParallelCipher::new`], and when the engine is not available.
    pub fn with_engine(
        cipher: Cipher,
        key: &Key,
        pool: Arc<Pool>,
        engine: &str,
    ) -> Result<ParallelCipher, BufferError> {
        let engine = evener_engines::find(engine)?;
        ParallelCipher::on(cipher, key, pool, Arc::clone(&engine), engine)
    }

    fn on(
        cipher: Cipher,
        key: &Key,
        pool: Arc<Pool>,
        encrypting: Arc<dyn Engine>,
        decrypting: Arc<dyn Engine>,
    ) -> Result<ParallelCipher, BufferError> {
        if !matches!(cipher.mode(), Mode::Ecb | Mode::Cbc | Mode::Ctr) {
            return Err(BufferError::Mode { cipher });
        }
        let expected = cipher.key_length();
        if key.len() != expected {
            return Err(EngineError::KeyLength { cipher, expected, actual: key.len() }.into());
        }
        let both = [(&encrypting, Direction::Encrypt), (&decrypting, Direction::Decrypt)];
        for (engine, direction) in both {
            if engine.offer(cipher, direction).is_none() {
                return Err(EngineError::not_offered(cipher, direction)
                    .of(&engine.description().name)
                    .into());
            }
        }
        let (key, padding) = (key.clone(), Padding::None);
        Ok(ParallelCipher { cipher, key, padding, encrypting, decrypting, pool })
    }

    /// Pads messages in ECB and CBC with PKCS #7 padding, except messages that are processed in
    /// place.
    #[must_use]
    pub fn padded(mut self) -> ParallelCipher {
        self.padding = Padding::Pkcs7;
        self
    }

    /// The cipher.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The pool whose threads do the work.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The engine for a direction.
    pub fn engine(&self, direction: Direction) -> &Arc<dyn Engine> {
        match direction {
            Direction::Encrypt => &self.encrypting,
            Direction::Decrypt => &self.decrypting,
        }
    }

    /// Encrypts `plaintext` into `ciphertext`, which must be at least as long (plus 1 to 16 bytes
    /// of padding, if any), and returns the number of bytes written.
    ///
    /// The IV has the cipher's [`Cipher::iv_length`]; CTR's is the first counter block.
    ///
    /// # Errors
    /// When a length is wrong or the engine failed. The content of `ciphertext` is then undefined.
    pub fn encrypt(
        &self,
        iv: Iv,
        plaintext: &[u8],
        ciphertext: &mut [u8],
    ) -> Result<usize, BufferError> {
        self.process(Direction::Encrypt, iv, plaintext, ciphertext)
    }

    /// Decrypts `ciphertext` into `plaintext`, which must be at least as long, and returns the
    /// length of the message. Nothing is authenticated.
    ///
    /// # Errors
    /// As [`ParallelCipher::encrypt`], and when padding is malformed; there is no plaintext then.
    pub fn decrypt(
        &self,
        iv: Iv,
        ciphertext: &[u8],
        plaintext: &mut [u8],
    ) -> Result<usize, BufferError> {
        self.process(Direction::Decrypt, iv, ciphertext, plaintext)
    }

    /// Replaces the plaintext in `data` by its ciphertext, without padding.
    ///
    /// # Errors
    /// When a length is wrong (`data` is unchanged), or the engine failed (`data` is lost).
    pub fn encrypt_in_place(&self, iv: Iv, data: &mut [u8]) -> Result<(), BufferError> {
        self.process_in_place(Direction::Encrypt, iv, data)
    }

    /// Replaces the ciphertext in `data` by its plaintext, without padding. Nothing is
    /// authenticated.
    ///
    /// # Errors
    /// As [`ParallelCipher::encrypt_in_place`].
    pub fn decrypt_in_place(&self, iv: Iv, data: &mut [u8]) -> Result<(), BufferError> {
        self.process_in_place(Direction::Decrypt, iv, data)
    }

    fn process(
        &self,
        direction: Direction,
        iv: Iv,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, BufferError> {
        let mut job = Job { padding: self.padding, ..Job::new(iv, input, output) };
        parallel::process(
            &self.pool,
            &**self.engine(direction),
            &self.request(direction),
            &mut job,
        )?;
        written(job.outcome)
    }

    fn process_in_place(
        &self,
        direction: Direction,
        iv: Iv,
        data: &mut [u8],
    ) -> Result<(), BufferError> {
        let mut job = InPlaceJob::new(self.cipher, direction, iv, data);
        let engine = self.engine(direction);
        parallel::process_in_place(&self.pool, &**engine, &self.request(direction), &mut job)?;
        written(job.outcome).map(|_| ())
    }

    fn request(&self, direction: Direction) -> SessionRequest<'_> {
        SessionRequest { cipher: self.cipher, direction, key: Some(&self.key) }
    }
}

impl fmt::Debug for ParallelCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParallelCipher")
            .field("cipher", &self.cipher)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

/// The reason why a buffer could not be processed.
///
/// ```
/// use evener::hazmat::{BufferError, ParallelCipher};
/// # use evener::{Cipher, Key, Pool};
///
/// # let key = Key::new(&[1; 16]).unwrap();
/// let refused = ParallelCipher::new(Cipher::Aes128Gcm, &key, Pool::on_all_cores().into());
/// assert!(matches!(refused, Err(BufferError::Mode { cipher: Cipher::Aes128Gcm })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BufferError {
    /// The cipher's messages can't be divided, or they have a tag.
    #[error("{cipher} does not process one buffer in parallel; ECB, CBC and CTR do")]
    Mode {
        /// The requested cipher.
        cipher: Cipher,
    },
    /// The engine is not available, or failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The lengths do not match, or the padding is malformed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
}

fn written(outcome: Outcome) -> Result<usize, BufferError> {
    match outcome {
        Outcome::Done { written } => Ok(written),
        Outcome::Rejected(rejection) => Err(rejection.into()),
        Outcome::Pending => Err(BufferError::Rejected(UNDONE)),
    }
}

const UNDONE: Rejection = Rejection::Malformed("its engine left it undone");
