//! The way from the root of a tree down to one of its directories, with few open files however long it is.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::directory::open_directory;
use super::location::Location;

/// What is open on a way down: the last few directories, of those above them every other one, of those
/// above these every fourth, and so on. One that was closed is opened again from the nearest one above it:
/// on a way up through all of them each is so opened about three times, whether there are a thousand or a
/// hundred thousand.
pub(super) struct Open<T> {
    /// By their depths below the root, which is not among them.
    open: Vec<(usize, T)>,
    /// How far down the way leads.
    depth: usize,
}

/// A way down whose every step is the name of a directory, which can lead to one after another.
pub(crate) struct Descent<'t> {
    root: BorrowedFd<'t>,
    /// Whether a symbolic link is followed in the place of a directory.
    follow: bool,
    /// The directories on the way, the root left out.
    way: Vec<Arc<Location>>,
    open: Open<OwnedFd>,
}

impl<T> Default for Open<T> {
    fn default() -> Open<T> {
        Open { open: Vec::new(), depth: 0 }
    }
}

impl<T> Open<T> {
    /// Goes down into a directory that was opened in the deepest.
    pub(super) fn enter(&mut self, opened: T) {
        self.depth += 1;
        self.push(self.depth, opened);
    }

    /// Sets the depth: what is deeper is closed, and what is to be opened yet is opened by
    /// [`Open::deepest`].
    pub(super) fn lead_to(&mut self, depth: usize) {
        while self.open.pop_if(|(open, _)| *open > depth).is_some() {}
        self.depth = depth;
    }

    /// The deepest, `None` for the root. `open` opens what is closed on the way there: that of a depth in
    /// the one above it.
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
        // Of those that are so far away only every second stays open.
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

/// At most so many are open at a time on a way of this depth.
pub(super) fn most_open(depth: usize) -> usize {
    let doublings = depth.div_ceil(NEAR).next_power_of_two().trailing_zeros() as usize;
    depth.min(NEAR + NEAR / 2 * doublings)
}

impl<'t> Descent<'t> {
    /// The way in a tree with this root. Unless `follow` allows it, it leads through no symbolic link, and
    /// so to nothing outside the tree.
    pub(crate) fn new(root: BorrowedFd<'t>, follow: bool) -> Descent<'t> {
        Descent { root, follow, way: Vec::new(), open: Open::default() }
    }

    /// Opens a directory of the tree. Directories that are beside or below each other take few steps.
    ///
    /// # Errors
    /// When one on the way can't be opened.
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

/// How many of the last directories are open.
const NEAR: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes down to a depth and up again, one directory at a time. Returns how many times one was opened
    /// on the way up, and how many were open at once.
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
