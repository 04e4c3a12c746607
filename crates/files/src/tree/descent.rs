//! The path from the root of a tree down to one of its directories, with few open files however
//! long it is.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::directory::open_directory;
use crate::location::Location;

/// The open directories on a path down: the last few, every other one of those above them, every
/// fourth of those above these, and so on. A closed directory is opened again from the nearest open
/// one above it. On the way up through all directories, each is so opened about three times,
/// whether there are a thousand or a hundred thousand.
pub(super) struct Open<T> {
    /// The open directories by their depths below the root, which is not among them.
    open: Vec<(usize, T)>,
    /// The depth of the path.
    depth: usize,
}

/// A path down whose every step is the name of a directory; it can lead to one directory after
/// another.
pub(crate) struct Descent<'t> {
    root: BorrowedFd<'t>,
    /// True if a symbolic link in the place of a directory is followed.
    follow: bool,
    /// The directories on the path, without the root.
    way: Vec<Arc<Location>>,
    open: Open<OwnedFd>,
}

impl<T> Default for Open<T> {
    fn default() -> Open<T> {
        Open { open: Vec::new(), depth: 0 }
    }
}

impl<T> Open<T> {
    /// Enters a directory that was opened in the deepest one.
    pub(super) fn enter(&mut self, opened: T) {
        self.depth += 1;
        self.push(self.depth, opened);
    }

    /// Sets the depth: closes deeper directories; [`Open::deepest`] opens those still to be opened.
    pub(super) fn lead_to(&mut self, depth: usize) {
        while self.open.pop_if(|(open, _)| *open > depth).is_some() {}
        self.depth = depth;
    }

    /// The deepest directory, or `None` for the root. `open` opens the closed directories on the
    /// way there, each in the one above it.
    pub(super) fn deepest<E>(
        &mut self,
        mut open: impl FnMut(Option<&T>, usize) -> Result<T, E>,
    ) -> Result<Option<&T>, E> {
        let last = self.open.last().map_or(0, |(depth, _)| *depth);
        for depth in last + 1..=self.depth {
            let opened = open(self.open.last().map(|(_, above)| above), depth)?;
            self.push(depth, opened);
        }
        Ok(self.open.last().map(|(_, deepest)| deepest))
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
        Descent { root, follow, way: Vec::new(), open: Open::default() }
    }

    /// Opens a directory of the tree. Directories beside or below each other take few steps.
    ///
    /// # Errors
    /// When a directory on the way can't be opened.
    pub(crate) fn to(&mut self, location: &Arc<Location>) -> Result<BorrowedFd<'_>, Errno> {
        let mut down = Vec::new();
        let mut at = location;
        while let Some((above, _)) = at.above() {
            if self.way.get(at.depth() - 1).is_some_and(|there| Arc::ptr_eq(there, at)) {
                break;
            }
            down.push(at.clone());
            at = above;
        }
        self.way.truncate(at.depth());
        self.open.lead_to(at.depth());
        self.way.extend(down.into_iter().rev());
        self.open.lead_to(self.way.len());
        let Descent { root, follow, way, open } = self;
        let opened = open.deepest(|above, depth| {
            let above = above.map_or(*root, OwnedFd::as_fd);
            let name = way.get(depth - 1).and_then(|location| location.above());
            let (_, name) = name.ok_or(Errno::INVAL)?;
            open_directory(above, name, *follow)
        });
        Ok(opened?.map_or(*root, OwnedFd::as_fd))
    }
}

/// The number of the last directories that stay open.
const NEAR: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes down to a depth and up again, one directory at a time. Returns the number of times that
    /// directories were opened on the way up, and the most that were open at once.
    fn down_and_up(depth: usize) -> (usize, usize) {
        let mut open = Open::default();
        let mut most = 0;
        for at in 1..=depth {
            open.enter(at);
            most = most.max(open.open.len());
        }
        let mut opened = 0;
        for at in (0..depth).rev() {
            open.lead_to(at);
            let deepest = open.deepest(|above, depth| {
                assert_eq!(above.copied().unwrap_or(0), depth - 1);
                opened += 1;
                Ok::<_, ()>(depth)
            });
            assert_eq!(deepest, Ok((at > 0).then_some(&at)));
            most = most.max(open.open.len());
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
        let mut open = Open::default();
        open.lead_to(3);
        assert_eq!(open.deepest(|_, depth| if depth < 3 { Ok(depth) } else { Err(()) }), Err(()));
        assert_eq!(open.deepest(|above, depth| Err((above.copied(), depth))), Err((Some(2), 3)));
        open.lead_to(2);
        assert_eq!(open.deepest(|_, _| Err(())), Ok(Some(&2)));
    }
}
