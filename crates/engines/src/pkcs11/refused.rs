//! PINs in files that a token has refused.
//!
//! A token locks itself after some wrong PINs, often three. A script whose PIN file is wrong would
//! lock it in as many runs. So a note of the file is kept in the user's state directory from before
//! the PIN is tried until the token has accepted it. With a note, the PIN is not tried again until
//! the file changes or [`forget_refused_pins`] is called. The note identifies the file, and
//! contains nothing of the PIN.

use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use evener_core::{shown, shown_error};

/// A PIN file in its current state, and the token that it is for.
pub(super) struct PinFile {
    path: PathBuf,
    /// The path of the note; `None` if the user has no state directory.
    note: Option<PathBuf>,
    /// The text of the note.
    text: String,
}

impl PinFile {
    /// `None` if the path is not a regular file: nobody knows if a pipe has changed.
    pub(super) fn of(path: &Path, token: &str) -> Option<PinFile> {
        PinFile::below(directory(), path, token)
    }

    fn below(directory: Option<PathBuf>, path: &Path, token: &str) -> Option<PinFile> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        // The file may be named in several ways.
        let mut name = DefaultHasher::new();
        (metadata.dev(), metadata.ino(), token).hash(&mut name);
        let note = directory.map(|directory| directory.join(format!("{:016x}", name.finish())));
        let text = format!(
            "{token} {} {} {} {}.{} {}.{}",
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        );
        Some(PinFile { path: path.to_owned(), note, text })
    }

    /// Fails if the token has refused the PIN of this file, which has not changed since, or if the
    /// process that tried it ended before it knew.
    pub(super) fn check(&self) -> Result<(), String> {
        let note = self.note.as_ref().and_then(|note| fs::read_to_string(note).ok());
        let process = match note.as_deref().and_then(|note| note.strip_prefix(&self.text)) {
            None => return Ok(()),
            Some(rest) => rest.trim(),
        };
        // A process that is trying it now will know.
        if !process.is_empty() && Path::new("/proc").join(process).exists() {
            return Ok(());
        }
        Err(format!(
            "the PIN in {} was refused by the token earlier, or the process that tried it was ended, and \
             the file has not changed since; put the right PIN in the file, or use --retry-pin to try this \
             one again",
            shown(&self.path)
        ))
    }

    /// Notes that this process is trying the PIN. It counts as being tried until the result is
    /// dropped.
    pub(super) fn note_try(&self) -> Trying {
        TRYING.fetch_add(1, Ordering::SeqCst);
        // If that fails, the message about a refusal includes it.
        let _ = self.keep(&format!(" {}", std::process::id()));
        Trying(())
    }

    /// Notes that the token has refused the PIN. Returns a message if that failed.
    pub(super) fn note_refusal(&self) -> Option<String> {
        self.keep("").err().map(|error| {
            let error = shown_error(&error);
            format!("no note of it could be kept, so the next run tries it again: {error}")
        })
    }

    fn keep(&self, process: &str) -> io::Result<()> {
        match &self.note {
            Some(note) => keep(note, &format!("{}{process}\n", self.text)),
            None => Err(io::Error::other("neither XDG_STATE_HOME nor HOME is set")),
        }
    }

    /// Removes the note, because the token has accepted the PIN or has not checked it.
    pub(super) fn forget(&self) {
        if let Some(note) = &self.note {
            // There is seldom a note.
            let _ = fs::remove_file(note);
        }
    }
}

/// The number of PINs that are being tried.
static TRYING: AtomicUsize = AtomicUsize::new(0);

/// A PIN that is being tried.
pub(super) struct Trying(());

impl Drop for Trying {
    fn drop(&mut self) {
        TRYING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until no PIN is being tried, but not long enough for people to notice. A process that ends
/// meanwhile leaves a note that stops later ones. A signal handler may call this: it takes no lock
/// and allocates no memory.
pub fn await_logins() {
    for _ in 0..LONGEST_LOGIN {
        if TRYING.load(Ordering::SeqCst) == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The longest wait, in milliseconds.
const LONGEST_LOGIN: u32 = 150;

/// Lets PINs that tokens have refused be tried again, from all of the user's PIN files.
///
/// # Errors
/// When their notes can't be removed.
pub fn forget_refused_pins() -> io::Result<()> {
    let Some(directory) = directory() else { return Ok(()) };
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn keep(note: &Path, text: &str) -> io::Result<()> {
    let directory = note.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.persist(note).map(|_: File| ()).map_err(|error| error.error)
}

/// The notes' directory: `evener/refused-pins` in `XDG_STATE_HOME`, or in `.local/state` of the home
/// directory. `None` where there is neither.
fn directory() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local").join("state")))?;
    Some(state.join("evener").join("refused-pins"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_refused_until_its_file_changes() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("pin");
        fs::write(&path, "1234\n").unwrap();
        let notes = home.path().join("state/refused-pins");
        let now = || PinFile::below(Some(notes.clone()), &path, "token `a`").unwrap();
        let file = now();
        assert!(file.check().is_ok());
        // Other processes may try it while this one does.
        file.note_try();
        assert!(now().check().is_ok());
        // A process that was killed meanwhile.
        file.keep(" 4194305").unwrap();
        assert!(now().check().is_err());
        assert_eq!(file.note_refusal(), None);
        let other_name = home.path().join("link");
        std::os::unix::fs::symlink(&path, &other_name).unwrap();
        let by_link = PinFile::below(Some(notes.clone()), &other_name, "token `a`").unwrap();
        assert!(by_link.check().is_err());
        let words = now().check().unwrap_err();
        assert!(words.contains("--retry-pin") && !words.contains("1234"), "{words}");
        assert!(PinFile::below(Some(notes.clone()), &path, "token `b`").unwrap().check().is_ok());
        for note in fs::read_dir(&notes).unwrap() {
            assert!(!fs::read_to_string(note.unwrap().path()).unwrap().contains("1234"));
        }
        fs::write(&path, "12345\n").unwrap();
        assert!(now().check().is_ok());
        now().note_refusal();
        now().forget();
        assert!(now().check().is_ok());
    }

    #[test]
    fn where_no_note_can_be_kept_the_next_run_tries_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("pin");
        fs::write(&path, "1234\n").unwrap();
        for directory in [None, Some(path.clone())] {
            let file = PinFile::below(directory, &path, "token").unwrap();
            assert!(file.note_refusal().unwrap().contains("the next run tries it again"));
            assert!(file.check().is_ok());
        }
        assert!(PinFile::of(home.path(), "token").is_none());
    }
}
