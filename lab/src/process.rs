//! Runs and measures programs.

use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::LabError;
use crate::peak::wait_with_peak;

/// Time and memory of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Wall time from before its start to after its end.
    pub(crate) wall: Duration,
    /// Peak resident set in KiB; of several processes, that of the largest.
    pub(crate) peak: u64,
}

/// Runs `command` to its end; its standard output is discarded.
///
/// # Errors
/// When it can't be started or fails; the error has the end of its standard error.
pub(crate) fn run(command: &mut Command) -> Result<Cost, LabError> {
    // A file, because a pipe would have to be read while the program runs.
    let complaints = tempfile::NamedTempFile::new()
        .map_err(LabError::file("create a file in", env::temp_dir()))?;
    let handle = complaints.reopen().map_err(LabError::file("open", complaints.path()))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(handle);
    let program = PathBuf::from(command.get_program());

    let start = Instant::now();
    let child =
        command.spawn().map_err(|source| LabError::Start { program: program.clone(), source })?;
    let (status, peak) = wait_with_peak(child).map_err(LabError::file("wait for", &program))?;
    let wall = start.elapsed();

    if status.success() {
        return Ok(Cost { wall, peak });
    }
    if status.signal() == Some(libc::SIGINT) || status.code() == Some(128 + libc::SIGINT) {
        return Err(LabError::Interrupted);
    }
    let message = fs::read_to_string(complaints.path()).unwrap_or_default();
    let message = message.trim().lines().last().unwrap_or("it said nothing").to_owned();
    Err(LabError::Failed { program: name(command), status, message })
}

/// Finds the program `evener`: the given one, the one beside the running program, or the one on the
/// PATH.
///
/// # Errors
/// When the running program can't be found.
pub(crate) fn evener(given: Option<&Path>) -> Result<PathBuf, LabError> {
    if let Some(program) = given {
        return Ok(program.to_owned());
    }
    let here = env::current_exe().map_err(LabError::file("find", "the running program"))?;
    let beside = here.with_file_name("evener");
    Ok(if beside.is_file() { beside } else { PathBuf::from("evener") })
}

/// The program and its first argument, for messages.
fn name(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let arguments = command.get_args().take(1);
    let words =
        std::iter::once(program).chain(arguments).map(|word| evener_core::shown(word).to_string());
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_a_cost() {
        let cost = run(&mut Command::new("true")).unwrap();
        assert!(cost.wall > Duration::ZERO);
    }

    #[test]
    fn failure_is_told_in_the_programs_words() {
        let error = run(Command::new("sh").args(["-c", "echo no room >&2; exit 7"])).unwrap_err();
        assert_eq!(error.to_string(), "sh -c failed (exit status: 7): no room");
        let error = run(&mut Command::new("/no/such/program")).unwrap_err();
        assert!(matches!(error, LabError::Start { .. }), "{error}");
    }

    #[test]
    fn an_interrupted_program_interrupts_the_benchmark() {
        // A shell starts background commands with the signal ignored, and whoever runs this test
        // may ignore it too.
        let mut killed = Command::new("env");
        killed.args(["--default-signal=INT", "sh", "-c", "kill -INT $$"]);
        let mut stopped = Command::new("sh");
        stopped.args(["-c", "exit 130"]);
        for mut command in [killed, stopped] {
            let error = run(&mut command).unwrap_err();
            assert!(matches!(error, LabError::Interrupted), "{error}");
        }
    }
}
