//! A thread that works in an engine and may be left behind.

use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use evener_core::{EngineError, IgnorePoison};
use rustix::process::Pid;
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

#[cfg(target_os = "linux")]
use super::sys::{cpu_time_of, run_when_idle};
use crate::patience::Missed;

/// A helper's thread: its number in the system while it runs. The system may give the number to
/// another thread afterwards, so the thread removes it under the lock before it ends.
#[derive(Default)]
pub(super) struct Thread(Mutex<Option<Pid>>);

impl Thread {
    /// Registers the calling thread as the helper's until the result is dropped.
    pub(super) fn begin(&self) -> Registered<'_> {
        let thread = gettid();
        OWN.lock().ignore_poison().push(thread);
        *self.lock() = Some(thread);
        Registered(self)
    }

    /// Gives the thread the lowest priority, so that a driver that computes for ever takes no time
    /// from other threads. This needs no privilege.
    pub(super) fn step_back(&self) {
        #[cfg(target_os = "linux")]
        if let Some(thread) = *self.lock() {
            step_back(thread);
        }
    }

    /// The CPU time that the thread has used; zero where that is unknown.
    pub(super) fn cpu_time(&self) -> Duration {
        #[cfg(target_os = "linux")]
        if let Some(thread) = *self.lock() {
            return cpu_time_of(thread);
        }
        Duration::ZERO
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.0.lock().ignore_poison()
    }
}

pub(super) struct Registered<'t>(&'t Thread);

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        if let Some(thread) = self.0.lock().take() {
            OWN.lock().ignore_poison().retain(|own| *own != thread);
        }
    }
}

/// Gives drivers' threads that compute the lowest priority. They have the name of the thread that
/// started them, and are not this program's own.
pub(super) fn have_drivers_step_back() {
    #[cfg(target_os = "linux")]
    for thread in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let name = std::fs::read(thread.path().join("comm")).unwrap_or_default();
        let is_modules = [NAME, PROBE].iter().any(|it| name.trim_ascii_end() == it.as_bytes());
        let number = thread.file_name().to_str().and_then(|number| number.parse().ok());
        let Some(thread) = number.and_then(Pid::from_raw).filter(|_| is_modules) else { continue };
        if !OWN.lock().ignore_poison().contains(&thread) && cpu_time_of(thread) > LONG {
            step_back(thread);
        }
    }
}

/// The threads of all helpers.
static OWN: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// The name of a helper's thread, which the threads that it starts inherit.
pub(super) const NAME: &str = "evener-module";

/// The name of the threads that look for modules.
#[cfg(target_os = "linux")]
const PROBE: &str = "evener-probe";

#[cfg(target_os = "linux")]
fn step_back(thread: Pid) {
    let _ = rustix::process::setpriority_process(Some(thread), LOWEST);
    run_when_idle(thread);
}

/// A driver's thread that has used more CPU time than this counts as computing.
#[cfg(target_os = "linux")]
const LONG: Duration = Duration::from_millis(4);

/// The nice value of the lowest priority.
#[cfg(target_os = "linux")]
pub(super) const LOWEST: i32 = 19;

/// The CPU time that the calling thread has used so far, in user and kernel mode.
pub(super) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The size of the stack that may hold keys, in bytes.
pub(super) const STACK: usize = 16 << 10;

/// The error of a wait without an answer.
pub(super) fn missed(action: &str, limit: Duration, why: Missed) -> EngineError {
    match why {
        Missed::Gone => EngineError::failed(PANICKED),
        Missed::Recalled => EngineError::Interrupted { engine: String::new() },
        Missed::Late => {
            let seconds = limit.as_secs_f64();
            EngineError::failed(format!(
                "it did not {action} within {seconds} s and was left behind"
            ))
        }
    }
}

pub(super) fn no_thread(error: &io::Error) -> EngineError {
    EngineError::unavailable(format!("no thread could be started for it: {error}"))
}

pub(super) const PANICKED: &str = "its thread panicked";

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;

    #[test]
    fn threads_that_a_driver_starts_and_that_compute_step_back() {
        let (tell, told) = mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let helper = Arc::new(Thread::default());
        let work = {
            let (helper, is_over) = (Arc::clone(&helper), Arc::clone(&is_over));
            move || {
                let _registered = helper.begin();
                let drivers = [true, false].map(|computes| {
                    let (tell, is_over) = (tell.clone(), Arc::clone(&is_over));
                    thread::spawn(move || {
                        tell.send((computes, gettid())).unwrap();
                        while !is_over.load(Ordering::Relaxed) {
                            if !computes {
                                thread::sleep(Duration::from_millis(1));
                            }
                        }
                    })
                });
                for driver in drivers {
                    driver.join().unwrap();
                }
            }
        };
        let work = thread::Builder::new().name(NAME.to_owned()).spawn(work).unwrap();
        // Field 41 of proc(5), where 5 is SCHED_IDLE.
        let is_idle = |thread: Pid| {
            let stat = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
            let stat = std::fs::read_to_string(stat).unwrap();
            stat.rsplit(')').next().unwrap().split_whitespace().nth(38) == Some("5")
        };
        let threads = [told.recv().unwrap(), told.recv().unwrap()];
        let number = |computes| threads.iter().find(|thread| thread.0 == computes).unwrap().1;
        while !is_idle(number(true)) {
            have_drivers_step_back();
            thread::sleep(Duration::from_millis(1));
        }
        assert!(!is_idle(number(false)));
        is_over.store(true, Ordering::Relaxed);
        work.join().unwrap();
    }

    #[test]
    fn a_thread_that_has_ended_is_not_changed() {
        let thread = Thread::default();
        let registered = thread.begin();
        assert_eq!(*thread.lock(), Some(gettid()));
        drop(registered);
        // The number may be another thread's now.
        assert_eq!(*thread.lock(), None);
    }
}
