//! Which of the chosen engines can serve.

use std::sync::Arc;

use evener_core::{Cipher, Direction, Engine};

use crate::{FileError, Options};

/// The seats whose engine offers a cipher and may work under the policy. Every file has a key of its own, so an engine that
/// works with a key that it holds can't serve.
///
/// # Errors
/// [`FileError::NoEngine`] when none does.
pub(crate) fn able(
    options: &Options,
    cipher: Cipher,
    direction: Direction,
) -> Result<Vec<Arc<dyn Engine>>, FileError> {
    let offers = |engine: &&Arc<dyn Engine>| {
        let admitted = options.policy.admits(engine.description().kind);
        admitted && engine.offer(cipher, direction).is_some() && !engine.holds_key()
    };
    let able: Vec<_> = options.seats.iter().filter(offers).cloned().collect();
    if able.is_empty() { Err(FileError::NoEngine { cipher, direction }) } else { Ok(able) }
}
