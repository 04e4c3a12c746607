//! One engine, one size, a number of workers.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{
    Direction, Engine, EngineError, Iv, Job, Key, Offer, Outcome, Padding, Point, Session,
    SessionRequest, WipedBuffer, shown_error,
};
use rustix::time::{ClockId, clock_gettime};

use super::start::Start;
use super::{Plan, left};

/// Jobs of one size on one engine, on several threads at once, for the plan's time.
pub(super) struct Measurement<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) plan: &'a Plan,
    /// The length of a job before padding.
    pub(super) bytes: usize,
    pub(super) workers: usize,
    pub(super) offer: Offer,
}

impl Measurement<'_> {
    /// The cost of a job by the threads' clocks, and the time of the fastest opening of a session.
    ///
    /// # Errors
    /// When the engine fails or rejects a job.
    pub(super) fn seen(&self) -> Result<(Point, Duration), EngineError> {
        let (runs, ()) = self.run(&Start::of(self.workers), |_| ())?;
        let runs = runs.ok_or_else(|| ended(self.engine))?;
        let mean = |figure: fn(&Run) -> Duration| {
            let each = runs.iter().map(|run| figure(run).as_secs_f64() * 1e6 / run.jobs as f64);
            each.sum::<f64>() / runs.len() as f64
        };
        let (wall_us, cpu_us) = (mean(|run| run.wall), mean(|run| run.cpu));
        let opening = runs.iter().map(|run| run.opening).min().unwrap_or_default();
        Ok((Point { bytes: self.bytes, wall_us, cpu_us, hidden_us: 0.0 }, opening))
    }

    /// The CPU time of a job that no worker's clock shows, in microseconds: the loss of the cores
    /// for other work during the run, minus the time on the threads' clocks.
    ///
    /// # Errors
    /// As [`seen`](Measurement::seen).
    pub(super) fn hidden(&self) -> Result<f64, EngineError> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let start = Start::of(self.workers + cores);
        let (runs, beside) = self.run(&start, |has_ended| {
            left::of_cores(cores, &start, |_| has_ended.load(Ordering::Relaxed))
        })?;
        let time = self.plan.time;
        let alone = left::of_cores(cores, &Start::of(cores), |elapsed| elapsed >= time);
        let (beside, alone) = beside
            .and_then(|beside| Ok((beside, alone?)))
            .map_err(|error| without_thread(self.engine, &error))?;
        let runs = runs.ok_or_else(|| ended(self.engine))?;
        let taken = cores as f64 * (1.0 - beside / alone.max(f64::MIN_POSITIVE));
        Ok(hidden(taken, &runs))
    }

    /// Runs the workers, and `beside` next to them, which can see when the first has ended. There
    /// are no runs if the start was called off.
    fn run<T>(
        &self,
        start: &Start,
        beside: impl FnOnce(&AtomicBool) -> T,
    ) -> Result<(Option<Vec<Run>>, T), EngineError> {
        let &Measurement { engine, plan, bytes, workers, offer } = self;
        let (batch, lends) = (offer.batch_of(bytes), offer.bytes > 0);
        let has_ended = AtomicBool::new(false);
        let (runs, beside) = thread::scope(|scope| {
            let work = || {
                let run = Worker { engine, plan, bytes, batch, lends }.run(start);
                has_ended.store(true, Ordering::Relaxed);
                run
            };
            let workers = (0..workers).map(|_| thread::Builder::new().spawn_scoped(scope, work));
            let workers: io::Result<Vec<_>> = workers.collect();
            let workers = workers.inspect_err(|_| start.call_off());
            let beside = beside(&has_ended);
            let join = |worker: thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|_| Err(ended(engine)))
            };
            let workers = workers.map_err(|error| without_thread(engine, &error))?;
            let runs: Vec<_> = workers.into_iter().map(join).collect();
            Ok::<_, EngineError>((runs, beside))
        })?;
        // If one of several workers failed, the others were called off.
        let runs: Vec<Option<Run>> = runs.into_iter().collect::<Result<_, _>>()?;
        Ok((runs.into_iter().collect(), beside))
    }
}

/// The hidden time of a job, in microseconds, if the runs took this many cores all together.
fn hidden(taken: f64, runs: &[Run]) -> f64 {
    let sum = |figure: fn(&Run) -> f64| runs.iter().map(figure).sum::<f64>();
    let jobs = sum(|run| run.jobs as f64 / (run.wall.as_secs_f64() * 1e6));
    let seen = sum(|run| run.cpu.as_secs_f64() / run.wall.as_secs_f64());
    ((taken - seen) / jobs).max(0.0)
}

/// The work of a worker.
struct Run {
    /// The opening of the session, with its first batch.
    opening: Duration,
    jobs: usize,
    wall: Duration,
    cpu: Duration,
}

struct Worker<'a> {
    engine: &'a dyn Engine,
    plan: &'a Plan,
    bytes: usize,
    batch: usize,
    /// True if the engine has memory of its own for its jobs.
    lends: bool,
}

impl Worker<'_> {
    /// Returns `None` if the start was called off.
    fn run(&self, start: &Start) -> Result<Option<Run>, EngineError> {
        let place = start.place();
        let Ready { mut session, opened, length, inputs, mut outputs } = self.prepare()?;
        if !place.wait() {
            return Ok(None);
        }
        let inputs = inputs.chunks_exact(length.max(1)).chain(std::iter::repeat(&inputs[..length]));
        let each = outputs.len() / self.batch;
        let outputs = outputs.chunks_exact_mut(each);
        let mut batch: Vec<_> =
            inputs.zip(outputs).map(|(input, output)| self.job(input, output)).collect();
        let first = Instant::now();
        self.process(&mut *session, &mut batch)?;
        let opening = opened + first.elapsed();
        let (wall, cpu) = (Instant::now(), thread_time());
        let mut jobs = 0;
        // The clock is read less and less often, so that its cost does not count.
        let mut calls = 1;
        let mut looked = Duration::ZERO;
        while looked < self.plan.time {
            for _ in 0..calls {
                self.process(&mut *session, &mut batch)?;
            }
            jobs += calls * batch.len();
            let elapsed = wall.elapsed();
            if elapsed - looked < BETWEEN_LOOKS {
                calls *= 2;
            }
            looked = elapsed;
        }
        let cpu = thread_time().saturating_sub(cpu);
        Ok(Some(Run { opening, jobs, wall: wall.elapsed(), cpu }))
    }

    /// A session, the inputs and the outputs of a batch.
    fn prepare(&self) -> Result<Ready, EngineError> {
        let &Plan { cipher, direction, .. } = self.plan;
        let plain = vec![0x5A; self.bytes];
        let input = match direction {
            Direction::Encrypt => plain,
            Direction::Decrypt => {
                let mut sealed = self.output(&plain, Direction::Encrypt);
                let mut batch = [self.job(&plain, &mut sealed)];
                let mut session = self.open(Direction::Encrypt)?;
                self.process(&mut *session, &mut batch)?;
                let length = batch[0].output_length(cipher, Direction::Encrypt);
                sealed.truncate(length);
                sealed
            }
        };
        let begun = Instant::now();
        let session = self.open(direction)?;
        let opened = begun.elapsed();
        let output = self.output(&input, direction).len() * self.batch;
        // Inputs that are copied to a device are separate, like a worker's files; otherwise one is
        // enough.
        let copies = if self.lends { self.batch } else { 1 };
        let mut inputs = self.buffer(input.len() * copies);
        inputs.chunks_exact_mut(input.len().max(1)).for_each(|copy| copy.copy_from_slice(&input));
        Ok(Ready { session, opened, length: input.len(), inputs, outputs: self.buffer(output) })
    }

    /// A buffer in the engine's own memory, if it has any.
    fn buffer(&self, bytes: usize) -> WipedBuffer {
        let lent = self.lends.then(|| self.engine.buffer(bytes)).flatten();
        lent.unwrap_or_else(|| WipedBuffer::zeros(bytes))
    }

    fn open(&self, direction: Direction) -> Result<Box<dyn Session>, EngineError> {
        let cipher = self.plan.cipher;
        // No two parts are equal, as XTS and triple DES require.
        let bytes: Vec<u8> = (1..).take(cipher.key_length()).collect();
        let key = Key::new(&bytes).ok().filter(|_| !self.engine.holds_key());
        self.engine.open(&SessionRequest { cipher, direction, key: key.as_ref() })
    }

    fn output(&self, input: &[u8], direction: Direction) -> Vec<u8> {
        let job_length = self.job(input, &mut []).output_length(self.plan.cipher, direction);
        // Outputs at distances of a power of two would share cache sets.
        vec![0; job_length + 64]
    }

    /// Files have any length, so messages are padded if the cipher has padding.
    fn job<'a>(&self, input: &'a [u8], output: &'a mut [u8]) -> Job<'a> {
        let cipher = self.plan.cipher;
        let iv = Iv::new(&[3; Iv::MAX_LENGTH][..cipher.iv_length()]).unwrap_or(Iv::NONE);
        let padding = if cipher.block_length() > 1 { Padding::Pkcs7 } else { Padding::None };
        Job { padding, ..Job::new(iv, input, output) }
    }

    fn process(&self, session: &mut dyn Session, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        for job in batch.iter_mut() {
            job.outcome = Outcome::Pending;
        }
        session.process(batch)?;
        if batch.iter().all(|job| matches!(job.outcome, Outcome::Done { .. })) {
            return Ok(());
        }
        let reason = format!("a job came back as {:?}", batch[0].outcome);
        Err(EngineError::failed(reason).of(&self.engine.description().name))
    }
}

/// Time between two readings of the clock.
const BETWEEN_LOOKS: Duration = Duration::from_millis(4);

/// A worker's session, its inputs, one after another or one for all, and its outputs.
struct Ready {
    session: Box<dyn Session>,
    /// The time that opening it took.
    opened: Duration,
    /// The length of an input, in bytes.
    length: usize,
    inputs: WipedBuffer,
    outputs: WipedBuffer,
}

fn ended(engine: &dyn Engine) -> EngineError {
    EngineError::failed("a worker's thread ended").of(&engine.description().name)
}

fn without_thread(engine: &dyn Engine, error: &io::Error) -> EngineError {
    EngineError::unavailable(format!("no thread can be had to measure it: {}", shown_error(error)))
        .of(&engine.description().name)
}

/// The calling thread's CPU time.
fn thread_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use evener_core::{Cipher, Description};

    use super::*;

    #[test]
    fn the_cause_is_told_and_not_that_others_were_called_off() {
        let engine =
            OneSession { inner: crate::find("openssl").unwrap(), opened: AtomicBool::new(false) };
        let plan = Plan::new(Cipher::Aes128Ctr, Direction::Encrypt);
        let offer = engine.offer(plan.cipher, plan.direction).unwrap();
        let error = |workers| {
            engine.opened.store(false, Ordering::Relaxed);
            let plan = &Plan { time: Duration::from_millis(1), ..plan.clone() };
            let measurement = Measurement { engine: &engine, plan, bytes: 16, workers, offer };
            [measurement.seen().err(), measurement.hidden().err()]
        };
        let expected = "no second session";
        for found in error(8).into_iter().chain(error(1).into_iter().skip(1)) {
            let found = found.expect("one session for several workers").to_string();
            assert!(found.contains(expected), "{found}");
        }
    }

    /// An engine that opens one session.
    struct OneSession {
        inner: Arc<dyn Engine>,
        opened: AtomicBool,
    }

    impl Engine for OneSession {
        fn description(&self) -> &Description {
            self.inner.description()
        }

        fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
            self.inner.offer(cipher, direction)
        }

        fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
            if self.opened.swap(true, Ordering::Relaxed) {
                return Err(EngineError::failed("no second session").of(&self.description().name));
            }
            self.inner.open(request)
        }
    }

    #[test]
    fn what_the_cores_lack_beyond_the_clocks_is_hidden() {
        let run = |jobs, cpu| Run {
            opening: Duration::ZERO,
            jobs,
            wall: Duration::from_millis(10),
            cpu: Duration::from_millis(cpu),
        };
        // Two threads, on cores for 2 and 3 of 10 ms: half a core. A quarter of a core is hidden,
        // 2.5 ms for 50 jobs.
        let runs = [run(20, 2), run(30, 3)];
        assert!((hidden(0.75, &runs) - 50.0).abs() < 1e-6);
        // Other programs had the cores meanwhile.
        assert_eq!(hidden(0.4, &runs), 0.0);
    }
}
