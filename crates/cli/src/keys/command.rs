//! Keys that a command writes, such as a password manager.

use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};

use evener::keys::{KeyError, KeyFile};

use crate::signals::Signals;
use crate::trouble::Trouble;

/// The name of the key in errors.
pub(super) const NAME: &str = "what --key-command wrote";

/// Has `sh` run a command, and takes its standard output as a key file. The command reads no
/// standard input, which may be the data to encrypt; its standard error is shown. Neither the
/// command nor its output is part of an error.
pub(super) fn run(command: &OsStr, signals: &Signals) -> Result<KeyFile, Trouble> {
    let failed = |cause| Trouble::File { action: "run", path: "sh".into(), cause };
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped());
    let (read, status) = signals.with_child(&mut shell, take_output).map_err(failed)?;
    let status = status.map_err(failed)?;
    let file = read.ok_or_else(|| Trouble::usage("the key command has no output"))??;
    if !status.success() {
        return Err(Trouble::Usage(format!(
            "the key command failed ({status}); run it by hand to see why"
        )));
    }
    if file.is_empty() {
        return Err(Trouble::usage(
            "the key command wrote nothing; it is to write a key file to its standard output",
        ));
    }
    Ok(file)
}

/// Reads the key file, and waits for the command to end.
fn take_output(child: &mut Child) -> (Option<Result<KeyFile, KeyError>>, io::Result<ExitStatus>) {
    // The output is taken and closed, which ends a command that never stops writing.
    let read = child.stdout.take().map(|mut output| KeyFile::read_from(&mut output, NAME));
    if !matches!(read, Some(Ok(_))) {
        // The command may have ended.
        let _ = child.kill();
    }
    (read, child.wait())
}
