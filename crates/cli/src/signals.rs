//! Ctrl-C and its like.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evener::Control;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals as Arriving;
use signal_hook::low_level::raise;

use crate::trouble::Trouble;

/// What happens when the user or the system wants the program to end.
///
/// Before the work begins, a signal ends it at once. During the work the first one stops it
/// gently, so that nothing unfinished is left, and the second ends it at once.
pub(crate) struct Signals {
    /// For each of [`SIGNALS`], whether it ends the program at once.
    at_once: [Arc<AtomicBool>; 2],
}

impl Signals {
    pub(crate) fn install() -> Result<Signals, Trouble> {
        let at_once = SIGNALS.map(|_| Arc::new(AtomicBool::new(true)));
        for (signal, at_once) in SIGNALS.into_iter().zip(&at_once) {
            flag::register_conditional_shutdown(signal, STATUS, at_once.clone())
                .map_err(Trouble::Signals)?;
        }
        Ok(Signals { at_once })
    }

    /// From now on the first signal asks `control` to stop.
    pub(crate) fn stop_gently(&self, control: &Arc<Control>) -> Result<(), Trouble> {
        self.stop_gently_by(control.clone()).map_err(Trouble::Signals)
    }

    fn stop_gently_by(&self, control: Arc<Control>) -> io::Result<()> {
        let mut arriving = Arriving::new(SIGNALS)?;
        for (signal, at_once) in SIGNALS.into_iter().flat_map(|signal| {
            // Either signal counts as the first.
            self.at_once.iter().map(move |at_once| (signal, at_once))
        }) {
            at_once.store(false, Ordering::SeqCst);
            // Registered after the shutdown, which therefore sees the flag of the signal before.
            flag::register(signal, at_once.clone())?;
        }
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            if arriving.forever().next().is_some() {
                control.stop();
            }
        })?;
        Ok(())
    }

    /// Asks the user something. Ctrl-C meanwhile ends the program when the question has put the
    /// terminal right.
    pub(crate) fn ask<T>(&self, question: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let [interrupt, _] = &self.at_once;
        interrupt.store(false, Ordering::SeqCst);
        let answer = question();
        interrupt.store(true, Ordering::SeqCst);
        if let Err(error) = &answer
            && error.kind() == io::ErrorKind::Interrupted
        {
            eprintln!();
            raise(SIGINT)?;
        }
        answer
    }
}

/// SIGHUP is not among them: who starts the program with `nohup` wants it to be ignored.
const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// What shells report for a program that was interrupted.
const STATUS: i32 = 130;
