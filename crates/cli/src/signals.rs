//! Ctrl-C and its like.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use evener::Control;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGABRT, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals as Arriving;
use signal_hook::low_level;

use crate::trouble::{INTERRUPTED, Trouble};

/// What happens when the user or the system wants the program to end.
///
/// Before the work begins there is nothing to clean up, and a signal ends the program at once.
/// During the work the first one stops it gently, so that it tells what it did; what does not
/// stop within [`GRACE`] (an engine that hangs, a pipe that nobody reads) is left behind, once
/// no file with a temporary name is there any more. The second signal ends the program at once.
pub(crate) struct Signals {
    /// For each of [`SIGNALS`], whether it ends the program at once.
    at_once: [Arc<AtomicBool>; 2],
}

/// Work that the first signal stops.
pub(crate) struct Working<'a> {
    signals: &'a Signals,
    ending: Arc<Ending>,
}

/// Who tells how the work ended: it itself, or whoever ends the program before it does.
#[derive(Default)]
struct Ending {
    is_told: Mutex<bool>,
    changed: Condvar,
}

impl Signals {
    pub(crate) fn install() -> Result<Signals, Trouble> {
        let at_once = SIGNALS.map(|_| Arc::new(AtomicBool::new(true)));
        for (signal, at_once) in SIGNALS.into_iter().zip(&at_once) {
            flag::register_conditional_shutdown(signal, STATUS, at_once.clone())
                .map_err(Trouble::Signals)?;
        }
        // A file that grows beyond the limit (`ulimit -f`) is then an error of writing it.
        let unread = Arc::default();
        flag::register(SIGXFSZ, unread).map_err(Trouble::Signals)?;
        // Rust aborts when there is no memory left, after it has said so: an error as others.
        let always = Arc::new(AtomicBool::new(true));
        flag::register_conditional_shutdown(SIGABRT, NOT_DONE, always).map_err(Trouble::Signals)?;
        Ok(Signals { at_once })
    }

    /// From now on the first signal asks `control` to stop. Where the work does not end soon,
    /// `farewell` is called, and the program ends.
    pub(crate) fn stop_gently(
        &self,
        control: &Arc<Control>,
        farewell: impl FnOnce() + Send + 'static,
    ) -> Result<Working<'_>, Trouble> {
        let ending = Arc::new(Ending::default());
        let working = Working { signals: self, ending: ending.clone() };
        let mut arriving = Arriving::new(SIGNALS).map_err(Trouble::Signals)?;
        let control = control.clone();
        let wait = move || {
            if arriving.forever().next().is_some() {
                control.stop();
                ending.await_end(&control);
                farewell();
                low_level::exit(STATUS);
            }
        };
        if thread::Builder::new().name("signals".to_owned()).spawn(wait).is_err() {
            // Signals go on to end the program at once: less is told then, and nothing is lost.
            return Ok(working);
        }
        for (signal, at_once) in SIGNALS.into_iter().flat_map(|signal| {
            // Either signal counts as the first.
            self.at_once.iter().map(move |at_once| (signal, at_once))
        }) {
            at_once.store(false, Ordering::SeqCst);
            // Registered after the shutdown, which therefore sees the flag of the signal before.
            flag::register(signal, at_once.clone()).map_err(Trouble::Signals)?;
        }
        Ok(working)
    }

    /// Asks the user something on the terminal. A signal meanwhile puts the terminal right, which
    /// may not show what is typed, and ends the program.
    pub(crate) fn ask<T>(&self, question: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let mut arriving = Arriving::new(SIGNALS)?;
        let handle = arriving.handle();
        let before = Terminal::remember();
        let put_right = move || {
            if arriving.forever().next().is_some() {
                before.iter().for_each(Terminal::put_right);
                low_level::exit(STATUS);
            }
        };
        let Ok(watch) = thread::Builder::new().name("signals".to_owned()).spawn(put_right) else {
            return question();
        };
        self.end_at_once(false);
        let answer = question();
        if let Err(error) = &answer
            && error.kind() == io::ErrorKind::Interrupted
        {
            low_level::raise(SIGINT)?;
            // Whoever hears of it ends the program.
            let _ = watch.join();
            return answer;
        }
        self.end_at_once(true);
        handle.close();
        let _ = watch.join();
        answer
    }

    fn end_at_once(&self, at_once: bool) {
        self.at_once.iter().for_each(|each| each.store(at_once, Ordering::SeqCst));
    }
}

impl Working<'_> {
    /// The work has ended, and what became of it can be told. Does not return where the program
    /// is being ended.
    pub(crate) fn finish(self) {
        if !self.ending.claim() {
            loop {
                thread::park();
            }
        }
        self.signals.end_at_once(true);
    }
}

impl Ending {
    /// Claims the telling; false where somebody else has done so.
    fn claim(&self) -> bool {
        let was_told = std::mem::replace(&mut *self.lock(), true);
        self.changed.notify_all();
        !was_told
    }

    /// Waits for the end of work that was asked to stop. Returns when the program is to end
    /// without it, and never where the work has ended itself.
    fn await_end(&self, control: &Control) {
        let stopped = Instant::now();
        let mut is_told = self.lock();
        loop {
            while *is_told {
                is_told = self.changed.wait(is_told).unwrap_or_else(PoisonError::into_inner);
            }
            if stopped.elapsed() >= GRACE && !control.has_temporary_files() {
                *is_told = true;
                return;
            }
            let waited = self.changed.wait_timeout(is_told, LOOK_AGAIN);
            is_told = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The terminal and how it was set.
struct Terminal {
    device: File,
    settings: Termios,
}

impl Terminal {
    /// `None` where there is no terminal.
    fn remember() -> Option<Terminal> {
        let device = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let settings = tcgetattr(&device).ok()?;
        Some(Terminal { device, settings })
    }

    fn put_right(&self) {
        use io::Write;
        // A terminal that has gone needs nothing.
        let _ = tcsetattr(&self.device, OptionalActions::Now, &self.settings);
        let _ = writeln!(&self.device);
    }
}

/// SIGHUP is not among them: who starts the program with `nohup` wants it to be ignored.
const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// What shells report for a program that was interrupted.
const STATUS: i32 = INTERRUPTED as i32;

/// The exit status of work that was not all done.
const NOT_DONE: i32 = 1;

/// How long work that was asked to stop may take before it is left behind.
const GRACE: Duration = Duration::from_millis(100);

/// How often to look for that.
const LOOK_AGAIN: Duration = Duration::from_millis(25);
