//! Reads files with secrets, after checking them.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, StatVfsMountFlags, fstatfs, fstatvfs};
use zeroize::Zeroizing;

use super::{KeyError, Unlock};
use crate::mounts::{has_mode_of_mount, is_private_mount};

/// A small file's bytes, and its access by other users.
pub(super) struct Contents {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    /// `None` for an unnamed pipe: the process that opened it decides on access.
    status: Option<Status>,
}

/// Facts about a file with a name.
struct Status {
    metadata: Metadata,
    is_read_only: bool,
    has_mode_of_mount: bool,
}

impl Status {
    fn of(file: &File, metadata: Metadata) -> Status {
        let (is_read_only, has_mode_of_mount) =
            (is_on_read_only_mount(file), has_mode_of_mount(file));
        Status { metadata, is_read_only, has_mode_of_mount }
    }

    /// The description of the file for an `Unlock` that may accept it.
    fn exposed<'a>(&self, path: &'a Path) -> Exposed<'a> {
        let Status { metadata, is_read_only, has_mode_of_mount } = self;
        let (is_read_only, has_mode_of_mount) = (*is_read_only, *has_mode_of_mount);
        Exposed { path, mode: metadata.mode() & 0o7777, is_read_only, has_mode_of_mount }
    }
}

/// A file with a secret that other users may access.
#[derive(Clone, Copy, Debug)]
pub struct Exposed<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Its permission bits.
    pub mode: u32,
    /// True if its file system is mounted read-only, as for the secrets of containers, so its user
    /// can't change its mode.
    pub is_read_only: bool,
    /// True if its file system has no file modes, as with FAT, exFAT and NTFS, so the mode can't be
    /// changed either.
    pub has_mode_of_mount: bool,
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

/// Refuses a file of recipients that other users may change: they could add their own recipient,
/// who would read everything.
fn check_recipients(
    file: &File,
    path: &Path,
    metadata: &Metadata,
    unlock: &dyn Unlock,
) -> Result<(), KeyError> {
    let mode = metadata.mode() & 0o7777;
    let is_writable = mode & 0o022 != 0 && !is_private_mount(metadata.dev());
    let is_of_others = is_of_others(metadata);
    if !has_access_of_its_own(file, metadata) || !is_writable && !is_of_others {
        return Ok(());
    }
    let exposed = Status::of(file, metadata.clone()).exposed(path);
    if unlock.takes_recipients(&exposed) {
        return Ok(());
    }
    let has_mode_of_mount = exposed.has_mode_of_mount;
    let (path, owner) = (path.to_owned(), metadata.uid());
    Err(match is_writable {
        true => KeyError::WritableByOthers { path, mode, has_mode_of_mount },
        false => {
            let user = rustix::process::geteuid().as_raw();
            KeyError::RecipientsOfOthers { path, owner, user }
        }
    })
}

/// Returns whether a file's own mode and owner decide who may use it. That holds for a regular
/// file, and for a FIFO, as any user who may open it can write to it. For an unnamed pipe, a device
/// or a socket, access is decided elsewhere.
fn has_access_of_its_own(file: &File, metadata: &Metadata) -> bool {
    let is_nameless = || {
        let kind = fstatfs(file).map(|about| u64::try_from(about.f_type));
        matches!(kind, Ok(Ok(PIPES)))
    };
    metadata.is_file() || metadata.file_type().is_fifo() && !is_nameless()
}

/// Returns whether a file belongs neither to this process's user nor to root.
fn is_of_others(metadata: &Metadata) -> bool {
    ![0, rustix::process::geteuid().as_raw()].contains(&metadata.uid())
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

/// Refuses a file with a secret that other users may use or have made: its group or others may
/// read, write or execute it, or it belongs neither to this process's user nor to root. `metadata`
/// is that of the open file.
///
/// # Errors
/// [`KeyError::OpenToOthers`] and [`KeyError::OfOthers`].
pub fn check_private(metadata: &Metadata, path: &Path) -> Result<(), KeyError> {
    let metadata = metadata.clone();
    check(&Status { metadata, is_read_only: false, has_mode_of_mount: false }, path, |_| false)
}

/// As [`check_private`] for an open file, unless `unlock` accepts a file that its group or others
/// may use. It checks regular files and FIFOs: the process that opened an unnamed pipe decides on
/// access to that.
///
/// # Errors
/// [`KeyError::OpenToOthers`], [`KeyError::OfOthers`], and [`KeyError::Io`] when the file's status
/// can't be read.
pub fn check_secret_file(file: &File, path: &Path, unlock: &dyn Unlock) -> Result<(), KeyError> {
    let action = "look at the file of a secret";
    let metadata =
        file.metadata().map_err(|cause| KeyError::Io { action, path: path.to_owned(), cause })?;
    if !has_access_of_its_own(file, &metadata) {
        return Ok(());
    }
    check(&Status::of(file, metadata), path, |exposed| unlock.takes_exposed(exposed))
}

fn check(
    status: &Status,
    path: &Path,
    takes: impl FnOnce(&Exposed<'_>) -> bool,
) -> Result<(), KeyError> {
    let metadata = &status.metadata;
    let exposed = status.exposed(path);
    if is_open_to_others(metadata) && !takes(&exposed) {
        let Exposed { mode, has_mode_of_mount, .. } = exposed;
        return Err(KeyError::OpenToOthers { path: path.to_owned(), mode, has_mode_of_mount });
    }
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if is_of_others(metadata) {
        return Err(KeyError::OfOthers { path: path.to_owned(), owner, user });
    }
    Ok(())
}

/// Returns whether a file's group or others may use it, by its mode and its mount.
pub(super) fn is_open_to_others(metadata: &Metadata) -> bool {
    metadata.mode() & 0o077 != 0 && !is_private_mount(metadata.dev())
}

fn is_on_read_only_mount(file: &File) -> bool {
    fstatvfs(file).is_ok_and(|about| about.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// The maximum length of a key file, in bytes.
pub(super) const LONGEST: usize = 1 << 20;

/// The type of file system that holds unnamed pipes: Linux's `PIPEFS_MAGIC`.
const PIPES: u64 = 0x5049_5045;

const STANDARD_INPUT: &str = "standard input";

fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
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
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::super::{NoUnlock, create};
    use super::*;

    /// Accepts exposed files only if nobody could make them private, and records what it saw.
    struct Lenient(std::cell::Cell<Option<(u32, bool)>>);

    impl Unlock for Lenient {
        fn takes_exposed(&self, file: &Exposed<'_>) -> bool {
            self.0.set(Some((file.mode, file.is_read_only)));
            true
        }
    }

    #[test]
    fn whoever_opens_a_file_may_take_one_that_is_open_to_others() {
        let directory = directory();
        let path = directory.path().join("key");
        create(&path, b"secret").unwrap();
        let lenient = Lenient(None.into());
        read(&path, "read").unwrap().check_private(&path, &lenient).unwrap();
        assert_eq!(lenient.0.get(), None, "it is private");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        read(&path, "read").unwrap().check_private(&path, &lenient).unwrap();
        assert_eq!(lenient.0.take(), Some((0o444, false)));
        check_secret_file(&File::open(&path).unwrap(), &path, &lenient).unwrap();
        assert_eq!(lenient.0.take(), Some((0o444, false)));
        assert!(check_secret_file(&File::open(&path).unwrap(), &path, &NoUnlock).is_err());
    }

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
            match contents.check_private(&path, &NoUnlock) {
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
        let message =
            read(&path, "read").unwrap().check_private(&path, &NoUnlock).unwrap_err().to_string();
        assert!(message.contains("belongs to user 4321") && message.contains("chown"), "{message}");
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        read(&path, "read").unwrap().check_private(&path, &NoUnlock).unwrap();
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
