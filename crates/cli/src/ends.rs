//! The source and the target of an operation.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, File};
use std::io::{self, IsTerminal, Seek};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use evener::keys::{KeyFile, PipeHead};
use evener::{Failure, Operation, Refusal, StreamSource, StreamTarget};
use evener_cli::streams::{input, output, stdin_was_closed, stdout_was_closed};

use crate::hints;
use crate::objects::Address;
use crate::options::Telling;
use crate::stores::{NO_PIPE, Stores};
use crate::trouble::{Trouble, shown};

/// Source and target.
pub(crate) struct Ends {
    pub(crate) source: Place,
    /// `None` to verify.
    pub(crate) target: Option<Place>,
    pub(crate) source_is_tree: bool,
    /// True if the source is a FIFO or a device, which is read from beginning to end.
    pub(crate) source_is_stream: bool,
    /// The length of a single file, or of the rest of a file that is standard input.
    pub(crate) length: Option<u64>,
    /// The source, if it was opened to read its head.
    opened: Option<File>,
    /// The bytes that were read from it and belong to it.
    begins: &'static [u8],
    /// True if standard output is a terminal that gets only text.
    pub(crate) only_text: bool,
    /// True if nothing has the target's name yet.
    target_is_new: bool,
}

/// The beginning of a stream.
pub(crate) enum Head {
    /// A wrapped key, which is read.
    Key(Box<KeyFile>),
    /// That of an age file: these bytes of it are read.
    Age(&'static [u8]),
}

/// SRC or DST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `-`: standard input or output.
    Pipe,
    Path(PathBuf),
    /// Objects in an object store.
    Objects(Address),
}

impl Place {
    /// The place that was typed as SRC.
    pub(crate) fn of_source(typed: OsString) -> Place {
        Place::named(typed, &STANDARD_INPUT)
    }

    /// The place that was typed as DST.
    pub(crate) fn of_target(typed: OsString) -> Place {
        Place::named(typed, &["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
    }

    /// Its path or its address; `-` for a pipe.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Place::Pipe => PathBuf::from("-"),
            Place::Path(path) => path.clone(),
            Place::Objects(address) => address.to_string().into(),
        }
    }

    /// The place that was typed; `pipe` lists the names of standard input or output.
    fn named(typed: OsString, pipe: &[&str]) -> Place {
        if pipe.iter().any(|name| typed == *name) { Place::Pipe } else { Place::Path(typed.into()) }
    }
}

impl Ends {
    /// Looks at the source, and refuses arguments that make no sense. `makes` says that the target
    /// is a directory which is yet to be made.
    pub(crate) fn find(
        operation: Operation,
        source: OsString,
        target: Option<OsString>,
        makes: bool,
        telling: &Telling,
    ) -> Result<Ends, Trouble> {
        let empty = [("SRC", Some(&source)), ("DST", target.as_ref())];
        if let Some((name, _)) =
            empty.iter().find(|(_, typed)| typed.is_some_and(|typed| typed.is_empty()))
        {
            return Err(Trouble::Usage(format!(
                "{name} is empty; name a file or a directory, or give - for a pipe"
            )));
        }
        let place = |typed: OsString, of: fn(OsString) -> Place| {
            let address = Stores::address(&typed)?;
            Ok::<_, Trouble>(address.map_or_else(|| of(typed), Place::Objects))
        };
        let source = place(source, Place::of_source)?;
        let target = target.map(|target| place(target, Place::of_target)).transpose()?;
        let metadata = match &source {
            Place::Pipe if stdin_was_closed() => {
                return Err(Trouble::usage("can't read standard input: it is closed"));
            }
            Place::Pipe | Place::Objects(_) => None,
            Place::Path(path) => Some(fs::metadata(path).map_err(|cause| Trouble::File {
                action: "open",
                path: path.clone(),
                cause,
            })?),
        };
        let source_is_tree = matches!(source, Place::Objects(_))
            || metadata.as_ref().is_some_and(fs::Metadata::is_dir);
        let source_is_stream =
            metadata.as_ref().is_some_and(|metadata| !metadata.is_dir() && !metadata.is_file());
        let length = match &source {
            Place::Pipe => left_of_stdin(),
            Place::Objects(_) => None,
            Place::Path(_) => metadata.filter(fs::Metadata::is_file).map(|metadata| metadata.len()),
        };
        if target == Some(Place::Pipe) {
            if stdout_was_closed() {
                return Err(Trouble::Output(io::ErrorKind::NotFound.into()));
            }
            if matches!(source, Place::Objects(_)) {
                return Err(Trouble::usage(NO_PIPE));
            }
            if source_is_tree {
                let instead = match operation {
                    Operation::Encrypt => ", or pack it first: tar c SRC | evener encrypt ... - -",
                    _ => "",
                };
                return Err(Trouble::Usage(format!(
                    "a tree goes to a directory, not to a pipe; name one as DST{instead}"
                )));
            }
            if telling.json {
                return Err(Trouble::usage(
                    "--json and the output can't both be standard output; leave out --json, or name \
                     a file as DST",
                ));
            }
        }
        if let (false, Some(Place::Path(target)), false) = (source_is_tree, &target, makes) {
            refuse_no_directory(target)?;
        }
        if let (true, Place::Path(source), Some(Place::Path(target))) =
            (source_is_tree, &source, &target)
        {
            refuse_inside(source, target)?;
        }
        if let (true, Place::Path(source), Some(Place::Path(target))) =
            (source_is_stream, &source, &target)
            && (makes || target.is_dir())
        {
            return Err(Trouble::Usage(format!(
                "{} is no file with a name to keep; name the file in {} that it goes to",
                shown(source),
                shown(target)
            )));
        }
        let target_is_new = matches!(&target, Some(Place::Path(path))
            if fs::symlink_metadata(path).is_err());
        Ok(Ends {
            source,
            target,
            source_is_tree,
            source_is_stream,
            length,
            opened: None,
            begins: &[],
            only_text: false,
            target_is_new,
        })
    }

    /// The source of `rewrap`, which it changes in place, or copies if it is a pipe.
    pub(crate) fn to_rewrap(path: OsString, telling: &Telling) -> Result<Ends, Trouble> {
        let target = (Place::of_source(path.clone()) == Place::Pipe).then(|| "-".into());
        Ends::find(Operation::Encrypt, path, target, false, telling)
    }

    /// Removes output directories that were made in vain.
    pub(crate) fn remove_empty_target(&self) {
        if let (true, Some(Place::Path(path))) = (self.target_is_new, &self.target) {
            remove_empty(path);
        }
    }

    /// Returns whether one of the ends is an object store.
    pub(crate) fn has_objects(&self) -> bool {
        let is_objects = |place: &Place| matches!(place, Place::Objects(_));
        is_objects(&self.source) || self.target.as_ref().is_some_and(is_objects)
    }

    /// Returns whether one of the ends is a pipe or is read like one.
    pub(crate) fn has_pipe(&self) -> bool {
        self.source == Place::Pipe || self.source_is_stream || self.target == Some(Place::Pipe)
    }

    /// Refuses to show encrypted data, which is no text, on a terminal.
    pub(crate) fn refuse_terminal(&self) -> Result<(), Trouble> {
        match self.target == Some(Place::Pipe) && output().is_terminal() {
            true => Err(Trouble::usage(
                "encrypted data is not for a terminal; redirect it, or have age write text: --format \
                 age --base64",
            )),
            false => Ok(()),
        }
    }

    /// Treats a file as a stream, as base64 requires.
    pub(crate) fn take_as_stream(&mut self, option: &str) -> Result<(), Trouble> {
        if self.source_is_tree {
            return Err(Trouble::Usage(format!(
                "{option} goes with a file or a pipe, not with a tree; leave it out, or name a file"
            )));
        }
        if let Some(Place::Path(target)) = &self.target
            && target.is_dir()
        {
            return Err(Trouble::Usage(format!(
                "{} is a directory, and with {option} the output has no name of its own; name the \
                 file that it goes to",
                shown(target)
            )));
        }
        self.source_is_stream |= self.source != Place::Pipe;
        Ok(())
    }

    /// Refuses two readers of standard input among the source and these options.
    pub(crate) fn check_stdin(&self, readers: &[&str]) -> Result<(), Trouble> {
        let source = (self.source == Place::Pipe).then_some("SRC");
        let mut readers = readers.iter().copied().chain(source);
        let (Some(first), Some(second)) = (readers.next(), readers.next()) else { return Ok(()) };
        Err(Trouble::Usage(format!(
            "{first} and {second} can't both be standard input; give one of them as a file, or as \
             <(command)"
        )))
    }

    /// Reads the wrapped key at the head of data that `encrypt --recipient` wrote to a pipe: from a
    /// file that begins with one, and from a pipe or a device if `is_wanted`. From then on, the rest
    /// is the source.
    pub(crate) fn take_head(&mut self, is_wanted: bool) -> Result<Option<Head>, Trouble> {
        let (mut input, shown) = match &self.source {
            _ if self.source_is_tree => return Ok(None),
            Place::Pipe if is_wanted => {
                let input = input().try_clone_to_owned();
                let failed = |cause| Trouble::File { action: "read", path: "-".into(), cause };
                (File::from(input.map_err(failed)?), Path::new("standard input"))
            }
            Place::Pipe | Place::Objects(_) => return Ok(None),
            Place::Path(_) if self.source_is_stream && !is_wanted => return Ok(None),
            Place::Path(path) => {
                // A file that can't be opened is reported later like any other.
                let Ok(file) = File::open(path) else { return Ok(None) };
                let mut beginning = [0; PipeHead::MAGIC.len()];
                let is_file = !self.source_is_stream;
                if is_file
                    && (file.read_exact_at(&mut beginning, 0).is_err()
                        || beginning != PipeHead::MAGIC)
                {
                    let path = path.clone();
                    return self.take_armour(&path).map(|()| None);
                }
                (file, &**path)
            }
        };
        let head = match PipeHead::read(&mut input, shown)? {
            Ok(key) => Head::Key(Box::new(key)),
            Err(begins) => Head::Age(begins),
        };
        if let Head::Age(begins) = head {
            self.begins = begins;
        }
        self.opened = Some(input);
        self.source_is_stream |= self.source != Place::Pipe;
        Ok(Some(head))
    }

    /// Treats an age file in ASCII armour as a stream, since it has no chunks of known places.
    fn take_armour(&mut self, path: &Path) -> Result<(), Trouble> {
        match hints::is_armoured(path) {
            true => self.take_as_stream("ASCII armour"),
            false => Ok(()),
        }
    }

    pub(crate) fn stream_source(&self) -> io::Result<StreamSource<'static>> {
        Ok(match (&self.source, &self.opened) {
            (source, Some(file)) if !self.begins.is_empty() => StreamSource::Begun {
                descriptor: file.as_fd().try_clone_to_owned()?,
                path: source.path(),
                read: self.begins.to_vec(),
            },
            (Place::Pipe, _) => StreamSource::Descriptor(input().try_clone_to_owned()?),
            (Place::Path(path), Some(file)) => {
                StreamSource::Opened(file.as_fd().try_clone_to_owned()?, path.clone())
            }
            (Place::Path(path), None) => StreamSource::File(path.clone()),
            (Place::Objects(_), _) => return Err(io::ErrorKind::Unsupported.into()),
        })
    }

    pub(crate) fn stream_target(&self) -> io::Result<StreamTarget<'static>> {
        Ok(match &self.target {
            None => StreamTarget::Nowhere,
            Some(Place::Pipe) if self.only_text => {
                StreamTarget::Terminal(output().try_clone_to_owned()?)
            }
            Some(Place::Pipe) => StreamTarget::Descriptor(output().try_clone_to_owned()?),
            Some(Place::Path(path)) => StreamTarget::File(path.clone()),
            Some(Place::Objects(_)) => return Err(io::ErrorKind::Unsupported.into()),
        })
    }
}

/// The names of standard input.
pub(crate) const STANDARD_INPUT: [&str; 4] = ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

/// The directory that a path is in.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Rejects a name that only a directory can have, if that directory does not exist: the file would
/// get another name than the user means.
fn refuse_no_directory(target: &Path) -> Result<(), Trouble> {
    let name = target.as_os_str().as_encoded_bytes();
    if target.is_dir() || ![&b"/"[..], b"/.", b"/.."].iter().any(|end| name.ends_with(end)) {
        return Ok(());
    }
    let length = name.iter().rposition(|byte| !b"/.".contains(byte)).map_or(0, |last| last + 1);
    let is_file = Path::new(OsStr::from_bytes(&name[..length])).is_file();
    Err(Trouble::Usage(match is_file {
        true => format!("{}: it is a file, and the name is one of a directory", shown(target)),
        false => format!(
            "{}: there is no such directory; make it first, or give the name of a file",
            shown(target)
        ),
    }))
}

/// Refuses a target inside the source before anything is made there.
pub(crate) fn refuse_inside(source: &Path, target: &Path) -> Result<(), Trouble> {
    let there = if target.exists() { target } else { directory_of(target) };
    if !holds(source, there) {
        return Ok(());
    }
    let error = Refusal::InsideSource(shown(source).to_string()).into();
    Err(Failure { path: target.to_owned(), error }.into())
}

/// Returns whether a directory is what a path leads to, or contains it, under whatever name. A path
/// that can't be resolved is rejected later, with the reason.
fn holds(directory: &Path, path: &Path) -> bool {
    let itself = fs::metadata(directory);
    itself.is_ok_and(|itself| with_those_above(path).contains(&identity(&itself)))
}

/// The identities of what a path leads to, and of all directories that contain it.
pub(crate) fn with_those_above(path: &Path) -> Vec<(u64, u64)> {
    let resolved = fs::canonicalize(path);
    let all = resolved.iter().flat_map(|path| path.ancestors());
    all.filter_map(|path| fs::metadata(path).ok()).map(|found| identity(&found)).collect()
}

/// The device and the inode of a file.
pub(crate) fn identity(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Removes a directory and its subdirectories, as far as they hold nothing else.
fn remove_empty(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_directory = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_directory).for_each(|entry| remove_empty(&entry.path()));
    // The system refuses to remove a directory that is not empty.
    let _ = fs::remove_dir(directory);
}

/// The number of bytes left to read from standard input, if it is a file.
fn left_of_stdin() -> Option<u64> {
    let mut file = File::from(input().try_clone_to_owned().ok()?);
    let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
    Some(metadata.len().saturating_sub(file.stream_position().ok()?))
}
