//! The progress line.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use evener::Control;
use rustix::stdio::stderr;
use rustix::termios::tcgetwinsize;

use crate::options::Telling;
use crate::summary::size;

/// Whether to show a progress line.
pub(crate) fn is_watched(telling: &Telling) -> bool {
    !telling.json && !telling.quiet && io::stderr().is_terminal()
}

/// Does the work and shows its progress in a line on standard error. `expected` is the total number
/// of bytes, if known; otherwise the bytes found so far count.
pub(crate) fn watch<T>(control: &Control, expected: Option<u64>, work: impl FnOnce() -> T) -> T {
    let (ended, end) = mpsc::channel::<()>();
    let begun = Instant::now();
    thread::scope(|scope| {
        let draw = || {
            let end = end;
            while end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // Somebody reads a question there.
                if !control.is_asking() {
                    show(&line(control, expected, begun.elapsed()));
                }
            }
            clear_bar();
        };
        // If no thread can be started, the work runs without a line.
        let _ = thread::Builder::new().spawn_scoped(scope, draw);
        let result = work();
        drop(ended);
        result
    })
}

/// Clears the progress line for a message; it is drawn again below.
pub(crate) fn clear_bar() {
    let mut terminal = io::stderr().lock();
    if terminal.is_terminal() {
        // If this fails, the line is not visible either.
        let _ = terminal.write_all(CLEAR.as_bytes());
    }
}

/// Replaces the line. It fits the present width of the terminal, and the cursor never moves up into
/// other lines.
fn show(line: &str) {
    let columns = tcgetwinsize(stderr()).map_or(80, |size| usize::from(size.ws_col));
    let mut terminal = io::stderr().lock();
    let _ = terminal.write_all(format!("{CLEAR}{}", fitting(line, columns)).as_bytes());
    let _ = terminal.flush();
}

/// The part of a line (in ASCII) that fits. Some terminals wrap after the last column, so it stays
/// empty.
fn fitting(line: &str, columns: usize) -> &str {
    // The width is 0 if the terminal does not report it.
    let columns = if columns == 0 { 80 } else { columns };
    line.get(..line.len().min(columns - 1)).unwrap_or_default()
}

/// `3/40 files [====>     ] 1.2 GiB/4.0 GiB 300.0 MiB/s, 9 s left`
fn line(control: &Control, expected: Option<u64>, elapsed: Duration) -> String {
    let progress = control.progress();
    let done = progress.done_bytes as f64;
    let total = (expected.unwrap_or(progress.found_bytes) as f64).max(done);
    let share = if total > 0.0 { done / total } else { 0.0 };
    let filled = (share * BAR as f64) as usize;
    let arrow = format!("{}>", "=".repeat(filled.min(BAR).saturating_sub(1)));
    let rate = done / elapsed.as_secs_f64().max(1e-9);
    let what = if control.is_stopped() {
        "stopping".to_owned()
    } else {
        format!("{}/{} files", progress.done_files, progress.found_files)
    };
    let (done_size, total_size, rate_size) = (size(done), size(total), size(rate));
    let mut line = format!("{what} [{arrow:BAR$}] {done_size}/{total_size} {rate_size}/s");
    if rate > 0.0 {
        line.push_str(&format!(", {:.0} s left", (total - done) / rate));
    }
    line
}

/// Moves to the beginning of the line and clears it.
const CLEAR: &str = "\r\x1b[2K";
/// How wide the bar is.
const BAR: usize = 30;
const INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_whatever_terminal_there_is() {
        let control = Control::default();
        let line = line(&control, Some(100), Duration::from_secs(1));
        let expected = format!("0/0 files [>{}] 0 B/100 B 0 B/s", " ".repeat(29));
        assert_eq!(line, expected);
        assert!(line.is_ascii());
        assert_eq!(fitting(&line, 12), "0/0 files [");
        assert_eq!(fitting(&line, 1), "");
        assert_eq!(fitting(&line, 0), &line[..]);
        assert_eq!(fitting(&line, 500), &line[..]);
    }
}
