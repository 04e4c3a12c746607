//! Keeping a benchmark on some cores.

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::LabError;

/// Keeps the calling thread, and those that it will start, on some cores,
/// numbered from 0; on all where none are named.
///
/// # Errors
/// When the system does not let it have them.
pub(crate) fn pin(cores: &[usize]) -> Result<(), LabError> {
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &core in cores.iter().filter(|&&core| core < CpuSet::MAX_CPU) {
        set.set(core);
    }
    sched_setaffinity(None, &set).map_err(|error| {
        LabError::Unavailable(format!("the cores {cores:?} can't be had: {error}"))
    })
}
