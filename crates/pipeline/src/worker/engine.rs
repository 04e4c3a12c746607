//! A worker's engine with its open sessions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evener_core::{Cipher, Direction, Engine, EngineError, Job, Parcel, Session, SessionRequest};

use crate::WorkerStatistics;
use crate::clock::thread_cpu_time;
use crate::hidden::{Hidden, Meter};
use crate::policy::{Performed, Processed};
use crate::pressure::{Pressure, Way};
use crate::queue::Claimed;
use crate::tally::{EngineTally, Tally};
use crate::throttle::Throttle;

/// A worker's engine with its open sessions and its statistics.
pub struct Worker<'e> {
    engine: &'e dyn Engine,
    /// True if the engine is guarded.
    is_watched: bool,
    sessions: Vec<OpenSession>,
    /// Number of sessions before this claim.
    sessions_before: usize,
    /// The numbers of jobs and bytes done before this claim.
    done_before: (u64, u64),
    /// The engine's work for this claim, if it is measured.
    processed: Option<Processed>,
    /// Limits the run's CPU time.
    throttle: Option<&'e Throttle>,
    meter: Option<&'e Meter>,
    /// Pauses the worker while other programs wait for its core.
    way: Option<Way<'e>>,
    /// The CPU time of its module that no worker's clock shows, if it is known.
    hidden: Option<Hidden<'e>>,
    statistics: WorkerStatistics,
    /// Its engine's counts for other threads.
    tally: Option<Arc<EngineTally>>,
}

struct OpenSession {
    cipher: Cipher,
    direction: Direction,
    session: Box<dyn Session>,
}

impl<'e> Worker<'e> {
    /// A worker without sessions. Make it on its own thread, because sessions stay on the thread
    /// that opens them.
    pub fn new(engine: &'e dyn Engine, number: usize) -> Worker<'e> {
        let statistics = WorkerStatistics {
            engine: engine.description().name.clone(),
            worker: number,
            ..WorkerStatistics::default()
        };
        Worker {
            engine,
            is_watched: engine.account().is_some(),
            sessions: Vec::new(),
            sessions_before: 0,
            done_before: (0, 0),
            processed: None,
            throttle: None,
            meter: None,
            way: None,
            hidden: None,
            statistics,
            tally: None,
        }
    }

    /// Counts its work in `tally` too.
    pub(super) fn counted_by(self, tally: &Tally) -> Worker<'e> {
        let tally = tally.engine(&self.engine.description().name);
        Worker { tally: Some(tally), ..self }
    }

    /// Lets the worker wait before each batch while the run has used too much CPU time.
    pub(super) fn throttled(
        self,
        throttle: Option<&'e Throttle>,
        meter: Option<&'e Meter>,
    ) -> Worker<'e> {
        Worker { throttle, meter, ..self }
    }

    /// Lets the worker, on its own thread, pause before a batch while other programs wait for a core
    /// that it or its engine uses.
    pub(super) fn giving_way(self, pressure: Option<&'e Pressure>) -> Worker<'e> {
        let kind = self.engine.description().kind;
        Worker { way: pressure.map(|pressure| Way::new(pressure, kind)), ..self }
    }

    /// Counts the CPU time that is hidden from now on as its module's.
    pub(super) fn watch_hidden(&mut self) {
        self.hidden = self.meter.map(Hidden::begin);
    }

    /// The worker's engine.
    pub fn engine(&self) -> &'e dyn Engine {
        self.engine
    }

    /// Returns whether the engine is guarded, so that jobs can ask to be verified.
    pub fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Opens a session that jobs will need.
    pub(super) fn open(&mut self, cipher: Cipher, direction: Direction) -> Result<(), EngineError> {
        self.session(cipher, direction).map(|_| ())
    }

    /// Processes jobs that bring their own keys, opening a session on first use.
    ///
    /// # Errors
    /// As [`Session::process`]: jobs still pending can be done by another engine.
    pub fn process(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        jobs: &mut [Job<'_>],
    ) -> Result<(), EngineError> {
        let (count, bytes) = (jobs.len(), jobs.iter().map(|job| job.input.len()).sum());
        self.perform(cipher, direction, count, bytes, |session| session.process(jobs))
    }

    /// As [`Worker::process`], for jobs with their buffers.
    ///
    /// # Errors
    /// As `process_parcel` of `dyn Session`.
    pub fn process_parcel(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        parcel: &mut Parcel,
    ) -> Result<(), EngineError> {
        let jobs = parcel.jobs();
        let (count, bytes) = (jobs.len(), jobs.iter().map(|job| job.input.len()).sum());
        self.perform(cipher, direction, count, bytes, |session| session.process_parcel(parcel))
    }

    /// Lets a session process this many jobs and bytes, and counts them.
    fn perform(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        jobs: usize,
        bytes: usize,
        act: impl FnOnce(&mut dyn Session) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let session = self.session(cipher, direction)?;
        if let Some(throttle) = self.throttle {
            throttle.wait(self.meter);
        }
        if let Some(way) = &mut self.way {
            way.give();
        }
        let is_measured = self.processed.is_some();
        let begun = is_measured.then(|| (Instant::now(), self.cpu_time()));
        let processed = act(&mut *self.sessions[session].session);
        if let Some(way) = &mut self.way {
            way.done();
        }
        processed.map_err(|error| self.named(error))?;
        let (jobs, bytes) = (jobs as u64, bytes as u64);
        self.statistics.jobs += jobs;
        self.statistics.bytes += bytes;
        self.tally.iter().for_each(|tally| tally.did(jobs, bytes));
        if let Some((wall, cpu)) = begun {
            let cpu = self.cpu_time().saturating_sub(cpu);
            let sum = self.processed.get_or_insert_default();
            sum.batches += 1;
            sum.jobs += jobs;
            sum.bytes += bytes;
            sum.wall += wall.elapsed();
            sum.cpu += cpu;
        }
        Ok(())
    }

    /// Its number in the run.
    pub fn number(&self) -> usize {
        self.statistics.worker
    }

    /// Counts units (files, records) that this worker has finished.
    pub fn count_units(&mut self, units: u64) {
        self.statistics.units += units;
    }

    /// Begins a claim; if it is timed, returns the CPU time so far.
    pub(super) fn begin(&mut self, claim: Claimed) -> Option<Duration> {
        self.sessions_before = self.sessions.len();
        self.done_before = (self.statistics.jobs, self.statistics.bytes);
        self.processed = claim.measured.then(Processed::default);
        (claim.measured || claim.timed).then(|| self.cpu_time())
    }

    /// The work since [`Worker::begin`] returned `cpu_before`, `wall` ago.
    pub(super) fn performed(&mut self, wall: Duration, cpu_before: Option<Duration>) -> Performed {
        let cpu = cpu_before.map(|before| self.cpu_time().saturating_sub(before));
        Performed {
            wall,
            cpu: cpu.unwrap_or_default(),
            done: (
                self.statistics.jobs - self.done_before.0,
                self.statistics.bytes - self.done_before.1,
            ),
            engine: self.processed.take(),
            opened: self.sessions.len() > self.sessions_before,
        }
    }

    /// CPU time of this thread, of the sessions' own threads, and of its driver's threads if known.
    pub(super) fn cpu_time(&mut self) -> Duration {
        let sessions = self.sessions.iter_mut().map(|open| open.session.cpu_elsewhere());
        // Hidden time includes the sessions' threads.
        let hidden = self.hidden.as_mut().map(Hidden::so_far).unwrap_or_default();
        thread_cpu_time() + hidden.max(sessions.sum())
    }

    pub(super) fn statistics_mut(&mut self) -> &mut WorkerStatistics {
        &mut self.statistics
    }

    pub(super) fn into_statistics(self) -> WorkerStatistics {
        self.statistics
    }

    fn named(&self, error: EngineError) -> EngineError {
        error.of(&self.engine.description().name)
    }

    fn session(&mut self, cipher: Cipher, direction: Direction) -> Result<usize, EngineError> {
        let known = self
            .sessions
            .iter()
            .position(|open| open.cipher == cipher && open.direction == direction);
        if let Some(index) = known {
            return Ok(index);
        }
        let request = SessionRequest { cipher, direction, key: None };
        let session = self.engine.open(&request).map_err(|error| self.named(error))?;
        self.sessions.push(OpenSession { cipher, direction, session });
        Ok(self.sessions.len() - 1)
    }
}
