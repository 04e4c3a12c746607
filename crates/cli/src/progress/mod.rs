//! Progress of a running operation: a line on the terminal ([`bar`]), one JSON object per line for
//! programs ([`lines`]), and the name of each file ([`files`]). All of it goes to standard error,
//! the JSON elsewhere on request; none goes where the data goes.

mod bar;
mod files;
mod gauge;
mod lines;

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use evener::{Control, Failure, Operation, Report, Total};
use evener_cli::streams::output;

use crate::ends::Place;
use crate::options::Telling;
use crate::plan::Plan;
use crate::trouble::Trouble;
pub(crate) use bar::clear_bar;
use gauge::Gauge;
use lines::Lines;

/// Shows the progress of an operation.
pub(crate) struct Progress {
    gauge: Gauge,
    has_bar: bool,
    lines: Option<Lines>,
    /// The files whose names are shown.
    files: Option<files::Shown>,
    /// True if each file gets a line of JSON.
    tells_files: bool,
}

impl Progress {
    /// Opens the destination of the JSON lines.
    ///
    /// # Errors
    /// When it can't be opened, or the data goes there too.
    pub(crate) fn of(plan: &Plan, telling: &Telling) -> Result<Progress, Trouble> {
        let lines = match &telling.json_progress {
            Some(place) => Some(Lines::open(place.as_ref(), &plan.route, telling)?),
            None => None,
        };
        let shows_text = plan.route.first().target == Some(Place::Pipe) && output().is_terminal();
        let has_bar = lines.as_ref().is_none_or(|lines| !lines.are_on_stderr())
            && !telling.json
            && !telling.quiet
            && !shows_text
            && bar::has_room();
        Ok(Progress {
            gauge: Gauge::new(plan.control.clone(), plan.route.length(), plan.is_dry_run),
            has_bar,
            lines,
            files: files::Shown::wanted(verbs(plan), plan.is_dry_run, telling),
            tells_files: telling.verbose || plan.is_dry_run,
        })
    }

    /// Returns the plan with a listener for each file, if one is needed. The plan leaves the file
    /// of progress alone.
    pub(crate) fn hearing(self: &Arc<Progress>, mut plan: Plan) -> Plan {
        if let Some(file) = self.lines.as_ref().and_then(Lines::file) {
            let evener = plan.evener.with_options(|options| options.protect(file));
            plan = Plan { evener, ..plan };
        }
        if self.files.is_none() && !(self.tells_files && self.lines.is_some()) {
            return plan;
        }
        let progress = self.clone();
        let evener = plan.evener.with_options(|options| {
            options.run.listener = Some(Arc::new(move |path, outcome| {
                if let Some(files) = &progress.files {
                    files.tell(path, outcome);
                }
                if let Some(lines) = progress.lines.as_ref().filter(|_| progress.tells_files) {
                    lines.tell_of_file(path, outcome);
                }
            }));
        });
        Plan { evener, ..plan }
    }

    /// Does the work and shows its progress.
    pub(crate) fn watch<T>(&self, plan: &Plan, work: impl FnOnce() -> T) -> T {
        if !self.has_bar && self.lines.is_none() {
            return work();
        }
        plan.control.want_total();
        let (ended, end) = mpsc::channel::<()>();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let show = move || {
                self.show(&plan.control, || {
                    end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout)
                });
            };
            let measure = || {
                let total = measure(plan, || is_over.load(Ordering::Relaxed));
                self.gauge.set_total(total);
            };
            // If no thread can be started, the work runs without.
            let _ = thread::Builder::new().spawn_scoped(scope, show);
            if plan.route.has_tree() {
                let _ = thread::Builder::new().spawn_scoped(scope, measure);
            }
            let result = work();
            is_over.store(true, Ordering::Relaxed);
            drop(ended);
            result
        })
    }

    fn show(&self, control: &Control, goes_on: impl Fn() -> bool) {
        let mut told = Instant::now();
        while goes_on() {
            let reading = self.gauge.read();
            // The user is reading a question there.
            if self.has_bar && !control.is_asking() {
                bar::show(&reading);
            }
            if let Some(lines) = &self.lines
                && told.elapsed() >= LINE_INTERVAL
            {
                told = Instant::now();
                lines.tell(&reading);
            }
        }
        if self.has_bar {
            clear_bar();
        }
    }

    /// Clears the line, if there is one, for the last messages, and ends the JSON.
    pub(crate) fn end(&self, result: Result<&Report, &Failure>) {
        if self.has_bar {
            clear_bar();
        }
        if let Some(lines) = &self.lines {
            lines.tell_end(&self.gauge.read(), result);
        }
    }
}

/// Shows the progress of work without a plan, only on the terminal.
pub(crate) fn with_bar<T>(control: &Arc<Control>, is_wanted: bool, work: impl FnOnce() -> T) -> T {
    if !is_wanted || !bar::has_room() {
        return work();
    }
    let gauge = Gauge::new(control.clone(), None, false);
    let progress = &Progress { gauge, has_bar: true, lines: None, files: None, tells_files: false };
    let (ended, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let show = move || {
            let goes_on = || end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout);
            progress.show(control, goes_on);
        };
        let _ = thread::Builder::new().spawn_scoped(scope, show);
        let result = work();
        drop(ended);
        result
    })
}

/// Adds up all sources; `None` if that can't be known.
fn measure(plan: &Plan, is_over: impl Fn() -> bool) -> Option<Total> {
    if plan.takes_shards {
        return None;
    }
    let mut total = Total::default();
    for ends in &plan.route.ends {
        let more = match (&ends.source, ends.length) {
            (_, Some(bytes)) => Total { files: 1, bytes },
            // Only the index tells what a sealed tree holds, which the operation itself reads.
            (Place::Path(_), None) if plan.reads_sealed => return None,
            (Place::Path(source), None) if ends.source_is_tree => {
                let target = match &ends.target {
                    Some(Place::Path(target)) if plan.sealed.is_none() => Some(&**target),
                    _ => None,
                };
                plan.evener.measure(plan.operation, source, target, &is_over)?
            }
            _ => return None,
        };
        total.files += more.files;
        total.bytes += more.bytes;
    }
    // Sources that are removed meanwhile can't be measured.
    (!plan.removes_sources).then_some(total)
}

/// The verbs for the operation on a file, for messages.
fn verbs(plan: &Plan) -> [&'static str; 2] {
    match plan.operation {
        _ if plan.given.rekeys => ["rekeyed", "rekey"],
        Operation::Encrypt => ["encrypted", "encrypt"],
        Operation::Decrypt => ["decrypted", "decrypt"],
        Operation::Verify => ["verified", "verify"],
    }
}

/// The interval at which the terminal's line is drawn.
const INTERVAL: Duration = Duration::from_millis(100);

/// The interval at which a line of JSON is written.
const LINE_INTERVAL: Duration = Duration::from_millis(500);
