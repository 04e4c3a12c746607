//! Engines that are used only when named pass the conformance suite too.
//!
//! `EVENER_TEST_ENGINES` names them as `--engine` does, separated by spaces. Set it on machines
//! that are known to have them, such as the testbed: an absent engine fails the test.

use std::env;

#[test]
fn every_named_engine_conforms() {
    let names = env::var("EVENER_TEST_ENGINES").unwrap_or_default();
    if names.trim().is_empty() {
        evener_core::skipped!("EVENER_TEST_ENGINES names no engine");
    }
    for name in names.split_whitespace() {
        let engine = evener_engines::find(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(engine.description().name, name);
        evener_engines::conformance::run(&*engine).assert_passed();
    }
}
