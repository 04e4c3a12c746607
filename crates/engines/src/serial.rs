//! Helpers for sessions that process jobs one after the other, with one key at a time.

use std::hint::black_box;

use evener_core::{EngineError, Job, Outcome, Rejection};

/// Processes the pending jobs of a batch with `perform`, which returns the number of bytes that it
/// wrote. Stops at the first failure of the engine; that job and those after it stay pending.
pub(crate) fn perform_each(
    batch: &mut [Job<'_>],
    mut perform: impl FnMut(&mut Job<'_>) -> Result<usize, Stop>,
) -> Result<(), EngineError> {
    for job in batch.iter_mut().filter(|job| job.outcome == Outcome::Pending) {
        job.outcome = match perform(job) {
            Ok(written) => Outcome::Done { written },
            Err(Stop::Rejected(rejection)) => Outcome::Rejected(rejection),
            Err(Stop::Failed(error)) => return Err(*error),
        };
    }
    Ok(())
}

/// The reason why a job was not done. The failure is boxed because this is returned for every job,
/// and moving a large result costs more than some of the calls into a library.
pub(crate) enum Stop {
    /// The message is wrong: no engine can process it.
    Rejected(Rejection),
    /// The engine failed.
    Failed(Box<EngineError>),
}

impl From<Rejection> for Stop {
    fn from(rejection: Rejection) -> Stop {
        Stop::Rejected(rejection)
    }
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Stop {
        Stop::Failed(Box::new(error))
    }
}

/// Compares in a time that depends on the lengths only.
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |bits, (left, right)| bits | (left ^ right));
    left.len() == right.len() && black_box(differences) == 0
}
