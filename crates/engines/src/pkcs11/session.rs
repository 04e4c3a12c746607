//! One PKCS #11 session with one key, which processes one job after the other.

use std::sync::Arc;

use cryptoki_sys::{CK_KEY_TYPE, CK_MECHANISM_TYPE, CK_OBJECT_HANDLE};
use evener_core::parts::{COUNTER_BLOCK, Parts};
use evener_core::{
    Cipher, Direction, EngineError, Iv, Job, Key, LoadedKey, Mode, Rejection, Session,
    SessionRequest, WipedBuffer, wipe,
};
use zeroize::Zeroizing;

use super::login::Stay;
use super::mechanism::{PART_LENGTH, can_be_parted, mechanism};
use super::probe::Token;
use super::sys::{Channel, Mechanism, NewKey};
use super::words::{Failure, may_mean_forged, means_forged, refused};
use crate::misfit::Misfit;
use crate::serial::{Stop, perform_each, same};

pub(super) struct Pkcs11Session {
    cipher: Cipher,
    direction: Direction,
    mechanism: CK_MECHANISM_TYPE,
    key_type: CK_KEY_TYPE,
    session_key: Option<Key>,
    loaded: LoadedKey,
    /// The key's object in the token: the held one, or the loaded one, if there is one.
    object: Option<CK_OBJECT_HANDLE>,
    channel: Channel,
    /// Buffer for the last part of a padded message.
    padded_part: WipedBuffer,
    /// Buffer for decrypted GCM messages. Grows to the longest message.
    room: WipedBuffer,
    /// True if new keys are private: only a logged-in user may use them.
    is_private: bool,
    /// Keeps the user logged in. Declared after the channel, which must close first.
    stay: Arc<Stay>,
}

impl Pkcs11Session {
    pub(super) fn open(
        token: &Arc<Token>,
        request: &SessionRequest<'_>,
    ) -> Result<Pkcs11Session, EngineError> {
        let &SessionRequest { cipher, direction, key } = request;
        let offered = mechanism(cipher).filter(|_| token.performs(cipher, direction));
        let (mechanism, key_type) =
            offered.ok_or_else(|| EngineError::not_offered(cipher, direction))?;
        request.check_key()?;
        if token.login.names_key() && key.is_some() {
            return Err(EngineError::holds_key());
        }
        let stay = token.login.stay().map_err(EngineError::unavailable)?;
        let channel = Channel::open(&token.module, token.slot)
            .map_err(|failure| EngineError::unavailable(refused(&failure)))?;
        let mut session = Pkcs11Session {
            cipher,
            direction,
            mechanism,
            key_type,
            session_key: None,
            loaded: LoadedKey::none(),
            object: stay.held.map(|held| held.handle),
            channel,
            padded_part: WipedBuffer::zeros(PART_LENGTH),
            room: WipedBuffer::default(),
            is_private: token.login.is_private(),
            stay,
        };
        if let Some(key) = key {
            session.load(key.bytes())?;
            session.session_key = Some(key.clone());
        }
        Ok(session)
    }

    /// Processes one job and returns the number of bytes that it wrote.
    fn perform(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        job.check(self.cipher, self.direction)?;
        let object = self.key_object(job)?;
        let result = if can_be_parted(self.cipher.mode()) {
            self.perform_in_parts(job, object)
        } else {
            self.perform_whole(job, object)
        };
        if result.is_err() && self.direction == Direction::Decrypt {
            let length = job.output_length(self.cipher, self.direction);
            wipe(&mut job.output[..length]);
        }
        result
    }

    /// The object of the job's key; made if the last job had another key.
    fn key_object(&mut self, job: &Job<'_>) -> Result<CK_OBJECT_HANDLE, EngineError> {
        if let Some(held) = self.stay.held {
            return match job.key {
                None => Ok(held.handle),
                Some(_) => Err(EngineError::holds_key()),
            };
        }
        let Some(key) = job.key.or(self.session_key.as_ref()) else {
            return Err(EngineError::no_key());
        };
        if let Some(object) = self.object.filter(|_| self.loaded.is(key.bytes())) {
            return Ok(object);
        }
        let key = key.clone();
        self.load(key.bytes())
    }

    fn load(&mut self, key: &[u8]) -> Result<CK_OBJECT_HANDLE, EngineError> {
        self.unload();
        let mut bytes = Zeroizing::new([0; Key::MAX_LENGTH]);
        let bytes = &mut bytes[..key.len()];
        bytes.copy_from_slice(key);
        if self.cipher == Cipher::DesEde3Cbc {
            set_odd_parity(bytes);
        }
        let key_type = self.key_type;
        let new = NewKey::of(self.cipher, key_type, bytes, self.is_private)
            .map_err(|misfit| self.misfit(misfit))?;
        let object = self.channel.create_key(&new).map_err(|failure| self.failed(&failure))?;
        self.loaded.set(key);
        self.object = Some(object);
        Ok(object)
    }

    /// Destroys the object of the last key, unless it is the token's own.
    fn unload(&mut self) {
        self.loaded.clear();
        if let Some(object) = self.object.take().filter(|_| self.stay.held.is_none()) {
            // If this fails, the object ends with the session.
            let _ = self.channel.destroy(object);
        }
    }

    /// Processes ECB, CBC and CTR in parts that the token accepts, each with an IV of its own.
    fn perform_in_parts(
        &mut self,
        job: &mut Job<'_>,
        object: CK_OBJECT_HANDLE,
    ) -> Result<usize, Stop> {
        let mut padded = std::mem::take(&mut self.padded_part);
        let result = self.perform_parts(job, object, &mut padded);
        self.padded_part = padded;
        result
    }

    fn perform_parts(
        &mut self,
        job: &mut Job<'_>,
        object: CK_OBJECT_HANDLE,
        padded: &mut [u8],
    ) -> Result<usize, Stop> {
        let mut parts = Parts::of(job, self.cipher, self.direction);
        while let Some(part) = parts.next(job, self.part_length(parts.iv())) {
            let length = part.output.len();
            let input = if part.is_padded() {
                part.copy_input(&mut padded[..length]);
                &padded[..length]
            } else {
                part.message
            };
            self.transform(part.iv, &[], object, input, part.output)?;
            parts.advance(job, length);
        }
        Ok(parts.finish(job)?)
    }

    /// Greatest part for one request. The counter must not wrap within a request, which the
    /// standard calls an error.
    fn part_length(&self, iv: Iv) -> usize {
        let counter = match iv.bytes().try_into() {
            Ok(block) if self.cipher.mode() == Mode::Ctr => u128::from_be_bytes(block),
            _ => return PART_LENGTH,
        };
        let blocks_left = u128::MAX - counter;
        let most = (PART_LENGTH / COUNTER_BLOCK) as u128;
        (blocks_left.min(most - 1) as usize + 1) * COUNTER_BLOCK
    }

    /// Processes a whole GCM message. The tag follows the ciphertext, as input and as output.
    fn perform_whole(
        &mut self,
        job: &mut Job<'_>,
        object: CK_OBJECT_HANDLE,
    ) -> Result<usize, Stop> {
        let length = job.output_length(self.cipher, self.direction);
        if self.direction == Direction::Encrypt {
            let output = &mut job.output[..length];
            self.transform(job.iv, job.aad, object, job.input, output)?;
            return Ok(length);
        }
        let mut room = std::mem::take(&mut self.room);
        room.ensure(job.input.len());
        let result = self.open_sealed(job, object, &mut room[..job.input.len()]);
        match result {
            Ok(()) => job.output[..length].copy_from_slice(&room[..length]),
            Err(_) => wipe(&mut room[..job.input.len()]),
        }
        self.room = room;
        result.map(|()| length)
    }

    /// Decrypts into `room`, which has space for the tag too: some modules, such as SoftHSM,
    /// require it, although they write only the text.
    fn open_sealed(
        &mut self,
        job: &Job<'_>,
        object: CK_OBJECT_HANDLE,
        room: &mut [u8],
    ) -> Result<(), Stop> {
        let length = room.len().saturating_sub(self.cipher.tag_length());
        let mechanism = self.mechanism(&job.iv, job.aad)?;
        match self.channel.transform(Direction::Decrypt, mechanism, object, job.input, room) {
            Ok(written) if written == length => Ok(()),
            Ok(written) => Err(self.broken(written, length).into()),
            Err(failure) if means_forged(failure.code) => Err(Rejection::Tag.into()),
            Err(failure) if may_mean_forged(failure.code) => {
                let sealed = self.seal_again(mechanism, object, &job.input[..length], room);
                sealed.map_err(|_| self.failed(&failure))?;
                if same(room, job.input) {
                    return Err(self.failed(&failure).into());
                }
                Err(Rejection::Tag.into())
            }
            Err(failure) => Err(self.failed(&failure).into()),
        }
    }

    /// Computes the true tag of a ciphertext, to distinguish a forged tag from a failing token. GCM
    /// uses the same key stream in both directions, so encrypting the ciphertext gives the text,
    /// and encrypting the text gives the ciphertext with its true tag.
    fn seal_again(
        &mut self,
        mechanism: Mechanism<'_>,
        object: CK_OBJECT_HANDLE,
        ciphertext: &[u8],
        sealed: &mut [u8],
    ) -> Result<(), Failure> {
        let mut text = WipedBuffer::zeros(sealed.len());
        let encrypt = Direction::Encrypt;
        self.channel.transform(encrypt, mechanism, object, ciphertext, &mut text)?;
        let text = &text[..ciphertext.len()];
        self.channel.transform(encrypt, mechanism, object, text, sealed)?;
        Ok(())
    }

    /// Encrypts or decrypts one request. The token must fill `output` exactly.
    fn transform(
        &mut self,
        iv: Iv,
        aad: &[u8],
        object: CK_OBJECT_HANDLE,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), Stop> {
        let mechanism = self.mechanism(&iv, aad)?;
        let wanted = output.len();
        match self.channel.transform(self.direction, mechanism, object, input, output) {
            Ok(written) if written == wanted => Ok(()),
            Ok(written) => Err(self.broken(written, wanted).into()),
            Err(failure) => Err(self.failed(&failure).into()),
        }
    }

    fn mechanism<'m>(&self, iv: &'m Iv, aad: &'m [u8]) -> Result<Mechanism<'m>, EngineError> {
        Mechanism::of(self.cipher, self.mechanism, iv.bytes(), aad)
            .map_err(|misfit| self.misfit(misfit))
    }

    fn misfit(&self, misfit: Misfit) -> EngineError {
        EngineError::failed(misfit.to_string())
    }

    fn failed(&self, failure: &Failure) -> EngineError {
        EngineError::failed(refused(failure))
    }

    fn broken(&self, written: usize, wanted: usize) -> EngineError {
        EngineError::failed(format!("the token returned {written} bytes where {wanted} were due"))
    }
}

impl Session for Pkcs11Session {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        perform_each(batch, |job| self.perform(job))
    }
}

impl Drop for Pkcs11Session {
    fn drop(&mut self) {
        self.unload();
    }
}

/// DES ignores the lowest bit of every key byte, but some tokens insist on its value in FIPS 46-3,
/// which makes the number of set bits odd.
fn set_odd_parity(key: &mut [u8]) {
    for byte in key {
        let others_are_even = (*byte >> 1).count_ones().is_multiple_of(2);
        *byte = (*byte & !1) | u8::from(others_are_even);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_des_key_gets_odd_parity() {
        let mut key: Vec<u8> = (0..=255).collect();
        set_odd_parity(&mut key);
        for (index, byte) in key.into_iter().enumerate() {
            assert_eq!(byte.count_ones() % 2, 1);
            assert_eq!(byte | 1, index as u8 | 1);
        }
    }
}
