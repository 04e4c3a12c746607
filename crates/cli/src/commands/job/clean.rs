//! `evener job clean`

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use evener::jobs::CleanedJob;
use serde::Serialize;

use super::{OfJob, OpenJob, plain, warn};
use crate::document::with_failures;
use crate::ends::Place;
use crate::objects::Leftovers;
use crate::options::Output;
use crate::signals::Signals;
use crate::stores::{Stores, at};
use crate::summary::count;
use crate::trouble::{Ending, Trouble};

/// Remove the files of a finished job, and leftovers of its workers
///
/// The generation needs none of the job's files. In object stores, Evener also aborts the uploads
/// that killed workers left open in DST and J.
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
        let at_job = super::places::place("J", &of_job.job)?;
        let (job, warnings) = of_job.open(signals, plain)?;
        warn(&warnings, output.quiet);
        let cleaned = job.evener.clean_job(&job.ends(), &job.key, abandon)?;
        let OpenJob { stores, target, .. } = job;
        let mut leftovers = None;
        for place in [&target, &at_job] {
            add(&mut leftovers, removed(&stores, place)?);
        }
        let document = Document { cleaned, leftovers };
        if output.json {
            with_failures(&document, &[])?;
        } else if !output.quiet {
            writeln!(io::stdout().lock(), "{}", document.line()).map_err(Trouble::Output)?;
        }
        Ok(Ending::Done)
    }
}

/// Removes the leftovers in a place, if it is in an object store.
fn removed(stores: &Stores, place: &Place) -> Result<Option<Leftovers>, Trouble> {
    let Place::Objects(address) = place else { return Ok(None) };
    let removed = stores.open_source(address)?.clean(Duration::ZERO, false);
    Ok(Some(removed.map_err(|fault| at(address, fault))?))
}

fn add(sum: &mut Option<Leftovers>, more: Option<Leftovers>) {
    let Some(more) = more else { return };
    match sum {
        Some(sum) => {
            sum.uploads += more.uploads;
            sum.probes += more.probes;
            sum.younger += more.younger;
        }
        None => *sum = Some(more),
    }
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    cleaned: CleanedJob,
    #[serde(skip_serializing_if = "Option::is_none")]
    leftovers: Option<Leftovers>,
}

impl Document {
    fn line(&self) -> String {
        let mut line = format!("removed {} of the job", count(self.cleaned.files, "file"));
        if let Some(Leftovers { uploads, probes, .. }) = &self.leftovers {
            line.push_str(&format!("; aborted {}", count(*uploads, "unfinished upload")));
            if *probes > 0 {
                line.push_str(&format!("; removed {}", count(*probes, "leftover object")));
            }
        }
        line
    }
}
