//! Whose threads go first.

use crate::policy::YIELDING_NICE;
use crate::sys;

/// Lets the threads of modules go before the calling one, whatever its priority is now.
pub(crate) fn yield_to_modules() {
    raise_nice(YIELDING_NICE);
}

/// Lets every other program go before the calling thread.
pub(crate) fn yield_to_everybody() {
    // Where the class is refused, a thread of the lowest priority is what is left.
    let _ = sys::run_when_idle();
    raise_nice(LOWEST);
}

/// Raises the calling thread's nice value, if it is not as high already. Where the system keeps
/// one for the whole process, the threads share the cores as before.
fn raise_nice(nice: i32) {
    #[cfg(target_os = "linux")]
    if let Ok(now) = rustix::process::getpriority_process(None)
        && now < nice
    {
        let _ = rustix::process::setpriority_process(None, nice);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = nice;
}

const LOWEST: i32 = 19;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;

    /// A thread's nice value and scheduling class, fields 19 and 41 of proc(5)'s `stat`.
    fn nice_and_class() -> (i32, i32) {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        (fields[16].parse().unwrap(), fields[38].parse().unwrap())
    }

    #[test]
    fn only_the_calling_thread_steps_back() {
        let before = nice_and_class();
        let worker = thread::spawn(|| {
            yield_to_modules();
            let modules_first = nice_and_class();
            yield_to_everybody();
            (modules_first, nice_and_class())
        });
        let (modules_first, last) = worker.join().unwrap();
        assert_eq!(modules_first.0, before.0.max(YIELDING_NICE));
        assert!(last.0 == LOWEST && [libc::SCHED_IDLE, libc::SCHED_BATCH].contains(&last.1));
        assert_eq!(nice_and_class(), before);
    }
}
