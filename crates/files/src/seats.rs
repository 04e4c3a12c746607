//! Which of the chosen engines can serve.

use std::sync::Arc;
use std::thread;

use evener_core::{Cipher, Direction, Engine, Kind};
use evener_pipeline::PolicyName;

use crate::{FileError, Options};

/// The seats whose engine offers a cipher and may work under the policy. Every file has a key of
/// its own, so an engine that works with a key that it holds can't serve.
///
/// # Errors
/// [`FileError::NoEngine`] when none offers it, [`FileError::NotAdmitted`] when none of those that
/// do may work.
pub(crate) fn able(
    options: &Options,
    cipher: Cipher,
    direction: Direction,
) -> Result<Vec<Arc<dyn Engine>>, FileError> {
    let policy = options.policy;
    let offers = |engine: &&Arc<dyn Engine>| {
        engine.offer(cipher, direction).is_some() && !engine.holds_key()
    };
    let mut able: Vec<_> = options.seats.iter().filter(offers).cloned().collect();
    if able.is_empty() {
        return Err(FileError::NoEngine { cipher, direction });
    }
    able.retain(|engine| policy.admits(engine.description().kind));
    if able.is_empty() {
        return Err(FileError::NotAdmitted { cipher, direction, policy });
    }
    Ok(able)
}

/// Of seats that are [able], the one whose engine gains least by several jobs at once.
pub(crate) fn for_one_at_a_time(
    seats: &[Arc<dyn Engine>],
    cipher: Cipher,
    direction: Direction,
) -> Arc<dyn Engine> {
    let batch = |seat: &&Arc<dyn Engine>| {
        seat.offer(cipher, direction).map_or(usize::MAX, |offer| offer.batch)
    };
    Arc::clone(seats.iter().min_by_key(batch).unwrap_or(&seats[0]))
}

/// How many of the workers work at a time: the adaptive policy has CPU engines share the cores.
pub(crate) fn active(seats: &[Arc<dyn Engine>], options: &Options) -> usize {
    let on_cores = seats.iter().filter(|seat| seat.description().kind == Kind::Cpu).count();
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let active = match options.policy {
        PolicyName::Adaptive => on_cores.min(options.cpu_workers.unwrap_or_else(cores)),
        _ => on_cores,
    };
    seats.len() - on_cores + active
}
