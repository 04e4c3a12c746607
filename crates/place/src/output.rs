//! Output files, which get their names when they are complete.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use evener_core::shown;
use evener_keys::is_wrapped_key_in;
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, flock, ftruncate, linkat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec, pwrite, retry_on_intr};

use crate::naming::{Naming, refuse_special, rename_to_free};
use crate::temporary::{create_temporary, refuse_temporary, temporary_name};
use crate::{Control, FileError, Operation, Protected, Refusal};

/// How outputs are made on one filesystem.
///
/// An output is first a nameless file (`O_TMPFILE`), which the kernel itself removes if the process
/// dies, and gets its name by `linkat` when it is complete. Where the filesystem has no nameless
/// files, or can't name them, the output has a temporary name in the same directory and is renamed.
#[derive(Debug)]
pub(crate) struct Outputs {
    nameless: AtomicBool,
    /// True if a nameless file has been given a name.
    proved: AtomicBool,
    /// True if a nameless file may be linked by its descriptor alone.
    by_descriptor: AtomicBool,
    replace: bool,
    /// True if `Existing::Resume` would skip an output that is complete.
    resumable: bool,
    /// Files that no output may replace.
    protected: Protected,
    /// The other sources of the run, which no output may replace either.
    sources: Protected,
    /// True if outputs are encrypted, so that none may replace a wrapped key.
    seals: bool,
    /// True if names were given that the filesystem could not reserve for one file.
    checked: AtomicBool,
    /// True if the trial file could not be removed.
    left: AtomicBool,
    /// The number of temporary names.
    temporaries: Arc<AtomicUsize>,
}

/// A file that is being written. Dropping it without [`Output::publish`] leaves no trace.
#[derive(Debug)]
pub(crate) struct Output<D: AsFd> {
    file: OwnedFd,
    directory: D,
    name: OsString,
    temporary: Option<Temporary>,
    published: AtomicBool,
}

/// A temporary name, which is counted while it exists.
#[derive(Debug)]
struct Temporary {
    name: OsString,
    count: Arc<AtomicUsize>,
}

impl Temporary {
    fn new(name: OsString, count: &Arc<AtomicUsize>) -> Temporary {
        count.fetch_add(1, Ordering::SeqCst);
        Temporary { name, count: Arc::clone(count) }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Outputs {
    /// `replace` says whether outputs replace existing files, `resumable` which error reports
    /// those. The operation's own keys are never replaced.
    pub(crate) fn new(
        operation: Operation,
        replace: bool,
        resumable: bool,
        protected: &Protected,
        control: &Control,
    ) -> Outputs {
        Outputs {
            nameless: AtomicBool::new(true),
            proved: AtomicBool::new(false),
            by_descriptor: AtomicBool::new(true),
            replace,
            resumable,
            protected: protected.clone(),
            sources: Protected::default(),
            seals: operation == Operation::Encrypt,
            checked: AtomicBool::new(false),
            left: AtomicBool::new(false),
            temporaries: Arc::clone(control.temporaries()),
        }
    }

    /// Has outputs replace none of these sources.
    pub(crate) fn sparing(self, sources: Protected) -> Outputs {
        Outputs { sources, ..self }
    }

    /// Notices for the user about the names of outputs.
    pub(crate) fn notices(&self) -> impl Iterator<Item = &'static str> {
        let checked = self.checked.load(Ordering::Relaxed).then(|| Naming::Checked.notice());
        let left = self.left.load(Ordering::Relaxed).then_some(LEFT);
        checked.flatten().into_iter().chain(left)
    }

    /// Refuses to replace a key of the operation, or a file that opens it: without them none of its
    /// outputs can be read. An encrypted file does not replace any wrapped key either, and no
    /// output another source of the run.
    pub(crate) fn refuse_protected(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Result<(), FileError> {
        if !self.replace {
            return Ok(());
        }
        match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) if self.protected.contains(&there) => {
                Err(Refusal::ReplacesKey(shown(name).to_string()).into())
            }
            Ok(there) if self.sources.contains(&there) => {
                Err(Refusal::ReplacesSource(shown(name).to_string()).into())
            }
            Ok(_) if self.seals && is_wrapped_key_in(directory, name, false) => {
                Err(Refusal::ReplacesWrappedKey(shown(name).to_string()).into())
            }
            _ => Ok(()),
        }
    }

    /// Begins a file that is to be called `name` in `directory`.
    pub(crate) fn create<D: AsFd>(
        &self,
        directory: D,
        name: &OsStr,
        mode: Mode,
    ) -> Result<Output<D>, FileError> {
        refuse_temporary(name)?;
        if self.replace {
            refuse_special(directory.as_fd(), name)?;
        }
        self.refuse_protected(directory.as_fd(), name)?;
        let name = name.to_owned();
        if self.nameless.load(Ordering::Relaxed) {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            match retry_on_intr(|| openat(&directory, c".", flags, mode)) {
                Ok(file) => {
                    let file = above_standard(file)?;
                    let can_name = self.can_name(directory.as_fd());
                    if can_name.map_err(FileError::system("create its output"))? {
                        return Ok(Output::new(file, directory, name, None));
                    }
                    self.nameless.store(false, Ordering::Relaxed);
                }
                // The answers of kernels and filesystems without nameless files.
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
                    self.nameless.store(false, Ordering::Relaxed);
                }
                Err(errno) => return Err(FileError::system("create its output")(errno)),
            }
        }
        let (file, temporary) = create_temporary(directory.as_fd())?;
        let file = above_standard(file)?;
        let temporary = Temporary::new(temporary, &self.temporaries);
        Ok(Output::new(file, directory, name, Some(temporary)))
    }

    /// Returns whether a nameless file can be given a name. Tries it before the first one with a
    /// file of no other use, because a file that has lost its name can't be given another.
    fn can_name(&self, directory: BorrowedFd<'_>) -> Result<bool, Errno> {
        if self.proved.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let trial = retry_on_intr(|| openat(directory, c".", flags, Mode::RUSR | Mode::WUSR))?;
        let temporary = Temporary::new(temporary_name(), &self.temporaries);
        match self.link_nameless(&trial, directory, &temporary.name) {
            Ok(()) => {
                // Another run's `sweep` may have removed it first.
                let removed = unlinkat(directory, &temporary.name, AtFlags::empty());
                if removed.is_err_and(|errno| errno != Errno::NOENT) {
                    self.left.store(true, Ordering::Relaxed);
                }
                self.proved.store(true, Ordering::Relaxed);
                Ok(true)
            }
            // Filesystems without links, and systems that hide /proc from the process.
            Err(
                Errno::PERM
                | Errno::OPNOTSUPP
                | Errno::NOSYS
                | Errno::INVAL
                | Errno::NOENT
                | Errno::ACCESS
                | Errno::XDEV
                | Errno::LOOP,
            ) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Gives a nameless file a name: by its descriptor, which takes Linux 6.10 or a privilege
    /// (`CAP_DAC_READ_SEARCH`), or by its name in /proc, which takes half as long again.
    fn link_nameless(
        &self,
        file: &OwnedFd,
        directory: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Result<(), Errno> {
        let by_descriptor = self.by_descriptor.load(Ordering::Relaxed);
        if by_descriptor {
            match retry_on_intr(|| linkat(file, c"", directory, name, AtFlags::EMPTY_PATH)) {
                // Perhaps only this file fails: its directory may be gone.
                Err(Errno::NOENT | Errno::PERM | Errno::ACCESS | Errno::INVAL) => {}
                result => return result,
            }
        }
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        retry_on_intr(|| linkat(CWD, &*itself, directory, name, AtFlags::SYMLINK_FOLLOW))?;
        if by_descriptor {
            self.by_descriptor.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The error for an output's name that is taken, which depends on the kind of the existing
    /// entry.
    pub(crate) fn taken(&self, directory: BorrowedFd<'_>, name: &OsStr) -> FileError {
        let shown = shown(name).to_string();
        match refuse_special(directory, name) {
            Err(special) => special,
            Ok(()) if self.resumable => FileError::Exists(shown),
            Ok(()) => FileError::Taken(shown),
        }
    }

    /// Returns whether existing files are replaced.
    pub(crate) fn replaces(&self) -> bool {
        self.replace
    }
}

impl<D: AsFd> Output<D> {
    fn new(file: OwnedFd, directory: D, name: OsString, temporary: Option<Temporary>) -> Output<D> {
        Output { file, directory, name, temporary, published: AtomicBool::new(false) }
    }

    /// Returns whether the file was created with the requested mode. A file with a temporary name
    /// is accessible to its owner alone.
    pub(crate) fn has_its_mode(&self) -> bool {
        self.temporary.is_none()
    }

    /// Writes all of `bytes` at `offset`.
    pub(crate) fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        let (mut bytes, mut offset) = (bytes, offset);
        while !bytes.is_empty() {
            match pwrite(&self.file, bytes, offset) {
                Ok(0) => return Err(FileError::system("write its output")(Errno::IO)),
                Ok(count) => {
                    bytes = &bytes[count..];
                    offset += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(FileError::system("write its output")(errno)),
            }
        }
        Ok(())
    }

    /// Writes as [`Output::write_all_at`] does, but leaves holes where whole pages of the file are
    /// zero. The caller sets the file's length at the end.
    pub(crate) fn write_sparse_at(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        let mut start = 0;
        while start < bytes.len() {
            let zero = is_hole(&bytes[start..], offset + start as u64);
            let mut end = start;
            while end < bytes.len() && is_hole(&bytes[end..], offset + end as u64) == zero {
                end = next_page(end, offset).min(bytes.len());
            }
            if !zero {
                self.write_all_at(&bytes[start..end], offset + start as u64)?;
            }
            start = end;
        }
        Ok(())
    }

    /// Sets the file's length.
    pub(crate) fn set_length(&self, length: u64) -> Result<(), FileError> {
        retry_on_intr(|| ftruncate(&self.file, length))
            .map_err(FileError::system("write its output"))
    }

    /// The directory that the file will be in.
    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Gives the complete file its name in one step.
    ///
    /// # Errors
    /// The error of [`Outputs::taken`], when a file has that name and may not be replaced.
    pub(crate) fn publish(&self, outputs: &Outputs) -> Result<(), FileError> {
        let naming = match &self.temporary {
            None => self.publish_nameless(outputs)?,
            Some(temporary) if outputs.replace => self.replace(outputs, &temporary.name)?,
            Some(temporary) => rename_to_free(self.directory.as_fd(), &temporary.name, &self.name)
                .map_err(|errno| self.has_no_name(outputs, errno))?,
        };
        if naming == Naming::Checked {
            outputs.checked.store(true, Ordering::Relaxed);
        }
        self.published.store(true, Ordering::Release);
        Ok(())
    }

    fn publish_nameless(&self, outputs: &Outputs) -> Result<Naming, FileError> {
        let directory = self.directory.as_fd();
        match outputs.link_nameless(&self.file, directory, &self.name) {
            Ok(()) => Ok(Naming::Exclusive),
            // A link can't replace a file, but a rename can.
            Err(Errno::EXIST) if outputs.replace => {
                // Tells `sweep` that the file is in use.
                let _ = flock(&self.file, FlockOperation::NonBlockingLockExclusive);
                let temporary = Temporary::new(temporary_name(), &outputs.temporaries);
                outputs
                    .link_nameless(&self.file, directory, &temporary.name)
                    .map_err(|errno| self.has_no_name(outputs, errno))?;
                self.replace(outputs, &temporary.name).inspect_err(|_| self.remove(&temporary.name))
            }
            Err(errno) => Err(self.has_no_name(outputs, errno)),
        }
    }

    /// Gives the file `from` this output's name; replaces only a regular file.
    fn replace(&self, outputs: &Outputs, from: &OsStr) -> Result<Naming, FileError> {
        let directory = self.directory.as_fd();
        refuse_special(directory, &self.name)?;
        outputs.refuse_protected(directory, &self.name)?;
        retry_on_intr(|| renameat(directory, from, directory, &self.name))
            .map_err(|errno| self.has_no_name(outputs, errno))?;
        Ok(Naming::Exclusive)
    }

    fn has_no_name(&self, outputs: &Outputs, errno: Errno) -> FileError {
        match errno {
            Errno::EXIST => outputs.taken(self.directory.as_fd(), &self.name),
            errno => FileError::system("give its output a name")(errno),
        }
    }

    fn remove(&self, temporary: &OsStr) {
        // If this fails, the next `sweep` removes the file.
        let _ = unlinkat(&self.directory, temporary, AtFlags::empty());
    }
}

impl<D: AsFd> AsFd for Output<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl<D: AsFd> Drop for Output<D> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary
            && !*self.published.get_mut()
        {
            self.remove(&temporary.name);
        }
    }
}

/// Returns the same file by a descriptor that is not a standard one. If a module's code has closed
/// one of those, the next file gets its number, and text written to standard error would go into
/// the file.
fn above_standard(file: OwnedFd) -> Result<OwnedFd, FileError> {
    if file.as_raw_fd() > STDERR {
        return Ok(file);
    }
    fcntl_dupfd_cloexec(&file, STDERR + 1).map_err(FileError::system("create its output"))
}

const STDERR: i32 = 2;

/// The unit of holes, whatever the filesystem's own block size.
const PAGE: u64 = 4096;

/// Returns whether `bytes`, which are at `offset` of a file, begin with a whole page of zeros.
fn is_hole(bytes: &[u8], offset: u64) -> bool {
    offset.is_multiple_of(PAGE)
        && bytes.get(..PAGE as usize).is_some_and(|page| page.iter().all(|&byte| byte == 0))
}

/// The start of the page after the one at `position`, in a buffer that is at `offset`.
fn next_page(position: usize, offset: u64) -> usize {
    let at = offset + position as u64;
    position + (PAGE - at % PAGE) as usize
}

const LEFT: &str = "an empty file with a name like `.evener-….part` stays in the directory, which lets no \
                    name be removed";
