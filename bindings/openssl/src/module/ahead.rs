//! Raises the priority of threads while they use the module.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use evener_core::shown_error;
use rustix::process::{getpriority_process, setpriority_process};

use super::SETTING;
use crate::warning::warn;

/// Raises the calling thread's priority by the configured steps of the nice value, until this is
/// dropped on the same thread. Threads that it starts meanwhile keep the raised priority.
///
/// A thread that uses a module needs a core for short moments, and the module stands still while
/// the thread waits for one. Linux shares a core evenly, so beside a process that computes all the
/// time the thread would wait for most of a time slice.
///
/// Root may raise its priority, and other users may as far as `RLIMIT_NICE` allows. If the system
/// refuses, that is reported once, and no thread tries again. Without the line in the configuration
/// there is no system call, since a filter may kill the process for it.
pub(super) struct Ahead {
    usual: Option<i32>,
}

impl Ahead {
    pub(super) fn go() -> Ahead {
        let steps = SETTING.get().and_then(|(routing, _)| routing.ahead);
        let steps = steps.filter(|_| !IS_REFUSED.load(Ordering::Relaxed));
        Ahead { usual: steps.and_then(go_by) }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(usual) = self.usual
            // Anyone may lower the priority again, but a filter may refuse that too.
            && let Err(cause) = setpriority_process(None, usual)
        {
            let cause = shown_error(&cause.into());
            refused(&format_args!("`ahead`: a thread that went ahead can't step back: {cause}"));
        }
    }
}

/// Lowers the nice value by `steps`. Returns the value before, or `None` if the system refuses.
fn go_by(steps: i32) -> Option<i32> {
    let usual = match getpriority_process(None) {
        Ok(usual) => usual,
        Err(cause) => {
            let cause = shown_error(&cause.into());
            refused(&format_args!("`ahead = {steps}`: the nice value can't be read: {cause}"));
            return None;
        }
    };
    if setpriority_process(None, usual - steps).is_err() {
        // systemd takes a signed number as a nice value.
        let least = (usual - steps).max(-20);
        refused(&format_args!(
            "`ahead = {steps}`: the system does not allow it; systemd does by `LimitNICE={least:+}`"
        ));
        return None;
    }
    Some(usual)
}

/// Keeps threads from raising their priority from now on. Only the first call reports its reason.
fn refused(why: &dyn fmt::Display) {
    if !IS_REFUSED.swap(true, Ordering::Relaxed) {
        warn(why);
    }
}

static IS_REFUSED: AtomicBool = AtomicBool::new(false);

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_goes_ahead_for_a_while_where_it_may() {
        let nice = || getpriority_process(None).unwrap();
        // Its own thread, since it may not be able to lower its nice value again.
        let of_thread = thread::spawn(move || {
            let usual = nice();
            let ahead = Ahead { usual: go_by(3) };
            let expected = if ahead.usual.is_some() { (usual - 3).max(-20) } else { usual };
            assert_eq!(nice(), expected);
            drop(ahead);
            assert_eq!(nice(), usual);
            // Anyone may raise the nice value, so lowering it again shows whether that is allowed.
            setpriority_process(None, usual + 1).unwrap();
            (ahead_is_allowed(usual), IS_REFUSED.load(Ordering::Relaxed))
        });
        let (is_allowed, is_refused) = of_thread.join().unwrap();
        assert_eq!(is_refused, !is_allowed);
    }

    fn ahead_is_allowed(usual: i32) -> bool {
        setpriority_process(None, usual - 3).is_ok()
    }

    #[test]
    fn without_a_line_nothing_is_asked_of_the_system() {
        assert!(Ahead::go().usual.is_none());
    }
}
