//! The cost of a job.

use serde::Serialize;

use super::outcome::Outcome;

/// Prices, in dollars.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Prices {
    /// 1,000 reads: GET and HEAD.
    pub reads: f64,
    /// 1,000 writes and listings: PUT, POST and LIST.
    pub writes: f64,
    /// A gigabyte (10^9 bytes) in either direction.
    pub gigabyte: f64,
    /// An hour of one worker's machine.
    pub hour: f64,
}

impl Default for Prices {
    /// Amazon's list prices of S3 Standard in us-east-1 in 2026
    /// (<https://aws.amazon.com/s3/pricing/>), without machines. Transfers inside a region are free.
    fn default() -> Prices {
        Prices { reads: 0.0004, writes: 0.005, gigabyte: 0.0, hour: 0.0 }
    }
}

impl Prices {
    /// These prices, with others for some.
    #[must_use]
    pub fn with(self, change: impl FnOnce(&mut Prices)) -> Prices {
        let mut prices = self;
        change(&mut prices);
        prices
    }
}

/// The cost of a job, in dollars. Storage costs extra.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Cost {
    /// Reads.
    pub reads: f64,
    /// Writes and listings.
    pub writes: f64,
    /// Transfer.
    pub transfer: f64,
    /// Machines: all workers, from the first one's start to the last receipt, and one of them while
    /// the job is planned and finished.
    pub machines: f64,
    /// All together.
    pub total: f64,
}

impl Outcome {
    /// The cost of the job.
    pub fn cost(&self, prices: &Prices) -> Cost {
        let reads = self.requests.reads() as f64 / 1000.0 * prices.reads;
        let written = self.requests.writes() + self.requests.list;
        let writes = written as f64 / 1000.0 * prices.writes;
        let moved = self.bytes_read as f64 + self.bytes_written as f64;
        let transfer = moved / 1e9 * prices.gigabyte;
        let alone = self.plan_seconds + self.finish_seconds;
        let hours = (self.run_seconds * self.workers as f64 + alone) / 3600.0;
        let machines = hours * prices.hour;
        Cost { reads, writes, transfer, machines, total: reads + writes + transfer + machines }
    }
}
