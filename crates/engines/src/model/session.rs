//! Doing the work, and taking the modelled time for it.

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
    /// CPU time taken beyond the modelled, to be saved with the next jobs.
    overdrawn: Duration,
    /// Time on the device that was too short for a sleep, to be taken with the next jobs.
    owed: Duration,
    /// When the previous batch ended, on which thread's clock of CPU time.
    ended: Option<(ThreadId, Duration)>,
    /// All CPU time that was modelled.
    modelled: Duration,
    /// CPU time taken beyond it that was too much to be saved later.
    lost: Duration,
}

/// What a batch costs.
#[derive(Clone, Copy, Default)]
struct Cost {
    cpu: Duration,
    /// On the device, it being idle otherwise.
    device: Duration,
    /// On the device, all of its other places being taken.
    device_when_full: Duration,
}

impl ModelSession {
    pub(super) fn new(inner: Box<dyn Session>, shared: Arc<Shared>) -> ModelSession {
        wake_on_time();
        let (overdrawn, owed) = (Duration::ZERO, Duration::ZERO);
        let (modelled, lost) = (Duration::ZERO, Duration::ZERO);
        ModelSession { inner, shared, overdrawn, owed, ended: None, modelled, lost }
    }

    /// Takes what is left of the batch's cost after the thread was on its core since `began`.
    /// Returns when it has been taken.
    fn take_time(&mut self, cost: Cost, began: Duration) -> Duration {
        let Shared { device, sleep, .. } = &*self.shared;
        let planned = cost.cpu.saturating_sub(self.overdrawn);
        let on_device = cost.device + self.owed;
        let is_asleep = on_device > sleep.shortest();
        // Going to sleep and waking up is a part of what the modelled driver does.
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

    /// What the thread has spent since the previous batch, as far as the costs include that.
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
            eprintln!("{name}: takes {percent:.0} % more CPU time than its profile says");
        }
    }
}

impl Session for ModelSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        // A look takes as long before the clock is read as after it, so that two take a whole
        // one that they don't show.
        let began = thread_time().saturating_sub(self.shared.sleep.look);
        let pending = batch.iter().filter(|job| job.outcome == Outcome::Pending).count();
        self.inner.process(batch)?;
        if pending > 0 {
            // A batch in which some jobs had an outcome before costs in proportion.
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
        // All that a processor does it does on the core, whatever else was measured.
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

/// A profile may say anything, so times are bounded.
fn microseconds(time: f64) -> Duration {
    Duration::from_secs_f64((time * 1e-6).clamp(0.0, LONGEST_JOB))
}

/// In seconds.
const LONGEST_JOB: f64 = 3600.0;

/// What may be saved later: enough for a sleep that cost much, and no more than a job or two.
const MOST_OVERDRAWN: Duration = Duration::from_micros(500);

/// A thread that is charged for an interrupt or two is not late yet.
const LOST_BY_CHANCE: Duration = Duration::from_millis(10);
