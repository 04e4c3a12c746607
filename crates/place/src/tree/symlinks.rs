//! Symbolic links, which are recreated as they are.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use evener_core::{IgnorePoison, shown};
use rustix::fs::{AtFlags, FileType, readlinkat, statat, symlinkat};
use rustix::io::Errno;

use super::directory::{Directory, Made};
use super::links::Name;
use super::work::TreeWork;
use crate::identity::Identity;
use crate::naming::{kind_of_name, noun_of};
use crate::temporary::symlink_over;
use crate::unkept::NO_TIMES_OF_LINKS;
use crate::{FileError, Operation};

impl TreeWork<'_> {
    /// Makes the same symbolic link in the target tree, now or after the deletions.
    pub(super) fn copy_symlink(
        &self,
        directory: &Directory,
        name: &OsStr,
    ) -> Result<(), FileError> {
        let has_directory =
            |target: &Arc<Made>| kind_of_name(target.as_fd(), name) == Some(FileType::Directory);
        let deletes = self.options.existing.delete().is_some();
        if !deletes || !directory.target.as_ref().is_some_and(has_directory) {
            return self.copy_symlink_now(directory, name);
        }
        if self.options.dry_run {
            self.directories.count_symlink();
            return Ok(());
        }
        let late = (Name::of(directory, name, name), directory.claims.clone());
        self.late_symlinks.lock().ignore_poison().push(late);
        Ok(())
    }

    /// Makes the links whose place a directory had until the deletions.
    pub(super) fn make_late_symlinks(&self, root: &Directory) {
        let late = std::mem::take(&mut *self.late_symlinks.lock().ignore_poison());
        let Some(ways) = &mut root.ways().filter(|_| !self.is_stopped()) else { return };
        for (name, claims) in late {
            let made = self.open_again(root, ways, &name, claims);
            let made = made.and_then(|(it, _)| self.copy_symlink_now(&it, &name.source));
            if let Err(error) = made {
                self.record.failed(&name.source(), error);
            }
        }
    }

    fn copy_symlink_now(&self, directory: &Directory, name: &OsStr) -> Result<(), FileError> {
        if self.operation == Operation::Verify {
            self.directories.count_symlink();
            return Ok(());
        }
        self.refuse_own_name(directory, name)?;
        self.refuse_collision(directory, name)?;
        let text = readlinkat(&directory.source, name, Vec::new())
            .map_err(FileError::system("read the link"))?;
        let Some(target) = &directory.target else {
            self.directories.count_symlink();
            return Ok(());
        };
        let named = self.at_name(&directory.location, name);
        if !self.writes() {
            return self.plan_symlink(directory, target, name, &text).map_err(named);
        }
        let make = || self.make_symlink(directory, target, name, &text);
        let made =
            directory.claims.take_name(target.as_fd(), name, || self.in_target(directory, make));
        made.map_err(&named)?;
        let status = statat(&directory.source, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(FileError::system("read the link's times"))?;
        let kept = self.metadata.apply_to_link(target.as_fd(), name, &text, &status);
        if !kept.map_err(&named)? {
            self.record.notice(&directory.path_of(name), NO_TIMES_OF_LINKS);
        }
        self.directories.count_symlink();
        Ok(())
    }

    /// Makes a symbolic link to `text`, replacing the entry of its name if that is allowed.
    fn make_symlink(
        &self,
        directory: &Directory,
        target: &Made,
        name: &OsStr,
        text: &CStr,
    ) -> Result<(), FileError> {
        let shown_name = || shown(name).to_string();
        match symlinkat(text, target, name) {
            Err(Errno::EXIST) if self.is_link_to(target, name, text) && self.minds_names() => {
                Ok(())
            }
            Err(Errno::EXIST) if self.options.existing.replaces() => {
                let system = FileError::system("make the link");
                directory.claims.publish(target.as_fd(), name, || {
                    refuse_no_link(target.as_fd(), name)?;
                    symlink_over(target.as_fd(), text, name).map_err(&system)?;
                    let made = statat(target, name, AtFlags::SYMLINK_NOFOLLOW).map_err(&system)?;
                    Ok(Identity::of(&made))
                })?;
                Ok(())
            }
            Err(Errno::EXIST) => Err(FileError::Taken(shown_name())),
            made => made.map_err(FileError::system("make the link")),
        }
    }

    /// The dry run of [`TreeWork::make_symlink`].
    fn plan_symlink(
        &self,
        directory: &Directory,
        target: &Made,
        name: &OsStr,
        text: &CStr,
    ) -> Result<(), FileError> {
        let is_there = statat(target, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let replaces = self.options.existing.replaces();
        let may_stay =
            replaces || self.options.existing.resumes() && self.is_link_to(target, name, text);
        if is_there && !may_stay {
            return Err(FileError::Taken(shown(name).to_string()));
        }
        let stays = self.minds_names() && self.is_link_to(target, name, text);
        if !stays {
            refuse_no_link(target.as_fd(), name)?;
            self.may_make_in(directory, target).map_err(FileError::system("make the link"))?;
        }
        self.directories.count_symlink();
        Ok(())
    }

    fn is_link_to(&self, target: &Made, name: &OsStr, text: &CStr) -> bool {
        readlinkat(target, name, Vec::new()).is_ok_and(|there| *there == *text)
    }
}

/// Refuses to replace anything but a symbolic link with one: a file there may be the output of
/// another source.
pub(crate) fn refuse_no_link(target: BorrowedFd<'_>, name: &OsStr) -> Result<(), FileError> {
    match kind_of_name(target, name) {
        None | Some(FileType::Symlink) => Ok(()),
        Some(kind) => Err(FileError::NoLink { name: shown(name).to_string(), kind: noun_of(kind) }),
    }
}
