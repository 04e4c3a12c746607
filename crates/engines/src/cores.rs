//! Facts about the processor.

use std::num::NonZero;
use std::thread;

/// How many cores this process may use, as the scheduler's affinity and the control group's
/// quota allow; 1 when the system does not say.
pub(crate) fn available_cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}
