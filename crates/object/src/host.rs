//! The state of a server.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evener_core::IgnorePoison;
use opendal::{Error, Result};

use crate::latencies::Latencies;
use crate::unanswered::{Kind, Unanswered};
use crate::window::Window;

/// A server's state, as seen in its answers.
pub(crate) struct Host {
    pub(crate) window: Arc<Window>,
    pub(crate) reads: Latencies,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answered: Option<Instant>,
    /// The time and reason of the last request that got no answer in the end.
    silent: Option<(Instant, Unanswered)>,
}

impl Host {
    pub(crate) fn new(requests: usize) -> Host {
        let window = Arc::new(Window::new(requests));
        Host { window, reads: Latencies::default(), state: Mutex::default() }
    }

    /// # Errors
    /// [`Kind::Unsent`] with the last request's reason, if it failed without an answer within
    /// `pause`. A thousand objects then do not wait for a dead server one after another.
    pub(crate) fn check(&self, pause: Duration) -> Result<()> {
        match &self.state.lock().ignore_poison().silent {
            Some((since, last)) if since.elapsed() < pause => {
                Err(Unanswered { kind: Kind::Unsent, reason: last.reason.clone() }.into())
            }
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

    /// Remembers that a request failed without an answer, unless another had one since `begun`.
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
        // One request failed, but another got an answer.
        host.gave_up(&Unanswered::stalled(), begun);
        assert!(host.check(long).is_ok());
    }
}
