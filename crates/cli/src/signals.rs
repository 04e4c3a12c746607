//! Ctrl-C and its like.

use std::fs::{self, File};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use evener::Control;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGABRT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
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
    /// Those of [`OTHERS`] that the program was not started to ignore (`nohup`).
    others: Vec<i32>,
    /// Whether they end the program as the system would, at once.
    others_at_once: Arc<AtomicBool>,
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
        let others: Vec<_> = OTHERS.into_iter().filter(|&signal| !is_ignored(signal)).collect();
        let others_at_once = Arc::new(AtomicBool::new(true));
        for &signal in &others {
            flag::register_conditional_default(signal, others_at_once.clone())
                .map_err(Trouble::Signals)?;
        }
        Ok(Signals { at_once, others, others_at_once })
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
        let mut arriving = Arriving::new(SIGNALS.iter().chain(&self.others))?;
        let handle = arriving.handle();
        let before = Terminal::remember();
        let put_right = move || {
            if let Some(signal) = arriving.forever().next() {
                before.iter().for_each(Terminal::put_right);
                if OTHERS.contains(&signal) {
                    // Returns only when the signal can't be raised.
                    let _ = low_level::emulate_default_handler(signal);
                }
                low_level::exit(STATUS);
            }
        };
        let Ok(watch) = thread::Builder::new().name("signals".to_owned()).spawn(put_right) else {
            return question();
        };
        self.end_at_once(false);
        self.others_at_once.store(false, Ordering::SeqCst);
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
        self.others_at_once.store(true, Ordering::SeqCst);
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

/// Whether the program was started with this signal ignored. Where that can't be known, it is
/// left as it is.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}

/// What stops work gently.
const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// What ends the program as the system would: no work is told. Who starts the program with
/// `nohup` wants SIGHUP to be ignored.
const OTHERS: [i32; 2] = [SIGHUP, SIGQUIT];

/// What shells report for a program that was interrupted.
const STATUS: i32 = INTERRUPTED as i32;

/// The exit status of work that was not all done.
const NOT_DONE: i32 = 1;

/// How long work that was asked to stop may take before it is left behind.
const GRACE: Duration = Duration::from_millis(100);

/// How often to look for that.
const LOOK_AGAIN: Duration = Duration::from_millis(25);
