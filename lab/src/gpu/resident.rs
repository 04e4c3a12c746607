//! Texts that stay in the device's memory.

use std::sync::Arc;

use evener_core::{Cipher, Engine, EngineError, Key};
use evener_gpu::resident;

use super::report::Resident;

/// Measures the sealing of a text of `bytes` bytes; the figures are medians of `rounds`.
pub(super) fn measure(
    device: &str,
    cipher: Cipher,
    bytes: usize,
    rounds: usize,
    reference: &Arc<dyn Engine>,
) -> Result<Resident, EngineError> {
    let raw: Vec<u8> = (1..).take(cipher.key_length()).collect();
    let unusable = |_| EngineError::failed("no key fits").of(device);
    let key = Key::new(&raw).map_err(unusable)?;
    let times = resident::Resident::open(device, cipher, &key, Arc::clone(reference))?
        .times(bytes, rounds)?;
    Ok(Resident {
        cipher: cipher.name().to_owned(),
        bytes,
        gb_per_second: bytes as f64 / times.sealing.as_secs_f64() / 1e9,
        preparation_milliseconds: times.preparation.as_secs_f64() * 1e3,
    })
}
