//! `evener job simulate`

mod assumptions;
mod text;

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Args};
use evener::Control;
use evener::jobs::ShardRule;
use evener::jobs::simulate::{
    Cost, Outcome, Prices, Scenario, Sizes, Within, Work, simulate, workers_within,
};
use serde::Serialize;

use super::places::{opened, place};
use super::{plain, warn};
use crate::document::with_failures;
use crate::keys::{Keyholder, of_job};
use crate::options::{JobKeys, StoreOptions, values};
use crate::signals::Signals;
use crate::stores::{Stores, refuse_unused_in};
use crate::trouble::{Ending, Trouble, complain};
use assumptions::{FailureOptions, MachineOptions, PriceOptions, ServiceOptions};

/// Show how long a job would take, how many requests, and what it would cost
///
/// The shards are those of the planned job J, or those that the planner's rule makes of --rows
/// objects whose sizes are drawn at random. The workers take them as real ones do; the machines,
/// the store and the failures are as the options have them. Nothing is read but the plan of J, and
/// nothing is written. docs/guide/scale.md shows examples.
#[derive(Args)]
#[command(group = ArgGroup::new("work").args(["job", "rows"]).required(true))]
pub(super) struct Simulate {
    /// Simulate a job with N objects, without a plan
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_ROWS))]
    rows: Option<u64>,
    /// Sizes of these objects: SIZE, SIZE:SHARE,... or lognormal:MEAN:SIGMA
    ///
    /// Such as 10M, or 64K:0.9,100M:0.1 for two sizes with their shares, or lognormal:10M:1.5 for
    /// a log-normal distribution with this mean, where SIGMA is the standard deviation of the
    /// logarithm
    #[arg(long, value_name = "SIZES", default_value = "lognormal:10M:1.5", conflicts_with = "job")]
    sizes: Sizes,
    /// End a shard after N entries
    #[arg(long, value_name = "N", default_value_t = ShardRule::default().objects,
        value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "job")]
    objects: u64,
    /// End a shard before it has more than SIZE of content [default: 64G]
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, conflicts_with = "job")]
    bytes: Option<u64>,
    /// Number of workers, one on each machine
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=MOST_WORKERS))]
    workers: u64,
    /// Find the fewest workers that need no more than TIME, such as 7d
    #[arg(long, value_name = "TIME", value_parser = values::duration, conflicts_with = "workers")]
    within: Option<Duration>,
    /// Draw everything random from this number
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    machine: MachineOptions,
    #[command(flatten)]
    service: ServiceOptions,
    #[command(flatten)]
    failures: FailureOptions,
    #[command(flatten)]
    prices: PriceOptions,
    #[command(flatten)]
    keys: JobKeys,
    #[command(flatten)]
    stores: StoreOptions,
    /// Print one JSON document
    #[arg(long, help_heading = "Messages")]
    pub(super) json: bool,
    /// Place of the files of a planned job, whose shards are simulated
    #[arg(value_name = "J")]
    job: Option<OsString>,
}

impl Simulate {
    pub(super) fn perform(mut self, signals: &Signals) -> Result<Ending, Trouble> {
        let control = Arc::new(Control::default());
        let planned = match self.job.take() {
            Some(job) => Some(self.work_of(&job, signals)?),
            None => None,
        };
        let scenario = Scenario {
            workers: self.workers,
            machine: self.machine.machine(self.stores.settings().requests),
            limits: self.service.limits(),
            failures: self.failures.failures(),
            seed: self.seed,
        };
        let working = signals.stop_gently(&control, || complain(&"interrupted"))?;
        let found = self.outcome(planned, &scenario, &control);
        working.finish();
        let Some((outcome, is_enough)) = found else {
            if control.is_stopped() {
                complain(&"interrupted");
                return Ok(Ending::Interrupted);
            }
            return Err(Trouble::usage(TOO_MANY));
        };
        self.tell(&outcome, is_enough)
    }

    /// The shards of a planned job.
    fn work_of(&mut self, job: &OsString, signals: &Signals) -> Result<Work, Trouble> {
        self.keys.complete()?;
        let job = place("J", job)?;
        refuse_unused_in(&self.stores, &[&job])?;
        let JobKeys { origins, identities, passphrase, .. } = &self.keys;
        let exposure = &origins.exposure;
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, exposure, true)?;
        let (key, keys) = of_job(&self.keys, &keyholder)?;
        warn(&keyholder.warnings(), false);
        let evener = plain(keys.ring)?;
        let job = opened(&Stores::new(&self.stores), &evener, &job, false)?;
        Ok(evener.job_work(&job, &key)?)
    }

    /// The outcome, and whether it is in time. `None` if it was stopped, or there are too many shards.
    fn outcome(
        &self,
        planned: Option<Work>,
        scenario: &Scenario,
        control: &Control,
    ) -> Option<(Outcome, bool)> {
        let usual = ShardRule::default();
        let rule = ShardRule { objects: self.objects, bytes: self.bytes.unwrap_or(usual.bytes) };
        let rows = self.rows.unwrap_or_default();
        let work = match planned {
            Some(work) => work,
            None => Work::of_rows(rows, &self.sizes, self.seed, rule, control)?,
        };
        match self.within {
            None => Some((simulate(&work, scenario, control)?, true)),
            Some(time) => match workers_within(&work, scenario, time.as_secs_f64(), control)? {
                Within::Enough(outcome) => Some((*outcome, true)),
                Within::Never(outcome) => Some((*outcome, false)),
            },
        }
    }

    fn tell(&self, outcome: &Outcome, is_enough: bool) -> Result<Ending, Trouble> {
        let prices = self.prices.prices();
        let cost = outcome.cost(&prices);
        if self.json {
            let in_time = self.within.is_some().then_some(is_enough);
            with_failures(&Document { outcome, cost, prices, in_time }, &[])?;
        } else {
            let lines = text::lines(outcome, &cost);
            let print =
                |out: &mut dyn Write| lines.iter().try_for_each(|line| writeln!(out, "{line}"));
            print(&mut io::stdout().lock()).map_err(Trouble::Output)?;
        }
        if !is_enough {
            complain(&text::too_slow(outcome, self.within.unwrap_or_default()));
            return Ok(Ending::SomeFailed);
        }
        Ok(Ending::Done)
    }
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'o> {
    #[serde(flatten)]
    outcome: &'o Outcome,
    cost: Cost,
    prices: Prices,
    /// True if `--within` is met.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_time: Option<bool>,
}

const MOST_ROWS: u64 = 1_000_000_000_000;
const MOST_WORKERS: u64 = 1 << 16;
const TOO_MANY: &str = "the job would have more than 10,000,000 shards; give a greater --objects or \
     --bytes";
