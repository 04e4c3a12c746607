//! Lists what a sealed tree holds.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use evener_format::index::{Entry, Kind};
use serde::Serialize;

use super::origin::{Order, fault_of};
use super::reader::{GenerationInfo, info_of, snapshot, wanted};
use super::roots::{Roots, Step};
use super::snapshot::Snapshot;
use super::wanted::Wanted;
use super::writer::SealedOptions;
use crate::place::Origin;
use crate::{Failure, Fault, FileError, RunSettings, Selection};

/// An entry of a sealed tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ListedEntry {
    /// The path below the root of the tree; empty for the root itself.
    #[serde(flatten, serialize_with = "crate::report::path_entries")]
    pub path: PathBuf,
    /// `file`, `directory`, `symlink`, or `link` for a further name of a file.
    pub kind: &'static str,
    /// The permission bits.
    pub mode: Option<u32>,
    /// The time of the last modification, in seconds since 1970, and nanoseconds.
    pub modified: Option<(i64, u32)>,
    /// The numbers of its user and group.
    pub owner: Option<(u32, u32)>,
    /// The length of a file in bytes.
    pub bytes: Option<u64>,
    /// The target of a symbolic link, or the first name of a file.
    #[serde(flatten, serialize_with = "crate::report::target_entries")]
    pub target: Option<PathBuf>,
    /// The file that holds the content, and its length in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<(String, u64)>,
    /// The generation for which the content was sealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed_for: Option<u64>,
}

/// How much of a tree is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Everything below the selected paths.
    #[default]
    All,
    /// The selected paths and the entries of the selected directories.
    One,
}

/// Lists the selected entries of a generation, in the order of the index: by directory, then by
/// name. Returns false from `each` to stop.
///
/// # Errors
/// When the root can't be read or is not believed. Damaged parts go to `each`.
pub fn list(
    origin: &dyn Origin,
    run: &RunSettings,
    selection: &Selection,
    depth: Depth,
    sealed: &SealedOptions,
    each: &mut dyn FnMut(Result<ListedEntry, Failure>) -> bool,
) -> Result<GenerationInfo, FileError> {
    let (snapshot, info) = snapshot(origin, run, sealed)?;
    let watch = selection.watch();
    let mut order = Order::default();
    let fail = |path: PathBuf, error| {
        let is_root = path.as_os_str().is_empty();
        let path = if is_root { origin.label() } else { path };
        Err(Failure { path, error })
    };
    for line in snapshot.lines(of_depth(wanted(selection), depth, selection)) {
        let (path, entry) = match line {
            Err(damage) => {
                let path = PathBuf::from(OsString::from_vec(damage.first.whole()));
                let error = fault_of(&damage).into();
                match each(fail(path, error)) {
                    true => continue,
                    false => return Ok(info),
                }
            }
            Ok(line) => match order.check(&line) {
                Ok(path) => (path, line.1),
                Err(Fault::Entry { name, reason }) => {
                    let error = Fault::Failed(reason).into();
                    match each(fail(name.path().to_owned(), error)) {
                        true => continue,
                        false => return Ok(info),
                    }
                }
                Err(fault) => return Err(fault.into()),
            },
        };
        let takes = match entry.kind {
            Kind::Directory => watch.takes_directory(&path),
            _ => watch.takes_file(&path),
        };
        let is_outside = match depth {
            Depth::One => !is_near(&path, selection),
            Depth::All => !is_below(&path, selection),
        };
        if takes && !is_outside && !each(Ok(listed(path, entry))) {
            return Ok(info);
        }
    }
    for (path, error) in watch.missing(None) {
        each(fail(path.to_owned(), error));
    }
    Ok(info)
}

/// Lists the generations of a tree, the newest first. Returns false from `each` to stop. Of those
/// whose roots can't be opened, as for lack of a key, there is an error.
///
/// # Errors
/// When the newest root can't be read or is not believed.
pub fn generations(
    origin: &dyn Origin,
    run: &RunSettings,
    sealed: &SealedOptions,
    each: &mut dyn FnMut(u64, bool, Result<GenerationInfo, FileError>) -> bool,
) -> Result<(), FileError> {
    let (snapshot, info) = snapshot(origin, run, sealed)?;
    let Snapshot { depot, keys, generation } = &snapshot;
    let roots = Roots { depot, keys };
    let kept = generation.claim.kept.clone();
    let mut step = Step::of(generation);
    let mut opened = Ok(info);
    loop {
        let number = step.claim.number;
        let is_whole = kept.as_ref().is_none_or(|kept| kept.contains(number));
        if !each(number, is_whole, opened) || step.claim.before.is_none() {
            return Ok(());
        }
        step = roots.predecessor(&step)?;
        opened = roots.open(step.claim.number).map(|it| info_of(&it, false, Vec::new()));
    }
}

/// The parts that are read to list the selected paths to a depth.
fn of_depth(wanted: Wanted, depth: Depth, selection: &Selection) -> Wanted {
    match (depth, selection.paths().is_empty()) {
        (Depth::All, _) => wanted,
        (Depth::One, true) => Wanted::children_of_root(),
        (Depth::One, false) => wanted.with_children_only(),
    }
}

/// Returns whether a path is a selected one, or below it.
pub(super) fn is_below(path: &Path, selection: &Selection) -> bool {
    let mut paths = selection.paths().iter();
    selection.paths().is_empty() || paths.any(|above| path.starts_with(above))
}

/// Returns whether a path is a selected one, or a child of it.
fn is_near(path: &Path, selection: &Selection) -> bool {
    let is_child = |above: &Path| path == above || path.parent() == Some(above);
    match selection.paths() {
        [] => is_child(Path::new("")),
        paths => paths.iter().any(|above| is_child(above)),
    }
}

pub(super) fn listed(path: PathBuf, entry: Entry) -> ListedEntry {
    let target = |bytes: &Vec<u8>| Some(PathBuf::from(OsString::from_vec(bytes.clone())));
    let (kind, content, target) = match &entry.kind {
        Kind::File(content) => ("file", Some(content), None),
        Kind::Directory => ("directory", None, None),
        Kind::Symlink(path) => ("symlink", None, target(path)),
        Kind::Further(first) => ("link", None, target(first)),
    };
    ListedEntry {
        path,
        kind,
        mode: entry.mode,
        modified: entry.modified,
        owner: entry.owner,
        bytes: content.map(|content| content.size),
        target,
        stored: content.map(|content| (content.name.path(), content.length)),
        sealed_for: content.map(|content| content.generation),
    }
}
