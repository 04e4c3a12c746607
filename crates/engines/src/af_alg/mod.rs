//! The Linux kernel's crypto drivers, through AF_ALG sockets.
//!
//! `af_alg:DRIVER` is one driver by its name in `/proc/crypto`; plain `af_alg` is, for each cipher,
//! the hardware driver of the highest priority, never a software driver: the engine `cpu`
//! computes the same without two system calls per job.
//!
//! The interface is described in the kernel's `Documentation/crypto/userspace-if.rst`. It is
//! deprecated, and kernels from 7.2 on do not offer hardware drivers through it.
//!
//! Three ways were compared in C, for whole messages of AES-128-CBC on the testbed's device. The
//! least of twelve rounds, wall and CPU time of a job in microseconds:
//!
//! | bytes | `sendmsg` | `vmsplice`, `splice` | AIO, two under way |
//! |---|---|---|---|
//! | 4,096 | 97, 37 | 98, 37 | 103, 42 |
//! | 16,384 | 152, 74 | 140, 60 | 160, 79 |
//! | 65,536 | 381, 216 | 312, 145 | 406, 232 |
//! | 262,144 | 1,583, 891 | 1,249, 575 | 1,583, 914 |
//! | 1,048,576 | 6,062, 3,442 | 5,052, 2,427 | 7,533, 4,472 |
//!
//! So long inputs go through a pipe without a copy, and no request is asynchronous.

mod probe;
mod session;
mod sys;

use std::sync::Arc;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Kind, Offer, Session, SessionRequest,
};

use crate::probing::Probe;
use crate::{cores, probing};
use probe::Driver;
use session::AfAlgSession;

/// Finds the driver that the parameters name, or the best hardware drivers.
pub(crate) fn probe(parameters: &str) -> Probe {
    let name = if parameters.is_empty() { NAME.into() } else { format!("{NAME}:{parameters}") };
    let parameters = parameters.to_owned();
    probing::one(move |_| {
        let found = match parameters.as_str() {
            "" => probe::best_hardware_drivers(),
            driver => probe::drivers_named(driver),
        };
        match found {
            Ok(drivers) => Ok(Arc::new(AfAlgEngine::new(name, drivers))),
            Err(reason) => Err(EngineError::unavailable(reason)),
        }
    })
}

struct AfAlgEngine {
    description: Description,
    /// The best first.
    drivers: Vec<Driver>,
}

impl AfAlgEngine {
    fn new(name: String, drivers: Vec<Driver>) -> AfAlgEngine {
        let details: Vec<_> = drivers.iter().map(Driver::to_string).collect();
        let is_module = drivers.iter().all(Driver::is_hardware);
        let description = Description::new(name, if is_module { Kind::Module } else { Kind::Cpu })
            .detail(details.join(", "));
        AfAlgEngine { description, drivers }
    }

    fn driver(&self, cipher: Cipher) -> Option<&Driver> {
        self.drivers.iter().find(|driver| driver.performs(cipher))
    }
}

impl Engine for AfAlgEngine {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, _direction: Direction) -> Option<Offer> {
        let driver = self.driver(cipher)?;
        let depth = if driver.is_hardware() { HARDWARE_DEPTH } else { cores::available_cores() };
        Some(Offer::new(depth))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let &SessionRequest { cipher, direction, .. } = request;
        let not_offered = || EngineError::not_offered(cipher, direction);
        let driver = self.driver(cipher).ok_or_else(not_offered)?;
        Ok(Box::new(AfAlgSession::open(driver, request)?))
    }
}

/// The kernel does not report how many requests a driver's device takes. With two workers, one
/// prepares a request and collects a result while the device works for the other.
const HARDWARE_DEPTH: usize = 2;

const NAME: &str = "af_alg";
