//! A module whose driver computes on the cores, on threads of its own. The tests take turns in a
//! process of their own: the threads of other tests would count as the driver's.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Iv, Job, Kind, Offer, Outcome, Session,
    SessionRequest,
};
use evener_pipeline::{PolicyName, RunOptions, claim_process, run_batch};
use rustix::time::{ClockId, clock_gettime};

/// Copies messages, and takes a while for each on some threads at once.
struct Copier {
    description: Description,
    threads: usize,
    each: Duration,
    done: Arc<AtomicUsize>,
}

impl Copier {
    fn new(kind: Kind, threads: usize, each: Duration) -> Copier {
        Copier {
            description: Description::new(format!("{kind:?}"), kind),
            threads,
            each,
            done: Arc::default(),
        }
    }
}

impl Engine for Copier {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, _: Cipher, _: Direction) -> Option<Offer> {
        Some(Offer::new(1))
    }

    fn open(&self, _: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let Copier { threads, each, ref done, .. } = *self;
        Ok(Box::new(CopierSession { threads, each, done: Arc::clone(done) }))
    }
}

struct CopierSession {
    threads: usize,
    each: Duration,
    done: Arc<AtomicUsize>,
}

impl Session for CopierSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let time = self.each * batch.len() as u32;
        if self.threads == 0 {
            compute(time);
        }
        thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| compute(time));
            }
        });
        self.done.fetch_add(batch.len(), Ordering::Relaxed);
        for job in batch {
            job.output[..job.input.len()].copy_from_slice(job.input);
            job.outcome = Outcome::Done { written: job.input.len() };
        }
        Ok(())
    }
}

/// Uses this much CPU time.
fn compute(time: Duration) {
    let cpu = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let (begun, began) = (cpu(), Instant::now());
    while cpu() - begun < time && began.elapsed() < 100 * time {}
}

static TURN: Mutex<()> = Mutex::new(());

/// Processes `total` messages on these engines, and returns the time that it took.
fn run(engines: &[Arc<dyn Engine>], options: &RunOptions, total: usize) -> Duration {
    let mut outputs = vec![[0; 0]; total];
    let mut jobs: Vec<_> =
        outputs.iter_mut().map(|output| Job::new(Iv::NONE, &[], output)).collect();
    let begun = Instant::now();
    assert_eq!(run_batch(engines, options, &mut jobs, &|| false), None);
    let time = begun.elapsed();
    assert!(jobs.iter().all(|job| job.outcome == Outcome::Done { written: 0 }));
    time
}

fn options(policy: PolicyName) -> RunOptions {
    RunOptions::new(policy, Cipher::Aes128Ctr, Direction::Encrypt, 1)
}

#[test]
fn a_module_that_takes_more_time_from_the_cores_than_it_saves_gets_little_work() {
    let _turn = TURN.lock().unwrap();
    claim_process();
    let cores = thread::available_parallelism().unwrap().get();
    for policy in [PolicyName::Pull, PolicyName::Adaptive] {
        let cpu: Arc<dyn Engine> = Arc::new(Copier::new(Kind::Cpu, 0, Duration::from_micros(200)));
        let module = Copier::new(Kind::Module, 2, Duration::from_micros(800));
        let done = Arc::clone(&module.done);
        let mut seats = vec![cpu; cores];
        seats.push(Arc::new(module));
        let total = 4_000 * cores;
        run(&seats, &options(policy), total);
        let by_module = done.load(Ordering::Relaxed);
        println!("{policy}: {by_module} of {total} by the module");
        assert!(by_module * 20 < total, "{policy}: {by_module} of {total}");
    }
}

/// A module whose driver computes to open a session, and then has none.
struct Opener {
    description: Description,
    computes: Duration,
    /// The number of messages that the cores have processed, now and when the driver had computed.
    by_cores: Arc<AtomicUsize>,
    seen: Arc<AtomicUsize>,
}

impl Engine for Opener {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, _: Cipher, _: Direction) -> Option<Offer> {
        Some(Offer::new(1))
    }

    fn open(&self, _: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        thread::scope(|scope| scope.spawn(|| compute(self.computes)).join()).unwrap();
        self.seen.store(self.by_cores.load(Ordering::Relaxed), Ordering::Relaxed);
        Err(EngineError::Interrupted { engine: self.description.name.clone() })
    }
}

/// While the driver computes it uses more CPU time than the run may.
#[test]
fn the_cores_do_not_wait_for_the_cpu_time_of_an_opening() {
    let _turn = TURN.lock().unwrap();
    claim_process();
    let cores = thread::available_parallelism().unwrap().get();
    let cpu = Copier::new(Kind::Cpu, 0, Duration::from_micros(200));
    let seen = Arc::new(AtomicUsize::new(0));
    let module = Opener {
        description: Description::module("opener"),
        computes: Duration::from_secs(2),
        by_cores: Arc::clone(&cpu.done),
        seen: Arc::clone(&seen),
    };
    let mut seats = vec![Arc::new(cpu) as Arc<dyn Engine>; cores];
    seats.push(Arc::new(module));
    let mut options = options(PolicyName::Pull);
    options.courtesy.most_cpu = Some((80 / cores).max(1) as u8);
    run(&seats, &options, 2_000);
    assert_eq!(seen.load(Ordering::Relaxed), 2_000);
}
