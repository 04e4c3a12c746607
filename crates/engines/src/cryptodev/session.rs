//! Processes jobs through one descriptor of `/dev/crypto`.

use evener_core::parts::Parts;
use evener_core::{
    Cipher, Direction, EngineError, Job, Key, Mode, Rejection, Session, SessionRequest, wipe,
};

use super::bounce::{Bounce, PART_LENGTH, Slots, collect, is_aligned, place};
use super::keyed::KeyedDevice;
use super::probe::Service;
use super::sys::TAG_LENGTH;
use crate::serial::{Stop, perform_each};

/// The device with a key, and buffers for unaligned data.
pub(super) struct CryptodevSession {
    pub(super) cipher: Cipher,
    pub(super) direction: Direction,
    pub(super) alignment: usize,
    session_key: Option<Key>,
    pub(super) device: KeyedDevice,
    /// Buffer for unaligned data, and for outputs without space for a tag.
    bounce: Bounce,
    /// The slots for several requests at once, if the device has asynchronous requests.
    pub(super) slots: Option<Slots>,
}

impl CryptodevSession {
    pub(super) fn open(
        service: &Service,
        request: &SessionRequest<'_>,
    ) -> Result<CryptodevSession, EngineError> {
        let &SessionRequest { cipher, direction, key } = request;
        request.check_key()?;
        let mut device = KeyedDevice::open(direction, service)?;
        if let Some(key) = key {
            device.load(key.bytes())?;
        }
        Ok(CryptodevSession {
            cipher,
            direction,
            alignment: service.alignment,
            session_key: key.cloned(),
            device,
            bounce: Bounce::new(PART_LENGTH, service.alignment),
            slots: service.is_asynchronous.then(|| Slots::new(service.alignment)),
        })
    }

    /// Processes one job and returns the number of bytes that it wrote.
    fn perform(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        job.check(self.cipher, self.direction)?;
        self.load_key(job)?;
        let result = match self.cipher.mode() {
            Mode::Gcm => self.perform_aead(job),
            _ => self.perform_chained(job),
        };
        if result.is_err() {
            self.wipe(job);
        }
        result
    }

    /// Wipes the data of an unfinished job. It may be plaintext in both directions, because data is
    /// encrypted in place too.
    pub(super) fn wipe(&self, job: &mut Job<'_>) {
        let length = job.output_length(self.cipher, self.direction);
        wipe(&mut job.output[..length]);
    }

    /// Loads the job's key, if the device has another.
    pub(super) fn load_key(&mut self, job: &Job<'_>) -> Result<(), EngineError> {
        match job.key.or(self.session_key.as_ref()) {
            None => Err(EngineError::no_key()),
            Some(key) => self.device.load(key.bytes()),
        }
    }

    /// Processes ECB, CBC and CTR in parts of a size that every device accepts.
    fn perform_chained(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        let mut parts = Parts::of(job, self.cipher, self.direction);
        while let Some(mut part) = parts.next(job, PART_LENGTH) {
            let length = part.output.len();
            let iv = part.iv;
            let mut data = place(&mut part, &mut self.bounce, self.alignment);
            self.device.transform(iv, &mut data)?;
            collect(&mut part, &mut self.bounce, self.alignment);
            parts.advance(job, length);
        }
        Ok(parts.finish(job)?)
    }

    /// Processes GCM. The device appends the tag to the data, so decrypting needs more space than
    /// the output has.
    fn perform_aead(&mut self, job: &mut Job<'_>) -> Result<usize, Stop> {
        if job.aad.len() > LONGEST_AAD {
            let reason = format!(
                "{} bytes of additional data are more than /dev/crypto takes: {LONGEST_AAD}",
                job.aad.len()
            );
            return Err(EngineError::failed(reason).into());
        }
        let length = job.output_length(self.cipher, self.direction);
        let (iv, aad, input) = (job.iv, job.aad, job.input);
        let device = &self.device;
        let run = |data: &mut [u8]| {
            data[..input.len()].copy_from_slice(input);
            device.authenticate_in_place(iv, aad, data)
        };
        let output = &mut job.output[..length];
        let result = if self.direction == Direction::Encrypt && is_aligned(output, self.alignment) {
            run(output)
        } else {
            let data = self.bounce.take(input.len().max(length));
            let result = run(data);
            output.copy_from_slice(&data[..length]);
            result
        };
        match result {
            Ok(()) => Ok(length),
            Err(error) if error.raw_os_error() == Some(libc::EBADMSG) => Err(Rejection::Tag.into()),
            Err(error) => Err(self.device.failed(&error).into()),
        }
    }
}

impl Session for CryptodevSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        match self.slots {
            Some(_) => self.process_together(batch),
            None => self.process_one_by_one(batch),
        }
    }
}

impl CryptodevSession {
    pub(super) fn process_one_by_one(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        perform_each(batch, |job| self.perform(job))
    }
}

/// The longest additional data that the device accepts, in bytes: it copies the data to a page.
const LONGEST_AAD: usize = 4096;

const _: () = assert!(TAG_LENGTH <= PART_LENGTH);
