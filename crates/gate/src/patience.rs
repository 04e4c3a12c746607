//! How long a visitor waits, and who may call it away.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::file::GateFile;

/// What a visitor does where it would have to wait.
pub(crate) trait Patience {
    /// Asked before every sleep at a place, after its bell was read: for how long to sleep at
    /// most until it is asked again. `None`: the visitor leaves.
    fn stays(&mut self, queue: usize, position: u64) -> Option<Duration>;

    /// Told at which file the visitor will wait; another one after a reset.
    fn comes_to(&mut self, _: &Arc<GateFile>) {}
}

/// Waits for as long as it takes, or not at all.
impl Patience for bool {
    fn stays(&mut self, _: usize, _: u64) -> Option<Duration> {
        self.then_some(Duration::MAX)
    }
}

/// Calls threads of this process away from gates at which they wait, for example when the user
/// presses Ctrl-C. Clones are one and the same.
#[derive(Clone, Default)]
pub struct Recall(Arc<Called>);

#[derive(Default)]
struct Called {
    called: AtomicBool,
    sleepers: Mutex<Vec<Sleeper>>,
}

/// Where somebody waits.
struct Sleeper {
    file: Arc<GateFile>,
    queue: usize,
    position: u64,
}

impl Recall {
    /// Calls everybody who waits with this recall, now and later. Safe from any thread, not in
    /// a signal handler.
    pub fn call(&self) {
        // First the word, then the bells: a waiter reads its bell, says where it is, reads the
        // word and then sleeps unless the bell has rung, so it misses one of them at most.
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
        self.0.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recall").field("called", &self.is_called()).finish_non_exhaustive()
    }
}

/// A wait at a gate, as far as it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The engine that the gate stands before.
    pub engine: String,
    /// For how long it has gone on.
    pub time: Duration,
    /// How many wait that came before.
    pub ahead: usize,
}

/// Waits until it is called, and tells of it: after 1 s, 2 s, 4 s and so on, so that a crowd
/// which waits long hardly ever wakes up for that.
pub(crate) struct Recallable<'a> {
    recall: &'a Recall,
    tell: &'a mut dyn FnMut(&Wait),
    engine: &'a str,
    started: Instant,
    /// When to tell next.
    next: Duration,
    file: Option<Arc<GateFile>>,
    /// The place that the recall knows.
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

    /// Lets the recall know the place.
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

/// A shorter wait is not worth a word.
const FIRST_WORD: Duration = Duration::from_secs(1);
