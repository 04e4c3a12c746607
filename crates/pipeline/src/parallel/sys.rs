//! Helper threads, which run borrowed work of a calling thread.
//!
//! A helper outlives the work that it helps with, so the borrow checker can't see that the work
//! is still there. It is, because a [`Loan`] takes it back from every helper before it ends.

use std::any::Any;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle, Thread};

use evener_core::IgnorePoison;

/// The work that each helper runs once.
pub(super) type Work<'a> = dyn Fn() + Sync + 'a;

/// A thread that sleeps until it is lent work.
pub(super) struct Helper {
    post: Arc<Post>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread. A child after a fork does not have it.
    process: u32,
}

/// The place where a helper gets its work.
struct Post(Mutex<State>);

enum State {
    /// The helper has nothing to do.
    Idle,
    /// Work that the helper has not begun, and its caller.
    Lent(Borrowed, Thread),
    /// The helper is at work.
    Busy,
    /// The helper has ended its work, with the payload of a panic if that is how it ended.
    Ended(Option<Box<dyn Any + Send>>),
    /// The helper must end.
    Closed,
}

/// Work without its lifetime.
struct Borrowed(*const Work<'static>);

// SAFETY: the pointer is to a `Sync` closure, which any thread may call.
unsafe impl Send for Borrowed {}

impl Helper {
    /// Starts a helper.
    ///
    /// # Errors
    /// When the system has no room for another thread.
    pub(super) fn start() -> io::Result<Helper> {
        let post = Arc::new(Post(Mutex::new(State::Idle)));
        let own = Arc::clone(&post);
        let thread =
            thread::Builder::new().name("evener-pool".into()).spawn(move || own.serve())?;
        Ok(Helper { post, thread: Some(thread), process: process::id() })
    }

    /// Returns whether this process has the helper's thread.
    fn is_here(&self) -> bool {
        self.process == process::id()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let thread = self.thread.take();
        if !self.is_here() {
            // There is no thread to wait for, and none that would release the lock.
            mem::forget(thread);
            return;
        }
        *self.post.state() = State::Closed;
        if let Some(thread) = thread {
            thread.thread().unpark();
            // It ends without a panic: panics of the work are caught.
            let _ = thread.join();
        }
    }
}

/// Runs `own` on the calling thread and `work` on the helpers that begin in time, and returns when
/// all of these have ended. A helper that has not begun when `own` ends doesn't begin.
///
/// Returns the payload of a helper's panic, if one did.
pub(super) fn run_with(
    helpers: &[Helper],
    work: &Work<'_>,
    own: impl FnOnce(),
) -> Option<Box<dyn Any + Send>> {
    let mut loan = Loan { helpers };
    // SAFETY: only the lifetime changes. The pointer is used by helpers that find it at their
    // post, while they are `Busy`. `loan` takes it back from each post, and waits while the
    // helper is busy, before this function ends, by return or by panic. `work` outlives that.
    let erased = unsafe { mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
    for helper in helpers {
        *helper.post.state() = State::Lent(Borrowed(erased), thread::current());
        if let Some(thread) = &helper.thread {
            thread.thread().unpark();
        }
    }
    own();
    loan.take_back()
}

/// Work that has been lent to helpers.
struct Loan<'a> {
    helpers: &'a [Helper],
}

impl Loan<'_> {
    /// Takes the work back from every helper. Returns the payload of a helper's panic.
    fn take_back(&mut self) -> Option<Box<dyn Any + Send>> {
        let mut panic = None;
        for helper in mem::take(&mut self.helpers) {
            panic = helper.post.take_back().or(panic);
        }
        panic
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        // There are helpers left only while the lender panics, and one panic is enough.
        let _ = self.take_back();
    }
}

impl Post {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code that could panic runs under the lock.
        self.0.lock().ignore_poison()
    }

    /// The helper's loop.
    fn serve(&self) {
        loop {
            let mut state = self.state();
            match mem::replace(&mut *state, State::Idle) {
                State::Lent(work, lender) => {
                    *state = State::Busy;
                    drop(state);
                    // SAFETY: the post was `Lent`, so the lender has not taken the work back,
                    // and now that it is `Busy` the lender waits until it has `Ended`.
                    let work = unsafe { &*work.0 };
                    let ended = catch_unwind(AssertUnwindSafe(work));
                    *self.state() = State::Ended(ended.err());
                    lender.unpark();
                }
                State::Closed => return,
                other => {
                    *state = other;
                    drop(state);
                    thread::park();
                }
            }
        }
    }

    /// Takes the work back when the helper is not running it. Returns the payload of its panic.
    fn take_back(&self) -> Option<Box<dyn Any + Send>> {
        loop {
            let mut state = self.state();
            match mem::replace(&mut *state, State::Idle) {
                State::Busy => {
                    *state = State::Busy;
                    drop(state);
                    thread::park();
                }
                State::Ended(panic) => return panic,
                State::Closed => *state = State::Closed,
                State::Idle | State::Lent(..) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::Pool;

    #[test]
    fn a_child_starts_its_own_helpers_and_drops_its_parents() {
        let pool = Pool::new(NonZeroUsize::new(3).unwrap());
        let count = |pool: &Pool| {
            let runs = AtomicUsize::new(0);
            let work = || {
                runs.fetch_add(1, Ordering::SeqCst);
                let since = std::time::Instant::now();
                while runs.load(Ordering::SeqCst) < 3 && since.elapsed().as_secs() < 20 {
                    std::thread::yield_now();
                }
            };
            pool.run(3, &work, work);
            runs.into_inner()
        };
        assert_eq!(count(&pool), 3);
        // SAFETY: the child allocates, which glibc allows after a fork, starts threads and ends.
        unsafe {
            let child = libc::fork();
            assert!(child >= 0);
            if child == 0 {
                let has_run = count(&pool) == 3;
                drop(pool);
                libc::_exit(if has_run { 0 } else { 1 });
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
        }
        assert_eq!(count(&pool), 3);
    }
}
