//! Which part of an index is read.

use evener_format::index::{EntryPath, compare_directories};

/// Paths of entries, with everything below them. None means everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// The paths, and the directories above them.
    points: Vec<EntryPath>,
    /// The paths.
    subtrees: Vec<Vec<u8>>,
    /// Of what is below the paths, only what is directly there.
    is_shallow: bool,
}

impl Wanted {
    /// The part that these paths name.
    pub(super) fn paths<'p>(paths: impl IntoIterator<Item = &'p [u8]>) -> Wanted {
        let mut wanted = Wanted::default();
        for path in paths {
            if path.is_empty() {
                return Wanted::default();
            }
            let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            wanted.points.extend(slashes.map(|(at, _)| EntryPath::of(&path[..at])));
            wanted.points.push(EntryPath::of(path));
            wanted.subtrees.push(path.to_vec());
        }
        wanted
    }

    /// Returns whether the whole index is wanted.
    pub(super) fn is_everything(&self) -> bool {
        self.subtrees.is_empty()
    }

    /// The entries of the root directory.
    pub(super) fn children_of_root() -> Wanted {
        Wanted { points: Vec::new(), subtrees: vec![Vec::new()], is_shallow: true }
    }

    /// The same, without what is below directories in the paths.
    pub(super) fn with_children_only(self) -> Wanted {
        Wanted { is_shallow: true, ..self }
    }

    /// Returns whether entries from `first` on, up to `next`, may be among them.
    pub(super) fn may_hold(&self, first: &EntryPath, next: Option<&EntryPath>) -> bool {
        let is_before_next = |path: &EntryPath| next.is_none_or(|next| path < next);
        self.subtrees.is_empty()
            || self.points.iter().any(|point| first <= point && is_before_next(point))
            || self.subtrees.iter().any(|subtree| {
                let low = EntryPath { directory: subtree.as_slice().into(), name: Vec::new() };
                is_before_next(&low)
                    && (!self.is_shallow && is_below(&first.directory, subtree)
                        || compare_directories(&first.directory, subtree).is_le())
            })
    }
}

/// Returns whether a directory is this one, or below it.
pub(super) fn is_below(directory: &[u8], above: &[u8]) -> bool {
    let rest = directory.strip_prefix(above);
    above.is_empty() || rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}
