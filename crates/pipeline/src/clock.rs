//! The clock of CPU time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The CPU time that the calling thread has used so far, in user and kernel mode.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
