//! AES in GCM, with the calls of OpenSSL's own provider: a message in pieces, or, with TLS 1.2's
//! parameters, a record in one call.

use std::sync::Arc;

use evener_core::{Direction, Mode};
use evener_lanes::Kernel;
use evener_lanes::stream::{Gcm, TAG_LENGTH, Text};

use super::State;
use crate::counters;
use crate::module::{Connection, InGcm, Work};
use crate::params::{Name, Params, Value};
use crate::reasons::Reason;
use crate::sys::{OCTETS, Param, UNSIGNED, random};
use crate::upcalls::Core;

/// A cipher with its key and its message.
pub(crate) struct Context {
    core: Arc<Core>,
    kernel: Kernel,
    key_length: usize,
    direction: Direction,
    /// Present once a key has been set.
    gcm: Option<Gcm>,
    iv: [u8; LONGEST_IV],
    iv_length: usize,
    iv_state: IvState,
    /// True if IVs follow each other, as TLS requires.
    iv_is_generated: bool,
    /// True if the context made the message's IV of random bytes, since the caller gave none.
    iv_is_random: bool,
    tag: [u8; TAG_LENGTH],
    /// Present once a tag has been set or made.
    tag_length: Option<usize>,
    /// If present, the next call is for a record with these additional data.
    tls_aad: Option<[u8; TLS_AAD]>,
    /// The number of bytes by which the record grows.
    tls_pad: usize,
    /// Bytes of the message's text so far.
    text_length: u64,
    /// Present if a module is configured.
    connection: Option<Box<Connection>>,
}

/// The state of the IV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IvState {
    None,
    /// The message has not begun.
    Set,
    /// The message has begun.
    InUse,
    /// The message is done: another IV is needed.
    Used,
}

impl Context {
    /// A context without a key, for keys of this many bytes.
    pub(crate) fn new(core: Arc<Core>, kernel: Kernel, key_length: usize) -> Context {
        Context {
            core,
            kernel,
            key_length,
            direction: Direction::Encrypt,
            gcm: None,
            iv: [0; LONGEST_IV],
            iv_length: IV_LENGTH,
            iv_state: IvState::None,
            iv_is_generated: false,
            iv_is_random: false,
            tag: [0; TAG_LENGTH],
            tag_length: None,
            tls_aad: None,
            tls_pad: 0,
            text_length: 0,
            connection: Connection::new(Mode::Gcm),
        }
    }

    fn set_key(&mut self, key: &[u8]) -> Result<(), Reason> {
        if key.len() != self.key_length {
            return Err(Reason::KeyLength);
        }
        match &mut self.gcm {
            Some(gcm) => gcm.set_key(key).ok_or(Reason::Memory)?,
            None => self.gcm = Some(Gcm::new(self.kernel, key).ok_or(Reason::Memory)?),
        }
        if let Some(connection) = &mut self.connection {
            connection.set_key(Work::Gcm, key);
        }
        self.give_up();
        Ok(())
    }

    /// Gives up a message that has begun. Its IV counts as used, whatever comes next.
    fn give_up(&mut self) {
        if self.iv_state == IvState::InUse {
            self.iv_state = IvState::Used;
        }
    }

    /// Adds additional data.
    pub(crate) fn add_data(&mut self, data: &[u8]) -> Result<(), Reason> {
        self.begin()?.add_data(data).ok_or(Reason::Order)
    }

    /// Encrypts or decrypts the next part of the message, of `length` bytes.
    pub(crate) fn transform(&mut self, text: Text<'_>, length: usize) -> Result<(), Reason> {
        self.begin()?;
        self.transform_text(text)?;
        self.text_length += length as u64;
        Ok(())
    }

    /// Encrypts or decrypts text on the module or the CPU.
    fn transform_text(&mut self, text: Text<'_>) -> Result<(), Reason> {
        let gcm = self.gcm.as_mut().ok_or(Reason::NoKey)?;
        match &mut self.connection {
            None => gcm.transform(self.direction, text),
            Some(connection) => connection.transform(&mut InGcm(gcm, self.direction), text),
        }
        .ok_or(Reason::Order)
    }

    /// Ends the message: makes the tag, or compares it with the one that was set.
    pub(crate) fn finish(&mut self) -> Result<(), Reason> {
        if self.tls_aad.take().is_some() {
            // Additional data for a record were set, but no call brought the record.
            self.iv_state = IvState::Used;
            return Err(Reason::Record);
        }
        let (direction, tag, tag_length) = (self.direction, self.tag, self.tag_length);
        let gcm = self.begin()?;
        let is_genuine = match (direction, tag_length) {
            (Direction::Encrypt, _) => {
                self.tag = gcm.tag().ok_or(Reason::Order)?;
                self.tag_length = Some(TAG_LENGTH);
                true
            }
            (Direction::Decrypt, Some(length)) => {
                gcm.verify(&tag[..length]).ok_or(Reason::Order)?
            }
            (Direction::Decrypt, None) => return Err(Reason::NoTag),
        };
        self.iv_state = IvState::Used;
        self.account(is_genuine, self.text_length)
    }

    /// Counts a finished message.
    fn account(&mut self, is_genuine: bool, bytes: u64) -> Result<(), Reason> {
        let by_module = self.connection.as_mut().map_or(0, |connection| connection.end_message());
        if !is_genuine {
            counters::forged();
            return Err(Reason::Forged);
        }
        counters::done(self.direction, bytes);
        counters::by_module(by_module);
        Ok(())
    }

    /// Returns the message, and starts it if necessary.
    fn begin(&mut self) -> Result<&mut Gcm, Reason> {
        if self.gcm.is_none() {
            return Err(Reason::NoKey);
        }
        match self.iv_state {
            IvState::Used => return Err(Reason::IvUsed),
            // A caller that encrypts without an IV gets a random one, and reads it.
            IvState::None if self.direction == Direction::Encrypt => {
                if self.iv_length < IV_LENGTH {
                    return Err(Reason::IvLength);
                }
                random(&mut self.iv[..self.iv_length]).ok_or(Reason::Random)?;
                self.iv_is_random = true;
                self.start()?;
            }
            IvState::None => return Err(Reason::IvUsed),
            IvState::Set => self.start()?,
            IvState::InUse => {}
        }
        self.gcm.as_mut().ok_or(Reason::NoKey)
    }

    /// Starts a message with the current IV.
    fn start(&mut self) -> Result<(), Reason> {
        let gcm = self.gcm.as_mut().ok_or(Reason::NoKey)?;
        gcm.start(&self.iv[..self.iv_length]).ok_or(Reason::IvLength)?;
        self.iv_state = IvState::InUse;
        self.text_length = 0;
        if let Some(connection) = &mut self.connection {
            // Discards the count of a message that was given up.
            connection.end_message();
        }
        Ok(())
    }

    /// Returns whether the next call is for a TLS 1.2 record.
    pub(crate) fn is_record(&self) -> bool {
        self.tls_aad.is_some()
    }

    /// Encrypts or decrypts a TLS 1.2 record (RFC 5288) in place: the explicit part of the IV, the
    /// text, the tag. Returns the length of the record, or of the decrypted text, which begins
    /// after the IV. The text of a forged record is wiped.
    pub(crate) fn transform_record(&mut self, record: &mut [u8]) -> Result<usize, Reason> {
        let aad = self.tls_aad.take().ok_or(Reason::Aad)?;
        let result = self.record(&aad, record);
        self.iv_state = IvState::Used;
        result
    }

    fn record(&mut self, aad: &[u8], record: &mut [u8]) -> Result<usize, Reason> {
        let (length, direction) = (record.len(), self.direction);
        let (iv, rest) = record.split_at_mut_checked(EXPLICIT_IV).ok_or(Reason::Record)?;
        let text_length = rest.len().checked_sub(TAG_LENGTH).ok_or(Reason::Record)?;
        let (text, tag) = rest.split_at_mut(text_length);
        match direction {
            Direction::Encrypt => self.generate_iv(iv)?,
            Direction::Decrypt => self.set_invocation(iv)?,
        }
        let gcm = self.gcm.as_mut().ok_or(Reason::NoKey)?;
        gcm.add_data(aad).ok_or(Reason::Order)?;
        self.transform_text(Text::InPlace(text))?;
        let gcm = self.gcm.as_mut().ok_or(Reason::NoKey)?;
        let is_genuine = match direction {
            Direction::Encrypt => {
                tag.copy_from_slice(&gcm.tag().ok_or(Reason::Order)?);
                true
            }
            Direction::Decrypt => gcm.verify(tag).ok_or(Reason::Order)?,
        };
        if !is_genuine {
            text.fill(0);
        }
        self.account(is_genuine, text_length as u64)?;
        Ok(if direction == Direction::Encrypt { length } else { text_length })
    }

    /// Sets the tag to compare with.
    fn set_tag(&mut self, tag: &[u8]) -> Result<(), Reason> {
        if tag.is_empty() || tag.len() > TAG_LENGTH || self.direction == Direction::Encrypt {
            return Err(Reason::Tag);
        }
        self.tag[..tag.len()].copy_from_slice(tag);
        self.tag_length = Some(tag.len());
        Ok(())
    }

    /// Sets the length of the IV. An IV of another length can't be used any more.
    fn set_iv_length(&mut self, length: u64) -> Result<(), Reason> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length == 0 || length > LONGEST_IV {
            return Err(Reason::IvLength);
        }
        if length != self.iv_length {
            if self.iv_state != IvState::None {
                self.iv_state = IvState::Used;
            }
            self.iv_length = length;
        }
        Ok(())
    }

    /// Sets the additional data of the next record. OpenSSL's data contain the length of the
    /// record, including the explicit IV and, for decryption, the tag.
    fn set_aad(&mut self, aad: &[u8]) -> Result<(), Reason> {
        let mut aad = <[u8; TLS_AAD]>::try_from(aad).map_err(|_| Reason::Aad)?;
        let [.., high, low] = &mut aad;
        let extra = EXPLICIT_IV + if self.direction == Direction::Decrypt { TAG_LENGTH } else { 0 };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let length = length.checked_sub(extra).ok_or(Reason::Aad)?;
        [*high, *low] = (length as u16).to_be_bytes();
        self.tls_aad = Some(aad);
        self.tls_pad = TAG_LENGTH;
        Ok(())
    }

    /// Sets the part of the IV that all records share. Records that are encrypted also have a part
    /// that counts up from a random start.
    fn set_fixed(&mut self, value: &Value<'_>) -> Result<(), Reason> {
        let iv = &mut self.iv[..self.iv_length];
        if let Some(all) = value.octets_of_known_length(iv.len()) {
            iv.copy_from_slice(all);
        } else {
            let fixed = value.octets().ok_or(Reason::Parameter)?;
            let room = iv.len().checked_sub(EXPLICIT_IV).ok_or(Reason::IvLength)?;
            if !(FIXED_IV..=room).contains(&fixed.len()) {
                return Err(Reason::IvLength);
            }
            let (front, rest) = iv.split_at_mut(fixed.len());
            front.copy_from_slice(fixed);
            if self.direction == Direction::Encrypt {
                random(rest).ok_or(Reason::Random)?;
            }
        }
        self.iv_is_generated = true;
        self.iv_state = IvState::Set;
        Ok(())
    }

    /// Starts a message with the next IV of the sequence, and writes its end to `to`, or all of it
    /// if there is room.
    fn generate_iv(&mut self, to: &mut [u8]) -> Result<(), Reason> {
        if !self.iv_is_generated || self.iv_length < EXPLICIT_IV {
            return Err(Reason::IvUsed);
        }
        self.start()?;
        let iv = &mut self.iv[..self.iv_length];
        let count = to.len().min(iv.len());
        to[..count].copy_from_slice(&iv[iv.len() - count..]);
        if let Some(counter) = iv.last_chunk_mut::<EXPLICIT_IV>() {
            *counter = u64::from_be_bytes(*counter).wrapping_add(1).to_be_bytes();
        }
        Ok(())
    }

    /// Starts a message with the IV that ends with these bytes.
    fn set_invocation(&mut self, end: &[u8]) -> Result<(), Reason> {
        if self.gcm.is_none() {
            return Err(Reason::NoKey);
        }
        if !self.iv_is_generated || self.direction == Direction::Encrypt {
            return Err(Reason::IvUsed);
        }
        let start = self.iv_length.checked_sub(end.len()).ok_or(Reason::IvLength)?;
        self.iv[start..self.iv_length].copy_from_slice(end);
        self.start()
    }

    /// Answers with the beginning of the tag, of the requested length.
    fn answer_tag(&self, value: &mut Value<'_>) -> Result<(), Reason> {
        let made = self.tag_length.is_some() && self.direction == Direction::Encrypt;
        let length = value.place().ok_or(Reason::Tag)?.len();
        let tag = self.tag.get(..length).filter(|tag| made && !tag.is_empty());
        value.answer_octets(tag.ok_or(Reason::Tag)?).ok_or(Reason::Tag)
    }
}

impl State for Context {
    const GETTABLE: &'static [Param] = &GETTABLE;
    const SETTABLE: &'static [Param] = &SETTABLE;

    fn try_clone(&self) -> Option<Context> {
        let gcm = match &self.gcm {
            Some(gcm) => Some(gcm.try_clone()?),
            None => None,
        };
        let connection = self.connection.as_deref().and_then(Connection::again);
        Some(Context { core: Arc::clone(&self.core), gcm, connection, ..*self })
    }

    fn core(&self) -> &Core {
        &self.core
    }

    fn init(
        &mut self,
        direction: Direction,
        key: Option<&[u8]>,
        iv: Option<&[u8]>,
        params: Params<'_>,
    ) -> Result<(), Reason> {
        if direction != self.direction {
            self.give_up();
        }
        self.direction = direction;
        if let Some(iv) = iv {
            if iv.is_empty() || iv.len() > LONGEST_IV {
                return Err(Reason::IvLength);
            }
            self.iv[..iv.len()].copy_from_slice(iv);
            self.iv_length = iv.len();
            self.iv_state = IvState::Set;
            self.iv_is_random = false;
        }
        if let Some(key) = key {
            self.set_key(key)?;
        }
        self.set_params(params)
    }

    fn answer(&mut self, params: Params<'_>) -> Result<(), Reason> {
        for mut value in params {
            match value.name {
                Name::KeyLength => value.answer_number(self.key_length as u64),
                Name::IvLength => value.answer_number(self.iv_length as u64),
                Name::TagLength => {
                    value.answer_number(self.tag_length.unwrap_or(TAG_LENGTH) as u64)
                }
                Name::IvGenerated => value.answer_number(self.iv_is_random.into()),
                Name::TlsAadPad => value.answer_number(self.tls_pad as u64),
                Name::Iv | Name::UpdatedIv if self.iv_state == IvState::None => {
                    return Err(Reason::IvLength);
                }
                Name::Iv | Name::UpdatedIv => value.answer_octets(&self.iv[..self.iv_length]),
                Name::Tag => {
                    self.answer_tag(&mut value)?;
                    Some(())
                }
                Name::TlsIvGenerated => {
                    let place = value.place_of_iv(self.iv_length).ok_or(Reason::Parameter)?;
                    self.generate_iv(place)?;
                    Some(())
                }
                _ => Some(()),
            }
            .ok_or(Reason::Parameter)?;
        }
        Ok(())
    }

    fn set_params(&mut self, params: Params<'_>) -> Result<(), Reason> {
        for value in params {
            match value.name {
                Name::Tag => self.set_tag(value.octets().ok_or(Reason::Tag)?)?,
                Name::IvLength => self.set_iv_length(value.number().ok_or(Reason::IvLength)?)?,
                Name::TlsAad => self.set_aad(value.octets().ok_or(Reason::Aad)?)?,
                Name::TlsIvFixed => self.set_fixed(&value)?,
                Name::TlsIvInvocation => {
                    self.set_invocation(value.octets().ok_or(Reason::Parameter)?)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The parameters of a context that can be read.
static GETTABLE: [Param; 10] = [
    Param::described(c"keylen", UNSIGNED),
    Param::described(c"ivlen", UNSIGNED),
    Param::described(c"taglen", UNSIGNED),
    Param::described(c"iv", OCTETS),
    Param::described(c"updated-iv", OCTETS),
    Param::described(c"tag", OCTETS),
    Param::described(c"tlsaadpad", UNSIGNED),
    Param::described(c"tlsivgen", OCTETS),
    Param::described(c"iv-generated", UNSIGNED),
    Param::END,
];

/// The parameters that can be set.
static SETTABLE: [Param; 6] = [
    Param::described(c"ivlen", UNSIGNED),
    Param::described(c"tag", OCTETS),
    Param::described(c"tlsaad", OCTETS),
    Param::described(c"tlsivfixed", OCTETS),
    Param::described(c"tlsivinv", OCTETS),
    Param::END,
];

/// The default length of an IV, in bytes.
pub(crate) const IV_LENGTH: usize = 12;

/// `EVP_CIPH_GCM_MODE`.
pub(crate) const MODE: u64 = 6;

/// The value of OpenSSL's `aead` and `custom-iv` for GCM.
pub(crate) const FLAGS: u64 = 1;

/// The longest IV that OpenSSL accepts, in bytes.
const LONGEST_IV: usize = 128;

/// The parts of a TLS 1.2 IV, in bytes: the connection's, at least, and the record's.
const FIXED_IV: usize = 4;
const EXPLICIT_IV: usize = 8;

/// The length of a TLS 1.2 record's additional data, in bytes.
const TLS_AAD: usize = 13;
