//! Engines that are busy with work that nobody waits for: an opening, or the work of a thread that
//! was left behind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::thread;
use std::time::Duration;

use evener_core::{Engine, IgnorePoison, Recall};

use super::sys::at_exit;
use crate::patience::Missed;

/// A thread that works in an engine and that nobody waits for. An engine has one opening at a time.
pub(super) struct Busy {
    /// The engine's address, which is unique as long as the thread holds the engine.
    engine: usize,
}

/// The engines of all such threads.
static BUSY: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static CHANGED: Condvar = Condvar::new();

impl Busy {
    /// Waits until no other such thread is in the engine.
    ///
    /// # Errors
    /// When the recall was called, or the time has passed.
    pub(super) fn enter(
        engine: &Arc<dyn Engine>,
        recall: &Recall,
        limit: Duration,
    ) -> Result<Busy, Missed> {
        let engine = address(engine);
        let _bell = recall.bell(|| {
            let _busy = BUSY.lock().ignore_poison();
            CHANGED.notify_all();
        });
        let waits = |busy: &mut Vec<usize>| busy.contains(&engine) && !recall.is_called();
        let busy = BUSY.lock().ignore_poison();
        let (mut busy, _) = CHANGED.wait_timeout_while(busy, limit, waits).ignore_poison();
        if recall.is_called() {
            return Err(Missed::Recalled);
        }
        if busy.contains(&engine) {
            return Err(Missed::Late);
        }
        busy.push(engine);
        Ok(Busy { engine })
    }

    /// Adds a thread that closes a session, or was left behind.
    pub(super) fn add(engine: &Arc<dyn Engine>) -> Busy {
        let engine = address(engine);
        BUSY.lock().ignore_poison().push(engine);
        Busy { engine }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut busy = BUSY.lock().ignore_poison();
        if let Some(at) = busy.iter().position(|engine| *engine == self.engine) {
            busy.swap_remove(at);
        }
        CHANGED.notify_all();
    }
}

fn address(engine: &Arc<dyn Engine>) -> usize {
    Arc::as_ptr(engine).cast::<()>().addr()
}

/// The number of sessions that their threads are closing.
static CLOSING: AtomicUsize = AtomicUsize::new(0);

/// Records that a session's thread is about to close it. The end of the process waits for such
/// threads, for a second at most, before it destroys the drivers.
pub(super) fn begin_closing() {
    static WAITS: Once = Once::new();
    // Registered after the drivers' own functions, and therefore called before them.
    WAITS.call_once(|| at_exit(wait_for_closing));
    CLOSING.fetch_add(1, Ordering::SeqCst);
}

/// Records that the thread has closed it.
pub(super) fn end_closing() {
    CLOSING.fetch_sub(1, Ordering::SeqCst);
}

extern "C" fn wait_for_closing() {
    for _ in 0..1_000 {
        if CLOSING.load(Ordering::SeqCst) == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::reference;

    #[test]
    fn an_engine_has_one_opening_at_a_time() {
        let engine = reference::engine().unwrap();
        let recall = Recall::default();
        let limit = Duration::from_millis(20);
        let first = Busy::enter(&engine, &recall, limit).ok().unwrap();
        assert_eq!(Busy::enter(&engine, &recall, limit).err(), Some(Missed::Late));
        drop(first);
        let second = Busy::enter(&engine, &recall, limit).ok();
        assert!(second.is_some());
        recall.call();
        drop(second);
        assert_eq!(Busy::enter(&engine, &recall, limit).err(), Some(Missed::Recalled));
    }
}
