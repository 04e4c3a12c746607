//! Files with a secret: read with care, and made so that they are never half there.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use zeroize::Zeroizing;

use super::KeyError;
use crate::Naming;
use crate::naming::rename_to_free;

/// A small file's bytes, and who else may use it.
pub(super) struct Contents {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    metadata: Metadata,
}

/// Reads a regular file of at most [`LONGEST`] bytes. `action` is for the error message, such
/// as "read the key file".
pub(super) fn read(path: &Path, action: &'static str) -> Result<Contents, KeyError> {
    let failed = |cause| KeyError::Io { action, path: path.to_owned(), cause };
    // Opening a pipe without O_NONBLOCK waits for its writer.
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(KeyError::NotRegular { path: path.to_owned() });
    }
    let length = match usize::try_from(metadata.len()) {
        Ok(length) if length <= LONGEST => length,
        _ => return Err(KeyError::TooLong { path: path.to_owned(), length: metadata.len() }),
    };
    // One byte more shows that the file has grown. A buffer that had to grow would leave
    // copies of the secret behind.
    let mut bytes = Zeroizing::new(vec![0; length + 1]);
    let filled = fill(&mut file, &mut bytes).map_err(failed)?;
    if filled > length {
        return Err(KeyError::Grew { path: path.to_owned() });
    }
    bytes.truncate(filled);
    Ok(Contents { bytes, metadata })
}

/// Reads a file, a pipe or a device that holds no secret, of at most [`LONGEST`] bytes.
pub(super) fn read_public(path: &Path, action: &'static str) -> Result<Vec<u8>, KeyError> {
    let failed = |cause| KeyError::Io { action, path: path.to_owned(), cause };
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LONGEST as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > LONGEST {
        let length = bytes.len() as u64;
        return Err(KeyError::TooLong { path: path.to_owned(), length });
    }
    Ok(bytes)
}

impl Contents {
    /// Refuses a file that is not private.
    pub(super) fn check_private(&self, path: &Path) -> Result<(), KeyError> {
        check_private(&self.metadata, path)
    }
}

/// Refuses a file with a secret that others may use or have made: its group or others may read,
/// write or execute it, or it belongs neither to this process's user nor to root. `metadata` is
/// that of the open file.
///
/// # Errors
/// [`KeyError::OpenToOthers`] and [`KeyError::OfOthers`].
pub fn check_private(metadata: &Metadata, path: &Path) -> Result<(), KeyError> {
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyError::OpenToOthers { path: path.to_owned(), mode });
    }
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if ![0, user].contains(&owner) {
        return Err(KeyError::OfOthers { path: path.to_owned(), owner, user });
    }
    Ok(())
}

/// Makes a file of mode 0600 that holds `contents`, a key in plain text or encrypted.
///
/// The file appears under its name complete and on stable storage, or not at all: it is
/// written under a temporary name in the same directory, `.evener-key-…`, which is removed
/// again on every error. Only a crash leaves that one behind, which is as private.
///
/// # Errors
/// [`KeyError::Exists`] when there is a file of this name, which stays as it is;
/// [`KeyError::Io`] when the operating system refuses.
pub fn create(path: &Path, contents: &[u8]) -> Result<Naming, KeyError> {
    let failed = |cause| KeyError::Io { action: "make the key file", path: path.into(), cause };
    let directory = directory_of(path);
    // O_EXCL and mode 0600 from the start.
    let mut file =
        tempfile::Builder::new().prefix(".evener-key-").tempfile_in(&directory).map_err(failed)?;
    file.write_all(contents).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    let opened = File::open(&directory).map_err(failed)?;
    let (from, to) = (file.path().file_name(), path.file_name());
    let (Some(from), Some(to)) = (from, to) else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    let naming = rename_to_free(opened.as_fd(), from, to).map_err(|errno| match errno {
        Errno::EXIST => KeyError::Exists { path: path.to_owned() },
        errno => failed(errno.into()),
    })?;
    // It has gone under its temporary name, which may be another's next.
    let _ = file.into_temp_path().keep();
    sync_directory(&directory).map_err(failed)?;
    Ok(naming)
}

/// The longest file that is taken for a key file, in bytes.
pub(super) const LONGEST: usize = 1 << 20;

fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Makes a new name in the directory last. Some file systems keep no directories on stable
/// storage and say so with EINVAL.
fn sync_directory(directory: &Path) -> io::Result<()> {
    match fs::File::open(directory)?.sync_all() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_new_file_is_its_owners_alone_and_the_only_one() {
        let directory = directory();
        let path = directory.path().join("key");
        create(&path, b"secret").unwrap();
        let contents = read(&path, "read").unwrap();
        assert_eq!(*contents.bytes, b"secret");
        assert_eq!(contents.metadata.mode() & 0o7777, 0o600);
        contents.check_private(&path).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
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
        assert!(message.starts_with("cannot make the key file"), "{message}");
    }

    #[test]
    fn a_file_open_to_others_is_refused() {
        let directory = directory();
        let path = directory.path().join("key");
        create(&path, b"secret").unwrap();
        for (mode, fine) in [
            (0o400, true),
            (0o600, true),
            (0o700, true),
            (0o640, false),
            (0o604, false),
            (0o620, false),
            (0o644, false),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let contents = read(&path, "read").unwrap();
            match contents.check_private(&path) {
                Ok(()) => assert!(fine, "{mode:o}"),
                Err(error) => {
                    assert!(!fine, "{mode:o}");
                    let message = error.to_string();
                    assert!(message.contains("chmod 600"), "{message}");
                    assert!(message.contains(&format!("{mode:04o}")), "{message}");
                }
            }
        }
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let directory = directory();
        let path = directory.path().join("key");
        create(&path, b"secret").unwrap();
        if std::os::unix::fs::chown(&path, Some(4321), None).is_err() {
            evener_skipped::lacking!("only root can give a file to another user");
            return;
        }
        let message = read(&path, "read").unwrap().check_private(&path).unwrap_err().to_string();
        assert!(message.contains("belongs to user 4321") && message.contains("chown"), "{message}");
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        read(&path, "read").unwrap().check_private(&path).unwrap();
    }

    #[test]
    fn what_is_no_small_regular_file_is_refused() {
        let directory = directory();
        let read = |path: &Path| read(path, "read the key file").map(drop).unwrap_err();
        assert!(matches!(read(directory.path()), KeyError::NotRegular { .. }));
        assert!(matches!(read(Path::new("/dev/null")), KeyError::NotRegular { .. }));
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(matches!(read(&fifo), KeyError::NotRegular { .. }));

        let long = directory.path().join("long");
        File::create(&long).unwrap().set_len(LONGEST as u64 + 1).unwrap();
        assert!(matches!(read(&long), KeyError::TooLong { length: 1_048_577, .. }));
        File::create(&long).unwrap().set_len(LONGEST as u64).unwrap();
        assert_eq!(super::read(&long, "read").unwrap().bytes.len(), LONGEST);

        let absent = read(&directory.path().join("absent")).to_string();
        assert!(absent.starts_with("cannot read the key file"), "{absent}");
    }
}
