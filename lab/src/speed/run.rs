//! Runs the engines in turns.

use std::path::Path;
use std::sync::Arc;

use evener_core::{Cipher, Direction, Engine, EngineError};

use super::case::Case;
use super::contender::{Contender, Work};
use super::masked::{self, Masked};
use super::report::{Contestant, SpeedReport};
use super::row::Row;
use super::stream::Library;
use super::{SpeedError, SpeedOptions};
use crate::Machine;
use crate::statistics::median;

/// Measures according to the options. `program`, which has [`Command`](super::Command) as its
/// command `speed`, runs AES without the CPU's AES instructions; without a program this is skipped.
/// `progress` is called with each step.
///
/// An engine that fails is skipped for that cipher and direction.
///
/// # Errors
/// When a named engine is not available or supports none of the ciphers, a cipher does not accept
/// messages of a length, or nothing could be measured.
pub fn run(
    options: &SpeedOptions,
    program: Option<&Path>,
    progress: &mut dyn FnMut(&str),
) -> Result<SpeedReport, SpeedError> {
    options.check()?;
    let machine = Machine::look();
    let threads = options.threads(machine.cores);
    let mut report = SpeedReport {
        machine,
        seconds: options.seconds.as_secs_f64(),
        rounds: options.rounds,
        engines: Vec::new(),
        rows: Vec::new(),
        left_out: Vec::new(),
        compared: Vec::new(),
    };
    let engines = find(options, &mut report)?;
    let contenders = contenders(options, &engines, program, &report.machine)?;
    report.engines = contenders.iter().map(|contender| contender.describe(options)).collect();
    for &cipher in &options.ciphers {
        for &direction in options.directions() {
            let offers = |contender: &&Contender| contender.offers(cipher, direction);
            let mut taking_part: Vec<_> = contenders.iter().filter(offers).collect();
            if taking_part.is_empty() {
                report.leave_out(cipher.name(), format!("no engine can {direction} it"));
            }
            for &threads in &threads {
                let s = if threads == 1 { "" } else { "s" };
                progress(&format!("{cipher}, {direction}, {threads} thread{s}"));
                for &bytes in &options.lengths {
                    let random = "the system has no random numbers".to_owned();
                    let case = Case::new(cipher, direction, bytes);
                    let case = case.ok_or(SpeedError::Nothing(random))?;
                    take_turns(options, &case, threads, &mut taking_part, &mut report);
                }
            }
        }
    }
    if report.rows.is_empty() {
        let reasons = report.left_out.iter().map(|out| format!("{}: {}", out.name, out.reason));
        return Err(SpeedError::Nothing(reasons.collect::<Vec<_>>().join("; ")));
    }
    Ok(report)
}

/// Measures one figure of every contender; removes those that fail.
fn take_turns(
    options: &SpeedOptions,
    case: &Case,
    threads: usize,
    contenders: &mut Vec<&Contender>,
    report: &mut SpeedReport,
) {
    let time = options.seconds / options.rounds;
    let mut rates: Vec<Result<Vec<f64>, String>> = vec![Ok(Vec::new()); contenders.len()];
    for round in 0..options.rounds as usize {
        for turn in 0..contenders.len() {
            // Each round begins with a different contender.
            let index = (turn + round) % contenders.len();
            if let Ok(measured) = &mut rates[index] {
                match contenders[index].measure(case, threads, time) {
                    Ok(rate) => measured.push(rate),
                    Err(reason) => rates[index] = Err(reason),
                }
            }
        }
    }
    let mut rates = rates.into_iter();
    contenders.retain(|contender| {
        let &Case { cipher, direction, bytes, .. } = case;
        match rates.next() {
            Some(Ok(measured)) => {
                report.rows.push(contender.row(case, threads, median(&measured).unwrap_or(0.0)));
                true
            }
            Some(Err(reason)) => {
                let what = format!("{direction} {cipher}, {bytes} bytes: {reason}");
                report.leave_out(&contender.title(), what);
                false
            }
            None => true,
        }
    });
}

/// The named engines, or all on this machine.
fn find(
    options: &SpeedOptions,
    report: &mut SpeedReport,
) -> Result<Vec<Arc<dyn Engine>>, SpeedError> {
    let offers = |engine: &dyn Engine| {
        let any = |&cipher: &Cipher| {
            let direction = |&direction: &Direction| engine.offer(cipher, direction).is_some();
            options.directions().iter().any(direction)
        };
        options.ciphers.iter().any(any)
    };
    let none = |engine: &dyn Engine| SpeedError::OffersNone {
        engine: engine.description().name.clone(),
        ciphers: options.ciphers.clone(),
    };
    let mut engines: Vec<Arc<dyn Engine>> = Vec::new();
    if options.engines.is_empty() {
        for probed in crate::probe_all() {
            match probed.engine {
                Ok(engine) if offers(&*engine) => engines.push(engine),
                Ok(engine) => {
                    let reason = "it offers none of the ciphers".to_owned();
                    report.leave_out(&engine.description().name, reason);
                }
                Err(error) => report.leave_out(probed.name, reason(error)),
            }
        }
        return Ok(engines);
    }
    for name in &options.engines {
        let engine = crate::find(name)?;
        if !offers(&*engine) {
            return Err(none(&*engine));
        }
        if !engines.iter().any(|other| other.description() == engine.description()) {
            engines.push(engine);
        }
    }
    Ok(engines)
}

/// The reason why an engine is absent, without its name.
fn reason(error: EngineError) -> String {
    match error {
        EngineError::Unavailable { reason, .. } => reason,
        other => other.to_string(),
    }
}

/// The contenders: the ways in which the engines are used.
fn contenders(
    options: &SpeedOptions,
    engines: &[Arc<dyn Engine>],
    program: Option<&Path>,
    machine: &Machine,
) -> Result<Vec<Contender>, SpeedError> {
    let reference = crate::find("openssl").ok();
    let cpu_has_aes = machine.cpu_features.iter().any(|feature| feature == "aes");
    let openssl_has_aes = masked::openssl_has_aes();
    let mut contenders = Vec::new();
    for engine in engines {
        let is_openssls = masked::is_openssls(&**engine);
        let has_aes = if is_openssls { openssl_has_aes } else { cpu_has_aes };
        let new = |aes_instructions, work| {
            let description = engine.description().clone();
            Contender { description, aes_instructions, work }
        };
        let work = match &engine.description().name[..] {
            "openssl" if !options.messages => {
                let library = Library::load()
                    .map_err(|error| EngineError::failed(error.to_string()).of("openssl"))?;
                Work::Stream { library, engine: engine.clone() }
            }
            _ => Work::Messages { engine: engine.clone(), reference: reference.clone() },
        };
        contenders.push(new(has_aes, work));
        let masked = program
            .filter(|_| !options.as_is && options.ciphers.iter().any(|&it| masked::is_aes(it)))
            .and_then(|program| Masked::new(program, engine, options.messages));
        if let Some(masked) = masked {
            contenders.push(new(false, Work::Masked(masked)));
        }
    }
    Ok(contenders)
}

impl Contender {
    fn describe(&self, options: &SpeedOptions) -> Contestant {
        Contestant {
            engine: self.title(),
            kind: self.description.kind,
            detail: self.description.detail.clone(),
            method: self.method(&options.ciphers, options.directions()),
        }
    }

    fn row(&self, case: &Case, threads: usize, kb_per_s: f64) -> Row {
        Row {
            engine: self.description.name.clone(),
            cipher: case.cipher.to_string(),
            direction: case.direction.to_string(),
            aes_instructions: self.aes_instructions && masked::is_aes(case.cipher),
            threads,
            bytes: case.bytes,
            // Speeds are accurate to a byte per second at best.
            kb_per_s: (kb_per_s * 1000.0).round() / 1000.0,
        }
    }
}
