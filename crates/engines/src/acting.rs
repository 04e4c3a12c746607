//! An engine that gives its batches to a function, for tests of callers (feature `faulty`).

use std::sync::Arc;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Job, Offer, Session, SessionRequest,
};

/// Works as another engine does, but a function gets each batch, with the other engine's session.
pub struct Acting {
    description: Description,
    inner: Arc<dyn Engine>,
    offer: Box<dyn Fn(Offer) -> Offer + Send + Sync>,
    act: Arc<Act>,
}

type Act = dyn Fn(&mut dyn Session, &mut [Job<'_>]) -> Result<(), EngineError> + Send + Sync;

impl Acting {
    /// An engine with the description and the offers of `inner`.
    pub fn new(
        inner: Arc<dyn Engine>,
        act: impl Fn(&mut dyn Session, &mut [Job<'_>]) -> Result<(), EngineError>
        + Send
        + Sync
        + 'static,
    ) -> Acting {
        let (description, act) = (inner.description().clone(), Arc::new(act));
        Acting { description, inner, offer: Box::new(|offer| offer), act }
    }

    /// The same with another description.
    #[must_use]
    pub fn described(self, description: Description) -> Acting {
        Acting { description, ..self }
    }

    /// The same with changed offers.
    #[must_use]
    pub fn offering(self, change: impl Fn(Offer) -> Offer + Send + Sync + 'static) -> Acting {
        Acting { offer: Box::new(change), ..self }
    }
}

impl Engine for Acting {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.inner.offer(cipher, direction).map(&self.offer)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let (inner, act) = (self.inner.open(request)?, Arc::clone(&self.act));
        Ok(Box::new(ActingSession { inner, act }))
    }
}

struct ActingSession {
    inner: Box<dyn Session>,
    act: Arc<Act>,
}

impl Session for ActingSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        (self.act)(&mut *self.inner, batch)
    }
}
