//! The progress bar.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use evener::Control;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::options::Telling;

/// Whether there is somebody to watch a bar.
pub(crate) fn is_watched(telling: &Telling) -> bool {
    !telling.json && !telling.quiet && io::stderr().is_terminal()
}

/// Does the work while a bar on standard error shows how far it has come. `expected` is the
/// number of bytes to come where it is known beforehand; otherwise what was found so far counts.
pub(crate) fn watch<T>(control: &Control, expected: Option<u64>, work: impl FnOnce() -> T) -> T {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style.progress_chars("=> "));
    }
    let (ended, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let draw = || {
            let end = end;
            while end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                show(&bar, control, expected);
            }
            bar.finish_and_clear();
        };
        // Where there is no thread to be had, the work goes on without a bar.
        let _ = thread::Builder::new().spawn_scoped(scope, draw);
        let result = work();
        drop(ended);
        result
    })
}

/// Makes room for a line in the place of the bar, if there is one; it is drawn again below.
pub(crate) fn clear_bar() {
    let mut terminal = io::stderr().lock();
    if terminal.is_terminal() {
        // Where that can't be written to, nobody sees a bar either.
        let _ = write!(terminal, "\r\x1b[2K");
    }
}

fn show(bar: &ProgressBar, control: &Control, expected: Option<u64>) {
    let progress = control.progress();
    let total = expected.unwrap_or(progress.found_bytes).max(progress.done_bytes);
    bar.set_length(total);
    bar.set_position(progress.done_bytes);
    bar.set_message(if control.is_stopped() {
        "stopping".to_owned()
    } else {
        format!("{}/{} files", progress.done_files, progress.found_files)
    });
}

const TEMPLATE: &str =
    "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}, {eta} left";
const INTERVAL: Duration = Duration::from_millis(100);
