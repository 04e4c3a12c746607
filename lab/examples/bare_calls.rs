//! Compares a module engine with a C program that makes the same calls and nothing else.
//!
//! `bare_calls ENGINE CIPHER RIVAL [ARGUMENT]...`, with the engine's name as `--engine` takes it.
//! The rival is called with its arguments, a length in bytes and a time in milliseconds, and prints
//! the wall time and CPU time of encrypting a message, in microseconds.

use std::env;
use std::error::Error;
use std::process::{Command, ExitCode};
use std::time::Duration;

use evener_core::{Direction, Engine};
use evener_engines::measure::{Plan, measure};

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bare_calls: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [engine, cipher, rival, rest @ ..] = arguments else {
        return Err("usage: bare_calls ENGINE CIPHER RIVAL [ARGUMENT]...".into());
    };
    let engine = evener_engines::measure::find(engine)?;
    let usual = Plan::new(cipher.parse()?, Direction::Encrypt);
    let plan = Plan { time: Duration::from_millis(30), ..usual };
    println!(
        "{:>8} {:>12} {:>12} {:>7} {:>12} {:>12} {:>7}",
        "bytes", "wall us", "bare", "ratio", "cpu us", "bare", "ratio"
    );
    for &bytes in &plan.sizes {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // They take turns, so that a change of the machine's speed affects both.
        for _ in 0..ROUNDS {
            ours.push(engine_cost(&*engine, &plan, bytes)?);
            theirs.push(rival_cost(rival, rest, &plan, bytes)?);
        }
        let ((wall, bare_wall), (cpu, bare_cpu)) = (
            (least(&ours, |cost| cost.0), least(&theirs, |cost| cost.0)),
            (least(&ours, |cost| cost.1), least(&theirs, |cost| cost.1)),
        );
        println!(
            "{bytes:>8} {wall:>12.2} {bare_wall:>12.2} {:>7.3} {cpu:>12.2} {bare_cpu:>12.2} {:>7.3}",
            wall / bare_wall,
            cpu / bare_cpu
        );
    }
    Ok(())
}

/// Wall time and CPU time of a job.
type Cost = (f64, f64);

fn engine_cost(engine: &dyn Engine, plan: &Plan, bytes: usize) -> Result<Cost, Box<dyn Error>> {
    let once = Plan { sizes: vec![bytes], rounds: 1, ..plan.clone() };
    let profile = measure("", &[engine], &once)?;
    let engine = profile.engines.first().ok_or("the engine does not offer the cipher")?;
    let point = engine.cost(bytes);
    Ok((point.wall_us, point.cpu_us))
}

fn rival_cost(
    rival: &str,
    arguments: &[String],
    plan: &Plan,
    bytes: usize,
) -> Result<Cost, Box<dyn Error>> {
    let output = Command::new(rival)
        .args(arguments)
        .args([bytes.to_string(), plan.time.as_millis().to_string()])
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut figures = text.split_whitespace().map(str::parse::<f64>);
    let mut next = || figures.next().ok_or("the rival printed too little");
    Ok((next()??, next()??))
}

/// The least cost of all rounds, because other load can only add to the costs.
fn least(costs: &[Cost], figure: fn(&Cost) -> f64) -> f64 {
    costs.iter().map(figure).fold(f64::INFINITY, f64::min)
}

const ROUNDS: usize = 15;
