//! Evener's benchmarks: workloads, rivals and reports.
//!
//! A benchmark names every parameter, runs its rivals in the same run, and records the machine.
//! Benchmarks are not tests: none fails because of a time.

pub mod background;
mod chart;
pub mod costs;
mod done;
mod error;
pub mod gpu;
mod machine;
pub mod messages;
pub mod model;
pub mod module;
mod page;
mod peak;
mod pin;
pub mod policies;
mod process;
pub mod processes;
mod rival;
pub mod simulate;
pub mod speed;
mod statistics;
pub mod threads;
pub mod tls;
pub mod tree;
mod values;
mod watch;

use std::sync::Arc;

use evener_cli::messages::complain;
use evener_core::{Engine, EngineError, Kind};
use evener_engines::measure::probe_all;
use evener_engines::{Watch, measure, watched};

pub use done::Amount;
pub use error::LabError;
pub use machine::Machine;
pub use rival::Rival;

/// Finds an engine to measure: a model, or an engine of the registry.
///
/// # Errors
/// When it is not available.
fn find(name: &str) -> Result<Arc<dyn Engine>, EngineError> {
    match name.split_once(':').unwrap_or((name, "")) {
        (model::NAME, parameters) => {
            let inner = evener_engines::find("openssl")?;
            let model = model::find(parameters, inner, |text| complain(text))?;
            match model.description().kind {
                // As in runs, a session on the cores is not tested: on the modelled processor, a
                // test would take a millisecond.
                Kind::Cpu => Ok(model),
                _ => watched(&model, Watch::of_a_benchmark()),
            }
        }
        _ => measure::find(name),
    }
}
