//! The location of a directory below the root of a tree.

use std::ffi::{OsStr, OsString};
use std::iter::successors;
use std::path::PathBuf;
use std::sync::Arc;

/// The root of a tree, or a name in another of its directories. Each stores only its own name: its
/// path would be as long as the tree is deep.
#[derive(Debug)]
pub(crate) struct Location {
    /// The directory that it is in, and its name there; `None` for the root.
    above: Option<(Arc<Location>, OsString)>,
    depth: usize,
}

impl Location {
    pub(crate) fn root() -> Arc<Location> {
        Arc::new(Location { above: None, depth: 0 })
    }

    pub(crate) fn below(above: &Arc<Location>, name: &OsStr) -> Arc<Location> {
        let depth = above.depth + 1;
        Arc::new(Location { above: Some((above.clone(), name.to_owned())), depth })
    }

    /// Its depth below the root, in directories.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn is_root(&self) -> bool {
        self.above.is_none()
    }

    /// The directory that it is in, and its name there; `None` for the root.
    pub(crate) fn above(&self) -> Option<(&Arc<Location>, &OsStr)> {
        self.above.as_ref().map(|(above, name)| (above, &**name))
    }

    /// Its path below the root; empty for the root.
    pub(crate) fn path(&self) -> PathBuf {
        let upwards = successors(self.above(), |(above, _)| above.above());
        let mut names: Vec<_> = upwards.map(|(_, name)| name).collect();
        names.reverse();
        names.into_iter().collect()
    }

    /// The path below the root of the entry with this name.
    pub(crate) fn path_of(&self, name: &OsStr) -> PathBuf {
        let mut path = self.path();
        path.push(name);
        path
    }
}

impl Drop for Location {
    /// Drops one after another: nested drops would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.above.take();
        while let Some((above, _)) = next {
            next = Arc::into_inner(above).and_then(|mut above| above.above.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_location_has_the_path_of_its_names() {
        let root = Location::root();
        let inner = Location::below(&Location::below(&root, "a".as_ref()), "b".as_ref());
        assert_eq!((&*root.path(), &*inner.path()), (Path::new(""), Path::new("a/b")));
        assert_eq!(root.path_of("x".as_ref()), Path::new("x"));
        assert_eq!(inner.path_of("x".as_ref()), Path::new("a/b/x"));
        assert_eq!((root.depth(), inner.depth(), inner.is_root()), (0, 2, false));
    }

    #[test]
    fn a_long_way_down_takes_no_stack_to_drop() {
        let drop_it = || {
            let mut at = Location::root();
            for _ in 0..200_000 {
                at = Location::below(&at, "d".as_ref());
            }
            drop(at);
        };
        let small = std::thread::Builder::new().stack_size(64 << 10);
        small.spawn(drop_it).unwrap().join().unwrap();
    }
}
