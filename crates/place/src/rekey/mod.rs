//! Seals the files of a plain encrypted tree anew under another key, each in its own place.
//!
//! It is a transfer from the tree, decrypted, into the tree itself. A file that the new key opens
//! needs nothing more, so an interrupted run goes on where it ended, and at every moment each file
//! is whole, under the old key or the new one.

mod links;
mod opened;
mod origin;
mod store;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use evener_core::{Direction, Engine};
use evener_format::Recipe;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

use self::origin::Old;
use self::store::InPlace;
use crate::place::{Blob, Entry, Kind, Local, NewObject, Origin, Store, transfer};
use crate::{
    Control, Failure, Fault, FileError, FileOutcome, KeyRing, Name, Operation, OperationError,
    Protected, Refusal, Report, RunSettings, SealedNames, Settled, TransferOptions, TreeOptions,
    contradictions,
};

/// How files are sealed anew.
#[derive(Clone, Debug, Default)]
pub struct RekeyOptions {
    /// The names of encrypted files. Files of other names are sealed anew too if an old key opens
    /// them; otherwise they are left out.
    pub names: SealedNames,
    /// Take nothing below a directory on another file system than the tree's root.
    pub one_file_system: bool,
    /// Files that are left alone, such as keys.
    pub protected: Protected,
    /// For a single file: what comes before its content.
    pub heads: Heads,
    /// Report what would be done and write nothing.
    pub dry_run: bool,
}

/// The bytes before the content of a file that was a pipe: the wrapped key, as
/// [`PipeHead`](evener_keys::PipeHead) makes it.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    /// The length of the old head, in bytes.
    pub old: u64,
    /// The new head.
    pub new: Vec<u8>,
}

/// Seals the files of a plain encrypted tree anew, or a single file: what a key of `old` opens is
/// decrypted, authenticated and encrypted with the primary key of `new`. The result replaces the
/// file when it is whole and on stable storage, with the same mode, times, owner and extended
/// attributes. Files that `new` opens are skipped. Symbolic links stay, and hard links are made anew.
///
/// The report counts as `files` those that were sealed anew, and as `files_skipped` those that the
/// new key had opened before.
///
/// # Errors
/// [`OperationError::Incomplete`] when files failed, which are as they were; all others are done.
/// [`OperationError::NotBegun`] when the operation could not begin.
pub fn rekey(
    path: &Path,
    old: &KeyRing,
    new: &KeyRing,
    run: &RunSettings,
    options: &RekeyOptions,
) -> Result<Report, OperationError> {
    let place = Place::find(path, options);
    let place = place.map_err(|error| Failure { path: path.to_owned(), error })?;
    perform(&place, (old, new), run, options)
}

/// As [`rekey`], for the objects of a store that has no directories, or for `only` one of them. A
/// new object takes the place of the version that was read, and of no other.
///
/// # Errors
/// Those of [`rekey`].
pub fn rekey_objects(
    store: &dyn Store,
    only: Option<&Name>,
    (old, new): (&KeyRing, &KeyRing),
    run: &RunSettings,
    options: &RekeyOptions,
) -> Result<Report, OperationError> {
    let path = &*store.label();
    let place = Place { path, held: Held::Given(store), only: only.cloned() };
    perform(&place, (old, new), run, options)
}

fn perform(
    place: &Place<'_>,
    (old, new): (&KeyRing, &KeyRing),
    run: &RunSettings,
    options: &RekeyOptions,
) -> Result<Report, OperationError> {
    let fail = |error| Failure { path: place.path.to_owned(), error };
    contradictions::in_run(run).map_err(fail)?;
    if [old, new].iter().any(|ring| !ring.primary().cipher().is_authenticated()) {
        return Err(fail(refused(NOT_AUTHENTIC)).into());
    }
    let engine = engine(run, old).map_err(fail)?;
    let origin = Old::new(place, (old, new), options, engine);
    let mut report = match options.dry_run {
        true => plan(place, &origin, new, run),
        false => place.seal(&origin, new, run, options)?,
    };
    report.failures.iter_mut().for_each(|failure| {
        if let Some(error) = origin.error_of(&failure.path) {
            failure.error = error;
        }
        failure.path = place.shown(&failure.path);
    });
    report.notices.iter_mut().for_each(|notice| notice.path = place.shown(&notice.path));
    report.doubtful.iter_mut().for_each(|doubt| doubt.path = place.shown(&doubt.path));
    report.into_result()
}

/// Replaces the first bytes of a file, which are `old`, and copies the rest. The result replaces the
/// file when it is whole and on stable storage, with the same mode, times, owner and extended
/// attributes. Returns the length of the rest in bytes, which `control` counts.
///
/// # Errors
/// When the file can't be read or written, or changes meanwhile; it is as it was.
pub fn replace_head(
    path: &Path,
    old: &[u8],
    new: &[u8],
    control: &Control,
) -> Result<u64, Failure> {
    let replace = || {
        let place = Place::find(path, &RekeyOptions::default())?;
        let name = place.only.as_ref().ok_or(Refusal::NeitherFileNorTree)?;
        let mut begins = vec![0; old.len()];
        let (blob, read) = place.open(name, &mut begins)?;
        if begins[..read] != *old {
            return Err(FileError::Changed);
        }
        let old = old.len() as u64;
        let length = blob.length() - old;
        control.tell_total(1, length);
        let metadata = blob.metadata().cloned().unwrap_or_default();
        let longest = length + new.len() as u64;
        let object = NewObject { replaces: true, longest, ..NewObject::new(name, &metadata) };
        let mut draft = place.store().begin(&object)?;
        draft.write_at(new, 0)?;
        let mut buffer = vec![0; length.min(COPIED_AT_ONCE) as usize];
        let mut at = 0;
        while at < length {
            if control.is_stopped() {
                return Err(FileError::Interrupted);
            }
            let bytes = &mut buffer[..(length - at).min(COPIED_AT_ONCE) as usize];
            blob.read_at(bytes, old + at)?;
            draft.write_at(bytes, new.len() as u64 + at)?;
            at += bytes.len() as u64;
            control.done_bytes(bytes.len() as u64);
        }
        blob.check()?;
        draft.publish(&[])?;
        place.store().sync()?;
        control.settled(Settled::Done);
        Ok(length)
    };
    replace().map_err(|error| Failure { path: path.to_owned(), error })
}

/// The tree, or the file and the directory that it is in.
struct Place<'p> {
    /// As the user would write it.
    path: &'p Path,
    held: Held<'p>,
    only: Option<Name>,
}

enum Held<'p> {
    Local(Box<Local>),
    Given(&'p dyn Store),
}

impl<'p> Place<'p> {
    fn find(path: &'p Path, options: &RekeyOptions) -> Result<Place<'p>, FileError> {
        let found = path.canonicalize().map_err(|cause| {
            FileError::system("open it")(Errno::from_io_error(&cause).unwrap_or(Errno::IO))
        })?;
        let tree = TreeOptions {
            owner: true,
            xattrs: true,
            durable: true,
            one_file_system: options.one_file_system,
            protected: options.protected.clone(),
            ..TreeOptions::default()
        };
        if found.is_dir() {
            let held = Held::Local(Box::new(Local::new(found, &tree)));
            return Ok(Place { path, held, only: None });
        }
        match (found.parent(), found.file_name()) {
            (Some(above), Some(name)) if found.is_file() => {
                let only = Some(Name::found(PathBuf::from(name)));
                Ok(Place { path, held: Held::Local(Box::new(Local::new(above, &tree))), only })
            }
            _ => Err(Refusal::NeitherFileNorTree.into()),
        }
    }

    fn store(&self) -> &dyn Store {
        match &self.held {
            Held::Local(local) => &**local,
            Held::Given(store) => *store,
        }
    }

    fn origin(&self) -> Result<&dyn Origin, Fault> {
        self.store().origin().ok_or(Fault::Unread)
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        self.origin()?.open(name, first)
    }

    /// The path of an entry as the user would write it.
    fn shown(&self, below: &Path) -> PathBuf {
        match self.only.is_some() || below.as_os_str().is_empty() {
            true => self.path.to_owned(),
            false => self.path.join(below),
        }
    }

    fn seal(
        &self,
        origin: &Old<'_>,
        new: &KeyRing,
        run: &RunSettings,
        options: &RekeyOptions,
    ) -> Result<Report, OperationError> {
        let store = InPlace::new(self.store(), &options.heads.new, origin.versions());
        let listener = run.listener.clone();
        let (path, is_file) = (self.path.to_owned(), self.only.is_some());
        let run = RunSettings {
            listener: listener.map(|listener| {
                let told = move |below: &Path, outcome: FileOutcome| match is_file {
                    true => listener(&path, outcome),
                    false => listener(&path.join(below), outcome),
                };
                Arc::new(told) as crate::Listener
            }),
            ..run.clone()
        };
        let transferring = TransferOptions {
            names: SealedNames::kept(),
            overwrite: true,
            durable: true,
            ..TransferOptions::default()
        };
        let done = transfer(Operation::Encrypt, new, origin, Some(&store), &run, &transferring);
        let report = done.or_else(OperationError::into_report);
        store.settle_directories(&origin.directories());
        Ok(report.map_err(|failure| Failure { path: self.path.to_owned(), ..failure })?)
    }
}

/// The report of a run that writes nothing.
fn plan(place: &Place<'_>, origin: &Old<'_>, new: &KeyRing, run: &RunSettings) -> Report {
    let started = Instant::now();
    let mut report = Report {
        operation: Operation::Encrypt.name().to_owned(),
        format: new.primary().format().to_owned(),
        cipher: new.primary().cipher().to_string(),
        dry_run: true,
        ..Report::default()
    };
    for entry in origin.walk().take_while(|_| !run.control.is_stopped()) {
        let (path, looked) = match entry {
            Ok(entry) => {
                let path = entry.name.path().to_owned();
                (path, look(place, origin, entry, run, &mut report))
            }
            Err(Fault::Entry { name, reason }) => {
                (name.path().to_owned(), Err(Fault::Failed(reason).into()))
            }
            Err(fault) => (PathBuf::new(), Err(fault.into())),
        };
        report.failures.extend(looked.err().map(|error| Failure { path, error }));
    }
    report.interrupted = run.control.is_stopped();
    report.seconds = started.elapsed().as_secs_f64();
    report
}

/// Adds what would be done with an entry.
fn look(
    place: &Place<'_>,
    origin: &Old<'_>,
    entry: Entry,
    run: &RunSettings,
    report: &mut Report,
) -> Result<(), FileError> {
    let path = place.shown(entry.name.path());
    let tell = |outcome| run.listener.iter().for_each(|listener| listener(&path, outcome));
    match entry.kind {
        Kind::Object => {
            let (blob, _) = origin.open(&entry.name, &mut [])?;
            run.control.found(1, 0);
            match blob.needs_nothing() {
                true => report.files_skipped += 1,
                false => {
                    report.files += 1;
                    report.bytes += blob.length();
                }
            }
            tell(if blob.needs_nothing() { FileOutcome::Skipped } else { FileOutcome::Done });
        }
        Kind::HardLink(_) => {
            report.hard_links += 1;
            tell(FileOutcome::Linked);
        }
        Kind::LeftOut(reason) => report.leave_out(entry.name.path().to_owned(), &reason),
        Kind::Directory => {
            report.directories += 1;
            let access = Access::WRITE_OK | Access::EXEC_OK;
            let may_write = accessat(CWD, &path, access, AtFlags::EACCESS);
            may_write.map_err(FileError::system("write into the directory"))?;
        }
        Kind::SymbolicLink(_) => {}
    }
    Ok(())
}

/// An engine that decrypts what the old keys have encrypted.
fn engine(run: &RunSettings, old: &KeyRing) -> Result<Arc<dyn Engine>, FileError> {
    let direction = Direction::Decrypt;
    let mut ciphers = old.recipes().map(Recipe::cipher);
    let able = |engine: &&Arc<dyn Engine>| {
        ciphers.clone().all(|cipher| engine.offer(cipher, direction).is_some())
    };
    let found = run.reference.iter().chain(&run.seats).find(able).cloned();
    found.ok_or_else(|| {
        let cipher = ciphers.next().unwrap_or_else(|| old.primary().cipher());
        FileError::NoEngine { cipher, direction }
    })
}

fn refused(reason: &str) -> FileError {
    Refusal::Other(reason.to_owned()).into()
}

const NOT_AUTHENTIC: &str = "nothing authenticates files of this format, so they are not sealed anew in \
     their place; decrypt them, and encrypt the result";

/// The number of bytes that are copied at once.
const COPIED_AT_ONCE: u64 = 1 << 20;
