//! Names the option that helps with an error of the library, whose errors name none.

use std::fmt::{self, Display};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use evener::format::{FormatError, Guess, recognise};
use evener::keys::faults::PassphraseFault;
use evener::keys::{KeyError, MalformedKey};
use evener::place::Fault;
use evener::{Failure, FileError, Refusal};
use rustix::io::Errno;

/// The options about the format of the files that were given: no hint names them again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given {
    /// `--format openssl`.
    pub(crate) openssl: bool,
    /// `--base64` or `--one-line`.
    pub(crate) base64: bool,
    /// `--sealed`.
    pub(crate) seals: bool,
    /// `--quick`.
    pub(crate) only_looks: bool,
    /// `rekey` of plain files.
    pub(crate) rekeys: bool,
    /// `job run`.
    pub(crate) takes_shards: bool,
}

/// Describes a failed file in a line, with a hint.
pub(crate) fn line(failure: &Failure, given: Given) -> String {
    let hint = match &failure.error {
        FileError::Format(_) => of_kind(&failure.path, given),
        FileError::Refused(Refusal::NotFound { .. }) if is_glob(&failure.path) => {
            "; --only takes no patterns: --include does"
        }
        _ => "",
    };
    format!("{}: {}{hint}", evener::program::shown(&failure.path), of_file(&failure.error))
}

/// Says how to read a file of an unexpected format, if its beginning identifies the format.
fn of_kind(path: &Path, given: Given) -> &'static str {
    match guess(path) {
        Some(Guess::OpensslEnc) if !given.openssl => {
            "; it begins as files of `openssl enc` do (--format openssl)"
        }
        Some(Guess::OpensslBase64) if !given.openssl => {
            "; it begins as base64 of `openssl enc` does (--format openssl --base64)"
        }
        Some(Guess::OpensslBase64) if !given.base64 => {
            "; it begins as base64 of `openssl enc` does (--base64)"
        }
        Some(Guess::Pipe) => "; it begins with a wrapped key (-i or --passphrase opens it)",
        _ => "",
    }
}

/// Returns whether a path is one only as a pattern.
fn is_glob(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[{".contains(byte))
}

/// Guesses the format of a file from its beginning; `None` if it is no file or can't be read.
pub(crate) fn guess(path: &Path) -> Option<Guess> {
    beginning(path).map(|begins| recognise(&begins))
}

/// Returns whether a file is age's own, in ASCII armour.
pub(crate) fn is_armoured(path: &Path) -> bool {
    beginning(path).is_some_and(|begins| evener::keys::age::is_armoured(&begins))
}

/// The first bytes of a file; `None` if it is no file or can't be read.
fn beginning(path: &Path) -> Option<Vec<u8>> {
    let mut begins = Vec::new();
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    File::open(path).ok()?.take(BEGINNING).read_to_end(&mut begins).ok()?;
    Some(begins)
}

/// The number of bytes that a guess takes.
const BEGINNING: u64 = 72;

/// An error of a file, with a hint.
pub(crate) fn of_file(error: &FileError) -> impl Display {
    let hint = match error {
        FileError::Exists(_) | FileError::Place(Fault::Exists(_)) => {
            "; --overwrite replaces it, --resume skips what is complete"
        }
        FileError::Taken(_)
        | FileError::Differs { .. }
        | FileError::OtherKey(_)
        | FileError::Newer(_) => "; --overwrite replaces it",
        FileError::Format(FormatError::OtherRecipients | FormatError::IdentityNeeded) => " (`-i`)",
        FileError::Format(FormatError::PassphraseNeeded) => {
            " (`--passphrase`, `--passphrase-file` or `--passphrase-fd`)"
        }
        FileError::Refused(Refusal::OutputUnopened(_)) => " (`-i`)",
        FileError::Refused(Refusal::TwoFormats { .. }) => ", or leave one out (--exclude)",
        FileError::Refused(Refusal::OtherFormat) => " (see --format, --identity and --exclude)",
        FileError::NoText => ", or add --force to show it all the same",
        FileError::StoredChanging => " (--skip-changing leaves such files out)",
        FileError::Exposed { .. } => ", or write there all the same with --insecure-modes",
        FileError::Unmounted | FileError::PerhapsUnmounted | FileError::OtherSource => {
            "; mount what belongs there or, if nothing does, give --delete-unmounted"
        }
        FileError::Suffix(_) | FileError::Refused(Refusal::NameOfWrappedKey) => " (see --suffix)",
        FileError::System { action, errno } | FileError::Output { action, errno, .. }
            if is_refused(errno.number()) =>
        {
            match *action {
                "set its owner" => "; only root gives files to other users: leave --owner out",
                "copy its extended attributes" => "; leave --xattrs out",
                _ => "",
            }
        }
        FileError::System { errno, .. } | FileError::Output { errno, .. }
            if errno.number() == Errno::SPIPE.raw_os_error() =>
        {
            "; this file system accepts only sequential writes: use -j 1"
        }
        FileError::System { errno, .. } | FileError::Output { errno, .. }
            if errno.number() == Errno::MFILE.raw_os_error() =>
        {
            "; `ulimit -n` allows more"
        }
        FileError::System { action, errno } | FileError::Output { action, errno, .. }
            if errno.number() == Errno::NOSPC.raw_os_error() && !action.starts_with("write") =>
        {
            " (or no names: `df -i` shows whether its inodes are used up)"
        }
        FileError::NotBase64 => "; without --base64 a binary file is read",
        FileError::Memory { needed } => {
            return Hinted(
                error.to_string(),
                format!("; allow them with --memory {}M", needed.div_ceil(1 << 20)),
            );
        }
        _ => "",
    };
    Hinted(error.to_string(), hint.to_owned())
}

/// Returns whether the error means that this user, or this file system, may not do such a thing.
fn is_refused(number: i32) -> bool {
    // In a container, EINVAL is returned for users that it does not have.
    let refusals = [Errno::PERM, Errno::INVAL, Errno::NOTSUP, Errno::NOSYS];
    refusals.iter().any(|errno| errno.raw_os_error() == number)
}

/// An error of a key, with a hint.
pub(crate) fn of_key(error: &KeyError) -> String {
    let hint = match error {
        KeyError::OfAge { .. } => " (`-i`, `--passphrase`)",
        KeyError::IdentityNeeded { .. } | KeyError::WrongIdentity { .. } => " (`-i`)",
        KeyError::PassphraseNeeded { .. } => {
            " (`--passphrase`, `--passphrase-file` or `--passphrase-fd`)"
        }
        KeyError::Passphrase { fault: PassphraseFault::NoTerminal, .. } => {
            "; give --passphrase-file or --passphrase-fd"
        }
        KeyError::OpenToOthers { has_mode_of_mount: true, .. }
        | KeyError::WritableByOthers { has_mode_of_mount: true, .. } => {
            ", or take it all the same with --insecure-key-file"
        }
        KeyError::NoRecipients => " (`-r`)",
        KeyError::PassphraseMemory { .. } => " (`-i` and `-r`)",
        KeyError::Malformed { reason: MalformedKey::AgeIdentity, .. } => " (`-i`)",
        KeyError::Malformed { reason: MalformedKey::KeyType { .. }, .. } => " (`--format tink`)",
        KeyError::PipeHead { .. } => " (`--key` takes one)",
        _ => "",
    };
    format!("{error}{hint}")
}

/// An error and what to do about it.
struct Hinted(String, String);

impl Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_follow_the_error() {
        let words = |error| of_file(&error).to_string();
        assert_eq!(
            words(FileError::Taken("a".into())),
            "the output `a` exists; --overwrite replaces it"
        );
        assert_eq!(
            words(FileError::Memory { needed: (1 << 20) + 1 }),
            "the buffers for one chunk take 1048577 bytes; allow them with --memory 2M"
        );
        assert_eq!(words(FileError::Changed), FileError::Changed.to_string());
        let text = of_key(&KeyError::NoRecipients);
        assert_eq!(text, "no recipient given; give at least one (`-r`)");
    }
}
