//! Planning: what an operation would say of a file, without reading its content.

use std::os::fd::AsFd;
use std::sync::Arc;

use evener_pipeline::Worker;
use rustix::fs::{Access, AtFlags, accessat};

use super::Operation;
use super::directory::{Directory, Item, TargetDirectory};
use super::work::TreeWork;
use crate::FileError;
use crate::format::Layout;
use crate::naming::refuse_special;
use crate::segment::{SegmentError, Segments};
use crate::source::Source;

impl TreeWork<'_> {
    /// Checks all that can keep a file from being done but damage, which only reading all of it
    /// would show, and a full disk.
    pub(super) fn plan(
        &self,
        directory: &Arc<Directory>,
        item: &Item,
        source: &Source,
        input: &mut [u8],
        scratch: &mut [u8],
        worker: &mut Worker<'_>,
    ) -> Result<(), SegmentError> {
        if source.length() == 0 {
            source.check_unchanged()?;
        }
        if self.operation == Operation::Encrypt {
            let geometry = self.keys.primary().geometry();
            let layout = Layout::for_plaintext(&geometry, source.length());
            Segments::new(layout.map_err(FileError::from)?, &geometry, self.room)?;
        } else {
            self.check_header(source, input, scratch, worker)?;
        }
        if let Some(target) = TargetDirectory::of(directory) {
            self.refuse_existing(&target, item)?;
            self.check_place(&target, item)?;
        }
        self.record.done(source.length(), 0);
        Ok(())
    }

    /// Checks that an output could be made in a directory that is there.
    fn check_place(&self, target: &TargetDirectory, item: &Item) -> Result<(), FileError> {
        refuse_special(target.as_fd(), &item.target)?;
        let access = Access::WRITE_OK | Access::EXEC_OK;
        accessat(target.as_fd(), c".", access, AtFlags::EACCESS)
            .map_err(FileError::system("create its output"))
    }
}
