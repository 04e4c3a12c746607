//! Limits the requests in flight to a server. Each time the server says that they are too many, the
//! limit is halved. Each time it has answered as many requests as the limit, the limit grows by
//! one.

use std::sync::{Arc, Mutex};

use evener_core::IgnorePoison;
use tokio::sync::Notify;

/// The requests of one server.
pub(crate) struct Window {
    most: f64,
    state: Mutex<State>,
    freed: Notify,
}

struct State {
    in_flight: usize,
    limit: f64,
    /// How often the limit was halved.
    halved: u64,
}

impl Window {
    pub(crate) fn new(most: usize) -> Window {
        let most = most.max(1) as f64;
        let state = State { in_flight: 0, limit: most, halved: 0 };
        Window { most, state: Mutex::new(state), freed: Notify::new() }
    }

    /// Waits until there is room.
    pub(crate) async fn enter(self: &Arc<Window>) -> Place {
        loop {
            if let Some(place) = self.try_enter() {
                return place;
            }
            self.freed.notified().await;
        }
    }

    /// Returns whether the limit is at its maximum.
    pub(crate) fn is_whole(&self) -> bool {
        self.state.lock().ignore_poison().limit >= self.most
    }

    fn try_enter(self: &Arc<Window>) -> Option<Place> {
        let mut state = self.state.lock().ignore_poison();
        // The limit is at least one.
        let has_room = state.in_flight < state.limit as usize;
        has_room.then(|| {
            state.in_flight += 1;
            Place { window: self.clone(), halved: state.halved }
        })
    }
}

/// One request in flight.
pub(crate) struct Place {
    window: Arc<Window>,
    halved: u64,
}

impl Place {
    /// Keeps the place until this call: a closure that calls it owns the place.
    pub(crate) fn stay(&self) {}

    /// Requests that were in flight together count once.
    pub(crate) fn was_too_many(&self) {
        let mut state = self.window.state.lock().ignore_poison();
        if state.halved == self.halved {
            state.halved += 1;
            state.limit = (state.limit / 2.0).max(1.0);
        }
    }

    pub(crate) fn was_answered(&self) {
        let mut state = self.window.state.lock().ignore_poison();
        state.limit = (state.limit + 1.0 / state.limit).min(self.window.most);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.window.state.lock().ignore_poison().in_flight -= 1;
        // The limit may have grown by one as well.
        self.window.freed.notify_one();
        self.window.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_halve_it_and_answers_let_it_grow() {
        let window = Arc::new(Window::new(8));
        let room = || std::iter::from_fn(|| window.try_enter()).take(100).collect::<Vec<_>>();
        let all = room();
        assert_eq!(all.len(), 8);
        all.iter().for_each(Place::was_too_many);
        drop(all);
        let some = room();
        assert_eq!(some.len(), 4);
        // Four answers up to 5, and five on the way to 6.
        for _ in 0..9 {
            some[0].was_answered();
        }
        drop(some);
        assert_eq!(room().len(), 5);
        for _ in 0..6 {
            window.try_enter().unwrap().was_too_many();
        }
        assert_eq!(room().len(), 1);
        let one = window.try_enter().unwrap();
        (0..1000).for_each(|_| one.was_answered());
        drop(one);
        assert_eq!(room().len(), 8);
    }
}
