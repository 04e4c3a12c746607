//! `evener diff`

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use evener::Failure;
use evener::sealed_trees::{At, Change, Difference, Later};
use serde_json::json;

use crate::document::print_json;
use crate::options::{Choosing, Output, Part, TreeOptions};
use crate::sealed::Tree;
use crate::sealed::list::or_root;
use crate::signals::Signals;
use crate::trouble::{Ending, Trouble, refused, shown};

/// Show what has changed between generations of a sealed tree
///
/// ONE is the number of a generation. OTHER is the number of another, or a directory such as the
/// source; a file in it counts as unchanged if size and time are the same. Without OTHER, Evener
/// compares ONE with the newest generation; then ONE may also be a directory. Write ./2026 for a
/// directory whose name is a number.
///
/// The exit status is that of the system's `diff`: 0 if nothing differs, 1 if something does, 2
/// after an error.
#[derive(Args)]
pub(crate) struct Diff {
    #[command(flatten)]
    tree: TreeOptions,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Sealed tree
    #[arg(value_name = "TREE")]
    path: PathBuf,
    /// Number of a generation, or a directory
    #[arg(value_name = "ONE")]
    one: OsString,
    /// Number of another generation, or a directory
    #[arg(value_name = "OTHER")]
    other: Option<OsString>,
}

/// A state of the tree.
enum State {
    Generation(u64),
    Directory(PathBuf),
}

impl State {
    fn of(typed: &OsString) -> State {
        match typed.to_str().and_then(|typed| typed.parse().ok()) {
            Some(number) => State::Generation(number),
            None => State::Directory(typed.into()),
        }
    }
}

impl Diff {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let Diff { tree, part, output, path, one, other } = self;
        let tree = Tree::find(&path, tree, output.quiet, signals)?;
        let mut tree = tree.select(Choosing::default(), part)?;
        let (at, later) = match (State::of(&one), other.as_ref().map(State::of)) {
            (State::Generation(one), Some(other)) => (At::Number(one), other),
            (State::Generation(one), None) => (At::Number(one), State::Generation(0)),
            (later, None) => (At::Newest, later),
            (State::Directory(_), Some(_)) => {
                return Err(Trouble::usage(
                    "ONE is the number of a generation where OTHER is given: write `evener diff TREE \
                     1 SRC`",
                ));
            }
        };
        tree.sealed.at = at;
        if let State::Directory(path) = &later {
            refuse_no_directory(path)?;
        }
        let place = match &later {
            State::Directory(path) => Some(tree.evener.local(path)),
            State::Generation(_) => None,
        };
        let later = match (&place, &later) {
            (Some(place), _) => Later::Place(place),
            (None, State::Generation(number)) if *number > 0 => {
                Later::Generation(At::Number(*number))
            }
            _ => Later::Generation(At::Newest),
        };
        let (mut all, mut printed, mut has_changed) = (Vec::new(), Ok(()), false);
        let mut out = io::BufWriter::new(io::stdout().lock());
        tree.evener.diff_tree(&tree.place()?, later, &tree.sealed, &mut |difference| {
            has_changed = true;
            match output.json {
                true => all.push(difference),
                false => printed = print(&difference, &mut out),
            }
            printed.is_ok()
        })?;
        printed.and_then(|()| out.flush()).map_err(Trouble::Output)?;
        drop(out);
        if output.json {
            print_json(&json!({ "differences": all, "failures": [] }))?;
        }
        Ok(if has_changed { Ending::SomeFailed } else { Ending::Done })
    }
}

fn refuse_no_directory(path: &Path) -> Result<(), Trouble> {
    let reason = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "it is neither a directory nor the number of a generation",
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            "there is no such directory, and it is not the number of a generation"
        }
        Err(cause) => {
            return Err(Trouble::File { action: "read", path: path.to_owned(), cause });
        }
    };
    Err(Failure { path: path.to_owned(), error: refused(reason) }.into())
}

fn print(difference: &Difference, out: &mut impl Write) -> io::Result<()> {
    let word = match difference.change {
        Change::Added => "added",
        Change::Removed => "removed",
        Change::Kind => "type",
        Change::Content => "content",
        _ => "metadata",
    };
    writeln!(out, "{word:8} {}", shown(or_root(&difference.path)))
}
