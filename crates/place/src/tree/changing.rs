//! Source files that change while they are read.

use super::directory::Item;
use super::work::TreeWork;
use crate::source::Source;
use crate::{FileError, Operation};

impl TreeWork<'_> {
    /// A file that changed while it was read, to be done again; `None` after a few times.
    pub(super) fn again_if_changed(&self, item: &Item, error: &FileError) -> Option<Item> {
        let is_again =
            *error == FileError::Changed && item.changes < MOST_REPEATS && !self.is_stopped();
        is_again.then(|| Item { changes: item.changes + 1, is_again: true, ..item.clone() })
    }

    /// Returns whether a file is as it was when it was opened. If this returns false, the file
    /// changed every time and is to be stored all the same.
    ///
    /// # Errors
    /// When the file has changed, and may not be stored.
    pub(super) fn is_unchanged(&self, item: &Item, source: &Source) -> Result<bool, FileError> {
        let is_last = item.changes >= MOST_REPEATS;
        let may_store = self.operation == Operation::Encrypt
            && !self.options.skip_changing
            && !self.options.remove_source;
        match source.check_unchanged() {
            Err(FileError::Changed) if is_last && may_store => Ok(false),
            checked => checked.map(|()| true),
        }
    }
}

/// How many times a file that changed while it was read is read again.
const MOST_REPEATS: u32 = 3;
