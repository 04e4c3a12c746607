//! Opens sessions while other work goes on.
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, thread};

use evener_core::{
    Cipher, Direction, Engine, EngineError, IgnorePoison, Key, Recall, Session, SessionRequest,
    WipedBuffer, wipe_stack,
};

use super::helper::{NAME, STACK, Thread, have_drivers_step_back, missed, no_thread};
use super::known_answers;
use super::left::Busy;
use crate::foreign;
use crate::patience::{Mailbox, mailbox};

/// Opens a session on a thread, and tests it there against `reference`, if there is one; `None` if
/// it gave a wrong answer. A caller that heeds a recall has no work that waits for the session. So
/// if opening takes long for such a caller, the thread gets the lowest priority.
pub(super) fn open(
    engine: &Arc<dyn Engine>,
    reference: Option<&Arc<dyn Engine>>,
    request: &SessionRequest<'_>,
    deadline: Duration,
    brief: &Brief,
) -> Opened {
    let recall = Recall::heeded();
    let busy = recall.as_ref().map(|recall| Busy::enter(engine, recall, deadline));
    let busy = busy.transpose().map_err(|why| missed("open", deadline, why))?;
    let &SessionRequest { cipher, direction, key } = request;
    let opening = Opening {
        engine: Arc::clone(engine),
        reference: reference.map(Arc::clone),
        cipher,
        direction,
        key: key.map(copy),
    };
    // Moving a value to a place of its own, such as a channel, also copies the gaps between its
    // fields. They hold old stack contents, where keys may have been.
    wipe_stack::<STACK>();
    let thread: Arc<Thread> = Arc::default();
    let opened = start_opening(opening, busy, Arc::clone(&thread), recall.as_ref());
    let opened = opened.map_err(|error| no_thread(&error))?;
    if recall.is_some() && !brief.spend(|time| opened.is_full_within(time)) {
        thread.step_back();
        let begun = Instant::now();
        loop {
            have_drivers_step_back();
            if opened.is_full_within(LOOK_EVERY) || begun.elapsed() > deadline {
                break;
            }
        }
    }
    opened.receive(deadline).unwrap_or_else(|why| {
        thread.step_back();
        Err(missed("open", deadline, why))
    })
}

/// The interval between searches for threads that a driver started.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The time that all openings of an engine may take from the cores that work meanwhile.
pub(super) struct Brief(Mutex<Duration>);

impl Default for Brief {
    fn default() -> Brief {
        Brief(Mutex::new(Duration::from_millis(10)))
    }
}

impl Brief {
    /// Waits for at most the time that is left, and subtracts the time that it took.
    fn spend(&self, wait: impl FnOnce(Duration) -> bool) -> bool {
        let left = *self.0.lock().ignore_poison();
        let begun = Instant::now();
        let waited = wait(left);
        let mut left = self.0.lock().ignore_poison();
        *left = left.saturating_sub(begun.elapsed());
        waited
    }
}

/// A key's bytes alone. A value that a thread is given is moved, and copies of it stay in freed
/// memory.
fn copy(key: &Key) -> WipedBuffer {
    let mut bytes = WipedBuffer::zeros(key.len());
    bytes.copy_from_slice(key.bytes());
    bytes
}

/// A session to open.
struct Opening {
    engine: Arc<dyn Engine>,
    /// The engine to test it against.
    reference: Option<Arc<dyn Engine>>,
    cipher: Cipher,
    direction: Direction,
    key: Option<WipedBuffer>,
}

/// A session that was opened, and tested if it can be; `None` if it gave a wrong answer.
type Opened = Result<Option<Box<dyn Session>>, EngineError>;

/// Starts a thread that opens a session. A separate function for the same reason as [`ask`].
#[inline(never)]
fn start_opening(
    opening: Opening,
    busy: Option<Busy>,
    thread: Arc<Thread>,
    recall: Option<&Recall>,
) -> io::Result<Mailbox<Opened>> {
    let (sender, opened) = mailbox(recall);
    let open = move || {
        let busy = busy;
        let _registered = thread.begin();
        foreign::begin();
        let opened = opening.open();
        wipe_stack::<STACK>();
        // If nobody waits any more, the session is closed here.
        let unwanted = sender.send(opened);
        drop((unwanted, busy));
    };
    thread::Builder::new().name(NAME.to_owned()).spawn(open)?;
    Ok(opened)
}

impl Opening {
    /// Opens and tests the engine's own session. A separate function for the same reason as
    /// [`ask`].
    #[inline(never)]
    fn open(self) -> Opened {
        let Opening { engine, reference, cipher, direction, key } = self;
        // These are the bytes of a valid key.
        let key = key.and_then(|bytes| Key::new(&bytes).ok());
        let request = SessionRequest { cipher, direction, key: key.as_ref() };
        let mut session = engine.open(&request)?;
        let Some(reference) = reference else { return Ok(Some(session)) };
        match known_answers::are_right(&mut *session, &*reference, &request) {
            Ok(are_right) => Ok(are_right.then_some(session)),
            // Another session may have taken its place.
            Err(error @ (EngineError::Failed { .. } | EngineError::Unavailable { .. })) => {
                Err(error)
            }
            Err(error) => Err(EngineError::failed(error.to_string())),
        }
    }
}
