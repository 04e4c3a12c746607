//! `pull`: one shared queue, and every worker takes the next task when it is free.

use std::time::Duration;

use super::{Claim, Decision, Policy};
use crate::Waiting;

/// Kaneko, Saito and Kikuchi's proposal of 2015.
pub(super) struct Pull;

impl Policy for Pull {
    fn next(&self, _: usize, _: &Waiting, _: Duration) -> Decision {
        Decision::Claim(Claim::ONE)
    }
}
