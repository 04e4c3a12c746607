//! Pipes, and ASCII armor, which has no chunks that could be read at random.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use facade::keys::age::is_armoured;
use facade::program::shown;
use facade::{FileError, Operation, SealedNames, StreamSource, StreamTarget};

use super::FileKeyHandle;
use super::options::{Flag, Wishes};
use crate::status::{Status, Trouble};

/// Returns whether an operation reads its source from beginning to end, as a pipe.
///
/// # Errors
/// When the flag for ASCII armor is set where nothing can be armored.
pub(crate) fn is_piped(
    operation: Operation,
    key: &FileKeyHandle,
    wishes: &Wishes<'_>,
    source: &Path,
) -> Result<bool, Trouble> {
    let Ok(metadata) = fs::metadata(source) else { return Ok(false) };
    let encrypts = operation == Operation::Encrypt;
    if encrypts && wishes.has(Flag::Armor) {
        return match key.is_of_age() && !metadata.is_dir() {
            true => Ok(true),
            false => Err(Trouble::argument("only single files of age are armored")),
        };
    }
    if !metadata.is_file() {
        return Ok(!metadata.is_dir());
    }
    Ok(!encrypts && key.is_of_age() && begins_with_armor(source))
}

/// The two ends of a pipe. A target that is a directory gets a file with the usual name.
pub(crate) fn ends<'a>(
    operation: Operation,
    names: &SealedNames,
    source: &Path,
    target: Option<&Path>,
) -> Result<(StreamSource<'a>, StreamTarget<'a>), Trouble> {
    let to = match target {
        None => StreamTarget::Nowhere,
        Some(target) if target.is_dir() => {
            let name = output(operation, names, source);
            let name = name.map_err(|error| {
                Trouble::new(Status::File, format!("{}: {error}", shown(source)))
            })?;
            StreamTarget::File(target.join(name))
        }
        Some(target) => StreamTarget::File(target.to_owned()),
    };
    Ok((StreamSource::File(source.to_owned()), to))
}

fn output(operation: Operation, names: &SealedNames, source: &Path) -> Result<PathBuf, FileError> {
    let name = source.file_name().unwrap_or_default();
    Ok(match operation {
        Operation::Encrypt => names.seal(name).into(),
        Operation::Decrypt | Operation::Verify => names.open(name)?.into(),
    })
}

fn begins_with_armor(path: &Path) -> bool {
    let mut begins = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut begins));
    read.is_ok() && is_armoured(&begins)
}

/// The number of bytes that show whether a file is armored.
const BEGINNING: u64 = 72;
