//! `evener job`

mod clean;
mod finish;
mod places;
mod plan;
mod run;
mod simulate;
mod status;

use std::ffi::OsString;

use clap::{Args, Subcommand};
use evener::jobs::{Ends, JobInfo};
use evener::sealed_trees::{Keychain, Wrap};
use evener::{Evener, Failure, FileError, Key, KeyRing, Refusal};

use crate::document::print_failure;
use crate::ends::Place;
use crate::hints::{self, Given};
use crate::keys::{Keyholder, of_job, recipients_wrap};
use crate::options::{JobKeys, Recipients, StoreOptions};
use crate::signals::Signals;
use crate::stores::{AnyPlace, Stores, refuse_unused_in};
use crate::trouble::{Ending, Trouble, complain, refused};
use places::{opened, place, text};

/// Make one generation of a sealed tree with many workers
///
/// `evener job plan` cuts a source into shards. Any number of workers, on any machines, seal the
/// shards with `evener job run`, in any order and repeatedly if need be. `evener job finish` makes
/// the generation, and `evener job clean` removes the job's files.
///
/// J is the place of the job's own files, a directory or an object store that all machines reach.
/// They are sealed under the job's key, which every command needs.
///
/// The exit status is 0 if everything is done, 1 after a failure (run the command again), 2 after
/// wrong usage or with a wrong key, 3 if `evener job run --shard` finds a shard that another worker
/// has done, 4 if DST has a file of another origin under the name of one of the job's, and 130 if a
/// signal stopped it.
#[derive(Args)]
pub(crate) struct Job {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Plan(Box<plan::Plan>),
    Run(Box<run::Run>),
    Status(Box<status::Status>),
    Finish(Box<finish::Finish>),
    Clean(Box<clean::Clean>),
    Simulate(Box<simulate::Simulate>),
}

impl Job {
    /// Returns whether a document is to be printed.
    pub(crate) fn json(&self) -> bool {
        match &self.action {
            Action::Plan(options) => options.output.json,
            Action::Run(options) => options.telling.json,
            Action::Status(options) => options.json,
            Action::Finish(options) => options.output.json,
            Action::Clean(options) => options.output.json,
            Action::Simulate(options) => options.json,
        }
    }

    /// The engines that load foreign code.
    pub(crate) fn foreign_engines(&self) -> Vec<String> {
        match &self.action {
            Action::Run(options) => options.engines.foreign(),
            _ => Vec::new(),
        }
    }

    /// Returns whether the program is to end when its parent does.
    pub(crate) fn follows_parent(&self) -> bool {
        matches!(self.action, Action::Run(_))
    }

    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let json = self.json();
        let result = match self.action {
            Action::Plan(options) => options.perform(signals),
            Action::Run(options) => options.perform(signals),
            Action::Status(options) => options.perform(signals),
            Action::Finish(options) => options.perform(signals),
            Action::Clean(options) => options.perform(signals),
            Action::Simulate(options) => options.perform(signals),
        };
        match result {
            Err(Trouble::Failure(failure)) => failed(failure, json),
            result => result,
        }
    }
}

/// Reports a failure. A scheduler may try again, unless the key is wrong.
fn failed(failure: Failure, json: bool) -> Result<Ending, Trouble> {
    let ending = match &failure.error {
        FileError::Interrupted => Ending::Interrupted,
        FileError::Refused(Refusal::NoKey(_)) => Ending::WrongKey,
        _ => Ending::SomeFailed,
    };
    complain(&hints::line(&failure, Given::default()));
    if json {
        print_failure("job", &Trouble::Failure(failure))?;
    }
    Ok(ending)
}

/// Reports that work was left behind when a signal came.
fn leave_behind(json: bool) {
    complain(&"interrupted");
    if json {
        // The program ends even if this fails.
        let _ = print_failure("job", &Trouble::usage("interrupted"));
    }
}

/// The place and the key of a job.
#[derive(Args)]
struct OfJob {
    #[command(flatten)]
    keys: JobKeys,
    #[command(flatten)]
    stores: StoreOptions,
    /// Place of the job's own files, as `evener job plan --job` named it
    #[arg(value_name = "J")]
    job: OsString,
}

/// An open place of a job.
struct AtJob {
    evener: Evener,
    key: Key,
    /// Opens the tree.
    keychain: Keychain,
    stores: Stores,
    place: Place,
    at_job: AnyPlace,
    options: StoreOptions,
    takes_insecure: bool,
}

/// An open job, with its ends.
struct OpenJob {
    at: AtJob,
    info: JobInfo,
    source: Place,
    target: Place,
    at_source: AnyPlace,
    at_target: AnyPlace,
}

impl OfJob {
    /// Opens the place. `evener` makes what does the work, for a key of the job's format. Warnings
    /// are told unless `is_quiet`.
    fn open(
        mut self,
        signals: &Signals,
        is_quiet: bool,
        evener: impl FnOnce(KeyRing) -> Result<Evener, Trouble>,
    ) -> Result<AtJob, Trouble> {
        self.keys.complete()?;
        let place = place("J", &self.job)?;
        let JobKeys { origins, identities, passphrase, .. } = &self.keys;
        let exposure = &origins.exposure;
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, exposure, true)?;
        let (key, keys) = of_job(&self.keys, &keyholder)?;
        let key_files = self.keys.files();
        let evener = evener(keys.ring)?
            .with_options(|options| key_files.iter().for_each(|path| options.protect(path)));
        warn(&keyholder.warnings(), is_quiet);
        let stores = Stores::new(&self.stores);
        // New objects get their storage class and lock in DST alone.
        let at_job = opened(&stores, &evener, &place, false)?;
        let (keychain, options) = (keys.keychain, self.stores);
        let takes_insecure = exposure.insecure_key_file;
        Ok(AtJob { evener, key, keychain, stores, place, at_job, options, takes_insecure })
    }
}

impl AtJob {
    /// Opens the source and the target of the job.
    fn with_ends(self) -> Result<OpenJob, Trouble> {
        let AtJob { evener, key, stores, place: job, at_job, options, .. } = &self;
        let info = evener.job_info(at_job, key)?;
        let here = text("J", job)?;
        if info.place != here {
            let (there, job) = (&info.place, job.path());
            let reason = format!(
                "the job was planned at {there}: somebody has moved it here; work on it there, or \
                 plan it anew"
            );
            return Err(Failure { path: job, error: refused(reason) }.into());
        }
        let source = place("SRC", info.source.as_ref())?;
        let target = place("DST", info.target.as_ref())?;
        refuse_unused_in(options, &[job, &source, &target])?;
        let at_source = opened(stores, evener, &source, false)?;
        let at_target = opened(stores, evener, &target, true)?;
        Ok(OpenJob { at: self, info, source, target, at_source, at_target })
    }
}

impl OpenJob {
    fn ends(&self) -> Ends<'_> {
        Ends {
            source: &self.at_source,
            target: &self.at_target,
            job: &self.at.at_job,
            manifest: Some(self.info.manifest),
        }
    }

    /// Wraps keys for the job's recipients, with a word for those; `None` if it has none.
    fn wrap(&self, signals: &Signals) -> Result<Option<(Wrap, String)>, Trouble> {
        if self.info.recipients.is_empty() {
            return Ok(None);
        }
        let recipients = self.info.recipients.clone();
        let recipients = Recipients { recipients, recipient_files: Vec::new() };
        recipients_wrap(&recipients, self.at.takes_insecure, signals).map(Some)
    }
}

/// A program for work that needs no engine of the user's choice.
fn plain(ring: KeyRing) -> Result<Evener, Trouble> {
    Ok(Evener::new(ring)?)
}

fn warn(warnings: &[String], is_quiet: bool) {
    for warning in warnings.iter().filter(|_| !is_quiet) {
        complain(&format_args!("warning: {warning}"));
    }
}
