//! Reads files with secrets.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use zeroize::Zeroizing;

use super::privacy::{Status, check, check_recipients, has_access_of_its_own};
use super::{KeyError, Unlock};

/// A small file's bytes, and its access by other users.
pub(super) struct Contents {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    /// `None` for an unnamed pipe: the process that opened it decides on access.
    status: Option<Status>,
}

/// Reads a regular file of at most [`LONGEST`] bytes. `action` is for the error message, such as
/// "read the key file".
pub(super) fn read(path: &Path, action: &'static str) -> Result<Contents, KeyError> {
    let failed = |cause| KeyError::Io { action, path: path.to_owned(), cause };
    // Opening a pipe without O_NONBLOCK would wait for its writer.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(failed)?;
    read_regular(file, path, action)
}

/// As [`read`], for a path that the user gave: `-` is standard input, and a descriptor of this
/// process (`/dev/fd/3`, which a shell substitutes for `<(command)`) may be a pipe or a socket.
/// Reads to its end.
pub(super) fn read_given(path: &Path, action: &'static str) -> Result<Contents, KeyError> {
    let failed = |cause| KeyError::Io { action, path: path.to_owned(), cause };
    if is_standard_input(path) {
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
        return read_open(input.into(), name_of(path), action);
    }
    if !names_descriptor(path) {
        return read(path, action);
    }
    read_open(File::open(path).map_err(failed)?, path, action)
}

/// Reads a file, a pipe or a device that holds no secret, of at most [`LONGEST`] bytes; `-` is
/// standard input. Refuses a regular file or a FIFO that other users may change, unless `unlock`
/// accepts it.
pub(super) fn read_recipients(path: &Path, unlock: &dyn Unlock) -> Result<Vec<u8>, KeyError> {
    let action = "read the recipients file";
    let failed = |cause| KeyError::Io { action, path: path.to_owned(), cause };
    let file = if is_standard_input(path) {
        io::stdin().as_fd().try_clone_to_owned().map(File::from)
    } else {
        File::open(path)
    };
    let file = file.map_err(failed)?;
    check_recipients(&file, path, &file.metadata().map_err(failed)?, unlock)?;
    let mut bytes = Vec::new();
    file.take(LONGEST as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > LONGEST {
        let length = bytes.len() as u64;
        return Err(KeyError::TooLong { path: path.to_owned(), length });
    }
    Ok(bytes)
}

/// The name in errors of a path that the user gave.
pub(super) fn name_of(path: &Path) -> &Path {
    if is_standard_input(path) { Path::new(STANDARD_INPUT) } else { path }
}

/// Returns whether this name means standard input.
fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns whether a path names a descriptor of this process.
fn names_descriptor(path: &Path) -> bool {
    let is_number = |name: &std::ffi::OsStr| {
        let name = name.as_encoded_bytes();
        !name.is_empty() && name.iter().all(u8::is_ascii_digit)
    };
    let directories = ["/dev/fd", "/proc/self/fd"].map(Path::new);
    path == Path::new("/dev/stdin")
        || path.file_name().is_some_and(is_number)
            && path.parent().is_some_and(|parent| directories.contains(&parent))
}

/// Reads an open file: a regular file from its current position, or a pipe or a socket to its end.
fn read_open(mut file: File, path: &Path, action: &'static str) -> Result<Contents, KeyError> {
    let failed = |cause| KeyError::Io { action, path: path.to_owned(), cause };
    let metadata = file.metadata().map_err(failed)?;
    let kind = metadata.file_type();
    if file.is_terminal() {
        return Err(KeyError::Terminal { path: path.to_owned() });
    }
    if !kind.is_fifo() && !kind.is_socket() {
        return read_regular(file, path, action);
    }
    let bytes = read_to_end(&mut file).map_err(failed)?;
    let bytes = bytes.ok_or_else(|| KeyError::Endless { path: path.to_owned() })?;
    let has_status = has_access_of_its_own(&file, &metadata);
    Ok(Contents { bytes, status: has_status.then(|| Status::of(&file, metadata)) })
}

/// Reads at most [`LONGEST`] bytes; `None` when there are more.
///
/// # Errors
/// When the operating system refuses.
pub(super) fn read_to_end(source: &mut impl Read) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    // A buffer that grew would leave copies of the secret behind.
    let mut bytes = Zeroizing::new(vec![0; LONGEST + 1]);
    let filled = fill(source, &mut bytes)?;
    bytes.truncate(filled);
    Ok((filled <= LONGEST).then_some(bytes))
}

fn read_regular(mut file: File, path: &Path, action: &'static str) -> Result<Contents, KeyError> {
    let failed = |cause| KeyError::Io { action, path: path.to_owned(), cause };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(KeyError::NotRegular { path: path.to_owned() });
    }
    let length = match usize::try_from(metadata.len()) {
        Ok(length) if length <= LONGEST => length,
        _ => return Err(KeyError::TooLong { path: path.to_owned(), length: metadata.len() }),
    };
    // One extra byte shows that the file has grown. A buffer that grew would leave copies of the
    // secret behind.
    let mut bytes = Zeroizing::new(vec![0; length + 1]);
    let filled = fill(&mut file, &mut bytes).map_err(failed)?;
    if filled > length {
        return Err(KeyError::Grew { path: path.to_owned() });
    }
    bytes.truncate(filled);
    Ok(Contents { bytes, status: Some(Status::of(&file, metadata)) })
}

impl Contents {
    /// The contents of a source that is not a file of this system.
    pub(super) fn of_no_file(bytes: Zeroizing<Vec<u8>>) -> Contents {
        Contents { bytes, status: None }
    }

    /// Refuses a file that is not private, unless `unlock` accepts it.
    pub(super) fn check_private(&self, path: &Path, unlock: &dyn Unlock) -> Result<(), KeyError> {
        let Some(status) = &self.status else { return Ok(()) };
        check(status, path, |exposed| unlock.takes_exposed(exposed))
    }
}

/// The maximum length of a key file, in bytes.
pub(super) const LONGEST: usize = 1 << 20;

const STANDARD_INPUT: &str = "standard input";

pub(super) fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;

    use super::super::NoUnlock;
    use super::*;

    #[test]
    fn descriptors_are_read_to_their_end() {
        use std::os::fd::AsRawFd;
        for (length, fits) in [(0, true), (70_000, true), (LONGEST, true), (LONGEST + 1, false)] {
            let (reader, mut writer) = io::pipe().unwrap();
            let filler = std::thread::spawn(move || {
                // The reader closes its end once it has read enough.
                let _ = writer.write_all(&vec![b'x'; length]);
            });
            let path = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
            assert!(matches!(read(&path, "read"), Err(KeyError::NotRegular { .. })));
            match read_given(&path, "read") {
                Ok(contents) => {
                    assert!(fits, "{length}");
                    assert_eq!(contents.bytes.len(), length);
                    contents.check_private(&path, &NoUnlock).unwrap();
                }
                Err(error) => {
                    assert!(!fits && matches!(error, KeyError::Endless { .. }), "{error}")
                }
            }
            drop(reader);
            filler.join().unwrap();
        }
    }

    #[test]
    fn only_descriptors_of_this_process_may_be_pipes() {
        for path in ["/dev/fd/3", "/proc/self/fd/63", "/dev/stdin"] {
            assert!(names_descriptor(Path::new(path)), "{path}");
        }
        for path in ["/dev/fd/", "/dev/fd/x", "/dev/fd/3/4", "dev/fd/3", "/proc/1/fd/3", "3", ""] {
            assert!(!names_descriptor(Path::new(path)), "{path}");
        }
    }

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
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
        assert!(absent.starts_with("can't read the key file"), "{absent}");
    }
}
