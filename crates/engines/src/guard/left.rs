//! Engines that are busy with what nobody waits for: an opening, or the work of a thread that was left
//! behind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::thread;
use std::time::Duration;

use evener_core::{Engine, IgnorePoison, Recall};

use super::sys::at_exit;
use crate::patience::Missed;

/// A thread in an engine for which nobody waits. An engine has one opening at a time.
pub(super) struct Busy {
    /// The engine's address, which is its own as long as the thread has it.
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

/// How many sessions are being closed by their threads.
static CLOSING: AtomicUsize = AtomicUsize::new(0);

/// A session's thread is about to close it. When the process ends, its drivers are destroyed; that waits for
/// such a thread for a second.
pub(super) fn begin_closing() {
    static WAITS: Once = Once::new();
    // Later than the drivers, whose own functions are called after this one then.
    WAITS.call_once(|| at_exit(wait_for_closing));
    CLOSING.fetch_add(1, Ordering::SeqCst);
}

/// The thread has closed it.
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
