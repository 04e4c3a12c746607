//! Writes the state of a generation.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::PathBuf;

use evener_format::index::{EntryPath, NodeWriter, Reference};

use super::kept::{Begun, Kept, Written, hexadecimal};
use super::reader::{BEGUN, BLOCK, MAGIC, NODE, REFERENCE, STAMPS, StatePart, StateReader};
use super::stamps::Stamps;
use super::{ENTRIES, State};
use crate::FileError;
use crate::indexed::assembler::Line;
use crate::indexed::depot::refused;
use crate::indexed::finished::Finished;
use crate::indexed::roots::Pin;

/// Writes the state of a generation. What was written stays if the run is stopped, so that another
/// one can go on from there.
pub(in crate::indexed) struct StateWriter {
    file: BufWriter<File>,
    path: Option<PathBuf>,
    state: State,
    blocks: u64,
    /// `None` once this one differs from that before it.
    before: Option<Same>,
    /// Files that are in no block yet.
    finished: Finished,
}

/// The beginning of a state that another one has too.
struct Same {
    reader: StateReader,
    /// Its range in the file, and the number of its blocks.
    range: Range<u64>,
    blocks: u64,
}

impl Same {
    fn of(reader: StateReader) -> Same {
        let range = reader.at..reader.at;
        Same { reader, range, blocks: 0 }
    }

    /// Returns whether the next part is the same too.
    fn goes_on(&mut self, reference: &Reference, stamps: Option<&Stamps>, plain: &[u8]) -> bool {
        let is_same = match (self.reader.next(), stamps) {
            (
                Ok(Some(StatePart::Block { reference: its, plain: text, stamps: states, .. })),
                Some(stamps),
            ) => its == *reference && states.0 == stamps.0 && text == plain,
            (Ok(Some(StatePart::Node(its, text))), None) => its == *reference && text == plain,
            _ => false,
        };
        if is_same {
            self.range.end = self.reader.at;
            self.blocks += u64::from(stamps.is_some());
        }
        is_same
    }
}

impl StateWriter {
    /// Begins it in a new file, which the caller has locked.
    pub(super) fn new(
        file: File,
        path: PathBuf,
        state: &State,
        begun: &Begun,
        before: Option<&StateReader>,
    ) -> Result<StateWriter, FileError> {
        let file = BufWriter::with_capacity(1 << 18, file);
        let before = before.and_then(|before| before.again().ok()).map(Same::of);
        let finished = Finished::of(&path);
        let (path, state) = (Some(path), state.clone());
        let mut writer = StateWriter { file, path, state, blocks: 0, before, finished };
        let written = writer.file.write_all(MAGIC);
        written.map_err(|error| writer.state.failed("write", &error))?;
        let text = serde_json::to_vec(begun).map_err(|error| refused(error.to_string()))?;
        writer.frame(BEGUN, &text)?;
        // A later run forgets this one in `writers/` if it is killed.
        writer.file.flush().map_err(|error| writer.state.failed("write", &error))?;
        Ok(writer)
    }

    pub(in crate::indexed) fn block(
        &mut self,
        reference: &Reference,
        plain: &[u8],
        stamps: &Stamps,
    ) -> Result<(), FileError> {
        if self.is_same(reference, Some(stamps), plain)? {
            return Ok(());
        }
        self.frame(REFERENCE, &one(reference))?;
        self.frame(STAMPS, &stamps.0)?;
        self.frame(BLOCK, plain)?;
        self.blocks += 1;
        self.file.flush().map_err(|error| self.state.failed("write", &error))
    }

    /// Notes a file that was sealed, unless it is in a block by the time at which it would be
    /// written: `is_there` tells.
    pub(in crate::indexed) fn note(
        &mut self,
        line: &Line,
        is_there: impl Fn(&EntryPath) -> bool,
    ) -> Result<(), FileError> {
        if !self.finished.push(line) {
            return Ok(());
        }
        self.finished.write(is_there).map_err(|error| self.state.failed("write", &error))
    }

    pub(in crate::indexed) fn node(
        &mut self,
        reference: &Reference,
        plain: &[u8],
    ) -> Result<(), FileError> {
        if self.is_same(reference, None, plain)? {
            return Ok(());
        }
        self.frame(REFERENCE, &one(reference))?;
        self.frame(NODE, plain)
    }

    fn is_same(
        &mut self,
        reference: &Reference,
        stamps: Option<&Stamps>,
        plain: &[u8],
    ) -> Result<bool, FileError> {
        let is_same = self.before.as_mut().is_some_and(|it| it.goes_on(reference, stamps, plain));
        if !is_same {
            self.differ()?;
        }
        Ok(is_same)
    }

    /// Copies what was the same as before.
    fn differ(&mut self) -> Result<(), FileError> {
        let Some(Same { reader, range, blocks }) = self.before.take() else { return Ok(()) };
        let copy = || {
            let mut file = reader.file.into_inner();
            file.seek(SeekFrom::Start(range.start))?;
            self.file.flush()?;
            let length = range.end - range.start;
            let copied = io::copy(&mut file.take(length), self.file.get_mut())?;
            if copied == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
        };
        copy().map_err(|error| self.state.failed("copy", &error))?;
        self.blocks += blocks;
        Ok(())
    }

    /// Ends the file. It counts once [`StateWriter::keep`] was called, or its root is found.
    pub(in crate::indexed) fn end(&mut self, written: &Written) -> Result<(), FileError> {
        self.differ()?;
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
    pub(in crate::indexed) fn discard(mut self) {
        self.blocks = 0;
        self.finished.remove();
    }

    /// Makes it the state of the place, unless another run has kept a later one meanwhile.
    pub(in crate::indexed) fn keep(mut self, pin: &Pin) -> Result<(), FileError> {
        let Some(path) = self.path.take() else { return Ok(()) };
        self.finished.remove();
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
        let Some(path) = &self.path else { return };
        if !self.finished.end() && self.blocks == 0 {
            drop(fs::remove_file(path));
        }
    }
}

/// A reference as bytes.
fn one(reference: &Reference) -> Vec<u8> {
    let mut node = NodeWriter::default();
    node.push(reference);
    node.finish(None)
}

#[cfg(test)]
mod tests {
    use evener_format::index::{Commitment, StorageName, TreeId};

    use super::*;
    use crate::indexed::roots::RootDigest;
    use crate::place::Stamp;

    fn reference(number: u8) -> Reference {
        Reference {
            first: EntryPath { directory: [].into(), name: vec![number] },
            name: StorageName::new([number; StorageName::LENGTH]),
            length: 200,
            digest: [number; 32],
            key: Commitment([7; 32]),
            generation: 1,
        }
    }

    /// A state with these blocks, and a node after every second one.
    fn write(state: &State, before: Option<&StateReader>, blocks: &[u8]) -> StateWriter {
        let text = |text: &str| text.to_owned();
        let begun = Begun {
            tree: text("tree"),
            time: 1,
            key: text("key"),
            base: None,
            has_new_key: false,
            audience: None,
            xattrs: false,
            cleaned: None,
            writer: text("writer"),
        };
        let mut writer = state.begin(&begun, before).unwrap();
        let mut stamps = Stamps::default();
        stamps.push(Some(&Stamp { device: 1, inode: 2, changed: (3, 4) }));
        for (number, block) in blocks.iter().enumerate() {
            writer.block(&reference(*block), &[*block; 100], &stamps).unwrap();
            if number % 2 == 1 {
                writer.node(&reference(*block), &[*block; 50]).unwrap();
            }
        }
        writer
    }

    fn written() -> Written {
        let tree = TreeId::random().unwrap();
        let (signers, revoked) = (Vec::new(), Vec::new());
        let pin = Pin { tree, number: 1, digest: RootDigest([5; 32]), signers, revoked };
        Written { pin, border: [6; 16], padding: None }
    }

    #[test]
    fn what_is_the_same_as_before_is_written_only_with_something_else() {
        let home = tempfile::tempdir().unwrap();
        let state = State::of(home.path(), "place");
        let written = written();
        let mut first = write(&state, None, &[1, 2, 3]);
        first.end(&written).unwrap();
        first.keep(&written.pin).unwrap();
        let before = StateReader::open(&state.path(ENTRIES).unwrap()).unwrap();

        let same = write(&state, Some(&before), &[1, 2, 3]);
        let path = same.path.clone().unwrap();
        let there = StateReader::open(&path).unwrap();
        assert_eq!((&*there.begun.writer, there.at), ("writer", there.end));
        drop(same);
        assert!(!path.exists());

        let others: [&[u8]; 6] = [&[1, 2, 3], &[1, 2, 4], &[1, 2], &[1, 2, 3, 4, 5], &[4, 5], &[]];
        for blocks in others {
            let whole = |before| {
                let mut writer = write(&state, before, blocks);
                writer.end(&written).unwrap();
                fs::read(writer.path.as_ref().unwrap()).unwrap()
            };
            assert!(whole(None) == whole(Some(&before)), "{blocks:?}");
        }
    }
}
