//! The engine on PoCL, which computes on the processor's cores.

mod lent;
mod long;
mod lost;
mod random;
pub(crate) mod sys;

use std::sync::Arc;

use evener_core::Engine;

use super::device::Device;
use super::kernels::takes_wide_tables;
use super::lent::Lending;
use super::{GpuEngine, NAME, find};

/// PoCL's device; `None`, with a message, if PoCL is absent.
fn device() -> Option<Arc<dyn Device>> {
    match super::probe::device("gpu:opencl:pocl") {
        Ok(device) => Some(device),
        Err(reason) => {
            evener_core::lacking!("{reason} (Debian: pocl-opencl-icd, ocl-icd-libopencl1)");
            None
        }
    }
}

/// The device with either layout of AES's tables: the wide one, if it has room for it, and the
/// narrow.
fn layouts() -> Vec<Arc<dyn Device>> {
    let Some(device) = device() else { return Vec::new() };
    let narrow = Arc::new(sys::Narrow::new(Arc::clone(&device)));
    assert!(!takes_wide_tables(narrow.properties()));
    if !takes_wide_tables(device.properties()) {
        evener_core::lacking!("a device with 128 KiB of local memory");
        return vec![narrow];
    }
    vec![device, narrow]
}

/// The engine on a device, without a guard.
fn engine(device: Arc<dyn Device>) -> Arc<dyn Engine> {
    Arc::new(GpuEngine::new(NAME.to_owned(), device, || ()))
}

/// The engine without a guard, which packs no message in its own memory.
fn straight_engine(device: Arc<dyn Device>) -> Arc<dyn Engine> {
    let engine = GpuEngine::new(NAME.to_owned(), device, || ());
    Arc::new(GpuEngine { lending: Lending::new(1, || ()), ..engine })
}

/// Pseudo-random numbers, the same in every run: SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.word() % limit as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            (0..length.div_ceil(8)).flat_map(|_| self.word().to_le_bytes()).collect();
        bytes.truncate(length);
        bytes
    }
}

#[test]
fn it_conforms() {
    for device in layouts() {
        evener_engines::conformance::run(&*engine(device)).assert_passed();
    }
}

#[test]
fn a_selector_finds_the_device() {
    if device().is_none() {
        return;
    }
    let engine = find("gpu:opencl:pocl", || ()).unwrap();
    assert_eq!(engine.description().name, "gpu:opencl:pocl");
    let Err(error) = find("gpu:opencl:no such device", || ()) else { panic!("found it") };
    assert!(error.to_string().contains("gpu:opencl:0"), "{error}");
}

#[test]
fn a_device_of_the_processor_is_not_taken_for_a_gpu() {
    let Some(device) = device() else { return };
    assert!(!device.properties().is_gpu);
    if let Ok(engine) = find(NAME, || ()) {
        assert!(
            !engine.description().detail.contains("PoCL"),
            "{engine:?}",
            engine = engine.description()
        );
    }
}
