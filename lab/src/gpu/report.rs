//! The report, one JSON document. A GB is 10^9 bytes.

use evener_gpu::ceilings::Facts;
use serde::Serialize;

use crate::machine::Machine;

/// The report.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The program's version.
    pub version: &'static str,
    /// The type of device: `gpu`; or the platform, such as `pocl`, if the device computes on the
    /// processor's cores, so that the figures do not apply to a GPU.
    pub runs_on: String,
    /// The processor and its memory.
    pub machine: Machine,
    /// The device.
    pub device: Facts,
    /// Copies between page-locked memory and the device.
    pub copies: Vec<Copy>,
    /// Copies by the processor.
    pub memory: Memory,
    /// Look-ups in the device's shared memory, the ceiling of AES; `None` if they failed.
    pub shared_memory: Option<SharedMemory>,
    /// The engine's self-test with known answers, for each cipher and direction.
    pub conformance: Vec<Conformance>,
    /// Kernels by themselves, on random texts in the device's memory, timed by the device's clock.
    /// Every result was compared.
    pub kernels: Vec<Kernel>,
    /// Texts that are sealed in the device's memory, by the wall clock.
    pub resident: Vec<Resident>,
    /// Figures that other programs printed of themselves.
    pub peers: Vec<Peer>,
    /// The engine's sessions, with copies interleaved.
    pub sessions: Vec<Sessions>,
    /// Runs on the cores, the GPU and both.
    pub together: Vec<Together>,
    /// Measurements that were not possible, with the reason.
    pub missing: Vec<String>,
}

/// Copies of one length.
#[derive(Clone, Debug, Serialize)]
pub struct Copy {
    pub bytes: usize,
    /// Rate to the device alone.
    pub up_gb_per_second: f64,
    /// Rate from the device alone.
    pub down_gb_per_second: f64,
    /// Rate in each direction, with both at once.
    pub each_way_gb_per_second: f64,
}

/// `memcpy` of buffers that are in no cache; the figures count bytes copied, not bytes read and
/// written.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    pub one_thread_gb_per_second: f64,
    pub threads: usize,
    pub all_threads_gb_per_second: f64,
}

/// Words of 4 bytes looked up in shared memory, each lane in its own bank.
#[derive(Clone, Debug, Serialize)]
pub struct SharedMemory {
    /// Rate of all units, as measured.
    pub words_per_second: f64,
    /// Rate of one unit by its own clock, as measured; `None` with OpenCL, which has no such clock.
    pub words_per_clock: Option<f64>,
    /// Rate of all units, as computed: 32 words in each cycle of the highest clock that the driver
    /// reports; `None` if it reports none.
    pub computed_words_per_second: Option<f64>,
    /// The ceilings of AES that follow.
    pub ceilings: Vec<Ceiling>,
}

/// The most that AES can reach if a block takes `words_of_a_block` words and nothing else takes
/// time.
#[derive(Clone, Debug, Serialize)]
pub struct Ceiling {
    pub cipher: &'static str,
    pub words_of_a_block: u32,
    pub gb_per_second: f64,
    pub computed_gb_per_second: Option<f64>,
}

/// A figure of another program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peer {
    pub program: String,
    pub cipher: String,
    pub gb_per_second: f64,
}

/// A self-test.
#[derive(Clone, Debug, Serialize)]
pub struct Conformance {
    pub cipher: String,
    pub direction: String,
    /// `passed`, or the failure.
    pub result: String,
}

/// A kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Kernel {
    pub cipher: String,
    pub direction: String,
    /// Bytes of a message.
    pub message: usize,
    /// Total bytes.
    pub bytes: usize,
    pub gb_per_second: f64,
}

/// A text that is sealed in the device's memory.
#[derive(Clone, Debug, Serialize)]
pub struct Resident {
    pub cipher: String,
    pub bytes: usize,
    /// Rate of sealing, without the preparation.
    pub gb_per_second: f64,
    /// Time for the stream, its memory and the key, which every call prepares.
    pub preparation_milliseconds: f64,
}

/// Sessions of several workers, each with its own batches.
#[derive(Clone, Debug, Serialize)]
pub struct Sessions {
    pub cipher: String,
    /// Bytes of a message.
    pub message: usize,
    /// Bytes of a batch.
    pub batch: usize,
    pub workers: usize,
    pub gb_per_second: f64,
    /// Rate of copies of the same bytes, each way, before and after.
    pub copies_gb_per_second: f64,
    /// The fraction of that rate that the sessions reached.
    pub part_of_copies: f64,
    /// CPU time of the whole process.
    pub cpu_milliseconds_per_gb: f64,
}

/// The same messages on different engines.
#[derive(Clone, Debug, Serialize)]
pub struct Together {
    pub cipher: String,
    /// Bytes of a message.
    pub message: usize,
    pub cores: Rate,
    pub gpu: Rate,
    pub both: Rate,
}

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    pub gb_per_second: f64,
    pub cpu_milliseconds_per_gb: f64,
}
