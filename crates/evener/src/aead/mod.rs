//! Authenticated messages, one by one and in batches.

mod batch;
mod error;
mod idle;
mod sealer;

use std::fmt;
use std::slice;
use std::sync::Arc;

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Outcome, Rejection, Session,
    SessionRequest, wipe,
};
use evener_engines::Watch;
use evener_pipeline::{Pool, parallel};
use zeroize::Zeroizing;

pub use batch::{Opening, Sealing};
pub use error::AeadError;
use idle::Idle;
pub use sealer::{Sealed, Sealer};

use crate::{Evener, Nonce};

/// An AEAD cipher (RFC 5116) with its key, for messages in memory.
///
/// Any number of threads may use it at once. Sealing takes a [`Nonce`], which a [`NonceSequence`](crate::NonceSequence)
/// makes and which can't be reused; opening takes the bytes that came with the message.
///
/// ```
/// use evener::{Aead, Cipher, NonceSequence};
///
/// let key = Aead::generate_key(Cipher::Aes256Gcm)?;
/// let aead = Aead::new(Cipher::Aes256Gcm, &key)?;
/// let mut nonces = NonceSequence::counter([0; 4]);
///
/// let mut message = b"hello".to_vec();
/// let nonce = aead.seal_in_place_append_tag(nonces.next_nonce()?, b"header", &mut message)?;
/// assert_eq!(message.len(), 5 + 16);
///
/// assert_eq!(aead.open_in_place(&nonce, b"header", &mut message)?, b"hello");
/// # Ok::<(), evener::AeadError>(())
/// ```
///
/// Put many messages into one batch: SIMD lanes, all cores and modules then work on them at once,
/// without copying.
///
/// ```
/// # use evener::{Aead, Cipher, NonceSequence, Opening, Sealing};
/// # let key = Aead::generate_key(Cipher::Aes256Gcm)?;
/// let aead = Aead::new(Cipher::Aes256Gcm, &key)?;
/// let mut sealer = aead.sealer(NonceSequence::random());
///
/// let messages = vec![[7; 100]; 1_000];
/// let mut sealed = vec![[0; 116]; 1_000];
/// let pairs = messages.iter().zip(&mut sealed);
/// let mut batch: Vec<_> = pairs.map(|(message, sealed)| Sealing::new(message, sealed)).collect();
/// sealer.seal_batch(&mut batch)?;
/// let sent: Vec<[u8; 12]> = batch.iter().filter_map(|sealing| sealing.nonce().copied()).collect();
///
/// let mut opened = vec![[0; 100]; 1_000];
/// let triples = sent.iter().zip(&sealed).zip(&mut opened);
/// let mut batch: Vec<_> = triples.map(|((nonce, sealed), open)| Opening::new(nonce, sealed, open)).collect();
/// aead.open_batch(&mut batch)?;
/// assert_eq!(opened, messages);
/// # Ok::<(), evener::AeadError>(())
/// ```
pub struct Aead {
    cipher: Cipher,
    key: Key,
    engines: Vec<Arc<dyn Engine>>,
    pool: Arc<Pool>,
    idle: Idle,
}

impl Aead {
    /// Makes a random key for a cipher.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn generate_key(cipher: Cipher) -> Result<Key, AeadError> {
        let mut bytes = Zeroizing::new([0; Key::MAX_LENGTH]);
        let bytes = &mut bytes[..cipher.key_length()];
        getrandom::fill(bytes).map_err(|error| AeadError::Random(error.to_string()))?;
        Key::new(bytes).map_err(|error| AeadError::Random(error.to_string()))
    }

    /// Takes an authenticated cipher and its key, for the engine `cpu`.
    ///
    /// # Errors
    /// When the cipher does not authenticate, or the key's length is not the cipher's.
    pub fn new(cipher: Cipher, key: &Key) -> Result<Aead, AeadError> {
        Aead::with_engines(cipher, key, &[Evener::CPU_ENGINE])
    }

    /// Like [`Aead::new`], with the engines of these names, such as `cpu` and `af_alg`. All of them
    /// work on a batch; single messages go to the first.
    ///
    /// # Errors
    /// As [`Aead::new`], and when an engine is not available or lacks the cipher.
    pub fn with_engines<S: AsRef<str>>(
        cipher: Cipher,
        key: &Key,
        names: &[S],
    ) -> Result<Aead, AeadError> {
        let watched = |name: &S| {
            evener_engines::watched(&evener_engines::find(name.as_ref())?, Watch::default())
        };
        Aead::on(cipher, key, names.iter().map(watched).collect::<Result<_, _>>()?)
    }

    /// Like [`Aead::with_engines`], with the caller's own engine objects. An engine that has a
    /// guard ([`watched`](crate::engines::watched)) keeps it with its settings; other modules get a
    /// guard that compares 1 in 1,000 results with OpenSSL's. Wrong results before the first
    /// comparison that fails go unnoticed.
    ///
    /// # Errors
    /// As [`Aead::with_engines`].
    pub fn on(cipher: Cipher, key: &Key, engines: Vec<Arc<dyn Engine>>) -> Result<Aead, AeadError> {
        if !cipher.is_authenticated() {
            return Err(AeadError::NotAuthenticated { cipher });
        }
        if engines.is_empty() {
            return Err(AeadError::NoEngines);
        }
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            SessionRequest { cipher, direction, key: Some(key) }.check_key()?;
            for engine in &engines {
                let name = || engine.description().name.clone();
                if engine.holds_key() {
                    return Err(EngineError::holds_key().of(&name()).into());
                }
                if engine.offer(cipher, direction).is_none() {
                    return Err(EngineError::not_offered(cipher, direction).of(&name()).into());
                }
            }
        }
        let watched = |engine| match evener_engines::is_watched(&engine) {
            true => Ok(engine),
            false => evener_engines::watched(&engine, Watch::default()),
        };
        let engines = engines.into_iter().map(watched).collect::<Result<_, _>>()?;
        let pool = Arc::new(Pool::on_all_cores());
        Ok(Aead { cipher, key: key.clone(), engines, pool, idle: Idle::default() })
    }

    /// Sets the pool whose threads process batches, in place of the default pool with a thread for
    /// each core. (Several engines start their own threads for a batch.)
    #[must_use]
    pub fn pool(self, pool: Arc<Pool>) -> Aead {
        Aead { pool, ..self }
    }

    /// The cipher.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The engines. Their [accounts](Engine::account) say what was verified.
    pub fn engines(&self) -> &[Arc<dyn Engine>] {
        &self.engines
    }

    /// The length of a message of `length` bytes with its tag.
    pub fn sealed_length(&self, length: usize) -> usize {
        length.saturating_add(self.cipher.tag_length())
    }

    /// Encrypts the message in `data` and appends the tag of 16 bytes. Returns the nonce's bytes,
    /// for the receiver.
    ///
    /// `aad` is authenticated and not part of the result. Engines do not work in place with AEAD
    /// ciphers, so the result is copied once; [`Aead::seal`] copies nothing.
    ///
    /// # Errors
    /// When the message is too long for the cipher or the engine failed. `data` is unchanged then,
    /// and the nonce is used up.
    pub fn seal_in_place_append_tag(
        &self,
        nonce: Nonce,
        aad: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<[u8; Nonce::LENGTH], AeadError> {
        let length = self.sealed_length(data.len());
        self.with_session(Direction::Encrypt, |opened| {
            let (session, scratch) = opened.parts(length);
            process(session, &iv(nonce.bytes()), aad, data, scratch)?;
            if data.capacity() < length {
                // The old buffer must keep no plaintext.
                wipe(data);
                *data = Vec::with_capacity(length);
            }
            data.clear();
            data.extend_from_slice(scratch);
            Ok(*nonce.bytes())
        })
    }

    /// Decrypts a message in place and returns the plaintext, which is at the beginning of `data`.
    ///
    /// # Errors
    /// [`AeadError::Forged`] if the message is not authentic; also when it is shorter than a tag,
    /// or the engine failed. `data` is unchanged then.
    pub fn open_in_place<'d>(
        &self,
        nonce: &[u8; Nonce::LENGTH],
        aad: &[u8],
        data: &'d mut [u8],
    ) -> Result<&'d mut [u8], AeadError> {
        let length = data.len().saturating_sub(self.cipher.tag_length());
        self.with_session(Direction::Decrypt, |opened| {
            let (session, scratch) = opened.parts(length);
            process(session, &iv(nonce), aad, data, scratch)?;
            data[..length].copy_from_slice(scratch);
            wipe(scratch);
            Ok(())
        })?;
        Ok(&mut data[..length])
    }

    /// Encrypts `plaintext` into `sealed`, which has at least [`Aead::sealed_length`] bytes. The
    /// tag is at the end of the result. Returns the nonce's bytes, for the receiver.
    ///
    /// # Errors
    /// When a length is wrong or the engine failed. The nonce is used up.
    pub fn seal(
        &self,
        nonce: Nonce,
        aad: &[u8],
        plaintext: &[u8],
        sealed: &mut [u8],
    ) -> Result<[u8; Nonce::LENGTH], AeadError> {
        self.with_session(Direction::Encrypt, |opened| {
            process(&mut *opened.session, &iv(nonce.bytes()), aad, plaintext, sealed)
        })?;
        Ok(*nonce.bytes())
    }

    /// Decrypts `sealed` into `plaintext`, which is at most 16 bytes shorter, and returns the
    /// length of the message.
    ///
    /// # Errors
    /// As [`Aead::open_in_place`]. No plaintext is left in `plaintext` then.
    pub fn open(
        &self,
        nonce: &[u8; Nonce::LENGTH],
        aad: &[u8],
        sealed: &[u8],
        plaintext: &mut [u8],
    ) -> Result<usize, AeadError> {
        let length = sealed.len().saturating_sub(self.cipher.tag_length()).min(plaintext.len());
        let result = self.with_session(Direction::Decrypt, |opened| {
            process(&mut *opened.session, &iv(nonce), aad, sealed, plaintext)
        });
        if result.is_err() {
            // The engine may have written plaintext before it failed.
            wipe(&mut plaintext[..length]);
        }
        result
    }

    /// Decrypts messages without additional data on all engines, into new buffers.
    ///
    /// # Errors
    /// As [`Aead::open_batch`]; no message is returned then.
    pub fn open_all(&self, sealed: &[Sealed]) -> Result<Vec<Vec<u8>>, AeadError> {
        let length = |it: &Sealed| it.bytes.len().saturating_sub(self.cipher.tag_length());
        let mut opened: Vec<_> = sealed.iter().map(|it| vec![0; length(it)]).collect();
        let pairs = sealed.iter().zip(&mut opened);
        let mut batch: Vec<_> =
            pairs.map(|(it, plain)| Opening::new(&it.nonce, &it.bytes, plain)).collect();
        let result = self.open_batch(&mut batch);
        if result.is_err() {
            opened.iter_mut().for_each(|plain| wipe(plain));
        }
        result.map(|()| opened)
    }

    /// Decrypts a batch of messages on all engines.
    ///
    /// # Errors
    /// [`AeadError::Forged`] if messages are not authentic; all others are opened, and
    /// [`Opening::is_authentic`] tells which. When a length is wrong, nothing is done. When the
    /// engines failed, no message counts as opened.
    pub fn open_batch(&self, batch: &mut [Opening<'_>]) -> Result<(), AeadError> {
        let jobs = batch.iter_mut().map(|opening| {
            let Opening { nonce, sealed, aad, plaintext, is_authentic } = opening;
            *is_authentic = false;
            Job { aad, ..Job::new(iv(nonce), sealed, plaintext) }
        });
        let mut jobs: Vec<_> = jobs.collect();
        for (message, job) in jobs.iter().enumerate() {
            job.check(self.cipher, Direction::Decrypt)
                .map_err(|reason| AeadError::Malformed { message, reason })?;
        }
        let result = self.process_batch(Direction::Decrypt, &mut jobs);
        if matches!(result, Ok(()) | Err(AeadError::Forged { .. })) {
            let done = jobs
                .iter()
                .map(|job| matches!(job.outcome, Outcome::Done { .. }))
                .collect::<Vec<_>>();
            for (opening, done) in batch.iter_mut().zip(done) {
                opening.is_authentic = done;
            }
        } else {
            drop(jobs);
            for Opening { sealed, plaintext, .. } in batch {
                let length = self.cipher.tag_length().min(sealed.len());
                let length = (sealed.len() - length).min(plaintext.len());
                wipe(&mut plaintext[..length]);
            }
        }
        result
    }

    fn process_batch<'j>(
        &'j self,
        direction: Direction,
        jobs: &mut [Job<'j>],
    ) -> Result<(), AeadError> {
        let (cipher, key) = (self.cipher, &self.key);
        match &self.engines[..] {
            [engine] => {
                let request = SessionRequest { cipher, direction, key: Some(key) };
                parallel::process_batch(&self.pool, &**engine, &request, jobs, &|| false)?;
            }
            engines => {
                // The workers' sessions are opened without a key.
                jobs.iter_mut().for_each(|job| job.key = Some(key));
                batch::share(engines, cipher, direction, key, jobs)?;
            }
        }
        let mut forged =
            jobs.iter().enumerate().filter(|(_, job)| !matches!(job.outcome, Outcome::Done { .. }));
        let Some((message, job)) = forged.next() else { return Ok(()) };
        match job.outcome {
            Outcome::Rejected(Rejection::Tag) => {
                Err(AeadError::Forged { message, count: 1 + forged.count() })
            }
            Outcome::Rejected(reason) => Err(AeadError::Malformed { message, reason }),
            _ => Err(AeadError::Malformed { message, reason: UNDONE }),
        }
    }

    /// Gives `work` a session of the first engine.
    fn with_session<T>(
        &self,
        direction: Direction,
        work: impl FnOnce(&mut idle::Opened) -> Result<T, AeadError>,
    ) -> Result<T, AeadError> {
        let request = SessionRequest { cipher: self.cipher, direction, key: Some(&self.key) };
        let is_engines = |error: &AeadError| {
            !matches!(error, AeadError::Forged { .. } | AeadError::Malformed { .. })
        };
        self.idle.with(direction, || self.engines[0].open(&request), work, is_engines)
    }
}

impl fmt::Debug for Aead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engines: Vec<_> =
            self.engines.iter().map(|engine| &engine.description().name).collect();
        f.debug_struct("Aead")
            .field("cipher", &self.cipher)
            .field("engines", &engines)
            .finish_non_exhaustive()
    }
}

/// Processes one message and returns the length of the result.
fn process(
    session: &mut dyn Session,
    iv: &Iv,
    aad: &[u8],
    input: &[u8],
    output: &mut [u8],
) -> Result<usize, AeadError> {
    let mut job = Job { aad, ..Job::new(*iv, input, output) };
    session.process(slice::from_mut(&mut job))?;
    match job.outcome {
        Outcome::Done { written } if written <= job.output.len() => Ok(written),
        Outcome::Done { .. } => Err(AeadError::Malformed { message: 0, reason: UNDONE }),
        Outcome::Rejected(Rejection::Tag) => Err(AeadError::Forged { message: 0, count: 1 }),
        Outcome::Rejected(reason) => Err(AeadError::Malformed { message: 0, reason }),
        Outcome::Pending => Err(AeadError::Malformed { message: 0, reason: UNDONE }),
    }
}

fn iv(nonce: &[u8; Nonce::LENGTH]) -> Iv {
    Iv::new(nonce).unwrap_or(Iv::NONE)
}

const UNDONE: Rejection = Rejection::Malformed("its engine left it undone");
