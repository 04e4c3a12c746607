//! One descriptor of the device, and the one session on it: sessions and rings of requests
//! belong to descriptors.

use std::io;

use evener_core::{Direction, EngineError, Iv, LoadedKey, shown_error};

use super::patience::{LIMIT, patiently};
use super::probe::{self, Service};
use super::sys::{Data, Device, Request, SessionId};
use crate::kernel::is_gone;

/// The device with the key of the last job.
pub(super) struct KeyedDevice {
    direction: Direction,
    /// The driver's properties when it was probed; every session must have the same.
    service: Service,
    /// The device, with its session once it has a key; `None` after a failure that closed it.
    device: Option<(Device, Option<SessionId>)>,
    loaded: LoadedKey,
}

impl KeyedDevice {
    pub(super) fn open(
        direction: Direction,
        service: &Service,
    ) -> Result<KeyedDevice, EngineError> {
        let (service, device) = (service.clone(), Some((open()?, None)));
        Ok(KeyedDevice { direction, service, device, loaded: LoadedKey::none() })
    }

    /// Loads this key, if the device has another.
    pub(super) fn load(&mut self, key: &[u8]) -> Result<(), EngineError> {
        let (device, id) = match self.device.take() {
            Some(device) => device,
            None => (open()?, None),
        };
        let id = match id {
            Some(id) if self.loaded.is(key) => id,
            _ => {
                self.loaded.clear();
                // Keys can't be changed, so a new session replaces the old one. An error when the
                // old one ends does not matter.
                drop(id.map(|id| device.end_session(id)));
                let started = patiently(|| device.start_session(self.service.cipher, key));
                let id =
                    started.map_err(|error| EngineError::unavailable(probe::refusal(&error)))?;
                let facts =
                    patiently(|| device.describe(id)).map_err(|error| self.failed(&error))?;
                probe::check_session(&self.service, &facts).map_err(EngineError::unavailable)?;
                self.loaded.set(key);
                id
            }
        };
        self.device = Some((device, Some(id)));
        Ok(())
    }

    /// Encrypts or decrypts whole blocks with the key that was loaded.
    pub(super) fn transform(&self, iv: Iv, data: &mut Data<'_>) -> Result<(), EngineError> {
        self.patiently(|device, id| device.transform(id, self.direction, iv, data))
            .map_err(|error| self.failed(&error))
    }

    /// Seals or opens in place, see [`Device::authenticate_in_place`].
    pub(super) fn authenticate_in_place(
        &self,
        iv: Iv,
        aad: &[u8],
        data: &mut [u8],
    ) -> io::Result<()> {
        self.patiently(|device, id| {
            device.authenticate_in_place(id, self.direction, iv.bytes(), aad, data)
        })
    }

    /// Runs several requests at once. After an error the device is closed.
    pub(super) fn transform_all(&mut self, requests: &mut [Request<'_>]) -> io::Result<()> {
        let Some((device, Some(id))) = self.device.take() else { return Err(closed()) };
        self.device = Some((device.transform_all(id, self.direction, requests)?, Some(id)));
        Ok(())
    }

    pub(super) fn failed(&self, error: &io::Error) -> EngineError {
        let words = shown_error(error);
        let reason = match error.raw_os_error() {
            Some(code) if is_gone(code) || code == libc::ENOTTY => {
                format!("the device is gone ({words})")
            }
            Some(libc::EAGAIN | libc::EBUSY) => {
                format!("the device was busy for {} s ({words})", LIMIT.as_secs())
            }
            _ => format!("the device could not {}: {words}", self.direction),
        };
        EngineError::failed(reason)
    }

    fn patiently(
        &self,
        mut request: impl FnMut(&Device, SessionId) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some((device, Some(id))) = &self.device else { return Err(closed()) };
        patiently(|| request(device, *id))
    }
}

fn open() -> Result<Device, EngineError> {
    Device::open().map_err(|error| EngineError::unavailable(probe::absence(&error)))
}

fn closed() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}
