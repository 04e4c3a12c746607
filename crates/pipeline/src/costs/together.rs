//! How much engines do together.
//!
//! What a module costs is not all seen in its worker's CPU time: its driver has threads of its
//! own, its interrupts stop whoever runs, and a worker of the processor that runs beside it makes
//! it late. All of that shows in how much gets done when both work, against one of them alone.

use std::collections::BTreeMap;

use crate::SizeClass;

/// How much some engines do together, of jobs of about one size.
#[derive(Clone, Debug, PartialEq)]
pub struct TeamRate {
    /// The engines, and how many workers of each work at a time.
    pub engines: BTreeMap<String, usize>,
    /// Whether those that compute on the cores let the threads of modules go first.
    pub yields: bool,
    /// The mean length of a job.
    pub bytes: f64,
    /// How many jobs they do in a microsecond.
    pub rate: f64,
    /// How often that was measured, as far as it counts; 0 where too much has changed since.
    pub samples: f64,
}

impl TeamRate {
    /// Whether another figure is of the same engines, working in the same way on the same size
    /// class, and so replaces this.
    pub fn is_replaced_by(&self, other: &TeamRate) -> bool {
        let is_alike = self.engines == other.engines && self.yields == other.yields;
        is_alike && self.class() == other.class()
    }

    /// The class of its jobs' mean size.
    pub fn class(&self) -> SizeClass {
        SizeClass::of(self.bytes.round() as u64)
    }
}
