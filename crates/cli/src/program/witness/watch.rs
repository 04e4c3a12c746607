//! The witness's side.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process,
    set_dumpable_behavior, waitid,
};
use signal_hook::consts::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGXCPU,
};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use signal_hook::{flag, low_level};

use super::sys::is_of_this_group;
use super::word::{Ending, Heard, Secret};
use crate::messages;
use crate::sys::output_file;

/// Waits for the working process to end, and ends as its word says. Passes signals on to it, and
/// stops when it stops.
///
/// # Errors
/// When signals can't be handled. The other process then ends without having begun.
pub(super) fn watch(
    worker: Pid,
    line: UnixStream,
    secret: &Secret,
    engines: &[String],
    lost: impl FnOnce(&str),
) -> io::Result<Infallible> {
    let mut watch = Watch::begin(worker, line)?;
    match watch.await_word(secret) {
        Ok((ending, document)) => {
            let ending = watch.print(ending, &document);
            watch.await_end();
            end(ending)
        }
        Err(Fate::Killed(signal)) if watch.received.contains(&signal) => {
            end(Ending::Signal(u8::try_from(signal).unwrap_or_default()))
        }
        Err(fate) => {
            watch.is_over.store(true, Ordering::SeqCst);
            lost(&sentence(fate, engines));
            end(Ending::Status(NOT_DONE))
        }
    }
}

struct Watch {
    worker: Pid,
    /// `None` once nothing more can arrive.
    line: Option<UnixStream>,
    heard: Vec<u8>,
    signals: SignalDelivery<UnixStream, WithOrigin>,
    /// The signals that this process itself received.
    received: Vec<i32>,
    /// The time at which to stop the process, if it has not stopped by itself.
    stop_at: Option<Instant>,
    /// Set while signals are for this process alone.
    is_over: Arc<AtomicBool>,
}

/// The end of the working process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Exited(i32),
    Killed(i32),
}

impl Watch {
    fn begin(worker: Pid, line: UnixStream) -> io::Result<Watch> {
        let (read, write) = UnixStream::pair()?;
        let heeded = PASSED_ON.into_iter().chain([SIGCONT, SIGCHLD]);
        let signals = SignalDelivery::with_pipe(read, write, WithOrigin::default(), heeded)?;
        let is_over = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, INTERRUPTED, is_over.clone())?;
        }
        for signal in [SIGQUIT, SIGTSTP] {
            flag::register_conditional_default(signal, is_over.clone())?;
        }
        // The other process waits for this, so that no signal arrives too early to be passed on.
        (&line).write_all(&[0])?;
        line.set_nonblocking(true)?;
        let (line, heard) = (Some(line), Vec::new());
        let (received, stop_at) = (Vec::new(), None);
        Ok(Watch { worker, line, heard, signals, received, stop_at, is_over })
    }

    /// Waits for the word and its document; the error is how the process ended without it.
    fn await_word(&mut self, secret: &Secret) -> Result<(Ending, Vec<u8>), Fate> {
        loop {
            self.await_something();
            let fate = self.heed();
            self.listen();
            match secret.read(&self.heard) {
                Heard::Word(ending, document) => return Ok((ending, document.to_vec())),
                Heard::Part => {}
                Heard::Noise => self.line = None,
            }
            if let Some(fate) = fate {
                return Err(fate);
            }
        }
    }

    /// Waits for the process to end after its word, but not for long: one of its threads may hang
    /// in a driver, or get no core to end on.
    fn await_end(&mut self) {
        let begun = Instant::now();
        self.line = None;
        while self.heed().is_none() && begun.elapsed() < GRACE {
            self.await_something();
        }
    }

    fn await_something(&self) {
        let signals = PollFd::new(self.signals.get_read(), PollFlags::IN);
        let line = self.line.iter().map(|line| PollFd::new(line, PollFlags::IN));
        let mut all: Vec<_> = line.chain([signals]).collect();
        // An error means that a signal came, which the caller handles next.
        let time =
            if self.stop_at.is_some() || self.line.is_none() { OF_ITSELF } else { LOOK_AGAIN };
        let time = Timespec::try_from(time).ok();
        let _ = poll(&mut all, time.as_ref());
    }

    /// Passes signals on, and checks for a stop or an end of the process.
    fn heed(&mut self) -> Option<Fate> {
        self.pass_on();
        while self.is_stopped() {
            self.stop_at = None;
            // Not if a SIGCONT has arrived since then.
            if !self.pass_on() {
                let _ = kill_process(getpid(), Signal::STOP);
                if !self.pass_on() {
                    self.send(SIGCONT);
                }
            }
        }
        if self.stop_at.is_some_and(|time| time <= Instant::now()) {
            self.stop_at = None;
            self.send(SIGTSTP);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(self.worker), options) {
            Ok(None) => None,
            Ok(Some(ended)) => Some(match ended.terminating_signal() {
                Some(signal) => Fate::Killed(signal),
                None => Fate::Exited(ended.exit_status().unwrap_or_default()),
            }),
            // Whoever started this program had the system discard its children's statuses.
            Err(_) => Some(Fate::Exited(NOT_DONE.into())),
        }
    }

    /// Passes on the signals that have arrived, and returns whether one of them ends a stop.
    fn pass_on(&mut self) -> bool {
        let mut goes_on = false;
        // A terminal sends signals to both.
        let is_reached = is_of_this_group(self.worker);
        for origin in self.signals.pending() {
            let signal = origin.signal;
            goes_on |= signal == SIGCONT;
            if !PASSED_ON.contains(&signal) {
                continue;
            }
            self.received.push(signal);
            match signal {
                _ if is_reached && origin.cause == Cause::Kernel => {}
                // Two stops could be one too many for one SIGCONT, and the process may have
                // received this one too.
                SIGTSTP => self.stop_at = Some(Instant::now() + OF_ITSELF),
                _ => self.send(signal),
            }
        }
        if goes_on {
            self.stop_at = None;
            // A running process has received one itself, and another could undo a stop that comes
            // now.
            if self.is_stopped() {
                self.send(SIGCONT);
            }
        }
        goes_on
    }

    /// Returns whether the process is stopped now.
    fn is_stopped(&self) -> bool {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(self.worker), options), Ok(Some(_)))
    }

    /// Sends the process a signal. It has not been waited for, so no other process has its number.
    fn send(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process(self.worker, signal);
        }
    }

    /// Reads the bytes that the process has sent.
    fn listen(&mut self) {
        let Some(mut line) = self.line.as_ref() else { return };
        let mut some = [0; 1 << 16];
        loop {
            match line.read(&mut some) {
                Ok(0) => break,
                Ok(count) => self.heard.extend(&some[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => break,
            }
        }
        self.line = None;
    }

    /// Prints the document, and returns how the program ends then.
    fn print(&self, ending: Ending, document: &[u8]) -> Ending {
        // The reader of the document may never come.
        self.is_over.store(!document.is_empty(), Ordering::SeqCst);
        let printed = output_file().and_then(|mut output| output.write_all(document));
        self.is_over.store(false, Ordering::SeqCst);
        match printed {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Ending::Signal(SIGPIPE as u8)
            }
            Err(error) => {
                messages::complain(&messages::words_of_output(&error));
                Ending::Status(NOT_DONE)
            }
            Ok(()) => ending,
        }
    }
}

/// Ends this process as the other one ended.
fn end(ending: Ending) -> ! {
    match ending {
        Ending::Status(status) => low_level::exit(status.into()),
        Ending::Signal(signal) => {
            // One core dump is enough.
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
            let _ = low_level::emulate_default_handler(signal.into());
            low_level::exit(NOT_DONE.into())
        }
    }
}

/// Describes the end of the work, its possible cause, and the remedy.
fn sentence(fate: Fate, engines: &[String]) -> String {
    let engine = match engines {
        [engine] => format!("engine `{engine}`"),
        several => format!("engines `{}`", several.join("`, `")),
    };
    let ended = match fate {
        Fate::Exited(status) => format!("ended with status {status}"),
        Fate::Killed(signal) => match low_level::signal_name(signal) {
            Some(name) => format!("was ended by {name}"),
            None => format!("was ended by signal {signal}"),
        },
    };
    let cause = match fate {
        Fate::Exited(_) => {
            format!("code that {engine} loads may have ended it, or closed its descriptors")
        }
        Fate::Killed(SIGKILL | SIGXCPU | SIGTERM | SIGINT | SIGHUP | SIGQUIT) => {
            "somebody may have ended it, or the system for want of memory or time".to_owned()
        }
        Fate::Killed(_) => {
            format!("code that {engine} loads may be at fault, or there was no memory left")
        }
    };
    let these = if engines.len() == 1 { "this engine" } else { "these engines" };
    format!(
        "the process that did the work {ended} and did not say that the work was done: {cause}. \
         Verify what is there (`evener verify`) and do the rest again, if need be without {these} or \
         with another version of what it loads"
    )
}

/// The signals that stop or end the work, by the work's own rules.
const PASSED_ON: [i32; 5] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP];

/// The status that shells report for an interrupted program.
const INTERRUPTED: i32 = 130;

/// The status of failed work.
const NOT_DONE: u8 = 1;

/// The longest wait for the end of the process after its word. It has released its output by then.
const GRACE: Duration = Duration::from_millis(100);

/// The interval of checks without a signal, which whoever started this program may have blocked.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The longest wait for the process to stop by itself.
const OF_ITSELF: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_the_end_the_cause_and_the_engine() {
        let one = ["gpu".to_owned()];
        let two = ["gpu".to_owned(), "pkcs11:token=a".to_owned()];
        let told = sentence(Fate::Exited(0), &one);
        assert!(told.contains("ended with status 0"), "{told}");
        assert!(told.contains("code that engine `gpu` loads may have ended it"), "{told}");
        let told = sentence(Fate::Killed(11), &two);
        assert!(told.contains("was ended by SIGSEGV"), "{told}");
        assert!(told.contains("engines `gpu`, `pkcs11:token=a` loads may be"), "{told}");
        let told = sentence(Fate::Killed(9), &one);
        assert!(told.contains("by SIGKILL") && told.contains("want of memory"), "{told}");
    }
}
