//! Reads the state of a generation.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use evener_format::index::{EntryPath, Node, Reference};

use super::kept::{Begun, Kept, Written};
use super::stamps::Stamps;
use crate::FileError;
use crate::indexed::depot::refused;
use crate::indexed::finished;
use crate::indexed::old::OldLine;
use crate::indexed::roots::Pin;

/// Reads the state of a generation.
pub(in crate::indexed) struct StateReader {
    pub(super) path: PathBuf,
    pub(super) file: BufReader<File>,
    pub(super) end: u64,
    pub(super) at: u64,
    /// `None` if its run was stopped before the end.
    pub(in crate::indexed) written: Option<Written>,
    pub(in crate::indexed) begun: Begun,
}

/// A part of a state.
pub(in crate::indexed) enum StatePart {
    Block { reference: Reference, plain: Vec<u8>, stamps: Stamps, at: u64 },
    Node(Reference, Vec<u8>),
}

impl StateReader {
    pub(super) fn open(path: &Path) -> Result<StateReader, FileError> {
        let read = || -> io::Result<(File, u64, Vec<u8>)> {
            let mut file = File::open(path)?;
            check_owner(&file)?;
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
            audience: None,
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

    /// Adds the files that its run had finished when it was stopped.
    pub(in crate::indexed) fn add_finished(&self, into: &mut BTreeMap<EntryPath, OldLine>) {
        finished::read(&self.path, self.begun.xattrs, into);
    }

    /// The root of the generation; `None` if its run was stopped before the end.
    pub(in crate::indexed) fn pin(&self) -> Option<&Pin> {
        self.written.as_ref().map(|written| &written.pin)
    }

    /// The same state from its beginning.
    pub(in crate::indexed) fn again(&self) -> Result<StateReader, FileError> {
        // Another file may have its name by now.
        let open = format!("/proc/self/fd/{}", self.file.get_ref().as_raw_fd());
        StateReader::open(Path::new(&open))
    }

    /// The next part. One that was cut off is the end.
    pub(in crate::indexed) fn next(&mut self) -> Result<Option<StatePart>, FileError> {
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
    pub(in crate::indexed) fn part_at(&mut self, at: u64) -> Result<Option<StatePart>, FileError> {
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

/// The state can't be read, or ends too early.
pub(super) fn unread(path: &Path, error: &io::Error) -> FileError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return damaged(path);
    }
    let path = evener_core::shown(path).to_string();
    refused(format!("can't read the state of the tree in `{path}`: {error}"))
}

pub(super) fn damaged(path: &Path) -> FileError {
    let path = evener_core::shown(path).to_string();
    refused(format!(
        "the state of the tree in `{path}` is damaged; remove it if you believe the tree"
    ))
}

pub(super) const MAGIC: &[u8] = b"evener-state-v1\n";
pub(super) const REFERENCE: u8 = b'R';
pub(super) const STAMPS: u8 = b'S';
pub(super) const BLOCK: u8 = b'B';
pub(super) const NODE: u8 = b'N';
pub(super) const BEGUN: u8 = b'P';
const MOST_KEPT: u64 = 1 << 24;

/// Refuses a file that others may have changed.
pub(super) fn check_owner(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    let refused = |reason: &str| Err(io::Error::other(reason));
    if ![0, rustix::process::geteuid().as_raw()].contains(&found.uid()) {
        return refused("it belongs to another user");
    }
    match found.mode() & 0o022 {
        0 => Ok(()),
        _ => refused("others may write to it (`chmod go-w` changes that)"),
    }
}
