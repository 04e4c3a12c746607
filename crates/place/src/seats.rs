//! The selected engines that support the cipher.

use std::sync::Arc;

use evener_core::{Account, Cipher, Direction, Engine, Kind};
use evener_pipeline::Worker;

use crate::{FileError, Report, RunSettings};
use evener_seal::SegmentError;

/// The seats whose engine offers a cipher. Every file has its own key, so an engine that works with
/// a key that it holds can't serve.
///
/// # Errors
/// [`FileError::NoEngine`] when none offers it.
pub(crate) fn able(
    run: &RunSettings,
    cipher: Cipher,
    direction: Direction,
) -> Result<Vec<Arc<dyn Engine>>, FileError> {
    let offers = |engine: &&Arc<dyn Engine>| {
        engine.offer(cipher, direction).is_some() && !engine.holds_key()
    };
    let able: Vec<_> = run.seats.iter().filter(offers).cloned().collect();
    match able.is_empty() {
        true => Err(FileError::NoEngine { cipher, direction }),
        false => Ok(able),
    }
}

/// The engines of seats that are [able], each once: first those that compute on a core, since
/// nobody takes work back from a module that works alone, then those that gain least from several
/// jobs at once.
pub(crate) fn for_one_at_a_time(
    seats: &[Arc<dyn Engine>],
    cipher: Cipher,
    direction: Direction,
) -> Vec<Arc<dyn Engine>> {
    let mut engines: Vec<Arc<dyn Engine>> = Vec::new();
    for seat in seats {
        if !engines.iter().any(|known| Arc::ptr_eq(known, seat)) {
            engines.push(Arc::clone(seat));
        }
    }
    engines.sort_by_key(|engine| {
        let batch = engine.offer(cipher, direction).map_or(usize::MAX, |offer| offer.batch);
        (engine.description().kind != Kind::Cpu, batch)
    });
    engines
}

/// Has one engine perform `act` before a run: the reference, or the first of the seats' engines
/// that does not fail.
pub(crate) fn before_a_run<T>(
    run: &RunSettings,
    seats: &[Arc<dyn Engine>],
    (cipher, direction): (Cipher, Direction),
    mut act: impl FnMut(&mut Worker<'_>) -> Result<T, SegmentError>,
) -> Result<T, FileError> {
    let reference = run.reference.iter();
    let able = reference.filter(|engine| engine.offer(cipher, direction).is_some()).cloned();
    let mut cause = FileError::NoEngine { cipher, direction };
    for engine in able.chain(for_one_at_a_time(seats, cipher, direction)) {
        match act(&mut Worker::new(&*engine, 0)) {
            Err(SegmentError::Engine(failed)) => cause = failed.into(),
            done => return Ok(done?),
        }
    }
    Err(cause)
}

/// The accounts of the guarded engines among the seats.
pub(crate) struct Accounts(Vec<(Arc<dyn Engine>, Account)>);

impl Accounts {
    /// The accounts before an operation.
    pub(crate) fn open(seats: &[Arc<dyn Engine>]) -> Accounts {
        let mut watched: Vec<(Arc<dyn Engine>, Account)> = Vec::new();
        for engine in seats {
            let is_known = watched.iter().any(|(known, _)| Arc::ptr_eq(known, engine));
            if let Some(account) = engine.account().filter(|_| !is_known) {
                watched.push((Arc::clone(engine), account));
            }
        }
        Accounts(watched)
    }

    /// Adds the changes since then to the report, when all sessions are closed: how much was
    /// verified, and faults that were found only as the last session closed.
    pub(crate) fn settle(self, report: &mut Report) {
        for (engine, before) in self.0 {
            let Some(after) = engine.account() else { continue };
            let name = &engine.description().name;
            let verified = after.verified.saturating_sub(before.verified);
            let unverified = after.unverified().saturating_sub(before.unverified());
            report.add_verification(name, verified, unverified);
            if let Some(fault) = after.fault.filter(|_| before.fault.is_none()) {
                report.settle_fault(name, &fault, unverified);
            }
        }
    }
}
