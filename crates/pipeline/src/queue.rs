//! The unclaimed tasks, and the workers that wait for them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use evener_core::{EngineError, IgnorePoison, Kind, Recall};

use crate::policy::{Performed, Policy, Seat};
use crate::scheduler::{Call, Scheduler, Turn};
use crate::{Load, Tally, Worker};

/// A bounded queue between one feed and many workers: their view of it.
pub struct Queue<'run, T> {
    pub(crate) inner: &'run Inner<T>,
    pub(crate) start: &'run (dyn Fn(usize) + Sync),
}

impl<T> Queue<'_, T> {
    /// Adds a task at the end, waiting while the queue is full.
    ///
    /// # Errors
    /// Returns the task if the queue was stopped.
    pub fn push(&self, task: T) -> Result<(), T> {
        let load = (self.inner.load)(&task);
        let mut scheduler = self.inner.lock();
        while !scheduler.is_stopped() && scheduler.waiting().tasks >= self.inner.capacity {
            scheduler.ensure(self.inner.now());
            scheduler = self.answer(scheduler);
            if !scheduler.is_stopped() && scheduler.waiting().tasks >= self.inner.capacity {
                self.inner.feed_waits.store(true, Ordering::Relaxed);
                let wait = || self.inner.left.wait(scheduler).ignore_poison();
                scheduler = self.inner.tally.feed().during(wait);
                self.inner.feed_waits.store(false, Ordering::Relaxed);
            }
        }
        if scheduler.is_stopped() {
            return Err(task);
        }
        scheduler.push(task, load, self.inner.now());
        drop(self.answer(scheduler));
        Ok(())
    }

    /// Puts a task at the head that other workers can help with; for workers. It never waits, so
    /// workers can't wait for each other. Each claim shares at most a task or two, so the queue
    /// stays bounded.
    pub fn share(&self, task: T) {
        let load = (self.inner.load)(&task);
        let mut scheduler = self.inner.lock();
        scheduler.share(task, load, self.inner.now());
        drop(self.answer(scheduler));
    }

    /// Ends the run early: no worker gets another task, and the remaining tasks are abandoned.
    pub fn stop(&self) {
        let mut scheduler = self.inner.lock();
        scheduler.stop();
        self.inner.tell_feed();
        drop(self.answer(scheduler));
    }

    /// Records that the feed waits for what its tasks hold, until it adds the next task. A worker
    /// comes for the waiting tasks, whatever the policy decides; a module that is late with its
    /// claim loses it.
    pub fn hold_feed(&self) {
        let mut scheduler = self.inner.lock();
        scheduler.hold_feed(self.inner.now());
        drop(self.answer(scheduler));
    }

    /// Records that a worker continues with its claim after it has done the load that was announced
    /// for all of it.
    pub fn renew(&self, worker: &Worker<'_>) {
        if worker.engine().description().kind == Kind::Module {
            self.inner.lock().renew(worker.number(), self.inner.now());
        }
    }

    /// Returns whether the run was ended early.
    pub fn is_stopped(&self) -> bool {
        self.inner.lock().is_stopped()
    }

    /// Adds a task if a worker waits for one or has not started; never waits. If there is no such
    /// worker, it leaves the lock to the busy workers.
    ///
    /// # Errors
    /// Returns the task if there is no such worker.
    pub fn offer(&self, task: T) -> Result<(), T> {
        if !self.inner.parking.iter().any(|parking| parking.is_free.load(Ordering::Acquire)) {
            return Err(task);
        }
        let load = (self.inner.load)(&task);
        let mut scheduler = self.inner.lock();
        // A worker that was called already has its task.
        if !(0..self.inner.parking.len()).any(|worker| scheduler.is_free(worker)) {
            return Err(task);
        }
        scheduler.push(task, load, self.inner.now());
        drop(self.answer(scheduler));
        Ok(())
    }

    /// The most recent worker failure.
    pub fn failure(&self) -> Option<EngineError> {
        self.inner.failure.lock().ignore_poison().clone()
    }

    /// Starts the workers that the policy wants from the beginning.
    pub(crate) fn open(&self) {
        let mut scheduler = self.inner.lock();
        scheduler.open(self.inner.now());
        drop(self.answer(scheduler));
    }

    /// Records that the feed has ended.
    pub(crate) fn close(&self) {
        let mut scheduler = self.inner.lock();
        scheduler.close(self.inner.now());
        drop(self.answer(scheduler));
    }

    /// After [`Queue::close`], returns a worker that the caller's thread must act as.
    pub(crate) fn unstarted(&self) -> Option<usize> {
        let mut scheduler = self.inner.lock();
        let worker = scheduler.unstarted(self.inner.now());
        drop(self.answer(scheduler));
        worker
    }

    /// Waits for a worker's next claim and puts its tasks into `claim`; `None` when the run is over
    /// for the worker.
    pub(crate) fn claim(
        &self,
        worker: usize,
        performed: Option<&Performed>,
        claim: &mut VecDeque<T>,
        now: Duration,
    ) -> Option<Claimed> {
        if performed.is_none() {
            self.inner.parking[worker].is_free.store(false, Ordering::Release);
        }
        let mut scheduler = self.inner.lock();
        let mut turn = scheduler.turn(worker, performed, claim, now);
        loop {
            if !matches!(turn, Turn::Wait(_)) {
                self.inner.tell_feed();
            }
            scheduler = self.answer(scheduler);
            match turn {
                Turn::Leave => return None,
                Turn::Work { measured, timed } => return Some(Claimed { measured, timed }),
                Turn::Wait(at_most) => {
                    let wait = || self.inner.wait(scheduler, worker, at_most);
                    scheduler = self.inner.tally.workers().during(wait);
                }
            }
            turn = scheduler.turn(worker, None, claim, self.inner.now());
        }
    }

    /// Removes a worker, and returns the rest of its claim to the queue.
    pub(crate) fn leave(&self, worker: usize, rest: &mut VecDeque<T>) {
        let mut scheduler = self.inner.lock();
        let rest = rest.drain(..).map(|task| {
            let load = (self.inner.load)(&task);
            (task, load)
        });
        scheduler.leave(worker, rest, self.inner.now());
        // The feed may wait for workers that are gone.
        self.inner.tell_feed();
        drop(self.answer(scheduler));
    }

    /// Wakes and starts the workers that the scheduler has called.
    fn answer<'d>(
        &'d self,
        mut scheduler: MutexGuard<'d, Scheduler<T>>,
    ) -> MutexGuard<'d, Scheduler<T>> {
        let (mut started, mut recalled) = (Vec::new(), Vec::new());
        for call in scheduler.calls() {
            match call {
                Call::Wake(worker) => self.inner.parking[worker].called.notify_one(),
                Call::Start(worker) => started.push(worker),
                Call::Recall(worker) => recalled.push(worker),
            }
        }
        if started.is_empty() && recalled.is_empty() {
            return scheduler;
        }
        // Starting a thread takes a while; other workers can continue meanwhile.
        drop(scheduler);
        for worker in recalled {
            self.inner.recalls[worker].call();
        }
        for worker in started {
            (self.start)(worker);
        }
        self.inner.lock()
    }

    /// The recall of a worker.
    pub(crate) fn recall(&self, worker: usize) -> &Recall {
        &self.inner.recalls[worker]
    }
}

/// The measurements to make during a claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    /// True to measure CPU time.
    pub(crate) timed: bool,
    /// True to measure the engine's part as well.
    pub(crate) measured: bool,
}

/// The state that a run's queues share.
pub(crate) struct Inner<T> {
    scheduler: Mutex<Scheduler<T>>,
    capacity: usize,
    load: fn(&T) -> Load,
    started: Instant,
    /// Signalled when a task leaves the queue, and when the queue is stopped.
    left: Condvar,
    /// True while the feed waits for `left`. Written under the lock.
    feed_waits: AtomicBool,
    /// The place where each worker waits.
    parking: Vec<Parking>,
    /// For each worker, the recall of a claim that is no longer wanted.
    recalls: Vec<Recall>,
    /// The most recent worker failure. Written before that worker leaves.
    failure: Mutex<Option<EngineError>>,
    tally: Arc<Tally>,
}

struct Parking {
    called: Condvar,
    /// True if the worker waits or has not started. Read without the lock by [`Queue::offer`].
    is_free: AtomicBool,
}

impl Parking {
    fn of_unstarted() -> Parking {
        Parking { called: Condvar::new(), is_free: AtomicBool::new(true) }
    }
}

impl<T> Inner<T> {
    pub(crate) fn new(
        policy: Box<dyn Policy>,
        seats: &[Seat],
        capacity: usize,
        load: fn(&T) -> Load,
        cores: Option<usize>,
    ) -> Inner<T> {
        Inner {
            scheduler: Mutex::new(Scheduler::new(policy, seats, cores)),
            capacity: capacity.max(1),
            load,
            started: Instant::now(),
            left: Condvar::new(),
            feed_waits: AtomicBool::new(false),
            parking: seats.iter().map(|_| Parking::of_unstarted()).collect(),
            recalls: seats.iter().map(|_| Recall::default()).collect(),
            failure: Mutex::default(),
            tally: Arc::default(),
        }
    }

    /// Lets the scheduler divide tasks with [`Work::split`](crate::Work::split).
    pub(crate) fn splitting(mut self, split: fn(&mut T, u64) -> Option<T>) -> Inner<T> {
        let load = self.load;
        self.scheduler.get_mut().ignore_poison().divide(split, load);
        self
    }

    /// Counts waits in `tally`.
    pub(crate) fn counted_by(self, tally: Arc<Tally>) -> Inner<T> {
        Inner { tally, ..self }
    }

    /// Puts all these tasks into the queue before the run begins, without a limit.
    pub(crate) fn fill(&mut self, tasks: impl IntoIterator<Item = T>) {
        let scheduler = self.scheduler.get_mut().ignore_poison();
        for task in tasks {
            let load = (self.load)(&task);
            scheduler.fill(task, load);
        }
    }

    /// Starts the clock.
    pub(crate) fn begin(&mut self, started: Instant) {
        self.started = started;
    }

    /// The time since the run began.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn into_desk(self) -> Scheduler<T> {
        self.scheduler.into_inner().ignore_poison()
    }

    /// Records the failure of a worker that is about to leave.
    pub(crate) fn has_failed(&self, cause: &EngineError) {
        *self.failure.lock().ignore_poison() = Some(cause.clone());
    }

    /// Waits until a worker is called, or for at most `at_most`.
    fn wait<'d>(
        &self,
        mut scheduler: MutexGuard<'d, Scheduler<T>>,
        worker: usize,
        at_most: Option<Duration>,
    ) -> MutexGuard<'d, Scheduler<T>> {
        let parking = &self.parking[worker];
        parking.is_free.store(true, Ordering::Release);
        match at_most {
            None => {
                while scheduler.waits(worker) {
                    scheduler = parking.called.wait(scheduler).ignore_poison();
                }
            }
            Some(at_most) => {
                let waits = |scheduler: &mut Scheduler<T>| scheduler.waits(worker);
                let waited = parking.called.wait_timeout_while(scheduler, at_most, waits);
                scheduler = waited.ignore_poison().0;
            }
        }
        parking.is_free.store(false, Ordering::Release);
        scheduler
    }

    /// Tells the feed that a task has left. The caller holds the lock.
    fn tell_feed(&self) {
        if self.feed_waits.load(Ordering::Relaxed) {
            self.left.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Scheduler<T>> {
        self.scheduler.lock().ignore_poison()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;
    use crate::costs::Costs;
    use crate::policy::{MakePolicy, PolicyName, Setting};

    /// A queue with the policy `pull`.
    fn inner<T>(capacity: usize, workers: usize) -> Inner<T> {
        let setting = Setting { cores: 1, costs: Costs::default() };
        let (engine, kind) = ("cpu".to_owned(), Kind::Cpu);
        let seat = Seat { engine, kind, batch: 1, bytes: 0, opening: None };
        let seats = vec![seat; workers];
        let policy = PolicyName::Pull.policy(&seats, &setting);
        Inner::new(policy, &seats, capacity, |_| Load::job(1), None)
    }

    fn nobody(_: usize) {}

    fn queue<T>(inner: &Inner<T>) -> Queue<'_, T> {
        let queue = Queue { inner, start: &nobody };
        queue.open();
        queue
    }

    /// Claims until the run is over.
    fn claim_all<T>(queue: &Queue<'_, T>, worker: usize) -> Vec<T> {
        let mut all = Vec::new();
        let (mut claim, mut performed) = (VecDeque::new(), None);
        while queue.claim(worker, performed.as_ref(), &mut claim, Duration::ZERO).is_some() {
            all.extend(claim.drain(..));
            performed = Some(Performed::default());
        }
        all
    }

    #[test]
    fn every_task_is_claimed_once_and_in_order() {
        let inner = inner(4, 1);
        let queue = queue(&inner);
        let claimed = thread::scope(|scope| {
            let worker = scope.spawn(|| claim_all(&queue, 0));
            for task in 0..100 {
                queue.push(task).unwrap();
            }
            queue.close();
            worker.join().unwrap()
        });
        assert_eq!(claimed, Vec::from_iter(0..100));
    }

    #[test]
    fn a_task_is_offered_to_those_who_wait_or_have_not_started() {
        let inner = inner(4, 1);
        let queue = queue(&inner);
        queue.offer(6).unwrap();
        assert_eq!(queue.offer(7), Err(7));
        let mut claim = VecDeque::new();
        queue.claim(0, None, &mut claim, Duration::ZERO);
        assert_eq!(claim, [6]);
        assert_eq!(queue.offer(7), Err(7));
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut claim = VecDeque::new();
                queue.claim(0, Some(&Performed::default()), &mut claim, Duration::ZERO);
                claim
            });
            while queue.offer(7).is_err() {
                thread::yield_now();
            }
            // It has been called, or works.
            assert_eq!(queue.offer(8), Err(8));
            assert_eq!(worker.join().unwrap(), [7]);
        });
    }

    #[test]
    fn a_full_queue_makes_the_feed_wait() {
        let inner = inner(2, 1);
        let queue = queue(&inner);
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
            queue.claim(0, None, &mut VecDeque::new(), Duration::ZERO);
        });
        assert_eq!(pushed.load(Ordering::SeqCst), 3);
        assert_eq!((inner.tally.feed().number(), inner.tally.workers().number()), (1, 0));
    }

    #[test]
    fn workers_wait_for_tasks_that_a_claim_may_share() {
        let inner = inner(1, 2);
        let queue = queue(&inner);
        queue.push("large").unwrap();
        queue.close();
        thread::scope(|scope| {
            let mut claim = VecDeque::new();
            assert!(queue.claim(0, None, &mut claim, Duration::ZERO).is_some());
            assert_eq!(claim.pop_front(), Some("large"));
            let other = scope.spawn(|| claim_all(&queue, 1));
            thread::sleep(Duration::from_millis(20));
            queue.share("segment");
            let over = queue.claim(0, Some(&Performed::default()), &mut claim, Duration::ZERO);
            // Either worker may have got it.
            let mine = over.and_then(|_| claim.pop_front());
            queue.leave(0, &mut claim);
            let theirs = other.join().unwrap();
            assert_eq!(mine.into_iter().chain(theirs).collect::<Vec<_>>(), ["segment"]);
        });
    }

    #[test]
    fn stopping_wakes_everybody_and_keeps_what_is_left() {
        let inner = inner(1, 1);
        let queue = queue(&inner);
        thread::scope(|scope| {
            let worker = scope.spawn(|| claim_all(&queue, 0).is_empty());
            thread::sleep(Duration::from_millis(20));
            queue.stop();
            assert!(worker.join().unwrap());
            assert_eq!(queue.push(1), Err(1));
        });
        queue.share(2);
        assert_eq!(inner.into_desk().into_tasks(), [2]);
    }
}
