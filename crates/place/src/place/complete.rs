//! Outputs that are complete already.

use evener_core::shown;
use evener_format::{Layout, Recipe};
use evener_pipeline::Worker;

use super::transfer::{Item, Transfer};
use super::{Fault, Kind, Reading};
use crate::tree::is_same_time;
use crate::{FileError, Operation};
use evener_seal::{Blob, Room, SegmentError, bytes_to_know, check_key, geometry_of};

impl Transfer<'_> {
    /// To resume: returns whether an object's output is complete, by its length and its key.
    pub(super) fn is_complete(
        &self,
        item: &Item,
        source: &Reading,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<bool, SegmentError> {
        let Some(store) = self.store.filter(|_| self.options.resume) else {
            return Ok(false);
        };
        let there = store.look(&item.output).map_err(FileError::from)?;
        let Some(there) = there.filter(|there| there.kind == Kind::Object) else {
            return Ok(false);
        };
        let name = shown(item.output.path()).to_string();
        let times =
            (item.metadata(source).modified_since_1970(), there.metadata.modified_since_1970());
        if let (Some(time), Some(there)) = times
            && !is_same_time(time, there)
        {
            let difference = "was not modified when its source was".to_owned();
            return Err(FileError::Differs { name, difference }.into());
        }
        let opened = |first: &mut [u8]| {
            let origin = store.origin().ok_or(FileError::Place(Fault::Unread))?;
            Ok::<_, FileError>(origin.open(&item.output, first)?)
        };
        let length = match there.length {
            Some(length) => length,
            None => opened(&mut [])?.0.length(),
        };
        let (plain, sealed) = match self.operation {
            Operation::Encrypt => (source.length(), length),
            Operation::Decrypt | Operation::Verify => (length, source.length()),
        };
        let belongs = |recipe: &Recipe| {
            let geometry = match (recipe, self.operation) {
                (Recipe::Age(_), Operation::Encrypt) => {
                    geometry_of(recipe, &Reading(opened(&mut []).ok()?.0))
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
        if !is_whole {
            let difference = format!("has {length} bytes, which its source does not give");
            return Err(FileError::Differs { name, difference }.into());
        }
        if self.operation == Operation::Encrypt {
            let Room { input, scratch, .. } = room;
            let length = bytes_to_know(self.keys).min(sealed) as usize;
            let needed = FileError::Memory { needed: 2 * length as u64 };
            let beginning = input.get_mut(..length).ok_or(needed)?;
            let (blob, read) = opened(beginning)?;
            if let Some(rest) = beginning.get_mut(read..).filter(|rest| !rest.is_empty()) {
                blob.read_at(rest, read as u64).map_err(FileError::from)?;
            }
            check_key(self.keys, beginning, &Reading(blob), scratch, worker).map_err(|error| {
                match error {
                    SegmentError::File(FileError::Format(_) | FileError::Rejected { .. }) => {
                        FileError::OtherKey(name).into()
                    }
                    other => other,
                }
            })?;
        }
        Ok(true)
    }
}
