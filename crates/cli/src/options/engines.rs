//! Which engines work, and how many workers.

use std::num::NonZeroUsize;

use clap::Args;
use evener::gate::{Discipline, GateOptions};
use evener::{Evener, KeyRing, Options};
use zeroize::Zeroizing;

use super::values;
use crate::trouble::Trouble;

#[derive(Args, Debug)]
pub(crate) struct EngineOptions {
    /// An engine to use, instead of openssl; may be given several times, and all of them work
    /// at once (`evener engines` lists them)
    #[arg(long = "engine", value_name = "NAME", help_heading = "Engines")]
    engines: Vec<String>,
    /// How many workers there are in total [default: as many as each engine likes, one a core
    /// for the processor]
    #[arg(short, long, value_name = "N", value_parser = jobs, help_heading = "Engines")]
    jobs: Option<NonZeroUsize>,
    /// How processes take turns at an engine that serves only so many at once: `fifo`, in order
    /// of arrival; `lists`, in 64 lists by process id; `none`, not at all. The two ends of one
    /// pipe must both be let in, or use `none`
    #[arg(long, value_name = "DISCIPLINE", default_value_t, help_heading = "Engines")]
    gate: Discipline,
    /// How many processes each engine serves at once, also where it sets no limit itself; the
    /// same for all processes (`evener gate` shows them) [default: what the engine reports]
    #[arg(long, value_name = "N", value_parser = permits, help_heading = "Engines")]
    permits: Option<NonZeroUsize>,
    /// How much memory the workers' buffers may take together; the whole program stays below
    /// 256 MiB with the default [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = values::size, help_heading = "Engines")]
    memory: Option<usize>,
    /// Compute one in N jobs of every engine but openssl again on openssl, and take an engine
    /// whose result differs out of service; 0 for none [default: 1000 for modules, none for
    /// the processor]
    #[arg(long, value_name = "N", help_heading = "Engines")]
    verify_engine: Option<u64>,
}

impl EngineOptions {
    /// Finds the engines.
    pub(crate) fn evener(&self, keys: KeyRing) -> Result<Evener, Trouble> {
        let mut evener = Evener::new(keys)?.gate(self.gate);
        if !self.engines.is_empty() {
            evener = evener.engines_with(&self.engines, &ask_for_pin)?;
        }
        if let Some(every) = self.verify_engine {
            evener = evener.verify_engine(every);
        }
        if let Some(jobs) = self.jobs {
            evener = evener.jobs(jobs);
        }
        if let Some(permits) = self.permits {
            evener = evener.permits(permits);
        }
        let memory = self.memory.unwrap_or(Options::DEFAULT_MEMORY);
        Ok(evener.options(|options| options.memory = memory))
    }
}

/// Asks for a token's PIN on the terminal, if there is one.
fn ask_for_pin(token: &str) -> Option<Zeroizing<Vec<u8>>> {
    let typed = rpassword::prompt_password(format!("PIN of {token}: ")).ok()?;
    Some(Zeroizing::new(typed.into_bytes()))
}

/// Each worker is a thread.
fn jobs(text: &str) -> Result<NonZeroUsize, String> {
    up_to(MOST_JOBS, text)
}

fn permits(text: &str) -> Result<NonZeroUsize, String> {
    up_to(GateOptions::MAX_PERMITS, text)
}

fn up_to(most: usize, text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .ok()
        .filter(|number: &NonZeroUsize| number.get() <= most)
        .ok_or_else(|| format!("not a number from 1 to {most}"))
}

const MOST_JOBS: usize = 1024;
