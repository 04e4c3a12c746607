//! Chooses a kernel.

use std::sync::Arc;

use evener_core::EngineError;

use super::{LanesEngine, NAME, self_test};
use crate::features;
use crate::probing::Found;
use evener_lanes::Kernel;

/// Finds the engine with the fastest kernel that this CPU can run and whose self-test passes.
/// The parameter, if any, names the kernel instead, as in `lanes:vaes-avx2`.
pub(crate) fn probe(parameters: &str) -> Found {
    let available = evener_lanes::available();
    let unavailable = |reason| Err(EngineError::unavailable(reason).of(NAME));
    if available.is_empty() {
        let has = features::of_this_processor().map(|features| format!(" (it has {features})"));
        return unavailable(format!(
            "this CPU has no {} that it could use{}",
            if cfg!(target_arch = "arm") { "NEON" } else { "AES instructions" },
            has.unwrap_or_default()
        ));
    }
    if !parameters.is_empty() {
        let Some(&kernel) = available.iter().find(|kernel| kernel.name() == parameters) else {
            let names: Vec<_> = available.iter().map(|kernel| kernel.name()).collect();
            let names = names.join(", ");
            return unavailable(format!("this CPU can run {names}, but not `{parameters}`"));
        };
        let name = format!("{NAME}:{}", kernel.name());
        let detail = format!("{}, as asked for", kernel.title());
        let engine = LanesEngine::new(name, detail, kernel);
        return match self_test::run(&engine) {
            Ok(()) => Ok(vec![Arc::new(engine)]),
            Err(failure) => unavailable(failure),
        };
    }
    let mut failures = Vec::new();
    for kernel in available {
        let engine = LanesEngine::new(NAME.to_owned(), detail(kernel, &failures), kernel);
        match self_test::run(&engine) {
            Ok(()) => return Ok(vec![Arc::new(engine)]),
            Err(failure) => failures.push(failure),
        }
    }
    unavailable(failures.join("; "))
}

/// Describes the kernel, with the reason why it was chosen.
fn detail(kernel: Kernel, failures: &[String]) -> String {
    let (title, lanes) = (kernel.title(), kernel.lanes());
    let reason = match failures {
        [] => "the fastest this CPU can run".to_owned(),
        _ => failures.join("; "),
    };
    format!("{title}, {lanes} messages at once ({reason})")
}
