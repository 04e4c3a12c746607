//! The path from the root of a tree down to one of its directories, with few open files however
//! long it is.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::directory::open_directory;
use crate::location::Location;

/// A path down whose every step is a directory, without the root; it can lead to one directory after
/// another. The last few are open, every other one of those above them, every fourth of those above
/// these, and so on. A closed directory is opened again from the nearest open one above it. On the
/// way up through all directories, each is so opened about three times, whether there are a
/// thousand or a hundred thousand.
pub(super) struct Way<T> {
    steps: Vec<Arc<Location>>,
    /// The open directories by their depths below the root.
    open: Vec<(usize, T)>,
}

/// A path down to directories that are opened by their names alone.
pub(crate) struct Descent<'t> {
    root: BorrowedFd<'t>,
    /// True if a symbolic link in the place of a directory is followed.
    follow: bool,
    way: Way<OwnedFd>,
}

/// The paths down both trees.
pub(super) struct Ways<'t> {
    pub(super) sources: Descent<'t>,
    pub(super) targets: Descent<'t>,
}

impl<T> Way<T> {
    pub(super) fn new() -> Way<T> {
        Way { steps: Vec::new(), open: Vec::new() }
    }

    /// Enters a directory that was opened in the one to which the path leads.
    pub(super) fn enter(&mut self, location: &Arc<Location>, opened: T) {
        self.steps.push(location.clone());
        self.push(self.steps.len(), opened);
    }

    /// Leads to a directory; `None` is the root. `open` opens the closed directories on the way
    /// there, each in the one above it.
    pub(super) fn to<E>(
        &mut self,
        location: &Arc<Location>,
        mut open: impl FnMut(Option<&T>, &Arc<Location>) -> Result<T, E>,
    ) -> Result<Option<&T>, E> {
        let mut down = Vec::new();
        let mut at = location;
        while let Some((above, _)) = at.above() {
            if self.steps.get(at.depth() - 1).is_some_and(|there| Arc::ptr_eq(there, at)) {
                break;
            }
            down.push(at.clone());
            at = above;
        }
        self.steps.truncate(at.depth());
        while self.open.pop_if(|(open, _)| *open > at.depth()).is_some() {}
        self.steps.extend(down.into_iter().rev());
        let last = self.open.last().map_or(0, |(depth, _)| *depth);
        for depth in last + 1..=self.steps.len() {
            let opened = open(self.deepest(), &self.steps[depth - 1])?;
            self.push(depth, opened);
        }
        Ok(self.deepest())
    }

    fn deepest(&self) -> Option<&T> {
        self.open.last().map(|(_, deepest)| deepest)
    }

    fn push(&mut self, depth: usize, opened: T) {
        self.open.push((depth, opened));
        // Of the directories this far away, only every second stays open.
        let mut unit = 1;
        while let Some(far) = depth.checked_sub(NEAR * unit).filter(|far| *far > 0) {
            if far % (2 * unit) == unit
                && let Ok(at) = self.open.binary_search_by_key(&far, |(depth, _)| *depth)
            {
                self.open.remove(at);
            }
            unit *= 2;
        }
    }
}

/// The most directories that are open at a time on a path of this depth.
pub(super) fn most_open(depth: usize) -> usize {
    let doublings = depth.div_ceil(NEAR).next_power_of_two().trailing_zeros() as usize;
    depth.min(NEAR + NEAR / 2 * doublings)
}

impl<'t> Descent<'t> {
    /// The path in a tree with this root. Unless `follow` allows it, the path follows no symbolic
    /// link, and so never leaves the tree.
    pub(crate) fn new(root: BorrowedFd<'t>, follow: bool) -> Descent<'t> {
        Descent { root, follow, way: Way::new() }
    }

    /// Opens a directory of the tree. Directories beside or below each other take few steps.
    ///
    /// # Errors
    /// When a directory on the way can't be opened.
    pub(crate) fn to(&mut self, location: &Arc<Location>) -> Result<BorrowedFd<'_>, Errno> {
        let Descent { root, follow, way } = self;
        let opened = way.to(location, |above, location| {
            let above = above.map_or(*root, OwnedFd::as_fd);
            let (_, name) = location.above().ok_or(Errno::INVAL)?;
            open_directory(above, name, *follow)
        });
        Ok(opened?.map_or(*root, OwnedFd::as_fd))
    }

    /// As [`Descent::to`]; `None` if it is gone, or is no longer a directory.
    pub(super) fn find(
        &mut self,
        location: &Arc<Location>,
    ) -> Result<Option<BorrowedFd<'_>>, Errno> {
        match self.to(location) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            found => found.map(Some),
        }
    }
}

/// The number of the last directories that stay open.
const NEAR: usize = 8;

#[cfg(test)]
mod tests {
    use std::iter::successors;

    use super::*;

    /// The directories of a path down, the root first.
    fn path(depth: usize) -> Vec<Arc<Location>> {
        let below = |above: &Arc<Location>| Some(Location::below(above, "d".as_ref()));
        successors(Some(Location::root()), below).take(depth + 1).collect()
    }

    /// Goes down to a depth and up again, one directory at a time. Returns the number of times that
    /// directories were opened on the way up, and the most that were open at once.
    fn down_and_up(depth: usize) -> (usize, usize) {
        let (path, mut way, mut most) = (path(depth), Way::new(), 0);
        for location in &path[1..] {
            way.enter(location, location.depth());
            most = most.max(way.open.len());
        }
        let mut opened = 0;
        for at in path[..depth].iter().rev() {
            let deepest = way.to(at, |above, location| {
                assert_eq!(above.copied().unwrap_or(0), location.depth() - 1);
                opened += 1;
                Ok::<_, ()>(location.depth())
            });
            assert_eq!(deepest, Ok((at.depth() > 0).then_some(&at.depth())));
            most = most.max(way.open.len());
        }
        (opened, most)
    }

    #[test]
    fn few_are_open_and_each_is_opened_a_few_times() {
        for (depth, times) in [(8, 0), (100, 1), (1000, 2), (10_000, 3), (100_000, 4)] {
            let (opened, most) = down_and_up(depth);
            assert!(opened <= times * depth, "{depth}: {opened}");
            assert!(most <= most_open(depth), "{depth}: {most} of {}", most_open(depth));
        }
        assert!(most_open(100_000) < 80 && most_open(3) == 3);
    }

    #[test]
    fn a_way_that_was_not_opened_is_opened_when_it_is_needed() {
        let (path, mut way) = (path(3), Way::new());
        let to_depth = |most| {
            move |_: Option<&usize>, location: &Arc<Location>| match location.depth() {
                depth if depth < most => Ok(depth),
                _ => Err(()),
            }
        };
        assert_eq!(way.to(&path[3], to_depth(3)), Err(()));
        let failed = way.to(&path[3], |above, location| Err((above.copied(), location.depth())));
        assert_eq!(failed, Err((Some(2), 3)));
        assert_eq!(way.to(&path[2], to_depth(0)), Ok(Some(&2)));
    }
}
