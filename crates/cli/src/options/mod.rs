//! Options that several commands share, and their meaning.

#[cfg(test)]
mod alike;
mod engines;
mod files;
mod jobs;
mod keys;
mod metrics;
mod sealed;
mod stores;
mod telling;
pub(crate) mod times;
mod tree;
pub(crate) mod values;

pub(crate) use engines::{EngineOptions, from_one, permits, retry_pins, steps};
pub(crate) use files::{Choosing, Part, Suffix, Writing};
pub(crate) use jobs::JobKeys;
pub(crate) use keys::{
    Exposure, Identities, OpeningKeys, OpensslOptions, PassphraseOptions, Recipients, SealingKeys,
};
pub(crate) use metrics::MetricsOptions;
pub(crate) use sealed::{Generations, Sealing, Signing, TrustOptions, refuse_first};
pub(crate) use stores::StoreOptions;
pub(crate) use telling::Telling;
pub(crate) use tree::{Output, TreeOptions};
pub(crate) use values::{Format, Iterations};
