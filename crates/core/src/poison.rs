//! Locks whose holder panicked.

use std::sync::{LockResult, PoisonError};

/// Accesses the content of a lock although a thread panicked while it held the lock.
///
/// That is correct everywhere Evener uses it, for two reasons. First, no panic is swallowed: the
/// thread that started the run resumes a worker's panic once the other workers have ended, and a
/// panic of a module's thread takes the module out of service. So the content read here serves only
/// to end the work. Second, no success depends on it: files are counted when they are done, and a
/// long file is complete when its ledger proves it.
pub trait IgnorePoison {
    /// The lock's content.
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
