//! `cpu-only` and `module-only`: only the engines of one kind get tasks.

use std::time::Duration;

use evener_core::Kind;

use evener_pipeline::Waiting;
use evener_pipeline::policy::{Claim, Decision, Policy, Seat};

/// `pull` among the workers of one kind.
pub(super) struct OneKind {
    takes_part: Vec<bool>,
}

impl OneKind {
    pub(super) fn new(kind: Kind, seats: &[Seat]) -> OneKind {
        OneKind { takes_part: seats.iter().map(|seat| seat.kind == kind).collect() }
    }
}

impl Policy for OneKind {
    fn next(&self, worker: usize, _: &Waiting, _: Duration) -> Decision {
        if self.takes_part[worker] { Decision::Claim(Claim::ONE) } else { Decision::Leave }
    }

    /// Does not restrain modules: the shares are fixed.
    fn restrain(&self, _: Duration) -> Option<Decision> {
        None
    }
}
