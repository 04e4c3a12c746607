//! A bound on the number of long objects that are open at once.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use evener_core::IgnorePoison;

/// The long objects that are open, and those that wait until one of them has ended. Each may hold
/// a part of its output in memory.
///
/// While anything waits, something is open or was returned by [`Openings::next`]. Whoever ends
/// that calls `next` again, so nothing waits for ever.
pub(crate) struct Openings<I> {
    most: usize,
    state: Mutex<State<I>>,
}

struct State<I> {
    open: usize,
    waiting: VecDeque<I>,
}

impl<I> Openings<I> {
    /// At most `most` objects, but one at least.
    pub(crate) fn new(most: usize) -> Openings<I> {
        let state = State { open: 0, waiting: VecDeque::new() };
        Openings { most: most.max(1), state: Mutex::new(state) }
    }

    /// Counts one more object if it may be opened now. Otherwise it waits.
    pub(crate) fn may_open(&self, item: impl FnOnce() -> I) -> bool {
        let mut state = self.lock();
        let may = state.open < self.most;
        match may {
            true => state.open += 1,
            false => state.waiting.push_back(item()),
        }
        may
    }

    /// An object that was opened has ended.
    pub(crate) fn closed(&self) {
        let mut state = self.lock();
        state.open = state.open.saturating_sub(1);
    }

    /// The next object that waits, if it may be opened now. It may prove to need no opening.
    pub(crate) fn next(&self) -> Option<I> {
        let mut state = self.lock();
        if state.open < self.most { state.waiting.pop_front() } else { None }
    }

    /// All that wait, when they will not be opened any more.
    pub(crate) fn left(&self) -> VecDeque<I> {
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
    fn what_is_too_much_waits_for_an_end_in_its_order() {
        let openings = Openings::new(1);
        assert!(openings.may_open(|| 1) && !openings.may_open(|| 2) && !openings.may_open(|| 3));
        assert_eq!(openings.next(), None);
        openings.closed();
        // It needs no opening, so the next one comes.
        assert_eq!((openings.next(), openings.next(), openings.next()), (Some(2), Some(3), None));
        assert!(openings.may_open(|| 3) && !openings.may_open(|| 4));
        assert_eq!((openings.left().len(), openings.left().len()), (1, 0));
    }
}
