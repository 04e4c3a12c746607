//! The workers, the store and the failures of a simulation.

/// All that a simulation assumes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// The number of workers, each one process on one machine.
    pub workers: u64,
    /// Each worker's machine.
    pub machine: Machine,
    /// The store's answers.
    pub limits: Limits,
    /// The failures of workers.
    pub failures: Failures,
    /// Draws what is random.
    pub seed: u64,
}

/// The machine of one worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// The most requests at once.
    pub requests: u64,
    /// The bytes a second that it receives at most.
    pub down: f64,
    /// The bytes a second that it sends at most.
    pub up: f64,
    /// The bytes a second of one connection at most.
    pub connection: f64,
    /// The number of cores.
    pub cores: f64,
    /// The CPU time of an object without its bytes, in seconds.
    pub object_cpu: f64,
    /// The CPU time of a byte that is read, sealed and written, in seconds.
    pub byte_cpu: f64,
}

/// The speed of the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The time until the first byte of an answer, in seconds.
    pub latency: f64,
    /// The time of a page of a listing, in seconds.
    pub list_latency: f64,
    /// The directories of the source that are listed at once, at most as many as there are requests.
    pub lists: u64,
    /// Reads a second of a prefix; above, the store answers 503.
    pub reads: f64,
    /// Writes a second of a prefix; above, the store answers 503.
    pub writes: f64,
    /// The number of prefixes of the source that the store serves apart.
    pub source_prefixes: u64,
    /// The number of prefixes of the target that the store serves apart: at most 256, the
    /// directories of `data/`.
    pub target_prefixes: u64,
}

/// The failures of workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failures {
    /// How often a worker is killed, each hour on average.
    pub kills: f64,
    /// The time until a killed worker begins again, in seconds.
    pub restart: f64,
    /// The share of workers that are slower, from 0 to 1.
    pub stragglers: f64,
    /// How many times slower these are.
    pub slowness: f64,
}

impl Default for Machine {
    /// A machine with 16 cores and 10 Gbit/s. The CPU times are those of docs/evidence/benchmarks.md
    /// for both ways of an object store together.
    fn default() -> Machine {
        Machine {
            requests: 32,
            down: 1.25e9,
            up: 1.25e9,
            connection: 90e6,
            cores: 16.0,
            object_cpu: 0.66e-3,
            byte_cpu: 2.53 / 1024.0 / 1024.0 / 1024.0,
        }
    }
}

impl Default for Limits {
    /// Amazon's store, as its documents have it: 3,500 writes and 5,500 reads a second for each
    /// prefix.
    fn default() -> Limits {
        Limits {
            latency: 0.05,
            list_latency: 0.1,
            lists: 1,
            reads: 5500.0,
            writes: 3500.0,
            source_prefixes: 1,
            target_prefixes: 256,
        }
    }
}

impl Default for Failures {
    /// None.
    fn default() -> Failures {
        Failures { kills: 0.0, restart: 60.0, stragglers: 0.0, slowness: 4.0 }
    }
}
