//! `polling`: a dispatcher watches the workers and hands a task to whichever is free.

use std::time::Duration;

use super::{Claim, Decision, Policy};
use crate::Waiting;

/// The papers' rival of `pull`. The dispatcher never sleeps, so it takes CPU time of its own.
pub(super) struct Polling;

impl Policy for Polling {
    fn next(&self, _: usize, _: &Waiting, _: Duration) -> Decision {
        Decision::Claim(Claim::ONE)
    }

    fn has_dispatcher(&self) -> bool {
        true
    }
}
