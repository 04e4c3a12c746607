//! Options of the commands for sealed trees alone.

use std::path::PathBuf;

use clap::Args;

use super::keys::KeyOrigins;
use super::{
    Identities, OpeningKeys, OpensslOptions, PassphraseOptions, StoreOptions, TrustOptions,
};

/// Options that open a sealed tree.
#[derive(Args, Debug)]
pub(crate) struct TreeOptions {
    /// Key file of the tree, or `-` for standard input; repeatable
    ///
    /// Without a key, identity or passphrase, Evener reads the key file that EVENER_KEY_FILE names
    #[arg(short, long = "key", value_name = "KEYFILE", help_heading = "Keys")]
    keys: Vec<PathBuf>,
    #[command(flatten)]
    origins: KeyOrigins,
    #[command(flatten)]
    identities: Identities,
    #[command(flatten)]
    passphrase: PassphraseOptions,
    #[command(flatten)]
    pub(crate) trust: TrustOptions,
    #[command(flatten)]
    pub(crate) stores: StoreOptions,
}

impl TreeOptions {
    /// Whether files of secrets that others may use are accepted.
    pub(crate) fn exposure(&self) -> bool {
        self.origins.exposure.insecure_key_file
    }

    /// The keys, and the options of trust.
    pub(crate) fn split(self) -> (OpeningKeys, TrustOptions) {
        let TreeOptions { keys, origins, identities, passphrase, trust, .. } = self;
        let (format, context, openssl) = (None, None, OpensslOptions::default());
        let keys = OpeningKeys { keys, origins, identities, passphrase, format, openssl, context };
        (keys, trust)
    }
}

/// Options for messages and reports.
#[derive(Args, Clone, Debug)]
pub(crate) struct Output {
    /// Print one JSON document
    #[arg(long, help_heading = "Messages")]
    pub(crate) json: bool,
    /// Print only failures
    #[arg(short, long, help_heading = "Messages")]
    pub(crate) quiet: bool,
}
