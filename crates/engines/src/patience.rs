//! Waiting for a module's thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::Duration;

use evener_core::{Bell, IgnorePoison, Recall};

/// A mailbox for one answer at a time. Calling `recall` ends a wait for the answer.
pub(crate) fn mailbox<T: Send + 'static>(recall: Option<&Recall>) -> (Sender<T>, Mailbox<T>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State { letter: None, has_sender: true, has_reader: true }),
        changed: Condvar::new(),
    });
    let to_wake: Weak<Shared<T>> = Arc::downgrade(&shared);
    let ring = move || {
        if let Some(shared) = to_wake.upgrade() {
            // Under the lock, so that the reader either sees the recall or is already asleep.
            let _state = shared.lock();
            shared.changed.notify_all();
        }
    };
    let recall = recall.map(|recall| (recall.clone(), recall.bell(ring)));
    (Sender(Arc::clone(&shared)), Mailbox { shared, recall })
}

/// The end that the module's thread uses.
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// The waiting end.
pub(crate) struct Mailbox<T> {
    shared: Arc<Shared<T>>,
    recall: Option<(Recall, Bell)>,
}

/// The reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The time has passed.
    Late,
    /// The thread has ended.
    Gone,
    /// The recall was called.
    Recalled,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    letter: Option<T>,
    has_sender: bool,
    /// True if the answer will be read.
    has_reader: bool,
}

impl<T> Sender<T> {
    /// Puts an answer into the mailbox. The previous one must have been read.
    ///
    /// # Errors
    /// Returns the answer if nobody will read it.
    pub(crate) fn send(&self, letter: T) -> Result<(), T> {
        let mut state = self.0.lock();
        if !state.has_reader {
            return Err(letter);
        }
        state.letter = Some(letter);
        self.0.changed.notify_all();
        Ok(())
    }
}

impl<T> Mailbox<T> {
    /// Waits for an answer for at most `limit`. While the process is stopped (Ctrl-Z, `SIGSTOP`, a
    /// frozen control group) the module can't answer, so each stop counts for at most a sixteenth
    /// of the limit.
    ///
    /// # Errors
    /// When there is no answer. A later answer goes back to its sender.
    pub(crate) fn receive(&self, limit: Duration) -> Result<T, Missed> {
        let mut state = self.shared.lock();
        for _ in 0..PARTS {
            let is_silent = |state: &mut State<T>| {
                state.letter.is_none() && state.has_sender && !self.is_recalled()
            };
            // A wait that times out counts as one part, however long it really took.
            let waited = self.shared.changed.wait_timeout_while(state, limit / PARTS, is_silent);
            state = waited.ignore_poison().0;
            if let Some(letter) = state.letter.take() {
                return Ok(letter);
            }
            if !state.has_sender {
                return Err(Missed::Gone);
            }
            if self.is_recalled() {
                break;
            }
        }
        state.has_reader = false;
        Err(if self.is_recalled() { Missed::Recalled } else { Missed::Late })
    }

    /// Waits at most this long. Returns whether there is an answer, or will be none.
    pub(crate) fn is_full_within(&self, time: Duration) -> bool {
        let is_silent = |state: &mut State<T>| {
            state.letter.is_none() && state.has_sender && !self.is_recalled()
        };
        let state = self.shared.lock();
        let waited = self.shared.changed.wait_timeout_while(state, time, is_silent);
        !waited.ignore_poison().1.timed_out()
    }

    fn is_recalled(&self) -> bool {
        self.recall.as_ref().is_some_and(|(recall, _)| recall.is_called())
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().ignore_poison()
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().has_sender = false;
        self.0.changed.notify_all();
    }
}

impl<T> Drop for Mailbox<T> {
    fn drop(&mut self) {
        let letter = {
            let mut state = self.shared.lock();
            state.has_reader = false;
            state.letter.take()
        };
        drop(letter);
    }
}

/// The number of parts in which a wait counts its time.
const PARTS: u32 = 16;

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(600);

    #[test]
    fn it_waits_as_long_as_it_may_and_no_longer_than_it_must() {
        let (sender, mailbox) = mailbox(None);
        let sent = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            sender.send(7).map(|()| sender)
        });
        assert_eq!(mailbox.receive(LONGEST), Ok(7));
        let sender = sent.join().unwrap().unwrap();
        let (limit, begun) = (Duration::from_millis(160), Instant::now());
        assert_eq!(mailbox.receive(limit), Err(Missed::Late));
        assert!(begun.elapsed() >= limit);
        assert_eq!(sender.send(8), Err(8), "nobody waits any more");
    }

    #[test]
    fn a_thread_that_ends_is_missed_at_once() {
        let (sender, mailbox) = mailbox::<u8>(None);
        thread::spawn(|| drop(sender)).join().unwrap();
        assert_eq!(mailbox.receive(LONGEST), Err(Missed::Gone));
    }

    #[test]
    fn a_recall_ends_the_wait_and_hands_later_answers_back() {
        let recall = Recall::default();
        let (sender, mailbox) = mailbox(Some(&recall));
        sender.send(1).unwrap();
        let caller = thread::spawn({
            let recall = recall.clone();
            move || {
                thread::sleep(Duration::from_millis(50));
                recall.call();
            }
        });
        assert_eq!(mailbox.receive(LONGEST), Ok(1));
        assert_eq!(mailbox.receive(LONGEST), Err(Missed::Recalled));
        caller.join().unwrap();
        assert_eq!(sender.send(2), Err(2));
    }
}
