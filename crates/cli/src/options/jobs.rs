//! Options of jobs.

use std::path::PathBuf;

use clap::Args;

use super::keys::{KeyOrigins, of_environment};
use super::{Identities, PassphraseOptions};
use crate::trouble::Trouble;

/// The key of a job.
#[derive(Args, Debug)]
pub(crate) struct JobKeys {
    /// Key file of the job, or `-` for standard input
    ///
    /// `evener keygen` makes one. The key seals the job's own files and, without recipients, the
    /// generation. Planning, workers and finishing all need it. Without a key, Evener reads the key
    /// file that EVENER_KEY_FILE names
    #[arg(short, long = "key", value_name = "KEYFILE", help_heading = "Keys")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) origins: KeyOrigins,
    #[command(flatten)]
    pub(crate) identities: Identities,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseOptions,
}

impl JobKeys {
    /// Adds the key file that the environment names, if no option gives a key.
    pub(crate) fn complete(&mut self) -> Result<(), Trouble> {
        if self.key.is_none() && self.origins.key_command.is_none() {
            self.key = of_environment()?;
        }
        Ok(())
    }

    /// Returns whether an identity is given.
    pub(crate) fn has_identity(&self) -> bool {
        !self.identities.identity_files.is_empty()
    }

    /// The files that hold the key, or that open it.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let others = self.identities.identity_files.iter().chain(&self.passphrase.passphrase_file);
        self.key.iter().chain(others).cloned().collect()
    }
}
