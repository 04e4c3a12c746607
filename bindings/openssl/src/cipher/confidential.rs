//! AES in ECB, CBC and CTR, with the calls of OpenSSL's own provider: a message in pieces, with or
//! without PKCS #7 padding, or, with TLS's parameters, a CBC record in one call.

use std::sync::Arc;

use evener_core::{Direction, Mode};
use evener_lanes::Kernel;
use evener_lanes::stream::{Chain, Confidential, Text};

use super::State;
use super::memory::Memory;
use super::tls_cbc::{LONGEST_MAC, Padding, open};
use crate::counters;
use crate::module::{Connection, InCbc, Work};
use crate::params::{Name, Params};
use crate::reasons::Reason;
use crate::sys::{OCTETS, OCTETS_POINTER, Param, UNSIGNED, random};
use crate::upcalls::Core;

/// A cipher with its key and its message.
pub(crate) struct Context {
    core: Arc<Core>,
    kernel: Kernel,
    mode: Mode,
    key_length: usize,
    direction: Direction,
    /// Present once a key has been set.
    cipher: Option<Confidential>,
    /// The position in the message. OpenSSL calls its number of used bytes `num`.
    chain: Chain,
    /// The IV, as it was set.
    iv: Option<[u8; BLOCK]>,
    /// True if the message has PKCS #7 padding.
    is_padded: bool,
    /// The first bytes of an incomplete block, or a whole block that may contain padding.
    buffer: [u8; BLOCK],
    buffered: usize,
    /// If not 0, each call is for a record of this version.
    tls_version: u32,
    tls_mac_length: usize,
    /// The MAC of the last record, if it has one.
    tls_mac: [u8; LONGEST_MAC],
    has_tls_mac: bool,
    /// Bytes of the message so far.
    length: u64,
    /// Present for CBC records if a module is configured for them.
    connection: Option<Box<Connection>>,
}

/// The division of a call's bytes: `fill` bytes go to the buffered block, which is computed if
/// `is_flushed`; `whole` bytes are computed as whole blocks; the `rest` is buffered.
struct Plan {
    fill: usize,
    is_flushed: bool,
    whole: usize,
    rest: usize,
}

impl Context {
    /// A context without a key, for keys of this many bytes.
    pub(crate) fn new(core: Arc<Core>, kernel: Kernel, mode: Mode, key_length: usize) -> Context {
        Context {
            core,
            kernel,
            mode,
            key_length,
            direction: Direction::Encrypt,
            cipher: None,
            chain: Chain::default(),
            iv: None,
            is_padded: true,
            buffer: [0; BLOCK],
            buffered: 0,
            tls_version: 0,
            tls_mac_length: 0,
            tls_mac: [0; LONGEST_MAC],
            has_tls_mac: false,
            length: 0,
            connection: Connection::new(mode),
        }
    }

    /// The length of the result for an input, or a record, of this length. An encrypted record
    /// needs room for padding.
    pub(crate) fn result_length(&self, length: usize) -> usize {
        if self.mode == Mode::Ctr {
            length
        } else if self.is_for_records() {
            match self.direction {
                Direction::Encrypt => length + BLOCK - length % BLOCK,
                Direction::Decrypt => length,
            }
        } else {
            let plan = self.plan(length);
            plan.whole + if plan.is_flushed { BLOCK } else { 0 }
        }
    }

    /// Returns whether each call is for a record.
    pub(crate) fn is_for_records(&self) -> bool {
        self.tls_version > 0 && self.mode != Mode::Ctr
    }

    /// Encrypts or decrypts the next part of the message. Returns the length of the result.
    pub(crate) fn update(&mut self, mut memory: Memory<'_>) -> Result<usize, Reason> {
        let cipher = self.cipher.as_ref().ok_or(Reason::NoKeySet)?;
        let length = memory.length();
        if self.mode == Mode::Ctr {
            if length > 0 {
                let text = memory.text(0, 0, length).ok_or(Reason::Overlap)?;
                cipher.transform(&mut self.chain, text).ok_or(Reason::OperationFailed)?;
            }
            self.length += length as u64;
            return Ok(length);
        }
        let plan = self.plan(length);
        let flushed = if plan.is_flushed { BLOCK } else { 0 };
        if !memory.lasts(plan.fill, flushed) {
            return Err(Reason::Overlap);
        }
        memory.copy(0, &mut self.buffer[self.buffered..][..plan.fill]);
        self.buffered += plan.fill;
        if plan.is_flushed {
            let block = Text::InPlace(&mut self.buffer);
            cipher.transform(&mut self.chain, block).ok_or(Reason::OperationFailed)?;
            memory.put(&self.buffer);
            self.buffered = 0;
        }
        if plan.whole > 0 {
            let text = memory.text(plan.fill, flushed, plan.whole).ok_or(Reason::Overlap)?;
            cipher.transform(&mut self.chain, text).ok_or(Reason::OperationFailed)?;
        }
        if plan.rest > 0 {
            memory.copy(length - plan.rest, &mut self.buffer[..plan.rest]);
            self.buffered = plan.rest;
        }
        self.length += length as u64;
        Ok(flushed + plan.whole)
    }

    fn plan(&self, length: usize) -> Plan {
        let fill = if self.buffered > 0 { length.min(BLOCK - self.buffered) } else { 0 };
        let left = length - fill;
        // The last block to decrypt may contain padding.
        let is_kept = self.direction == Direction::Decrypt && self.is_padded;
        let is_flushed = self.buffered + fill == BLOCK && !(is_kept && left == 0);
        let mut whole = left - left % BLOCK;
        if is_kept && whole == left {
            whole = whole.saturating_sub(BLOCK);
        }
        Plan { fill, is_flushed, whole, rest: left - whole }
    }

    /// Ends the message. Returns the rest of the result, up to a block. Without padding there is
    /// none, unless padding was turned off while a whole block was buffered.
    pub(crate) fn finish(&mut self) -> Result<&[u8], Reason> {
        let cipher = self.cipher.as_ref().ok_or(Reason::NoKeySet)?;
        if self.is_for_records() {
            return Err(Reason::OperationFailed);
        }
        let mut left = 0;
        if self.mode != Mode::Ctr && (self.is_padded || self.buffered > 0) {
            let must_be_whole = self.direction == Direction::Decrypt || !self.is_padded;
            if must_be_whole && self.buffered != BLOCK {
                return Err(Reason::WrongFinalBlockLength);
            }
            let added = BLOCK - self.buffered;
            self.buffer[self.buffered..].fill(added as u8);
            let block = Text::InPlace(&mut self.buffer);
            cipher.transform(&mut self.chain, block).ok_or(Reason::OperationFailed)?;
            self.buffered = 0;
            left = BLOCK;
            if self.direction == Direction::Decrypt && self.is_padded {
                let Some(padding) = padding_length(&self.buffer) else {
                    self.forget_buffer();
                    return Err(Reason::BadDecrypt);
                };
                left -= padding;
            }
        }
        counters::done(self.direction, self.length);
        self.length = 0;
        Ok(&self.buffer[..left])
    }

    /// Encrypts or decrypts bytes that are no part of the message before: whole blocks, except in
    /// CTR. (ECB leaves a remainder as it is, like OpenSSL's own provider.) Returns the length of
    /// the input.
    pub(crate) fn whole(&mut self, mut memory: Memory<'_>) -> Result<usize, Reason> {
        let cipher = self.cipher.as_ref().ok_or(Reason::NoKeySet)?;
        let all = memory.length();
        if all == 0 {
            return Ok(0);
        }
        let length = if self.mode == Mode::Ecb { all - all % BLOCK } else { all };
        let text = memory.text(0, 0, length).ok_or(Reason::Overlap)?;
        cipher.transform(&mut self.chain, text).ok_or(Reason::OperationFailed)?;
        counters::done(self.direction, all as u64);
        Ok(all)
    }

    /// Encrypts or decrypts a TLS record of `length` bytes in place. An encrypted record gets
    /// padding, for which `record` has room. Returns the length of the record, or of the decrypted
    /// text. The latter is secret, and so is the MAC, which can then be read.
    pub(crate) fn transform_record(
        &mut self,
        record: &mut [u8],
        length: usize,
    ) -> Result<usize, Reason> {
        let cipher = self.cipher.as_ref().ok_or(Reason::NoKeySet)?;
        if !self.is_padded {
            return Err(Reason::OperationFailed);
        }
        if self.direction == Direction::Encrypt {
            let (_, padding) =
                record.split_at_mut_checked(length).ok_or(Reason::OperationFailed)?;
            let padded = padding.len().wrapping_sub(1) as u8;
            padding.fill(if self.tls_version == SSL_3 { 0 } else { padded });
            *padding.last_mut().ok_or(Reason::OperationFailed)? = padded;
        }
        let text = Text::InPlace(record);
        match &mut self.connection {
            None => cipher.transform(&mut self.chain, text),
            Some(connection) => {
                let (chain, direction) = (&mut self.chain, self.direction);
                let done = connection.transform(&mut InCbc { cipher, chain, direction }, text);
                counters::by_module(connection.end_message());
                done
            }
        }
        .ok_or(Reason::OperationFailed)?;
        counters::done(self.direction, length as u64);
        match self.direction {
            Direction::Encrypt => Ok(record.len()),
            Direction::Decrypt => self.open_record(record),
        }
    }

    /// Removes the explicit IV, MAC and padding from a decrypted record.
    fn open_record(&mut self, record: &[u8]) -> Result<usize, Reason> {
        self.has_tls_mac = false;
        let (iv_length, padding) = match self.tls_version {
            SSL_3 => (0, Padding::Short),
            TLS_1_0 => (0, Padding::Any),
            TLS_1_1 | TLS_1_2 | DTLS_1_0 | DTLS_1_2 | DTLS_BEFORE => (BLOCK, Padding::Any),
            _ => return Err(Reason::OperationFailed),
        };
        let record = record.get(iv_length..).ok_or(Reason::OperationFailed)?;
        let mac = self.tls_mac.get_mut(..self.tls_mac_length).ok_or(Reason::OperationFailed)?;
        if !mac.is_empty() {
            random(mac).ok_or(Reason::OperationFailed)?;
        }
        let length = open(padding, record, mac).ok_or(Reason::OperationFailed)?;
        self.has_tls_mac = self.tls_mac_length > 0;
        Ok(length)
    }

    fn forget_buffer(&mut self) {
        self.buffer = [0; BLOCK];
        self.buffered = 0;
        // Otherwise the compiler would see that nobody reads it again.
        std::hint::black_box(&self.buffer);
    }
}

impl State for Context {
    const GETTABLE: &'static [Param] = &GETTABLE;
    const SETTABLE: &'static [Param] = &SETTABLE;

    fn try_clone(&self) -> Option<Context> {
        let cipher = match &self.cipher {
            Some(cipher) => Some(cipher.try_clone()?),
            None => None,
        };
        let connection = self.connection.as_deref().and_then(Connection::again);
        let (core, chain) = (Arc::clone(&self.core), self.chain.clone());
        Some(Context { core, cipher, chain, connection, ..*self })
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
        self.chain.used = 0;
        self.forget_buffer();
        self.length = 0;
        if let Some(connection) = &mut self.connection {
            match key {
                Some(key) => connection.set_key(Work::Cbc(direction), key),
                None if direction != self.direction => connection.forget_key(),
                None => {}
            }
        }
        self.direction = direction;
        if self.mode != Mode::Ecb {
            if let Some(iv) = iv {
                let iv = iv.try_into().map_err(|_| Reason::InvalidIvLength)?;
                self.chain.block = iv;
                self.iv = Some(iv);
            } else if let Some(iv) = self.iv
                && self.mode == Mode::Cbc
            {
                self.chain.block = iv;
            }
        }
        match (key, &mut self.cipher) {
            (Some(key), _) if key.len() != self.key_length => {
                return Err(Reason::InvalidKeyLength);
            }
            (Some(key), Some(cipher)) => cipher.set_key(direction, key),
            (Some(key), none) => {
                let set = Confidential::put(none, self.kernel, self.mode, direction, key);
                Some(set.ok_or(Reason::Memory)?)
            }
            (None, Some(cipher)) => cipher.set_direction(direction),
            (None, None) => Some(()),
        }
        .ok_or(Reason::OperationFailed)?;
        self.set_params(params)
    }

    fn answer(&mut self, params: Params<'_>) -> Result<(), Reason> {
        let iv_length = if self.mode == Mode::Ecb { 0 } else { BLOCK };
        for mut value in params {
            match value.name {
                Name::KeyLength => value.answer_number(self.key_length as u64),
                Name::IvLength => value.answer_number(iv_length as u64),
                Name::Padding => value.answer_number(self.is_padded.into()),
                Name::Number => value.answer_number(self.chain.used as u64),
                Name::Iv => {
                    let iv: &[u8; BLOCK] = self.iv.as_ref().unwrap_or(&[0; BLOCK]);
                    value.answer_octets(&iv[..iv_length])
                }
                Name::UpdatedIv => value.answer_octets(&self.chain.block[..iv_length]),
                Name::TlsMac => {
                    let mac = self.has_tls_mac.then_some(&self.tls_mac[..]);
                    value.answer_pointer(mac, self.tls_mac_length)
                }
                _ => Some(()),
            }
            .ok_or(Reason::NoAnswer)?;
        }
        Ok(())
    }

    fn set_params(&mut self, params: Params<'_>) -> Result<(), Reason> {
        for value in params {
            let number = || {
                let number = value.number().and_then(|number| u32::try_from(number).ok());
                number.ok_or(Reason::NoParameter)
            };
            match value.name {
                Name::Padding => self.is_padded = number()? != 0,
                Name::Number => {
                    let number = number()? as usize;
                    let block = if self.mode == Mode::Ctr { 1 } else { BLOCK };
                    if number >= block {
                        return Err(Reason::NoParameter);
                    }
                    self.chain.used = number;
                }
                Name::TlsVersion => self.tls_version = number()?,
                Name::TlsMacLength => {
                    let length = value.number().ok_or(Reason::NoParameter)?;
                    self.tls_mac_length = usize::try_from(length).unwrap_or(usize::MAX);
                }
                Name::UseBits => {
                    number()?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The parameters of a context that can be read.
static GETTABLE: [Param; 8] = [
    Param::described(c"keylen", UNSIGNED),
    Param::described(c"ivlen", UNSIGNED),
    Param::described(c"padding", UNSIGNED),
    Param::described(c"num", UNSIGNED),
    Param::described(c"iv", OCTETS),
    Param::described(c"updated-iv", OCTETS),
    Param::described(c"tls-mac", OCTETS_POINTER),
    Param::END,
];

/// The parameters that can be set.
static SETTABLE: [Param; 6] = [
    Param::described(c"padding", UNSIGNED),
    Param::described(c"num", UNSIGNED),
    Param::described(c"use-bits", UNSIGNED),
    Param::described(c"tls-version", UNSIGNED),
    Param::described(c"tls-mac-size", UNSIGNED),
    Param::END,
];

impl Drop for Context {
    fn drop(&mut self) {
        self.tls_mac = [0; LONGEST_MAC];
        std::hint::black_box(&self.tls_mac);
        self.forget_buffer();
    }
}

/// The length of the padding in the last block (RFC 5652, section 6.3), if it is valid. As in
/// OpenSSL's own provider, the time that this takes reveals something about the padding: a program
/// must know that a message is genuine before it decrypts.
fn padding_length(block: &[u8; BLOCK]) -> Option<usize> {
    let length = usize::from(block[BLOCK - 1]);
    let padding = block.get(BLOCK.checked_sub(length)?..)?;
    let is_right = length > 0 && padding.iter().all(|&byte| usize::from(byte) == length);
    is_right.then_some(length)
}

/// The length of a block, in bytes.
pub(crate) const BLOCK: usize = 16;

/// OpenSSL's numbers for the versions of TLS.
const SSL_3: u32 = 0x300;
const TLS_1_0: u32 = 0x301;
const TLS_1_1: u32 = 0x302;
const TLS_1_2: u32 = 0x303;
const DTLS_1_0: u32 = 0xFEFF;
const DTLS_1_2: u32 = 0xFEFD;
const DTLS_BEFORE: u32 = 0x100;
