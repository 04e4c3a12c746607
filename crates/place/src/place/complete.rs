//! Outputs that exist already.

use evener_core::shown;
use evener_format::{Layout, Recipe};
use evener_pipeline::Worker;

use super::transfer::{Item, Transfer};
use super::{Entry, Fault, Kind, Origin, Reading, Store};
use crate::tree::is_same_time;
use crate::{FileError, Operation};
use evener_seal::{Blob, Room, SegmentError, bytes_to_know, check_key, geometry_of, opens_header};

/// The state of an output in the store.
#[derive(PartialEq, Eq)]
pub(super) enum There {
    /// Nothing exists, or no option asked.
    Nothing,
    /// An output that may be replaced.
    Old,
    /// The source's output, complete and up to date.
    Current,
}

impl Transfer<'_> {
    /// Looks for an object's output if an option asks for it: to resume, to update, or for a dry
    /// run.
    ///
    /// # Errors
    /// Those of an output that may not be replaced.
    pub(super) fn look_for_output(
        &self,
        item: &Item,
        source: &Reading,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<There, SegmentError> {
        let options = self.options;
        let compares = options.resume || options.update;
        let Some(store) = self.store.filter(|_| compares || options.dry_run) else {
            return Ok(There::Nothing);
        };
        let Some(there) = store.look(&item.output).map_err(FileError::from)? else {
            return Ok(There::Nothing);
        };
        if there.kind != Kind::Object || !compares {
            let is_refused = options.dry_run && !(options.overwrite && there.kind == Kind::Object);
            return match is_refused {
                true => Err(FileError::from(Fault::Exists(item.output.clone())).into()),
                false => Ok(There::Nothing),
            };
        }
        let found = (store, &there);
        match options.update {
            true => self.look_for_change(item, source, found, room, worker),
            false => self.look_whether_complete(item, source, found, room, worker),
        }
    }

    /// To resume: an output with the right size, time and key is complete.
    fn look_whether_complete(
        &self,
        item: &Item,
        source: &Reading,
        (store, there): (&dyn Store, &Entry),
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<There, SegmentError> {
        let difference = self.difference(item, source, (store, there))?;
        match difference {
            Some(_) if self.options.overwrite => return Ok(There::Old),
            Some(difference) => {
                let name = shown(item.output.path()).to_string();
                return Err(FileError::Differs { name, difference }.into());
            }
            None => self.check_key_of(item, store, there, room, worker)?,
        }
        Ok(There::Current)
    }

    /// To update: follows the rules of [`Update`](crate::Update).
    fn look_for_change(
        &self,
        item: &Item,
        source: &Reading,
        (store, there): (&dyn Store, &Entry),
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<There, SegmentError> {
        let is_current = self.difference(item, source, (store, there))?.is_none()
            && self.is_unchanged(item, source, there);
        if self.operation == Operation::Encrypt {
            match self.check_key_of(item, store, there, room, worker) {
                Err(SegmentError::File(FileError::OtherKey(_))) if self.options.overwrite => {
                    return Ok(There::Old);
                }
                checked => checked?,
            }
        } else if !is_current && !self.options.overwrite {
            let [output, source] = [&there.metadata, item.metadata(source)]
                .map(|metadata| metadata.modified_since_1970());
            if output.zip(source).is_some_and(|(output, source)| output > source) {
                return Err(FileError::Newer(shown(item.output.path()).to_string()).into());
            }
        }
        Ok(if is_current { There::Current } else { There::Old })
    }

    /// Returns whether a source of the same size and time is otherwise unchanged since its output
    /// was made. A program can set a file's time back, but not the time of its last change.
    fn is_unchanged(&self, item: &Item, source: &Reading, there: &Entry) -> bool {
        let encrypts = self.operation == Operation::Encrypt;
        let modes = [item.metadata(source).mode, there.metadata.mode];
        if let ([Some(mode), Some(there)], true) = (modes, encrypts)
            && mode != there
        {
            return false;
        }
        if self.options.ignore_ctime {
            return true;
        }
        match item.entry.stamp.zip(there.source_changed) {
            Some((stamp, changed)) => stamp.changed == changed,
            None => {
                self.lack_change_times();
                true
            }
        }
    }

    /// Describes how the time or size of an output differs from its source's.
    fn difference(
        &self,
        item: &Item,
        source: &Reading,
        (store, there): (&dyn Store, &Entry),
    ) -> Result<Option<String>, FileError> {
        let times =
            (item.metadata(source).modified_since_1970(), there.metadata.modified_since_1970());
        if let (Some(time), Some(there)) = times
            && !is_same_time(time, there)
        {
            return Ok(Some("was not modified when its source was".to_owned()));
        }
        let length = length(item, store, there)?;
        let (plain, sealed) = match self.operation {
            Operation::Encrypt => (source.length(), length),
            Operation::Decrypt | Operation::Verify => (length, source.length()),
        };
        let belongs = |recipe: &Recipe| {
            let geometry = match (recipe, self.operation) {
                (Recipe::Age(_), Operation::Encrypt) => {
                    geometry_of(recipe, &Reading(opened(item, store, &mut []).ok()?.0))
                }
                _ => geometry_of(recipe, source),
            };
            let layout = Layout::for_plaintext(&geometry.ok()?, plain).ok()?;
            (layout.sealed_length() == sealed).then_some(())
        };
        let is_whole = match source.0.plain_length() {
            Some(length) => length == plain,
            None => self.keys.recipes().any(|recipe| belongs(recipe).is_some()),
        };
        let told = || format!("has {length} bytes, which its source does not give");
        Ok((!is_whole).then(told))
    }

    /// Checks that a sealed output was made with one of the keys.
    fn check_key_of(
        &self,
        item: &Item,
        store: &dyn Store,
        there: &Entry,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<(), SegmentError> {
        let is_unknown = self.options.has_closed_keys && !self.options.update;
        if self.operation != Operation::Encrypt || is_unknown {
            return Ok(());
        }
        let other_key = || FileError::OtherKey(shown(item.output.path()).to_string());
        if !self.keys.opens_files() {
            let (blob, _) = opened(item, store, &mut [])?;
            return match opens_header(self.keys, &Reading(blob))? {
                true => Ok(()),
                false => Err(other_key().into()),
            };
        }
        let Room { input, scratch, .. } = room;
        let length = bytes_to_know(self.keys).min(length(item, store, there)?) as usize;
        let needed = FileError::Memory { needed: 2 * length as u64 };
        let beginning = input.get_mut(..length).ok_or(needed)?;
        let (blob, read) = opened(item, store, beginning)?;
        if let Some(rest) = beginning.get_mut(read..).filter(|rest| !rest.is_empty()) {
            blob.read_at(rest, read as u64).map_err(FileError::from)?;
        }
        let checked = check_key(self.keys, beginning, &Reading(blob), scratch, worker);
        checked.map_err(|error| match error {
            SegmentError::File(FileError::Format(_) | FileError::Rejected { .. }) => {
                other_key().into()
            }
            other => other,
        })
    }

    /// In a dry run: checks the beginning of a source.
    pub(super) fn check_source(
        &self,
        source: &Reading,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<(), SegmentError> {
        if self.operation == Operation::Encrypt {
            let geometry = self.keys.primary().geometry();
            let layout = Layout::for_plaintext(&geometry, source.length());
            return layout.map(drop).map_err(|error| FileError::from(error).into());
        }
        if source.0.recipe().is_some() {
            return Ok(());
        }
        let Room { input, scratch, .. } = room;
        let length = source.length().min(bytes_to_know(self.keys));
        let beginning = usize::try_from(length).ok().and_then(|length| input.get_mut(..length));
        let beginning = beginning.ok_or(FileError::Memory { needed: length.saturating_mul(2) })?;
        source.0.read_at(beginning, 0).map_err(FileError::from)?;
        check_key(self.keys, beginning, source, scratch, worker)
    }
}

/// Opens an output, and reads its first bytes.
fn opened(
    item: &Item,
    store: &dyn Store,
    first: &mut [u8],
) -> Result<(Box<dyn super::Blob>, usize), FileError> {
    let origin: &dyn Origin = store.origin().ok_or(FileError::Place(Fault::Unread))?;
    Ok(origin.open(&item.output, first)?)
}

/// The length of an output in bytes.
fn length(item: &Item, store: &dyn Store, there: &Entry) -> Result<u64, FileError> {
    match there.length {
        Some(length) => Ok(length),
        None => Ok(opened(item, store, &mut [])?.0.length()),
    }
}
