//! Sessions that wait for the next message.

use std::sync::Mutex;

use evener_core::{Direction, EngineError, IgnorePoison, Session, WipedBuffer, wipe};

/// The sessions of a key that no thread is using, for each direction.
#[derive(Default)]
pub(super) struct Idle {
    encrypting: Mutex<Vec<Opened>>,
    decrypting: Mutex<Vec<Opened>>,
}

/// A session with a buffer for results that can't be computed in place.
pub(super) struct Opened {
    pub(super) session: Box<dyn Session>,
    /// Holds no plaintext between two messages.
    pub(super) scratch: WipedBuffer,
}

impl Idle {
    /// Gives `work` a session that no other thread uses, and keeps it for the next call. An error
    /// of the engine closes it; a forged message costs no more than a genuine one.
    pub(super) fn with<T, E: From<EngineError>>(
        &self,
        direction: Direction,
        open: impl FnOnce() -> Result<Box<dyn Session>, EngineError>,
        work: impl FnOnce(&mut Opened) -> Result<T, E>,
        is_engines: impl FnOnce(&E) -> bool,
    ) -> Result<T, E> {
        let sessions = match direction {
            Direction::Encrypt => &self.encrypting,
            Direction::Decrypt => &self.decrypting,
        };
        let idle = sessions.lock().ignore_poison().pop();
        let mut opened = match idle {
            Some(opened) => opened,
            None => Opened { session: open()?, scratch: WipedBuffer::default() },
        };
        let result = work(&mut opened);
        if let Err(error) = &result {
            wipe(&mut opened.scratch);
            if is_engines(error) {
                return result;
            }
        }
        if opened.scratch.len() > LONGEST_KEPT {
            opened.scratch = WipedBuffer::default();
        }
        let mut sessions = sessions.lock().ignore_poison();
        if sessions.len() < MOST_KEPT {
            sessions.push(opened);
        }
        result
    }
}

impl Opened {
    /// The session, and a buffer of this length.
    pub(super) fn parts(&mut self, length: usize) -> (&mut dyn Session, &mut [u8]) {
        self.scratch.ensure(length);
        (&mut *self.session, &mut self.scratch[..length])
    }
}

/// The largest buffer that is kept, in bytes.
const LONGEST_KEPT: usize = 256 << 10;

/// The largest number of sessions that are kept for each direction.
const MOST_KEPT: usize = 64;
