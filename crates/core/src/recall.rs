//! Ends waits: for a module, and for a permit to use one.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::IgnorePoison;

/// Ends waits of other threads: when the user presses Ctrl-C, or when nobody wants the result any
/// more. Clones share their state.
///
/// A waiting thread registers a [bell](Recall::bell) and then checks [`Recall::is_called`]. A
/// thread can [heed](Recall::heed) a recall in all that it calls: once the recall is called,
/// opening a module's session and processing a batch fail with
/// [`EngineError::Interrupted`](crate::EngineError::Interrupted).
#[derive(Clone, Default)]
pub struct Recall(Arc<Called>);

#[derive(Default)]
struct Called {
    called: AtomicBool,
    bells: Mutex<Bells>,
}

#[derive(Default)]
struct Bells {
    next: u64,
    list: Vec<(u64, Box<dyn Fn() + Send>)>,
}

/// Wakes a waiting thread when its recall is called, until it is dropped.
pub struct Bell {
    recall: Recall,
    number: u64,
}

/// Makes the calling thread heed a recall until this value is dropped.
pub struct Heeding {
    before: Option<Recall>,
}

thread_local! {
    static HEEDED: RefCell<Option<Recall>> = const { RefCell::new(None) };
}

impl Recall {
    /// Ends all waits with this recall, present and future. Safe on any thread, but not in a signal
    /// handler.
    pub fn call(&self) {
        // Set the flag before ringing the bells. A waiter registers its bell, reads the flag, and
        // then sleeps unless the bell has rung, so it sees at least one of the two.
        self.0.called.store(true, Ordering::SeqCst);
        for (_, ring) in &self.bells().list {
            ring();
        }
    }

    /// Returns whether [`Recall::call`] was called.
    pub fn is_called(&self) -> bool {
        self.0.called.load(Ordering::SeqCst)
    }

    /// Registers `ring`, which the thread that calls the recall runs. It must not wait or use this
    /// recall. If the recall was already called, `ring` does not run: check [`Recall::is_called`]
    /// afterwards.
    pub fn bell(&self, ring: impl Fn() + Send + 'static) -> Bell {
        let mut bells = self.bells();
        let number = bells.next;
        bells.next += 1;
        bells.list.push((number, Box::new(ring)));
        Bell { recall: self.clone(), number }
    }

    /// Makes the calling thread heed this recall, instead of any that it already heeds, until the
    /// result is dropped on this thread.
    #[must_use]
    pub fn heed(&self) -> Heeding {
        Heeding { before: HEEDED.replace(Some(self.clone())) }
    }

    /// The recall that the calling thread heeds.
    pub fn heeded() -> Option<Recall> {
        HEEDED.try_with(|heeded| heeded.borrow().clone()).ok().flatten()
    }

    fn bells(&self) -> MutexGuard<'_, Bells> {
        self.0.bells.lock().ignore_poison()
    }
}

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recall").field("called", &self.is_called()).finish_non_exhaustive()
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.recall.bells().list.retain(|(number, _)| *number != self.number);
    }
}

impl Drop for Heeding {
    fn drop(&mut self) {
        HEEDED.replace(self.before.take());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn bells_ring_until_they_are_dropped() {
        let (recall, rung) = (Recall::default(), Arc::new(AtomicUsize::new(0)));
        let bell = |by: usize| {
            let rung = Arc::clone(&rung);
            recall.bell(move || {
                rung.fetch_add(by, Ordering::SeqCst);
            })
        };
        let (one, ten, hundred) = (bell(1), bell(10), bell(100));
        drop(ten);
        assert!(!recall.is_called());
        recall.clone().call();
        assert!(recall.is_called());
        assert_eq!(rung.load(Ordering::SeqCst), 101);
        drop((one, hundred));
        recall.call();
        assert_eq!(rung.load(Ordering::SeqCst), 101);
    }

    #[test]
    fn a_thread_heeds_one_recall_at_a_time() {
        assert!(Recall::heeded().is_none());
        let (outer, inner) = (Recall::default(), Recall::default());
        let heeding = outer.heed();
        inner.call();
        let within = inner.heed();
        assert!(Recall::heeded().is_some_and(|recall| recall.is_called()));
        drop(within);
        assert!(Recall::heeded().is_some_and(|recall| !recall.is_called()));
        std::thread::spawn(|| assert!(Recall::heeded().is_none())).join().unwrap();
        drop(heeding);
        assert!(Recall::heeded().is_none());
    }
}
