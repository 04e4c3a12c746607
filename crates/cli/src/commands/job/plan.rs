//! `evener job plan`

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;

use clap::Args;
use evener::jobs::{Ends, PlanOptions, Planned, ShardRule};
use evener::sealed_trees::SealedOptions;
use evener::{Control, Selection};

use super::places::{check, opened, place, refuse_overlap, text};
use super::{leave_behind, plain, warn};
use crate::document::with_failures;
use crate::keys::{Keyholder, of_job, recipient_texts, recipients_wrap};
use crate::metrics::Metrics;
use crate::options::{
    JobKeys, MetricsOptions, Output, Recipients, Signing, StoreOptions, TrustOptions, values,
};
use crate::progress::with_bar;
use crate::sealed::{forgetful, state_of};
use crate::signals::Signals;
use crate::stores::{Stores, refuse_unused_in};
use crate::summary::{count, notices, size};
use crate::trouble::{Ending, Trouble, complain};

/// Cut a source into shards
///
/// SRC is a directory or an object store. DST is the place of a sealed tree, or becomes one; the
/// job adds one generation to it. J, the place of the job's own files, is beside both. Paths are
/// kept absolute: workers must find SRC, DST and J under the same names.
///
/// The job's key seals the generation, as with `evener encrypt --sealed -k`. With --recipient, each
/// attempt at a shard has a fresh key, which is wrapped for the recipients, and the tree is signed.
#[derive(Args)]
pub(super) struct Plan {
    #[command(flatten)]
    keys: JobKeys,
    #[command(flatten)]
    recipients: Recipients,
    /// Place of the job's own files: a new or empty directory, or a prefix in an object store
    #[arg(long, value_name = "J")]
    job: OsString,
    /// End a shard after N entries
    #[arg(long, value_name = "N", default_value_t = ShardRule::default().objects,
        value_parser = clap::value_parser!(u64).range(1..))]
    objects: u64,
    /// End a shard before it has more than SIZE of content [default: 64G]
    ///
    /// An object with more is a shard of its own
    #[arg(long, value_name = "SIZE", value_parser = some_bytes)]
    bytes: Option<u64>,
    /// Skip files that match; repeatable
    ///
    /// GLOB matches the name of a file or directory below SRC or, if it contains a slash, its path
    /// below SRC. `*` does not match a slash, `**` does
    #[arg(long, value_name = "GLOB", help_heading = "Trees")]
    exclude: Vec<String>,
    /// Process only files that match; repeatable
    ///
    /// See --exclude, which takes precedence
    #[arg(long, value_name = "GLOB", help_heading = "Trees")]
    include: Vec<String>,
    #[command(flatten)]
    signing: Signing,
    #[command(flatten)]
    trust: TrustOptions,
    #[command(flatten)]
    stores: StoreOptions,
    #[command(flatten)]
    metrics: MetricsOptions,
    #[command(flatten)]
    pub(super) output: Output,
    /// Directory or object store to seal
    #[arg(value_name = "SRC")]
    source: OsString,
    /// Place of the sealed tree
    #[arg(value_name = "DST")]
    target: OsString,
}

impl Plan {
    pub(super) fn perform(mut self, signals: &Signals) -> Result<Ending, Trouble> {
        self.keys.complete()?;
        let [source, target, job] =
            [("SRC", &self.source), ("DST", &self.target), ("J", &self.job)]
                .map(|(name, typed)| place(name, typed));
        let [source, target, job] = [source?, target?, job?];
        refuse_unused_in(&self.stores, &[&source, &target, &job])?;
        let places = [("SRC", &source), ("DST", &target), ("J", &job)];
        refuse_overlap(&places)?;
        check(&places)?;
        let metrics = Metrics::open(&self.metrics, self.output.quiet)?;
        let stores = Stores::new(&self.stores);
        metrics.watch_stores(&stores);
        let JobKeys { origins, identities, passphrase, .. } = &self.keys;
        let exposure = &origins.exposure;
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, exposure, true)?;
        let (key, keys) = of_job(&self.keys, &keyholder)?;
        let takes_insecure = exposure.insecure_key_file;
        let recipients = recipient_texts(&self.recipients, takes_insecure, signals)?;
        let mut sealed = SealedOptions {
            keychain: keys.keychain,
            signer: self.signing.signer(signals)?,
            ..state_of(&stores, &target.path(), self.trust.allow_rollback)?
        };
        sealed.trust = self.trust.trust()?;
        if !recipients.is_empty() {
            let named = Recipients { recipients: recipients.clone(), recipient_files: Vec::new() };
            let (wrap, audience) = recipients_wrap(&named, takes_insecure, signals)?;
            (sealed.wrap, sealed.audience) = (Some(wrap), Some(audience));
        }
        let mut warnings = keyholder.warnings();
        warnings.extend(forgetful(&sealed));
        warn(&warnings, self.output.quiet);
        let control = Arc::new(Control::default());
        metrics.watch(&control);
        let selection = Selection::new(&self.include, &self.exclude)?;
        let evener = plain(keys.ring)?.with_options(|options| {
            self.keys.files().iter().for_each(|path| options.protect(path));
            options.run.control = control.clone();
            options.transfer.selection = selection;
        });
        let options = PlanOptions {
            rule: ShardRule {
                objects: self.objects,
                bytes: self.bytes.unwrap_or(ShardRule::default().bytes),
            },
            job: text("J", &job)?,
            source: text("SRC", &source)?,
            target: text("DST", &target)?,
            recipients,
            memory: evener.options().run.memory,
        };
        let source = opened(&stores, &evener, &source, false)?;
        let target = opened(&stores, &evener, &target, true)?;
        let job = opened(&stores, &evener, &job, false)?;
        let ends = Ends { source: &source, target: &target, job: &job, manifest: None };
        let json = self.output.json;
        let working = signals.stop_gently(&control, move || leave_behind(json))?;
        let has_bar = !json && !self.output.quiet;
        let planned =
            with_bar(&control, has_bar, || evener.plan_job(&ends, &sealed, &key, &options));
        working.finish();
        tell(&planned?, &self.output)
    }
}

/// A size of at least one byte.
fn some_bytes(text: &str) -> Result<u64, String> {
    values::bytes(text).and_then(|bytes| match bytes {
        0 => Err("a shard has at least one byte".to_owned()),
        bytes => Ok(bytes),
    })
}

fn tell(planned: &Planned, output: &Output) -> Result<Ending, Trouble> {
    if output.json {
        with_failures(planned, &[])?;
        return Ok(Ending::Done);
    }
    if output.quiet {
        return Ok(Ending::Done);
    }
    notices(&planned.notices, false, "--json").iter().for_each(|line| complain(line));
    let Planned { shards, objects, bytes, generation, .. } = planned;
    let numbers = match shards.saturating_sub(1) {
        0 => String::new(),
        last => format!(", 0 to {last}"),
    };
    let line = format!(
        "planned {}{numbers}: {}, {}; generation {generation}",
        count(*shards, "shard"),
        count(*objects, "object"),
        size(*bytes as f64)
    );
    writeln!(io::stdout().lock(), "{line}").map_err(Trouble::Output)?;
    Ok(Ending::Done)
}
