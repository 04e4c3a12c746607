//! Outputs that are there already.

use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Stat, statat};
use rustix::io::Errno;

use super::Operation;
use super::directory::{Directory, Item, TargetDirectory};
use super::work::TreeWork;
use crate::FileError;
use crate::format::{Ending, Layout, Recipe};
use crate::source::Source;

impl TreeWork<'_> {
    /// With `--resume`: whether a file's output is complete. An output never has its final name
    /// before it is, so one of the right size and time is taken for complete.
    ///
    /// # Errors
    /// [`FileError::Differs`] when another file has the output's name and may not be replaced.
    pub(super) fn is_complete(
        &self,
        directory: &Arc<Directory>,
        item: &Item,
        source: &Source,
    ) -> Result<bool, FileError> {
        let Some(target) = TargetDirectory::of(directory).filter(|_| self.options.resume) else {
            return Ok(false);
        };
        let there = match statat(&target, &item.target, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) => there,
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(FileError::System { action: "look at its output", errno }),
        };
        if self.is_output_of(&there, source) {
            // Sources are removed only when this very run has verified the output: make it again.
            if self.options.remove_source {
                return Ok(false);
            }
            self.links.done(source);
            self.record.skipped(source.length());
            return Ok(true);
        }
        if self.options.overwrite {
            return Ok(false);
        }
        Err(FileError::Differs(item.target.to_string_lossy().into_owned()))
    }

    /// Refuses early what publishing would refuse after all the work.
    pub(super) fn refuse_existing(
        &self,
        target: &TargetDirectory,
        item: &Item,
    ) -> Result<(), FileError> {
        let exists = statat(target, &item.target, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if exists && !self.outputs.replaces() {
            return Err(FileError::Exists(item.target.to_string_lossy().into_owned()));
        }
        Ok(())
    }

    fn is_output_of(&self, there: &Stat, source: &Source) -> bool {
        let status = source.status();
        // Filesystems with coarser times keep whole seconds.
        let same_time = there.st_mtime == status.st_mtime
            && (there.st_mtime_nsec == status.st_mtime_nsec || there.st_mtime_nsec == 0);
        let length = there.st_size as u64;
        let fits = |recipe: &Recipe| match self.operation {
            Operation::Encrypt => Layout::for_plaintext(&recipe.geometry(), source.length())
                .is_ok_and(|layout| layout.sealed_length() == length),
            Operation::Decrypt | Operation::Verify => {
                Layout::for_sealed(&recipe.geometry(), source.length()).is_ok_and(|layout| {
                    let longest = layout.plain_length();
                    let padding = match recipe.geometry().ending {
                        Ending::Padded { block } => block - 1,
                        _ => 0,
                    };
                    (longest.saturating_sub(padding)..=longest).contains(&length)
                })
            }
        };
        FileType::from_raw_mode(there.st_mode) == FileType::RegularFile
            && same_time
            && self.keys.recipes().any(fits)
    }
}
