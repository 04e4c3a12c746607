//! Measures engines and prints a profile as JSON.
//!
//! `measure-engines MACHINE CIPHER DIRECTION ENGINE...`, with the engines' names as `--engine`
//! takes them. With `EVENER_RIVAL=PROGRAM` it compares the last engine, an af_alg:DRIVER,
//! with a program that makes the same system calls, and prints a table instead.

use std::env;
use std::error::Error;
use std::process::{Command, ExitCode};

use evener_core::{Cipher, Direction, Engine};
use evener_lab::measure::{Plan, measure};

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("measure-engines: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [machine, cipher, direction, names @ ..] = arguments else {
        return Err("usage: measure-engines MACHINE CIPHER encrypt|decrypt ENGINE...".into());
    };
    let cipher: Cipher = cipher.parse()?;
    let direction = match direction.as_str() {
        "encrypt" => Direction::Encrypt,
        "decrypt" => Direction::Decrypt,
        other => return Err(format!("a direction is encrypt or decrypt, not {other}").into()),
    };
    let engines =
        names.iter().map(|name| evener_engines::find(name)).collect::<Result<Vec<_>, _>>()?;
    let plan = Plan::new(cipher, direction);
    if let (Some(rival), [.., engine]) = (env::var_os("EVENER_RIVAL"), engines.as_slice()) {
        return compare(&**engine, &rival, &plan);
    }
    let engines: Vec<&dyn Engine> = engines.iter().map(|engine| &**engine).collect();
    print!("{}", measure(machine, &engines, &plan)?.to_json());
    Ok(())
}

/// Lets the engine and the rival take turns, and prints the medians and their ratio.
fn compare(
    engine: &dyn Engine,
    rival: &std::ffi::OsStr,
    plan: &Plan,
) -> Result<(), Box<dyn Error>> {
    let name = &engine.description().name;
    let driver = name.split_once(':').map_or("", |(_, driver)| driver);
    println!(
        "{:>8} {:>12} {:>12} {:>7} {:>12} {:>12} {:>7}",
        "bytes", "wall us", "rival", "ratio", "cpu us", "rival", "ratio"
    );
    for &bytes in &plan.sizes {
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for _ in 0..plan.rounds {
            let once = Plan { sizes: vec![bytes], rounds: 1, ..plan.clone() };
            let point = measure("", &[engine], &once)?.engines[0].points[0];
            ours.push((point.wall_us, point.cpu_us));
            let output = Command::new(rival)
                .args([driver, &bytes.to_string(), &plan.time.as_millis().to_string()])
                .output()?;
            let text = String::from_utf8(output.stdout)?;
            let mut figures = text.split_whitespace().map(str::parse::<f64>);
            let mut next = || figures.next().ok_or("the rival printed too little");
            theirs.push((next()??, next()??));
        }
        let median = |figures: &[(f64, f64)], figure: fn(&(f64, f64)) -> f64| {
            let mut figures: Vec<_> = figures.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        let (wall, rival_wall) = (median(&ours, |pair| pair.0), median(&theirs, |pair| pair.0));
        let (cpu, rival_cpu) = (median(&ours, |pair| pair.1), median(&theirs, |pair| pair.1));
        println!(
            "{bytes:>8} {wall:>12.2} {rival_wall:>12.2} {:>7.3} {cpu:>12.2} {rival_cpu:>12.2} {:>7.3}",
            wall / rival_wall,
            cpu / rival_cpu
        );
    }
    Ok(())
}
