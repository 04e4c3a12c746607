//! The engine on PoCL, which computes on the processor's cores.

use std::sync::Arc;

use evener_core::Engine;

/// The engine on PoCL, without a guard; `None`, and a word, where PoCL is not.
fn pocl() -> Option<Arc<dyn Engine>> {
    match crate::registry::find_raw("gpu:opencl:pocl") {
        Ok(engine) => Some(engine),
        Err(error) => {
            evener_skipped::lacking!("{error} (Debian: pocl-opencl-icd, ocl-icd-libopencl1)");
            None
        }
    }
}

#[test]
fn it_conforms() {
    let Some(engine) = pocl() else { return };
    crate::conformance::run(&*engine).assert_passed();
}
