//! A bound on the number of long objects that are open at once.

use std::sync::{Mutex, MutexGuard};

use evener_core::IgnorePoison;

/// The long objects that are open, and those that wait until one of them has ended. Each may hold
/// a part of its output in memory.
pub(super) struct Openings<I> {
    most: usize,
    state: Mutex<State<I>>,
}

struct State<I> {
    open: usize,
    waiting: Vec<I>,
}

impl<I> Openings<I> {
    /// At most `most` objects, but one at least.
    pub(super) fn new(most: usize) -> Openings<I> {
        Openings { most: most.max(1), state: Mutex::new(State { open: 0, waiting: Vec::new() }) }
    }

    /// Counts one more object if it may be opened now. Otherwise it waits, and [`Openings::closed`]
    /// will return it.
    pub(super) fn may_open(&self, item: impl FnOnce() -> I) -> bool {
        let mut state = self.lock();
        let may = state.open < self.most;
        match may {
            true => state.open += 1,
            false => state.waiting.push(item()),
        }
        may
    }

    /// An object has ended. Returns one that has waited for that.
    pub(super) fn closed(&self) -> Option<I> {
        let mut state = self.lock();
        state.open = state.open.saturating_sub(1);
        state.waiting.pop()
    }

    /// All that still wait, when no worker is left.
    pub(super) fn left(&self) -> Vec<I> {
        std::mem::take(&mut self.lock().waiting)
    }

    fn lock(&self) -> MutexGuard<'_, State<I>> {
        self.state.lock().ignore_poison()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_waits_for_an_end() {
        let openings = Openings::new(2);
        assert!(openings.may_open(|| 1) && openings.may_open(|| 2) && !openings.may_open(|| 3));
        assert_eq!(openings.closed(), Some(3));
        assert!(openings.may_open(|| 3) && !openings.may_open(|| 4));
        assert_eq!((openings.left(), openings.left()), (vec![4], vec![]));
    }
}
