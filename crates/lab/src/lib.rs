//! Evener's benchmarks: workloads, rivals and reports.
//!
//! A benchmark names every parameter, runs its rivals in the same run, and records the machine.
//! Benchmarks are no tests: none fails because of a time.

pub mod background;
mod chart;
mod error;
mod machine;
pub mod measure;
pub mod messages;
mod page;
mod pin;
pub mod policies;
mod process;
pub mod processes;
mod rival;
pub mod simulate;
pub mod speed;
mod statistics;
mod sys;
pub mod threads;
pub mod tree;
pub mod values;

use std::sync::Arc;

use evener_core::{Engine, EngineError};
use evener_engines::{Probed, Watch};

pub use error::LabError;
pub use machine::Machine;
pub use rival::Rival;

/// Finds an engine to measure: a module is tested with known answers, but no job is verified.
fn find(name: &str) -> Result<Arc<dyn Engine>, EngineError> {
    evener_engines::find_with(name, &|_| None, Watch::of_a_benchmark())
}

/// Probes for all engines to measure.
fn probe_all() -> Vec<Probed> {
    let alone = |Probed { name, engine }: Probed| {
        let engine = engine.and_then(|it| evener_engines::watched(&it, Watch::of_a_benchmark()));
        Probed { name, engine }
    };
    evener_engines::probe_all().into_iter().map(alone).collect()
}
