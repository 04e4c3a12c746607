//! Memory that an engine lends. The engine's driver may hang.
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use evener_core::{Engine, Recall, WipedBuffer, wipe_stack};

use super::helper::{NAME, STACK};
use crate::foreign;
use crate::patience::{Mailbox, Missed, mailbox};

/// A buffer in an engine's own memory, provided by its driver; `None` if it has none, or if the
/// caller heeds a recall that is called.
///
/// # Errors
/// When the driver takes longer than the deadline. Then the call is abandoned with its thread.
pub(super) fn buffer_within(
    engine: &Arc<dyn Engine>,
    bytes: usize,
    deadline: Duration,
) -> Result<Option<WipedBuffer>, Late> {
    wipe_stack::<STACK>();
    let Ok(buffers) = ask(Arc::clone(engine), bytes) else { return Ok(None) };
    match buffers.receive(deadline) {
        Ok(buffer) => Ok(buffer),
        Err(Missed::Gone | Missed::Recalled) => Ok(None),
        Err(Missed::Late) => Err(Late),
    }
}

/// The deadline has passed.
pub(super) struct Late;

/// A separate function, so that its variables are where the stack was wiped.
#[inline(never)]
fn ask(engine: Arc<dyn Engine>, bytes: usize) -> io::Result<Mailbox<Option<WipedBuffer>>> {
    let (sender, buffers) = mailbox(Recall::heeded().as_ref());
    let ask = move || {
        foreign::begin();
        let unwanted = sender.send(engine.buffer(bytes));
        drop(unwanted);
    };
    thread::Builder::new().name(NAME.to_owned()).spawn(ask)?;
    Ok(buffers)
}
