//! Simulates a job: its time, requests and cost, before anything runs.
//!
//! The planner's rule cuts the rows into shards ([`Work`]), and the workers take them as the real
//! ones do. Workers, store and failures are simulated ([`Scenario`]): a heap of events, without
//! threads and clocks. An attempt at a shard runs in some slices; a slice takes as long as the
//! scarcest means lets it: requests in flight, bandwidth, cores, or the store's limits.

mod attempt;
mod ends;
mod object;
mod outcome;
mod prices;
mod requests;
mod run;
mod scenario;
mod sizes;
mod store;
mod within;
mod work;

pub use outcome::{Outcome, Shares};
pub use prices::{Cost, Prices};
pub use requests::Requests;
pub use run::simulate;
pub use scenario::{Failures, Limits, Machine, Scenario};
pub use sizes::{MalformedSizes, Sizes};
pub use within::{Within, workers_within};
pub use work::Work;

#[cfg(test)]
mod tests;
