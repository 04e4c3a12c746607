//! What is known of a server.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evener_core::IgnorePoison;
use opendal::{Error, Result};

use crate::latencies::Latencies;
use crate::unanswered::Unanswered;
use crate::window::Window;

/// A server, as its answers show it.
pub(crate) struct Host {
    pub(crate) window: Arc<Window>,
    pub(crate) reads: Latencies,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answered: Option<Instant>,
    /// When a request was given up without an answer, and why.
    silent: Option<(Instant, Unanswered)>,
}

impl Host {
    pub(crate) fn new(requests: usize) -> Host {
        let window = Arc::new(Window::new(requests));
        Host { window, reads: Latencies::default(), state: Mutex::default() }
    }

    /// # Errors
    /// That of a request that was given up a short time ago: so a thousand objects do not wait for
    /// a server one after another.
    pub(crate) fn check(&self, pause: Duration) -> Result<()> {
        match &self.state.lock().ignore_poison().silent {
            Some((since, reason)) if since.elapsed() < pause => Err(reason.clone().into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn has_answered(&self) -> bool {
        self.state.lock().ignore_poison().answered.is_some()
    }

    pub(crate) fn answered(&self) {
        let mut state = self.state.lock().ignore_poison();
        (state.answered, state.silent) = (Some(Instant::now()), None);
    }

    /// Remembers the end of a request that was begun then, if no other had an answer meanwhile.
    pub(crate) fn gave_up(&self, error: &Error, begun: Instant) {
        let mut state = self.state.lock().ignore_poison();
        if state.answered.is_none_or(|answered| answered < begun) {
            state.silent = Unanswered::of(error).map(|reason| (Instant::now(), reason.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_server_is_not_asked_again_for_a_while() {
        let (host, long) = (Host::new(1), Duration::from_secs(1000));
        let begun = Instant::now();
        host.gave_up(&Unanswered::stalled(), begun);
        assert!(host.check(long).is_err() && host.check(Duration::ZERO).is_ok());
        host.answered();
        assert!(host.check(long).is_ok() && host.has_answered());
        // One request failed, and another had an answer.
        host.gave_up(&Unanswered::stalled(), begun);
        assert!(host.check(long).is_ok());
    }
}
