//! Directories and file systems that followed links must not lead to.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;

use evener_core::IgnorePoison;
use rustix::fs::{Mode, OFlags, Stat, fstat, fstatfs, openat};
use rustix::io::Errno;

use super::endpoints::place_of_target;
use crate::identity::Identity;
use crate::naming::behind_links;
use crate::{FileError, Refusal};

/// The directories around a source and its target, including these two: a link to one of them would
/// add everything around the source, or the outputs, to the operation. Also the kernel's own file
/// systems, which hold no files that anybody has stored.
#[derive(Default)]
pub(super) struct Around {
    source: HashSet<Identity>,
    target: HashSet<Identity>,
    /// The file systems examined so far, by their devices.
    is_of_kernel: Mutex<HashMap<u64, bool>>,
}

impl Around {
    /// Finds the directories around a source, and around a target that may not exist yet.
    pub(super) fn of(source: BorrowedFd<'_>, target: Option<&Path>) -> Result<Around, FileError> {
        let mut around = Around { source: with_those_above(source)?, ..Around::default() };
        if let Some(target) = target {
            let (target, _) = place_of_target(&behind_links(target)?)?;
            around.target = with_those_above(target.as_fd())?;
        }
        Ok(around)
    }

    /// Refuses a directory around the source or the target.
    pub(super) fn refuse(&self, directory: &Stat) -> Result<(), FileError> {
        let directory = Identity::of(directory);
        if self.source.contains(&directory) {
            return Err(Refusal::LinkAroundSource.into());
        }
        if self.target.contains(&directory) {
            return Err(Refusal::LinkAroundOutputs.into());
        }
        Ok(())
    }

    /// Refuses a link into a file system of the kernel; `found` is the status of the link's target.
    #[allow(clippy::unnecessary_cast, reason = "the fields' types differ between architectures")]
    pub(super) fn refuse_link(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        found: &Stat,
    ) -> Result<(), FileError> {
        let mut known = self.is_of_kernel.lock().ignore_poison();
        let device = found.st_dev as u64;
        let is_of_kernel = match known.get(&device) {
            Some(is_of_kernel) => *is_of_kernel,
            None => {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                let system = FileError::system("open it");
                let opened = openat(directory, name, flags, Mode::empty()).map_err(&system)?;
                let kind = fstatfs(opened.as_fd()).map_err(&system)?.f_type as u32;
                *known.entry(device).or_insert(KERNELS.contains(&kind))
            }
        };
        match is_of_kernel {
            false => Ok(()),
            true => Err(Refusal::LinkIntoKernel.into()),
        }
    }
}

/// A directory and all that contain it.
pub(super) fn with_those_above(directory: BorrowedFd<'_>) -> Result<HashSet<Identity>, FileError> {
    let (mut found, mut at) = (HashSet::new(), None::<OwnedFd>);
    loop {
        let here = at.as_ref().map_or(directory, OwnedFd::as_fd);
        let status = fstat(here).map_err(FileError::system("read its status"))?;
        if !found.insert(Identity::of(&status)) {
            return Ok(found);
        }
        // Passing through a directory does not require permission to read it.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat(here, c"..", flags, Mode::empty()) {
            Ok(above) => at = Some(above),
            // It can't be compared, but the walk can't come from there either.
            Err(Errno::ACCESS) => return Ok(found),
            Err(errno) => return Err(FileError::system("open the directory")(errno)),
        }
    }
}

/// procfs, sysfs and the file systems mounted in them, by the numbers of `statfs`: cgroups (two),
/// debugging, tracing, security (two), BPF, pstore, configfs, EFI variables, FUSE's control, binary
/// formats.
const KERNELS: [u32; 14] = [
    0x9FA0,
    0x6265_6572,
    0x0027_E0EB,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0xF97C_FF8C,
    0xCAFE_4A11,
    0x6165_676C,
    0x6265_6570,
    0xDE5E_81E4,
    0x6573_5543,
    0x4249_4E4D,
];
