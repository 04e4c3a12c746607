//! Mode, times, owner and extended attributes.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod,
    fchown, fgetxattr, flistxattr, fremovexattr, fsetxattr, fstat, futimens, openat, readlinkat,
    utimensat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::inherited::{EVERY_BIT, Inherited, bits_for};
use crate::{FileError, Options};

/// The metadata that is copied from the source to the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metadata {
    /// Owner and group.
    pub(crate) owner: bool,
    /// Extended attributes.
    pub(crate) xattrs: bool,
    /// The process's file mode creation mask, which `open` applies to new files.
    pub(crate) umask: u32,
}

impl Metadata {
    pub(crate) fn of(options: &Options) -> Metadata {
        // Where the mask is unknown, taking every bit as masked means setting every mode.
        let umask = umask().unwrap_or(0o777);
        Metadata { owner: options.owner, xattrs: options.xattrs, umask }
    }

    /// Gives `output` the mode and times of `source`, and what else was chosen.
    /// `there` is the mode that the output has, if it is known, and `granted` has the bits that it may be
    /// given.
    pub(crate) fn apply(
        &self,
        source: BorrowedFd<'_>,
        status: &Stat,
        output: BorrowedFd<'_>,
        there: Option<Mode>,
        granted: Mode,
    ) -> Result<(), FileError> {
        self.give_owner(status, output)?;
        if self.xattrs {
            copy_xattrs(source, output, |name| self.owner || name != CAPABILITIES)?;
        }
        let mode = self.wanted_mode(status) & granted;
        // A change of owner clears the set-id bits, and an access list brings a mode of its own.
        let special = mode.intersects(Mode::SUID | Mode::SGID | Mode::SVTX);
        if special || self.xattrs || there != Some(mode) {
            fchmod(output, mode).map_err(FileError::system("set its mode"))?;
        }
        futimens(output, &times(status)).map_err(FileError::system("set its times"))
    }

    /// The same for an output of an earlier run, from which it takes the extended attributes that its source
    /// has no more.
    pub(crate) fn renew(
        &self,
        source: BorrowedFd<'_>,
        status: &Stat,
        output: BorrowedFd<'_>,
        granted: Mode,
    ) -> Result<(), FileError> {
        if self.xattrs {
            let system = FileError::system("remove its output's other extended attributes");
            let list = match whole(|buffer| flistxattr(source, buffer)) {
                Err(Errno::NOTSUP) => Vec::new(),
                list => list.map_err(&system)?,
            };
            for name in others(&list, output).map_err(&system)? {
                match fremovexattr(output, OsStr::from_bytes(&name)) {
                    Ok(()) | Err(Errno::NODATA) => {}
                    Err(errno) => return Err(system(errno)),
                }
            }
        }
        self.apply(source, status, output, None, granted)
    }

    /// As [`Metadata::apply`] for a directory that was there before the run, if it looks as an interrupted run
    /// leaves one and nobody gets more access to it than he has. Any other stays as it is.
    /// Returns whether it now has the mode, the owner and what else was chosen of the source.
    pub(crate) fn apply_to_unfinished(
        &self,
        source: BorrowedFd<'_>,
        status: &Stat,
        output: BorrowedFd<'_>,
    ) -> Result<bool, FileError> {
        let there = fstat(output).map_err(FileError::system("read its output's status"))?;
        let (before, wanted) = (permissions(&there), self.wanted_mode(status));
        let has_owner =
            !self.owner || (there.st_uid, there.st_gid) == (status.st_uid, status.st_gid);
        // Below a directory with this bit, new ones have it as well.
        let is_as_made = before & !Mode::SGID == self.directory_mode(status)
            && Uid::from_raw(there.st_uid) == geteuid();
        let access = Mode::from_raw_mode(0o777);
        let is_finished = has_owner && before == wanted;
        if self.owner && is_finished {
            // A run that was stopped has given it its owner already.
            futimens(output, &times(status)).map_err(FileError::system("set its times"))?;
        }
        if !is_as_made || !has_owner || !before.contains(wanted & access) {
            return Ok(is_finished);
        }
        if self.xattrs {
            copy_xattrs(source, output, |name| !name.starts_with(ACCESS_LISTS))?;
        }
        if before != wanted {
            fchmod(output, wanted).map_err(FileError::system("set its mode"))?;
        }
        futimens(output, &times(status)).map_err(FileError::system("set its times"))?;
        // Access lists may let others in.
        self.has_xattrs(source, output)
    }

    /// Gives a symbolic link to `text` itself the times of another, and its owner if that was chosen.
    /// Returns whether its file system keeps times of links.
    pub(crate) fn apply_to_link(
        &self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        text: &CStr,
        status: &Stat,
    ) -> Result<bool, FileError> {
        // By a descriptor, since the name may lead to something else by now.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let system = FileError::system("set the link's times");
        let link = openat(directory, name, flags, Mode::empty()).map_err(&system)?;
        match readlinkat(&link, c"", Vec::new()) {
            Ok(there) if *there == *text => {}
            Ok(_) | Err(Errno::NOENT | Errno::INVAL) => {
                return Err(FileError::Refused("its output was replaced meanwhile".to_owned()));
            }
            Err(errno) => return Err(system(errno)),
        }
        if self.owner {
            let (user, group) = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
            chownat(&link, c"", Some(user), Some(group), AtFlags::EMPTY_PATH)
                .map_err(FileError::system("set its owner"))?;
        }
        let times = times(status);
        let set = match utimensat(&link, c"", &times, AtFlags::EMPTY_PATH) {
            // Before Linux 5.8 it takes a name.
            Err(Errno::INVAL) => {
                let itself = format!("/proc/self/fd/{}", link.as_raw_fd());
                utimensat(CWD, itself, &times, AtFlags::empty())
            }
            set => set,
        };
        match set {
            Ok(()) => Ok(true),
            // SFTP changes what a link leads to, and that is not there.
            Err(Errno::NOENT | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => Ok(false),
            Err(errno) => Err(system(errno)),
        }
    }

    /// Whether an output has the owner that it is to have.
    pub(crate) fn has_owner(&self, source: &Stat, output: &Stat) -> bool {
        !self.owner || (output.st_uid, output.st_gid) == (source.st_uid, source.st_gid)
    }

    /// Whether an output has the extended attributes that it is to have.
    pub(crate) fn has_xattrs(
        &self,
        source: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
    ) -> Result<bool, FileError> {
        if !self.xattrs {
            return Ok(true);
        }
        let system = FileError::system("compare its extended attributes");
        let list = match whole(|buffer| flistxattr(source, buffer)) {
            Err(Errno::NOTSUP) => return Ok(true),
            list => list.map_err(&system)?,
        };
        let takes = |name: &&[u8]| !name.is_empty() && (self.owner || *name != CAPABILITIES);
        if !others(&list, output).map_err(&system)?.is_empty() {
            return Ok(false);
        }
        for name in list.split(|&byte| byte == 0).filter(takes) {
            let name = OsStr::from_bytes(name);
            let there = match whole(|buffer| fgetxattr(output, name, buffer)) {
                Err(Errno::NODATA | Errno::NOTSUP) => return Ok(false),
                there => there.map_err(&system)?,
            };
            match whole(|buffer| fgetxattr(source, name, buffer)) {
                Err(Errno::NODATA) => {}
                value if value.as_ref() == Ok(&there) => {}
                Ok(_) => return Ok(false),
                Err(errno) => return Err(system(errno)),
            }
        }
        Ok(true)
    }

    /// Takes from a new output what it has from its directory, as [`Inherited::remove_from`] does.
    pub(crate) fn settle(
        &self,
        inherited: Inherited,
        output: BorrowedFd<'_>,
        source: &Stat,
    ) -> Result<Mode, FileError> {
        let inherited = if self.owner { inherited.without_group() } else { inherited };
        inherited.remove_from(output, source)
    }

    /// The permission bits that an output may be given that is there.
    pub(crate) fn granted(&self, output: &Stat, source: &Stat) -> Mode {
        if self.owner { EVERY_BIT } else { bits_for(output, source) }
    }

    fn give_owner(&self, status: &Stat, output: BorrowedFd<'_>) -> Result<(), FileError> {
        if !self.owner {
            return Ok(());
        }
        let (user, group) = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
        fchown(output, Some(user), Some(group)).map_err(FileError::system("set its owner"))
    }

    /// The mode for an output. Without its owner, a file with a set-id bit would lend its users
    /// somebody else's rights.
    pub(crate) fn wanted_mode(&self, status: &Stat) -> Mode {
        let mode = permissions(status);
        if self.owner { mode } else { mode & !(Mode::SUID | Mode::SGID) }
    }

    /// The mode to make a directory with, in which its owner can work.
    pub(crate) fn directory_mode(&self, status: &Stat) -> Mode {
        let (wanted, _) = self.creation_mode(status);
        wanted | Mode::RWXU
    }

    /// The mode to create an output with, and the mode that it will then have.
    pub(crate) fn creation_mode(&self, status: &Stat) -> (Mode, Mode) {
        // While the owner may yet change, nobody else is to have access.
        let wanted = permissions(status) & Mode::from_raw_mode(0o777);
        let wanted = if self.owner { wanted & Mode::RWXU } else { wanted };
        (wanted, wanted & !Mode::from_raw_mode(self.umask))
    }
}

/// The permission bits of a status, set-id and sticky bits included.
pub(crate) fn permissions(status: &Stat) -> Mode {
    Mode::from_raw_mode(status.st_mode) & Mode::from_raw_mode(0o7777)
}

/// The process's file mode creation mask, read without changing it; `None` where /proc does
/// not tell.
fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between architectures")]
fn times(status: &Stat) -> Timestamps {
    let time =
        |seconds: i64, nanoseconds: i64| Timespec { tv_sec: seconds, tv_nsec: nanoseconds as _ };
    Timestamps {
        last_access: time(status.st_atime as i64, status.st_atime_nsec as i64),
        last_modification: time(status.st_mtime as i64, status.st_mtime_nsec as i64),
    }
}

/// Attributes that give a program privileges, like a set-id bit.
const CAPABILITIES: &[u8] = b"security.capability";

/// Attributes that control access, besides the mode.
const ACCESS_LISTS: &[u8] = b"system.posix_acl_";

/// The attributes of an output, of those that users give, that a list of its source's has not.
fn others(list: &[u8], output: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let there = match whole(|buffer| flistxattr(output, buffer)) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        there => there?,
    };
    let is_given = |name: &&[u8]| name.starts_with(b"user.") || name.starts_with(ACCESS_LISTS);
    let is_wanted = |name: &&[u8]| list.split(|&byte| byte == 0).any(|wanted| wanted == *name);
    let names = there.split(|&byte| byte == 0).filter(is_given);
    Ok(names.filter(|name| !is_wanted(name)).map(<[u8]>::to_vec).collect())
}

fn copy_xattrs(
    source: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    takes: impl Fn(&[u8]) -> bool,
) -> Result<(), FileError> {
    let action = "copy its extended attributes";
    let list = match whole(|buffer| flistxattr(source, buffer)) {
        // The source's filesystem has none.
        Err(Errno::NOTSUP) => return Ok(()),
        list => list.map_err(FileError::system(action))?,
    };
    for name in list.split(|&byte| byte == 0).filter(|name| !name.is_empty() && takes(name)) {
        let name = OsStr::from_bytes(name);
        match whole(|buffer| fgetxattr(source, name, buffer)) {
            // Removed since it was listed.
            Err(Errno::NODATA) => {}
            value => {
                let value = value.map_err(FileError::system(action))?;
                fsetxattr(output.as_fd(), name, &value, XattrFlags::empty())
                    .map_err(FileError::system(action))?;
            }
        }
    }
    Ok(())
}

/// Calls `read` with buffers that grow until its whole result fits.
fn whole(read: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; 1024];
    loop {
        match read(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 4, 0),
            Err(errno) => return Err(errno),
        }
    }
}
