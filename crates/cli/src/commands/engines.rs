//! `evener engines`

use std::fs;
use std::io::{self, Write};

use clap::Args;
use evener::engines::cpu::{self, Crossover};
use evener::engines::self_test::{self, SelfTest};
use evener::engines::{Probed, probe_all};
use evener::{Engine, Kind, shown};
use evener_lab::measure::Command as Measuring;
use serde::Serialize;

use crate::run::print_json;
use crate::sys;
use crate::trouble::{Ending, Trouble};

/// Show the engines of this machine, tested
///
/// For every engine: how many workers it likes (depth), how many messages it likes at once
/// (batch), its ciphers, and whether it computes what it should. Engines that are not there are
/// listed with the reason.
///
/// With --measure, what a job of each size costs each engine: how long a worker takes for it and
/// how long that keeps a core busy, with one worker and with as many as the engine likes.
#[derive(Args)]
pub(crate) struct Engines {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Measure which batches the engine `cpu` gives to `lanes` and which to `openssl`, print
    /// that, and keep it for this processor and this build, in evener/cpu.json in the user's
    /// cache directory. With a kernel of `lanes`, such as `aes-ni`, only print what holds with that
    #[arg(long, value_name = "KERNEL", num_args = 0..=1, default_missing_value = "",
        conflicts_with_all = ["json", "measure"], help_heading = "Measuring")]
    calibrate: Option<String>,
    #[command(flatten, next_help_heading = "Measuring")]
    measuring: Measuring,
}

impl Engines {
    pub(crate) fn perform(self) -> Result<Ending, Trouble> {
        if self.measuring.is_wanted() {
            self.measuring.run()?;
            return Ok(Ending::Done);
        }
        if let Some(kernel) = &self.calibrate {
            return calibrate(kernel);
        }
        sys::keep_output();
        let engines: Vec<_> = probe_all().iter().map(Found::from).collect();
        if self.json {
            #[derive(Serialize)]
            struct Document {
                engines: Vec<Found>,
            }
            print_json(&Document { engines })?;
        } else {
            let mut out = io::BufWriter::new(sys::output_file().map_err(Trouble::Output)?);
            engines
                .iter()
                .try_for_each(|engine| engine.print(&mut out))
                .and_then(|()| out.flush())
                .map_err(Trouble::Output)?;
        }
        Ok(Ending::Done)
    }
}

/// Measures the crossovers of the processor's engine, prints them, and keeps those of the kernel
/// that it uses.
fn calibrate(kernel: &str) -> Result<Ending, Trouble> {
    let keeps = kernel.is_empty();
    if keeps && let Some(directory) = cpu::cache_directory() {
        // Before the time for measuring is spent.
        fs::create_dir_all(directory).map_err(not_kept)?;
    }
    let crossovers = cpu::calibrate(kernel)?;
    let kept = keeps.then(|| cpu::keep(&crossovers)).transpose().map_err(not_kept)?;
    let mut out = io::stdout().lock();
    let mut print = || -> io::Result<()> {
        writeln!(out, "{:26} batches that go to lanes", "cipher and direction")?;
        for (name, crossover) in crossovers.iter() {
            writeln!(out, "{name:26} {}", batches(crossover))?;
        }
        if let Some(path) = &kept {
            writeln!(out, "kept in {}", shown(path))?;
        }
        out.flush()
    };
    print().map_err(Trouble::Output)?;
    Ok(Ending::Done)
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

/// What was found of an engine.
#[derive(Serialize)]
#[serde(untagged)]
enum Found {
    Present { name: String, kind: &'static str, detail: String, ciphers: Vec<Ability> },
    Absent { name: &'static str, absent: String },
}

/// What an engine can do with a cipher.
#[derive(Serialize)]
struct Ability {
    cipher: &'static str,
    direction: String,
    depth: usize,
    batch: usize,
    /// `passed`, or what went wrong.
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
            Ok(()) => "passed".to_owned(),
            Err(error) => format!("failed: {error}"),
        },
    })
}

impl Found {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Found::Absent { name, absent } => writeln!(out, "{name}: absent: {absent}"),
            Found::Present { name, kind, detail, ciphers } => {
                writeln!(out, "{name}: {kind}, {detail}")?;
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
}
