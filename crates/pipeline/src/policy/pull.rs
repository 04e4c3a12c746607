//! `pull`: one shared queue, and every worker takes the next task when it is free.

use std::time::Duration;

use super::{Claim, Decision, Policy};
use crate::{SizeClass, Waiting};

/// Kaneko, Saito and Kikuchi's proposal of 2015.
pub(super) struct Pull;

impl Policy for Pull {
    fn next(&self, _: usize, _: &Waiting, _: Duration) -> Decision {
        Decision::Claim(Claim::ONE)
    }

    /// A single file starts no thread: it may be short, and then starting the thread takes longer
    /// than the file. The caller's thread processes it after the feed, and shares it with other
    /// workers if it is long.
    fn starts(&self, _: usize, waiting: &Waiting, _: Duration) -> bool {
        waiting.jobs > 1 || waiting.divisible > 0 || waiting.of(SizeClass::UNKNOWN).tasks == 0
    }

    fn starts_at_once(&self) -> bool {
        false
    }
}
