//! `evener rewrap`

use std::path::{Path, PathBuf};

use clap::Args;
use evener::Failure;
use evener::sealed_trees::Rewrapped;

use crate::document::with_failures;
use crate::ends::{Ends, Place};
use crate::hints::{self, Given};
use crate::keys::{Keyholder, Wrapping, recipients_wrap, wrapping};
use crate::metrics::Metrics;
use crate::options::{
    Exposure, MetricsOptions, OpeningKeys, Output, PassphraseOptions, Recipients, Telling,
    TreeOptions,
};
use crate::plain::Rewrapping;
use crate::sealed::{Tree, find};
use crate::signals::Signals;
use crate::stores::Stores;
use crate::summary::count;
use crate::trouble::{Ending, Trouble, complain, refused, shown};

/// Wrap keys for other recipients
///
/// Wrap keys for other recipients
///
/// With --recipient, name all who are to open the tree or file afterwards. Evener reads no content. It
/// removes an old wrapped key only after it has opened the new one, so give --identity for a new
/// recipient too, or --trust-unopened.
///
/// In a plain tree, Evener wraps the keys in evener-key.age and so on; of a file, those beside it. A
/// pipe's file, which begins with its wrapped key, gets a new beginning, and an age file a new header,
/// each in one step. `-` copies a pipe or an age file from standard input to standard output.
///
/// Earlier recipients can still open copies that they have made; `evener rekey` seals everything under
/// a new key.
#[derive(Args)]
pub(crate) struct Rewrap {
    #[command(flatten)]
    recipients: Recipients,
    #[command(flatten)]
    tree: TreeOptions,
    /// Remove old wrapped keys even if nothing that you give opens the new ones
    #[arg(long)]
    trust_unopened: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    metrics: MetricsOptions,
    /// Encrypted tree or file, or `-`
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

impl Rewrap {
    pub(crate) fn perform(mut self, signals: &Signals) -> Result<Ending, Trouble> {
        let metrics = Metrics::open(&self.metrics, self.output.quiet)?;
        let stores = Stores::new(&self.tree.stores);
        metrics.watch_stores(&stores);
        if !find(&stores, self.path.as_os_str(), &mut self.tree.trust)? {
            return self.perform_plain(&stores, &metrics, signals);
        }
        let (wrap, audience) = recipients_wrap(&self.recipients, self.tree.exposure(), signals)?;
        let mut tree = Tree::find(&self.path, self.tree, self.output.quiet, signals)?;
        metrics.watch_stores(tree.stores());
        tree.sealed.audience = Some(audience);
        let done =
            tree.evener.rewrap_tree(&tree.place()?, &wrap, self.trust_unopened, &tree.sealed)?;
        let failure = |fault: &String| Failure { path: self.path.clone(), error: refused(fault) };
        let failures: Vec<_> = done.faults.iter().map(failure).collect();
        tell(&self.path, &self.output, &done, &failures)?;
        // The new wrapped keys may be for others alone.
        tree.retain(false)?;
        match failures.is_empty() {
            true => Ok(Ending::Done),
            false => Ok(Ending::SomeFailed),
        }
    }

    fn perform_plain(
        self,
        stores: &Stores,
        metrics: &Metrics,
        signals: &Signals,
    ) -> Result<Ending, Trouble> {
        let (keys, trust) = self.tree.split();
        trust.refuse(" is for sealed trees, and this is none")?;
        if keys.name_a_key() {
            return Err(Trouble::usage(
                "--key names a key that lies elsewhere, and rewrap changes the wrapped keys that lie \
                 with their files: leave it out, and give --identity or --passphrase",
            ));
        }
        if keys.is_empty() {
            return Err(Trouble::usage("no key: give --identity or --passphrase"));
        }
        let is_quiet = self.output.quiet;
        let OpeningKeys { origins, identities, passphrase, .. } = &keys;
        let mut readers = keys.that_read_stdin();
        readers.extend(self.recipients.that_read_stdin());
        let telling = Telling { json: self.output.json, ..Telling::default() };
        let ends = Ends::to_rewrap(self.path.clone().into(), &telling)?;
        ends.check_stdin(&readers)?;
        let wrapping = new_wrapping(&self.recipients, &origins.exposure, signals)?;
        let keyholder =
            Keyholder::new(signals, Some(identities), passphrase, &origins.exposure, false)?;
        let say_warnings = || {
            let warnings = keyholder.warnings();
            warnings.iter().filter(|_| !is_quiet).for_each(|warning| {
                complain(&format_args!("warning: {warning}"));
            });
        };
        let notice = |path: &Path, line: &str| {
            if !is_quiet {
                complain(&format_args!("{}: {line}", shown(path)));
            }
        };
        let trusts_unopened = self.trust_unopened;
        let (keyholder, notice) = (&keyholder, &notice);
        let has_bar = !is_quiet && !telling.json;
        let rewrapping =
            Rewrapping { stores, metrics, wrapping, trusts_unopened, keyholder, has_bar, notice };
        if ends.source == Place::Pipe {
            ends.refuse_terminal()?;
            rewrapping.copy()?;
            say_warnings();
            return Ok(Ending::Done);
        }
        let (done, failures) = rewrapping.perform(&self.path, &keys)?;
        say_warnings();
        tell(&self.path, &self.output, &done, &failures)?;
        match failures.is_empty() {
            true => Ok(Ending::Done),
            false => Ok(Ending::SomeFailed),
        }
    }
}

/// Those for whom keys are wrapped.
pub(super) fn new_wrapping(
    recipients: &Recipients,
    exposure: &Exposure,
    signals: &Signals,
) -> Result<Wrapping, Trouble> {
    let passphrase = PassphraseOptions::default();
    let keyholder = Keyholder::new(signals, None, &passphrase, exposure, false)?;
    let wrapping = wrapping(recipients, &keyholder)?;
    wrapping.ok_or_else(|| Trouble::usage("no recipient: give --recipient or --recipients-file"))
}

/// Tells the result.
fn tell(
    path: &Path,
    options: &Output,
    done: &Rewrapped,
    failures: &[Failure],
) -> Result<(), Trouble> {
    failures.iter().for_each(|failure| complain(&hints::line(failure, Given::default())));
    if options.json {
        with_failures(done, failures)?;
    }
    if options.quiet {
        return Ok(());
    }
    let path = shown(path);
    complain(&format_args!(
        "{path}: {} wrapped for these recipients; {} removed",
        count(done.keys, "key"),
        count(done.removed, "old wrapping")
    ));
    if done.unchecked > 0 {
        complain(&format_args!(
            "{path}: no --identity here opens the new wrappings, so the old ones stay ({}): give one \
             of a new recipient, or --trust-unopened",
            done.unchecked
        ));
    }
    Ok(())
}
