//! The files that a run has sealed, and that are in no block of its state yet.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evener_format::index::{Block, BlockWriter, EntryPath};

use super::assembler::Line;
use super::old::OldLine;
use super::state::Stamps;

/// Notes files as they are finished, in any order, so that a run that goes on need not seal them
/// again.
pub(super) struct Finished {
    path: PathBuf,
    file: Option<File>,
    waiting: Vec<Line>,
    /// When some were last written.
    since: Instant,
}

impl Finished {
    /// Those of the run whose state has this path. Nothing is made before there are some.
    pub(super) fn of(state: &Path) -> Finished {
        let (waiting, since) = (Vec::new(), Instant::now());
        Finished { path: path_of(state), file: None, waiting, since }
    }

    /// Takes a file. Returns true when it is time to write.
    pub(super) fn push(&mut self, line: &Line) -> bool {
        self.waiting.push(line.clone());
        self.since.elapsed() >= MOST_TIME
    }

    /// Writes those that wait, without those that are `elsewhere`.
    pub(super) fn write(&mut self, elsewhere: impl Fn(&EntryPath) -> bool) -> io::Result<()> {
        self.since = Instant::now();
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let mut lines: Vec<_> = waiting.map(|line| (line.entry_path(), line)).collect();
        lines.retain(|(path, _)| !elsewhere(path));
        lines.sort_by(|one, other| one.0.cmp(&other.0));
        let mut lines = lines.into_iter().map(|(_, line)| line).peekable();
        let mut bytes = Vec::new();
        while lines.peek().is_some() {
            let (mut block, mut stamps) = (BlockWriter::default(), Stamps::default());
            while let Some(line) = lines.peek() {
                match block.push(&line.directory, &line.entry) {
                    Ok(true) => stamps.push(line.stamp.as_ref()),
                    Ok(false) => break,
                    // The index reports that.
                    Err(_) => {}
                }
                lines.next();
            }
            if block.first().is_none() {
                break;
            }
            for part in [stamps.bytes(), &block.finish(None)] {
                bytes.extend((part.len() as u32).to_le_bytes());
                bytes.extend(part);
            }
        }
        if bytes.is_empty() {
            return Ok(());
        }
        if self.file.is_none() {
            let mut options = OpenOptions::new();
            self.file = Some(options.append(true).create_new(true).mode(0o600).open(&self.path)?);
        }
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(&bytes))
    }

    /// Writes all that wait. Returns true if there are some for another run.
    pub(super) fn end(&mut self) -> bool {
        drop(self.write(|_| false));
        self.file.is_some()
    }

    /// Removes what was written.
    pub(super) fn remove(&mut self) {
        self.waiting.clear();
        if self.file.take().is_some() {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Removes those of a run that is no more.
pub(super) fn forget(state: &Path) {
    drop(fs::remove_file(path_of(state)));
}

/// Adds those of a run that was stopped. A part that was cut off is the end.
pub(super) fn read(state: &Path, has_attributes: bool, into: &mut BTreeMap<EntryPath, OldLine>) {
    let Ok(mut file) = File::open(path_of(state)).map(io::BufReader::new) else { return };
    let mut part = || {
        let mut length = [0; 4];
        file.read_exact(&mut length).ok()?;
        let length = u64::from(u32::from_le_bytes(length));
        let mut bytes = Vec::new();
        file.by_ref().take(length).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 == length).then_some(bytes)
    };
    while let (Some(stamps), Some(plain)) = (part(), part()) {
        let (stamps, Ok(block)) = (Stamps::of(stamps), Block::parse(&plain)) else { return };
        for (number, (directory, entry)) in block.entries.into_iter().enumerate() {
            let path = EntryPath { directory, name: entry.name.clone() };
            let stamp = Some(stamps.get(number).filter(|stamp| stamp.inode != 0));
            into.insert(path.clone(), OldLine { path, entry, stamp, has_attributes });
        }
    }
}

/// Where the files that a run has finished are noted.
fn path_of(state: &Path) -> PathBuf {
    let name = state.extension().unwrap_or_default();
    state.with_file_name("files").with_extension(name)
}

const MOST_TIME: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use evener_format::index::{Content, Entry, Kind};

    use super::super::sealing::no_content;
    use super::*;
    use crate::place::Stamp;

    #[test]
    fn files_are_noted_in_any_order_and_a_cut_note_is_the_end() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("entries.1");
        let line = |number: u64| Line {
            directory: (*b"directory").into(),
            entry: Entry {
                name: number.to_string().into_bytes(),
                kind: Kind::File(Content {
                    length: 72 + number,
                    generation: 1,
                    ..no_content(number)
                }),
                mode: None,
                modified: None,
                owner: None,
                attributes: Vec::new(),
            },
            stamp: Some(Stamp { device: 1, inode: number, changed: (2, 3) }),
            kept: None,
            before: None,
        };
        let mut finished = Finished::of(&state);
        for number in [3, 1, 2] {
            assert!(!finished.push(&line(number)));
        }
        finished.write(|path| path.name == b"2").unwrap();
        finished.push(&line(4));
        assert!(finished.end());
        let noted = || {
            let mut into = BTreeMap::new();
            read(&state, false, &mut into);
            into.into_values().map(|it| it.stamp.flatten().unwrap().inode).collect::<Vec<_>>()
        };
        assert_eq!(noted(), [1, 3, 4]);
        let path = home.path().join("files.1");
        let length = fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&path).unwrap().set_len(length - 1).unwrap();
        assert_eq!(noted(), [1, 3]);
        finished.remove();
        assert!(!path.exists());
    }
}
