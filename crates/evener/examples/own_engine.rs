//! A custom engine that processes two jobs at a time; OpenSSL stands in for a device here. Evener
//! checks its results, as it does for all modules, and gives its work to other engines if it fails.
//!
//!     cargo run --example own_engine

use std::error::Error;
use std::sync::Arc;

use evener::engines::{
    Description, Engine, EngineError, Job, Offer, Session, SessionRequest, find,
};
use evener::{Aead, Cipher, Direction, NonceSequence, Sealing};

struct TwoAtATime {
    description: Description,
    device: Arc<dyn Engine>,
}

impl Engine for TwoAtATime {
    fn description(&self) -> &Description {
        &self.description
    }

    /// Only AES-256-GCM; two workers keep the device busy, with two jobs at once.
    fn offer(&self, cipher: Cipher, _: Direction) -> Option<Offer> {
        (cipher == Cipher::Aes256Gcm).then_some(Offer::new(2).batch(2))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(Two(self.device.open(request)?)))
    }
}

struct Two(Box<dyn Session>);

impl Session for Two {
    /// A job that a device can't process is rejected in its outcome. An error leaves the jobs that
    /// are still pending to other engines.
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        batch.chunks_mut(2).try_for_each(|jobs| self.0.process(jobs))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let description = Description::module("two-at-a-time").detail("an example");
    let own = Arc::new(TwoAtATime { description, device: find("openssl")? });
    let cipher = Cipher::Aes256Gcm;
    // `EvenerBuilder::engine` takes it too.
    let aead = Aead::on(cipher, &Aead::generate_key(cipher)?, vec![own, find("cpu")?])?;
    let mut sealed = vec![[0; 1_016]; 500];
    let mut batch: Vec<_> = sealed.iter_mut().map(|to| Sealing::new(&[7; 1_000], to)).collect();
    aead.sealer(NonceSequence::random()).seal_batch(&mut batch)?;
    for engine in aead.engines() {
        let account = engine.account().unwrap_or_default();
        println!("{}: {} jobs checked", engine.description().name, account.verified);
    }
    Ok(())
}
