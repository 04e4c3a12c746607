//! One row of a table of policies.

use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::done::{Amount, all_done};

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

impl Row {
    /// Checks that each run did all files, in a time.
    ///
    /// # Errors
    /// Where one did not.
    pub(super) fn check(&self) -> Result<(), LabError> {
        let Row { bytes, policy, cipher, direction, files, .. } = self;
        let name = format!("{policy}, {cipher} {direction}, {bytes} bytes");
        // Means of runs that each did all of them.
        let done = self.files_cpu + self.files_module;
        let is_all = (done - *files as f64).abs() <= ROUNDING * *files as f64;
        let done = match done {
            _ if self.runs == 0 => 0,
            _ if is_all => *files,
            more if more > *files as f64 => more.ceil() as u64,
            less => less as u64,
        };
        all_done(&name, Amount::of(done, *bytes), Amount::of(*files, *bytes))?;
        let times = [self.ms_mean, self.ms_median, self.ms_min, self.ms_max];
        match times.iter().find(|ms| !ms.is_finite() || **ms <= 0.0) {
            Some(ms) => Err(LabError::Unavailable(format!("{name}: {ms} ms is no time of a run"))),
            None => Ok(()),
        }
    }
}

/// How much the sum of two means may differ from a whole number.
const ROUNDING: f64 = 1e-9;
