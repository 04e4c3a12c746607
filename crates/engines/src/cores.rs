//! Facts about the processor.

use std::num::NonZero;
use std::sync::OnceLock;
use std::thread;

/// The number of cores that this process may use, as the scheduler's affinity and the control
/// group's quota allow; 1 when the system does not say. Read once, because it takes several files.
pub(crate) fn available_cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}
