//! Pins a benchmark to cores.

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::LabError;

/// Pins the calling thread, and threads that it starts later, to these cores, numbered from 0; to
/// all cores if the list is empty.
///
/// # Errors
/// When the system refuses.
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
