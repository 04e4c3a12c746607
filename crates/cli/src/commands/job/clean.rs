//! `evener job clean`

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use evener::Failure;
use evener::jobs::{CleanedJob, Ends};
use evener::place::{Fault, Name, Store};
use serde::Serialize;

use super::{AtJob, OfJob, plain};
use crate::document::with_failures;
use crate::ends::Place;
use crate::objects::Leftovers;
use crate::options::Output;
use crate::signals::Signals;
use crate::stores::{Stores, at};
use crate::summary::count;
use crate::trouble::{Ending, Trouble, complain};

/// Remove the files of a finished job, and leftovers of its workers
///
/// The generation needs none of the job's files. In object stores, Evener also aborts all uploads
/// that are open in DST and J: other runs that write to DST must have ended.
///
/// Of a job that is not finished, it aborts only uploads that received no part for a day.
#[derive(Args)]
pub(super) struct Clean {
    #[command(flatten)]
    of_job: OfJob,
    /// Give up a job that is not finished
    ///
    /// Its workers must have ended. What they have written to DST belongs to nothing then, and
    /// `evener clean` removes it
    #[arg(long)]
    abandon: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

impl Clean {
    pub(super) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let Clean { of_job, abandon, output } = self;
        let at = of_job.open(signals, output.quiet, plain)?;
        if abandon && !at.has_manifest()? {
            // Its plan was stopped: it has no ends, and nobody has worked on it.
            let leftovers = removed(&at.stores, &[&at.place], Duration::ZERO)?;
            let ends =
                Ends { source: &at.at_job, target: &at.at_job, job: &at.at_job, manifest: None };
            let cleaned = at.evener.clean_job(&ends, &at.key, true)?;
            return tell(&Document { cleaned, finished: false, leftovers }, abandon, &output);
        }
        let job = at.with_ends()?;
        let AtJob { evener, key, stores, place, at_job, .. } = &job.at;
        let finished = evener.job_status(at_job, key)?.finished;
        let (is_over, places) = (finished || abandon, [&job.target, place]);
        // First, since without the job's files it could not be repeated.
        let leftovers = removed(stores, &places, if is_over { Duration::ZERO } else { DAY })?;
        let cleaned = match is_over {
            true => evener.clean_job(&job.ends(), key, abandon)?,
            false => CleanedJob::default(),
        };
        tell(&Document { cleaned, finished, leftovers }, abandon, &output)
    }
}

impl AtJob {
    fn has_manifest(&self) -> Result<bool, Failure> {
        let found = self.at_job.look(&Name::found("manifest".into()));
        let fail = |fault: Fault| Failure { path: self.place.path(), error: fault.into() };
        Ok(found.map_err(fail)?.is_some())
    }
}

fn tell(document: &Document, abandon: bool, output: &Output) -> Result<Ending, Trouble> {
    if output.json {
        with_failures(document, &[])?;
    } else if !output.quiet {
        writeln!(io::stdout().lock(), "{}", document.line()).map_err(Trouble::Output)?;
        if !document.finished && !abandon {
            complain(&STAYS);
        }
    }
    Ok(Ending::Done)
}

/// Removes the leftovers of an age in those of the places that are in object stores; `None` if none
/// is.
fn removed(
    stores: &Stores,
    places: &[&Place],
    age: Duration,
) -> Result<Option<Leftovers>, Trouble> {
    let mut sum: Option<Leftovers> = None;
    for place in places {
        let Place::Objects(address) = place else { continue };
        let removed = stores.open_source(address)?.clean(age, false);
        let removed = removed.map_err(|fault| at(address, fault))?;
        match &mut sum {
            Some(sum) => {
                sum.uploads += removed.uploads;
                sum.probes += removed.probes;
                sum.younger += removed.younger;
            }
            None => sum = Some(removed),
        }
    }
    Ok(sum)
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    cleaned: CleanedJob,
    finished: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    leftovers: Option<Leftovers>,
}

impl Document {
    fn line(&self) -> String {
        let mut line = format!("removed {} of the job", count(self.cleaned.files, "file"));
        if let Some(Leftovers { uploads, probes, younger, .. }) = &self.leftovers {
            line.push_str(&format!("; aborted {}", count(*uploads, "unfinished upload")));
            if *probes > 0 {
                line.push_str(&format!("; removed {}", count(*probes, "leftover object")));
            }
            if *younger > 0 {
                let kept = format!("; {younger} kept because they are younger than a day");
                line.push_str(&kept);
            }
        }
        line
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const STAYS: &str = "the job is not finished, so its files stay: run `evener job finish`, or give it up \
                     with --abandon";
