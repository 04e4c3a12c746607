//! Has a crypto module encrypt and decrypt some of a process's text.
//!
//! | file | holds |
//! |---|---|
//! | `route.rs` | the choice of an engine for a piece of text |
//! | `message.rs` | a message, as the CPU computes it and as a module can continue it |
//! | `connection.rs` | a context's part: sends its text to the module or to the CPU |
//! | `sessions.rs` | the table of sessions |
//! | `reference.rs` | the engine with which the module's results are compared |
//! | `ahead.rs` | the raised priority of threads that use the module |
//! | `attendant.rs` | the thread that finds and measures the module, and opens and closes sessions |
//!
//! None of this exists until a context of this process has processed much text. Then the attendant
//! starts. Until it has found the module and opened a session, and whenever the module is busy,
//! fails or hangs, the CPU processes the text.

mod ahead;
mod attendant;
mod connection;
mod message;
mod reference;
mod route;
mod sessions;
#[allow(unsafe_code)]
mod sys;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock};

use evener_core::{Cipher, Direction, EngineError, IgnorePoison, Key, Mode, Session};
use evener_engines::is_modules_thread;
use evener_lanes::{Kernel, boxed};

use crate::config::Routing;
use crate::fork::OfProcess;
use crate::warning::warn;
pub(crate) use connection::Connection;
pub(crate) use message::{InCbc, InGcm, Work};
use route::{Delay, NEVER};
use sessions::{Sessions, Turn};

/// The configuration, and the kernel that computes ciphers on the CPU.
static SETTING: OnceLock<(Routing, Kernel)> = OnceLock::new();

/// This process's module.
static MODULE: OfProcess<Module> = OfProcess::new();

/// Applies the configuration. Only the first call has an effect.
pub(crate) fn configure(routing: Routing, kernel: Kernel) {
    let _ = SETTING.set((routing, kernel));
}

/// The AES modes that use the module.
pub(crate) fn modes() -> &'static [Mode] {
    SETTING.get().map_or(&[], |(routing, _)| &routing.modes)
}

/// Returns whether a module's library makes the call. Such a library may compute with the OpenSSL
/// of its process, and so with this provider, as SoftHSM does. The CPU computes these calls, since
/// the module would wait for itself, and they are not counted as the program's records.
pub(crate) fn is_calling() -> bool {
    SETTING.get().is_some() && is_modules_thread()
}

struct Module {
    /// The crossover of each kind of work: shorter pieces stay on the CPU. [`NEVER`] until the
    /// module is ready, and after it failed.
    crossovers: [AtomicUsize; Work::ALL.len()],
    sessions: Mutex<Sessions<Box<dyn Session>>>,
    delay: Delay,
    tasks: Sender<Task>,
}

/// A task for the attendant.
enum Task {
    /// The key is boxed: a channel moves its messages, and moving leaves copies behind.
    Open {
        owner: u64,
        cipher: Cipher,
        direction: Direction,
        key: Box<Key>,
    },
    Close(Box<dyn Session>),
}

impl Module {
    /// Returns the module, and starts its attendant if this process has none. `None` if no module
    /// is configured, or if its state can't be allocated.
    fn of_this_process() -> Option<&'static Module> {
        if let Some(module) = MODULE.get() {
            return Some(module);
        }
        let (routing, kernel) = SETTING.get()?;
        let (tasks, to_do) = channel();
        let (module, is_new) = MODULE.set(Module {
            crossovers: Work::ALL.map(|_| AtomicUsize::new(NEVER)),
            sessions: Mutex::new(Sessions::new(MOST_SESSIONS, 1)),
            delay: Delay::default(),
            tasks,
        })?;
        if is_new && let Err(error) = attendant::start(module, routing, *kernel, to_do) {
            warn(&format_args!("{}: no thread could be started for it: {error}", routing.engine));
        }
        Some(module)
    }

    fn crossover(&self, work: Work) -> usize {
        self.crossovers[work.index()].load(Ordering::Acquire)
    }

    /// Takes a context's session, if the context may use it now.
    fn take(&self, owner: u64, work: Work, cipher: Cipher, key: &Key) -> Option<Box<dyn Session>> {
        let turn = self.sessions().take(owner);
        match turn {
            Turn::Session(session) => return Some(session),
            Turn::Open(before) => {
                self.close(before);
                let direction = work.direction();
                match boxed(key.clone()) {
                    Some(key) => {
                        let _ = self.tasks.send(Task::Open { owner, cipher, direction, key });
                    }
                    // Out of memory. The next record asks again.
                    None => drop(self.sessions().forget(owner)),
                }
            }
            Turn::None => {}
        }
        None
    }

    fn give(&self, owner: u64, session: Option<Box<dyn Session>>) {
        let over = self.sessions().give(owner, session);
        self.close(over);
    }

    fn forget(&self, owner: u64) {
        let over = self.sessions().forget(owner);
        self.close(over);
    }

    /// Takes the module permanently out of service in this process.
    fn fail(&self, error: &EngineError) {
        let before = self.crossovers.each_ref().map(|one| one.swap(NEVER, Ordering::AcqRel));
        if before != [NEVER; Work::ALL.len()] {
            warn(&format_args!("{error}; the processor does all records from now on"));
        }
        let over = self.sessions().clear();
        self.close(over);
    }

    /// Leaves sessions to the attendant, since closing may take long.
    fn close(&self, sessions: impl IntoIterator<Item = Box<dyn Session>>) {
        for session in sessions {
            let _ = self.tasks.send(Task::Close(session));
        }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions<Box<dyn Session>>> {
        self.sessions.lock().ignore_poison()
    }
}

/// The most sessions of a process, each with a thread and a descriptor.
const MOST_SESSIONS: usize = 32;
