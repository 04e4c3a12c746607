//! Probing with a time limit.
//!
//! A module's library, a driver or a device may hang in the first call, and such a call can't be
//! cancelled. So the call runs on a thread that can be abandoned: the caller waits until a
//! deadline, reports that there was no answer, and continues. Signals can end the program
//! meanwhile.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use evener_core::{Engine, EngineError};
use zeroize::Zeroizing;

use crate::foreign;

/// The engines found, best first, or the reason why there are none.
pub(crate) type Found = Result<Vec<Arc<dyn Engine>>, EngineError>;

/// Asks the user for a token's PIN; the argument names the token. Returns `None` if there is no
/// user.
pub type PinPrompt<'p> = dyn Fn(&str) -> Option<Zeroizing<Vec<u8>>> + 'p;

/// Default time limit of a probe.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The waiting caller, as the probing thread sees it.
pub(crate) struct Waiter(Sender<Message>);

enum Message {
    Found(Found),
    /// The next message may take this long.
    Expect(Duration),
    /// Ask the user for a PIN.
    Ask {
        token: String,
        answer: Sender<Option<Zeroizing<Vec<u8>>>>,
    },
}

impl Waiter {
    /// Sets the time limit of the next step.
    pub(crate) fn expect(&self, patience: Duration) {
        // If the caller has given up, there is no one to tell.
        let _ = self.0.send(Message::Expect(patience));
    }

    /// Asks the caller's prompt for a token's PIN, without a time limit.
    pub(crate) fn ask(&self, token: &str) -> Option<Zeroizing<Vec<u8>>> {
        let (answer, answers) = mpsc::channel();
        self.0.send(Message::Ask { token: token.to_owned(), answer }).ok()?;
        answers.recv().ok()?
    }
}

/// Probes for an engine on a thread, which must answer or ask for more time within `deadline`.
///
/// # Errors
/// Those of `look`, and [`EngineError::Unavailable`] when it does not answer in time.
pub(crate) fn within(
    deadline: Duration,
    engine: &str,
    prompt: &PinPrompt<'_>,
    look: impl FnOnce(&Waiter) -> Found + Send + 'static,
) -> Found {
    let absent = |reason| Err(EngineError::Unavailable { engine: engine.to_owned(), reason });
    let (send, messages) = mpsc::channel();
    // The first wait of a thread takes the dynamic loader's lock, which the other thread may hold
    // for good when it loads a module that hangs.
    let _: Result<Message, _> = messages.recv_timeout(Duration::from_millis(1));
    let look = move || {
        foreign::begin();
        let waiter = Waiter(send);
        let found = look(&waiter);
        let _ = waiter.0.send(Message::Found(found));
    };
    if let Err(error) = thread::Builder::new().name("evener-probe".to_owned()).spawn(look) {
        return absent(format!("no thread could be started to look for it: {error}"));
    }
    let mut patience = deadline;
    loop {
        match messages.recv_timeout(patience) {
            Ok(Message::Found(found)) => return found,
            Ok(Message::Expect(longer)) => patience = longer,
            Ok(Message::Ask { token, answer }) => {
                let _ = answer.send(prompt(&token));
                patience = deadline;
            }
            Err(RecvTimeoutError::Timeout) => {
                return absent(format!("it did not answer within {} s", patience.as_secs_f64()));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return absent("the thread that looked for it panicked".to_owned());
            }
        }
    }
}

/// Closes something on a thread, and abandons the thread after this time. If no thread can be
/// started it stays open.
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

/// As [`within`], for one engine that needs no PIN.
pub(crate) fn one(
    engine: &str,
    look: impl FnOnce(&Waiter) -> Result<Arc<dyn Engine>, EngineError> + Send + 'static,
) -> Found {
    within(DEADLINE, engine, &|_| None, move |waiter| Ok(vec![look(waiter)?]))
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
        Err(EngineError::Unavailable { engine: "e".to_owned(), reason: reason.to_owned() })
    }

    #[test]
    fn what_does_not_answer_is_left_behind() {
        let found = within(SHORT, "e", &|_| None, |_| {
            thread::sleep(LONG);
            Ok(Vec::new())
        });
        assert!(
            words(found).contains("engine `e` is not available: it did not answer within 0.02")
        );
    }

    #[test]
    fn what_says_that_it_takes_longer_is_waited_for() {
        let found = within(LONG, "e", &|_| None, |waiter| {
            waiter.expect(SHORT);
            thread::sleep(LONG);
            Ok(Vec::new())
        });
        assert!(words(found).contains("did not answer within 0.02"));
        let found = within(LONG, "e", &|_| None, |waiter| {
            waiter.expect(LONG);
            refusal("in the end")
        });
        assert!(words(found).contains("in the end"));
    }

    #[test]
    fn a_pin_is_asked_for_on_the_callers_thread() {
        let caller = thread::current().id();
        let prompt = |token: &str| {
            assert_eq!((token, thread::current().id()), ("a token", caller));
            Some(Zeroizing::new(b"1234".to_vec()))
        };
        let found = within(LONG, "e", &prompt, |waiter| {
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
        let found = within(LONG, "e", &|_| None, |_| panic!("on purpose"));
        assert!(words(found).contains("panicked"));
    }
}
