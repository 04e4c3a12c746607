//! What a machine keeps of a sealed tree: the last root, and for its writer the index with the
//! states of the sources.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use evener_format::index::{Node, NodeWriter, Reference, SignerKeys, TreeId};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::depot::refused;
use super::roots::{Pin, RootDigest};
use crate::FileError;
use crate::place::Stamp;

/// The directory of one place in a user's state.
#[derive(Clone, Debug)]
pub(super) struct State {
    directory: PathBuf,
    place: String,
}

/// What a file of the state says of a tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    place: String,
    tree: String,
    number: u64,
    digest: String,
    /// Keys of OpenSSH and of chains, in hexadecimal.
    signers: Vec<(String, String)>,
    revoked: Vec<(String, u64)>,
    /// Of the index, in hexadecimal; of a writer alone.
    #[serde(default)]
    border: Option<String>,
    #[serde(default)]
    padding: Option<u64>,
}

/// A run that seals a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) tree: String,
    /// When it began by the clock of the place, in seconds since 1970.
    pub(super) time: i64,
    /// The commitment of its key.
    pub(super) key: String,
    /// The root on which it builds.
    pub(super) base: Option<String>,
    /// True if it seals everything anew.
    pub(super) has_new_key: bool,
    /// True if it keeps extended attributes.
    #[serde(default)]
    pub(super) xattrs: bool,
    /// The generation that the last cleaning before it made.
    #[serde(default)]
    pub(super) cleaned: Option<u64>,
    /// The name of its file in `writers/`.
    pub(super) writer: String,
}

/// What a writer keeps besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) pin: Pin,
    pub(super) border: [u8; 16],
    pub(super) padding: Option<u64>,
}

impl State {
    /// The state of a place in a directory that holds those of all places.
    pub(super) fn of(all: &Path, place: &str) -> State {
        let hash = Sha256::digest(place.as_bytes());
        State { directory: all.join(hexadecimal(&hash[..16])), place: place.to_owned() }
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

    /// The last root that this machine has seen.
    pub(super) fn pin(&self) -> Result<Option<Pin>, FileError> {
        let path = self.directory.join(PIN);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| self.failed("read", &error))?,
        };
        let kept: Kept = serde_json::from_slice(&text).map_err(|_| damaged(&path))?;
        kept.pin().map(Some).ok_or_else(|| damaged(&path))
    }

    /// Notes the last root that this machine has seen. A later one that was noted meanwhile stays,
    /// unless `goes_back`.
    pub(super) fn keep_pin(&self, pin: &Pin, goes_back: bool) -> Result<(), FileError> {
        let _lock = self.lock()?;
        let is_later = |known: &Pin| known.tree == pin.tree && known.number >= pin.number;
        if !goes_back && self.pin()?.as_ref().is_some_and(is_later) {
            return Ok(());
        }
        let kept = Kept::of(&self.place, pin);
        let text = serde_json::to_vec_pretty(&kept).map_err(|error| refused(error.to_string()))?;
        let (path, new) = (self.path(PIN)?, self.path("pin.new")?);
        let mut file = private(&new).map_err(|error| self.failed("write", &error))?;
        let written = file.write_all(&text).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| self.failed("write", &error))
    }

    /// Begins the index of a generation.
    pub(super) fn begin(&self, begun: &Begun) -> Result<StateWriter, FileError> {
        let mut name = [0; 8];
        getrandom::fill(&mut name).map_err(|error| refused(error.to_string()))?;
        let path = self.path(&format!("{ENTRIES}.{}", hexadecimal(&name)))?;
        // Whoever can lock it knows that this run is no more.
        let _lock = self.lock()?;
        let file = private(&path).map_err(|error| self.failed("write", &error))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(FileError::system("lock the state"))?;
        let file = BufWriter::with_capacity(1 << 18, file);
        let (path, state) = (Some(path), self.clone());
        let mut writer = StateWriter { file, path, state, blocks: 0 };
        writer.file.write_all(MAGIC).map_err(|error| self.failed("write", &error))?;
        let text = serde_json::to_vec(begun).map_err(|error| refused(error.to_string()))?;
        writer.frame(BEGUN, &text)?;
        Ok(writer)
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
            reader.begun.writer
        };
        Ok(self.left_behind().map(remove).collect())
    }

    fn lock(&self) -> Result<File, FileError> {
        let lock = private_at(&self.path("lock")?, false);
        let lock = lock.map_err(|error| self.failed("lock", &error))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(FileError::system("lock the state"))?;
        Ok(lock)
    }

    fn failed(&self, action: &str, error: &io::Error) -> FileError {
        let directory = evener_core::shown(&self.directory).to_string();
        refused(format!("can't {action} the state of the tree in `{directory}`: {error}"))
    }
}

impl Kept {
    fn of(place: &str, pin: &Pin) -> Kept {
        let signer = |it: &SignerKeys| (hexadecimal(&it.key), hexadecimal(&it.chain));
        Kept {
            place: place.to_owned(),
            tree: pin.tree.to_string(),
            number: pin.number,
            digest: pin.digest.to_string(),
            signers: pin.signers.iter().map(signer).collect(),
            revoked: pin.revoked.iter().map(|(key, last)| (hexadecimal(key), *last)).collect(),
            border: None,
            padding: None,
        }
    }

    fn written(&self) -> Option<Written> {
        let border = bytes(self.border.as_ref()?)?.try_into().ok()?;
        Some(Written { pin: self.pin()?, border, padding: self.padding })
    }

    fn pin(&self) -> Option<Pin> {
        let signer = |(key, chain): &(String, String)| {
            Some(SignerKeys { key: bytes(key)?, chain: bytes(chain)?.try_into().ok()? })
        };
        let revoked = |(key, last): &(String, u64)| Some((bytes(key)?, *last));
        Some(Pin {
            tree: TreeId::from_text(&self.tree)?,
            number: self.number,
            digest: RootDigest::from_text(&self.digest)?,
            signers: self.signers.iter().map(signer).collect::<Option<_>>()?,
            revoked: self.revoked.iter().map(revoked).collect::<Option<_>>()?,
        })
    }
}

/// The states of the sources of a block's entries.
#[derive(Default)]
pub(super) struct Stamps(Vec<u8>);

impl Stamps {
    /// Adds that of an entry; `None` where a later run has to read the source.
    pub(super) fn push(&mut self, stamp: Option<&Stamp>) {
        let unknown = Stamp { device: 0, inode: 0, changed: (0, 0) };
        let Stamp { device, inode, changed: (seconds, nanoseconds) } = stamp.unwrap_or(&unknown);
        self.0.extend(device.to_le_bytes());
        self.0.extend(inode.to_le_bytes());
        self.0.extend(seconds.to_le_bytes());
        self.0.extend(nanoseconds.to_le_bytes());
    }

    /// That of an entry.
    pub(super) fn get(&self, number: usize) -> Option<Stamp> {
        let bytes = self.0.chunks_exact(STAMP).nth(number)?;
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let nanoseconds = u32::from_le_bytes(bytes.get(24..28)?.try_into().ok()?);
        Some(Stamp { device: word(0)?, inode: word(8)?, changed: (word(16)? as i64, nanoseconds) })
    }
}

/// Writes the state of a generation. What was written stays if the run is stopped, so that another
/// one can go on from there.
pub(super) struct StateWriter {
    file: BufWriter<File>,
    path: Option<PathBuf>,
    state: State,
    blocks: u64,
}

impl StateWriter {
    pub(super) fn block(
        &mut self,
        reference: &Reference,
        plain: &[u8],
        stamps: &Stamps,
    ) -> Result<(), FileError> {
        self.frame(REFERENCE, &one(reference))?;
        self.frame(STAMPS, &stamps.0)?;
        self.frame(BLOCK, plain)?;
        self.blocks += 1;
        self.file.flush().map_err(|error| self.state.failed("write", &error))
    }

    pub(super) fn node(&mut self, reference: &Reference, plain: &[u8]) -> Result<(), FileError> {
        self.frame(REFERENCE, &one(reference))?;
        self.frame(NODE, plain)
    }

    /// Ends the file. It counts once [`StateWriter::keep`] was called, or its root is found.
    pub(super) fn end(&mut self, written: &Written) -> Result<(), FileError> {
        let mut kept = Kept::of(&self.state.place, &written.pin);
        kept.border = Some(hexadecimal(&written.border));
        kept.padding = written.padding;
        let text = serde_json::to_vec(&kept).map_err(|error| refused(error.to_string()))?;
        let ended = (|| {
            // A root that was not published in the first attempt has another number later.
            let end = self.file.stream_position()?;
            self.file.get_ref().set_len(end)?;
            self.file.write_all(&text)?;
            self.file.write_all(&(text.len() as u32).to_le_bytes())?;
            self.file.flush()?;
            self.file.seek(SeekFrom::Start(end))
        })();
        ended.map(drop).map_err(|error| self.state.failed("write", &error))
    }

    /// Removes it.
    pub(super) fn discard(mut self) {
        self.blocks = 0;
    }

    /// Makes it the state of the place, unless another run has kept a later one meanwhile.
    pub(super) fn keep(mut self, pin: &Pin) -> Result<(), FileError> {
        let Some(path) = self.path.take() else { return Ok(()) };
        let kept = {
            let _lock = self.state.lock()?;
            let entries = self.state.path(ENTRIES)?;
            let there = StateReader::open(&entries).ok();
            let is_later = |known: &Pin| known.tree == pin.tree && known.number > pin.number;
            match there.as_ref().and_then(StateReader::pin).is_some_and(is_later) {
                true => fs::remove_file(path),
                false => fs::rename(path, entries),
            }
        };
        kept.map_err(|error| self.state.failed("write", &error))?;
        self.state.keep_pin(pin, false)
    }

    fn frame(&mut self, kind: u8, bytes: &[u8]) -> Result<(), FileError> {
        let length = (bytes.len() as u32).to_le_bytes();
        let written = self.file.write_all(&[kind]).and_then(|()| self.file.write_all(&length));
        let written = written.and_then(|()| self.file.write_all(bytes));
        written.map_err(|error| self.state.failed("write", &error))
    }
}

impl Drop for StateWriter {
    fn drop(&mut self) {
        if let Some(path) = self.path.as_ref().filter(|_| self.blocks == 0) {
            drop(fs::remove_file(path));
        }
    }
}

/// Reads the state of a generation.
pub(super) struct StateReader {
    path: PathBuf,
    file: BufReader<File>,
    end: u64,
    at: u64,
    /// `None` if its run was stopped before the end.
    pub(super) written: Option<Written>,
    pub(super) begun: Begun,
}

/// A part of a state.
pub(super) enum StatePart {
    Block { reference: Reference, plain: Vec<u8>, stamps: Stamps, at: u64 },
    Node(Reference, Vec<u8>),
}

impl StateReader {
    fn open(path: &Path) -> Result<StateReader, FileError> {
        let read = || -> io::Result<(File, u64, Vec<u8>)> {
            let mut file = File::open(path)?;
            let length = file.metadata()?.len();
            let mut kept = Vec::new();
            let mut number = [0; 4];
            file.seek(SeekFrom::Start(length.saturating_sub(4)))?;
            file.read_exact(&mut number)?;
            let text = u64::from(u32::from_le_bytes(number));
            let end = length.checked_sub(text + 4).filter(|_| text <= MOST_KEPT);
            if let Some(end) = end {
                kept.resize(text as usize, 0);
                file.seek(SeekFrom::Start(end))?;
                file.read_exact(&mut kept)?;
            }
            file.seek(SeekFrom::Start(0))?;
            Ok((file, length, kept))
        };
        let (file, length, kept) = read().map_err(|error| unread(path, &error))?;
        let written = serde_json::from_slice::<Kept>(&kept).ok().and_then(|it| it.written());
        let end = written.as_ref().map_or(length, |_| length - kept.len() as u64 - 4);
        let mut file = BufReader::with_capacity(1 << 18, file);
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic).map_err(|error| unread(path, &error))?;
        let (path, at) = (path.to_owned(), magic.len() as u64);
        let (tree, key, writer) = (String::new(), String::new(), String::new());
        let begun = Begun {
            tree,
            time: 0,
            key,
            base: None,
            has_new_key: false,
            xattrs: false,
            cleaned: None,
            writer,
        };
        let mut reader = StateReader { path, file, end, at, written, begun };
        let begun = reader.frame(BEGUN)?;
        reader.begun = serde_json::from_slice(&begun).map_err(|_| damaged(&reader.path))?;
        match magic == *MAGIC {
            true => Ok(reader),
            false => Err(damaged(&reader.path)),
        }
    }

    /// The root of the generation; `None` if its run was stopped before the end.
    pub(super) fn pin(&self) -> Option<&Pin> {
        self.written.as_ref().map(|written| &written.pin)
    }

    /// The same state from its beginning.
    pub(super) fn again(&self) -> Result<StateReader, FileError> {
        // Another file may have its name by now.
        let open = format!("/proc/self/fd/{}", self.file.get_ref().as_raw_fd());
        StateReader::open(Path::new(&open))
    }

    /// The next part. One that was cut off is the end.
    pub(super) fn next(&mut self) -> Result<Option<StatePart>, FileError> {
        match self.part() {
            Err(_) if self.written.is_none() => Ok(None),
            part => part,
        }
    }

    fn part(&mut self) -> Result<Option<StatePart>, FileError> {
        if self.at >= self.end {
            return Ok(None);
        }
        let start = self.at;
        let reference = self.frame(REFERENCE)?;
        let reference = Node::parse(&reference).ok().and_then(|mut node| node.references.pop());
        let reference = reference.ok_or_else(|| damaged(&self.path))?;
        match self.any_frame()? {
            (STAMPS, stamps) => {
                let plain = self.frame(BLOCK)?;
                Ok(Some(StatePart::Block { reference, plain, stamps: Stamps(stamps), at: start }))
            }
            (NODE, plain) => Ok(Some(StatePart::Node(reference, plain))),
            _ => Err(damaged(&self.path)),
        }
    }

    /// The part that begins at an offset.
    pub(super) fn part_at(&mut self, at: u64) -> Result<Option<StatePart>, FileError> {
        self.file.seek(SeekFrom::Start(at)).map_err(|error| unread(&self.path, &error))?;
        self.at = at;
        self.next()
    }

    fn frame(&mut self, kind: u8) -> Result<Vec<u8>, FileError> {
        match self.any_frame()? {
            (there, bytes) if there == kind => Ok(bytes),
            _ => Err(damaged(&self.path)),
        }
    }

    fn any_frame(&mut self) -> Result<(u8, Vec<u8>), FileError> {
        let mut head = [0; 5];
        let unread = |error: io::Error| unread(&self.path, &error);
        self.file.read_exact(&mut head).map_err(unread)?;
        let length = u64::from(u32::from_le_bytes([head[1], head[2], head[3], head[4]]));
        self.at += 5 + length;
        if self.at > self.end {
            return Err(damaged(&self.path));
        }
        let mut bytes = vec![0; length as usize];
        self.file.read_exact(&mut bytes).map_err(unread)?;
        Ok((head[0], bytes))
    }
}

/// A reference as bytes.
fn one(reference: &Reference) -> Vec<u8> {
    let mut node = NodeWriter::default();
    node.push(reference);
    node.finish(None)
}

fn private(path: &Path) -> io::Result<File> {
    private_at(path, true)
}

fn private_at(path: &Path, truncate: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(truncate).mode(0o600).open(path)
}

/// The state can't be read, or ends too early.
fn unread(path: &Path, error: &io::Error) -> FileError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return damaged(path);
    }
    let path = evener_core::shown(path).to_string();
    refused(format!("can't read the state of the tree in `{path}`: {error}"))
}

fn damaged(path: &Path) -> FileError {
    let path = evener_core::shown(path).to_string();
    refused(format!(
        "the state of the tree in `{path}` is damaged; remove it if you believe the tree"
    ))
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(digit).collect()
}

const PIN: &str = "pin.json";
const ENTRIES: &str = "entries";
const MAGIC: &[u8] = b"evener-state-v1\n";
const REFERENCE: u8 = b'R';
const STAMPS: u8 = b'S';
const BLOCK: u8 = b'B';
const NODE: u8 = b'N';
const BEGUN: u8 = b'P';
const STAMP: usize = 28;
const MOST_KEPT: u64 = 1 << 24;
