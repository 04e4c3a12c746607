//! Thread priorities.

use crate::sys;

/// Lets every other program go before the calling thread.
pub(crate) fn yield_to_everybody() {
    // If the system refuses the class, the lowest priority must do.
    let _ = sys::run_when_idle();
    raise_nice(LOWEST);
}

/// Gives low-priority threads of the process the main thread's scheduling class and nice value, if
/// the system allows that, so that they end their work soon. Root may do so, and other users if
/// `RLIMIT_NICE` permits the main thread's nice value; otherwise the threads end when the cores
/// have time for them.
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

/// Gives the calling thread priority over the process's other threads, if the system allows that,
/// until this value is dropped on the same thread. Threads that it starts meanwhile get it too.
///
/// This is for a worker whose engine is a module. It needs a core for a moment at a time, and the
/// module is idle while it waits for one. Linux's scheduler shares a core evenly, so beside a
/// worker that computes all the time the module's worker would wait for most of a time slice.
///
/// Root may do so, and other users as far as `RLIMIT_NICE` allows.
pub(crate) struct Ahead {
    #[cfg(target_os = "linux")]
    usual: Option<i32>,
}

impl Ahead {
    pub(crate) fn go() -> Ahead {
        Ahead {
            #[cfg(target_os = "linux")]
            usual: rustix::process::getpriority_process(None).ok().filter(|usual| {
                rustix::process::setpriority_process(None, usual - STEPS_AHEAD).is_ok()
            }),
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some(usual) = self.usual {
            // Every user may raise a nice value.
            let _ = rustix::process::setpriority_process(None, usual);
        }
    }
}

/// Raises the calling thread's nice value to at least `nice`. If the system keeps one value for the
/// whole process, the threads share the cores as before.
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

/// The priority of a module's worker, in steps of the nice value. If two threads compete, each step
/// gives a quarter more of a core, and five steps three times as much. On a modelled AM3358, three
/// steps gave the module too little at 4,096 bytes, and ten no more than five.
#[cfg(target_os = "linux")]
const STEPS_AHEAD: i32 = 5;

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
            evener_core::skipped!("only root surely may raise a thread's priority");
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
    fn a_thread_that_goes_ahead_does_so_for_a_while_and_takes_those_that_it_starts_along() {
        if !rustix::process::geteuid().is_root() {
            evener_core::skipped!("only root surely may raise a thread's priority");
            return;
        }
        let (usual, class) = nice_and_class();
        let ahead = Ahead::go();
        let expected = ((usual - STEPS_AHEAD).max(-20), class);
        assert_eq!(nice_and_class(), expected);
        assert_eq!(thread::spawn(nice_and_class).join().unwrap(), expected);
        drop(ahead);
        assert_eq!(nice_and_class(), (usual, class));
    }

    #[test]
    fn only_the_calling_thread_steps_back() {
        let before = nice_and_class();
        let worker = thread::spawn(|| {
            yield_to_everybody();
            nice_and_class()
        });
        let last = worker.join().unwrap();
        assert!(last.0 == LOWEST && [libc::SCHED_IDLE, libc::SCHED_BATCH].contains(&last.1));
        assert_eq!(nice_and_class(), before);
    }
}
