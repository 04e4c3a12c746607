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

/// Whether there is somebody to watch a line.
pub(crate) fn is_watched(telling: &Telling) -> bool {
    !telling.json && !telling.quiet && io::stderr().is_terminal()
}

/// Does the work while a line on standard error shows how far it has come. `expected` is the
/// number of bytes to come where it is known beforehand; otherwise what was found so far counts.
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
        // Where there is no thread to be had, the work goes on without a line.
        let _ = thread::Builder::new().spawn_scoped(scope, draw);
        let result = work();
        drop(ended);
        result
    })
}

/// Makes room for a line in the place of the progress, if it is shown; it is drawn again below.
pub(crate) fn clear_bar() {
    let mut terminal = io::stderr().lock();
    if terminal.is_terminal() {
        // Where that can't be written to, nobody sees a bar either.
        let _ = terminal.write_all(CLEAR.as_bytes());
    }
}

/// Draws the line in the place of the one before. It fits the terminal as wide as it is now, and
/// the cursor never moves up: above are the lines of others.
fn show(line: &str) {
    let columns = tcgetwinsize(stderr()).map_or(80, |size| usize::from(size.ws_col));
    let mut terminal = io::stderr().lock();
    let _ = terminal.write_all(format!("{CLEAR}{}", fitting(line, columns)).as_bytes());
    let _ = terminal.flush();
}

/// As much of a line as fits, in ASCII. In the last column some terminals go on to the next line.
fn fitting(line: &str, columns: usize) -> &str {
    // A terminal that does not tell its width says 0.
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

/// To the line's beginning, and nothing in it.
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
