//! Which engines work, and how many workers.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evener::gate::{Discipline, GateOptions, Scope, Wait};
use evener::{Courtesy, Evener, KeyRing, Options, PolicyName};
use zeroize::Zeroizing;

use super::{Telling, values};
use crate::progress::clear_bar;
use crate::signals::Signals;
use crate::trouble::{Trouble, complain};

#[derive(Args, Debug)]
pub(crate) struct EngineOptions {
    /// An engine to use, instead of `cpu`, the processor's cores; may be given several times, and
    /// all of them work at once (`evener engines` lists them)
    #[arg(long = "engine", value_name = "NAME", help_heading = "Engines")]
    engines: Vec<String>,
    /// How workers come by their work: with `pull` each takes the next task when it is free;
    /// `adaptive` fills engines in the order of what a job costs in CPU time; `round-robin`,
    /// `cpu-only` and `module-only` are there to compare them with [default: adaptive beside
    /// modules, pull otherwise]
    #[arg(long, value_name = "POLICY", help_heading = "Engines")]
    policy: Option<PolicyName>,
    /// What the engines cost, as `evener engines --measure` wrote it, for the adaptive policy to
    /// begin with [default: what `--measure --keep` has kept]
    #[arg(long, value_name = "FILE", help_heading = "Engines")]
    profile: Option<PathBuf>,
    /// Leave the cores to other programs: workers that compute on them run only where no other
    /// program wants to, and modules do the more, as far as their drivers leave the cores alone
    #[arg(long, help_heading = "Engines")]
    background: bool,
    /// Use at most so much of what all cores together can do, from 1 to 100 in the hundred
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100),
        help_heading = "Engines")]
    max_cpu: Option<u8>,
    /// How many workers there are in total [default: as many as each engine likes, one a core
    /// for the processor]
    #[arg(short, long, value_name = "N", value_parser = jobs, help_heading = "Engines")]
    jobs: Option<NonZeroUsize>,
    /// How processes take turns at an engine that serves only so many at once: `fifo`, in order
    /// of arrival; `lists`, in as many lists as it serves, 64 at most, by process id; `none`, not
    /// at all. The two ends of one pipe must both be let in, or use `none`
    #[arg(long, value_name = "DISCIPLINE", default_value_t, help_heading = "Engines")]
    gate: Discipline,
    /// How many processes each engine serves at once, also where it sets no limit itself; the
    /// same for all processes (`evener gate` shows them) [default: what the engine reports]
    #[arg(long, value_name = "N", value_parser = permits, help_heading = "Engines")]
    permits: Option<NonZeroUsize>,
    /// Take turns with all members of this group, by its name or number, instead of only this
    /// user's own processes; they must trust one another
    #[arg(long, value_name = "GROUP", value_parser = values::group, help_heading = "Engines")]
    gate_group: Option<u32>,
    /// For how long a process that has its turn, or is the next, may be stopped (SIGSTOP, Ctrl-Z)
    /// before the turn is given on, such as 30s; the same for all processes [default: others wait
    /// for as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "Engines")]
    gate_lease: Option<Duration>,
    /// How much memory the workers' buffers may take together; the whole program stays below
    /// 256 MiB with the default [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = values::size, help_heading = "Engines")]
    memory: Option<usize>,
    /// Compute one in N jobs of every engine but openssl again on openssl, drawn by lot, besides
    /// two of every file, and take an engine whose result differs out of service; 1 for all, 0
    /// for none [default: 1000 for modules, none for the processor]
    #[arg(long, value_name = "N", help_heading = "Engines")]
    verify_engine: Option<u64>,
}

impl EngineOptions {
    /// Finds the engines. A wait for a turn at one is told unless all is to be quiet.
    pub(crate) fn evener(
        &self,
        keys: KeyRing,
        telling: &Telling,
        signals: &Signals,
    ) -> Result<Evener, Trouble> {
        let mut evener = Evener::new(keys)?.gate(self.gate).courtesy(Courtesy {
            in_background: self.background,
            most_cpu: self.max_cpu,
            ..Courtesy::default()
        });
        if let Some(policy) = self.policy {
            evener = evener.policy(policy);
        }
        if !self.engines.is_empty() {
            evener = evener.engines_with(&self.engines, &|token| ask_for_pin(signals, token))?;
        }
        if let Some(profile) = &self.profile {
            evener::check_profile(profile).map_err(|cause| Trouble::File {
                action: "read",
                path: profile.clone(),
                cause,
            })?;
        }
        if let Some(profile) = self.profile.clone().or_else(evener::default_profile) {
            evener = evener.profile(profile);
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
        if let Some(group) = self.gate_group {
            evener = evener.gate_scope(Scope::Group(group));
        }
        if let Some(lease) = self.gate_lease {
            evener = evener.gate_lease(lease);
        }
        if !telling.quiet {
            evener = evener.on_wait(tell_of_wait);
        }
        let memory = self.memory.unwrap_or(Options::DEFAULT_MEMORY);
        Ok(evener.options(|options| options.memory = memory))
    }
}

fn tell_of_wait(wait: &Wait) {
    let Wait { engine, time, ahead } = wait;
    let others = match ahead {
        0 => "this process is the next".to_owned(),
        1 => "1 process is before this one".to_owned(),
        _ => format!("{ahead} processes are before this one"),
    };
    let seconds = time.as_secs();
    clear_bar();
    complain(&format_args!("waiting for a turn at {engine} for {seconds} s; {others}"));
}

/// Asks for a token's PIN on the terminal, if there is one.
fn ask_for_pin(signals: &Signals, token: &str) -> Option<Zeroizing<Vec<u8>>> {
    signals.ask(&format!("PIN of {token}: ")).ok()
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
