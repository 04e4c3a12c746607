//! Files that are written completely or not at all, and that everyone can read.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use evener::Failure;
use tempfile::NamedTempFile;

use crate::trouble::Trouble;

/// Makes a file, which must not exist yet. Anything but a file, such as a pipe, is written to.
pub(crate) fn make(path: &Path, text: &str) -> Result<(), Trouble> {
    refuse_planted(path)?;
    let made = if is_no_file(path) {
        fs::write(path, text)
    } else {
        beside(path, text)
            .and_then(|file| file.persist_noclobber(path).map_err(|error| error.error))
            .map(drop)
    };
    made.map_err(|cause| failed(path, cause))
}

/// Makes a file, or replaces an existing one. Anything but a file, such as a pipe, is written to.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), Trouble> {
    refuse_planted(path)?;
    write_over(path, text).map_err(|cause| failed(path, cause))
}

/// Refuses `-` as a command's output; without a name, the output goes to standard output.
pub(crate) fn refuse_dash(command: &str, output: Option<&Path>) -> Result<(), Trouble> {
    match output {
        Some(path) if path == Path::new("-") => Err(Trouble::Usage(format!(
            "{command} takes no `-`: leave --output out for standard output, or give ./- for a file of that name"
        ))),
        _ => Ok(()),
    }
}

/// Refuses a file that another user has put into a directory such as /tmp.
pub(crate) fn refuse_planted(path: &Path) -> Result<(), Trouble> {
    let planted = |error| Failure { path: path.to_owned(), error };
    Ok(evener::program::refuse_planted(path).map_err(planted)?)
}

fn failed(path: &Path, cause: io::Error) -> Trouble {
    Trouble::File { action: "write", path: path.to_owned(), cause }
}

fn write_over(path: &Path, text: &str) -> io::Result<()> {
    if is_no_file(path) {
        return fs::write(path, text);
    }
    // A link's target is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    beside(&path, text)?.persist(&path).map(drop).map_err(|error| error.error)
}

fn is_no_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file())
}

/// Writes the text to a file with a temporary name in the same directory.
fn beside(path: &Path, text: &str) -> io::Result<NamedTempFile> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file = NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    Ok(file)
}
