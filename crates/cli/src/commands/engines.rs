//! `evener engines`

mod costs;
mod grid;
mod measuring;

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;

use clap::Args;
use evener::engines::cpu::{self, Crossover};
use evener::engines::self_test::{self, SelfTest};
use evener::engines::{Probed, probe_all};
use evener::program::shown;
use evener::{Engine, Kind};
use evener_cli::streams;
use serde::Serialize;

use crate::document::print_json;
use crate::table;
use crate::trouble::{Ending, Trouble};
use measuring::Measuring;

/// Test the engines of this machine and show their ciphers
///
/// Each engine encrypts and decrypts known data with each of its ciphers. A check mark means that
/// both results are right. The list ends with the engines that this machine lacks and those that do
/// not answer within 10 seconds, each with the reason.
///
/// -v also shows how many workers (depth) and how many messages at once (batch) each engine
/// recommends.
///
/// --measure measures the wall time and CPU time of a job of each size on each engine, with one
/// worker and with as many as the engine recommends.
#[derive(Args)]
pub(crate) struct Engines {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Show each engine's ciphers with direction, depth, batch and test result
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,
    /// Measure which batches the engine `cpu` gives to `lanes`, and save the result
    ///
    /// `openssl` gets the others. The result is for this processor and this build (evener/cpu.json
    /// in the user's cache directory). With KERNEL, such as `aes-ni`, Evener only prints the result
    /// for that kernel of `lanes`
    #[arg(long, value_name = "KERNEL", num_args = 0..=1, default_missing_value = "",
        conflicts_with_all = ["json", "measure"], help_heading = "Measuring")]
    calibrate: Option<String>,
    #[command(flatten, next_help_heading = "Measuring")]
    measuring: Measuring,
}

impl Engines {
    pub(crate) fn perform(self) -> Result<Ending, Trouble> {
        self.check()?;
        if self.measuring.is_wanted() {
            self.measuring.run()?;
            return Ok(Ending::Done);
        }
        if let Some(kernel) = &self.calibrate {
            return calibrate(kernel);
        }
        streams::keep_output();
        let engines: Vec<_> = probe_all().iter().map(Found::from).collect();
        if self.json {
            #[derive(Serialize)]
            struct Document {
                engines: Vec<Found>,
                /// Empty here: an error is printed alone.
                failures: [(); 0],
            }
            print_json(&Document { engines, failures: [] })?;
        } else {
            let out = streams::output_file().map_err(Trouble::Output)?;
            let width = table::width_of(&out).map_or(grid::WIDTH, |width| width.min(grid::WIDTH));
            let mut out = io::BufWriter::new(out);
            let printed = match self.verbose {
                true => engines.iter().try_for_each(|engine| engine.print(width, &mut out)),
                false => out.write_all(grid::text(&engines, width).as_bytes()),
            };
            printed.and_then(|()| out.flush()).map_err(Trouble::Output)?;
        }
        Ok(Ending::Done)
    }

    /// The engines that load foreign code.
    pub(crate) fn foreign_engines(&self) -> Vec<String> {
        match &self.calibrate {
            Some(_) => Vec::new(),
            None => self.measuring.foreign_engines(),
        }
    }

    /// Refuses options of --measure without it. (The parser ignores the requirements of an option
    /// if something excludes it.)
    fn check(&self) -> Result<(), Trouble> {
        let other = if self.json { "--json" } else { "--calibrate" };
        match self.measuring.stray() {
            Some(option) if self.json || self.calibrate.is_some() => Err(Trouble::Usage(format!(
                "{option} goes with --measure, and that does not go with {other}"
            ))),
            _ => Ok(()),
        }
    }
}

/// Measures the crossovers of the engine `cpu`, prints them, and saves those of the kernel that it
/// uses.
fn calibrate(kernel: &str) -> Result<Ending, Trouble> {
    let keeps = kernel.is_empty();
    if keeps && let Some(directory) = cpu::cache_directory() {
        // Made before measuring, so that an error costs no time.
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(not_kept)?;
    }
    let crossovers = cpu::calibrate(kernel)?;
    let mut out = io::stdout().lock();
    let mut print = || -> io::Result<()> {
        writeln!(out, "{:26} batches that go to lanes", "cipher and direction")?;
        for (name, crossover) in crossovers.iter() {
            writeln!(out, "{name:26} {}", batches(crossover))?;
        }
        out.flush()
    };
    let printed = print().map_err(Trouble::Output);
    if keeps {
        let path = cpu::keep(&crossovers).map_err(not_kept)?;
        printed?;
        writeln!(out, "kept in {}", shown(&path)).map_err(Trouble::Output)?;
        Ok(Ending::Done)
    } else {
        printed.map(|()| Ending::Done)
    }
}

fn not_kept(cause: io::Error) -> Trouble {
    match cpu::cache_directory() {
        Some(path) => Trouble::File { action: "keep the calibration in", path, cause },
        None => Trouble::Calibration(cause),
    }
}

fn batches(crossover: Crossover) -> String {
    let Crossover { least_messages, most_bytes } = crossover;
    if crossover == Crossover::NEVER {
        return "none".to_owned();
    }
    let messages = match least_messages {
        1 => "all".to_owned(),
        least => format!("of {least} messages or more"),
    };
    match most_bytes {
        usize::MAX => messages,
        most => format!("{messages}, up to {most} bytes each on average"),
    }
}

/// A self-test with the right result.
const PASSED: &str = "passed";

/// An engine of this machine, or the reason why it is absent.
#[derive(Serialize)]
#[serde(untagged)]
enum Found {
    Present { name: String, kind: &'static str, detail: String, ciphers: Vec<Ability> },
    Absent { name: &'static str, absent: String },
}

/// A cipher and direction that an engine offers.
#[derive(Serialize)]
struct Ability {
    cipher: &'static str,
    direction: String,
    depth: usize,
    batch: usize,
    /// [`PASSED`], or the failure.
    self_test: String,
}

impl From<&Probed> for Found {
    fn from(probed: &Probed) -> Found {
        match &probed.engine {
            Err(error) => Found::Absent { name: probed.name, absent: error.to_string() },
            Ok(engine) => {
                let description = engine.description();
                Found::Present {
                    name: description.name.clone(),
                    kind: match description.kind {
                        Kind::Cpu => "cpu",
                        _ => "module",
                    },
                    detail: description.detail.clone(),
                    ciphers: self_test::run(&**engine)
                        .into_iter()
                        .filter_map(|test| ability(&**engine, test))
                        .collect(),
                }
            }
        }
    }
}

fn ability(engine: &dyn Engine, test: SelfTest) -> Option<Ability> {
    let offer = engine.offer(test.cipher, test.direction)?;
    Some(Ability {
        cipher: test.cipher.name(),
        direction: test.direction.to_string(),
        depth: offer.depth,
        batch: offer.batch,
        self_test: match test.result {
            Ok(()) => PASSED.to_owned(),
            Err(error) => format!("failed: {error}"),
        },
    })
}

impl Found {
    fn print(&self, width: usize, out: &mut dyn Write) -> io::Result<()> {
        let mut paragraph = |text: String| out.write_all(grid::wrapped(&text, width).as_bytes());
        match self {
            Found::Absent { name, .. } => {
                paragraph(format!("{name}: absent: {}", self.reason().unwrap_or_default()))
            }
            Found::Present { name, kind, detail, ciphers } => {
                paragraph(format!("{name}: {kind}, {detail}"))?;
                writeln!(
                    out,
                    "  {:18} {:9} {:>5} {:>5}  self-test",
                    "cipher", "direction", "depth", "batch"
                )?;
                for Ability { cipher, direction, depth, batch, self_test } in ciphers {
                    writeln!(
                        out,
                        "  {cipher:18} {direction:9} {depth:>5} {batch:>5}  {self_test}"
                    )?;
                }
                Ok(())
            }
        }
    }

    /// The reason why an absent engine is absent, without its name.
    fn reason(&self) -> Option<&str> {
        let Found::Absent { name, absent } = self else { return None };
        let prefix = format!("engine `{name}` is not available: ");
        Some(absent.strip_prefix(&prefix).unwrap_or(absent))
    }
}
