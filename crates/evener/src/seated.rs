//! Seats workers for an operation.

use std::io;
use std::path::Path;
use std::sync::Arc;

use evener_core::{Engine, EngineError};
use evener_engines::Watch;
use evener_pipeline::{Patience, PolicyName, gated};
use evener_place::{FileError, Notice, Operation, Refusal, RunSettings};

use crate::builder::Settings;
use crate::seats::seats;
use crate::{Evener, Options, profile};

/// An operation's options, with one seat for each worker.
pub(crate) struct Seated {
    pub(crate) options: Options,
    /// For the user, if the profile is not used.
    pub(crate) notice: Option<Notice>,
}

impl Evener {
    pub(crate) fn seated(&self, operation: Operation) -> Result<Seated, FileError> {
        let mut options = self.settings.options.clone();
        options.run.seats = self.seats(operation, &options.run)?;
        let mut notice = None;
        if let Some(path) = &self.settings.profile {
            options.protect(path);
            notice = self.load_costs(path, operation, &mut options.run);
        }
        Ok(Seated { options, notice })
    }

    fn seats(
        &self,
        operation: Operation,
        run: &RunSettings,
    ) -> Result<Vec<Arc<dyn Engine>>, FileError> {
        let Settings { workers, verify_every, turns, on_wait, .. } = &self.settings;
        if !run.seats.is_empty() {
            return match self.settings.choose_workers() {
                true => Err(Refusal::Other(SEATS.to_owned()).into()),
                false => Ok(guarded(&run.seats)?),
            };
        }
        // New guards, so that each operation has its own count of jobs.
        let watch = Watch::of_a_run(*verify_every);
        let watched = |engine| evener_engines::watched(engine, watch);
        let engines: Vec<_> = self.engines.iter().map(watched).collect::<Result<_, _>>()?;
        let (cipher, direction) = (self.keys.primary().cipher(), operation.direction());
        let patience = Patience { recall: run.control.recall().clone(), tell: on_wait.clone() };
        let engines = gated(&engines, cipher, direction, turns, &patience)?;
        Ok(seats(&engines, cipher, direction, *workers))
    }

    /// Loads the costs of the engines, if the policy uses them. Returns a notice for the user if
    /// the file can't be used.
    fn load_costs(
        &self,
        path: &Path,
        operation: Operation,
        run: &mut RunSettings,
    ) -> Option<Notice> {
        let kinds = run.seats.iter().map(|engine| engine.description().kind);
        let policy = run.policy.clone().unwrap_or_else(|| PolicyName::usual(kinds).into());
        if !policy.uses_costs() {
            return None;
        }
        let engines: Vec<_> = self.engines.iter().map(|engine| &**engine).collect();
        let cipher = self.keys.primary().cipher();
        match profile::load(path, &engines, cipher, operation.direction()) {
            Ok(costs) => run.costs = costs,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let reason = format!("this profile of the engines is not used: {error}");
                return Some(Notice { path: path.to_owned(), reason });
            }
        }
        None
    }
}

/// The caller's seats, with a guard for each module that has none.
fn guarded(seats: &[Arc<dyn Engine>]) -> Result<Vec<Arc<dyn Engine>>, EngineError> {
    let mut known: Vec<[Arc<dyn Engine>; 2]> = Vec::new();
    for engine in seats {
        if !known.iter().any(|[other, _]| Arc::ptr_eq(other, engine)) {
            let guarded = match evener_engines::is_watched(engine) {
                true => Arc::clone(engine),
                false => evener_engines::watched(engine, Watch::of_a_run(None))?,
            };
            known.push([Arc::clone(engine), guarded]);
        }
    }
    let of = |engine| known.iter().find(|[other, _]| Arc::ptr_eq(other, engine));
    Ok(seats.iter().filter_map(|engine| Some(Arc::clone(&of(engine)?[1]))).collect())
}

const SEATS: &str = "`RunSettings::seats` has the workers already: the builder can't choose engines, their \
    number, how they are verified or how they are shared";
