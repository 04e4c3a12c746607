//! Does work while another thread handles signals and reports progress.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use facade::Control;
use pyo3::prelude::*;

use crate::error::Trouble;

/// Runs `operation` on another thread, with the interpreter detached. At intervals and at the end,
/// this thread handles signals and calls `progress`. An exception in either stops the operation,
/// and is the result.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    control: &Arc<Control>,
    progress: Option<&Py<PyAny>>,
    operation: impl FnOnce() -> T + Send,
) -> Result<T, Trouble> {
    let mut raised = None;
    let mut look = || {
        if raised.is_some() {
            return;
        }
        let told = Python::attach(|py| {
            py.check_signals()?;
            tell(py, control, progress)
        });
        if let Err(error) = told {
            control.stop();
            raised = Some(error);
        }
    };
    let result = py.detach(|| {
        thread::scope(|scope| {
            // Dropping the sender is the signal, so that it is sent on a panic too.
            let (working, ended) = channel::<()>();
            let work = move || {
                let _working = working;
                operation()
            };
            let worker = thread::Builder::new().name("evener".to_owned());
            let worker = worker.spawn_scoped(scope, work)?;
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                look();
            }
            let result = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            look();
            Ok::<T, std::io::Error>(result)
        })
    });
    match raised {
        Some(error) => Err(error.into()),
        None => Ok(result.map_err(PyErr::from)?),
    }
}

fn tell(py: Python<'_>, control: &Control, progress: Option<&Py<PyAny>>) -> PyResult<()> {
    let Some(call) = progress else { return Ok(()) };
    let now = control.progress();
    // Files may grow after the total was measured.
    let grown = |(files, bytes)| (now.found_files.max(files), now.done_bytes.max(bytes));
    let (files, bytes) = control.total().map_or((now.found_files, 0), grown);
    call.call1(py, (now.done_files, now.done_bytes, files, bytes)).map(|_| ())
}

/// The time within which it notices a signal, more or less.
const INTERVAL: Duration = Duration::from_millis(50);
