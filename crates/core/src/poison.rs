//! Locks whose holder panicked.

use std::sync::{LockResult, PoisonError};

/// Goes on with what a lock holds although a thread has panicked while it held the lock.
///
/// That is right wherever it is used here, for two reasons. No panic is swallowed: that of a worker is
/// resumed by the thread that started the run once the other workers have ended, and that of a module's
/// thread takes the module out of service. So what is read here only brings the work to its end. And no
/// success is taken from it: files are counted when they are done, and a long one is complete when its ledger
/// proves it.
pub trait IgnorePoison {
    /// What the lock gives.
    type Held;

    /// The lock's content, poisoned or not.
    fn ignore_poison(self) -> Self::Held;
}

impl<T> IgnorePoison for LockResult<T> {
    type Held = T;

    fn ignore_poison(self) -> T {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use super::*;

    #[test]
    fn a_lock_is_used_after_a_panic() {
        let number = Mutex::new(1);
        let panicked = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                *number.lock().ignore_poison() = 2;
                let _held = number.lock();
                panic!("on purpose");
            });
            thread.join().is_err()
        });
        assert!(panicked && number.is_poisoned());
        assert_eq!(*number.lock().ignore_poison(), 2);
    }
}
