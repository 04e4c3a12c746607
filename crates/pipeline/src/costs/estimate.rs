//! The cost of jobs of one size class: an average that forgets, and that outliers can't spoil.

use evener_core::Point;

use crate::SizeClass;

/// The cost of a job, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Wall time.
    pub wall: f64,
    /// Mean deviation of the wall time.
    pub spread: f64,
    /// The least wall time, when the job had to wait for nothing.
    pub least_wall: f64,
    /// CPU time, with the hidden part.
    pub cpu: f64,
    /// The part of the CPU time that no thread's clock shows, according to a profile.
    pub hidden: f64,
    /// The number of measurements at about this size; 0 for a bound from other sizes or from a
    /// session's first jobs.
    pub samples: f64,
}

impl Cost {
    /// Returns whether it was measured at about this size, and often enough to rely on.
    pub fn is_firm(&self) -> bool {
        self.samples >= FIRM
    }

    /// One job's share, if `jobs` jobs together cost this.
    pub(super) fn shared(self, jobs: f64) -> Cost {
        let Cost { wall, spread, least_wall, cpu, hidden, samples } = self;
        Cost {
            wall: wall / jobs,
            spread: spread / jobs,
            least_wall: least_wall / jobs,
            cpu: cpu / jobs,
            hidden: hidden / jobs,
            samples,
        }
    }
}

/// The estimated cost of a size class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    bytes: f64,
    wall: f64,
    spread: f64,
    least_wall: f64,
    /// CPU time by the threads' clocks.
    cpu: f64,
    hidden: f64,
    samples: f64,
}

impl Estimate {
    pub(super) fn new(bytes: f64, wall: f64, cpu: f64) -> Estimate {
        let spread = wall * FIRST_SPREAD;
        Estimate { bytes, wall, spread, least_wall: wall, cpu, hidden: 0.0, samples: 1.0 }
    }

    /// An estimate from the first jobs of a session, which take longer than later ones: a bound
    /// until there is a sample.
    pub(super) fn cold(self) -> Estimate {
        Estimate { samples: 0.0, ..self }
    }

    /// Sets the CPU time that no thread's clock shows.
    pub(super) fn hiding(self, hidden: f64) -> Estimate {
        Estimate { hidden, ..self }
    }

    /// An estimate from an earlier run: reliable, and soon replaced.
    pub(super) fn remembered(point: &Point) -> Estimate {
        let &Point { bytes, wall_us, cpu_us, hidden_us } = point;
        let known = Estimate::new(bytes as f64, wall_us, cpu_us).hiding(hidden_us);
        Estimate { samples: FIRM, ..known }
    }

    /// Adds a sample. The first few have equal weight, and the CPU time is the least of them, since
    /// first jobs may cost more than later ones and never cost less. Each later sample replaces a
    /// sixth of the estimate. A sample far from the estimate is clamped, so that a single
    /// interruption changes little and a lasting change soon counts.
    pub(super) fn learn(&mut self, bytes: f64, wall: f64, cpu: f64) {
        let weight = (1.0 / (self.samples + 1.0)).max(LEAST_WEIGHT);
        let far = if self.samples < FIRM { f64::INFINITY } else { FAR };
        let towards = |known: &mut f64, sample: f64| {
            // Like `clamp`, which panics if a bound is NaN.
            let near = sample.max(*known / far).min((*known * far).max(RESOLUTION));
            *known += (near - *known) * weight;
        };
        let away = (wall - self.wall).abs();
        towards(&mut self.wall, wall);
        self.spread += (away.min(self.spread * far + RESOLUTION) - self.spread) * weight;
        if self.samples > 0.0 && self.samples < FIRM {
            self.cpu = self.cpu.min(cpu);
        } else {
            towards(&mut self.cpu, cpu);
        }
        let risen = self.least_wall + (self.wall - self.least_wall).max(0.0) * RISE;
        self.least_wall = if self.samples < 1.0 { wall } else { risen.min(wall) };
        self.bytes += (bytes - self.bytes) * weight;
        self.samples += 1.0;
    }

    pub(super) fn cost(&self) -> Cost {
        let Estimate { wall, spread, least_wall, cpu, hidden, samples, .. } = *self;
        Cost { wall, spread, least_wall, cpu: cpu + hidden, hidden, samples }
    }
}

/// The estimate of each size class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    classes: [Option<Estimate>; SizeClass::COUNT],
    /// One bit for each class with an estimate: every claim looks for the nearest ones.
    known: u64,
}

impl Line {
    pub(super) fn new() -> Line {
        Line { classes: [None; SizeClass::COUNT], known: 0 }
    }

    pub(super) fn of(&mut self, class: SizeClass) -> Option<&mut Estimate> {
        self.classes[class.number()].as_mut()
    }

    pub(super) fn set(&mut self, class: SizeClass, estimate: Estimate) {
        self.known |= 1 << class.number();
        self.classes[class.number()] = Some(estimate);
    }

    /// The estimates of the nearest smaller size and of the nearest size that is not smaller.
    fn around(&self, bytes: f64) -> (Option<&Estimate>, Option<&Estimate>) {
        let own = SizeClass::of(bytes as u64).number();
        let at = |number: u32| self.classes.get(number as usize)?.as_ref();
        let below = (self.known & ((1 << own) - 1)).checked_ilog2().and_then(at);
        let above = at((self.known & (u64::MAX << (own + 1))).trailing_zeros());
        match &self.classes[own] {
            Some(known) if known.bytes < bytes => (Some(known), above),
            Some(known) => (below, Some(known)),
            None => (below, above),
        }
    }
}

/// The cost of a job of `bytes` bytes by the estimates of all size classes, as
/// [`EngineCosts::cost`](super::EngineCosts::cost) describes.
pub(super) fn between(classes: &Line, bytes: f64) -> Option<Cost> {
    let is_near = |known: &Estimate| {
        known.bytes <= NEAR * bytes.max(1.0) && bytes <= NEAR * known.bytes.max(1.0)
    };
    let (below, above) = classes.around(bytes);
    let (lower, upper) = match (below, above) {
        (Some(lower), Some(upper)) => (lower, upper),
        (None, Some(first)) => {
            let cost = first.cost();
            return Some(Cost { samples: if is_near(first) { cost.samples } else { 0.0 }, ..cost });
        }
        (Some(last), None) => {
            let times = bytes / last.bytes.max(1.0);
            let cost = last.cost().shared(1.0 / times);
            return Some(Cost { samples: if times <= NEAR { cost.samples } else { 0.0 }, ..cost });
        }
        (None, None) => return None,
    };
    let (from, to) = (lower.cost(), upper.cost());
    let along = (bytes - lower.bytes) / (upper.bytes - lower.bytes).max(1e-9);
    let on_line = |from: f64, to: f64| from + (to - from) * along;
    Some(Cost {
        wall: on_line(from.wall, to.wall),
        spread: on_line(from.spread, to.spread),
        least_wall: on_line(from.least_wall, to.least_wall),
        cpu: on_line(from.cpu, to.cpu),
        hidden: on_line(from.hidden, to.hidden),
        samples: match (is_near(lower), is_near(upper)) {
            (true, false) => from.samples,
            (false, true) => to.samples,
            (true, true) => from.samples.max(to.samples),
            (false, false) => from.samples.min(to.samples),
        },
    })
}

/// The number of samples that make an estimate firm.
const FIRM: f64 = 3.0;

/// The largest ratio between two jobs' lengths at which one tells the cost of the other.
const NEAR: f64 = 1.5;

/// The assumed spread after one sample, as a part of the wall time.
const FIRST_SPREAD: f64 = 0.5;

/// The least weight of a sample.
const LEAST_WEIGHT: f64 = 1.0 / 6.0;

/// The part of the way to the average by which a sample raises the least wall time, which makes an
/// old minimum fade.
const RISE: f64 = 1.0 / 512.0;

/// The largest factor between an estimate and a sample; samples beyond it are clamped.
const FAR: f64 = 3.0;

/// The resolution of clocks, in microseconds: no sample is clamped to less.
const RESOLUTION: f64 = 0.01;
