//! Progress for programs: one JSON object per line, for `--json-progress`.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use evener::program::{shown_error, shown_json};
use evener::{Failure, FileOutcome, Report};
use evener_cli::streams::output;
use evener_core::IgnorePoison;
use serde::Serialize;

use super::gauge::Reading;
use crate::ends::Place;
use crate::options::Telling;
use crate::route::Route;
use crate::trouble::{Trouble, complain, shown};

/// The destination of the lines.
pub(super) struct Lines {
    file: Mutex<File>,
    is_stderr: bool,
    place: PathBuf,
    /// The error if a line could not be written.
    trouble: OnceLock<io::Error>,
}

/// A line that reports the progress of the operation.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    seconds: f64,
    files: u64,
    files_total: Option<u64>,
    bytes: u64,
    bytes_total: Option<u64>,
    bytes_per_second: f64,
    seconds_left: Option<f64>,
    engines: BTreeMap<&'a str, u64>,
    stopping: bool,
    #[serde(flatten)]
    end: Option<End>,
}

/// The fields that only the last line has.
#[derive(Serialize)]
struct End {
    interrupted: bool,
    failures: u64,
}

/// A line about a file.
#[derive(Serialize)]
struct FileLine<'a> {
    event: &'static str,
    outcome: &'static str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

impl Lines {
    /// Opens `place`, or standard error if it is empty. Existing content stays before the lines.
    pub(super) fn open(place: &Path, route: &Route, telling: &Telling) -> Result<Lines, Trouble> {
        let is_stderr = place.as_os_str().is_empty();
        let is_stdout = matches!(Place::of_target(place.into()), Place::Pipe);
        let failed =
            |cause| Trouble::File { action: "write progress to", path: place.to_owned(), cause };
        let own = |descriptor: io::Result<OwnedFd>| descriptor.map(File::from).map_err(failed);
        let mut is_new = false;
        let file = if is_stderr {
            own(io::stderr().as_fd().try_clone_to_owned())?
        } else if is_stdout {
            own(output().try_clone_to_owned())?
        } else {
            let planted = |error| Failure { path: place.to_owned(), error };
            evener::program::refuse_planted(place).map_err(planted)?;
            refuse_other_content(place)?;
            is_new = fs::symlink_metadata(place).is_err();
            File::options().append(true).create(true).open(place).map_err(failed)?
        };
        let is_busy = telling.json && (is_stdout || !is_stderr && is_output(&file));
        if is_busy || has_data(&file, route) {
            if is_new {
                // The file was made in vain.
                let _ = fs::remove_file(place);
            }
            return Err(Trouble::usage(
                "--json-progress would mix with the data or the report; give it a file or a \
                 descriptor of its own, such as --json-progress=/dev/fd/3",
            ));
        }
        let (place, trouble) = (place.to_owned(), OnceLock::new());
        Ok(Lines { file: Mutex::new(file), is_stderr, place, trouble })
    }

    /// The file that was opened; `None` if lines go to a descriptor of the program.
    pub(super) fn file(&self) -> Option<&Path> {
        let is_file = !self.is_stderr && Place::of_target((&*self.place).into()) != Place::Pipe;
        is_file.then_some(&*self.place)
    }

    pub(super) fn are_on_stderr(&self) -> bool {
        self.is_stderr
    }

    pub(super) fn tell(&self, reading: &Reading) {
        self.write(&line("progress", reading, None));
    }

    pub(super) fn tell_end(&self, reading: &Reading, result: Result<&Report, &Failure>) {
        let (interrupted, failures) = match result {
            Ok(report) => (report.interrupted, report.failures.len() as u64),
            Err(_) => (false, 1),
        };
        self.write(&line("end", reading, Some(End { interrupted, failures })));
        if let Some(cause) = self.trouble.get() {
            let place = shown(&self.place);
            complain(&format_args!(
                "{place}: progress could not be written: {}",
                shown_error(cause)
            ));
        }
    }

    pub(super) fn tell_of_file(&self, path: &Path, outcome: FileOutcome) {
        let outcome = match outcome {
            FileOutcome::Done => "done",
            FileOutcome::Updated => "updated",
            FileOutcome::Skipped => "skipped",
            FileOutcome::Unchanged => "unchanged",
            FileOutcome::Linked => "linked",
            FileOutcome::Deleted => "deleted",
            _ => return,
        };
        let bytes = path.as_os_str().as_bytes();
        let digits = || bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.write(&FileLine {
            event: "file",
            outcome,
            path: &path.to_string_lossy(),
            path_hex: path.to_str().is_none().then(digits),
        });
    }

    /// Writes a line in one piece. If that fails, the operation continues; the end reports it,
    /// unless the reader has gone.
    fn write(&self, line: &impl Serialize) {
        let Ok(text) = serde_json::to_string(line) else { return };
        let mut text = shown_json(&text);
        text.push('\n');
        if let Err(cause) = self.file.lock().ignore_poison().write_all(text.as_bytes())
            && cause.kind() != io::ErrorKind::BrokenPipe
        {
            let _ = self.trouble.set(cause);
        }
    }
}

fn line<'a>(event: &'static str, reading: &'a Reading, end: Option<End>) -> Line<'a> {
    // At the end no time is left, however much was done.
    let left = reading.left.filter(|_| end.is_none());
    let rounded = |number: f64| (number * 1e3).round() / 1e3;
    Line {
        event,
        seconds: rounded(reading.elapsed.as_secs_f64()),
        files: reading.files,
        files_total: reading.total.map(|total| total.files),
        bytes: reading.bytes,
        bytes_total: reading.total.map(|total| total.bytes),
        bytes_per_second: reading.rate.round(),
        seconds_left: left.map(|left| rounded(left.as_secs_f64())),
        engines: reading.engines.iter().map(|(name, bytes)| (&**name, *bytes)).collect(),
        stopping: reading.is_stopped,
        end,
    }
}

/// Refuses a file with anything but such lines: an addition could make a key or an encrypted file
/// useless. A descriptor is accepted, because it was opened for them.
fn refuse_other_content(place: &Path) -> Result<(), Trouble> {
    let is_descriptor = ["/dev/fd", "/proc/self/fd"].iter().any(|fds| place.starts_with(fds));
    let is_file = fs::metadata(place).is_ok_and(|found| found.is_file() && found.len() > 0);
    if is_descriptor || !is_file {
        return Ok(());
    }
    let mut begins = [0; BEGINNING.len()];
    let read = File::open(place).and_then(|mut file| file.read_exact(&mut begins));
    match read {
        Ok(()) if begins == *BEGINNING => Ok(()),
        _ => Err(Trouble::Usage(format!(
            "{}: it holds something else than lines of --json-progress, to which they would be \
             added; name a new file",
            shown(place)
        ))),
    }
}

/// Returns whether some of the data comes from or goes to this file. Output to devices never mixes,
/// except on terminals, where it is visible.
fn has_data(file: &File, route: &Route) -> bool {
    let Ok(lines) = file.metadata() else { return false };
    let is_there = |data: Metadata| (data.dev(), data.ino()) == (lines.dev(), lines.ino());
    let goes_there = |target: &Place| match target {
        Place::Pipe => is_output(file),
        Place::Objects(_) => false,
        Place::Path(path) => fs::metadata(path).is_ok_and(is_there),
    };
    let comes_from = |source: &Place| match source {
        Place::Pipe | Place::Objects(_) => false,
        Place::Path(path) => fs::metadata(path).is_ok_and(is_there),
    };
    !lines.file_type().is_char_device()
        && route
            .ends
            .iter()
            .any(|ends| ends.target.as_ref().is_some_and(goes_there) || comes_from(&ends.source))
}

/// Returns whether a file is the program's standard output and not a terminal.
fn is_output(file: &File) -> bool {
    let output = output().try_clone_to_owned().and_then(|output| File::from(output).metadata());
    let (Ok(file), Ok(output)) = (file.metadata(), output) else { return false };
    let identity = |data: &Metadata| (data.dev(), data.ino());
    !file.file_type().is_char_device() && identity(&file) == identity(&output)
}

/// The beginning of a line.
const BEGINNING: &[u8; 10] = b"{\"event\":\"";
