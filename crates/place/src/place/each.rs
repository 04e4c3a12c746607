//! One object of a transfer: opens it, looks for its output, writes and publishes it.

use std::path::PathBuf;
use std::sync::Mutex;

use evener_core::IgnorePoison;
use evener_format::Layout;
use evener_pipeline::Worker;

use super::complete::There;
use super::parts::{Assembly, write_to};
use super::transfer::{Item, Transfer};
use super::{Fault, Reading};
use crate::{Control, FileError, Operation, TransferOptions};
use evener_seal::{Blob, Done, Draft, Objects, Opened, Room, SegmentError, Workspace};

/// An output. After a failure, the reason takes the place of the draft.
pub(super) struct Writing {
    assembly: Mutex<Result<Assembly, Fault>>,
    /// The length of the output, where padding may follow it.
    length: Option<u64>,
    /// True if it replaces the output of an older state.
    updates: bool,
}

impl Draft for Writing {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        let room = self.length.map_or(u64::MAX, |length| length.saturating_sub(offset));
        let bytes = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        if bytes.is_empty() && offset > 0 {
            return Ok(());
        }
        write_to(&self.assembly, |open| open.write_at(bytes, offset))
    }
}

impl Objects for Transfer<'_> {
    type Group = ();
    type Item = Item;
    type Blob = Reading;
    type Draft = Writing;

    fn is_same((): &(), (): &()) -> bool {
        true
    }

    fn open(
        &self,
        (): &(),
        item: &Item,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<Opened<Reading>, SegmentError> {
        // The first bytes of a long plain object are read with its first segment.
        let room_for = room.input.len() as u64;
        let is_long = item.entry.length.is_some_and(|length| length > room_for);
        let is_read_later = is_long && self.operation == Operation::Encrypt;
        let TransferOptions { resume, update, dry_run, .. } = *self.options;
        let needs_room = resume || update || dry_run;
        let first: &mut [u8] = if needs_room || is_read_later { &mut [] } else { &mut *room.input };
        let (blob, read) = self.origin.open(&item.entry.name, first).map_err(FileError::from)?;
        let source = Reading(blob);
        let read = read.min(usize::try_from(source.length()).unwrap_or(usize::MAX));
        let path = || item.entry.name.path().to_owned();
        if source.0.needs_nothing() {
            self.record.skipped(path, source.length());
            return Ok(Opened::Finished);
        }
        let Room { input, scratch, is_all } = room;
        let left = Room { input: &mut *input, scratch: &mut *scratch, is_all };
        let there = match self.look_for_output(item, &source, left, worker) {
            Err(SegmentError::File(FileError::Memory { .. })) if !is_all => {
                return Ok(Opened::Full);
            }
            there => there?,
        };
        let updates = update && there == There::Old;
        if let (There::Current, Some(store), false) = (&there, self.store, dry_run) {
            self.record.kept(store.keep(&item.output).map_err(FileError::from)?);
        }
        match there {
            There::Current if update => self.record.unchanged(path, source.length()),
            There::Current => self.record.skipped(path, source.length()),
            There::Nothing | There::Old if dry_run => {
                match self.check_source(&source, Room { input, scratch, is_all }, worker) {
                    Err(SegmentError::File(FileError::Memory { .. })) if !is_all => {
                        return Ok(Opened::Full);
                    }
                    checked => checked?,
                }
                self.record.done(path, source.length(), 0, updates);
            }
            There::Nothing | There::Old => {
                if updates {
                    self.old.lock().ignore_poison().insert(item.output.clone());
                }
                if source.length() > room_for {
                    source.0.will_read_all();
                }
                return Ok(Opened::Blob(source, read));
            }
        }
        Ok(Opened::Finished)
    }

    fn begin(&self, (): &(), item: &Item, source: &Reading) -> Result<Option<Writing>, FileError> {
        let Some(store) = self.store else { return Ok(None) };
        let geometry = self.keys.primary().geometry();
        let longest = match self.operation {
            Operation::Encrypt => {
                Layout::for_plaintext(&geometry, source.length())?.sealed_length()
            }
            Operation::Decrypt | Operation::Verify => {
                source.0.plain_length().unwrap_or(source.length())
            }
        };
        let updates = self.old.lock().ignore_poison().remove(&item.output);
        let mut object = self.new_object(&item.output, item.metadata(source), longest);
        object.replaces |= updates;
        object.changed = item.entry.stamp.map(|stamp| stamp.changed);
        let assembly = Mutex::new(Ok(Assembly::new(store.begin(&object)?, self.part, longest)?));
        Ok(Some(Writing { assembly, length: source.0.plain_length(), updates }))
    }

    fn finish(
        &self,
        done: Done<'_, Self>,
        output: Option<Writing>,
        _: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<(), FileError> {
        let Done { item, blob, length, .. } = done;
        blob.0.check()?;
        let (mut written, mut updates) = (0, false);
        if let Some(output) = output {
            updates = output.updates;
            written = output.length.unwrap_or(length);
            output.assembly.into_inner().ignore_poison()?.publish(written)?;
        }
        let read = blob.0.plain_length().unwrap_or(blob.length());
        self.record.done(|| item.entry.name.path().to_owned(), read, written, updates);
        worker.count_units(1);
        Ok(())
    }

    fn again(&self, item: &Item, error: &FileError) -> Option<Item> {
        may_repeat(error, item.changes, self.control)
            .then(|| Item { changes: item.changes + 1, ..item.clone() })
    }

    fn failed(&self, (): &(), item: &Item, error: FileError) {
        self.record.failed_file(item.entry.name.path(), error);
    }

    fn path((): &(), item: &Item) -> PathBuf {
        item.entry.name.path().to_owned()
    }
}

/// Returns whether to read an object again that has changed `changes` times while it was read.
pub(crate) fn may_repeat(error: &FileError, changes: u32, control: &Control) -> bool {
    let has_changed = *error == FileError::Place(Fault::Changed);
    has_changed && changes < MOST_REPEATS && !control.is_stopped()
}

/// How many times to read an object again that changed while it was read.
pub(crate) const MOST_REPEATS: u32 = 3;
