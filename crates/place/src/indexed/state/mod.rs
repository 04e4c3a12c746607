//! The state that a machine keeps of a sealed tree: the last root, and for its writer the index with the
//! states of the sources.

mod earlier;
mod kept;
mod reader;
mod stamps;
mod writer;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use evener_format::index::TreeId;
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

pub use self::earlier::{known_places, take_over};
use self::kept::Kept;
pub(super) use self::kept::{Begun, Written, hexadecimal};
pub(super) use self::reader::{StatePart, StateReader};
use self::reader::{check_owner, damaged, unread};
pub(super) use self::stamps::Stamps;
pub(super) use self::writer::StateWriter;
use super::audience;
use super::depot::refused;
use super::finished;
use super::roots::{Pin, RootDigest};
use crate::FileError;

/// The directory of one place in a user's state.
#[derive(Clone, Debug)]
pub(super) struct State {
    directory: PathBuf,
    place: String,
    /// That of the same place under another name, for what readers keep.
    alias: Option<Box<State>>,
}

impl State {
    /// The state of a place in a directory that holds those of all places.
    pub(super) fn of(all: &Path, place: &str) -> State {
        let hash = Sha256::digest(place.as_bytes());
        let directory = all.join(hexadecimal(&hash[..16]));
        State { directory, place: place.to_owned(), alias: None }
    }

    /// The same, and what is known of the place under another name.
    pub(super) fn with_alias(self, alias: State) -> State {
        State { alias: Some(Box::new(alias)), ..self }
    }

    /// The last roots that this machine has seen, one for each name of the place.
    pub(super) fn pins(&self) -> Result<Vec<Pin>, FileError> {
        let alias = self.alias.as_ref().map(|alias| alias.pin()).transpose()?.flatten();
        Ok(self.pin()?.into_iter().chain(alias).collect())
    }

    /// Forgets the tree.
    pub(super) fn forget(&self) -> Result<(), FileError> {
        self.alias.as_ref().map_or(Ok(()), |alias| alias.forget())?;
        let _lock = self.lock()?;
        drop(fs::remove_file(self.directory.join(ENTRIES)));
        match fs::remove_file(self.directory.join(PIN)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.failed("change", &error))
            }
            _ => Ok(()),
        }
    }

    /// The path of a file of the state; its directory is made.
    pub(super) fn path(&self, name: &str) -> Result<PathBuf, FileError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(|error| self.failed("make", &error))?;
        Ok(self.directory.join(name))
    }

    /// The last root that this machine has seen under the place's first name.
    fn pin(&self) -> Result<Option<Pin>, FileError> {
        let Some(kept) = self.kept()? else { return Ok(None) };
        kept.pin().map(Some).ok_or_else(|| damaged(&self.directory.join(PIN)))
    }

    fn kept(&self) -> Result<Option<Kept>, FileError> {
        let path = self.directory.join(PIN);
        let mut text = Vec::new();
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file
                .and_then(|mut file| {
                    check_owner(&file)?;
                    file.read_to_end(&mut text)
                })
                .map_err(|error| unread(&path, &error))?,
        };
        serde_json::from_slice(&text).map(Some).map_err(|_| damaged(&path))
    }

    /// The machine's key that signed a tree in another place, if the tree was moved.
    pub(super) fn earlier_key(&self, tree: TreeId) -> Option<PathBuf> {
        let places = fs::read_dir(self.directory.parent()?).ok()?.flatten();
        let mut places: Vec<_> = places.map(|place| place.path()).collect();
        places.sort_unstable();
        let holds = |directory: &PathBuf| {
            let state = State { directory: directory.clone(), place: String::new(), alias: None };
            let is_it = state.pin().is_ok_and(|pin| pin.is_some_and(|pin| pin.tree == tree));
            is_it && directory.join("key").exists()
        };
        Some(places.into_iter().find(holds)?.join("key"))
    }

    /// For whom this machine sealed a tree in another place, if the tree was moved; `None` where notes
    /// differ.
    pub(super) fn earlier_audience(&self, tree: TreeId) -> Option<String> {
        let places = fs::read_dir(self.directory.parent()?).ok()?.flatten();
        let state = |directory| State { directory, place: String::new(), alias: None };
        let mut known = places.filter_map(|place| audience::known(&state(place.path()), tree));
        let first = known.next()?;
        known.all(|other| other == first).then_some(first)
    }

    /// Notes the last root that this machine has seen. A later one that was noted meanwhile stays,
    /// unless this `goes_back`; then the index of a later generation goes.
    pub(super) fn keep_pin(&self, pin: &Pin, goes_back: bool) -> Result<(), FileError> {
        self.alias.as_ref().map_or(Ok(()), |alias| alias.keep_pin(pin, goes_back))?;
        let _lock = self.lock()?;
        let is_later = |known: &Pin| known.tree == pin.tree && known.number >= pin.number;
        if !goes_back && self.pin()?.as_ref().is_some_and(is_later) {
            return Ok(());
        }
        self.write_pin(&Kept::of(&self.place, pin))?;
        if goes_back {
            drop(fs::remove_file(self.directory.join(ENTRIES)));
        }
        Ok(())
    }

    /// As [`State::keep_pin`], of a root that has the index of the one `before` it.
    pub(super) fn keep_same(&self, pin: &Pin, before: Option<RootDigest>) -> Result<(), FileError> {
        self.alias.as_ref().map_or(Ok(()), |alias| alias.keep_pin(pin, false))?;
        let _lock = self.lock()?;
        let known = self.kept()?;
        if known
            .as_ref()
            .is_some_and(|it| it.tree == pin.tree.to_string() && it.number >= pin.number)
        {
            return Ok(());
        }
        let before = before.map(|it| it.to_string());
        let earlier = known.filter(|it| Some(&it.digest) == before.as_ref()).and_then(|it| it.same);
        let mut kept = Kept::of(&self.place, pin);
        kept.same = earlier.or(before);
        self.write_pin(&kept)
    }

    /// The root whose index a root has too, as far as this machine knows.
    pub(super) fn same(&self, root: RootDigest) -> Result<Option<RootDigest>, FileError> {
        let known = self.kept()?.filter(|it| it.digest == root.to_string());
        Ok(known.and_then(|it| RootDigest::from_text(&it.same?)))
    }

    fn write_pin(&self, kept: &Kept) -> Result<(), FileError> {
        let text = serde_json::to_vec_pretty(kept).map_err(|error| refused(error.to_string()))?;
        let (path, new) = (self.path(PIN)?, self.path("pin.new")?);
        let mut file = private(&new).map_err(|error| self.failed("write", &error))?;
        let written = file.write_all(&text).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| self.failed("write", &error))
    }

    /// Begins the index of a generation. While that is the same as the one `before` it, nothing is
    /// written.
    pub(super) fn begin(
        &self,
        begun: &Begun,
        before: Option<&StateReader>,
    ) -> Result<StateWriter, FileError> {
        let mut name = [0; 8];
        getrandom::fill(&mut name).map_err(|error| refused(error.to_string()))?;
        let path = self.path(&format!("{ENTRIES}.{}", hexadecimal(&name)))?;
        // Whoever can lock it knows that this run is no more.
        let _lock = self.lock()?;
        let file = private(&path).map_err(|error| self.failed("write", &error))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(FileError::system("lock the state"))?;
        StateWriter::new(file, path, self, begun, before)
    }

    /// The indexes of runs that were stopped, the longest first.
    pub(super) fn partials(&self) -> Vec<StateReader> {
        let mut partials: Vec<_> = self.left_behind().collect();
        partials.sort_by_key(|partial| std::cmp::Reverse(partial.end));
        partials
    }

    fn left_behind(&self) -> impl Iterator<Item = StateReader> {
        let directory = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        directory.filter_map(|entry| {
            entry.file_name().to_str()?.strip_prefix(ENTRIES)?.strip_prefix('.')?;
            let reader = StateReader::open(&entry.path()).ok()?;
            let lock = FlockOperation::NonBlockingLockShared;
            flock(reader.file.get_ref(), lock).is_ok().then_some(reader)
        })
    }

    /// The index of the last generation that this machine has written. One whose root was published
    /// just before its run was killed counts too: `is_published` tells.
    pub(super) fn entries(
        &self,
        is_published: impl Fn(&Pin) -> Result<bool, FileError>,
    ) -> Result<Option<StateReader>, FileError> {
        let mut newest: Option<StateReader> = None;
        let failed = |error: io::Error| self.failed("read", &error);
        let directory = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            directory => directory.map_err(failed)?,
        };
        for entry in directory {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| name.starts_with(ENTRIES)) else {
                continue;
            };
            let reader = match StateReader::open(&entry.path()) {
                Err(error) if name == ENTRIES => return Err(error),
                Err(_) => continue,
                Ok(reader) => reader,
            };
            let Some(pin) = reader.written.as_ref().map(|written| &written.pin) else { continue };
            let known = newest.as_ref().and_then(|it| it.written.as_ref());
            let is_newer = known.is_none_or(|known| known.pin.number < pin.number);
            if is_newer && (name == ENTRIES || is_published(pin)?) {
                newest = Some(reader);
            }
        }
        if let Some(reader) = &newest {
            self.adopt(reader)?;
        }
        Ok(newest)
    }

    /// Makes the index of a run that was killed just after its root was published that of the place.
    fn adopt(&self, reader: &StateReader) -> Result<(), FileError> {
        let path = self.path(ENTRIES)?;
        let lock = FlockOperation::NonBlockingLockShared;
        if reader.path == path || flock(reader.file.get_ref(), lock).is_err() {
            return Ok(());
        }
        let _lock = self.lock()?;
        finished::forget(&reader.path);
        match fs::rename(&reader.path, &path) {
            // Its own run, or another one, has just done so.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed.map_err(|error| self.failed("write", &error)),
        }
    }

    /// Removes what runs that are no more have left. Returns the names of their files in
    /// `writers/`.
    pub(super) fn sweep(&self) -> Result<Vec<String>, FileError> {
        let _lock = self.lock()?;
        let remove = |reader: StateReader| {
            drop(fs::remove_file(&reader.path));
            finished::forget(&reader.path);
            reader.begun.writer
        };
        Ok(self.left_behind().map(remove).collect())
    }

    /// Notes a writer. Whoever can lock the note knows that the writer is no more.
    pub(super) fn note_writer(&self, name: &str) -> Result<(PathBuf, File), FileError> {
        let path = self.path(&format!("{WRITER}{name}"))?;
        let _lock = self.lock()?;
        let file = private(&path).map_err(|error| self.failed("write", &error))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(FileError::system("lock the state"))?;
        Ok((path, file))
    }

    /// The names of writers of this machine that are no more, and their notes.
    pub(super) fn dead_writers(&self) -> Result<Vec<(String, PathBuf)>, FileError> {
        let _lock = self.lock()?;
        let directory = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let dead = directory.filter_map(|entry| {
            let name = entry.file_name().to_str()?.strip_prefix(WRITER)?.to_owned();
            let note = File::open(entry.path()).ok()?;
            flock(&note, FlockOperation::NonBlockingLockShared).ok()?;
            Some((name, entry.path()))
        });
        Ok(dead.collect())
    }

    /// Waits until no other run of this machine begins a tree in the place.
    pub(super) fn lock_to_begin(&self) -> Result<File, FileError> {
        self.lock_file("begin")
    }

    fn lock(&self) -> Result<File, FileError> {
        self.lock_file("lock")
    }

    fn lock_file(&self, name: &str) -> Result<File, FileError> {
        let lock = private_at(&self.path(name)?, false);
        let lock = lock.map_err(|error| self.failed("lock", &error))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(FileError::system("lock the state"))?;
        Ok(lock)
    }

    fn failed(&self, action: &str, error: &io::Error) -> FileError {
        let directory = evener_core::shown(&self.directory).to_string();
        let hint = match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                "; XDG_STATE_HOME may name another directory for the state of all trees"
            }
            _ => "",
        };
        refused(format!("can't {action} the state of the tree in `{directory}`: {error}{hint}"))
    }
}

fn private(path: &Path) -> io::Result<File> {
    private_at(path, true)
}

fn private_at(path: &Path, truncate: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(truncate).mode(0o600).open(path)
}

const PIN: &str = "pin.json";
const ENTRIES: &str = "entries";
const WRITER: &str = "writer.";
