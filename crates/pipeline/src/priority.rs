//! Priorities of threads.

use crate::policy::YIELDING_NICE;
use crate::sys;

/// Gives the calling thread a priority below the threads of modules.
pub(crate) fn yield_to_modules() {
    raise_nice(YIELDING_NICE);
}

/// Gives the calling thread only idle CPU time.
pub(crate) fn yield_to_everybody() {
    // If the class is refused, the thread gets the lowest priority instead.
    let _ = sys::run_when_idle();
    raise_nice(LOWEST);
}

/// Gives the low-priority threads of the process the main thread's priority, so that work that was
/// stopped ends soon. Root may do that, and other users if `RLIMIT_NICE` permits the main thread's
/// nice value. Otherwise the threads end when they get CPU time.
pub fn hurry() {
    #[cfg(target_os = "linux")]
    for thread in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let number = thread.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(thread) = number.and_then(rustix::process::Pid::from_raw) else { continue };
        let _ = sys::run_as_usual(thread.as_raw_nonzero().get());
        let main = rustix::process::getpid();
        if let (Ok(usual), Ok(now)) = (
            rustix::process::getpriority_process(Some(main)),
            rustix::process::getpriority_process(Some(thread)),
        ) && usual < now
        {
            let _ = rustix::process::setpriority_process(Some(thread), usual);
        }
    }
}

/// Raises the calling thread's nice value, if it is lower. Without effect where the system has one
/// nice value for the whole process.
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
    fn threads_that_stepped_back_hurry_where_they_may() {
        if !rustix::process::geteuid().is_root() {
            evener_skipped::skipped!("only root surely may raise a thread's priority");
            return;
        }
        let before = nice_and_class();
        let (stepped, has_stepped) = std::sync::mpsc::channel();
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let worker = thread::spawn(move || {
            yield_to_everybody();
            stepped.send(nice_and_class()).unwrap();
            may_go_on.recv().unwrap_err();
            nice_and_class()
        });
        assert_ne!(has_stepped.recv().unwrap(), before);
        hurry();
        drop(go_on);
        assert_eq!(worker.join().unwrap(), before);
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
