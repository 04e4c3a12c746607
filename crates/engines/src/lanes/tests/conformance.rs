//! The suite that every engine must pass, for every kernel.

use crate::lanes::probe;

#[test]
fn every_kernel_conforms() {
    for kernel in evener_lanes::available() {
        let engines = probe(kernel.name()).expect("the kernel can run here");
        for engine in engines {
            crate::conformance::run(&*engine).assert_passed();
        }
    }
}
