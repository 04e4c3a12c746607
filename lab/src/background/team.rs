//! Evener beside the foreground program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evener::Evener;
use evener_core::{Cipher, Direction, Engine, Kind};
use evener_pipeline::{PolicyName, RunOptions, run};
use rustix::time::{ClockId, clock_gettime};

use super::messages::{Done, Messages};
use super::{BackgroundOptions, Setting};
use crate::LabError;

/// Evener's engines and messages.
pub(super) struct Team {
    pub(super) engines: Vec<Arc<dyn Engine>>,
    seats: Vec<Arc<dyn Engine>>,
    pub(super) policy: PolicyName,
    cipher: Cipher,
    messages: Messages,
}

/// Evener's figures of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Work {
    /// Throughput, in millions of bytes a second.
    pub(super) mb_per_s: f64,
    /// The modules' share, in percent.
    pub(super) module_percent: f64,
    /// The process's CPU time, as a percentage of all cores.
    pub(super) cpu_percent: f64,
}

impl Team {
    /// Finds the engines. Each has as many workers as it recommends, as in `evener encrypt`.
    ///
    /// # Errors
    /// When an engine is not available, or none supports the cipher.
    pub(super) fn new(options: &BackgroundOptions) -> Result<Team, LabError> {
        let unavailable =
            |error: evener_core::EngineError| LabError::Unavailable(error.to_string());
        let mut engines = Vec::new();
        for name in options.engines.iter().chain(&options.module) {
            engines.push(crate::find(name).map_err(unavailable)?);
        }
        if options.engines.is_empty() {
            engines.insert(0, crate::find(Evener::CPU_ENGINE).map_err(unavailable)?);
        }
        let cipher = options.cipher;
        let depth = |engine: &Arc<dyn Engine>| {
            engine.offer(cipher, Direction::Encrypt).map_or(0, |offer| offer.depth)
        };
        let kinds = engines.iter().map(|engine| engine.description().kind);
        let policy = options.policy.unwrap_or_else(|| PolicyName::usual(kinds));
        let seats: Vec<_> = engines
            .iter()
            .flat_map(|engine| std::iter::repeat_n(Arc::clone(engine), depth(engine)))
            .collect();
        if seats.is_empty() {
            let why = format!("none of these engines encrypts {cipher}");
            return Err(LabError::Unavailable(why));
        }
        Ok(Team {
            engines,
            seats,
            policy,
            cipher,
            messages: Messages::new(cipher, options.length as usize),
        })
    }

    /// The length of a message.
    pub(super) fn length(&self) -> usize {
        self.messages.length()
    }

    /// Returns whether a module takes part.
    pub(super) fn has_module(&self) -> bool {
        self.seats.iter().any(|engine| engine.description().kind == Kind::Module)
    }

    /// Encrypts in a setting while `meanwhile` runs, and returns the work done in the time that
    /// `meanwhile` measured.
    ///
    /// # Errors
    /// Those of `meanwhile`, and when the engines have failed.
    pub(super) fn work<T>(
        &self,
        setting: Setting,
        meanwhile: impl FnOnce(&mut Watch<'_>) -> Result<T, LabError>,
    ) -> Result<(T, Work), LabError> {
        let mut options = RunOptions::new(self.policy, self.cipher, Direction::Encrypt, QUEUE);
        options.courtesy = setting.courtesy();
        options.ignores_pressure = setting == Setting::ClassOnly;
        let has_ended = AtomicBool::new(false);
        let found = thread::scope(|scope| {
            scope.spawn(|| {
                run(&self.seats, &options, &self.messages, |queue| {
                    let feeds = || !has_ended.load(Ordering::Relaxed);
                    while feeds() && queue.push(self.messages.task()).is_ok() {
                        // `push` waits while the queue is full.
                    }
                    queue.stop();
                });
            });
            thread::sleep(WARMING);
            let mut watch = Watch { messages: &self.messages, before: Look::new(&self.messages) };
            let found = meanwhile(&mut watch);
            let work = watch.before.until(Look::new(&self.messages));
            has_ended.store(true, Ordering::Relaxed);
            found.map(|found| (found, work))
        });
        match self.messages.trouble() {
            Some(trouble) => Err(LabError::Unavailable(trouble)),
            None => found,
        }
    }
}

/// Watches Evener's work.
pub(super) struct Watch<'a> {
    messages: &'a Messages,
    before: Look,
}

impl Watch<'_> {
    /// Starts counting now.
    pub(super) fn begin(&mut self) {
        self.before = Look::new(self.messages);
    }
}

/// Work done and CPU time used up to a moment.
struct Look {
    at: Instant,
    cpu: Duration,
    done: Done,
}

impl Look {
    fn new(messages: &Messages) -> Look {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = Duration::try_from(cpu).unwrap_or_default();
        Look { at: Instant::now(), cpu, done: messages.done() }
    }

    fn until(&self, later: Look) -> Work {
        let seconds = (later.at - self.at).as_secs_f64();
        let cores = thread::available_parallelism().map_or(1, usize::from) as f64;
        let by_modules = (later.done.by_modules - self.done.by_modules) as f64;
        let bytes = (later.done.by_cpu - self.done.by_cpu) as f64 + by_modules;
        Work {
            mb_per_s: bytes / seconds / 1e6,
            module_percent: if bytes > 0.0 { 100.0 * by_modules / bytes } else { 0.0 },
            cpu_percent: 100.0 * (later.cpu - self.cpu).as_secs_f64() / seconds / cores,
        }
    }
}

/// Capacity of the queue, in tasks.
const QUEUE: usize = 64;

/// Warm-up time before the measurement: threads start and the policy measures engines.
const WARMING: Duration = Duration::from_millis(300);
