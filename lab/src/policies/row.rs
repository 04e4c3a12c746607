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
    /// The number of files in each run.
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
    /// The number of files that engines of the kind `cpu` did, a mean over the runs.
    pub files_cpu: f64,
    /// The number of files that modules did, a mean over the runs.
    pub files_module: f64,
}

impl Row {
    /// Checks that each run did all files, and that the times are plausible.
    ///
    /// # Errors
    /// When a run did not, or a time is not plausible.
    pub(super) fn check(&self) -> Result<(), LabError> {
        let Row { bytes, policy, cipher, direction, files, .. } = self;
        let name = format!("{policy}, {cipher} {direction}, {bytes} bytes");
        // The sum of two means over runs that each did all files.
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
        if let Some(ms) = times.iter().find(|ms| !ms.is_finite() || **ms <= 0.0) {
            return Err(LabError::Unavailable(format!("{name}: {ms} ms is no time of a run")));
        }
        let is_between = |ms: f64| (self.ms_min..=self.ms_max).contains(&ms);
        // A mean may be rounded.
        let is_mean =
            is_between(self.ms_mean) || self.ms_max - self.ms_min < self.ms_max * ROUNDING;
        if !is_mean || !is_between(self.ms_median) {
            let reason = format!("{name}: the mean and the median are not between the extremes");
            return Err(LabError::Unavailable(reason));
        }
        let by_others = match &**policy {
            "cpu-only" => self.files_module,
            "module-only" => self.files_cpu,
            _ => 0.0,
        };
        match by_others > 0.0 {
            true => {
                Err(LabError::Unavailable(format!("{name}: engines of another kind did files")))
            }
            false => Ok(()),
        }
    }
}

/// The tolerance between the sum of two means and a whole number, relative to that number.
const ROUNDING: f64 = 1e-9;
