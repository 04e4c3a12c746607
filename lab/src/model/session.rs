//! Processes jobs in the modelled time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use evener_core::{Direction, EngineError, Includes, Job, Kind, Outcome, Session};

use super::Shared;
use super::clock::{burn, thread_time, wake_on_time};

pub(super) struct ModelSession {
    inner: Box<dyn Session>,
    shared: Arc<Shared>,
    /// Excess CPU time, to be subtracted from the next jobs.
    overdrawn: Duration,
    /// Device time too short for a sleep, to be added to the next jobs.
    owed: Duration,
    /// The end of the previous batch, on the CPU clock of that thread.
    ended: Option<(ThreadId, Duration)>,
    /// All CPU time that was modelled.
    modelled: Duration,
    /// Excess CPU time that was too much to be subtracted later.
    lost: Duration,
}

/// The cost of a batch.
#[derive(Clone, Copy, Default)]
struct Cost {
    cpu: Duration,
    /// Device time on an otherwise idle device.
    device: Duration,
    /// Device time with all other slots in use.
    device_when_full: Duration,
}

impl ModelSession {
    pub(super) fn new(inner: Box<dyn Session>, shared: Arc<Shared>) -> ModelSession {
        wake_on_time();
        let (overdrawn, owed) = (Duration::ZERO, Duration::ZERO);
        let (modelled, lost) = (Duration::ZERO, Duration::ZERO);
        ModelSession { inner, shared, overdrawn, owed, ended: None, modelled, lost }
    }

    /// Spends the rest of the batch's time; the thread has been busy since `began`.
    fn take_time(&mut self, cost: Cost, began: Duration) -> Duration {
        let Shared { device, sleep, .. } = &*self.shared;
        let planned = cost.cpu.saturating_sub(self.overdrawn);
        let on_device = cost.device + self.owed;
        let is_asleep = on_device > sleep.shortest();
        // Falling asleep and waking up is part of the modelled driver's work.
        let before = if is_asleep { planned.saturating_sub(sleep.cost) } else { planned };
        burn(began + before);
        if is_asleep {
            let longer = cost.device_when_full.saturating_sub(cost.device);
            let done = device.submit(Instant::now(), |taken| on_device + longer.mul_f64(taken));
            sleep.until(done + sleep.cost);
            burn(began + planned);
            self.owed = Duration::ZERO;
        } else {
            self.owed = on_device;
        }
        let ended = thread_time();
        self.account(cost.cpu, ended.saturating_sub(began));
        ended
    }

    /// The thread's CPU time since the previous batch, if the costs include it.
    fn spent_between(&self, began: Duration) -> Duration {
        match self.ended {
            Some((thread, ended))
                if self.shared.includes == Includes::Queue && thread == thread::current().id() =>
            {
                began.saturating_sub(ended)
            }
            _ => Duration::ZERO,
        }
    }

    fn account(&mut self, modelled: Duration, used: Duration) {
        let overdrawn = (self.overdrawn + used).saturating_sub(modelled);
        self.overdrawn = overdrawn.min(MOST_OVERDRAWN);
        self.lost += overdrawn - self.overdrawn;
        self.modelled += modelled;
        let is_late = self.lost > self.modelled / 20 && self.lost > LOST_BY_CHANCE;
        if is_late && !self.shared.is_known_late.swap(true, Ordering::Relaxed) {
            let percent = 100.0 * self.lost.as_secs_f64() / self.modelled.as_secs_f64();
            let name = &self.shared.name;
            (self.shared.complain)(&format_args!(
                "warning: engine `{name}` takes {percent:.0} % more CPU time than its profile says"
            ));
        }
    }
}

impl Session for ModelSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        // Half of a reading's time passes before the clock is read and half after, so two readings
        // hide the time of one.
        let began = thread_time().saturating_sub(self.shared.sleep.look);
        let pending = batch.iter().filter(|job| job.outcome == Outcome::Pending).count();
        self.inner.process(batch)?;
        if pending > 0 {
            // Jobs that had an outcome before the call cost nothing.
            let share = pending as f64 / batch.len() as f64;
            let cost = batch.iter().fold(Cost::default(), |sum, job| sum.add(&self.shared, job));
            let cost = cost.scaled(share);
            let spent = self.spent_between(began).min(cost.cpu);
            let ended = self.take_time(cost, began.saturating_sub(spent));
            self.ended = Some((thread::current().id(), ended));
        }
        Ok(())
    }
}

impl Cost {
    fn add(self, shared: &Shared, job: &Job<'_>) -> Cost {
        let bytes = match (shared.direction, job.outcome) {
            (Direction::Decrypt, Outcome::Done { written }) => written,
            _ => job.input.len(),
        };
        let alone = shared.costs.cost(bytes);
        // All work of a CPU engine is CPU time, whatever the profile says.
        if shared.costs.kind == Kind::Cpu {
            return Cost { cpu: self.cpu + microseconds(alone.wall_us), ..self };
        }
        let full = shared.costs_when_full.as_ref().map_or(alone, |costs| costs.cost(bytes));
        Cost {
            cpu: self.cpu + microseconds(alone.cpu_us),
            device: self.device + microseconds(alone.wall_us - alone.cpu_us),
            device_when_full: self.device_when_full + microseconds(full.wall_us - alone.cpu_us),
        }
    }

    fn scaled(self, by: f64) -> Cost {
        Cost {
            cpu: self.cpu.mul_f64(by),
            device: self.device.mul_f64(by),
            device_when_full: self.device_when_full.mul_f64(by),
        }
    }
}

/// A profile may contain any number, so times are limited.
fn microseconds(time: f64) -> Duration {
    Duration::from_secs_f64((time * 1e-6).clamp(0.0, LONGEST_JOB))
}

/// The longest modelled time of a job, in seconds.
const LONGEST_JOB: f64 = 3600.0;

/// The most excess to subtract later: enough for an expensive sleep, and no more than a job or two.
const MOST_OVERDRAWN: Duration = Duration::from_micros(500);

/// Tolerance for a few interrupts.
const LOST_BY_CHANCE: Duration = Duration::from_millis(10);
