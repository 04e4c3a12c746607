//! Options of engines, policies, the gate and resources.

use std::num::{IntErrorKind, NonZeroUsize, ParseIntError};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evener::engines::loads_foreign_code;
use evener::gate::{Discipline, GateOptions, Scope, Turns, Wait};
use evener::{Evener, KeyRing, PolicyName, RunSettings};
use evener_cli::{streams, values as named};
use zeroize::Zeroizing;

use super::{Telling, values};
use crate::progress::clear_bar;
use crate::signals::Signals;
use crate::trouble::{Trouble, complain};

#[derive(Args, Debug)]
pub(crate) struct EngineOptions {
    /// Add an engine; repeatable [default: cpu]
    ///
    /// `evener engines` lists the engines. All that you give work at once. Engines other than cpu,
    /// openssl and lanes are called modules
    #[arg(long = "engine", value_name = "NAME", help_heading = "Engines",
        value_parser = named::engine(), hide_possible_values = true)]
    engines: Vec<String>,
    /// Recompute one in N jobs on OpenSSL and compare
    ///
    /// A job is a file or a chunk of one. Evener chooses the jobs at random, and two more in every
    /// file that one engine processes alone. After a wrong result, the engine gets no more jobs. 1
    /// verifies every job, 0 none [default: 0 for CPU engines; for modules 1 if that takes at most
    /// 5 % of the module's time, otherwise 1000]
    #[arg(long, value_name = "N", help_heading = "Engines", allow_negative_numbers = true)]
    verify_engine: Option<u64>,
    /// Retry a PIN from a `pin-source` file that a token has refused
    ///
    /// Without this option, Evener does not try the PIN again until the file changes, because
    /// tokens lock themselves after several wrong PINs
    #[arg(long, help_heading = "Engines")]
    retry_pin: bool,
    /// Policy that assigns tasks to workers [default: adaptive with modules, pull without]
    ///
    /// `pull` gives each free worker the next task; `adaptive` measures the engines during the run
    /// and uses the fastest combination
    #[arg(long, value_name = "POLICY", help_heading = "Policies", value_parser = named::policy(),
        hide_possible_values = true)]
    policy: Option<PolicyName>,
    /// Start the adaptive policy from these measured costs of the engines
    ///
    /// `evener engines --measure -o FILE` writes the file [default: the costs that `--measure
    /// --keep` saved]
    #[arg(long, value_name = "FILE", help_heading = "Policies")]
    profile: Option<PathBuf>,
    /// Give way to other programs
    ///
    /// CPU workers use only idle CPU time, and modules do more of the work if their drivers need
    /// little CPU time
    #[arg(long, help_heading = "Resources")]
    background: bool,
    /// Limit CPU time to this percentage of all cores (1-100) [default: no limit]
    ///
    /// The limit applies to the average over the run, without the time that opening a module's
    /// session takes
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100),
        allow_negative_numbers = true, help_heading = "Resources")]
    max_cpu: Option<u8>,
    /// Number of workers (threads) over all engines
    ///
    /// [default: one per core for CPU engines, and as many as the engine recommends otherwise]
    #[arg(short, long, value_name = "N", value_parser = jobs, allow_negative_numbers = true,
        help_heading = "Resources")]
    jobs: Option<NonZeroUsize>,
    /// Memory limit for the buffers of all workers, at least 1M [default: 64M]
    ///
    /// If that can't hold a chunk for each worker, fewer workers run. With the default, the whole
    /// program stays below 256 MiB
    #[arg(long, value_name = "SIZE", value_parser = values::size, allow_negative_numbers = true,
        help_heading = "Resources")]
    memory: Option<usize>,
    /// Order in which processes wait for an engine with limited capacity
    ///
    /// `fifo`: in order of arrival; `lists`: by process id, in one list per permit (64 at most);
    /// `none`: no waiting. Two Evener processes in one pipeline need a permit each, or `none`
    #[arg(long, value_name = "DISCIPLINE", default_value_t, help_heading = "Gate",
        value_parser = named::discipline(), hide_possible_values = true)]
    gate: Discipline,
    /// Number of processes that may use each engine at once [default: the engine's own limit]
    ///
    /// Give all processes the same number. `evener gate` shows it
    #[arg(long, value_name = "N", value_parser = permits, allow_negative_numbers = true,
        help_heading = "Gate")]
    permits: Option<NonZeroUsize>,
    /// Share the gate with all members of this group (name or number)
    ///
    /// Without this option, only your own processes share it. The members must trust one another
    #[arg(long, value_name = "GROUP", value_parser = values::group, help_heading = "Gate")]
    gate_group: Option<u32>,
    /// Pass on the permit of a process that stays stopped (SIGSTOP, Ctrl-Z) for this long, such as
    /// 30s
    ///
    /// Give all processes the same time [default: never]
    #[arg(long, value_name = "TIME", value_parser = values::duration,
        allow_negative_numbers = true, help_heading = "Gate")]
    gate_lease: Option<Duration>,
}

/// Allows PINs to be tried again if --retry-pin was given. Call it before engines are looked up.
pub(crate) fn retry_pins(is_asked: bool) -> Result<(), Trouble> {
    match is_asked {
        true => evener::engines::forget_refused_pins().map_err(Trouble::Pins),
        false => Ok(()),
    }
}

impl EngineOptions {
    /// The engines that load foreign code.
    pub(crate) fn foreign(&self) -> Vec<String> {
        self.engines.iter().filter(|engine| loads_foreign_code(engine)).cloned().collect()
    }

    /// Finds the engines. Unless `--quiet` was given, the program reports when it waits for one.
    pub(crate) fn evener(
        &self,
        keys: KeyRing,
        telling: &Telling,
        signals: &Signals,
    ) -> Result<Evener, Trouble> {
        let is_set =
            self.permits.is_some() || self.gate_group.is_some() || self.gate_lease.is_some();
        if self.gate == Discipline::None && is_set {
            return Err(Trouble::usage(
                "--gate none has all processes use an engine at once: --permits, --gate-group and \
                 --gate-lease do not go with it",
            ));
        }
        let turns = Turns {
            discipline: self.gate,
            permits: self.permits,
            scope: self.gate_group.map_or_else(Scope::default, Scope::Group),
            lease: self.gate_lease,
            ..Turns::default()
        };
        retry_pins(self.retry_pin)?;
        let mut evener = Evener::builder(keys).engines(&self.engines).gate(turns);
        if let Some(profile) = &self.profile {
            evener::program::check_profile(profile).map_err(|cause| Trouble::File {
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
            evener = evener.workers(jobs);
        }
        if !telling.quiet {
            evener = evener.on_wait(tell_of_wait);
        }
        let evener = evener.options(|options| {
            options.run.memory = self.memory.unwrap_or(RunSettings::DEFAULT_MEMORY);
            options.run.policy = self.policy.map(Into::into);
            options.run.courtesy.in_background = self.background;
            options.run.courtesy.most_cpu = self.max_cpu;
        });
        if !self.foreign().is_empty() {
            streams::keep_input();
        }
        let evener = evener.build_with(&|token| ask_for_pin(signals, token))?;
        evener.keep_engines_open();
        Ok(evener)
    }
}

fn tell_of_wait(wait: &Wait) {
    let Wait { engine, time, ahead } = wait;
    let queue = match ahead {
        0 => "this process is next".to_owned(),
        1 => "1 process is ahead in the queue".to_owned(),
        _ => format!("{ahead} processes are ahead in the queue"),
    };
    let seconds = time.as_secs();
    clear_bar();
    complain(&format_args!("waiting for a permit of {engine} for {seconds} s; {queue}"));
}

/// Asks for a token's PIN on the terminal, if there is one.
fn ask_for_pin(signals: &Signals, token: &str) -> Option<Zeroizing<Vec<u8>>> {
    signals.ask(&format!("PIN of {token}: ")).ok()
}

/// Each worker is a thread.
fn jobs(text: &str) -> Result<NonZeroUsize, String> {
    up_to(MOST_JOBS, text)
}

pub(crate) fn permits(text: &str) -> Result<NonZeroUsize, String> {
    up_to(GateOptions::MAX_PERMITS, text)
}

/// Steps of the nice value.
pub(crate) fn steps(text: &str) -> Result<NonZeroUsize, String> {
    up_to(MOST_STEPS, text)
}

/// A number that is not zero.
pub(crate) fn from_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => format!("not a number from 1 to {}", usize::MAX),
        _ => "not a number from 1".to_owned(),
    })
}

fn up_to(most: usize, text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .ok()
        .filter(|number: &NonZeroUsize| number.get() <= most)
        .ok_or_else(|| format!("not a number from 1 to {most}"))
}

const MOST_JOBS: usize = 1024;

/// The steps from the usual nice value to the lowest.
const MOST_STEPS: usize = 20;
