//! Copies between page-locked memory and a device.

use std::time::{Duration, Instant};

use evener_core::EngineError;

use super::Bare;
use crate::NAME;
use crate::device::DeviceError;
use crate::sys::{Channel, Sizes};

/// The time of copies of one size, in seconds for each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// To the device.
    pub up: f64,
    /// From the device.
    pub down: f64,
    /// One each way, at the same time.
    pub both: f64,
}

impl Bare {
    /// Measures copies between page-locked memory and the device for about this long each.
    ///
    /// # Errors
    /// When the device fails.
    pub fn copies(&self, bytes: usize, time: Duration) -> Result<Copies, EngineError> {
        self.copy_both_ways(bytes, time).map_err(|error| error.of(NAME))
    }

    fn copy_both_ways(&self, bytes: usize, time: Duration) -> Result<Copies, DeviceError> {
        let sizes = Sizes { host: bytes, arena: bytes, keys: 256, scratch: 256 };
        let (mut one, mut other) =
            (Channel::open(&*self.device, sizes)?, Channel::open(&*self.device, sizes)?);
        let mut seconds = |up: bool, down: bool| -> Result<f64, DeviceError> {
            let mut run = |count: u32| -> Result<Duration, DeviceError> {
                let begun = Instant::now();
                for _ in 0..count {
                    if up {
                        one.upload(bytes)?;
                    }
                    if down {
                        other.download(0..bytes)?;
                    }
                }
                one.flush()?;
                other.flush()?;
                one.wait()?;
                other.wait()?;
                Ok(begun.elapsed())
            };
            // The first copies determine how many fill the time.
            run(1)?;
            let one = run(1)?.max(Duration::from_nanos(100));
            let count = (time.as_secs_f64() / one.as_secs_f64()).clamp(1.0, MOST_COPIES) as u32;
            Ok(run(count)?.as_secs_f64() / f64::from(count))
        };
        Ok(Copies {
            up: seconds(true, false)?,
            down: seconds(false, true)?,
            both: seconds(true, true)?,
        })
    }
}

/// The most copies that are queued at once.
const MOST_COPIES: f64 = 2_000.0;
