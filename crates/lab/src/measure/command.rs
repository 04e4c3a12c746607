//! Measuring as an option of the program's list of engines.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{find, probe_all};
use clap::Args;
use evener_core::{Cipher, Direction, Engine, Profile};

use super::{MeasureError, Plan, chart, measure, table};
use crate::Machine;
use crate::speed::length;

/// `evener engines --measure`.
#[derive(Args, Clone, Debug)]
pub struct Command {
    /// Measure what a job of each size costs each engine, and print the profile as JSON
    #[arg(long, conflicts_with = "json")]
    measure: bool,
    /// The engine to measure [default: all that are there]; may be given several times
    #[arg(long = "engine", value_name = "NAME", requires = "measure")]
    engines: Vec<String>,
    /// The cipher
    #[arg(long, value_name = "NAME", default_value = "aes-128-cbc", requires = "measure")]
    cipher: Cipher,
    /// `encrypt` or `decrypt`
    #[arg(long, value_name = "D", default_value = "encrypt", value_parser = direction,
        requires = "measure")]
    direction: Direction,
    /// Message lengths in bytes, up to 16 MiB [default: 8 bytes to 1 MiB]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = length,
        requires = "measure")]
    bytes: Vec<usize>,
    /// How long to measure each engine at each length, in milliseconds, in each round
    #[arg(long, value_name = "MS", default_value_t = 100, requires = "measure",
        value_parser = clap::value_parser!(u64).range(1..=60_000))]
    time: u64,
    /// How many rounds there are, of which the medians are taken
    #[arg(long, value_name = "N", default_value_t = 5, requires = "measure",
        value_parser = clap::value_parser!(u16).range(1..=1_000))]
    rounds: u16,
    /// What to call the machine [default: its processor's name]
    #[arg(long, value_name = "NAME", requires = "measure")]
    machine: Option<String>,
    /// Write the profile to this file, and print a table
    #[arg(short, long, value_name = "FILE", requires = "measure")]
    output: Option<PathBuf>,
    /// Keep the profile for later runs beside modules, in evener/profile.json in the user's
    /// cache directory
    #[arg(long, requires = "measure")]
    keep: bool,
    /// Draw the costs to this file, as SVG
    #[arg(long, value_name = "FILE", requires = "measure")]
    chart: Option<PathBuf>,
}

impl Command {
    /// Whether measuring is what is asked for.
    pub fn is_wanted(&self) -> bool {
        self.measure
    }

    /// Measures, prints and writes.
    ///
    /// # Errors
    /// Those of [`measure`], and when an engine that was named is not there, none offers the
    /// cipher, or the result can't be printed or written.
    pub fn run(&self) -> Result<(), MeasureError> {
        let engines = if self.engines.is_empty() {
            probe_all().into_iter().filter_map(|probed| probed.engine.ok()).collect()
        } else {
            self.engines.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?
        };
        let engines: Vec<&dyn Engine> = engines.iter().map(|engine| &**engine).collect();
        let machine = self.machine.clone().unwrap_or_else(|| Machine::look().cpu);
        let profile = measure(&machine, &engines, &self.plan())?;
        if profile.engines.is_empty() {
            let (cipher, direction) = (self.cipher, self.direction);
            return Err(MeasureError::NotOffered { cipher, direction });
        }
        if self.keep {
            self.keep(&profile)?;
        }
        self.tell(&profile)
    }

    /// Keeps the profile for later runs.
    fn keep(&self, profile: &Profile) -> Result<(), MeasureError> {
        let path = evener::default_profile().ok_or(MeasureError::NoHome)?;
        let kept = evener::keep_profile(&path, profile);
        kept.map_err(|source| MeasureError::Write { path, source })
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

    fn tell(&self, profile: &Profile) -> Result<(), MeasureError> {
        let write = |path: &Path, text: String| {
            let wrong = |source| MeasureError::Write { path: path.to_owned(), source };
            fs::write(path, text).map_err(wrong)
        };
        if let Some(path) = &self.chart {
            write(path, chart::svg(profile))?;
        }
        let text = match &self.output {
            Some(path) => {
                write(path, profile.to_json())?;
                table::table(profile)
            }
            None => profile.to_json(),
        };
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(MeasureError::Output)
    }
}

fn direction(text: &str) -> Result<Direction, String> {
    match text {
        "encrypt" => Ok(Direction::Encrypt),
        "decrypt" => Ok(Direction::Decrypt),
        _ => Err("a direction is encrypt or decrypt".to_owned()),
    }
}
