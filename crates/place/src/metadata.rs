//! Mode, times, owner and extended attributes.

use std::ffi::{CStr, OsStr, OsString};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags,
    chownat, fchmod, fchown, fgetxattr, flistxattr, fremovexattr, fsetxattr, fstat, futimens,
    openat, readlinkat, utimensat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::exposure::{gives_more, lies_without_modes};
use crate::identity::permissions;
use crate::inherited::{EVERY_BIT, Inherited, bits_for};
use crate::unkept::Unkept;
use crate::{FileError, Operation, Refusal, TreeOptions};

/// The metadata that is copied from the source to the output.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// Owner and group.
    pub(crate) owner: bool,
    /// Extended attributes.
    pub(crate) xattrs: bool,
    /// The process's file mode creation mask, which `open` applies to new files.
    pub(crate) umask: u32,
    /// True if nobody may get more access to an output than its intended mode gives.
    guards_mode: bool,
    /// True if an output is its owner's alone, because the sources' file system has no modes: it
    /// shows the mount's modes, not the files' own.
    pub(crate) is_private: bool,
    /// True if an output may lack the chosen owner and extended attributes. It is then ciphertext,
    /// whose source still has them.
    pub(crate) may_lack: bool,
    /// The properties that the file system has not kept so far.
    pub(crate) unkept: Unkept,
}

impl Metadata {
    /// For an operation on a file or a tree.
    pub(crate) fn of(operation: Operation, source: &Path, options: &TreeOptions) -> Metadata {
        let seals = operation == Operation::Encrypt;
        let guards_mode = operation == Operation::Decrypt && !options.insecure_modes;
        Metadata {
            owner: options.owner,
            xattrs: options.xattrs,
            // Where the mask is unknown, every bit counts as masked, so every mode is set.
            umask: umask().unwrap_or(0o777),
            guards_mode,
            is_private: guards_mode && lies_without_modes(source),
            may_lack: seals && !options.remove_source,
            unkept: Unkept::default(),
        }
    }

    /// The notice about the outputs' modes.
    pub(crate) fn notice(&self) -> Option<&'static str> {
        self.is_private.then_some(PRIVATE)
    }

    /// Gives `output` the mode and times of `source`, and the owner and extended attributes if
    /// chosen. `there` is the output's current mode, if it is known, and `granted` has the bits
    /// that it may be given.
    pub(crate) fn apply(
        &self,
        source: BorrowedFd<'_>,
        status: &Stat,
        output: BorrowedFd<'_>,
        there: Option<Mode>,
        granted: Mode,
    ) -> Result<(), FileError> {
        let xattrs = || xattrs(source, |name| self.gives_xattr(name));
        self.apply_with(xattrs, status, output, there, granted)
    }

    /// The same with the extended attributes from elsewhere, which are asked for if they are chosen.
    pub(crate) fn apply_with(
        &self,
        xattrs: impl FnOnce() -> Result<Vec<Xattr>, FileError>,
        status: &Stat,
        output: BorrowedFd<'_>,
        there: Option<Mode>,
        granted: Mode,
    ) -> Result<(), FileError> {
        let has_owner = self.give_owner(status, output)?;
        if self.xattrs {
            self.set_xattrs(&xattrs()?, output)?;
        }
        let mode = self.wanted_mode(status) & granted;
        let mode = if has_owner { mode } else { mode & !SET_ID };
        // A change of owner clears the set-id bits, and an access list brings a mode of its own.
        if mode.intersects(SET_ID | Mode::SVTX) || self.xattrs || there != Some(mode) {
            self.set_mode(output, mode)?;
        }
        self.set_times(output, status)
    }

    /// Gives an output its mode. Where the file system sets none, plaintext must not be more open
    /// than that mode; ciphertext may be.
    pub(crate) fn set_mode(&self, output: BorrowedFd<'_>, mode: Mode) -> Result<(), FileError> {
        let system = FileError::system("set its mode");
        let Err(errno) = fchmod(output, mode) else { return Ok(()) };
        self.unkept.modes.forgive(errno).map_err(&system)?;
        let there = fstat(output).map_err(FileError::system("read its output's status"))?;
        match self.guards_mode && gives_more(permissions(&there), mode) {
            true => Err(system(errno)),
            false => Ok(()),
        }
    }

    /// Gives an output the times of its source, if the file system sets times.
    pub(crate) fn set_times(&self, output: BorrowedFd<'_>, status: &Stat) -> Result<(), FileError> {
        let times = times(status);
        let is_omitted = |time: &Timespec| time.tv_nsec == UTIME_OMIT;
        if [times.last_access, times.last_modification].iter().all(is_omitted) {
            return Ok(());
        }
        futimens(output, &times)
            .or_else(|errno| self.unkept.times.forgive(errno))
            .map_err(FileError::system("set its times"))
    }

    /// Gives a new directory its mode for the work. It keeps its set-group-ID bit, which passes its
    /// group on to new entries, until the end.
    pub(crate) fn widen(&self, directory: BorrowedFd<'_>, mode: Mode) -> Result<(), FileError> {
        let there = fstat(directory).map_err(FileError::system("read its output's status"))?;
        self.set_mode(directory, mode | permissions(&there) & Mode::SGID)
    }

    /// Does the same as `apply` for an output of an earlier run, and removes the extended
    /// attributes that its source no longer has.
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
                let name = OsStr::from_bytes(&name);
                match while_writable(output, || fremovexattr(output, name)) {
                    Ok(()) | Err(Errno::NODATA) => {}
                    Err(errno) => return Err(system(errno)),
                }
            }
        }
        self.apply(source, status, output, None, granted)
    }

    /// As [`Metadata::apply`] for a directory that existed before the run, if it looks like one
    /// left by an interrupted run and nobody gets more access to it than before. Any other stays as
    /// it is. Returns whether it now has the source's mode, owner and whatever else was chosen.
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
        let is_own = Uid::from_raw(there.st_uid) == geteuid();
        // New directories below one with this bit have it too.
        let is_as_made =
            before & !(Mode::SGID | Mode::SVTX) == self.directory_mode(status) && is_own;
        let access = Mode::from_raw_mode(0o777);
        let is_finished = has_owner && before == wanted;
        if is_finished && (is_own || self.owner) {
            // A run that was stopped has already given it its owner, or its mode.
            self.set_times(output, status)?;
        }
        if !is_as_made || !has_owner || !before.contains(wanted & access) {
            return Ok(is_finished);
        }
        if self.xattrs {
            let xattrs = xattrs(source, |name| !name.starts_with(ACCESS_LISTS))?;
            self.set_xattrs(&xattrs, output)?;
        }
        if before != wanted {
            self.set_mode(output, wanted)?;
        }
        self.set_times(output, status)?;
        // Access lists may admit others.
        self.has_xattrs(source, output)
    }

    /// Gives a symbolic link to `text` the times of another link, and its owner if chosen. Returns
    /// whether the file system keeps times of links.
    pub(crate) fn apply_to_link(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        text: &CStr,
        status: &Stat,
    ) -> Result<bool, FileError> {
        // By a descriptor, since the name may lead elsewhere by now.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let system = FileError::system("set the link's times");
        let link = openat(directory, name, flags, Mode::empty()).map_err(&system)?;
        match readlinkat(&link, c"", Vec::new()) {
            Ok(there) if *there == *text => {}
            Ok(_) | Err(Errno::NOENT | Errno::INVAL) => {
                return Err(Refusal::OutputReplaced.into());
            }
            Err(errno) => return Err(system(errno)),
        }
        if self.owner {
            let (user, group) = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
            let set = chownat(&link, c"", Some(user), Some(group), AtFlags::EMPTY_PATH);
            self.owner_was_set(set)?;
        }
        let times = times(status);
        let set = match utimensat(&link, c"", &times, AtFlags::EMPTY_PATH) {
            // Before Linux 5.8 the call takes a name.
            Err(Errno::INVAL) => {
                let itself = format!("/proc/self/fd/{}", link.as_raw_fd());
                utimensat(CWD, itself, &times, AtFlags::empty())
            }
            set => set,
        };
        match set {
            Ok(()) => Ok(true),
            // SFTP changes the link's target, which does not exist.
            Err(Errno::NOENT | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => Ok(false),
            Err(errno) => Err(system(errno)),
        }
    }

    /// Returns whether an output gets the extended attribute with this name.
    pub(crate) fn gives_xattr(&self, name: &[u8]) -> bool {
        self.owner || name != CAPABILITIES
    }

    /// Gives an output extended attributes.
    pub(crate) fn set_xattrs(
        &self,
        xattrs: &[Xattr],
        output: BorrowedFd<'_>,
    ) -> Result<(), FileError> {
        for (name, value) in xattrs {
            let set = || fsetxattr(output, &**name, value, XattrFlags::empty());
            match while_writable(output, set) {
                Err(errno) if self.may_lack => self.unkept.xattrs.forgive(errno),
                set => set,
            }
            .map_err(FileError::system(COPY_XATTRS))?;
        }
        Ok(())
    }

    /// Returns whether an output has the owner that it should have.
    pub(crate) fn has_owner(&self, source: &Stat, output: &Stat) -> bool {
        !self.owner || (output.st_uid, output.st_gid) == (source.st_uid, source.st_gid)
    }

    /// Returns whether an output has the extended attributes that it should have.
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

    /// Removes from a new output what it inherited from its directory, as
    /// [`Inherited::remove_from`] does.
    pub(crate) fn settle(
        &self,
        inherited: Inherited,
        output: BorrowedFd<'_>,
        source: &Stat,
    ) -> Result<Mode, FileError> {
        let inherited = if self.owner { inherited.without_group() } else { inherited };
        inherited.remove_from(output, source)
    }

    /// The permission bits that an existing output may be given.
    pub(crate) fn granted(&self, output: &Stat, source: &Stat) -> Mode {
        if self.owner { EVERY_BIT } else { bits_for(output, source) }
    }

    /// Gives an output the owner of its source if chosen. Returns whether that succeeded or was not
    /// chosen.
    fn give_owner(&self, status: &Stat, output: BorrowedFd<'_>) -> Result<bool, FileError> {
        if !self.owner {
            return Ok(true);
        }
        let (user, group) = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
        self.owner_was_set(fchown(output, Some(user), Some(group)))
    }

    fn owner_was_set(&self, set: Result<(), Errno>) -> Result<bool, FileError> {
        let lacks = |errno| match self.may_lack {
            true => self.unkept.owners.forgive(errno).map(|()| false),
            false => Err(errno),
        };
        set.map(|()| true).or_else(lacks).map_err(FileError::system("set its owner"))
    }

    /// The mode for an output. Without its owner, a file with a set-id bit would lend its users
    /// somebody else's rights.
    pub(crate) fn wanted_mode(&self, status: &Stat) -> Mode {
        let mode = permissions(status);
        let mode = if self.is_private { mode & Mode::RWXU } else { mode };
        if self.owner { mode } else { mode & !SET_ID }
    }

    /// The mode to make a directory with, in which its owner can work.
    pub(crate) fn directory_mode(&self, status: &Stat) -> Mode {
        self.creation_mode(status) | Mode::RWXU
    }

    /// The mode to create an output with.
    pub(crate) fn creation_mode(&self, status: &Stat) -> Mode {
        // While the owner may still change, nobody else gets access.
        let wanted = self.wanted_mode(status) & Mode::from_raw_mode(0o777);
        if self.owner { wanted & Mode::RWXU } else { wanted }
    }
}

/// The name of an extended attribute, and its value.
pub(crate) type Xattr = (OsString, Vec<u8>);

/// The extended attributes of a file whose names `takes` accepts.
pub(crate) fn xattrs(
    source: BorrowedFd<'_>,
    takes: impl Fn(&[u8]) -> bool,
) -> Result<Vec<Xattr>, FileError> {
    let system = FileError::system(COPY_XATTRS);
    let list = match whole(|buffer| flistxattr(source, buffer)) {
        // The source's filesystem has none.
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        list => list.map_err(&system)?,
    };
    let mut xattrs = Vec::new();
    for name in list.split(|&byte| byte == 0).filter(|name| !name.is_empty() && takes(name)) {
        let name = OsStr::from_bytes(name);
        match whole(|buffer| fgetxattr(source, name, buffer)) {
            // Removed since it was listed.
            Err(Errno::NODATA) => {}
            value => xattrs.push((name.to_owned(), value.map_err(&system)?)),
        }
    }
    Ok(xattrs)
}

/// Makes a call that needs a writable output. A read-only one is made writable for the call: its
/// owner may do that.
pub(crate) fn while_writable(
    output: BorrowedFd<'_>,
    call: impl Fn() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let done = call();
    if done != Err(Errno::ACCESS) {
        return done;
    }
    let mode = permissions(&fstat(output)?);
    fchmod(output, mode | Mode::WUSR)?;
    let done = call();
    fchmod(output, mode)?;
    done
}

/// The process's file mode creation mask, read without changing it; `None` if /proc does not show
/// it.
pub(crate) fn umask() -> Option<u32> {
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

const COPY_XATTRS: &str = "copy its extended attributes";

const PRIVATE: &str = "its file system gives all files one mode, so the outputs are yours alone";

const SET_ID: Mode = Mode::SUID.union(Mode::SGID);

/// Attributes that give a program privileges, like a set-id bit.
const CAPABILITIES: &[u8] = b"security.capability";

/// Attributes that control access, besides the mode.
const ACCESS_LISTS: &[u8] = b"system.posix_acl_";

/// The attributes of an output that users set and that `list`, its source's attributes, does not
/// have.
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
