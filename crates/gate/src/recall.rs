//! How a wait at a gate is ended, and what is told of it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::file::GateFile;
use crate::patience::Patience;
use evener_core::IgnorePoison;

/// A process at a gate, whose file may be reset while it waits.
pub(crate) trait Visit: Patience {
    /// Called with the file at which the process will wait; again with the new file after a reset.
    fn comes_to(&mut self, _: &Arc<GateFile>) {}
}

impl Visit for bool {}

/// Ends the waits of this process' threads at gates, for example when the user presses Ctrl-C.
/// Clones share their state.
#[derive(Clone, Default)]
pub struct Recall(Arc<Called>);

#[derive(Default)]
struct Called {
    called: AtomicBool,
    sleepers: Mutex<Vec<Sleeper>>,
}

/// The place where a thread waits.
struct Sleeper {
    file: Arc<GateFile>,
    queue: usize,
    position: u64,
}

impl Recall {
    /// Ends all waits with this recall, present and future. Safe from any thread, not in a signal
    /// handler.
    pub fn call(&self) {
        // First the word, then the bells. A waiter reads its bell, registers its place, reads the
        // word, and then sleeps unless the bell has rung. So it sees at least one of the two.
        self.0.called.store(true, Ordering::SeqCst);
        for Sleeper { file, queue, position } in self.sleepers().iter() {
            file.table.ring(*queue, *position);
        }
    }

    /// Whether [`Recall::call`] was called.
    pub fn is_called(&self) -> bool {
        self.0.called.load(Ordering::SeqCst)
    }

    fn sleepers(&self) -> MutexGuard<'_, Vec<Sleeper>> {
        self.0.sleepers.lock().ignore_poison()
    }
}

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recall").field("called", &self.is_called()).finish_non_exhaustive()
    }
}

/// The state of a wait at a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The gate's engine.
    pub engine: String,
    /// How long it has lasted.
    pub time: Duration,
    /// Number of processes ahead in the queue.
    pub ahead: usize,
}

/// Waits until a recall ends the wait, and reports after 1 s, 2 s, 4 s and so on, so that a long
/// queue hardly ever wakes for reports.
pub(crate) struct Recallable<'a> {
    recall: &'a Recall,
    tell: &'a mut dyn FnMut(&Wait),
    engine: &'a str,
    started: Instant,
    /// Time of the next report.
    next: Duration,
    file: Option<Arc<GateFile>>,
    /// The place registered with the recall.
    at: Option<(usize, u64)>,
}

impl<'a> Recallable<'a> {
    pub(crate) fn new(
        recall: &'a Recall,
        tell: &'a mut dyn FnMut(&Wait),
        engine: &'a str,
    ) -> Recallable<'a> {
        let (started, next) = (Instant::now(), FIRST_WORD);
        Recallable { recall, tell, engine, started, next, file: None, at: None }
    }

    /// Registers the place with the recall.
    fn register(&mut self, file: &Arc<GateFile>, queue: usize, position: u64) {
        if self.at != Some((queue, position)) {
            self.forget();
            self.at = Some((queue, position));
            self.recall.sleepers().push(Sleeper { file: Arc::clone(file), queue, position });
        }
    }

    fn forget(&mut self) {
        let (Some(at), Some(file)) = (self.at.take(), &self.file) else { return };
        let is_mine = |sleeper: &Sleeper| {
            (sleeper.queue, sleeper.position) == at && Arc::ptr_eq(&sleeper.file, file)
        };
        let mut sleepers = self.recall.sleepers();
        if let Some(mine) = sleepers.iter().position(is_mine) {
            sleepers.swap_remove(mine);
        }
    }
}

impl Patience for Recallable<'_> {
    fn stays(&mut self, queue: usize, position: u64) -> Option<Duration> {
        let file = Arc::clone(self.file.as_ref()?);
        self.register(&file, queue, position);
        if self.recall.is_called() {
            return None;
        }
        let time = self.started.elapsed();
        if time >= self.next {
            while self.next <= time {
                self.next *= 2;
            }
            let ahead = file.table.count_ahead(queue, position);
            (self.tell)(&Wait { engine: self.engine.to_owned(), time, ahead });
        }
        Some(self.next.saturating_sub(time))
    }
}

impl Visit for Recallable<'_> {
    fn comes_to(&mut self, file: &Arc<GateFile>) {
        self.forget();
        self.file = Some(Arc::clone(file));
    }
}

impl Drop for Recallable<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}

/// Shorter waits are not reported.
const FIRST_WORD: Duration = Duration::from_secs(1);
