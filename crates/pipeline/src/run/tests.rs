use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use evener_core::{Description, Iv, Job, Kind, Offer, Outcome, Session, SessionRequest};

use super::*;
use crate::PolicyName;
use crate::policy::{Claim, Decision, Policy};
use crate::scheduler::Waiting;

/// Copies its input, and fails for good after a number of batches.
struct Copier {
    description: Description,
    batches_left: Arc<AtomicUsize>,
    opening: Duration,
}

struct CopierSession(Arc<AtomicUsize>);

pub(crate) fn copier(name: &str, batches: usize) -> Arc<dyn Engine> {
    let description = Description::cpu(name);
    let batches_left = Arc::new(AtomicUsize::new(batches));
    Arc::new(Copier { description, batches_left, opening: Duration::ZERO })
}

impl Engine for Copier {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, _: Cipher, _: Direction) -> Option<Offer> {
        Some(Offer::new(1).opening(self.opening))
    }

    fn open(&self, _: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(CopierSession(self.batches_left.clone())))
    }
}

impl Session for CopierSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let take = |left: usize| left.checked_sub(1);
        if self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err() {
            return Err(EngineError::failed("gone"));
        }
        for job in batch {
            job.output[..job.input.len()].copy_from_slice(job.input);
            job.outcome = Outcome::Done { written: job.input.len() };
        }
        Ok(())
    }
}

#[derive(Default)]
struct Record {
    performed: Mutex<Vec<u8>>,
    abandoned: Mutex<Vec<(u8, bool)>>,
}

impl Work for Record {
    type Task = u8;
    type Workspace = ();

    fn workspace(&self, _: &dyn Engine) {}

    fn perform(
        &self,
        task: u8,
        (): &mut (),
        worker: &mut Worker<'_>,
        _: &Queue<u8>,
    ) -> Result<(), Returned<u8>> {
        let (input, mut output) = ([task], [0]);
        let mut jobs = [Job::new(Iv::NONE, &input, &mut output)];
        worker
            .process(Cipher::Aes128Ecb, Direction::Encrypt, &mut jobs)
            .map_err(|cause| Returned { task, cause })?;
        worker.count_units(1);
        self.performed.lock().unwrap().push(output[0]);
        Ok(())
    }

    fn abandon(&self, task: u8, cause: Option<&EngineError>) {
        self.abandoned.lock().unwrap().push((task, cause.is_some()));
    }
}

fn pull(capacity: usize) -> RunOptions {
    let (cipher, direction) = (Cipher::Aes128Ecb, Direction::Encrypt);
    RunOptions::new(PolicyName::Pull, cipher, direction, capacity)
}

fn feed_all(queue: &Queue<u8>) {
    for task in 0..100 {
        if queue.push(task).is_err() {
            return;
        }
    }
}

#[test]
fn a_failing_engine_loses_nothing() {
    for fails_after in [0, 1, 50] {
        let record = Record::default();
        let seats = [copier("sound", usize::MAX), copier("failing", fails_after)];
        let statistics = run(&seats, &pull(8), &record, feed_all);
        let mut performed = record.performed.into_inner().unwrap();
        performed.sort_unstable();
        assert_eq!(performed, Vec::from_iter(0..100));
        assert_eq!(statistics.workers.iter().map(|worker| worker.units).sum::<u64>(), 100);
        assert_eq!(statistics.workers.iter().map(|worker| worker.jobs).sum::<u64>(), 100);
    }
}

#[test]
fn when_every_engine_fails_the_tasks_are_abandoned_and_the_feed_ends() {
    let record = Record::default();
    let seats = [copier("a", 10), copier("b", 5)];
    let statistics = run(&seats, &pull(4), &record, feed_all);
    assert_eq!(record.performed.into_inner().unwrap().len(), 15);
    let abandoned = record.abandoned.into_inner().unwrap();
    assert!(!abandoned.is_empty() && abandoned.iter().all(|(_, has_cause)| *has_cause));
    assert!(statistics.workers.iter().all(|worker| worker.retired.is_some()));
}

/// Gives all tasks to the last worker.
#[derive(Debug)]
struct Last(usize);

impl MakePolicy for Last {
    fn policy(&self, seats: &[Seat], _: &Setting) -> Box<dyn Policy> {
        Box::new(Last(seats.len() - 1))
    }
}

impl Policy for Last {
    fn next(&self, worker: usize, _: &Waiting, _: Duration) -> Decision {
        if worker == self.0 { Decision::Claim(Claim::ONE) } else { Decision::Leave }
    }
}

#[test]
fn a_run_takes_any_policy() {
    let record = Record::default();
    let seats = ["a", "b", "c"].map(|name| copier(name, usize::MAX));
    let options = RunOptions { policy: Arc::new(Last(0)), ..pull(4) };
    let statistics = run(&seats, &options, &record, feed_all);
    let units = statistics.workers.iter().filter(|worker| worker.units > 0);
    let units: Vec<_> = units.map(|worker| (worker.worker, worker.units)).collect();
    assert_eq!(units, [(2, 100)]);
}

#[test]
fn courtesy_loses_nothing() {
    for policy in [PolicyName::Pull, PolicyName::Adaptive] {
        let record = Record::default();
        let mut options = RunOptions { policy: policy.into(), ..pull(8) };
        options.courtesy = Courtesy { in_background: true, most_cpu: Some(20) };
        let seats = [copier("a", usize::MAX), copier("b", 5)];
        run(&seats, &options, &record, feed_all);
        assert_eq!(record.performed.into_inner().unwrap().len(), 100, "{policy}");
    }
}

#[test]
fn a_stopped_run_abandons_what_is_left() {
    let record = Record::default();
    let statistics = run(&[copier("a", usize::MAX)], &pull(4), &record, |queue| queue.stop());
    assert!(record.abandoned.into_inner().unwrap().is_empty());
    assert_eq!(statistics.workers.iter().map(|worker| worker.jobs).sum::<u64>(), 0);
}

/// Records the threads that tasks ran on; each task waits at the barrier.
struct Together(Barrier, Mutex<Vec<thread::ThreadId>>);

impl Work for Together {
    type Task = ();
    type Workspace = ();

    fn workspace(&self, _: &dyn Engine) {}

    fn perform(
        &self,
        (): (),
        (): &mut (),
        _: &mut Worker<'_>,
        _: &Queue<()>,
    ) -> Result<(), Returned<()>> {
        self.0.wait();
        self.1.lock().unwrap().push(thread::current().id());
        Ok(())
    }

    fn abandon(&self, (): (), _: Option<&EngineError>) {}
}

#[test]
fn a_single_file_is_done_on_the_callers_thread_and_more_at_the_same_time() {
    let seats = [copier("a", usize::MAX), copier("b", usize::MAX)];
    for tasks in [1, 2] {
        let work = Together(Barrier::new(tasks), Mutex::default());
        run(&seats, &pull(8), &work, |queue| (0..tasks).for_each(|_| queue.push(()).unwrap()));
        let threads = work.1.into_inner().unwrap();
        assert_eq!(threads.len(), tasks);
        assert!(tasks > 1 || threads == [thread::current().id()]);
    }
}

/// Records the nice values at which each engine performs its tasks.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct NiceValues(Mutex<std::collections::BTreeSet<(String, i32)>>);

#[cfg(target_os = "linux")]
impl Work for NiceValues {
    type Task = u8;
    type Workspace = ();

    fn workspace(&self, _: &dyn Engine) {}

    fn perform(
        &self,
        _: u8,
        (): &mut (),
        worker: &mut Worker<'_>,
        _: &Queue<u8>,
    ) -> Result<(), Returned<u8>> {
        let nice = rustix::process::getpriority_process(None).unwrap();
        let name = worker.engine().description().name.clone();
        self.0.lock().unwrap().insert((name, nice));
        thread::sleep(Duration::from_millis(1));
        Ok(())
    }

    fn abandon(&self, _: u8, _: Option<&EngineError>) {}
}

#[cfg(target_os = "linux")]
#[test]
fn a_modules_worker_goes_before_those_that_compute_and_before_no_other_program() {
    if !rustix::process::geteuid().is_root() {
        evener_core::skipped!("only root surely may raise a thread's priority");
        return;
    }
    let kind = |name: &str, kind| -> Arc<dyn Engine> {
        let description = Description::new(name, kind);
        let batches_left = Arc::new(AtomicUsize::new(usize::MAX));
        Arc::new(Copier { description, batches_left, opening: Duration::ZERO })
    };
    let (cpu, module) = (kind("cpu", Kind::Cpu), kind("module", Kind::Module));
    let usual = rustix::process::getpriority_process(None).unwrap();
    let modules_nice = |seats: &[Arc<dyn Engine>], in_background| {
        let mut options = pull(8);
        options.courtesy.in_background = in_background;
        let values = NiceValues::default();
        let has_module_worked =
            || values.0.lock().unwrap().iter().any(|(name, _)| name == "module");
        // On a thread of its own: in the background a caller that works keeps its low priority.
        thread::scope(|scope| {
            scope.spawn(|| {
                run(seats, &options, &values, |queue| {
                    while !has_module_worked() && queue.push(0).is_ok() {}
                })
            });
        });
        let values = values.0.into_inner().unwrap();
        values.into_iter().filter(|(name, _)| name == "module").map(|(_, nice)| nice).next()
    };
    assert!(modules_nice(&[cpu.clone(), module.clone()], false).unwrap() < usual);
    assert_eq!(modules_nice(std::slice::from_ref(&module), false), Some(usual));
    assert_eq!(modules_nice(&[cpu, module], true), Some(usual));
    assert_eq!(rustix::process::getpriority_process(None).unwrap(), usual);
}

#[test]
fn the_stated_opening_time_counts_until_one_is_known() {
    let opening = |name: &str, stated| {
        let description = Description::module(name);
        let engine = Copier { description, batches_left: Arc::default(), opening: stated };
        facts(&engine, &pull(1)).opening
    };
    let (short, long) = (Duration::from_millis(5), Duration::from_millis(500));
    assert_eq!(opening("stated", Duration::ZERO), None);
    assert_eq!(opening("stated", long), Some(long));
    openings::note("stated", short);
    assert_eq!(opening("stated", long), Some(short));
}
