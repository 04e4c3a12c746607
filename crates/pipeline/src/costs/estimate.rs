//! The cost of jobs of one size class: a moving average that limits the effect of outliers.

use crate::SizeClass;

/// The cost of a job, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Wall time.
    pub wall: f64,
    /// The least wall time, without any wait.
    pub least_wall: f64,
    /// CPU time.
    pub cpu: f64,
    /// Number of measurements of about this size; 0 for a bound from other sizes or from a
    /// session's first jobs.
    pub samples: f64,
}

impl Cost {
    /// Whether there are enough measurements of about this size.
    pub fn is_firm(&self) -> bool {
        self.samples >= FIRM
    }

    /// The cost of one job, if this is the cost of `jobs` jobs.
    pub(super) fn shared(self, jobs: f64) -> Cost {
        let Cost { wall, least_wall, cpu, samples } = self;
        Cost { wall: wall / jobs, least_wall: least_wall / jobs, cpu: cpu / jobs, samples }
    }
}

/// The estimate for a size class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    bytes: f64,
    wall: f64,
    least_wall: f64,
    cpu: f64,
    samples: f64,
}

impl Estimate {
    pub(super) fn new(bytes: f64, wall: f64, cpu: f64) -> Estimate {
        Estimate { bytes, wall, least_wall: wall, cpu, samples: 1.0 }
    }

    /// From the first jobs of a session, which take longer: an upper bound until there is a sample.
    pub(super) fn cold(bytes: f64, wall: f64, cpu: f64) -> Estimate {
        Estimate { samples: 0.0, ..Estimate::new(bytes, wall, cpu) }
    }

    /// From an earlier run: firm, and soon replaced by samples.
    pub(super) fn remembered(bytes: f64, wall: f64, cpu: f64) -> Estimate {
        Estimate { samples: FIRM, ..Estimate::new(bytes, wall, cpu) }
    }

    /// Adds a sample. The first few have equal weight, and of their CPU time the least counts,
    /// because first jobs may cost more and never less. A later sample has a weight of one sixth,
    /// and its distance from the average is limited, so that a single interruption changes little
    /// and a lasting change takes effect soon.
    pub(super) fn learn(&mut self, bytes: f64, wall: f64, cpu: f64) {
        let weight = (1.0 / (self.samples + 1.0)).max(LEAST_WEIGHT);
        let far = if self.samples < FIRM { f64::INFINITY } else { FAR };
        let towards = |known: &mut f64, sample: f64| {
            let near = sample.clamp(*known / far, (*known * far).max(RESOLUTION));
            *known += (near - *known) * weight;
        };
        towards(&mut self.wall, wall);
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
        let Estimate { wall, least_wall, cpu, samples, .. } = *self;
        Cost { wall, least_wall, cpu, samples }
    }
}

/// The estimates of all size classes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    classes: [Option<Estimate>; SizeClass::COUNT],
    /// One bit for each class with an estimate, because this is read at every claim.
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

    /// The estimates, by growing size.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Estimate> {
        let mut left = self.known;
        std::iter::from_fn(move || {
            let number = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            self.classes.get(number)?.as_ref()
        })
    }
}

/// The cost of a job of `bytes` bytes from the estimates of all size classes; see
/// [`EngineCosts::cost`](super::EngineCosts::cost).
pub(super) fn between(classes: &Line, bytes: f64) -> Option<Cost> {
    let mut below: Option<&Estimate> = None;
    for known in classes.iter() {
        if known.bytes < bytes {
            below = Some(known);
            continue;
        }
        let above = known.cost();
        let is_near = |known: &Estimate| {
            known.bytes <= NEAR * bytes.max(1.0) && bytes <= NEAR * known.bytes.max(1.0)
        };
        let Some(lower) = below else {
            return Some(Cost {
                samples: if is_near(known) { above.samples } else { 0.0 },
                ..above
            });
        };
        let along = (bytes - lower.bytes) / (known.bytes - lower.bytes).max(1e-9);
        let on_line = |from: f64, to: f64| from + (to - from) * along;
        let from = lower.cost();
        return Some(Cost {
            wall: on_line(from.wall, above.wall),
            least_wall: on_line(from.least_wall, above.least_wall),
            cpu: on_line(from.cpu, above.cpu),
            samples: match (is_near(lower), is_near(known)) {
                (true, false) => from.samples,
                (false, true) => above.samples,
                (true, true) => from.samples.max(above.samples),
                (false, false) => from.samples.min(above.samples),
            },
        });
    }
    let last = below?;
    let times = bytes / last.bytes.max(1.0);
    let cost = last.cost().shared(1.0 / times);
    Some(Cost { samples: if times <= NEAR { cost.samples } else { 0.0 }, ..cost })
}

/// Number of samples that make an estimate firm.
const FIRM: f64 = 3.0;

/// The largest ratio of lengths at which the cost of one job bounds that of another.
const NEAR: f64 = 1.5;

/// The least weight of a sample.
const LEAST_WEIGHT: f64 = 1.0 / 6.0;

/// The part of its distance to the average by which the least wall time rises with a sample, so
/// that an old minimum is forgotten.
const RISE: f64 = 1.0 / 64.0;

/// The largest ratio of a sample to the average; a sample beyond it is clamped.
const FAR: f64 = 3.0;

/// The resolution of clocks, in microseconds: no sample is clamped to less.
const RESOLUTION: f64 = 0.01;
