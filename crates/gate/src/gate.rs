//! The gate's public interface.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use crate::directory::Directory;
use crate::error::GateError;
use crate::file::GateFile;
use crate::identity::Identity;
use crate::layout::Layout;
use crate::options::{GateOptions, Scope};
use crate::recall::{Recallable, Visit, Wait};
use crate::table::{Hold, Refusal, Visitor};
use evener_core::{IgnorePoison, Recall};

/// The gate of an engine: it limits the number of processes that use the engine.
///
/// Threads share one by reference and may each hold permits. After a fork the child can use the
/// gate too; permits stay with the parent. A gate of the discipline
/// [`None`](crate::Discipline::None) is off: it admits every process and uses no file.
pub struct Gate {
    options: GateOptions,
    layout: Option<Layout>,
    /// The shared file; `None` when the gate is off. A reset replaces it.
    file: RwLock<Option<Arc<GateFile>>>,
    /// This process' identity; a child after a fork sees that it is not its own.
    me: AtomicU64,
}

impl Gate {
    /// Opens the gate, and makes it if it does not exist.
    ///
    /// # Errors
    /// [`GateError`] when the options are out of bounds, shared memory can't be used or can't be
    /// trusted, or other processes use the gate with other settings. The messages say what to do.
    pub fn open(options: GateOptions) -> Result<Gate, GateError> {
        Directory::file_name(&options.engine)?;
        let layout = options.layout()?;
        let gate = Gate { options, layout, file: RwLock::default(), me: AtomicU64::new(0) };
        if layout.is_some() {
            gate.identity()?;
            gate.file(None)?;
        }
        Ok(gate)
    }

    /// The options with which the gate was opened.
    pub fn options(&self) -> &GateOptions {
        &self.options
    }

    /// Sleeps until this thread gets a permit.
    ///
    /// In the discipline `fifo`, permits are given in the order in which `enter` was called. A
    /// process that dies while it waits or holds a permit is passed over within 100 ms.
    ///
    /// A thread that enters again while it holds a permit may deadlock.
    ///
    /// # Errors
    /// [`GateError::Full`] when too many wait already; [`GateError::Damaged`] when other programs
    /// wrote to the shared file.
    pub fn enter(&self) -> Result<Permit, GateError> {
        self.pass(&mut true)?.ok_or_else(|| self.damaged())
    }

    /// As [`Gate::enter`], but returns `None` as soon as `recall` [calls](Recall::call), and
    /// reports the wait after 1 s, 2 s, 4 s and so on.
    ///
    /// # Errors
    /// As [`Gate::enter`].
    pub fn enter_unless(
        &self,
        recall: &Recall,
        tell: &mut dyn FnMut(&Wait),
    ) -> Result<Option<Permit>, GateError> {
        if recall.is_called() {
            return Ok(None);
        }
        self.pass(&mut Recallable::new(recall, tell, &self.options.engine))
    }

    /// Returns a permit, or `None` if [`Gate::enter`] would wait.
    ///
    /// # Errors
    /// As [`Gate::enter`].
    pub fn try_enter(&self) -> Result<Option<Permit>, GateError> {
        if let Some(permit) = self.pass(&mut false)? {
            return Ok(Some(permit));
        }
        // If no process waits, no process has noticed that a holder died.
        if self.layout.is_some() {
            // The next attempt reports any fault of the file.
            let _ = self.file(None)?.table.look(self.identity()?);
        }
        self.pass(&mut false)
    }

    fn pass(&self, visit: &mut dyn Visit) -> Result<Option<Permit>, GateError> {
        let Some(layout) = self.layout else { return Ok(Some(Permit { held: None })) };
        let who = self.identity()?;
        let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let me = Visitor { who, thread };
        let queue = who.process() as usize % layout.queues;
        let mut file = self.file(None)?;
        let mut resets = 0;
        loop {
            visit.comes_to(&file);
            match file.table.enter(queue, me, visit) {
                Ok(hold) => {
                    return Ok(Some(Permit { held: Some(Held { file, hold, who }) }));
                }
                Err(Refusal::Busy) => return Ok(None),
                Err(Refusal::Full) => {
                    let engine = self.options.engine.clone();
                    return Err(GateError::Full { engine, places: layout.places });
                }
                Err(Refusal::Damaged) => return Err(self.damaged()),
                // A file that is marked as reset but still has its name was not reset by Evener.
                Err(Refusal::Retired) if resets == MOST_RESETS => return Err(self.damaged()),
                Err(Refusal::Retired) => {
                    resets += 1;
                    file = self.file(Some(&file))?;
                }
            }
        }
    }

    /// The shared file; a new one if a reset has `retired` the present one.
    fn file(&self, retired: Option<&Arc<GateFile>>) -> Result<Arc<GateFile>, GateError> {
        let is_good = |file: &&Arc<GateFile>| !retired.is_some_and(|old| Arc::ptr_eq(old, file));
        let current = self.file.read().ignore_poison();
        if let Some(file) = current.as_ref().filter(is_good) {
            return Ok(Arc::clone(file));
        }
        drop(current);
        let mut current = self.file.write().ignore_poison();
        if let Some(file) = current.as_ref().filter(is_good) {
            return Ok(Arc::clone(file));
        }
        let GateOptions { engine, scope, directory, .. } = &self.options;
        let Some(mut layout) = self.layout else { return Err(self.damaged()) };
        layout.lease = layout.lease.map(crate::file::whole_lease);
        let directory = Directory::open(engine, *scope, directory.as_deref())?;
        let file = Arc::new(GateFile::open(&directory, engine, layout)?);
        *current = Some(Arc::clone(&file));
        Ok(file)
    }

    /// This process' identity, read again in a child after a fork.
    fn identity(&self) -> Result<Identity, GateError> {
        let known = Identity::from_bits(self.me.load(Ordering::Relaxed));
        if let Some(me) = known.filter(|me| me.process() == std::process::id()) {
            return Ok(me);
        }
        let me = Identity::of_this_process().map_err(|cause| GateError::System {
            doing: "reading /proc/self/stat",
            engine: self.options.engine.clone(),
            cause,
        })?;
        self.me.store(me.bits(), Ordering::Relaxed);
        Ok(me)
    }

    fn damaged(&self) -> GateError {
        let GateOptions { engine, scope, directory, .. } = &self.options;
        let path = Directory::open(engine, *scope, directory.as_deref())
            .and_then(|directory| Ok(directory.file_path(&Directory::file_name(engine)?)));
        let reason = "its words make no sense".into();
        path.map_or_else(|error| error, |path| GateError::Damaged { path, reason })
    }
}

/// The number of resets that one call of `enter` follows.
const MOST_RESETS: usize = 1000;

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The right to use the engine. Dropping it releases it.
///
/// It belongs to the process that entered: a copy in a child after a fork does nothing. A
/// process that replaces itself (`exec`) without dropping its permits keeps them until it ends.
#[derive(Debug)]
#[must_use = "a permit is given back when it is dropped"]
pub struct Permit {
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    file: Arc<GateFile>,
    hold: Hold,
    who: Identity,
}

impl Permit {
    /// Returns whether this process still holds the permit. It does not after it was stopped for
    /// longer than the lease, after a reset, and in a child after a fork.
    pub fn is_held(&self) -> bool {
        self.held.as_ref().is_none_or(|held| {
            held.who.process() == std::process::id() && held.file.table.is_held(held.hold)
        })
    }

    /// The number of this admission in the order of arrival at its queue: in the discipline
    /// `fifo`, larger than that of every admission before. 0 when the gate is off.
    pub fn arrival(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.hold.position)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(held) = self.held.take()
            && held.who.process() == std::process::id()
        {
            held.file.table.release(held.hold);
        }
    }
}

/// Removes an engine's gate, whatever state it is in; returns whether there was one.
///
/// Waiting processes continue at a new gate. Processes with permits keep using the engine, so until
/// they finish the engine may have more sessions than permits.
///
/// # Errors
/// [`GateError`] when other users could write to the directory or file.
pub fn reset(engine: &str, scope: Scope, directory: Option<&Path>) -> Result<bool, GateError> {
    let directory = Directory::open(engine, scope, directory)?;
    GateFile::reset(&directory, engine)
}
