//! The assumptions of a simulation, as options.

use std::num::NonZeroU64;
use std::time::Duration;

use clap::Args;
use evener::jobs::simulate::{Failures, Limits, Machine, Prices};

use crate::options::values;

/// The machine of each worker.
#[derive(Args)]
pub(super) struct MachineOptions {
    /// Bytes a second that a machine receives [default: 1250000000, which is 10 Gbit/s]
    #[arg(long, value_name = "RATE", value_parser = values::rate, help_heading = "Machines")]
    down: Option<NonZeroU64>,
    /// Bytes a second that a machine sends [default: 1250000000]
    #[arg(long, value_name = "RATE", value_parser = values::rate, help_heading = "Machines")]
    up: Option<NonZeroU64>,
    /// Bytes a second of one connection [default: 90000000]
    #[arg(long, value_name = "RATE", value_parser = values::rate, help_heading = "Machines")]
    connection: Option<NonZeroU64>,
    /// Number of cores
    #[arg(long, value_name = "N", default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(1..), help_heading = "Machines")]
    cores: u32,
    /// CPU time of an object without its bytes, in microseconds
    #[arg(long, value_name = "US", default_value_t = 660.0, value_parser = number,
        help_heading = "Machines")]
    object_cpu: f64,
    /// CPU time of a GiB that is read, sealed and written, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.53, value_parser = number,
        help_heading = "Machines")]
    byte_cpu: f64,
}

/// The store's speed.
#[derive(Args)]
pub(super) struct ServiceOptions {
    /// Time until the first byte of an answer
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = values::duration,
        help_heading = "Store")]
    latency: Duration,
    /// Time of a page of a listing
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = values::duration,
        help_heading = "Store")]
    list_latency: Duration,
    /// Number of directories of the source that `evener job plan` lists at once
    ///
    /// It lists subdirectories with many objects apart, up to --requests at once
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..), help_heading = "Store")]
    lists: u64,
    /// Reads a second of a prefix; above, the store answers 503
    #[arg(long, value_name = "N", default_value_t = 5500.0, value_parser = positive,
        help_heading = "Store")]
    reads: f64,
    /// Writes a second of a prefix; above, the store answers 503
    #[arg(long, value_name = "N", default_value_t = 3500.0, value_parser = positive,
        help_heading = "Store")]
    writes: f64,
    /// Number of prefixes of the source that the store serves apart
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..), help_heading = "Store")]
    source_prefixes: u64,
    /// Number of prefixes of the target that the store serves apart, up to 256
    #[arg(long, value_name = "N", default_value_t = 256,
        value_parser = clap::value_parser!(u64).range(1..=256), help_heading = "Store")]
    target_prefixes: u64,
}

/// The failures of workers.
#[derive(Args)]
pub(super) struct FailureOptions {
    /// How often a worker is killed, each hour on average
    #[arg(long, value_name = "N", default_value_t = 0.0, value_parser = number,
        help_heading = "Failures")]
    kills: f64,
    /// Time until a killed worker begins again
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::duration,
        help_heading = "Failures")]
    restart: Duration,
    /// Share of the workers that are slower, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share,
        help_heading = "Failures")]
    stragglers: f64,
    /// How many times slower these are
    #[arg(long, value_name = "N", default_value_t = 4.0, value_parser = positive,
        help_heading = "Failures")]
    slowness: f64,
}

/// Prices.
#[derive(Args)]
pub(super) struct PriceOptions {
    /// Dollars for 1,000 reads [default: 0.0004]
    ///
    /// The defaults are Amazon's list prices of S3 Standard in us-east-1 in 2026
    /// (https://aws.amazon.com/s3/pricing/)
    #[arg(long, value_name = "DOLLARS", value_parser = number, help_heading = "Prices")]
    price_reads: Option<f64>,
    /// Dollars for 1,000 writes or pages of listings [default: 0.005]
    #[arg(long, value_name = "DOLLARS", value_parser = number, help_heading = "Prices")]
    price_writes: Option<f64>,
    /// Dollars for moving 10^9 bytes [default: 0, as inside a region]
    #[arg(long, value_name = "DOLLARS", value_parser = number, help_heading = "Prices")]
    price_gigabyte: Option<f64>,
    /// Dollars for an hour of a machine [default: 0]
    #[arg(long, value_name = "DOLLARS", value_parser = number, help_heading = "Prices")]
    price_hour: Option<f64>,
}

impl MachineOptions {
    pub(super) fn machine(&self, requests: usize) -> Machine {
        let usual = Machine::default();
        let rate =
            |given: Option<NonZeroU64>, usual: f64| given.map_or(usual, |it| it.get() as f64);
        Machine {
            requests: requests as u64,
            down: rate(self.down, usual.down),
            up: rate(self.up, usual.up),
            connection: rate(self.connection, usual.connection),
            cores: f64::from(self.cores),
            object_cpu: self.object_cpu / 1e6,
            byte_cpu: self.byte_cpu / f64::from(1 << 30),
        }
    }
}

impl ServiceOptions {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            latency: self.latency.as_secs_f64(),
            list_latency: self.list_latency.as_secs_f64(),
            lists: self.lists,
            reads: self.reads,
            writes: self.writes,
            source_prefixes: self.source_prefixes,
            target_prefixes: self.target_prefixes,
        }
    }
}

impl FailureOptions {
    pub(super) fn failures(&self) -> Failures {
        Failures {
            kills: self.kills,
            restart: self.restart.as_secs_f64(),
            stragglers: self.stragglers,
            slowness: self.slowness.max(1.0),
        }
    }
}

impl PriceOptions {
    pub(super) fn prices(&self) -> Prices {
        Prices::default().with(|prices| {
            prices.reads = self.price_reads.unwrap_or(prices.reads);
            prices.writes = self.price_writes.unwrap_or(prices.writes);
            prices.gigabyte = self.price_gigabyte.unwrap_or(prices.gigabyte);
            prices.hour = self.price_hour.unwrap_or(prices.hour);
        })
    }
}

/// A number that is not negative.
fn number(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1e12).contains(number));
    number.ok_or_else(|| "not a number from 0 to 10^12, such as 0.5".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    number(text)?;
    let number = number(text).ok().filter(|number| *number >= 1e-6);
    number.ok_or_else(|| "it would never end; give a greater number".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "not a number from 0 to 1, such as 0.05".to_owned())
}
