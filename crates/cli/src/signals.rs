//! Ctrl-C and similar signals.

mod children;
#[allow(unsafe_code)]
mod sys;

use std::fs;
use std::io;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use evener::Control;
use evener::engines::await_logins;
use evener_cli::limits::with_first_limit;
use evener_cli::{end, witness};
use evener_core::IgnorePoison;
use rustix::process::{Pid, Signal, kill_process};
use rustix::stdio::stderr;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals as Arriving;
use signal_hook::low_level;
use zeroize::Zeroizing;

use crate::terminal::Terminal;
use crate::trouble::{INTERRUPTED, Trouble};

/// The reaction when the user or the system wants the program to end.
///
/// Before the work begins there is nothing to clean up, and a signal ends the program at once.
/// During the work the first signal stops it gently, so that it reports what it did. Work that does
/// not stop within [`GRACE`] (an engine that hangs, a pipe that nobody reads) is left behind, once
/// no file has a temporary name any more. A signal that comes [`REPEATED`] later or more ends the
/// program at once; until then it counts as the same, which a terminal and a parent may both send.
#[derive(Clone)]
pub(crate) struct Signals {
    /// The signals that stop work gently: [`GENTLE`], without SIGHUP if the program was started to
    /// ignore it (`nohup`).
    gentle: Vec<i32>,
    /// For each of them, true if it ends the program at once.
    at_once: Vec<Arc<AtomicBool>>,
    /// Those of [`OTHERS`] that the program was not started to ignore.
    others: Vec<i32>,
    /// For each of them, true if it ends or stops the program at once, as the system would.
    others_at_once: Vec<Arc<AtomicBool>>,
    /// The report if a signal comes before the work.
    farewell: Arc<Farewell>,
}

/// Signals that end nothing for a while.
pub(crate) struct Held<'a> {
    signals: &'a Signals,
    arriving: Arriving,
}

/// Work that the first signal stops.
pub(crate) struct Working {
    ending: Arc<Ending>,
}

/// Records that the end was reported, by the work itself or by code that ends the program early.
#[derive(Default)]
struct Ending {
    is_told: Mutex<bool>,
    changed: Condvar,
}

impl Signals {
    pub(crate) fn install() -> Result<Signals, Trouble> {
        let ignored = ignored_signals();
        let is_ignored = |signal: i32| ignored >> (signal - 1) & 1 == 1;
        // Ctrl-C is meant for this program even if a shell has started it in the background.
        let is_heard = |&signal: &i32| signal != SIGHUP || !is_ignored(signal);
        let gentle: Vec<_> = GENTLE.into_iter().filter(is_heard).collect();
        let at_once: Vec<_> = gentle.iter().map(|_| Arc::new(AtomicBool::new(true))).collect();
        let farewell = Arc::new(Farewell::default());
        for (&signal, at_once) in gentle.iter().zip(&at_once) {
            sys::end_by(signal, at_once.clone(), farewell.clone()).map_err(Trouble::Signals)?;
        }
        // If a file grows beyond the limit (`ulimit -f`), writing it then fails with an error.
        let unread = Arc::default();
        flag::register(SIGXFSZ, unread).map_err(Trouble::Signals)?;
        // Rust aborts when there is no memory left, after a message. A witness reports that itself.
        if !witness::is_there() {
            sys::end_by_abort(NOT_DONE, ABORTED_LINE).map_err(Trouble::Signals)?;
        }
        let others: Vec<_> = OTHERS.into_iter().filter(|&signal| !is_ignored(signal)).collect();
        let others_at_once: Vec<_> =
            others.iter().map(|_| Arc::new(AtomicBool::new(true))).collect();
        for (&signal, at_once) in others.iter().zip(&others_at_once) {
            flag::register_conditional_default(signal, at_once.clone())
                .map_err(Trouble::Signals)?;
        }
        Ok(Signals { gentle, at_once, others, others_at_once, farewell })
    }

    /// Sets the text for standard output and standard error if a signal comes before the work.
    pub(crate) fn tell_before_work(&self, document: Vec<u8>, line: Vec<u8>) {
        let _ = self.farewell.words.set([document, line]);
    }

    /// From now on the first signal asks `control` to stop. If the work does not end soon,
    /// `farewell` is called, and the program ends.
    pub(crate) fn stop_gently(
        &self,
        control: &Arc<Control>,
        farewell: impl FnOnce() + Send + 'static,
    ) -> Result<Working, Trouble> {
        let ending = Arc::new(Ending::default());
        let working = Working { ending: ending.clone() };
        let mut arriving = Arriving::new(&self.gentle).map_err(Trouble::Signals)?;
        let (control, at_once) = (control.clone(), self.at_once.clone());
        let wait = move || {
            if arriving.forever().next().is_some() {
                control.stop();
                // Background threads would get no core to end on.
                evener::program::hurry();
                await_logins();
                if !ending.await_end(&control, &at_once) {
                    farewell();
                    evener::program::hurry();
                }
                end::with(STATUS);
            }
        };
        if thread::Builder::new().name("signals".to_owned()).spawn(wait).is_err() {
            // Signals still end the program at once: less is reported then, and nothing is lost.
            return Ok(working);
        }
        self.farewell.state.store(OVER, Ordering::SeqCst);
        self.end_at_once(false);
        Ok(working)
    }

    /// Until the result is dropped no signal ends the program, which itself removes whatever it
    /// makes meanwhile.
    pub(crate) fn hold(&self) -> Result<Held<'_>, Trouble> {
        let arriving = Arriving::new(&self.gentle).map_err(Trouble::Signals)?;
        self.end_at_once(false);
        Ok(Held { signals: self, arriving })
    }

    /// Asks the user for a secret on the terminal, without echo. A signal meanwhile restores the
    /// terminal, and then has its usual effect.
    pub(crate) fn ask(&self, prompt: &str) -> io::Result<Zeroizing<Vec<u8>>> {
        let terminal = Arc::new(Terminal::open()?);
        let mut arriving = Arriving::new(self.gentle.iter().chain(&self.others))?;
        let handle = arriving.handle();
        let watch = {
            let (terminal, farewell) = (terminal.clone(), self.farewell.clone());
            let prompt = prompt.to_owned();
            move || {
                for signal in arriving.forever() {
                    terminal.leave_line();
                    if OTHERS.contains(&signal) {
                        // Returns when the program continues after a stop.
                        let _ = low_level::emulate_default_handler(signal);
                    }
                    if signal != SIGTSTP || terminal.prompt(&prompt).is_err() {
                        farewell.end();
                    }
                }
            }
        };
        let watch = thread::Builder::new().name("signals".to_owned()).spawn(watch);
        let ended_at_once = self.ends_at_once();
        if watch.is_ok() {
            self.end_at_once(false);
            self.others_at_once(&OTHERS, false);
        }
        let answer = terminal.prompt(prompt).and_then(|()| terminal.read_line());
        terminal.put_right();
        if let Ok(watch) = watch {
            self.end_at_once(ended_at_once);
            self.others_at_once(&OTHERS, true);
            handle.close();
            let _ = watch.join();
            // The program may have just come back from a stop.
            terminal.put_right();
        }
        answer
    }

    /// Returns whether signals end the program at once, as before its work.
    fn ends_at_once(&self) -> bool {
        self.at_once.iter().all(|each| each.load(Ordering::SeqCst))
    }

    fn end_at_once(&self, at_once: bool) {
        set(&self.at_once, at_once);
    }

    fn others_at_once(&self, signals: &[i32], at_once: bool) {
        for (_, each) in self
            .others
            .iter()
            .zip(&self.others_at_once)
            .filter(|(other, _)| signals.contains(other))
        {
            each.store(at_once, Ordering::SeqCst);
        }
    }
}

impl Held<'_> {
    /// Runs a program to its end, whatever signals come; returns `None` without running it if one
    /// has come before. Ctrl-C and Ctrl-\ reach it from the terminal; signals for this program
    /// alone are passed on.
    pub(crate) fn run(&mut self, command: &mut Command) -> io::Result<Option<ExitStatus>> {
        let Held { signals, arriving } = self;
        if arriving.pending().next().is_some() {
            return Ok(None);
        }
        let handle = arriving.handle();
        signals.others_at_once(&[SIGQUIT], false);
        let ended = with_first_limit(|| command.spawn()).and_then(|mut child| {
            let process = Pid::from_child(&child);
            let pass_on = move || {
                for signal in arriving.forever() {
                    let _ = match signal {
                        SIGHUP => kill_process(process, Signal::HUP),
                        SIGTERM => kill_process(process, Signal::TERM),
                        _ => Ok(()),
                    };
                }
            };
            thread::scope(|scope| {
                // Without the thread, signals are lost, and the program ends when it wants.
                let _ =
                    thread::Builder::new().name("signals".to_owned()).spawn_scoped(scope, pass_on);
                let status = child.wait();
                handle.close();
                status
            })
        });
        signals.others_at_once(&[SIGQUIT], true);
        ended.map(Some)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.signals.end_at_once(true);
    }
}

impl Working {
    /// Marks the work as ended, so that its result can be reported. Does not return if the program
    /// is being ended.
    pub(crate) fn finish(self) {
        if !self.ending.claim() {
            loop {
                thread::park();
            }
        }
    }
}

/// The report of work that has not begun.
struct Farewell {
    /// [`DUE`], [`TELLING_IT`] or [`OVER`].
    state: AtomicU8,
    /// For standard output and standard error, if there is more than [`INTERRUPTED_LINE`].
    words: OnceLock<[Vec<u8>; 2]>,
}

impl Default for Farewell {
    fn default() -> Farewell {
        Farewell { state: AtomicU8::new(DUE), words: OnceLock::new() }
    }
}

impl Farewell {
    /// Prints the report, once, and ends the program. A signal handler may call this: it takes no
    /// lock and does not allocate. Returns if the program is already ending.
    fn end(&self) {
        await_logins();
        match self.state.compare_exchange(DUE, TELLING_IT, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {
                let [document, line] = match self.words.get() {
                    Some([document, line]) => [&**document, &**line],
                    None => [&[][..], INTERRUPTED_LINE],
                };
                // The program ends even if this fails.
                let _ = rustix::io::write(stderr(), line);
                end::at_once(STATUS, document);
            }
            Err(told) => {
                if told == TELLING_IT {
                    // Another thread's signal is reporting. Whichever thread returns first ends the
                    // program.
                    self.await_told();
                }
                end::at_once(STATUS, &[]);
            }
        }
    }

    /// Waits, but not for ever: nobody may read it, or this handler may have interrupted the other.
    fn await_told(&self) {
        let mut waits = 0..100;
        while self.state.load(Ordering::SeqCst) == TELLING_IT && waits.next().is_some() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The work has not begun; the report is being printed; there is nothing to report.
const DUE: u8 = 0;
const TELLING_IT: u8 = 1;
const OVER: u8 = 2;

impl Ending {
    /// Claims the report; false if another thread has claimed it.
    fn claim(&self) -> bool {
        let was_told = std::mem::replace(&mut *self.lock(), true);
        self.changed.notify_all();
        !was_told
    }

    /// Waits for the end of work that was asked to stop. Returns when the program must end without
    /// it, and whether the work has ended by itself: its report then has some time to go out.
    fn await_end(&self, control: &Control, at_once: &[Arc<AtomicBool>]) -> bool {
        let stopped = Instant::now();
        let mut told = None;
        let mut is_told = self.lock();
        loop {
            let now = Instant::now();
            if now.duration_since(stopped) >= REPEATED {
                set(at_once, true);
            }
            if *is_told {
                if now.duration_since(*told.get_or_insert(now)) >= TELLING {
                    return true;
                }
            } else if now.duration_since(stopped) >= GRACE && !control.has_temporary_files() {
                *is_told = true;
                set(at_once, true);
                return false;
            }
            let waited = self.changed.wait_timeout(is_told, LOOK_AGAIN);
            is_told = waited.ignore_poison().0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_told.lock().ignore_poison()
    }
}

/// Sets whether these signals end the program at once.
fn set(at_once: &[Arc<AtomicBool>], value: bool) {
    at_once.iter().for_each(|each| each.store(value, Ordering::SeqCst));
}

/// The signals that the program was started to ignore, one bit each. If that can't be known, all
/// are left as they are.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(u64::MAX)
}

/// The signals that stop work gently: Ctrl-C, `kill`, and a terminal or connection that goes away.
const GENTLE: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// The signals that end or stop the program as the system would, without a report.
const OTHERS: [i32; 2] = [SIGQUIT, SIGTSTP];

/// The status that shells report for an interrupted program.
const STATUS: u8 = INTERRUPTED;

const INTERRUPTED_LINE: &[u8] = b"evener: interrupted\n";

/// The message when the program aborts; each output is then whole, or has no name.
const ABORTED_LINE: &[u8] =
    b"evener: aborted, for want of memory or by a fault of its own; what has its final name is whole\n";

/// The exit status of work that was not all done.
const NOT_DONE: u8 = 1;

/// The time that work may take to stop before it is left behind.
const GRACE: Duration = Duration::from_millis(100);

/// The time within which a repeated signal counts as the same.
const REPEATED: Duration = Duration::from_millis(500);

/// The time that the report of ended work may take after a signal.
const TELLING: Duration = Duration::from_secs(1);

/// The interval of the checks for that.
const LOOK_AGAIN: Duration = Duration::from_millis(25);
