//! The parts of the benchmark, in their order.

use std::sync::Arc;

use evener_core::{Cipher, Direction, Engine};
use evener_engines::ceilings::{Bare, Texts};
use evener_engines::{Watch, find_with, self_test};

use super::GpuOptions;
use super::report::{Conformance, Copy, Kernel, Report};
use super::{memory, sessions, together};
use crate::LabError;
use crate::machine::Machine;

/// Runs the benchmark. `tell` is called with what comes next.
///
/// # Errors
/// [`LabError::NoDevice`] when there is no GPU, and when the device can't even copy.
pub fn run(options: &GpuOptions, tell: &mut dyn FnMut(&str)) -> Result<Report, LabError> {
    let absent = |reason: String| LabError::NoDevice { engine: options.device.clone(), reason };
    let bare = Bare::find(&options.device).map_err(absent)?;
    let unavailable = |error: evener_core::EngineError| LabError::Unavailable(error.to_string());
    let find = |name: &str| find_with(name, &|_| None, Watch::of_a_benchmark());
    let engine = find(&options.device).map_err(unavailable)?;
    let cores = find("cpu").map_err(unavailable)?;
    let reference = find("openssl").map_err(unavailable)?;
    let device = bare.facts();
    let runs_on = match device.is_gpu {
        true => "gpu".to_owned(),
        false if device.driver.contains("PoCL") || device.driver.contains("Portable") => {
            "pocl".to_owned()
        }
        false => device.driver.clone(),
    };
    tell("copies");
    let mut copies = Vec::new();
    for bytes in (16..).step_by(2).map(|power| 1_usize << power) {
        if bytes as u64 > options.copy {
            break;
        }
        let times = bare.copies(bytes, options.time()).map_err(unavailable)?;
        let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
        copies.push(Copy {
            bytes,
            up_gb_per_second: rate(times.up),
            down_gb_per_second: rate(times.down),
            each_way_gb_per_second: rate(times.both),
        });
    }
    tell("memory");
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        runs_on,
        machine: Machine::look(),
        device,
        copies,
        memory: memory::measure(options.copy as usize, options.time()),
        conformance: Vec::new(),
        kernels: Vec::new(),
        sessions: Vec::new(),
        together: Vec::new(),
        missing: Vec::new(),
    };
    tell("conformance");
    report.conformance = conformance(&*engine);
    measure_kernels(options, &bare, &*reference, &mut report, tell);
    measure_sessions(options, &bare, &*engine, &mut report, tell);
    measure_together(options, (&cores, &engine), &mut report, tell);
    Ok(report)
}

fn conformance(engine: &dyn Engine) -> Vec<Conformance> {
    let tests = self_test::run(engine).into_iter().map(|test| Conformance {
        cipher: test.cipher.name().to_owned(),
        direction: test.direction.to_string(),
        result: test.result.map_or_else(|error| error.to_string(), |()| "passed".to_owned()),
    });
    tests.collect()
}

/// Kernels by themselves: long messages of every cipher, and short records of some.
fn measure_kernels(
    options: &GpuOptions,
    bare: &Bare,
    reference: &dyn Engine,
    report: &mut Report,
    tell: &mut dyn FnMut(&str),
) {
    let ciphers = Cipher::ALL.iter().copied().filter(|cipher| bare.computes(*cipher));
    for cipher in ciphers {
        let directions = match cipher.is_authenticated() {
            true => &[Direction::Encrypt][..],
            false => &[Direction::Encrypt, Direction::Decrypt],
        };
        for &direction in directions {
            for length in MESSAGES {
                tell(&format!("kernel {cipher} {direction} {length}"));
                let (bytes, rounds) = (options.bytes as usize, usize::from(options.rounds));
                let texts = Texts { cipher, direction, length, bytes, rounds };
                match bare.kernel(&texts, reference) {
                    Ok((bytes, seconds)) => report.kernels.push(Kernel {
                        cipher: cipher.name().to_owned(),
                        direction: direction.to_string(),
                        message: length,
                        bytes,
                        gb_per_second: bytes as f64 / seconds / 1e9,
                    }),
                    Err(error) => {
                        report.missing.push(format!("kernel {cipher} {direction}: {error}"));
                    }
                }
            }
        }
    }
}

fn measure_sessions(
    options: &GpuOptions,
    bare: &Bare,
    engine: &dyn Engine,
    report: &mut Report,
    tell: &mut dyn FnMut(&str),
) {
    for cipher in chosen(engine) {
        for batch in BATCHES.into_iter().filter(|&batch| batch as u64 <= options.copy) {
            tell(&format!("sessions {cipher} {batch}"));
            let shape = (16 << 10, batch);
            match sessions::measure(bare, engine, cipher, shape, options.time()) {
                Ok(figures) => report.sessions.push(figures),
                Err(error) => report.missing.push(format!("sessions {cipher} {batch}: {error}")),
            }
        }
    }
}

fn measure_together(
    options: &GpuOptions,
    (cores, gpu): (&Arc<dyn Engine>, &Arc<dyn Engine>),
    report: &mut Report,
    tell: &mut dyn FnMut(&str),
) {
    for cipher in chosen(&**gpu) {
        for message in [1 << 10, 16 << 10, 1 << 20] {
            tell(&format!("together {cipher} {message}"));
            match together::measure(cores, gpu, cipher, message, options.time()) {
                Ok(figures) => report.together.push(figures),
                Err(error) => report.missing.push(format!("together {cipher}: {error}")),
            }
        }
    }
}

/// Those of the ciphers that say most, of those that the engine has.
fn chosen(engine: &dyn Engine) -> impl Iterator<Item = Cipher> {
    CHOSEN.into_iter().filter(|cipher| engine.offer(*cipher, Direction::Encrypt).is_some())
}

const CHOSEN: [Cipher; 6] = [
    Cipher::Aes128Ctr,
    Cipher::Aes256Ctr,
    Cipher::Aes128Gcm,
    Cipher::Aes256Gcm,
    Cipher::ChaCha20Poly1305,
    Cipher::DesEde3Cbc,
];

/// Bytes of messages for kernels.
const MESSAGES: [usize; 2] = [64, 16 << 10];

/// Bytes of batches.
const BATCHES: [usize; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20];
