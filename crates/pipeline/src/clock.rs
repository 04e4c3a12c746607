//! The clock of CPU time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The CPU time that the calling thread has used so far, in user and kernel mode.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The CPU time that all threads of the process have used so far.
pub(crate) fn process_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
