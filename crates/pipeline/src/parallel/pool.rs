//! Threads that wait for work.

use std::fmt;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::{process, thread};

use super::sys::{Helper, Work, run_with};
use evener_core::IgnorePoison;

/// A bounded number of threads that share the work of a call: the calling thread, and helpers
/// that sleep between calls.
///
/// ```
/// # extern crate evener_pipeline as evener;
/// let pool = evener::Pool::new(4.try_into()?);
/// assert_eq!(pool.threads().get(), 4);
/// # Ok::<(), std::num::TryFromIntError>(())
/// ```
///
/// Helpers are started when they are first needed and stay until the pool is dropped. Any
/// number of threads may call at once: each gets those helpers that are idle, and does its work
/// alone if none is. A call never waits for a helper that has not begun.
pub struct Pool {
    threads: NonZeroUsize,
    helpers: Mutex<Helpers>,
}

#[derive(Default)]
struct Helpers {
    /// The process whose threads they are.
    process: u32,
    idle: Vec<Helper>,
    /// The number of helpers, idle or at work.
    started: usize,
}

impl Pool {
    /// A pool whose calls use up to this many threads, including the caller's.
    pub fn new(threads: NonZeroUsize) -> Pool {
        Pool { threads, helpers: Mutex::default() }
    }

    /// A pool with a thread for every core that this process may use.
    pub fn on_all_cores() -> Pool {
        Pool::new(thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
    }

    /// The most threads that a call uses.
    pub fn threads(&self) -> NonZeroUsize {
        self.threads
    }

    /// Runs `own` on the calling thread and `help` on up to `threads - 1` other threads, once on
    /// each that begins before `own` has ended, and returns when all have ended. A panic in any of
    /// them continues in the caller.
    pub(super) fn run(&self, threads: usize, help: &Work<'_>, own: impl FnOnce()) {
        let wanted = threads.min(self.threads.get()).saturating_sub(1);
        let called = Called { pool: self, helpers: self.call(wanted) };
        if let Some(panic) = run_with(&called.helpers, help, own) {
            drop(called);
            resume_unwind(panic);
        }
    }

    /// Up to this many helpers, fewer when other calls use them.
    fn call(&self, wanted: usize) -> Vec<Helper> {
        if wanted == 0 {
            return Vec::new();
        }
        let mut helpers = match self.helpers.try_lock() {
            Ok(helpers) => helpers,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // In a forked process, it may stay locked for ever.
            Err(TryLockError::WouldBlock) => return Vec::new(),
        };
        let process = process::id();
        if helpers.process != process {
            *helpers = Helpers { process, ..Helpers::default() };
        }
        while helpers.idle.len() < wanted && helpers.started < self.threads.get() - 1 {
            // Fewer threads can do the work as well.
            let Ok(helper) = Helper::start() else { break };
            helpers.idle.push(helper);
            helpers.started += 1;
        }
        let left = helpers.idle.len().saturating_sub(wanted);
        helpers.idle.split_off(left)
    }

    fn helpers(&self) -> MutexGuard<'_, Helpers> {
        // A panic in between leaves the list whole.
        self.helpers.lock().ignore_poison()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// Helpers that go back to their pool when the call ends.
struct Called<'pool> {
    pool: &'pool Pool,
    helpers: Vec<Helper>,
}

impl Drop for Called<'_> {
    fn drop(&mut self) {
        if !self.helpers.is_empty() {
            self.pool.helpers().idle.append(&mut self.helpers);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    fn pool(threads: usize) -> Pool {
        Pool::new(NonZeroUsize::new(threads).unwrap())
    }

    /// Runs the same work on all threads.
    fn run(pool: &Pool, threads: usize, work: &Work<'_>) {
        pool.run(threads, work, work);
    }

    #[test]
    fn work_runs_at_most_once_on_each_thread_and_on_the_callers() {
        let pool = pool(4);
        for _ in 0..200 {
            let seen = Mutex::new(HashSet::new());
            run(&pool, 4, &|| assert!(seen.lock().unwrap().insert(thread::current().id())));
            let seen = seen.into_inner().unwrap();
            assert!(seen.contains(&thread::current().id()) && seen.len() <= 4);
        }
        let helpers = pool.helpers();
        assert!(helpers.started <= 3 && helpers.idle.len() == helpers.started);
    }

    #[test]
    fn helpers_come_if_the_work_lasts() {
        let pool = pool(3);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        run(&pool, 8, &|| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            while most.load(Ordering::SeqCst) < 3 {
                thread::sleep(Duration::from_millis(1));
            }
            running.fetch_sub(1, Ordering::SeqCst);
        });
        assert_eq!(most.into_inner(), 3);
    }

    #[test]
    fn many_callers_share_the_helpers() {
        let pool = pool(3);
        let runs = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let own = AtomicUsize::new(0);
                        run(&pool, 3, &|| _ = own.fetch_add(1, Ordering::SeqCst));
                        assert!((1..=3).contains(&own.into_inner()));
                        runs.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(runs.into_inner(), 600);
        assert!(pool.helpers().started <= 2);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = pool(2);
        let on_purpose = || panic!("on purpose");
        let helped = AtomicUsize::new(0);
        let help = || {
            helped.fetch_add(1, Ordering::SeqCst);
            on_purpose();
        };
        let wait_for_help = || {
            while helped.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
        };
        let helpers_panic = || pool.run(2, &help, wait_for_help);
        assert!(catch_unwind(AssertUnwindSafe(helpers_panic)).is_err());
        let own_panic = || pool.run(2, &|| (), on_purpose);
        assert!(catch_unwind(AssertUnwindSafe(own_panic)).is_err());
        run(&pool, 2, &|| ());
        assert_eq!(pool.helpers().idle.len(), 1);
    }
}
