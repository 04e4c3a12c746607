//! The parts of the benchmark, in order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evener_core::{Cipher, Direction, Engine, shown};
use evener_engines::{Watch, find_with, self_test};
use evener_gpu::ceilings::{Bare, Texts};

use super::GpuOptions;
use super::report::{Conformance, Copy, Kernel, Report};
use super::{memory, peers, resident, sessions, shared, together};
use crate::LabError;
use crate::machine::Machine;

/// Runs the benchmark. `tell` is called with each step.
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
    let mut course = Course::begin(options.limit, tell);
    course.tells("copies");
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
    course.tells("memory");
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        runs_on,
        machine: Machine::look(),
        device,
        copies,
        memory: memory::measure(options.copy as usize, options.time()),
        shared_memory: None,
        conformance: Vec::new(),
        kernels: Vec::new(),
        resident: Vec::new(),
        peers: Vec::new(),
        sessions: Vec::new(),
        together: Vec::new(),
        missing: Vec::new(),
    };
    course.tells("shared memory");
    match shared::measure(&bare, usize::from(options.rounds)) {
        Ok(figures) => report.shared_memory = Some(figures),
        Err(error) => report.missing.push(format!("shared memory: {error}")),
    }
    course.tells("conformance");
    report.conformance = conformance(&*engine);
    let cache = report.device.cache;
    if options.bytes < 2 * cache {
        report.missing.push(format!(
            "kernels beyond the cache: it has {cache} bytes, and the texts {}",
            options.bytes
        ));
    }
    measure_kernels(options, &bare, &*reference, &mut report, &mut course);
    measure_resident(options, &reference, &mut report, &mut course);
    measure_peers(options, &mut report, &mut course);
    measure_sessions(options, &bare, &*engine, &mut report, &mut course);
    measure_together(options, (&cores, &engine), &mut report, &mut course);
    Ok(report)
}

/// Announces the steps while there is time.
struct Course<'t> {
    tell: &'t mut dyn FnMut(&str),
    begun: Instant,
    limit: Duration,
}

impl Course<'_> {
    fn begin(seconds: u64, tell: &mut dyn FnMut(&str)) -> Course<'_> {
        Course { tell, begun: Instant::now(), limit: Duration::from_secs(seconds) }
    }

    fn tells(&mut self, what: &str) {
        (self.tell)(what);
    }

    /// Returns whether there is time for a step; the report lists skipped steps as missing. Kernels
    /// get only a part of the time, to leave some for the rest.
    fn has_time(&mut self, what: &str, part: f64, report: &mut Report) -> bool {
        if self.begun.elapsed() < self.limit.mul_f64(part) {
            self.tells(what);
            return true;
        }
        report.missing.push(format!("{what}: no time was left"));
        false
    }
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
    course: &mut Course<'_>,
) {
    let is_measured = |cipher: &Cipher| bare.computes(*cipher) && options.wants(*cipher);
    for cipher in Cipher::ALL.iter().copied().filter(is_measured) {
        let directions = match cipher.is_authenticated() {
            true => &[Direction::Encrypt][..],
            false => &[Direction::Encrypt, Direction::Decrypt],
        };
        for &direction in directions {
            for length in MESSAGES {
                let what = format!("kernel {cipher} {direction} {length}");
                if !course.has_time(&what, PART_OF_KERNELS, report) {
                    continue;
                }
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
                        report.missing.push(format!("{what}: {error}"));
                    }
                }
            }
        }
    }
}

/// Texts that stay in the device's memory.
fn measure_resident(
    options: &GpuOptions,
    reference: &Arc<dyn Engine>,
    report: &mut Report,
    course: &mut Course<'_>,
) {
    let is_measured = |cipher: &Cipher| cipher.is_authenticated() && options.wants(*cipher);
    for cipher in CHOSEN.into_iter().filter(is_measured) {
        for bytes in [1 << 20, options.bytes as usize] {
            let what = format!("resident {cipher} {bytes}");
            if !course.has_time(&what, PART_OF_SESSIONS, report) {
                continue;
            }
            let rounds = usize::from(options.rounds);
            match resident::measure(&options.device, cipher, bytes, rounds, reference) {
                Ok(figures) => report.resident.push(figures),
                Err(error) => report.missing.push(format!("{what}: {error}")),
            }
        }
    }
}

fn measure_peers(options: &GpuOptions, report: &mut Report, course: &mut Course<'_>) {
    for program in &options.peers {
        let what = format!("peer {}", shown(program));
        if !course.has_time(&what, PART_OF_SESSIONS, report) {
            continue;
        }
        match peers::measure(program, options.bytes, LONGEST_OF_A_PEER) {
            Ok(figures) => report.peers.extend(figures),
            Err(error) => report.missing.push(format!("peer: {error}")),
        }
    }
}

fn measure_sessions(
    options: &GpuOptions,
    bare: &Bare,
    engine: &dyn Engine,
    report: &mut Report,
    course: &mut Course<'_>,
) {
    for cipher in chosen(engine).filter(|cipher| options.wants(*cipher)) {
        for batch in BATCHES.into_iter().filter(|&batch| batch as u64 <= options.copy) {
            let what = format!("sessions {cipher} {batch}");
            if !course.has_time(&what, PART_OF_SESSIONS, report) {
                continue;
            }
            let shape = (options.workers.map(usize::from), 16 << 10, batch);
            match sessions::measure(bare, engine, cipher, shape, options.time()) {
                Ok(figures) => report.sessions.push(figures),
                Err(error) => report.missing.push(format!("{what}: {error}")),
            }
        }
    }
}

fn measure_together(
    options: &GpuOptions,
    (cores, gpu): (&Arc<dyn Engine>, &Arc<dyn Engine>),
    report: &mut Report,
    course: &mut Course<'_>,
) {
    for cipher in chosen(&**gpu).filter(|cipher| options.wants(*cipher)) {
        for message in [1 << 10, 16 << 10, 1 << 20] {
            let what = format!("together {cipher} {message}");
            if !course.has_time(&what, 1.0, report) {
                continue;
            }
            match together::measure(cores, gpu, cipher, message, options.time()) {
                Ok(figures) => report.together.push(figures),
                Err(error) => report.missing.push(format!("{what}: {error}")),
            }
        }
    }
}

/// The most informative ciphers of those that the engine supports.
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

/// Kernels, and then peers and sessions, begin only within these fractions of the time limit.
const PART_OF_KERNELS: f64 = 0.6;
const PART_OF_SESSIONS: f64 = 0.8;

const LONGEST_OF_A_PEER: Duration = Duration::from_secs(30);

/// Bytes of a kernel's messages.
const MESSAGES: [usize; 2] = [64, 16 << 10];

/// Bytes of batches.
const BATCHES: [usize; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20];
