//! The process that started this one.
//!
//! A scheduler that is killed may leave its workers behind, and start others. The kernel's signal
//! for the end of a parent is of no use here: it comes when the parent's *thread* ends.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open};
use signal_hook::low_level;

use crate::trouble::{INTERRUPTED, complain};

/// A handle of the parent.
pub(crate) struct Parent(OwnedFd);

impl Parent {
    /// Finds the parent; `None` if that is init, or is not known.
    pub(crate) fn find() -> Option<Parent> {
        let parent = getppid().filter(|parent| *parent != Pid::INIT)?;
        let handle = pidfd_open(parent, PidfdFlags::empty()).ok()?;
        // It may have ended before, and its number may be that of another process now.
        (getppid() == Some(parent)).then_some(Parent(handle))
    }

    /// From now on, the end of the parent stops this program as SIGTERM does, and soon ends it
    /// whatever it is doing.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn follow(self) -> io::Result<()> {
        let follow = move || {
            if self.await_end().is_err() {
                return;
            }
            complain(&"the process that started this one has ended, and so does this one");
            let _ = kill_process(getpid(), Signal::TERM);
            thread::sleep(GRACE);
            low_level::exit(INTERRUPTED.into());
        };
        thread::Builder::new().name("parent".to_owned()).spawn(follow).map(drop)
    }

    fn await_end(&self) -> Result<(), Errno> {
        loop {
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The time in which the work may stop.
const GRACE: Duration = Duration::from_secs(5);
