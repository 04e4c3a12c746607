//! The engine `gpu`, which is in a crate of its own.

use crate::foreign;
use crate::probing::{self, Probe};

pub(crate) use evener_gpu::NAME;

/// Finds the device that the parameters name, or the first real GPU.
pub(crate) fn probe(parameters: &str) -> Probe {
    let name = match parameters {
        "" => NAME.to_owned(),
        _ => format!("{NAME}:{parameters}"),
    };
    probing::one(move |_| evener_gpu::find(&name, foreign::begin))
}

#[cfg(all(test, feature = "openssl"))]
mod tests {
    #[test]
    fn a_selector_finds_the_device_behind_a_guard() {
        let engine = match crate::find("gpu:opencl:pocl") {
            Ok(engine) => engine,
            Err(error) => return evener_core::lacking!("{error} (Debian: pocl-opencl-icd)"),
        };
        assert_eq!(engine.description().name, "gpu:opencl:pocl");
        assert!(engine.account().is_some(), "nothing guards it");
    }
}
