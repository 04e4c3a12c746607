//! The tasks that nobody has claimed yet.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A bounded queue between one feed and many workers.
///
/// A task has one owner at a time: the queue, or the worker whose [`Claim`] it is. The queue
/// is drained when the feed has closed it, no task is waiting and no claim is open, since a
/// worker may [`share`](Queue::share) further tasks while it holds a claim.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    capacity: usize,
    /// Signalled when a task arrives, and when the queue is drained or stopped.
    arrived: Condvar,
    /// Signalled when a task leaves a full queue, and when the queue is stopped.
    left: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    claimed: usize,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Closed,
    Stopped,
}

impl<T> Queue<T> {
    /// A queue in which at most `capacity` fed tasks wait.
    pub fn new(capacity: usize) -> Queue<T> {
        Queue {
            state: Mutex::new(State {
                waiting: VecDeque::with_capacity(capacity),
                claimed: 0,
                phase: Phase::Open,
            }),
            capacity,
            arrived: Condvar::new(),
            left: Condvar::new(),
        }
    }

    /// Adds a task at the end, waiting while the queue is full.
    ///
    /// # Errors
    /// Hands the task back when the queue was stopped.
    pub fn push(&self, task: T) -> Result<(), T> {
        let mut state = self.lock();
        while state.phase == Phase::Open && state.waiting.len() >= self.capacity {
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.phase != Phase::Open {
            return Err(task);
        }
        state.waiting.push_back(task);
        self.arrived.notify_one();
        Ok(())
    }

    /// Puts a task at the head, for workers: one that others can help with, or one that this
    /// worker's engine failed. Never waits, so that workers can't wait for each other; each
    /// claim shares at most a task or two, which keeps the queue bounded all the same.
    pub fn share(&self, task: T) {
        self.lock().waiting.push_front(task);
        self.arrived.notify_one();
    }

    /// Says that nothing more will be fed.
    pub fn close(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Closed;
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// Ends the run early: nobody gets another task. [`Queue::remains`] returns those left.
    pub fn stop(&self) {
        self.lock().phase = Phase::Stopped;
        self.arrived.notify_all();
        self.left.notify_all();
    }

    /// Whether the run was ended early.
    pub fn is_stopped(&self) -> bool {
        self.lock().phase == Phase::Stopped
    }

    /// Takes the task at the head, waiting for one; `None` when the queue is drained or
    /// stopped.
    pub fn claim(&self) -> Option<Claim<'_, T>> {
        let mut state = self.lock();
        loop {
            if state.phase == Phase::Stopped {
                return None;
            }
            if let Some(task) = state.waiting.pop_front() {
                state.claimed += 1;
                self.left.notify_one();
                return Some(Claim { queue: self, task: Some(task) });
            }
            if state.phase == Phase::Closed && state.claimed == 0 {
                return None;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The tasks that were left when the run ended.
    pub fn remains(self) -> Vec<T> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.waiting.into()
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A worker that panicked held no lock while it worked; the state is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claimed task. Dropping the claim tells the queue that its work is over.
#[derive(Debug)]
pub struct Claim<'q, T> {
    queue: &'q Queue<T>,
    task: Option<T>,
}

impl<T> Claim<'_, T> {
    /// The task, once.
    pub fn take(&mut self) -> Option<T> {
        self.task.take()
    }
}

impl<T> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.claimed -= 1;
        if state.claimed == 0 && state.phase == Phase::Closed && state.waiting.is_empty() {
            self.queue.arrived.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_task_is_claimed_once_and_in_order() {
        let queue = Queue::new(4);
        let claimed = thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut claimed = Vec::new();
                while let Some(mut claim) = queue.claim() {
                    claimed.extend(claim.take());
                }
                claimed
            });
            for task in 0..100 {
                queue.push(task).unwrap();
            }
            queue.close();
            worker.join().unwrap()
        });
        assert_eq!(claimed, Vec::from_iter(0..100));
    }

    #[test]
    fn a_full_queue_makes_the_feed_wait() {
        let queue = Queue::new(2);
        let pushed = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for task in 0..3 {
                    queue.push(task).unwrap();
                    pushed.fetch_add(1, Ordering::SeqCst);
                }
            });
            while pushed.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(20));
            assert_eq!(pushed.load(Ordering::SeqCst), 2);
            drop(queue.claim());
        });
        assert_eq!(pushed.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn workers_wait_for_tasks_that_a_claim_may_share() {
        let queue = Queue::new(1);
        queue.push("large").unwrap();
        queue.close();
        thread::scope(|scope| {
            let mut claim = queue.claim().unwrap();
            assert_eq!(claim.take(), Some("large"));
            let other = scope.spawn(|| queue.claim().and_then(|mut claim| claim.take()));
            thread::sleep(Duration::from_millis(20));
            queue.share("segment");
            assert_eq!(other.join().unwrap(), Some("segment"));
            drop(claim);
            assert!(queue.claim().is_none());
        });
    }

    #[test]
    fn stopping_wakes_everybody_and_keeps_what_is_left() {
        let queue = Queue::new(1);
        thread::scope(|scope| {
            let worker = scope.spawn(|| queue.claim().is_none());
            thread::sleep(Duration::from_millis(20));
            queue.stop();
            assert!(worker.join().unwrap());
            assert_eq!(queue.push(1), Err(1));
        });
        queue.share(2);
        assert_eq!(queue.remains(), [2]);
    }
}
