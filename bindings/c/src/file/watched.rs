//! Operations that report their progress.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use facade::{Control, Progress};

use crate::status::{Status, Trouble};

/// The progress of an operation. No number ever shrinks, and all are exact at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProgressFacts {
    /// `sizeof(evener_progress)` of the library's version, for the reader to compare.
    pub size: usize,
    /// Files found so far.
    pub found_files: u64,
    /// Their bytes, with `EVENER_FLAG_MEASURE_TOTAL`; else 0.
    pub found_bytes: u64,
    /// Files finished, failed or skipped so far.
    pub done_files: u64,
    /// Source bytes read so far.
    pub done_bytes: u64,
}

impl From<Progress> for ProgressFacts {
    fn from(progress: Progress) -> ProgressFacts {
        ProgressFacts {
            size: size_of::<ProgressFacts>(),
            found_files: progress.found_files,
            found_bytes: progress.found_bytes,
            done_files: progress.done_files,
            done_bytes: progress.done_bytes,
        }
    }
}

/// Runs `operation` on a separate thread. Calls `ask` on the caller's thread, as callbacks of other
/// languages need: before the operation, every `interval`, and at the end. When `ask` returns
/// false, stops the operation and calls it no more.
pub(crate) fn watched<T: Send>(
    control: &Arc<Control>,
    interval: Duration,
    mut ask: impl FnMut(&ProgressFacts) -> bool,
    operation: impl FnOnce() -> T + Send,
) -> Result<T, Trouble> {
    let mut goes_on = || {
        if !control.is_stopped() && !ask(&control.progress().into()) {
            control.stop();
        }
    };
    goes_on();
    thread::scope(|scope| {
        // Dropping the sender is the signal, so that it is sent on a panic too.
        let (working, ended) = channel::<()>();
        let worker = thread::Builder::new()
            .name("evener".to_owned())
            .spawn_scoped(scope, move || {
                let _working = working;
                operation()
            })
            .map_err(|error| {
                Trouble::new(Status::File, format!("can't start a thread: {error}"))
            })?;
        while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            goes_on();
        }
        let result = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        goes_on();
        Ok(result)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_first_and_last_and_stops_when_it_says_no() {
        let control = Arc::new(Control::default());
        let hour = Duration::from_secs(3600);
        let mut told = 0;
        let ask = |_: &ProgressFacts| {
            told += 1;
            true
        };
        assert_eq!(watched(&control, hour, ask, || 7).unwrap(), 7);
        assert_eq!((told, control.is_stopped()), (2, false));

        let mut told = 0;
        let ask = |_: &ProgressFacts| {
            told += 1;
            told < 3
        };
        let waiting = || {
            while !control.is_stopped() {
                thread::yield_now();
            }
        };
        watched(&control, Duration::from_millis(1), ask, waiting).unwrap();
        assert_eq!(told, 3);
    }
}
