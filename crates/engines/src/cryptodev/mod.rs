//! Crypto devices through `/dev/crypto`, the interface of OpenBSD's Cryptographic Framework
//! (Keromytis, Wright and de Raadt, "The Design of the OpenBSD Cryptographic Framework", 2003)
//! as cryptodev-linux implements it.
//!
//! The kernel chooses the driver of the highest priority for each cipher, and may choose another
//! one for the next session: if a device disappears, a software driver replaces it. Plain
//! `cryptodev` offers the ciphers of hardware drivers, and `cryptodev:DRIVER` those of one driver,
//! hardware or software. Both reject a session if the kernel has assigned it to a driver other than
//! the probed one. `cryptodev:any` accepts any driver. If the device has asynchronous requests
//! (cryptodev-linux built with `ENABLE_ASYNC`), several jobs of a batch run at once.

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

use crate::probing::Probe;
use crate::{cores, probing};
use probe::{Choice, Drivers, Service};
use session::CryptodevSession;

/// Finds the ciphers of the driver that the parameters name, or those of hardware drivers.
pub(crate) fn probe(parameters: &str) -> Probe {
    let name = if parameters.is_empty() { NAME.into() } else { format!("{NAME}:{parameters}") };
    let parameters = parameters.to_owned();
    probing::one(move |waiter| {
        let choice = match parameters.as_str() {
            "" => Choice::Hardware,
            ANY => Choice::Any,
            driver => Choice::Driver(driver),
        };
        match probe::services(choice, waiter) {
            Ok(services) => Ok(Arc::new(CryptodevEngine::new(name, services))),
            Err(reason) => Err(EngineError::unavailable(reason)),
        }
    })
}

struct CryptodevEngine {
    description: Description,
    services: Vec<Service>,
}

impl CryptodevEngine {
    fn new(name: String, services: Vec<Service>) -> CryptodevEngine {
        // An engine with both kinds counts as a module.
        let is_module = services.iter().any(|service| service.is_hardware);
        let description = Description::new(name, if is_module { Kind::Module } else { Kind::Cpu })
            .detail(Drivers(&services).to_string());
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
        let batch = if service.is_asynchronous { bounce::TOGETHER } else { 1 };
        Some(Offer::new(depth).batch(batch))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let &SessionRequest { cipher, direction, .. } = request;
        let not_offered = || EngineError::not_offered(cipher, direction);
        let service = self.service(cipher).ok_or_else(not_offered)?;
        Ok(Box::new(CryptodevSession::open(service, request)?))
    }
}

/// The device does not report how many requests it takes. With two workers, one prepares a request
/// and collects a result while the device works for the other.
const HARDWARE_DEPTH: usize = 2;

const NAME: &str = "cryptodev";

/// The parameter for any driver. No driver of the kernel has this name.
const ANY: &str = "any";
