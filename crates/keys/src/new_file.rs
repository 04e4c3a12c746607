//! Creates key files, which appear under their names complete or not at all.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, AtFlags, Mode, OFlags, fadvise, openat, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use zeroize::Zeroizing;

use super::KeyError;
use super::key_file::fill;
use super::privacy::is_open_to_others;
use crate::Naming;
use crate::naming::rename_to_free;

/// Creates a file of mode 0600 that holds `contents`, a key in plain text or encrypted. The file
/// system may give it another mode, which the result reports.
///
/// The file appears under its name complete, on stable storage and read back, or not at all. It is
/// first written under a temporary name in the same directory, `.evener-key-…`, which every error
/// removes again. Only a crash leaves that file behind, which is equally private.
///
/// # Errors
/// [`KeyError::Exists`] when a file of this name exists, which stays unchanged; [`KeyError::Io`]
/// when the operating system refuses, or the file does not read back as it was written.
pub fn create(path: &Path, contents: &[u8]) -> Result<NewKeyFile, KeyError> {
    let failed = |cause| KeyError::Io { action: "make the key file", path: path.into(), cause };
    let refused = |errno: Errno| failed(errno.into());
    let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    // From here on, the path may lead to another directory.
    let directory = File::open(directory_of(path)).map_err(failed)?;
    let (file, temporary) = Temporary::create(&directory).map_err(refused)?;
    let mut file = File::from(file);
    file.write_all(contents).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    drop(file);
    let file = temporary.read_back(contents).map_err(failed)?;
    let there = file.metadata().map_err(failed)?;
    let exposed = is_open_to_others(&there).then(|| there.mode() & 0o7777);
    let naming =
        rename_to_free(directory.as_fd(), &temporary.name, name).map_err(|errno| match errno {
            Errno::EXIST => KeyError::Exists { path: path.to_owned() },
            errno => refused(errno),
        })?;
    temporary.keep();
    sync_directory(&directory).map_err(failed)?;
    Ok(NewKeyFile { naming, exposed })
}

/// The way in which a key file was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewKeyFile {
    /// How safely naming the file avoided replacing another file.
    pub naming: Naming,
    /// Its mode, if that lets other users read it: the file system did not apply 0600, which can
    /// happen on FAT, exFAT and NTFS. Unless the key is encrypted, store it elsewhere.
    pub exposed: Option<u32>,
}

/// The temporary name of a key file, which dropping this value removes.
struct Temporary<'d> {
    directory: &'d File,
    name: OsString,
    /// True if the file has its final name, so that this one may belong to another file.
    has_final_name: bool,
}

impl Temporary<'_> {
    /// Creates a file of mode 0600 that did not exist before.
    fn create(directory: &File) -> Result<(OwnedFd, Temporary<'_>), Errno> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        loop {
            let random = getrandom::u64().map_err(|_| Errno::IO)?;
            let name = OsString::from(format!(".evener-key-{random:016x}"));
            let mode = Mode::RUSR | Mode::WUSR;
            match retry_on_intr(|| openat(directory, &*name, flags, mode)) {
                Err(Errno::EXIST) => {}
                made => {
                    let temporary = Temporary { directory, name, has_final_name: false };
                    return made.map(|file| (file, temporary));
                }
            }
        }
    }

    /// Opens the synced file again, and checks that it holds these bytes. The system is first asked
    /// to forget its copy, so that most file systems read the device.
    fn read_back(&self, contents: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(self.directory, &*self.name, flags, Mode::empty())?);
        // Without this advice the copy is read.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        // One extra byte shows that the file is longer.
        let mut there = Zeroizing::new(vec![0; contents.len() + 1]);
        let filled = fill(&mut file, &mut there)?;
        match there[..filled] == *contents {
            true => Ok(file),
            false => {
                Err(io::Error::other("it does not read back as it was written; check the disk"))
            }
        }
    }

    /// Disarms the removal: the file has its final name.
    fn keep(mut self) {
        self.has_final_name = true;
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if self.has_final_name {
            return;
        }
        // If this fails, the file is left behind, as private as the key.
        let _ = unlinkat(self.directory, &*self.name, AtFlags::empty());
    }
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Makes a new name in the directory durable. Some file systems do not sync directories and report
/// EINVAL.
fn sync_directory(directory: &File) -> io::Result<()> {
    match directory.sync_all() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::NoUnlock;
    use super::super::key_file::read;
    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_new_file_is_its_owners_alone_and_the_only_one() {
        let directory = directory();
        let path = directory.path().join("key");
        assert_eq!(create(&path, b"secret").unwrap().exposed, None);
        let contents = read(&path, "read").unwrap();
        assert_eq!(*contents.bytes, b"secret");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        contents.check_private(&path, &NoUnlock).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_of_other_bytes_is_noticed() {
        let directory = directory();
        let opened = File::open(&directory).unwrap();
        let (file, temporary) = Temporary::create(&opened).unwrap();
        File::from(file).write_all(b"secret").unwrap();
        temporary.read_back(b"secret").unwrap();
        for other in [&b"secreT"[..], b"secrets", b"secre", b""] {
            assert!(temporary.read_back(other).is_err());
        }
    }

    #[test]
    fn a_key_that_got_no_name_is_removed_wherever_its_directory_is() {
        let directory = directory();
        let [before, after] = ["before", "after"].map(|name| directory.path().join(name));
        fs::create_dir(&before).unwrap();
        let opened = File::open(&before).unwrap();
        let (_, temporary) = Temporary::create(&opened).unwrap();
        fs::rename(&before, &after).unwrap();
        assert_eq!(fs::read_dir(&after).unwrap().count(), 1);
        drop(temporary);
        assert_eq!(fs::read_dir(&after).unwrap().count(), 0);
    }

    #[test]
    fn no_file_is_overwritten() {
        let directory = directory();
        let path = directory.path().join("key");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(create(&path, b"new"), Err(KeyError::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"precious");

        let dangling = directory.path().join("link");
        std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
        assert!(matches!(create(&dangling, b"new"), Err(KeyError::Exists { .. })));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_absent_directory_is_an_error() {
        let path = directory().path().join("absent/key");
        let message = create(&path, b"key").unwrap_err().to_string();
        assert!(message.starts_with("can't make the key file"), "{message}");
    }
}
