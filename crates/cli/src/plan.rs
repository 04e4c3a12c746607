//! What is to be done, worked out before anything is.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener::format::OpensslSecret;
use evener::{
    Control, Evener, Failure, FileError, Mode, Operation, Options, Selection, StreamSource,
    StreamTarget,
};

use crate::keys::FreshKey;
use crate::options::Telling;
use crate::route::Route;
use crate::sys::{output, stdin_was_closed, stdout_was_closed};
use crate::trouble::{Trouble, shown};

/// An operation with all that it needs.
pub(crate) struct Plan {
    pub(crate) operation: Operation,
    pub(crate) evener: Evener,
    pub(crate) control: Arc<Control>,
    /// Whether what symbolic links below the source lead to is taken.
    pub(crate) follows_links: bool,
    /// Whether outputs are brought up to date.
    pub(crate) updates: bool,
    /// Which files of a tree are taken.
    pub(crate) selection: Selection,
    pub(crate) route: Route,
    /// A key that has to be on disk before the first output.
    pub(crate) fresh_key: Option<FreshKey>,
    /// A wrapped key that is used again, and must not go away meanwhile.
    pub(crate) reused_key: Option<File>,
    /// What was decided that the user did not ask for by name.
    pub(crate) said: Option<String>,
    /// What the user should know beforehand.
    pub(crate) warnings: Vec<String>,
}

/// Where it comes from and where it goes.
pub(crate) struct Ends {
    pub(crate) source: Place,
    /// `None` to verify.
    pub(crate) target: Option<Place>,
    pub(crate) source_is_tree: bool,
    /// Whether the source is a FIFO or a device, which is read from beginning to end.
    source_is_stream: bool,
    /// The length of a single file.
    pub(crate) length: Option<u64>,
}

/// SRC or DST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `-`: standard input or output.
    Pipe,
    Path(PathBuf),
}

impl Plan {
    /// A plan with its options, for keys that are there already.
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
        Place::named(typed, &["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"])
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
        Ok(Ends { source, target, source_is_tree, source_is_stream, length })
    }

    /// Whether one of the ends is standard input or output, or read as that is.
    pub(crate) fn has_pipe(&self) -> bool {
        self.source == Place::Pipe || self.source_is_stream || self.target == Some(Place::Pipe)
    }

    pub(crate) fn stream_source(&self) -> io::Result<StreamSource> {
        Ok(match &self.source {
            Place::Pipe => StreamSource::Descriptor(io::stdin().as_fd().try_clone_to_owned()?),
            Place::Path(path) => StreamSource::File(path.clone()),
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

/// What the user should know before the operation begins.
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
                (Operation::Verify, Mode::Cbc) => {
                    "only the padding at the end of each file can be checked: nothing else in \
                     files of `openssl enc` shows that they were changed"
                }
                (Operation::Verify, _) => {
                    "nothing can be checked but that the files can be read: nothing in files of \
                     `openssl enc` in CTR mode shows that they were changed"
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
    if operation == Operation::Encrypt && is_tree && recipe.repeats_ivs() {
        warnings.push(
            "all files share one key and one IV, which shows where their beginnings are equal"
                .to_owned(),
        );
    }
    warnings
}

/// The directory that a path is in.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Refuses a name that only a directory can have, where there is none: a file would go there under
/// another name than the user means.
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
    // What can't be resolved here is refused later, with the reason.
    let (Ok(there), Ok(root)) = (fs::canonicalize(there), fs::canonicalize(source)) else {
        return Ok(());
    };
    if !there.starts_with(root) {
        return Ok(());
    }
    let error = FileError::Refused(format!("lies inside the source `{}`", shown(source)));
    Err(Failure { path: target.to_owned(), error }.into())
}
