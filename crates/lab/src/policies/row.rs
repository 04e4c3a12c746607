//! One row of a table of policies.

use serde::{Deserialize, Serialize};

/// The time of one policy for files of one size: measured, modelled or simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The length of each file.
    pub bytes: usize,
    /// The policy's name, such as `round-robin`.
    pub policy: String,
    /// The cipher's OpenSSL name.
    pub cipher: String,
    /// `encrypt` or `decrypt`.
    pub direction: String,
    /// How many files each run had.
    pub files: u64,
    /// Number of runs.
    pub runs: u64,
    /// The mean of the runs' times, in milliseconds.
    pub ms_mean: f64,
    /// Their median.
    pub ms_median: f64,
    /// The shortest.
    pub ms_min: f64,
    /// The longest.
    pub ms_max: f64,
    /// How many files engines of the kind `cpu` did, a mean over the runs.
    pub files_cpu: f64,
    /// How many files modules did, a mean over the runs.
    pub files_module: f64,
}
