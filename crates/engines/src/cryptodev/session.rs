//! One descriptor of `/dev/crypto`, one session on it, one job after the other.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Direction, EngineError, Iv, Job, Key, Mode, Padding, Rejection, Session,
    SessionRequest, padding,
};
use zeroize::{Zeroize, Zeroizing};

use super::probe::{self, Service};
use super::sys::{Device, SessionId, TAG_LENGTH};
use crate::serial::{LoadedKey, Stop, perform_each};

/// A descriptor of the device and the one session that it has: sessions and request rings
/// belong to descriptors.
pub(super) struct CryptodevSession {
    engine: String,
    cipher: Cipher,
    direction: Direction,
    algorithm: u32,
    alignment: usize,
    session_key: Option<Key>,
    loaded: LoadedKey,
    device: Device,
    id: Option<SessionId>,
    /// For data whose address does not suit the driver, or has no room for a tag.
    bounce: Bounce,
}

impl CryptodevSession {
    pub(super) fn open(
        engine: &str,
        service: &Service,
        request: &SessionRequest<'_>,
    ) -> Result<CryptodevSession, EngineError> {
        let &SessionRequest { cipher, direction, key } = request;
        let expected = cipher.key_length();
        if let Some(key) = key.filter(|key| key.len() != expected) {
            return Err(EngineError::KeyLength { cipher, expected, actual: key.len() });
        }
        let algorithm = probe::algorithm(cipher).ok_or_else(|| EngineError::NotOffered {
            engine: engine.to_owned(),
            cipher,
            direction,
        })?;
        let device = Device::open().map_err(|error| EngineError::Unavailable {
            engine: engine.to_owned(),
            reason: probe::absence(&error),
        })?;
        let mut session = CryptodevSession {
            engine: engine.to_owned(),
            cipher,
            direction,
            algorithm,
            alignment: service.alignment,
            session_key: key.cloned(),
            loaded: LoadedKey::none(),
            device,
            id: None,
            bounce: Bounce::new(PART_LENGTH, service.alignment),
        };
        if let Some(key) = key {
            session.load(key.bytes())?;
        }
        Ok(session)
    }

    /// Does one job and returns how many bytes it wrote.
    fn perform(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        job.check(self.cipher, self.direction)?;
        let id = self.prepare(job)?;
        let result = match self.cipher.mode() {
            Mode::Gcm => self.perform_aead(id, job),
            _ => self.perform_chained(id, job),
        };
        if result.is_err() {
            // It may hold plaintext in either direction: data is also encrypted in place.
            let length = job.output_length(self.cipher, self.direction);
            job.output[..length].zeroize();
        }
        result
    }

    /// The session with the job's key.
    fn prepare(&mut self, job: &Job<'_>) -> Result<SessionId, EngineError> {
        let session_key = self.session_key.take();
        let key = job.key.or(session_key.as_ref());
        let result = match (key, self.id) {
            (None, _) => Err(EngineError::NoKey { engine: self.engine.clone() }),
            (Some(key), Some(id)) if self.loaded.is(key.bytes()) => Ok(id),
            (Some(key), _) => self.load(key.bytes()),
        };
        self.session_key = session_key;
        result
    }

    /// Starts a session with this key in the place of the one before: keys can't be changed.
    fn load(&mut self, key: &[u8]) -> Result<SessionId, EngineError> {
        self.loaded.clear();
        if let Some(id) = self.id.take() {
            // Whatever the device says to that, the session is of no more use here.
            let _ = self.device.end_session(id);
        }
        let started = patiently(|| self.device.start_session(self.algorithm, key));
        let id = started.map_err(|error| EngineError::Unavailable {
            engine: self.engine.clone(),
            reason: probe::refusal(&error),
        })?;
        self.id = Some(id);
        self.loaded.set(key);
        Ok(id)
    }

    /// ECB, CBC and CTR: in parts of a size that every device takes. The IV that carries on is
    /// computed here, because not every driver hands it back.
    fn perform_chained(&mut self, id: SessionId, job: &mut Job<'_>) -> Result<usize, Stop> {
        let length = job.output_length(self.cipher, self.direction);
        let block = self.cipher.block_length();
        let mut last = Zeroizing::new([0; LONGEST_BLOCK]);
        let mut whole = length;
        if job.padding == Padding::Pkcs7 && self.direction == Direction::Encrypt {
            whole = length - block;
            padding::fill_last_block(&mut last[..block], &job.input[whole..]);
        }
        let mut iv = job.iv;
        let mut done = 0;
        while done < length {
            let end = length.min(done + PART_LENGTH);
            let from_message = &job.input[done..whole.min(end)];
            let padded = &last[..end - done - from_message.len()];
            let output = &mut job.output[done..end];
            self.transform(id, iv, [from_message, padded], output)?;
            iv = match (self.cipher.mode(), self.direction) {
                (Mode::Ctr, _) => iv.advanced((PART_LENGTH / LONGEST_BLOCK) as u64),
                (Mode::Cbc, Direction::Encrypt) => last_block(output, block),
                (Mode::Cbc, Direction::Decrypt) => last_block(from_message, block),
                _ => iv,
            };
            done = end;
        }
        if job.padding == Padding::None || self.direction == Direction::Encrypt {
            return Ok(length);
        }
        let pad = padding::padding_length(&job.output[length - block..length]);
        Ok(length - pad.ok_or(Rejection::Padding)?)
    }

    /// One request, from and to where the data is if that suits the driver. Padding, which
    /// lies elsewhere, is joined to the message in the output.
    fn transform(
        &mut self,
        id: SessionId,
        iv: Iv,
        input: [&[u8]; 2],
        output: &mut [u8],
    ) -> Result<(), Stop> {
        let CryptodevSession { device, direction, .. } = self;
        let (direction, iv) = (*direction, iv.bytes());
        let result = if !is_aligned(output, self.alignment) {
            let data = self.bounce.take(output.len());
            join(input, data);
            let result = patiently(|| device.transform_in_place(id, direction, iv, data));
            output.copy_from_slice(data);
            result
        } else if is_aligned(input[0], self.alignment) && input[1].is_empty() {
            patiently(|| device.transform(id, direction, iv, input[0], output))
        } else {
            join(input, output);
            patiently(|| device.transform_in_place(id, direction, iv, output))
        };
        result.map_err(|error| self.failed(&error).into())
    }

    /// GCM. The device appends the tag to the data, so decrypting needs room that the output
    /// does not have.
    fn perform_aead(&mut self, id: SessionId, job: &mut Job<'_>) -> Result<usize, Stop> {
        if job.aad.len() > LONGEST_AAD {
            let reason = format!(
                "{} bytes of additional data are more than /dev/crypto takes: {LONGEST_AAD}",
                job.aad.len()
            );
            return Err(EngineError::Failed { engine: self.engine.clone(), reason }.into());
        }
        let length = job.output_length(self.cipher, self.direction);
        let CryptodevSession { device, direction, bounce, .. } = self;
        let (iv, aad, input) = (job.iv.bytes(), job.aad, job.input);
        let run = |data: &mut [u8]| {
            data[..input.len()].copy_from_slice(input);
            patiently(|| device.authenticate_in_place(id, *direction, iv, aad, data))
        };
        let output = &mut job.output[..length];
        let result = if *direction == Direction::Encrypt && is_aligned(output, self.alignment) {
            run(output)
        } else {
            let data = bounce.take(input.len().max(length));
            let result = run(data);
            output.copy_from_slice(&data[..length]);
            result
        };
        match result {
            Ok(()) => Ok(length),
            Err(error) if error.raw_os_error() == Some(libc::EBADMSG) => Err(Rejection::Tag.into()),
            Err(error) => Err(self.failed(&error).into()),
        }
    }

    fn failed(&self, error: &io::Error) -> EngineError {
        let reason = match error.raw_os_error() {
            Some(
                libc::ENODEV | libc::ENXIO | libc::ENOTCONN | libc::ECONNABORTED | libc::ENOTTY,
            ) => format!("the device is gone ({error})"),
            Some(libc::EAGAIN | libc::EBUSY) => {
                format!("the device was busy for {} s ({error})", PATIENCE.as_secs())
            }
            _ => format!("the device could not {}: {error}", self.direction),
        };
        EngineError::Failed { engine: self.engine.clone(), reason }
    }
}

impl Session for CryptodevSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        perform_each(batch, |job| self.perform(job))
    }
}

/// Repeats a request while the device is too busy to take it, in growing intervals.
fn patiently<T>(mut request: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut wait = SHORTEST_WAIT;
    let mut give_up = None;
    loop {
        let error = match request() {
            Err(error) => error,
            done => return done,
        };
        match error.raw_os_error() {
            Some(libc::EINTR) => continue,
            Some(libc::EAGAIN | libc::EBUSY) => {}
            _ => return Err(error),
        }
        let deadline = *give_up.get_or_insert_with(|| Instant::now() + PATIENCE);
        if Instant::now() >= deadline {
            return Err(error);
        }
        thread::sleep(wait);
        wait = LONGEST_WAIT.min(wait * 2);
    }
}

/// Memory at an address that suits the driver, wiped when it goes.
struct Bounce {
    bytes: Zeroizing<Vec<u8>>,
    alignment: usize,
}

impl Bounce {
    fn new(length: usize, alignment: usize) -> Bounce {
        Bounce { bytes: Zeroizing::new(vec![0; length + alignment]), alignment }
    }

    /// So many bytes of it, after growing if it never had as many before.
    fn take(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() < length + self.alignment {
            *self = Bounce::new(length, self.alignment);
        }
        let start = self.bytes.as_ptr().align_offset(self.alignment);
        &mut self.bytes[start..start + length]
    }
}

fn is_aligned(data: &[u8], alignment: usize) -> bool {
    data.as_ptr().addr().is_multiple_of(alignment)
}

fn join([first, second]: [&[u8]; 2], data: &mut [u8]) {
    let (head, tail) = data.split_at_mut(first.len());
    head.copy_from_slice(first);
    tail.copy_from_slice(second);
}

/// The last block of a part, as the IV of the next; parts are never empty.
fn last_block(part: &[u8], block: usize) -> Iv {
    Iv::new(&part[part.len().saturating_sub(block)..]).unwrap_or(Iv::NONE)
}

/// The most that one request carries of a message that goes in parts, in bytes: whole pages
/// and blocks, and below the 64 KiB less one byte that OCF's drivers take at most.
const PART_LENGTH: usize = 15 * 4096;

/// The additional data that the device takes: it copies it to a page.
const LONGEST_AAD: usize = 4096;

/// The longest block of a cipher that pads, in bytes.
const LONGEST_BLOCK: usize = 16;

const SHORTEST_WAIT: Duration = Duration::from_micros(50);
const LONGEST_WAIT: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(10);

const _: () = assert!(TAG_LENGTH == LONGEST_BLOCK);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_devices_are_asked_again() {
        let mut answers = [libc::EAGAIN, libc::EINTR, libc::EBUSY, libc::EINVAL].into_iter();
        let result = patiently(|| match answers.next() {
            Some(error) => Err::<(), _>(io::Error::from_raw_os_error(error)),
            None => Ok(()),
        });
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(answers.next(), None);
    }

    #[test]
    fn bounced_data_is_aligned() {
        let mut bounce = Bounce::new(10, 64);
        for length in [0, 10, 11, 5000, 7] {
            let data = bounce.take(length);
            assert_eq!(data.len(), length);
            assert!(is_aligned(data, 64));
        }
    }
}
