//! Dry runs: the result for a file without reading its content.

use std::os::fd::AsFd;
use std::sync::Arc;

use evener_format::Layout;
use evener_pipeline::Worker;
use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;

use super::directory::{Directory, Item, Made};
use super::work::TreeWork;
use crate::FileError;
use crate::Operation;
use crate::access::may_remove;
use crate::naming::refuse_special;
use crate::source::Source;
use evener_seal::{Blob, Room, SegmentError, Segments};

impl TreeWork<'_> {
    /// Checks everything that can keep a file from being done, except damage, which only reading
    /// the whole file would show, and a full disk. `replaces` says that an output of an older state
    /// exists.
    pub(super) fn plan(
        &self,
        directory: &Arc<Directory>,
        item: &Item,
        source: &Source,
        replaces: bool,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<(), SegmentError> {
        if source.length() == 0 {
            source.check_unchanged()?;
        }
        if self.operation == Operation::Encrypt {
            let geometry = self.keys.primary().geometry();
            let layout = Layout::for_plaintext(&geometry, source.length());
            Segments::new(layout.map_err(FileError::from)?, &geometry, room.input.len())?;
        } else {
            self.check_header(source, room, worker)?;
        }
        if let Some(target) = &directory.target {
            let named = self.named(directory, item);
            self.may_make_in(directory, target)
                .map_err(FileError::system("create its output"))
                .and_then(|()| self.refuse_existing(directory, target, item))
                .and_then(|()| self.check_name(directory, target, item))
                .map_err(named)?;
            self.outputs.refuse_protected(target.as_fd(), &item.target)?;
            directory.claims.take_name(target.as_fd(), &item.target, || Ok(()))?;
        }
        if self.options.remove_source {
            may_remove(directory.source.as_fd(), source.status())
                .map_err(FileError::system("remove the source"))?;
        }
        self.record.done(|| directory.path_of(&item.name), source.length(), 0, replaces);
        Ok(())
    }

    /// Checks that an output could have its name, or replace the entry that has it.
    fn check_name(
        &self,
        directory: &Directory,
        target: &Made,
        item: &Item,
    ) -> Result<(), FileError> {
        refuse_special(target.as_fd(), &item.target)?;
        match statat(target, &item.target, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) => may_remove(target.as_fd(), &there)
                .or_else(|errno| match errno {
                    Errno::ACCESS => self.may_make_in(directory, target),
                    errno => Err(errno),
                })
                .map_err(FileError::system("give its output a name")),
            Err(_) => Ok(()),
        }
    }
}
