//! What jobs of one size class cost: an average that forgets, and that outliers can't spoil.

use evener_core::Point;

use crate::SizeClass;

/// What a job costs, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// How long it takes.
    pub wall: f64,
    /// How far from that it is on average.
    pub spread: f64,
    /// How long it took at least, when it had to wait for nothing.
    pub least_wall: f64,
    /// How long it keeps a core busy, with what is hidden.
    pub cpu: f64,
    /// What of that no thread's clock shows, as far as a profile says it.
    pub hidden: f64,
    /// How often it was measured, about this size; 0 for a bound taken from other sizes or from
    /// a session's first jobs.
    pub samples: f64,
}

impl Cost {
    /// Whether it was measured about this size, and often enough to rely on.
    pub fn is_firm(&self) -> bool {
        self.samples >= FIRM
    }

    /// A job's part, when `jobs` of them cost this together.
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

/// What is known of a size class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    bytes: f64,
    wall: f64,
    spread: f64,
    least_wall: f64,
    /// By the threads' clocks.
    cpu: f64,
    hidden: f64,
    samples: f64,
}

impl Estimate {
    pub(super) fn new(bytes: f64, wall: f64, cpu: f64) -> Estimate {
        let spread = wall * FIRST_SPREAD;
        Estimate { bytes, wall, spread, least_wall: wall, cpu, hidden: 0.0, samples: 1.0 }
    }

    /// From the first jobs of a session, which take longer than others: a bound until there is
    /// a sample.
    pub(super) fn cold(self) -> Estimate {
        Estimate { samples: 0.0, ..self }
    }

    /// With CPU time that no thread's clock shows.
    pub(super) fn hiding(self, hidden: f64) -> Estimate {
        Estimate { hidden, ..self }
    }

    /// From an earlier run: to be relied on, and soon to be replaced.
    pub(super) fn remembered(point: &Point) -> Estimate {
        let &Point { bytes, wall_us, cpu_us, hidden_us } = point;
        let known = Estimate::new(bytes as f64, wall_us, cpu_us).hiding(hidden_us);
        Estimate { samples: FIRM, ..known }
    }

    /// Takes a sample in. The first few count alike, of CPU time the least of them, since first
    /// jobs may cost more than others and never cost less; later ones replace a sixth of what is
    /// known, and one that is far from it counts as if it were not so far, so that a single
    /// interruption changes little and a lasting change is soon believed.
    pub(super) fn learn(&mut self, bytes: f64, wall: f64, cpu: f64) {
        let weight = (1.0 / (self.samples + 1.0)).max(LEAST_WEIGHT);
        let far = if self.samples < FIRM { f64::INFINITY } else { FAR };
        let towards = |known: &mut f64, sample: f64| {
            // As `clamp`, which panics where the bounds are no numbers.
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

/// What is known of each size class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    classes: [Option<Estimate>; SizeClass::COUNT],
    /// One bit for each class of which something is known: every claim looks for the nearest ones.
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

    /// What is known of the nearest smaller size, and of the nearest that is not smaller.
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

/// What a job of `bytes` bytes costs by the estimates of all size classes, as
/// [`EngineCosts::cost`](super::EngineCosts::cost) says.
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

/// How many samples make an estimate firm.
const FIRM: f64 = 3.0;

/// How many times the length of a job another may have to tell what it costs.
const NEAR: f64 = 1.5;

/// How far from its time a job may be of which one sample is known.
const FIRST_SPREAD: f64 = 0.5;

/// How much a sample counts at least.
const LEAST_WEIGHT: f64 = 1.0 / 6.0;

/// How much of the way to the average the least rises with a sample, so that it is forgotten.
const RISE: f64 = 1.0 / 512.0;

/// How many times larger or smaller than what is known a sample counts at most.
const FAR: f64 = 3.0;

/// What clocks tell apart, in microseconds: nothing is clamped to less.
const RESOLUTION: f64 = 0.01;
