//! `evener engines --measure`

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use evener::engines::measure::{self, Plan, measure};
use evener::engines::{Profile, cpu};
use evener::{Cipher, Direction, Engine};
use evener_cli::values;

use super::costs;
use crate::options::retry_pins;
use crate::trouble::{Trouble, shown};
use crate::whole_file;

/// Options of `--measure`.
#[derive(Args)]
pub(super) struct Measuring {
    /// Measure the cost of a job of each size on each engine, and print the profile as JSON
    #[arg(long, conflicts_with = "json")]
    measure: bool,
    /// Engine to measure; repeatable [default: all on this machine]
    #[arg(long = "engine", value_name = "NAME", requires = "measure",
        value_parser = values::engine(), hide_possible_values = true)]
    engines: Vec<String>,
    /// Retry a PIN from a `pin-source` file that a token has refused
    #[arg(long, requires = "measure")]
    retry_pin: bool,
    /// Cipher to measure
    #[arg(long, value_name = "NAME", default_value = "aes-128-cbc", requires = "measure",
        value_parser = values::cipher(), ignore_case = true, hide_possible_values = true)]
    cipher: Cipher,
    /// Direction: `encrypt` or `decrypt`
    #[arg(long, value_name = "DIRECTION", default_value = "encrypt",
        value_parser = values::direction(), hide_possible_values = true, requires = "measure")]
    direction: Direction,
    /// Message lengths in bytes, up to 16 MiB [default: 8 bytes to 1 MiB]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = values::message_length,
        requires = "measure")]
    bytes: Vec<usize>,
    /// Time for each engine and length in a round, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = TIME, requires = "measure",
        value_parser = clap::value_parser!(u64).range(1..=60_000))]
    time: u64,
    /// Number of rounds; the figures are medians over them
    #[arg(long, value_name = "N", default_value_t = ROUNDS, requires = "measure",
        value_parser = clap::value_parser!(u16).range(1..=1_000))]
    rounds: u16,
    /// Name of the machine in the profile [default: its processor's name]
    #[arg(long, value_name = "NAME", requires = "measure")]
    machine: Option<String>,
    /// Write the profile to this file, and print a table
    ///
    /// Evener replaces an existing profile, but no other file
    #[arg(short, long, value_name = "FILE", requires = "measure")]
    output: Option<PathBuf>,
    /// Save the profile for later runs with modules
    ///
    /// It goes to evener/profile.json in the user's cache directory
    #[arg(long, requires = "measure")]
    keep: bool,
}

impl Measuring {
    /// Returns whether `--measure` was given.
    pub(super) fn is_wanted(&self) -> bool {
        self.measure
    }

    /// The engines that load foreign code.
    pub(super) fn foreign_engines(&self) -> Vec<String> {
        measure::foreign(&self.engines)
    }

    /// Returns an option that was given without `--measure`, if its value differs from the default.
    pub(super) fn stray(&self) -> Option<&'static str> {
        let given = [
            (!self.engines.is_empty(), "--engine"),
            (self.cipher != Cipher::Aes128Cbc, "--cipher"),
            (self.direction != Direction::Encrypt, "--direction"),
            (!self.bytes.is_empty(), "--bytes"),
            (self.time != TIME, "--time"),
            (self.rounds != ROUNDS, "--rounds"),
            (self.machine.is_some(), "--machine"),
            (self.output.is_some(), "--output"),
            (self.keep, "--keep"),
            (self.retry_pin, "--retry-pin"),
        ];
        let is_stray = |&(is_given, _): &(bool, _)| is_given && !self.measure;
        given.into_iter().find(is_stray).map(|(_, option)| option)
    }

    /// Measures the engines, and prints and writes the profile.
    pub(super) fn run(&self) -> Result<(), Trouble> {
        // Errors should come before the time is spent.
        whole_file::refuse_dash("engines", self.output.as_deref())?;
        self.output.as_deref().map_or(Ok(()), refuse_other)?;
        retry_pins(self.retry_pin)?;
        let engines = if self.engines.is_empty() {
            measure::probe_all().into_iter().filter_map(|probed| probed.engine.ok()).collect()
        } else {
            self.engines.iter().map(|name| measure::find(name)).collect::<Result<Vec<_>, _>>()?
        };
        let engines: Vec<&dyn Engine> = engines.iter().map(|engine| &**engine).collect();
        let machine = self.machine.clone().unwrap_or_else(cpu::processor);
        let profile = measure(&machine, &engines, &self.plan())?;
        if profile.engines.is_empty() {
            let (cipher, direction) = (self.cipher, self.direction);
            return Err(Trouble::Usage(format!("none of the engines {direction}s {cipher}")));
        }
        // If one output fails, the result is not lost.
        let told = self.tell(&profile);
        if self.keep {
            self.keep(&profile)?;
        }
        told
    }

    /// Saves the profile for later runs.
    fn keep(&self, profile: &Profile) -> Result<(), Trouble> {
        let path = evener::default_profile().ok_or_else(|| Trouble::usage(NO_HOME))?;
        let kept = evener::program::keep_profile(&path, profile);
        kept.map_err(|cause| Trouble::File { action: "write", path, cause })
    }

    fn plan(&self) -> Plan {
        let usual = Plan::new(self.cipher, self.direction);
        let mut sizes = self.bytes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        Plan {
            sizes: if sizes.is_empty() { usual.sizes.clone() } else { sizes },
            time: Duration::from_millis(self.time),
            rounds: usize::from(self.rounds),
            ..usual
        }
    }

    fn tell(&self, profile: &Profile) -> Result<(), Trouble> {
        let text = match &self.output {
            Some(path) => {
                whole_file::replace(path, &profile.to_json())?;
                costs::table(profile)
            }
            None => profile.to_json(),
        };
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Trouble::Output)
    }
}

/// Refuses to replace a file that is not a profile: `-o` of `keygen` names a key.
fn refuse_other(path: &Path) -> Result<(), Trouble> {
    whole_file::refuse_planted(path)?;
    let is_replaceable = match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() > 0 => {
            found.len() <= LONGEST_PROFILE
                && fs::read_to_string(path).is_ok_and(|text| text.parse::<Profile>().is_ok())
        }
        _ => true,
    };
    if is_replaceable {
        return Ok(());
    }
    Err(Trouble::Usage(format!(
        "{}: it is there already and is no profile; remove it, or name another file",
        shown(path)
    )))
}

/// The longest profile, in bytes; many times as long as any real one.
const LONGEST_PROFILE: u64 = 1 << 20;

/// The default time for each engine and length in a round, in milliseconds.
const TIME: u64 = 100;
/// The default number of rounds.
const ROUNDS: u16 = 5;

const NO_HOME: &str = "no home directory to save the profile in: set XDG_CACHE_HOME or HOME";
