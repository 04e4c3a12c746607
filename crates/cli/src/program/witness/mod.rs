//! Proof of success from outside the working process.
//!
//! A token's library, a provider or a GPU's driver is code in the process and can end it with a
//! success status. Before such code is loaded, the program therefore forks, while it has one
//! thread. The original process becomes the witness: it loads nothing, and waits ([`watch`]) for
//! the other process, which does the work, to report its end over a socket ([`word`]). Later
//! actions of that process do not matter; any end without that report is a failure.
//!
//! The working process is in the same process group, has the same terminal, and handles signals as
//! it would without a witness. The document of `--json` is sent with the word, so it is printed
//! only if the word arrives.

#[allow(unsafe_code)]
mod sys;
mod watch;
mod word;

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::fstat;
use rustix::io::{Errno, write};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use signal_hook::low_level;

use crate::limits;
pub(crate) use word::Ending;
use word::Secret;

/// Puts the rest of the program under a witness if it loads the code of `engines`; does nothing if
/// there are none. Call it before there is a second thread, a secret or a signal handler. If the
/// word of completion does not arrive, the witness reports it with `lost`, and the status is 1.
///
/// # Errors
/// When no process can be started.
pub fn begin(engines: &[String], lost: impl FnOnce(&str)) -> io::Result<()> {
    if engines.is_empty() {
        return Ok(());
    }
    let (ours, theirs) = UnixStream::pair()?;
    let secret = Secret::new()?;
    let witness = getpid();
    match sys::fork()? {
        Some(worker) => {
            drop(theirs);
            watch::watch(worker, ours, &secret, engines, lost).map(|never| match never {})
        }
        None => {
            drop(ours);
            // Without its witness this process ends silently; it has done nothing yet.
            let line = Line::open(theirs, secret, witness).unwrap_or_else(|_| low_level::exit(1));
            let _ = LINE.set(line);
            Ok(())
        }
    }
}

/// Returns whether this process has a witness.
pub fn is_there() -> bool {
    LINE.get().is_some()
}

/// Reports how the program ends, once. Returns false if another thread is about to report it and
/// then ends the program. A signal handler may call this: it takes no lock and does not allocate.
pub(crate) fn say(ending: Ending, document: &[u8]) -> bool {
    let Some(line) = LINE.get() else { return true };
    let is_first = !IS_SAID.swap(true, Ordering::SeqCst);
    if is_first {
        // Without the word, the witness reports the possible causes.
        let _ = line.say(ending, document);
    }
    is_first
}

/// The connection to the witness.
struct Line {
    socket: OwnedFd,
    /// Device and inode.
    identity: (u64, u64),
    secret: Secret,
}

impl Line {
    fn open(socket: UnixStream, secret: Secret, witness: Pid) -> io::Result<Line> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The witness may have ended already. (In another PID namespace it has no number.)
        if getppid().is_some_and(|parent| parent != witness) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        // The witness passes signals on from now on.
        (&socket).read_exact(&mut [0])?;
        // The last number may be in use if the limit is low.
        let socket = match limits::copy_to_the_end(socket.as_fd()) {
            Ok(copy) => copy,
            Err(_) => socket.into(),
        };
        let identity = identity(&socket)?;
        Ok(Line { socket, identity, secret })
    }

    fn say(&self, ending: Ending, document: &[u8]) -> Result<(), Errno> {
        // Careless code may have closed the socket and opened a file under its number.
        if identity(&self.socket)? != self.identity {
            return Err(Errno::BADF);
        }
        for mut bytes in [&self.secret.head(ending, document.len()), document] {
            while !bytes.is_empty() {
                match write(&self.socket, bytes) {
                    Ok(written) => bytes = &bytes[written..],
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

fn identity(file: &OwnedFd) -> Result<(u64, u64), Errno> {
    let found = fstat(file)?;
    Ok((found.st_dev, found.st_ino))
}

static LINE: OnceLock<Line> = OnceLock::new();

static IS_SAID: AtomicBool = AtomicBool::new(false);
