//! `evener rekey`

use std::path::PathBuf;

use clap::Args;
use evener::Operation;

use crate::ends::Ends;
use crate::keys::{load_tree_key, recipients_wrap};
use crate::options::{EngineOptions, Recipients, Signing, Telling, TreeOptions};
use crate::plan::{Plan, warnings};
use crate::route::Route;
use crate::run::run;
use crate::sealed::{Kind, Work, open};
use crate::signals::Signals;
use crate::trouble::{Ending, Trouble};

/// Seal a sealed tree under another key
///
/// Its newest generation is decrypted and sealed again, in a new generation. --new-key names the new
/// key, or --recipient those for whom a fresh one is wrapped. Nothing is accepted under the old key
/// after that, but it still opens the generations before, until `evener clean` removes them.
///
/// What the holders of the old key have read stays read.
#[derive(Args)]
pub(crate) struct Rekey {
    /// Key file of the new key
    #[arg(long, value_name = "KEYFILE", help_heading = "Keys")]
    new_key: Option<PathBuf>,
    #[command(flatten)]
    recipients: Recipients,
    #[command(flatten)]
    tree: TreeOptions,
    #[command(flatten)]
    signing: Signing,
    #[command(flatten)]
    pub(crate) engines: EngineOptions,
    #[command(flatten)]
    pub(crate) telling: Telling,
    /// Sealed tree
    #[arg(value_name = "TREE")]
    path: PathBuf,
}

impl Rekey {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let telling = self.telling.clone();
        run(Operation::Encrypt, &telling, signals, || self.plan(signals))
    }

    fn plan(self, signals: &Signals) -> Result<Plan, Trouble> {
        let exposure = self.tree.exposure();
        let (key, wrap) = match (&self.new_key, self.recipients.is_empty()) {
            (Some(path), true) => (Some(load_tree_key(path, exposure, signals)?), None),
            (None, false) => (None, Some(recipients_wrap(&self.recipients, exposure, signals)?)),
            _ => {
                return Err(Trouble::usage("give either --new-key or --recipient for the new key"));
            }
        };
        let (mut keys, trust) = self.tree.split();
        keys.complete()?;
        let path = self.path.clone();
        let operation = Operation::Encrypt;
        let ends = Ends::find(operation, self.path.into(), None, false, &self.telling)?;
        let (mut options, ring, key_warnings) = open(&keys, &path, signals)?;
        options.trust = trust.trust()?;
        options.signer = self.signing.signer(signals)?;
        options.wrap = wrap;
        let evener = self.engines.evener(ring, &self.telling, signals)?;
        let mut warnings = warnings(operation, &evener, true);
        warnings.extend(key_warnings);
        let plan = Plan::new(operation, evener, Route::of(vec![ends]), warnings, |_| Ok(()))?;
        Ok(plan.of_sealed(Work { options, kind: Kind::Rekey(key) }))
    }
}
