//! A tree's files as the objects of a run.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use evener_pipeline::Worker;
use rustix::fs::{Mode, Stat};

use super::directory::{Directory, Item, Made};
use super::names::refuse_long_name;
use super::resume::Found;
use super::work::TreeWork;
use crate::metadata::Metadata;
use crate::output::{Output, Outputs};
use crate::source::{Source, ends_at, read_exact_at};
use crate::{FileError, Operation, Refusal};
use evener_seal::{
    Blob, Done, Draft, Objects, Opened, ReadAt, ReadBack, Room, SegmentError, Workspace,
};

/// An output of a tree with the mode that it has had since its creation, if that is known.
pub(crate) struct TreeOutput {
    pub(crate) file: Arc<Output<Arc<Made>>>,
    pub(crate) created: Option<Mode>,
    /// The permission bits that it may be given.
    pub(crate) granted: Mode,
    /// True if whole pages of zeros become holes.
    pub(crate) leaves_holes: bool,
}

impl TreeOutput {
    /// Begins the output of a source with the status `source`.
    pub(crate) fn begin(
        (outputs, metadata): (&Outputs, &Metadata),
        (directory, name): (&Arc<Made>, &OsStr),
        source: &Stat,
        leaves_holes: bool,
    ) -> Result<TreeOutput, FileError> {
        let mode = metadata.creation_mode(source);
        let created = mode & !Mode::from_raw_mode(metadata.umask);
        let inherited = directory.inherited;
        let at_first = inherited.mode_at_first(mode);
        let file = Arc::new(outputs.create(directory.clone(), name, at_first)?);
        let granted = metadata.settle(inherited, file.as_fd().as_fd(), source)?;
        let created = (file.has_its_mode() && at_first == mode).then_some(created);
        Ok(TreeOutput { file, created, granted, leaves_holes })
    }
}

/// Of a longer file, in bytes, an existing output is refused before the work and not after it.
const LONG: u64 = 1 << 20;

impl Draft for TreeOutput {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        match self.leaves_holes {
            true => self.file.write_sparse_at(bytes, offset),
            false => self.file.write_all_at(bytes, offset),
        }
    }
}

impl ReadAt for TreeOutput {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), FileError> {
        read_exact_at(self.file.as_fd().as_fd(), buffer, offset)
    }
}

impl ReadBack for TreeOutput {
    fn ends_at(&self, offset: u64) -> Result<bool, FileError> {
        ends_at(self.file.as_fd().as_fd(), offset)
    }
}

impl Objects for TreeWork<'_> {
    type Group = Arc<Directory>;
    type Item = Item;
    type Blob = Source;
    type Draft = TreeOutput;

    fn is_same(one: &Arc<Directory>, other: &Arc<Directory>) -> bool {
        Arc::ptr_eq(one, other)
    }

    fn open(
        &self,
        directory: &Arc<Directory>,
        item: &Item,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<Opened<Source>, SegmentError> {
        refuse_long_name(item)?;
        let source = Source::open(directory.source.as_fd(), &item.name, directory.follows)?;
        if self.options.protected.contains(source.status()) {
            self.record
                .left_out_file(&directory.path_of(&item.name), Refusal::Protected.to_string());
            return Ok(Opened::Finished);
        }
        self.refuse_twin(directory, item)?;
        let writes = self.operation != Operation::Verify;
        if self.links.is_further_name(&source, directory, item, writes) {
            return Ok(Opened::Finished);
        }
        let Room { input, scratch, is_all } = room;
        let left = Room { input: &mut *input, scratch: &mut *scratch, is_all };
        let replaces = match self.look_for_output(directory, item, &source, left, worker)? {
            Found::Complete => return Ok(Opened::Finished),
            Found::Full => return Ok(Opened::Full),
            Found::Undone => false,
            Found::Outdated => true,
        };
        if self.options.dry_run {
            // Nothing is begun in a dry run, so the room is the whole buffers.
            let room = Room { input, scratch, is_all };
            self.plan(directory, item, &source, replaces, room, worker)?;
            return Ok(Opened::Finished);
        }
        Ok(Opened::Blob(source, 0))
    }

    fn begin(
        &self,
        directory: &Arc<Directory>,
        item: &Item,
        source: &Source,
    ) -> Result<Option<TreeOutput>, FileError> {
        let Some(target) = &directory.target else { return Ok(None) };
        let leaves_holes = self.options.sparse && self.operation == Operation::Decrypt;
        let (how, at) = ((self.outputs, &self.metadata), (target, &*item.target));
        let begin = || TreeOutput::begin(how, at, source.status(), leaves_holes);
        let output = self.in_target(directory, begin).map_err(self.named(directory, item))?;
        if !output.file.has_its_mode() {
            // Here, killed runs leave their unfinished files.
            self.sweep_target(directory)?;
        }
        if source.length() > LONG {
            self.refuse_existing(directory, target, item)?;
        }
        Ok(Some(output))
    }

    fn finish(
        &self,
        done: Done<'_, Self>,
        output: Option<TreeOutput>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<(), FileError> {
        self.finish_file(&done, output, workspace)?;
        worker.count_units(1);
        Ok(())
    }

    fn again(&self, item: &Item, error: &FileError) -> Option<Item> {
        self.again_if_changed(item, error)
    }

    fn returned(item: Item) -> Item {
        Item { is_again: true, ..item }
    }

    fn failed(&self, directory: &Arc<Directory>, item: &Item, error: FileError) {
        self.record.failed_file(&directory.path_of(&item.name), error);
    }

    fn at_output(&self, directory: &Arc<Directory>, item: &Item, error: FileError) -> FileError {
        self.named(directory, item)(error)
    }

    fn path(directory: &Arc<Directory>, item: &Item) -> PathBuf {
        directory.path_of(&item.name)
    }
}
