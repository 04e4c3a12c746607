//! `evener job status`

use std::io::{self, Write};

use clap::Args;
use evener::jobs::JobStatus;

use super::{AtJob, OfJob, plain};
use crate::document::with_failures;
use crate::signals::Signals;
use crate::stores::refuse_unused_in;
use crate::summary::size;
use crate::trouble::{Ending, Trouble, shown};

/// Show how far a job is
///
/// A shard is done when it has a receipt. Evener lists the receipts, and reads neither SRC nor DST.
#[derive(Args)]
pub(super) struct Status {
    #[command(flatten)]
    of_job: OfJob,
    /// Print one JSON document
    #[arg(long, help_heading = "Messages")]
    pub(super) json: bool,
}

impl Status {
    pub(super) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let AtJob { evener, key, place, at_job, options, .. } =
            self.of_job.open(signals, false, plain)?;
        refuse_unused_in(&options, &[&place])?;
        let status = evener.job_status(&at_job, &key)?;
        if self.json {
            with_failures(&status, &[])?;
        } else {
            let print = |out: &mut dyn Write| {
                lines(&status).iter().try_for_each(|line| writeln!(out, "{line}"))
            };
            print(&mut io::stdout().lock()).map_err(Trouble::Output)?;
        }
        Ok(Ending::Done)
    }
}

fn lines(status: &JobStatus) -> Vec<String> {
    let JobStatus { source, target, generation, shards, done, missing, finished, .. } = status;
    let mut lines = vec![
        format!(
            "job {}: {} to {}, generation {generation}",
            status.job,
            shown(source.as_ref()),
            shown(target.as_ref())
        ),
        format!(
            "{done} of {shards} shards done, {} of {} objects, {} of {}",
            status.objects_done,
            status.objects,
            size(status.bytes_done as f64),
            size(status.bytes as f64)
        ),
    ];
    if !missing.is_empty() {
        let first: Vec<_> = missing.iter().take(MOST_SHOWN).map(u64::to_string).collect();
        let more = match missing.len() - first.len() {
            0 => String::new(),
            more => format!(" and {more} more (--json lists them)"),
        };
        lines.push(format!("without a receipt: {}{more}", first.join(", ")));
    }
    lines.push(match (missing.is_empty(), finished) {
        (_, true) => "finished".to_owned(),
        (true, false) => "`evener job finish` can make the generation".to_owned(),
        (false, false) => "not finished".to_owned(),
    });
    lines
}

/// The number of missing shards that are named.
const MOST_SHOWN: usize = 20;
