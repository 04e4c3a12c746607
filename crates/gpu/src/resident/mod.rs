//! AES-GCM (NIST SP 800-38D) and ChaCha20-Poly1305 (RFC 8439) for texts in a GPU's memory: sealed
//! and opened in place, so that only ciphertext crosses the bus.
//!
//! A text is one message with one tag, whatever its length. It is processed in chunks, whose hashes
//! the host joins. When a text is opened, its tag is checked before anything is decrypted.
//!
//! | file | holds |
//! |---|---|
//! | `hash.rs` | the joining of chunks' hashes |
//! | `ghash.rs`, `poly1305.rs` | the fields of the hashes |
//! | `sys.rs` | the caller's memory, and the calls |

mod ghash;
mod hash;
mod poly1305;
mod sys;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Mode, Outcome, Rejection, SessionRequest,
};
use zeroize::Zeroizing;

use super::device::Argument::{Buffer, U32, U64};
use super::device::{Device, DeviceError, Launch};
use super::kernels::{
    self, BLOCK, CHACHA_BLOCK, Form, JOINED_STRIPES, MESSAGE, MESSAGE_SCRATCH, STRIPE,
    STRIPE_SCRATCH,
};
use super::probe;
use ghash::Ghash;
use hash::Element;
use poly1305::Poly;
pub use sys::DeviceBuffer;
use sys::{Site, Sizes, Text};

/// A cipher with a key, for texts in a device's memory. Any number of threads may use it at once.
pub struct Resident {
    device: Arc<dyn Device>,
    engine: String,
    /// The trusted engine: it encrypts single blocks, and the result of the test is compared with its.
    reference: Arc<dyn Engine>,
    cipher: Cipher,
    key: Key,
    /// GHASH's key; `None` for ChaCha20-Poly1305, where every text has a different one.
    hash_key: Option<Zeroizing<Ghash>>,
    /// Bytes of a chunk, whole blocks.
    chunk: usize,
}

/// Times of sealing a text, for benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Opening a stream with its memory, and expanding the key.
    pub preparation: Duration,
    /// Sealing, until the tag is there.
    pub sealing: Duration,
}

/// A tag.
pub type Tag = [u8; 16];

impl Resident {
    /// Opens AES-GCM or ChaCha20-Poly1305 with a key, on the device of a selector: `gpu`, or
    /// `gpu:cuda:0`. A short text is sealed first and compared with the result of `reference`, a
    /// trusted engine with these ciphers and ECB.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] when there is no such device, [`EngineError::NotOffered`] for
    /// any other cipher, and when the key has the wrong length or the device computes wrongly.
    pub fn open(
        selector: &str,
        cipher: Cipher,
        key: &Key,
        reference: Arc<dyn Engine>,
    ) -> Result<Resident, EngineError> {
        let device = probe::device(selector)
            .map_err(|reason| EngineError::unavailable(reason).of(selector))?;
        let resident = Resident::on(device, selector, (cipher, key), reference, CHUNK)?;
        resident.test()?;
        Ok(resident)
    }

    fn on(
        device: Arc<dyn Device>,
        engine: &str,
        (cipher, key): (Cipher, &Key),
        reference: Arc<dyn Engine>,
        chunk: usize,
    ) -> Result<Resident, EngineError> {
        let (engine, direction) = (engine.to_owned(), Direction::Encrypt);
        if !matches!(cipher.mode(), Mode::Gcm | Mode::Poly1305) {
            return Err(EngineError::not_offered(cipher, direction).of(&engine));
        }
        SessionRequest { cipher, direction, key: Some(key) }.check_key()?;
        let mut hash_key = None;
        if cipher.mode() == Mode::Gcm {
            let mut zero = Zeroizing::new([0; BLOCK]);
            encrypt_block(&*reference, cipher, key, &mut zero)?;
            hash_key = Some(Zeroizing::new(Ghash::of_block(*zero)));
        }
        let key = key.clone();
        Ok(Resident { device, engine, reference, cipher, key, hash_key, chunk })
    }

    /// Encrypts a text in place and returns its tag. Every text of a key needs a different IV, of
    /// 12 bytes.
    ///
    /// # Errors
    /// When the text is longer than the cipher allows (GCM 64 GiB, ChaCha20 256 GiB), the IV has
    /// the wrong length, or the device failed. After a failure of the device the state of the text
    /// is unknown: some may be encrypted.
    pub fn seal(&self, iv: &Iv, aad: &[u8], text: &mut DeviceBuffer) -> Result<Tag, EngineError> {
        let length = text.len();
        self.check(iv, length)?;
        let mut site = self.site(Text::Outside(text), length)?;
        self.sealed(&mut site, iv, aad, length)
    }

    /// Checks a tag, and decrypts the text in place if it is right. Otherwise returns the reason;
    /// then the text is unchanged, and no plaintext was ever in the device's memory.
    ///
    /// # Errors
    /// As for [`Resident::seal`].
    pub fn unseal(
        &self,
        iv: &Iv,
        aad: &[u8],
        tag: &Tag,
        text: &mut DeviceBuffer,
    ) -> Result<Result<(), Rejection>, EngineError> {
        let length = text.len();
        self.check(iv, length)?;
        let mut site = self.site(Text::Outside(text), length)?;
        self.opened(&mut site, iv, aad, length, tag)
    }

    fn check(&self, iv: &Iv, length: usize) -> Result<(), EngineError> {
        let wrong = if iv.bytes().len() != self.cipher.iv_length() {
            "the IV must have 12 bytes"
        } else if length as u64 > self.cipher.longest_message() {
            "the text is longer than the mode allows"
        } else {
            return Ok(());
        };
        Err(self.failed(wrong))
    }

    fn failed(&self, reason: &str) -> EngineError {
        EngineError::failed(reason).of(&self.engine)
    }

    fn lost(&self) -> impl Fn(DeviceError) -> EngineError {
        |error| error.of(&self.engine)
    }

    fn site(&self, text: Text<'_>, length: usize) -> Result<Site, EngineError> {
        let chunks = self.chunks(length).count().max(1);
        let longest = length.min(self.chunk);
        let stripes = stripes(longest) as usize;
        let sizes = Sizes {
            host: table_at(chunks).start.max(match text {
                Text::Inside(length) => length,
                Text::Outside(_) | Text::Zeros(_) => 0,
            }),
            table: MESSAGE.max(KEY),
            keys: KEY_SLOT,
            scratch: (MESSAGE_SCRATCH + stripes * STRIPE_SCRATCH).max(SUMS),
        };
        let mut site = Site::open(&*self.device, sizes, &text).map_err(self.lost())?;
        self.load_key(&mut site).map_err(self.lost())?;
        Ok(site)
    }

    /// Expands the key into the only slot.
    fn load_key(&self, site: &mut Site) -> Result<(), DeviceError> {
        let key = self.key.bytes();
        site.host()?[..key.len()].copy_from_slice(key);
        site.upload(0..key.len(), site.table)?;
        let (table, keys, words) = (Buffer(site.table), Buffer(site.keys), (key.len() / 4) as u32);
        if self.hash_key.is_none() {
            return self.launch(site, "chacha_expand", 1, &[table, U64(0), keys, U32(0), U32(1)]);
        }
        let arguments = [table, U64(0), U32(words), U32(1), keys, U32(0), U32(1)];
        self.launch(site, "aes_expand", 1, &arguments)?;
        self.launch(site, "gcm_expand", 1, &[keys, U32(self.rounds()), U32(0), U32(1)])
    }

    fn rounds(&self) -> u32 {
        (self.cipher.key_length() / 4) as u32 + 6
    }

    /// The chunks of a text.
    fn chunks(&self, length: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let chunk = self.chunk;
        (0..length).step_by(chunk).map(move |start| start..length.min(start.saturating_add(chunk)))
    }

    fn sealed(
        &self,
        site: &mut Site,
        iv: &Iv,
        aad: &[u8],
        length: usize,
    ) -> Result<Tag, EngineError> {
        self.crypt(site, iv, length).map_err(self.lost())?;
        self.tag(site, iv, aad, length)
    }

    fn opened(
        &self,
        site: &mut Site,
        iv: &Iv,
        aad: &[u8],
        length: usize,
        tag: &Tag,
    ) -> Result<Result<(), Rejection>, EngineError> {
        let due = self.tag(site, iv, aad, length)?;
        let difference = due.iter().zip(tag).fold(0, |sum, (one, other)| sum | (one ^ other));
        if std::hint::black_box(difference) != 0 {
            return Ok(Err(Rejection::Tag));
        }
        self.crypt(site, iv, length).map_err(self.lost())?;
        site.finish().map_err(self.lost())?;
        Ok(Ok(()))
    }

    /// Queues the encryption or decryption of a text.
    fn crypt(&self, site: &mut Site, iv: &Iv, length: usize) -> Result<(), DeviceError> {
        let word = |at: usize| {
            let bytes = iv.bytes().get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            U32(bytes.map_or(0, u32::from_le_bytes))
        };
        // Text begins with the counter 2 in GCM, and with 1 in ChaCha20-Poly1305.
        let (kernel, unit, rounds, first) = match self.hash_key {
            Some(_) => ("gcm_crypt_in_place", BLOCK, Some(U32(self.rounds())), 2),
            None => ("chacha_crypt_in_place", CHACHA_BLOCK, None, 1),
        };
        let form = self.form(kernel);
        for chunk in self.chunks(length) {
            let units = chunk.len().div_ceil(unit) as u64;
            let each = form.each(self.device.properties().usable_units(), units);
            let counter = (chunk.start / unit) as u32 + first;
            let (start, bytes) = (U64(chunk.start as u64), U64(chunk.len() as u64));
            let mut arguments = vec![Buffer(site.text), start, bytes, Buffer(site.keys)];
            arguments.extend(rounds);
            arguments.extend([word(0), word(4), word(8)]);
            arguments.extend([U32(counter), U64(units), U32(each)]);
            self.launch_each(site, form, units, each, &arguments)?;
        }
        Ok(())
    }

    fn launch(
        &self,
        site: &mut Site,
        kernel: &'static str,
        units: u64,
        arguments: &[super::device::Argument],
    ) -> Result<(), DeviceError> {
        self.launch_each(site, self.form(kernel), units, 1, arguments)
    }

    fn launch_each(
        &self,
        site: &mut Site,
        form: Form,
        units: u64,
        each: u32,
        arguments: &[super::device::Argument],
    ) -> Result<(), DeviceError> {
        if units == 0 {
            return Ok(());
        }
        let Form { name: kernel, group_size, dynamic_shared, .. } = form;
        let groups = form.groups_for(self.device.properties().usable_units(), units, each);
        site.launch(&Launch { kernel, groups, group_size, dynamic_shared, arguments })
    }

    fn form(&self, kernel: &'static str) -> Form {
        kernels::form(kernel, kernels::takes_wide_tables(self.device.properties()))
    }

    /// The tag of a ciphertext.
    fn tag(&self, site: &mut Site, iv: &Iv, aad: &[u8], length: usize) -> Result<Tag, EngineError> {
        self.hash_chunks(site, iv, length).map_err(self.lost())?;
        let host = site.host().map_err(self.lost())?;
        match &self.hash_key {
            Some(key) => {
                let sum = self.sum(**key, host, aad, length);
                let mut tag = [0; BLOCK];
                tag[..12].copy_from_slice(&iv.bytes()[..12]);
                tag[15] = 1;
                encrypt_block(&*self.reference, self.cipher, &self.key, &mut tag)?;
                Ok(sum.plus(Ghash::of_block(tag)).0.to_be_bytes())
            }
            None => {
                let key = Poly::read(&host[ONE_TIME_KEY]);
                let pad = host[ONE_TIME_PAD].try_into().map_or(0, u128::from_le_bytes);
                Ok(self.sum(key, host, aad, length).tag(pad))
            }
        }
    }

    /// The hash of a ciphertext, from the kernels' sums of its chunks.
    fn sum<E: Element>(&self, key: E, host: &[u8], aad: &[u8], length: usize) -> E {
        let chunks = self.chunks(length).enumerate();
        let made = chunks.map(|(number, chunk)| {
            let made = hash::joined(key, &host[sums_at(number)], stripes(chunk.len()));
            (chunk.len() as u64, made)
        });
        hash::whole(key, aad, &made.collect::<Vec<_>>())
    }

    /// Queues the hashing of a text, with each chunk as a message, and the copies of the sums to
    /// the host.
    fn hash_chunks(&self, site: &mut Site, iv: &Iv, length: usize) -> Result<(), DeviceError> {
        let host = site.host()?;
        let whole = std::iter::once(0..0).filter(|_| length == 0);
        for (number, chunk) in self.chunks(length).chain(whole).enumerate() {
            let entry = &mut host[table_at(number)];
            entry.fill(0);
            // The second and third number of `Message` in `kernels/common.cl`, and its IV.
            entry[8..16].copy_from_slice(&(chunk.start as u64).to_le_bytes());
            entry[16..24].copy_from_slice(&(chunk.len() as u64).to_le_bytes());
            entry[64..76].copy_from_slice(&iv.bytes()[..12]);
        }
        let is_gcm = self.hash_key.is_some();
        let (table, keys) = (Buffer(site.table), Buffer(site.keys));
        let (scratch, text, one) = (Buffer(site.scratch), Buffer(site.text), U32(1));
        if !is_gcm {
            site.upload(table_at(0), site.table)?;
            self.launch(site, "poly_expand", 1, &[table, keys, scratch, one])?;
            site.download(site.scratch, ONE_TIME)?;
        }
        for (number, chunk) in self.chunks(length).enumerate() {
            site.upload(table_at(number), site.table)?;
            let stripes = stripes(chunk.len());
            let (count, opens) = (U64(stripes), U32(0));
            if is_gcm {
                let arguments = [table, text, keys, scratch, one, count, opens];
                self.launch(site, "gcm_stripes", stripes, &arguments)?;
            } else {
                let arguments = [table, text, scratch, one, count, opens];
                self.launch(site, "poly_stripes", stripes, &arguments)?;
            }
            for (shift, threads) in kernels::folds(1, stripes, stripes) {
                let pass = [U32(shift), U64(threads)];
                if is_gcm {
                    let arguments = [&[table, keys, scratch, one][..], &pass].concat();
                    self.launch(site, "gcm_fold", threads, &arguments)?;
                } else {
                    let arguments = [&[table, scratch, one][..], &pass].concat();
                    self.launch(site, "poly_fold", threads, &arguments)?;
                }
            }
            let all = MESSAGE_SCRATCH + stripes as usize * STRIPE_SCRATCH;
            let at = sums_at(number);
            site.download(site.scratch, at.start..at.end.min(at.start + all))?;
        }
        Ok(())
    }

    /// Measures the sealing of a text of this length in the device's memory: the medians of
    /// `rounds`. For benchmarks.
    ///
    /// # Errors
    /// When the device fails.
    pub fn times(&self, length: usize, rounds: usize) -> Result<Times, EngineError> {
        let iv = Iv::new(&[5; 12]).map_err(|_| self.failed("its benchmark has no IV"))?;
        let (mut preparation, mut sealing) = (Vec::new(), Vec::new());
        for _ in 0..rounds.max(1) {
            let begun = Instant::now();
            let mut empty = self.site(Text::Zeros(BLOCK), length)?;
            empty.finish().map_err(self.lost())?;
            preparation.push(begun.elapsed());
        }
        let mut site = self.site(Text::Zeros(length), length)?;
        for _ in 0..=rounds.max(1) {
            let begun = Instant::now();
            self.sealed(&mut site, &iv, b"", length)?;
            sealing.push(begun.elapsed());
        }
        let median = |mut times: Vec<Duration>| {
            times.sort();
            times[times.len() / 2]
        };
        Ok(Times { preparation: median(preparation), sealing: median(sealing) })
    }

    /// Seals a short text in several chunks, and compares with the reference engine.
    fn test(&self) -> Result<(), EngineError> {
        let small = Resident {
            device: Arc::clone(&self.device),
            engine: self.engine.clone(),
            reference: Arc::clone(&self.reference),
            key: self.key.clone(),
            hash_key: self.hash_key.clone(),
            cipher: self.cipher,
            chunk: 16 << 10,
        };
        let text: Vec<u8> = (0..50_001_u32).map(|number| (number * 7 % 253) as u8).collect();
        let iv = Iv::new(&[9; 12]).map_err(|_| self.failed("its test has no IV"))?;
        let (sealed, tag) = small.seal_inside(&iv, b"test", &text)?;
        let mut expected = vec![0; text.len() + 16];
        let request = SessionRequest {
            cipher: self.cipher,
            direction: Direction::Encrypt,
            key: Some(&self.key),
        };
        let mut jobs = [Job { aad: b"test", ..Job::new(iv, &text, &mut expected) }];
        self.reference.open(&request)?.process(&mut jobs)?;
        let is_done = matches!(jobs[0].outcome, Outcome::Done { .. });
        let (due, due_tag) = expected.split_at(text.len());
        if is_done && sealed == due && tag == due_tag {
            return Ok(());
        }
        Err(EngineError::WrongResult { engine: self.engine.clone(), unverified: 0 })
    }

    /// Seals a text that is copied to the device and back.
    fn seal_inside(&self, iv: &Iv, aad: &[u8], text: &[u8]) -> Result<(Vec<u8>, Tag), EngineError> {
        let mut site = self.inside(text)?;
        let tag = self.sealed(&mut site, iv, aad, text.len())?;
        Ok((self.brought_back(&mut site, text.len())?, tag))
    }

    fn inside(&self, text: &[u8]) -> Result<Site, EngineError> {
        let mut site = self.site(Text::Inside(text.len()), text.len())?;
        let host = site.host().map_err(self.lost())?;
        host[..text.len()].copy_from_slice(text);
        site.upload(0..text.len(), site.text).map_err(self.lost())?;
        Ok(site)
    }

    fn brought_back(&self, site: &mut Site, length: usize) -> Result<Vec<u8>, EngineError> {
        site.download(site.text, 0..length).map_err(self.lost())?;
        Ok(site.host().map_err(self.lost())?[..length].to_vec())
    }
}

/// Encrypts one block with AES, on the reference engine.
fn encrypt_block(
    reference: &dyn Engine,
    cipher: Cipher,
    key: &Key,
    block: &mut [u8; 16],
) -> Result<(), EngineError> {
    let ecb = match cipher.key_length() {
        16 => Cipher::Aes128Ecb,
        24 => Cipher::Aes192Ecb,
        _ => Cipher::Aes256Ecb,
    };
    let direction = Direction::Encrypt;
    let mut session = reference.open(&SessionRequest { cipher: ecb, direction, key: Some(key) })?;
    let input = Zeroizing::new(*block);
    let mut jobs = [Job::new(Iv::NONE, &input[..], &mut block[..])];
    session.process(&mut jobs)?;
    match jobs[0].outcome {
        Outcome::Done { .. } => Ok(()),
        _ => {
            Err(EngineError::failed("it did not encrypt a block").of(&reference.description().name))
        }
    }
}

/// The host's memory: the key, a one-time key, and for each chunk its table and its sums.
fn table_at(chunk: usize) -> Range<usize> {
    let start = ONE_TIME.end + chunk * (MESSAGE + SUMS);
    start..start + MESSAGE
}

fn sums_at(chunk: usize) -> Range<usize> {
    let start = table_at(chunk).end;
    start..start + SUMS
}

/// Stripes of a chunk's hash, with the block of its lengths.
fn stripes(length: usize) -> u64 {
    (length.div_ceil(BLOCK) as u64 + 1).div_ceil(STRIPE as u64)
}

/// Bytes of a chunk: its hashing takes an eighth as many in scratch memory.
const CHUNK: usize = 256 << 20;
/// Bytes of a key, at the start of the host's memory, and room to a multiple of 64.
const KEY: usize = 64;
/// Bytes of `AES_SLOT` in `kernels/aes.cl`, the longest slot.
const KEY_SLOT: usize = 768;
/// Poly1305's one-time key, at the kernels' place in the message's scratch (`kernels/chacha.cl`).
const ONE_TIME: Range<usize> = KEY..KEY + MESSAGE_SCRATCH;
const ONE_TIME_KEY: Range<usize> = KEY + 20..KEY + 40;
const ONE_TIME_PAD: Range<usize> = KEY + 60..KEY + 76;
/// Bytes of the kernels' output for a chunk: the message's sum, and those of the stripes that need
/// no folding.
const SUMS: usize = MESSAGE_SCRATCH + JOINED_STRIPES as usize * STRIPE_SCRATCH;
