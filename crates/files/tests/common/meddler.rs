//! An engine that changes the tree during the work.

use std::sync::Arc;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Job, Offer, Session, SessionRequest,
};
use evener_files::Options;

use super::options;

/// The openssl engine, with a side effect on the tree at every use.
struct Meddler {
    engine: Arc<dyn Engine>,
    deed: Arc<dyn Fn() + Send + Sync>,
}

struct MeddlerSession {
    session: Box<dyn Session>,
    deed: Arc<dyn Fn() + Send + Sync>,
}

impl Engine for Meddler {
    fn description(&self) -> &Description {
        self.engine.description()
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.engine.offer(cipher, direction)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let session = self.engine.open(request)?;
        Ok(Box::new(MeddlerSession { session, deed: self.deed.clone() }))
    }
}

impl Session for MeddlerSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        (self.deed)();
        self.session.process(batch)
    }
}

/// Options with one worker that changes the tree.
pub fn meddling(deed: impl Fn() + Send + Sync + 'static) -> Options {
    let engine = evener_engines::find("openssl").unwrap();
    Options { seats: vec![Arc::new(Meddler { engine, deed: Arc::new(deed) })], ..options() }
}
