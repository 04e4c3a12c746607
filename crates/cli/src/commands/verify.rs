//! `evener verify`

use std::ffi::OsString;

use clap::Args;
use evener::Operation;

use crate::keys::{Intent, Keyholder, opening};
use crate::options::{Choosing, EngineOptions, OpeningKeys, Telling};
use crate::plan::{Ends, Plan, warnings};
use crate::progress;
use crate::route::Route;
use crate::run::run;
use crate::signals::Signals;
use crate::trouble::{Ending, Trouble};

/// Authenticate everything in a file, a tree or a pipe and write nothing
///
/// SRC is a file, a tree, or `-` for standard input. Files of `openssl enc` carry nothing that
/// could authenticate them; of those only the padding is checked.
#[derive(Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    keys: OpeningKeys,
    #[command(flatten)]
    choosing: Choosing,
    #[command(flatten)]
    engines: EngineOptions,
    #[command(flatten)]
    telling: Telling,
    /// What to verify
    #[arg(value_name = "SRC")]
    source: OsString,
}

impl Verify {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let telling = self.telling.clone();
        run(Operation::Verify, &telling, signals, || self.plan(signals))
    }

    fn plan(self, signals: &Signals) -> Result<Plan, Trouble> {
        let operation = Operation::Verify;
        let ends = Ends::find(operation, self.source, None, false, &self.telling)?;
        let mut key_files: Vec<_> = self.keys.files().cloned().collect();
        let OpeningKeys { keys, identities, passphrase, .. } = &self.keys;
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, !keys.is_empty())?;
        let ring = opening(&self.keys, &ends.source, Intent::Decrypt, &keyholder)?;
        key_files.extend(keyholder.found());
        let evener = self.engines.evener(ring, &self.telling, signals)?;
        let warnings = warnings(operation, &evener, ends.source_is_tree);
        let measure_total = ends.source_is_tree && progress::is_watched(&self.telling);
        let choosing = self.choosing;
        Plan::new(operation, evener, Route::of_one(ends), warnings, |options| {
            options.measure_total = measure_total;
            key_files.iter().for_each(|path| options.protected.add(path));
            choosing.apply(options)
        })
    }
}
