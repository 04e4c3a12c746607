//! The modelled modules, and their turns.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evener_core::{Cipher, Direction, Engine};
use evener_pipeline::PolicyName;

use super::troubled::{Troubled, Troubles};
use super::work::Work;
use super::{ModuleOptions, options::Hang};
use crate::LabError;

/// A modelled module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Module {
    opening: u64,
    computes: bool,
    slower: u64,
    hang: Hang,
}

impl Module {
    /// The modules that the options name. A module that hangs at its last batch follows the same
    /// module without a hang.
    pub(super) fn all(options: &ModuleOptions) -> Vec<Module> {
        let ModuleOptions { openings, hangs, slower, every, .. } = options;
        let mut all = Vec::new();
        for (o, &opening) in openings.iter().enumerate() {
            for computes in [false, true].into_iter().filter(|computes| !computes || opening > 0) {
                for (s, &slower) in slower.iter().enumerate() {
                    for (h, &hang) in hangs.iter().enumerate() {
                        let unusual = [o > 0 || computes, s > 0, h > 0];
                        if *every || unusual.iter().filter(|is| **is).count() <= 1 {
                            all.push(Module { opening, computes, slower, hang });
                        }
                    }
                }
            }
        }
        all
    }
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Module { opening, computes, slower, hang } = self;
        let way = if computes { " computing" } else { "" };
        let hang = match hang {
            Hang::None => "",
            Hang::First => ", hangs at first",
            Hang::Tenth => ", hangs at tenth",
            Hang::Last => ", hangs at last",
        };
        f.pad(&format!("opens {opening} ms{way}, {slower} × slower{hang}"))
    }
}

/// Takes the modelled modules' turns at one piece of work.
#[derive(Default)]
pub(super) struct Turns {
    /// The number of batches in a module's latest run without a hang.
    batches: HashMap<(u64, bool, u64, PolicyName), u64>,
}

impl Turns {
    /// Runs the work on cores and module together. `core` is a core's time for 1 MiB.
    ///
    /// # Errors
    /// Those of [`Work::run`].
    pub(super) fn take(
        &mut self,
        work: &mut Work,
        cpu: &Arc<dyn Engine>,
        module: Module,
        policy: PolicyName,
        core: Duration,
    ) -> Result<Duration, LabError> {
        let Module { opening, computes, slower, hang } = module;
        let key = (opening, computes, slower, policy);
        let hangs_at = match hang {
            Hang::None => None,
            Hang::First => Some(1),
            Hang::Tenth => Some(10),
            Hang::Last => Some(self.batches.get(&key).copied().unwrap_or(1).max(1)),
        };
        let per_mib = core.saturating_mul(u32::try_from(slower).unwrap_or(u32::MAX));
        let opening = Duration::from_millis(opening);
        let troubles = Troubles { opening, computes, hangs_at, per_mib };
        // A new name each time, so that every run knows as little of the module as the first run of
        // a process.
        let name = format!("module-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let troubled = Arc::new(Troubled::new(name, inner(work.cipher())?, troubles));
        let both = [Arc::clone(cpu), Arc::clone(&troubled) as Arc<dyn Engine>];
        let time = work.run(&both, policy);
        troubled.end();
        if hang == Hang::None {
            self.batches.insert(key, troubled.batches());
        }
        time
    }
}

/// The engine that does the module's work: the one that uses the least time of a core.
fn inner(cipher: Cipher) -> Result<Arc<dyn Engine>, LabError> {
    let unavailable = |error: evener_core::EngineError| LabError::Unavailable(error.to_string());
    let lanes = crate::find("lanes").map_err(unavailable)?;
    match lanes.offer(cipher, Direction::Encrypt) {
        Some(_) => Ok(lanes),
        None => crate::find("openssl").map_err(unavailable),
    }
}

static NUMBER: AtomicU64 = AtomicU64::new(1);

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ModuleOptions,
    }

    #[test]
    fn one_trouble_at_a_time_or_every_combination() {
        let all =
            |line: &[&str]| Module::all(&Line::parse_from([&["module"], line].concat()).options);
        let names: Vec<_> = all(&[]).iter().map(Module::to_string).collect();
        assert_eq!(names.len(), 1 + 3 * 2 + 2 + 3);
        assert_eq!(
            names[..2],
            ["opens 0 ms, 10 × slower", "opens 0 ms, 10 × slower, hangs at first"]
        );
        assert!(names.contains(&"opens 300 ms computing, 10 × slower".to_owned()), "{names:?}");
        assert_eq!(all(&["--every"]).len(), 7 * 3 * 4);
        assert_eq!(all(&["--opening", "1000", "--hang", "none", "--slower", "10"]).len(), 2);
    }
}
