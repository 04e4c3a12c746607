//! The target of a stream.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use evener_core::IgnorePoison;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, SeekFrom, Stat, fstat, openat, seek, tell};
use rustix::io::{Errno, retry_on_intr};

use super::base64::{Base64, Encoder};
use super::{PIPE_SIZE, StreamTarget};
use crate::exposure::refuse_exposed;
use crate::identity::Identity;
use crate::metadata::umask;
use crate::naming::{behind_links, cant_open_directory, refuse_dangling, refuse_planted};
use crate::output::{Output, Outputs};
use crate::temporary::sweep;
use crate::unkept::Unkept;
use crate::{Failure, FileError, Refusal};
use evener_seal::Fault;

/// The end to which the sequencer writes.
pub(super) struct Sink<'t> {
    end: End<'t>,
    /// For base64 output: the encoder, and the number of characters written.
    encoder: Option<Mutex<(Encoder, u64)>>,
    /// True if only text may be written.
    only_text: bool,
}

enum End<'t> {
    Descriptor(OwnedFd),
    Writer(Mutex<Box<dyn Write + Send + 't>>),
    /// The file, and its path.
    File(Box<Output<OwnedFd>>, PathBuf),
    Nowhere,
}

impl<'t> Sink<'t> {
    pub(super) fn open(
        target: StreamTarget<'t>,
        outputs: &Outputs,
        source: Option<BorrowedFd<'_>>,
    ) -> Result<Sink<'t>, Failure> {
        match target {
            StreamTarget::Nowhere => Ok(Sink::of(End::Nowhere)),
            StreamTarget::Writer(writer) => Ok(Sink::of(End::Writer(Mutex::new(writer)))),
            StreamTarget::Descriptor(descriptor) => {
                refuse_source(&descriptor, source)
                    .map_err(|error| Failure { path: "-".into(), error })?;
                let _ = rustix::pipe::fcntl_setpipe_size(&descriptor, PIPE_SIZE);
                Ok(Sink::of(End::Descriptor(descriptor)))
            }
            StreamTarget::Terminal(descriptor) => {
                let sink = Sink::open(StreamTarget::Descriptor(descriptor), outputs, source)?;
                Ok(Sink { only_text: true, ..sink })
            }
            StreamTarget::File(path) if takes_a_stream(&path) => {
                let opened = refuse_planted(&path).and_then(|()| open_as_it_is(&path, source));
                let descriptor = opened.map_err(|error| Failure { path, error })?;
                Sink::open(StreamTarget::Descriptor(descriptor), outputs, source)
            }
            StreamTarget::File(path) => {
                let output = create(&path, outputs);
                let output = output.map_err(|error| Failure { path: path.clone(), error })?;
                Ok(Sink::of(End::File(Box::new(output), path)))
            }
        }
    }

    fn of(end: End<'t>) -> Sink<'t> {
        Sink { end, encoder: None, only_text: false }
    }

    /// Refuses a file for plaintext that gives others more access than a file made by a shell's
    /// redirection.
    pub(super) fn refuse_exposed(&self) -> Result<(), Failure> {
        let End::File(output, path) = &self.end else { return Ok(()) };
        let wanted = Mode::from_raw_mode(MODE & !umask().unwrap_or(0o777));
        refuse_exposed(output.as_ref(), wanted)
            .map_err(|error| Failure { path: path.clone(), error })
    }

    /// Writes base64 from now on.
    pub(super) fn encoding(mut self, form: Base64) -> Sink<'t> {
        self.encoder = Some(Mutex::new((Encoder::new(form), 0)));
        self
    }

    /// Writes all of `bytes` at the end, which is at `offset`.
    pub(super) fn write_all(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        if self.encoder.is_none() {
            return self.write_as_it_is(bytes, offset);
        }
        self.write_text(|encoder| encoder.encode(bytes))
    }

    /// Writes the text left over at the end, and has a writer pass on what it holds.
    pub(super) fn finish(&self) -> Result<(), FileError> {
        self.write_text(Encoder::finish)?;
        let End::Writer(writer) = &self.end else { return Ok(()) };
        writer.lock().ignore_poison().flush().map_err(not_written)
    }

    fn write_text(&self, text: impl FnOnce(&mut Encoder) -> String) -> Result<(), FileError> {
        let Some(encoder) = &self.encoder else { return Ok(()) };
        let mut encoder = encoder.lock().ignore_poison();
        let text = text(&mut encoder.0);
        self.write_as_it_is(text.as_bytes(), encoder.1)?;
        encoder.1 += text.len() as u64;
        Ok(())
    }

    fn write_as_it_is(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        match &self.end {
            End::Nowhere => Ok(()),
            End::File(output, _) => output.write_all_at(bytes, offset),
            _ if self.only_text && bytes.iter().any(commands_terminals) => Err(FileError::NoText),
            End::Writer(writer) => {
                writer.lock().ignore_poison().write_all(bytes).map_err(not_written)
            }
            End::Descriptor(descriptor) => {
                let mut bytes = bytes;
                while !bytes.is_empty() {
                    match rustix::io::write(descriptor, bytes) {
                        Ok(0) => {
                            let errno = Errno::IO;
                            return Err(FileError::system("write the output")(errno));
                        }
                        Ok(count) => bytes = &bytes[count..],
                        Err(Errno::INTR) => {}
                        // A program at the other end may have set it not to block.
                        Err(Errno::AGAIN) => {
                            let mut waiting = [PollFd::new(descriptor, PollFlags::OUT)];
                            retry_on_intr(|| poll(&mut waiting, None))
                                .map_err(FileError::system("wait for its output's reader"))?;
                        }
                        Err(errno) => return Err(FileError::system("write the output")(errno)),
                    }
                }
                Ok(())
            }
        }
    }

    pub(super) fn publish(&self, outputs: &Outputs, durable: bool) -> Result<(), FileError> {
        let End::File(output, _) = &self.end else { return Ok(()) };
        let unkept = Unkept::default();
        let sync = |file: BorrowedFd<'_>| match durable {
            true => retry_on_intr(|| rustix::fs::fsync(file))
                .or_else(|errno| unkept.syncs.forgive(errno)),
            false => Ok(()),
        };
        sync(output.as_fd()).map_err(FileError::system("sync the output"))?;
        output.publish(outputs)?;
        sync(output.directory()).map_err(FileError::system("sync the output's directory"))?;
        unkept.failures().next().map_or(Ok(()), Err)
    }

    /// The output's end on a longer block device: the number of bytes to read back.
    pub(super) fn end_on_device(&self) -> Option<u64> {
        let End::Descriptor(descriptor) = &self.end else { return None };
        let there = fstat(descriptor).ok()?;
        if FileType::from_raw_mode(there.st_mode) != FileType::BlockDevice {
            return None;
        }
        let end = tell(descriptor).ok()?;
        let length = seek(descriptor, SeekFrom::End(0)).ok()?;
        (end < length).then_some(end)
    }
}

/// Returns whether a byte is a control character that a terminal may take for more than the end of
/// a line.
pub fn commands_terminals(byte: &u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Returns whether a path names something that takes bytes one after another, and not a file to be
/// made: a device, a FIFO, or a descriptor of the process (/dev/stdout, /dev/fd/3).
pub fn takes_a_stream(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    let kind = metadata.file_type();
    !kind.is_dir() && (!kind.is_file() || is_descriptor(path))
}

/// Returns whether a path leads to a descriptor of the process, through whatever links.
fn is_descriptor(path: &Path) -> bool {
    let Ok(own) = std::fs::canonicalize("/proc/self/fd") else { return false };
    let mut path = path.to_owned();
    for _ in 0..40 {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new(".")).to_owned();
        if std::fs::canonicalize(&parent).is_ok_and(|parent| parent == own) {
            return true;
        }
        let Ok(text) = std::fs::read_link(&path) else { return false };
        path = parent.join(text);
    }
    false
}

fn not_written(error: io::Error) -> FileError {
    Fault::Failed(format!("can't write the output: {error}")).into()
}

fn open_as_it_is(path: &Path, source: Option<BorrowedFd<'_>>) -> Result<OwnedFd, FileError> {
    // This checks who owns the links, not where they lead, which may be no path (`pipe:[1]`).
    behind_links(path)?;
    let mut flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let system = FileError::system("open the output");
    let there = rustix::fs::stat(path).map_err(&system)?;
    if FileType::from_raw_mode(there.st_mode) == FileType::BlockDevice {
        let source = source.map(fstat).transpose().map_err(&system)?;
        let is_source = |source: Stat| {
            FileType::from_raw_mode(source.st_mode) == FileType::BlockDevice
                && source.st_rdev == there.st_rdev
        };
        if source.is_some_and(is_source) {
            return Err(Refusal::IsSource.into());
        }
        // The kernel refuses this while the device is mounted, or in use otherwise.
        flags |= OFlags::EXCL;
    }
    match retry_on_intr(|| openat(CWD, path, flags, Mode::empty())) {
        Err(Errno::BUSY) => Err(Refusal::DeviceInUse.into()),
        opened => opened.map_err(&system),
    }
}

/// Refuses an open file that is also the source: the output would be read again, or would replace
/// unread input.
fn refuse_source(target: &OwnedFd, source: Option<BorrowedFd<'_>>) -> Result<(), FileError> {
    let (Ok(target), Some(Ok(source))) = (fstat(target), source.map(fstat)) else {
        return Ok(());
    };
    let is_file = FileType::from_raw_mode(target.st_mode) == FileType::RegularFile;
    if is_file && Identity::of(&target) == Identity::of(&source) {
        return Err(Refusal::IsSource.into());
    }
    Ok(())
}

fn create(path: &Path, outputs: &Outputs) -> Result<Output<OwnedFd>, FileError> {
    // The target of a link is replaced, not the link.
    refuse_dangling(path)?;
    let path = &behind_links(path)?;
    if path.is_dir() {
        return Err(Refusal::IsDirectory.into());
    }
    let name: &OsStr = path.file_name().ok_or(Refusal::NoOutputName)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = parent.unwrap_or(Path::new("."));
    let directory = openat(CWD, parent, flags, Mode::empty())
        .map_err(|errno| cant_open_directory(parent, errno))?;
    if !outputs.replaces()
        && rustix::fs::statat(&directory, name, rustix::fs::AtFlags::empty()).is_ok()
    {
        return Err(outputs.taken(directory.as_fd(), name));
    }
    let output = outputs.create(directory, name, Mode::from_raw_mode(MODE))?;
    if outputs.replaces() || !output.has_its_mode() {
        // A directory that can't be read may still be written to.
        let _ = sweep(output.directory());
    }
    Ok(output)
}

/// The mode of a new file, from which the file mode creation mask takes bits as it does for a
/// shell's redirection.
const MODE: u32 = 0o666;
