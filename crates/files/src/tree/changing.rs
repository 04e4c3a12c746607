//! Source files that change while they are read.

use std::sync::Arc;

use evener_pipeline::Queue;

use super::directory::{Directory, Item};
use super::work::{Task, TreeWork};
use crate::FileError;
use crate::Operation;
use crate::source::Source;

impl TreeWork<'_> {
    /// Records why a file was not done. A file that changed while it was read is done again
    /// instead, a few times.
    pub(super) fn failed_or_again(
        &self,
        directory: &Arc<Directory>,
        item: &Item,
        error: FileError,
        queue: &Queue<Task>,
    ) {
        if error == FileError::Changed && item.changes < MOST_REPEATS && !self.is_stopped() {
            let again = Item { changes: item.changes + 1, is_again: true, ..item.clone() };
            queue.share(Task::Files { directory: directory.clone(), files: vec![again] });
        } else {
            self.record.failed_file(&directory.path_of(&item.name), error);
        }
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
