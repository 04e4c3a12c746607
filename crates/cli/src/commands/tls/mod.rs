//! `evener tls`

mod base;
mod check;
mod config;
mod configuration;
mod counters;
mod enable;
mod loaded;
mod prometheus;
mod provider;
mod running;
mod services;
mod setting;
mod status;

use clap::{Args, Subcommand};

use crate::signals::Signals;
use crate::trouble::{Ending, Trouble};

/// Let programs that use OpenSSL do TLS with Evener
///
/// The provider evener.so does AES for unmodified programs that use OpenSSL 3.0 or later. OpenSSL
/// loads it if its configuration names it. docs/guide/tls.md shows where it is faster.
#[derive(Args)]
pub(crate) struct Tls {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Config(config::Config),
    Enable(enable::Enable),
    Disable(enable::Disable),
    Check(check::Check),
    Status(status::Status),
}

impl Tls {
    /// Returns whether a document is to be printed.
    pub(crate) fn json(&self) -> bool {
        matches!(&self.action, Action::Status(options) if options.json)
    }

    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        match self.action {
            Action::Config(options) => options.perform(),
            Action::Enable(options) => options.perform(),
            Action::Disable(options) => options.perform(),
            Action::Check(options) => options.perform(signals),
            Action::Status(options) => options.perform(),
        }
    }
}
