//! One thread, one engine.

use std::time::Duration;

use evener_core::{Cipher, Direction, Engine, EngineError, Job, Session, SessionRequest};

use crate::WorkerStatistics;

/// A worker's engine with the sessions that it has opened, and its count of what it did.
pub struct Worker<'e> {
    engine: &'e dyn Engine,
    sessions: Vec<OpenSession>,
    statistics: WorkerStatistics,
}

struct OpenSession {
    cipher: Cipher,
    direction: Direction,
    session: Box<dyn Session>,
}

impl<'e> Worker<'e> {
    /// A worker that has opened nothing yet. Sessions stay on the thread that opens them, so
    /// make it there.
    pub fn new(engine: &'e dyn Engine, number: usize) -> Worker<'e> {
        let statistics = WorkerStatistics {
            engine: engine.description().name.clone(),
            worker: number,
            ..WorkerStatistics::default()
        };
        Worker { engine, sessions: Vec::new(), statistics }
    }

    /// The worker's engine.
    pub fn engine(&self) -> &'e dyn Engine {
        self.engine
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
        let session = self.session(cipher, direction)?;
        session.process(jobs)?;
        self.statistics.jobs += jobs.len() as u64;
        self.statistics.bytes += jobs.iter().map(|job| job.input.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Counts units (files, records) that this worker has finished.
    pub fn count_units(&mut self, units: u64) {
        self.statistics.units += units;
    }

    /// CPU time that the worker's sessions have used on threads of their own.
    pub(crate) fn cpu_elsewhere(&self) -> Duration {
        self.sessions.iter().map(|open| open.session.cpu_elsewhere()).sum()
    }

    pub(crate) fn statistics_mut(&mut self) -> &mut WorkerStatistics {
        &mut self.statistics
    }

    pub(crate) fn into_statistics(self) -> WorkerStatistics {
        self.statistics
    }

    fn session(
        &mut self,
        cipher: Cipher,
        direction: Direction,
    ) -> Result<&mut dyn Session, EngineError> {
        let known = self
            .sessions
            .iter()
            .position(|open| open.cipher == cipher && open.direction == direction);
        let index = match known {
            Some(index) => index,
            None => {
                let request = SessionRequest { cipher, direction, key: None };
                let session = self.engine.open(&request)?;
                self.sessions.push(OpenSession { cipher, direction, session });
                self.sessions.len() - 1
            }
        };
        Ok(self.sessions[index].session.as_mut())
    }
}
