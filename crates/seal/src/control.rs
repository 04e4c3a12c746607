//! Progress and interruption of an operation, from other threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use evener_core::IgnorePoison;
use evener_pipeline::{Recall, Tally};

/// Counts an operation's progress and carries the request to stop it.
///
/// ```
/// # extern crate evener_seal as evener;
/// let control = evener::Control::default();
/// assert_eq!(control.progress().done_files, 0);
/// control.stop();
/// assert!(control.is_stopped());
/// ```
///
/// Every count only grows, and is exact when the operation has ended.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    recall: Recall,
    found_files: AtomicU64,
    found_bytes: AtomicU64,
    settled: [AtomicU64; Settled::ALL.len()],
    failures: AtomicU64,
    done_bytes: AtomicU64,
    tally: Arc<Tally>,
    processed: Mutex<BTreeMap<String, u64>>,
    temporaries: Arc<AtomicUsize>,
    asks: AtomicBool,
    wants_total: AtomicBool,
    total: OnceLock<(u64, u64)>,
}

/// The result of [`Control::progress`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files found so far.
    pub found_files: u64,
    /// Their bytes, where `TreeOptions::measure_total` is set.
    pub found_bytes: u64,
    /// Files finished, failed or skipped so far.
    pub done_files: u64,
    /// Files of those that were finished.
    pub completed_files: u64,
    /// Source bytes read so far.
    pub done_bytes: u64,
}

/// Why a file needs no more work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// It was processed.
    Done,
    /// Its output was complete already.
    Skipped,
    /// Its output needed no update.
    Unchanged,
    /// Of its output, only the mode was changed.
    Mode,
    /// It is another name of a file, and was made as a hard link.
    Linked,
    /// It was left out on purpose.
    LeftOut,
    /// It could not be processed.
    Failed,
}

impl Settled {
    /// All of them.
    pub const ALL: [Settled; 7] = [
        Settled::Done,
        Settled::Skipped,
        Settled::Unchanged,
        Settled::Mode,
        Settled::Linked,
        Settled::LeftOut,
        Settled::Failed,
    ];

    /// A word for programs, such as `left_out`.
    pub fn name(self) -> &'static str {
        match self {
            Settled::Done => "done",
            Settled::Skipped => "skipped",
            Settled::Unchanged => "unchanged",
            Settled::Mode => "mode",
            Settled::Linked => "linked",
            Settled::LeftOut => "left_out",
            Settled::Failed => "failed",
        }
    }
}

impl Control {
    /// Asks the operation to stop: no new file is begun, files in progress are dropped without a
    /// trace, and complete outputs stay. An operation that still waits for its turn at an engine
    /// ends at once. Safe to call from any thread, at any time, but not in a signal handler.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.recall.call();
    }

    /// Ends the operation's waits at gates.
    pub fn recall(&self) -> &Recall {
        &self.recall
    }

    /// Returns whether [`Control::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns whether there are unfinished files with temporary names, as on filesystems without
    /// nameless files, or read-only directories that are temporarily writable. If the process ended
    /// now, they would stay that way until the next run with `Existing::Resume`.
    pub fn has_temporary_files(&self) -> bool {
        self.temporaries.load(Ordering::SeqCst) > 0
    }

    /// Returns whether the operation is waiting for an answer from
    /// `Delete`.
    pub fn is_asking(&self) -> bool {
        self.asks.load(Ordering::SeqCst)
    }

    /// Notes that an answer is pending while `ask` gets it.
    #[doc(hidden)]
    pub fn asking<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.asks.store(true, Ordering::SeqCst);
        let answer = ask();
        self.asks.store(false, Ordering::SeqCst);
        answer
    }

    /// The number of temporary names and writable directories.
    #[doc(hidden)]
    pub fn temporaries(&self) -> &Arc<AtomicUsize> {
        &self.temporaries
    }

    /// The operation's progress so far.
    pub fn progress(&self) -> Progress {
        Progress {
            found_files: self.found_files.load(Ordering::Relaxed),
            found_bytes: self.found_bytes.load(Ordering::Relaxed),
            done_files: Settled::ALL.into_iter().map(|why| self.files(why)).sum(),
            completed_files: self.files(Settled::Done),
            done_bytes: self.done_bytes.load(Ordering::Relaxed),
        }
    }

    /// The files that need no more work, for this reason.
    pub fn files(&self, why: Settled) -> u64 {
        self.settled[why as usize].load(Ordering::Relaxed)
    }

    /// The failures so far: of files, directories, links and the outputs around them.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// The work of engines, and the waits for them and for the source.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Asks for the total of an operation whose source has a list of what it holds: a sealed tree.
    /// Reading it takes another thread some time.
    pub fn want_total(&self) {
        self.wants_total.store(true, Ordering::Relaxed);
    }

    /// The files that the operation takes, counting every name of those that have several, and their
    /// bytes; `None` as long as that is unknown.
    pub fn total(&self) -> Option<(u64, u64)> {
        self.total.get().copied()
    }

    #[doc(hidden)]
    pub fn wants_total(&self) -> bool {
        self.wants_total.load(Ordering::Relaxed)
    }

    /// Tells the total, once.
    #[doc(hidden)]
    pub fn tell_total(&self, files: u64, bytes: u64) {
        let _ = self.total.set((files, bytes));
    }

    /// The bytes of input that each engine has processed so far, by the engine's name. Skipped
    /// files are in no engine's count.
    pub fn processed(&self) -> BTreeMap<String, u64> {
        self.lock_processed().clone()
    }

    /// Counts files that were found, and their bytes.
    #[doc(hidden)]
    pub fn found(&self, files: u64, bytes: u64) {
        self.found_files.fetch_add(files, Ordering::Relaxed);
        self.found_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a file that needs no more work.
    #[doc(hidden)]
    pub fn settled(&self, why: Settled) {
        self.settled[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failure that the report will list.
    #[doc(hidden)]
    pub fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes that were processed.
    #[doc(hidden)]
    pub fn done_bytes(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the bytes that an engine has processed; called once per batch, since it takes a lock.
    #[doc(hidden)]
    pub fn has_processed(&self, engine: &str, bytes: u64) {
        let mut processed = self.lock_processed();
        match processed.get_mut(engine) {
            Some(sum) => *sum += bytes,
            None => {
                processed.insert(engine.to_owned(), bytes);
            }
        }
    }

    fn lock_processed(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.processed.lock().ignore_poison()
    }
}
