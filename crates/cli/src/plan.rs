//! The plan of an operation, made before anything runs.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener::format::OpensslSecret;
use evener::keys::{KeyFile, PipeHead};
use evener::{
    Control, Evener, Failure, FileError, Mode, Operation, Options, Selection, StreamSource,
    StreamTarget,
};

use crate::keys::FreshKey;
use crate::options::Telling;
use crate::route::Route;
use crate::sys::{output, stdin_was_closed, stdout_was_closed};
use crate::trouble::{Trouble, shown};

/// An operation with everything that it needs.
pub(crate) struct Plan {
    pub(crate) operation: Operation,
    pub(crate) evener: Evener,
    pub(crate) control: Arc<Control>,
    /// Whether symbolic links below the source are followed.
    pub(crate) follows_links: bool,
    /// Whether outputs are brought up to date.
    pub(crate) updates: bool,
    /// Which files of a tree are taken.
    pub(crate) selection: Selection,
    pub(crate) route: Route,
    /// A new key, which must be on disk before the first output.
    pub(crate) fresh_key: Option<FreshKey>,
    /// A reused wrapped key, kept open so that it is not removed meanwhile.
    pub(crate) reused_key: Option<File>,
    /// A message about a choice that the user did not make explicitly.
    pub(crate) said: Option<String>,
    /// Warnings before the operation begins.
    pub(crate) warnings: Vec<String>,
}

/// Source and target.
pub(crate) struct Ends {
    pub(crate) source: Place,
    /// `None` to verify.
    pub(crate) target: Option<Place>,
    pub(crate) source_is_tree: bool,
    /// Whether the source is a FIFO or a device, which is read from beginning to end.
    source_is_stream: bool,
    /// The length of a single file.
    pub(crate) length: Option<u64>,
    /// The source where it was opened to read the wrapped key at its head.
    opened: Option<File>,
}

/// SRC or DST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `-`: standard input or output.
    Pipe,
    Path(PathBuf),
}

impl Plan {
    /// A plan with its options, for existing keys.
    pub(crate) fn new(
        operation: Operation,
        evener: Evener,
        route: Route,
        warnings: Vec<String>,
        apply: impl FnOnce(&mut Options) -> Result<(), Trouble>,
    ) -> Result<Plan, Trouble> {
        let control = Arc::new(Control::default());
        let mut applied = Ok(());
        let (mut follows_links, mut updates) = (false, false);
        let mut selection = Selection::default();
        let evener = evener.options(|options| {
            options.control = control.clone();
            // In a shared directory names are whoever's who can write there.
            options.follow_target = !route.is_shared();
            applied = apply(options);
            follows_links = options.follow_symlinks;
            updates = options.update;
            selection = options.selection.clone();
        });
        applied?;
        let (fresh_key, reused_key, said) = (None, None, None);
        Ok(Plan {
            operation,
            evener,
            control,
            follows_links,
            updates,
            selection,
            route,
            fresh_key,
            reused_key,
            said,
            warnings,
        })
    }
}

impl Place {
    /// What was typed as SRC.
    pub(crate) fn of_source(typed: OsString) -> Place {
        Place::named(typed, &STANDARD_INPUT)
    }

    /// What was typed as DST.
    pub(crate) fn of_target(typed: OsString) -> Place {
        Place::named(typed, &["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
    }

    /// What was typed, where `pipe` are the names of standard input or output.
    fn named(typed: OsString, pipe: &[&str]) -> Place {
        if pipe.iter().any(|name| typed == *name) { Place::Pipe } else { Place::Path(typed.into()) }
    }
}

impl Ends {
    /// Looks at the source, and refuses what can't be meant. `makes` says that the target is a
    /// directory which is yet to be made.
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
        let source = Place::of_source(source);
        let target = target.map(Place::of_target);
        let metadata = match &source {
            Place::Pipe if stdin_was_closed() => {
                return Err(Trouble::usage("can't read standard input: it is closed"));
            }
            Place::Pipe => None,
            Place::Path(path) => Some(fs::metadata(path).map_err(|cause| Trouble::File {
                action: "open",
                path: path.clone(),
                cause,
            })?),
        };
        let source_is_tree = metadata.as_ref().is_some_and(fs::Metadata::is_dir);
        let source_is_stream =
            metadata.as_ref().is_some_and(|metadata| !metadata.is_dir() && !metadata.is_file());
        let length = metadata.filter(fs::Metadata::is_file).map(|metadata| metadata.len());
        if target == Some(Place::Pipe) {
            if stdout_was_closed() {
                return Err(Trouble::Output(io::ErrorKind::NotFound.into()));
            }
            if source_is_tree {
                return Err(Trouble::usage("a tree goes to a tree, not to a pipe"));
            }
            if telling.json {
                return Err(Trouble::usage("--json and the output can't both be standard output"));
            }
            if operation == Operation::Encrypt && output().is_terminal() {
                return Err(Trouble::usage("encrypted data is not for a terminal; redirect it"));
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
        Ok(Ends { source, target, source_is_tree, source_is_stream, length, opened: None })
    }

    /// Whether one of the ends is a pipe or is read like one.
    pub(crate) fn has_pipe(&self) -> bool {
        self.source == Place::Pipe || self.source_is_stream || self.target == Some(Place::Pipe)
    }

    /// Has a file read and written as a stream, as base64 is.
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

    /// Refuses two that would read standard input: the source and these options.
    pub(crate) fn check_stdin(&self, readers: &[&str]) -> Result<(), Trouble> {
        let source = (self.source == Place::Pipe).then_some("SRC");
        let mut readers = readers.iter().copied().chain(source);
        let (Some(first), Some(second)) = (readers.next(), readers.next()) else { return Ok(()) };
        Err(Trouble::Usage(format!(
            "{first} and {second} can't both be standard input; give one of them as a file, or as \
             <(command)"
        )))
    }

    /// Reads the wrapped key at the head of what `encrypt --recipient` wrote to a pipe: of a file
    /// that begins with one, and of a pipe or a device where `is_wanted`. What follows it is the
    /// source from then on.
    pub(crate) fn take_head(&mut self, is_wanted: bool) -> Result<Option<KeyFile>, Trouble> {
        let (mut input, shown) = match &self.source {
            _ if self.source_is_tree => return Ok(None),
            Place::Pipe if is_wanted => {
                let input = io::stdin().as_fd().try_clone_to_owned();
                let failed = |cause| Trouble::File { action: "read", path: "-".into(), cause };
                (File::from(input.map_err(failed)?), Path::new("standard input"))
            }
            Place::Pipe => return Ok(None),
            Place::Path(_) if self.source_is_stream && !is_wanted => return Ok(None),
            Place::Path(path) => {
                // What can't be opened is told of as any other file.
                let Ok(file) = File::open(path) else { return Ok(None) };
                let mut beginning = [0; PipeHead::MAGIC.len()];
                let is_file = !self.source_is_stream;
                if is_file
                    && (file.read_exact_at(&mut beginning, 0).is_err()
                        || beginning != PipeHead::MAGIC)
                {
                    return Ok(None);
                }
                (file, &**path)
            }
        };
        let head = PipeHead::read(&mut input, shown)?;
        self.opened = Some(input);
        self.source_is_stream |= self.source != Place::Pipe;
        Ok(Some(head))
    }

    pub(crate) fn stream_source(&self) -> io::Result<StreamSource> {
        Ok(match (&self.source, &self.opened) {
            (Place::Pipe, _) => StreamSource::Descriptor(io::stdin().as_fd().try_clone_to_owned()?),
            (Place::Path(path), Some(file)) => {
                StreamSource::Opened(file.as_fd().try_clone_to_owned()?, path.clone())
            }
            (Place::Path(path), None) => StreamSource::File(path.clone()),
        })
    }

    pub(crate) fn stream_target(&self) -> io::Result<StreamTarget> {
        Ok(match &self.target {
            None => StreamTarget::Nowhere,
            Some(Place::Pipe) => StreamTarget::Descriptor(output().try_clone_to_owned()?),
            Some(Place::Path(path)) => StreamTarget::File(path.clone()),
        })
    }
}

/// Warnings for the user before the operation begins.
pub(crate) fn warnings(operation: Operation, evener: &Evener, is_tree: bool) -> Vec<String> {
    let mut warnings: Vec<String> = evener
        .unable_engines(operation)
        .into_iter()
        .map(|engine| {
            let cipher = evener.key_ring().primary().cipher();
            format!("engine {engine} can't {} {cipher} and is left out", operation.direction())
        })
        .collect();
    let recipe = evener.key_ring().primary();
    if !recipe.cipher().is_authenticated() {
        warnings.push(
            match (operation, recipe.cipher().mode()) {
                (Operation::Verify, Mode::Cbc | Mode::Ecb) => {
                    "only the padding at the end of each file can be checked: nothing else in \
                     files of `openssl enc` shows that they were changed"
                }
                (Operation::Verify, _) => {
                    "nothing can be checked but that the files can be read: nothing in files of \
                     `openssl enc` with such a cipher shows that they were changed"
                }
                _ => "nothing authenticates files of `openssl enc`: changes go unnoticed",
            }
            .to_owned(),
        );
    }
    if let Some(iterations) = recipe.iterations()
        && iterations < OpensslSecret::RECOMMENDED_ITERATIONS
    {
        warnings.push(format!(
            "PBKDF2 with {iterations} iterations makes it quick to guess the passphrase; files \
             should be made with {} or more",
            OpensslSecret::RECOMMENDED_ITERATIONS
        ));
    }
    if operation == Operation::Encrypt && recipe.cipher().mode() == Mode::Ecb {
        warnings.push(
            "ECB shows which blocks of a file are equal; any other mode is better".to_owned(),
        );
    }
    if recipe.has_legacy_kdf() {
        warnings.push(
            "--kdf legacy makes it quick to guess the passphrase; files should be made without it"
                .to_owned(),
        );
    }
    if operation == Operation::Encrypt && is_tree && recipe.repeats_ivs() {
        warnings.push(
            "all files share one key and one IV, which shows where their beginnings are equal"
                .to_owned(),
        );
    }
    warnings
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
    Err(Trouble::Usage(format!(
        "{}: there is no such directory; make it first, or give the name of a file",
        shown(target)
    )))
}

/// Refuses a target inside the source before anything is made there.
pub(crate) fn refuse_inside(source: &Path, target: &Path) -> Result<(), Trouble> {
    let there = if target.exists() { target } else { directory_of(target) };
    // A path that can't be resolved is rejected later, with the reason.
    let (Ok(there), Ok(root)) = (fs::canonicalize(there), fs::canonicalize(source)) else {
        return Ok(());
    };
    if !there.starts_with(root) {
        return Ok(());
    }
    let error = FileError::Refused(format!("lies inside the source `{}`", shown(source)));
    Err(Failure { path: target.to_owned(), error }.into())
}
