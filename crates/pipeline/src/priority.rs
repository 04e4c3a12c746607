//! Whose threads go first.

use crate::policy::YIELDING_NICE;

/// Lets the threads of modules go before the calling one, whatever its priority is now.
pub(crate) fn yield_to_modules() {
    // Where a thread's priority is that of its process, the engines' threads keep it too: then
    // they share the cores as before. A nice value that is higher already stays.
    #[cfg(target_os = "linux")]
    if let Ok(nice) = rustix::process::getpriority_process(None) {
        let _ = rustix::process::setpriority_process(None, nice.max(YIELDING_NICE));
    }
}
