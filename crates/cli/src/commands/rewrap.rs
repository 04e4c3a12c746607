//! `evener rewrap`

use std::path::PathBuf;

use clap::Args;

use crate::document::with_failures;
use crate::keys::recipients_wrap;
use crate::options::{Output, Recipients, TreeOptions};
use crate::sealed::Tree;
use crate::signals::Signals;
use crate::summary::count;
use crate::trouble::{Ending, Trouble};

/// Wrap the keys of a sealed tree for other recipients
///
/// --recipient names all who can open the tree afterwards. No content is read. An old wrapping is
/// removed when the new one is there and was opened once, so give an --identity of the new
/// recipients too, or --trust-unopened.
///
/// What earlier recipients have read, and copies of the tree, stay open to them; `evener rekey` seals
/// a tree under a new key.
#[derive(Args)]
pub(crate) struct Rewrap {
    #[command(flatten)]
    recipients: Recipients,
    #[command(flatten)]
    tree: TreeOptions,
    /// Remove old wrappings also where nothing given opens the new ones
    #[arg(long)]
    trust_unopened: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Sealed tree
    #[arg(value_name = "TREE")]
    path: PathBuf,
}

impl Rewrap {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let wrap = recipients_wrap(&self.recipients, self.tree.exposure(), signals)?;
        let tree = Tree::find(&self.path, self.tree, self.output.quiet, signals)?;
        let done =
            tree.evener.rewrap_tree(&tree.place(), &wrap, self.trust_unopened, &tree.sealed)?;
        if self.output.json {
            with_failures(&done)?;
        }
        tree.say(&format!(
            "{} wrapped for these recipients; {} removed",
            count(done.keys, "key"),
            count(done.removed, "old wrapping")
        ));
        if done.unchecked > 0 {
            tree.say(&format!(
                "nothing given opens the new ones, so the old ones stay ({}): give an --identity of \
                 theirs, or --trust-unopened",
                done.unchecked
            ));
        }
        Ok(Ending::Done)
    }
}
