//! Crypto devices through `/dev/crypto`, the interface of OpenBSD's Cryptographic Framework
//! (Keromytis, Wright and de Raadt, "The Design of the OpenBSD Cryptographic Framework", 2003)
//! as cryptodev-linux has it.
//!
//! The kernel chooses the driver of the highest priority for each cipher, and may choose another
//! for the next session: a driver whose device went away makes room for software. Plain
//! `cryptodev` offers what hardware drivers serve; `cryptodev:DRIVER` offers what that driver
//! serves, be it hardware or not. Both refuse a session that another driver serves than the one
//! that was found. `cryptodev:any` takes whatever the kernel chooses. Where the device takes requests without waiting for their results
//! (cryptodev-linux does if it was built with `ENABLE_ASYNC`), a batch's jobs are there together.

mod abi;
mod bounce;
mod keyed;
mod patience;
mod probe;
mod session;
mod sys;
mod together;

use std::sync::Arc;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Kind, Offer, Session, SessionRequest,
};

use crate::{cores, probing};
use probe::{Choice, Drivers, Service};
use session::CryptodevSession;

/// Finds what the driver that the parameters name serves, or what hardware drivers serve.
pub(crate) fn probe(parameters: &str) -> Result<Vec<Arc<dyn Engine>>, EngineError> {
    let name = if parameters.is_empty() { NAME.into() } else { format!("{NAME}:{parameters}") };
    let (engine, parameters) = (name.clone(), parameters.to_owned());
    probing::one(&name, move |waiter| {
        let choice = match parameters.as_str() {
            "" => Choice::Hardware,
            ANY => Choice::Any,
            driver => Choice::Driver(driver),
        };
        match probe::services(choice, waiter) {
            Ok(services) => Ok(Arc::new(CryptodevEngine::new(engine, services))),
            Err(reason) => Err(EngineError::Unavailable { engine, reason }),
        }
    })
}

struct CryptodevEngine {
    description: Description,
    services: Vec<Service>,
}

impl CryptodevEngine {
    fn new(name: String, services: Vec<Service>) -> CryptodevEngine {
        // One that has both is watched as a device is.
        let is_module = services.iter().any(|service| service.is_hardware);
        let description = Description {
            name,
            kind: if is_module { Kind::Module } else { Kind::Cpu },
            detail: Drivers(&services).to_string(),
        };
        CryptodevEngine { description, services }
    }

    fn service(&self, cipher: Cipher) -> Option<&Service> {
        self.services.iter().find(|service| service.cipher == cipher)
    }
}

impl Engine for CryptodevEngine {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, _direction: Direction) -> Option<Offer> {
        let service = self.service(cipher)?;
        let depth = if service.is_hardware { HARDWARE_DEPTH } else { cores::available_cores() };
        let batch = if service.is_asynchronous { together::TOGETHER } else { 1 };
        Some(Offer { depth, batch, holders: None })
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let engine = &self.description.name;
        let &SessionRequest { cipher, direction, .. } = request;
        let service = self.service(cipher).ok_or_else(|| EngineError::NotOffered {
            engine: engine.clone(),
            cipher,
            direction,
        })?;
        Ok(Box::new(CryptodevSession::open(engine, service, request)?))
    }
}

/// The device does not say how many requests it takes. With two workers, one prepares a
/// request and collects a result while the device is busy with the other's.
const HARDWARE_DEPTH: usize = 2;

const NAME: &str = "cryptodev";

/// The parameter that stands for every driver. None of the kernel's is called that.
const ANY: &str = "any";
