//! `evener job finish`

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use evener::jobs::{Ends, Finished};
use evener::sealed_trees::{At, SealedOptions};
use evener::{Control, Evener, Failure, Operation, OperationError, Report};
use serde_json::{Value, json};

use super::{AtJob, OfJob, OpenJob, leave_behind, plain, warn};
use crate::document::print_json;
use crate::ends::Place;
use crate::hints::{self, Given};
use crate::metrics::Metrics;
use crate::options::{MetricsOptions, Output, Signing, Telling, TrustOptions};
use crate::progress::with_bar;
use crate::sealed::{forgetful, retain, state_of};
use crate::signals::Signals;
use crate::stores::AnyPlace;
use crate::summary::{self, count, size};
use crate::trouble::{Ending, Trouble, complain, refused, shown};

/// Make the generation of a job
///
/// All shards must be done. Evener compares their receipts with the plan and with a listing of DST,
/// and reads no content. Each object that was gone when its worker came is a failure, and the exit
/// status is 1, but the generation is made with all others. If the generation is there already,
/// Evener says so and writes nothing.
///
/// The generation of a tree for recipients is signed, as with `evener encrypt --sealed`.
#[derive(Args)]
pub(super) struct Finish {
    #[command(flatten)]
    of_job: OfJob,
    /// Decrypt the whole generation afterwards, as `evener verify` does
    ///
    /// A tree for recipients also takes an --identity then
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    signing: Signing,
    #[command(flatten)]
    trust: TrustOptions,
    #[command(flatten)]
    metrics: MetricsOptions,
    #[command(flatten)]
    pub(super) output: Output,
}

impl Finish {
    pub(super) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let Finish { of_job, verify, signing, trust, metrics, output } = self;
        let metrics = Metrics::open(&metrics, output.quiet)?;
        let has_identity = of_job.keys.has_identity();
        let job = of_job.open(signals, output.quiet, plain)?.with_ends()?;
        if verify && !job.info.recipients.is_empty() && !has_identity {
            return Err(Trouble::usage(
                "--verify opens a tree for recipients only with an --identity; give one, or finish \
                 without --verify",
            ));
        }
        let mut sealed = SealedOptions {
            keychain: job.at.keychain.clone(),
            signer: signing.signer(signals)?,
            ..state_of(&job.at.stores, &job.target.path(), trust.allow_rollback)?
        };
        sealed.trust = trust.trust()?;
        if let Some((wrap, audience)) = job.wrap(signals)? {
            (sealed.wrap, sealed.audience) = (Some(wrap), Some(audience));
        }
        warn(forgetful(&sealed).as_slice(), output.quiet);
        let OpenJob { at, info, source, target, at_source, at_target } = job;
        let AtJob { evener, key, stores, at_job, .. } = at;
        let control = Arc::new(Control::default());
        metrics.watch(&control);
        metrics.watch_stores(&stores);
        let evener = evener.with_options(|options| options.run.control = control.clone());
        let ends = Ends {
            source: &at_source,
            target: &at_target,
            job: &at_job,
            manifest: Some(info.manifest),
        };
        let json = output.json;
        let working = signals.stop_gently(&control, move || leave_behind(json))?;
        let result = evener.finish_job(&ends, &sealed, &key).and_then(|finished| {
            if let (true, Place::Objects(tree)) = (finished.is_new, &target) {
                retain(&stores, tree, Some((&evener, &sealed)))?;
            }
            let verified = verify.then(|| {
                let at = At::Number(finished.generation);
                let sealed = SealedOptions { at, ..sealed.clone() };
                with_bar(&control, !output.json && !output.quiet, || {
                    verified(&evener, &at_target, &sealed)
                })
            });
            Ok((finished, verified.transpose()?))
        });
        working.finish();
        let (finished, verified) = result?;
        tell(&finished, verified, &source.path(), &output)
    }
}

/// Decrypts the whole generation.
fn verified(evener: &Evener, tree: &AnyPlace, sealed: &SealedOptions) -> Result<Report, Failure> {
    let verified = evener.open_tree(Operation::Verify, tree, None, sealed);
    verified.map(|(report, _)| report).or_else(OperationError::into_report)
}

fn tell(
    finished: &Finished,
    verified: Option<Report>,
    source: &Path,
    output: &Output,
) -> Result<Ending, Trouble> {
    let gone = |path: &PathBuf| Failure {
        path: source.join(path),
        error: refused("it was gone when its shard was run; the generation does not have it"),
    };
    let mut failures: Vec<Failure> = finished.gone.iter().map(gone).collect();
    for failure in &failures {
        complain(&hints::line(failure, Given::default()));
    }
    if !output.json && !output.quiet {
        writeln!(io::stdout().lock(), "{}", line(finished)).map_err(Trouble::Output)?;
        let changed = finished.changed.iter().take(MOST_SHOWN);
        changed.for_each(|path| complain(&format_args!("{}: changed since the plan", shown(path))));
    }
    let mut ending = if failures.is_empty() { Ending::Done } else { Ending::SomeFailed };
    if let Some(report) = &verified {
        let telling = Telling { quiet: output.quiet || output.json, ..Telling::default() };
        summary::tell(Operation::Verify, report, Given::default(), &telling);
        if !report.is_success() {
            ending = Ending::SomeFailed;
        }
        if report.interrupted {
            ending = Ending::Interrupted;
        }
    }
    if output.json {
        failures.extend(verified.iter().flat_map(|report| report.failures.clone()));
        print_json(&document(finished, verified.as_ref(), &failures))?;
    }
    Ok(ending)
}

fn document(finished: &Finished, verified: Option<&Report>, failures: &[Failure]) -> Value {
    let mut document = json!(finished);
    document["verified"] = json!(verified);
    document["failures"] = json!(failures);
    document
}

/// `made generation 3: 1000 objects, 5.2 GiB`
fn line(finished: &Finished) -> String {
    let Finished { generation, is_new, objects, bytes, already, changed, gone, .. } = finished;
    let mut line = match is_new {
        true => format!("made generation {generation}"),
        false => format!("generation {generation} is there already"),
    };
    line.push_str(&format!(": {}, {}", count(*objects, "object"), size(*bytes as f64)));
    let further = [
        (*already, "made by an earlier attempt"),
        (changed.len() as u64, "changed since the plan"),
        (gone.len() as u64, "gone"),
    ];
    if finished.between > 0 {
        let made = count(finished.between, "generation");
        line.push_str(&format!("; it takes the place of {made} made since the plan"));
    }
    for (number, what) in further.iter().filter(|(number, _)| *number > 0) {
        line.push_str(&format!("; {number} {what}"));
    }
    line
}

/// The number of changed objects that are named.
const MOST_SHOWN: usize = 10;
