//! Processing of jobs: by a worker of a run, or by an engine outside of one.

use std::sync::Arc;

use evener_core::{Cipher, Direction, Engine, EngineError, Job, Parcel, Session, SessionRequest};
use evener_pipeline::Worker;

/// Processes jobs that bring their own keys.
pub trait Processor {
    /// As [`Session::process`].
    fn process(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        jobs: &mut [Job<'_>],
    ) -> Result<(), EngineError>;

    /// As `process_parcel` of `dyn Session`.
    fn process_parcel(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        parcel: &mut Parcel,
    ) -> Result<(), EngineError>;
}

impl Processor for Worker<'_> {
    fn process(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        jobs: &mut [Job<'_>],
    ) -> Result<(), EngineError> {
        Worker::process(self, cipher, direction, jobs)
    }

    fn process_parcel(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        parcel: &mut Parcel,
    ) -> Result<(), EngineError> {
        Worker::process_parcel(self, cipher, direction, parcel)
    }
}

/// An engine with its last session, outside of a run.
pub struct Alone {
    engine: Arc<dyn Engine>,
    session: Option<(Cipher, Direction, Box<dyn Session>)>,
}

impl Alone {
    /// Opens no session yet.
    pub fn new(engine: Arc<dyn Engine>) -> Alone {
        Alone { engine, session: None }
    }

    fn session(
        &mut self,
        cipher: Cipher,
        direction: Direction,
    ) -> Result<&mut dyn Session, EngineError> {
        let open = self.session.take().filter(|open| (open.0, open.1) == (cipher, direction));
        let open = match open {
            Some(open) => open,
            None => {
                let request = SessionRequest { cipher, direction, key: None };
                (cipher, direction, self.engine.open(&request)?)
            }
        };
        Ok(&mut *self.session.insert(open).2)
    }
}

impl Processor for Alone {
    fn process(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        jobs: &mut [Job<'_>],
    ) -> Result<(), EngineError> {
        self.session(cipher, direction)?.process(jobs)
    }

    fn process_parcel(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        parcel: &mut Parcel,
    ) -> Result<(), EngineError> {
        self.session(cipher, direction)?.process_parcel(parcel)
    }
}
