//! A start that threads wait for together, and that can be called off.
//!
//! At a `std::sync::Barrier` the others would wait for ever if a thread can't start, or panics.

use std::sync::{Condvar, Mutex};

use evener_core::IgnorePoison;

/// A place where threads wait until all are there.
pub(super) struct Start {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The number of threads that are not there yet.
    missing: usize,
    is_off: bool,
}

/// A thread's place in the start. Dropping it before the wait calls the start off.
pub(super) struct Place<'s> {
    start: &'s Start,
    has_waited: bool,
}

impl Start {
    /// A start of this many threads.
    pub(super) fn of(threads: usize) -> Start {
        let state = State { missing: threads, is_off: false };
        Start { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The place that each thread takes first.
    pub(super) fn place(&self) -> Place<'_> {
        Place { start: self, has_waited: false }
    }

    /// Lets all waiting threads go, and those that come later.
    pub(super) fn call_off(&self) {
        self.update(|state| state.is_off = true);
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().ignore_poison());
        self.changed.notify_all();
    }
}

impl Place<'_> {
    /// Waits until all threads are there or the start is called off. Returns whether all are there.
    pub(super) fn wait(mut self) -> bool {
        self.has_waited = true;
        let Start { state, changed } = self.start;
        self.start.update(|state| state.missing = state.missing.saturating_sub(1));
        let state = state.lock().ignore_poison();
        let waits = |state: &mut State| state.missing > 0 && !state.is_off;
        !changed.wait_while(state, waits).ignore_poison().is_off
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.has_waited {
            self.start.call_off();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn all_go_once_all_are_there() {
        let start = Start::of(3);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| start.place().wait())).collect();
            assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
        });
    }

    #[test]
    fn nobody_waits_for_a_thread_that_does_not_come() {
        let start = Start::of(3);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| start.place().wait());
            let panicking = scope.spawn(|| {
                let _place = start.place();
                panic!("on purpose");
            });
            assert!(panicking.join().is_err());
            assert!(!waiting.join().unwrap());
        });
        assert!(!start.place().wait());
    }
}
