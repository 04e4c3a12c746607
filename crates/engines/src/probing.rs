//! Probing with a time limit.
//!
//! A module's library, a driver or a device may hang in the first call, and such a call can't be
//! cancelled. So the call runs on a thread that can be abandoned: the caller waits until a
//! deadline, reports that there was no answer, and continues. Signals can end the program
//! meanwhile. A search for several engines starts all their threads before it waits for the first.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{Engine, EngineError, shown_error};
use zeroize::Zeroizing;

use crate::foreign;

/// The engines found, best first, or the reason why there are none.
pub(crate) type Found = Result<Vec<Arc<dyn Engine>>, EngineError>;

/// Asks the user for a token's PIN; the argument names the token. Returns `None` if there is no
/// user.
pub type PinPrompt<'p> = dyn Fn(&str) -> Option<Zeroizing<Vec<u8>>> + 'p;

/// The time limit of a probe for an engine that the user has named.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The time limit of a probe for one of many engines, none of which the user has named.
pub(crate) const DEADLINE_IN_A_LIST: Duration = Duration::from_secs(10);

/// A search for an engine.
pub(crate) enum Probe {
    /// The engine was found, or is absent.
    Over(Found),
    /// A thread is looking for the engine.
    Underway(Search),
}

/// A thread that looks for an engine.
pub(crate) struct Search {
    begun: Instant,
    /// The time limit for the next message.
    patience: Duration,
    messages: Receiver<Message>,
}

/// The waiting caller, as the probing thread sees it.
pub(crate) struct Waiter(Sender<Message>);

enum Message {
    Found(Found),
    /// The next message may take this long, from this moment.
    Expect(Instant, Duration),
    /// Ask the user for a PIN.
    Ask {
        token: String,
        answer: Sender<Option<Zeroizing<Vec<u8>>>>,
    },
}

impl Waiter {
    /// Sets the time limit of the next step.
    pub(crate) fn expect(&self, patience: Duration) {
        // Sending fails if the caller has given up. Then nobody needs the message.
        let _ = self.0.send(Message::Expect(Instant::now(), patience));
    }

    /// Asks the caller's prompt for a token's PIN, without a time limit.
    pub(crate) fn ask(&self, token: &str) -> Option<Zeroizing<Vec<u8>>> {
        let (answer, answers) = mpsc::channel();
        self.0.send(Message::Ask { token: token.to_owned(), answer }).ok()?;
        answers.recv().ok()?
    }
}

impl From<Found> for Probe {
    fn from(found: Found) -> Probe {
        Probe::Over(found)
    }
}

impl Probe {
    /// Waits until the thread finds the engine or its time is up.
    ///
    /// # Errors
    /// The thread's, and [`EngineError::Unavailable`] when it does not answer in time.
    pub(crate) fn wait(self) -> Found {
        match self {
            Probe::Over(found) => found,
            Probe::Underway(search) => search.wait(&|_| None, None),
        }
    }

    /// As [`Probe::wait`], for one of many engines: the search ends [`DEADLINE_IN_A_LIST`] after
    /// its start, even if it asks for more time.
    pub(crate) fn wait_in_a_list(self) -> Found {
        match self {
            Probe::Over(found) => found,
            Probe::Underway(search) => search.wait(&|_| None, Some(DEADLINE_IN_A_LIST)),
        }
    }
}

impl Search {
    /// Waits until the thread finds an engine or its time is up. `most` limits the whole search.
    fn wait(self, prompt: &PinPrompt<'_>, most: Option<Duration>) -> Found {
        let Search { begun, patience, messages } = self;
        let (mut since, mut patience) = (begun, patience);
        loop {
            let left = (patience.saturating_sub(since.elapsed()))
                .min(most.map_or(Duration::MAX, |most| most.saturating_sub(begun.elapsed())));
            match messages.recv_timeout(left) {
                Ok(Message::Found(found)) => return found,
                Ok(Message::Expect(from, longer)) => (since, patience) = (from, longer),
                Ok(Message::Ask { token, answer }) => {
                    let _ = answer.send(prompt(&token));
                    since = Instant::now();
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(EngineError::unavailable(match most {
                        Some(most) if begun.elapsed() >= most => format!(
                            "it did not answer within {} s; name it with --engine to allow it more time",
                            most.as_secs_f64()
                        ),
                        _ => format!("it did not answer within {} s", patience.as_secs_f64()),
                    }));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(EngineError::unavailable("the thread that looked for it panicked"));
                }
            }
        }
    }
}

/// Starts a thread that probes for an engine. It must answer or ask for more time within `deadline`.
pub(crate) fn start(
    deadline: Duration,
    look: impl FnOnce(&Waiter) -> Found + Send + 'static,
) -> Probe {
    let (send, messages) = mpsc::channel();
    // A thread's first wait takes the dynamic loader's lock. The other thread may hold that lock
    // for ever when it loads a module that hangs, so the first wait comes before it starts.
    let _: Result<Message, _> = messages.recv_timeout(Duration::from_millis(1));
    let look = move || {
        foreign::begin();
        let waiter = Waiter(send);
        let found = look(&waiter);
        let _ = waiter.0.send(Message::Found(found));
    };
    match thread::Builder::new().name("evener-probe".to_owned()).spawn(look) {
        Ok(_) => {
            let begun = Instant::now();
            Probe::Underway(Search { begun, patience: deadline, messages })
        }
        Err(error) => {
            let words = shown_error(&error);
            let reason = format!("no thread could be started to look for it: {words}");
            Probe::Over(Err(EngineError::unavailable(reason)))
        }
    }
}

/// Probes for an engine on a thread, and waits. The prompt may be asked for a PIN.
///
/// # Errors
/// The errors of `look`, and [`EngineError::Unavailable`] when it does not answer in time.
pub(crate) fn within(
    deadline: Duration,
    prompt: &PinPrompt<'_>,
    look: impl FnOnce(&Waiter) -> Found + Send + 'static,
) -> Found {
    match start(deadline, look) {
        Probe::Over(found) => found,
        Probe::Underway(search) => search.wait(prompt, None),
    }
}

/// Closes a value on a thread, and abandons the thread after `deadline`. If no thread can be
/// started, the value stays open.
pub(crate) fn close_within<T: Send + 'static>(deadline: Duration, open: T) {
    let open = ManuallyDrop::new(open);
    let (send, closed) = mpsc::channel::<()>();
    let close = move || {
        foreign::begin();
        drop(ManuallyDrop::into_inner(open));
        drop(send);
    };
    if thread::Builder::new().name("evener-probe".to_owned()).spawn(close).is_ok() {
        // The channel closes when the thread ends.
        let _ = closed.recv_timeout(deadline);
    }
}

/// As [`start`], for one engine that needs no PIN.
pub(crate) fn one(
    look: impl FnOnce(&Waiter) -> Result<Arc<dyn Engine>, EngineError> + Send + 'static,
) -> Probe {
    start(DEADLINE, move |waiter| Ok(vec![look(waiter)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(20);

    fn words(found: Found) -> String {
        found.err().expect("nothing was looked for").to_string()
    }

    fn refusal(reason: &str) -> Found {
        Err(EngineError::unavailable(reason))
    }

    #[test]
    fn what_does_not_answer_is_left_behind() {
        let found = within(SHORT, &|_| None, |_| {
            thread::sleep(LONG);
            Ok(Vec::new())
        });
        assert!(
            words(found).contains("the engine is not available: it did not answer within 0.02")
        );
    }

    #[test]
    fn what_says_that_it_takes_longer_is_waited_for() {
        let found = within(LONG, &|_| None, |waiter| {
            waiter.expect(SHORT);
            thread::sleep(LONG);
            Ok(Vec::new())
        });
        assert!(words(found).contains("did not answer within 0.02"));
        let found = within(LONG, &|_| None, |waiter| {
            waiter.expect(LONG);
            refusal("in the end")
        });
        assert!(words(found).contains("in the end"));
    }

    #[test]
    fn in_a_list_those_that_hang_are_waited_for_together_and_less() {
        let hang = |waiter: &Waiter| {
            waiter.expect(LONG);
            thread::sleep(LONG);
            refusal("never")
        };
        let begun = Instant::now();
        let probes = [(); 8].map(|()| start(LONG, hang));
        let more = Probe::from(refusal("known at once"));
        for probe in probes {
            let Probe::Underway(search) = probe else { panic!("no thread was started") };
            let words = words(search.wait(&|_| None, Some(Duration::from_secs(1))));
            assert!(words.contains("did not answer within 1 s; name it with --engine"), "{words}");
        }
        assert!(begun.elapsed() < Duration::from_secs(8), "they were waited for one by one");
        assert!(words(more.wait_in_a_list()).contains("known at once"));
    }

    #[test]
    fn a_pin_is_asked_for_on_the_callers_thread() {
        let caller = thread::current().id();
        let prompt = |token: &str| {
            assert_eq!((token, thread::current().id()), ("a token", caller));
            Some(Zeroizing::new(b"1234".to_vec()))
        };
        let found = within(LONG, &prompt, |waiter| {
            refusal(&String::from_utf8_lossy(&waiter.ask("a token").unwrap()))
        });
        assert!(words(found).contains("1234"));
    }

    #[test]
    fn what_does_not_close_is_left_behind() {
        struct Slow(Duration, mpsc::Sender<()>);
        impl Drop for Slow {
            fn drop(&mut self) {
                thread::sleep(self.0);
                let _ = self.1.send(());
            }
        }
        let (send, closed) = mpsc::channel();
        close_within(LONG, Slow(SHORT, send.clone()));
        assert_eq!(closed.try_recv(), Ok(()));
        close_within(SHORT, Slow(LONG, send));
        assert_eq!(closed.try_recv(), Err(mpsc::TryRecvError::Empty));
    }

    #[test]
    fn a_panic_is_told() {
        let found = within(LONG, &|_| None, |_| panic!("on purpose"));
        assert!(words(found).contains("panicked"));
    }
}
