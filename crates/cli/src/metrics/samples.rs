//! The metrics. All are read from counts that the work keeps anyway, when somebody asks for them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use evener::{Control, EngineWork, Settled, Waits};
use evener_core::IgnorePoison;

use crate::objects::{RequestFailure, Traffic};
use crate::prometheus::collector::Collector;
use crate::prometheus::{Encoder, Type, add, text};

/// The operations and stores whose counts are added up.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    begun: SystemTime,
    controls: Arc<Mutex<Vec<Arc<Control>>>>,
    traffic: Arc<Mutex<Vec<Traffic>>>,
}

impl Watched {
    /// Nothing yet.
    pub(super) fn new() -> Watched {
        Watched { begun: SystemTime::now(), controls: Arc::default(), traffic: Arc::default() }
    }

    pub(super) fn add_control(&self, control: Arc<Control>) {
        self.controls.lock().ignore_poison().push(control);
    }

    pub(super) fn add_traffic(&self, traffic: Traffic) {
        self.traffic.lock().ignore_poison().push(traffic);
    }

    /// The metrics as text.
    pub(super) fn text(&self) -> String {
        text("evener", self.clone())
    }

    fn sum(&self, count: impl Fn(&Control) -> u64) -> u64 {
        self.controls.lock().ignore_poison().iter().map(|control| count(control)).sum()
    }

    fn sum_traffic(&self, count: impl Fn(&Traffic) -> u64) -> u64 {
        self.traffic.lock().ignore_poison().iter().map(count).sum()
    }

    fn add_run(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        add(encoder, ("info", Type::Gauge, "The program; always 1."), [(version, 1_u64)])?;
        let begun = self.begun.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let help = "When the run began, in seconds since 1970.";
        add(encoder, ("start_time_seconds", Type::Gauge, help), [(vec![], begun)])?;
        let is_stopping = self.sum(|control| u64::from(control.is_stopped())).min(1);
        let help = "1 once the run was asked to stop.";
        add(encoder, ("stopping", Type::Gauge, help), [(vec![], is_stopping)])
    }

    fn add_files(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let found = self.sum(|control| control.progress().found_files);
        let help = "Files found so far.";
        add(encoder, ("files_found", Type::Counter, help), [(vec![], found)])?;
        let outcomes = Settled::ALL.map(|outcome| {
            let files = self.sum(|control| control.files(outcome));
            (vec![("outcome", outcome.name())], files)
        });
        add(encoder, ("files", Type::Counter, "Files that need no more work."), outcomes)?;
        let failures = self.sum(Control::failures);
        let help = "Failures of files, directories and links.";
        add(encoder, ("failures", Type::Counter, help), [(vec![], failures)])?;
        let bytes = self.sum(|control| control.progress().done_bytes);
        let help = "Bytes of the source that were read, or that needed no reading.";
        add(encoder, ("source_bytes", Type::Counter, help), [(vec![], bytes)])
    }

    fn add_engines(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let mut engines = BTreeMap::<String, [u64; 3]>::new();
        for control in self.controls.lock().ignore_poison().iter() {
            for (name, EngineWork { jobs, bytes, failures, .. }) in control.tally().engines() {
                let sums = engines.entry(name).or_default();
                sums.iter_mut().zip([jobs, bytes, failures]).for_each(|(sum, more)| *sum += more);
            }
        }
        let columns = [
            ("engine_jobs", "Jobs that an engine processed."),
            ("engine_bytes", "Bytes that went into those jobs."),
            ("engine_failures", "Workers that ended because their engine failed."),
        ];
        for (column, (name, help)) in columns.into_iter().enumerate() {
            let samples = engines.iter().map(|(name, sums)| {
                let labels = vec![("engine", &**name)];
                (labels, sums[column])
            });
            add(encoder, (name, Type::Counter, help), samples)?;
        }
        Ok(())
    }

    fn add_waits(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let controls = self.controls.lock().ignore_poison();
        let sides: [(_, WaitsOf); 2] = [
            ("feed", |control| control.tally().feed()),
            ("workers", |control| control.tally().workers()),
        ];
        let labels = |side| vec![("side", side)];
        let numbers = sides.map(|(side, waits)| {
            (labels(side), controls.iter().map(|control| waits(control).number()).sum::<u64>())
        });
        let help = "Waits of the feed for workers, and of workers for the feed.";
        add(encoder, ("waits", Type::Counter, help), numbers)?;
        let times = sides.map(|(side, waits)| {
            let times = controls.iter().map(|control| waits(control).time().as_secs_f64());
            (labels(side), times.sum::<f64>())
        });
        let help = "Seconds of those waits. Those of several workers add up.";
        add(encoder, ("wait_seconds", Type::Counter, help), times)
    }

    fn add_stores(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let columns: [(_, _, CountOf); 3] = [
            ("store_requests", "Requests to object stores, with repeated ones.", Traffic::sent),
            ("store_requests_repeated", "Requests sent again after a failure.", Traffic::repeated),
            ("store_requests_given_up", "Requests that failed in the end.", Traffic::given_up),
        ];
        for (name, help, count) in columns {
            add(encoder, (name, Type::Counter, help), [(vec![], self.sum_traffic(count))])?;
        }
        let failures = RequestFailure::ALL.map(|why| {
            (vec![("reason", why.name())], self.sum_traffic(|traffic| traffic.failed(why)))
        });
        let help = "Failures of requests, with those that were repeated.";
        add(encoder, ("store_request_failures", Type::Counter, help), failures)
    }
}

impl Collector for Watched {
    fn encode(&self, mut encoder: Encoder<'_>) -> fmt::Result {
        self.add_run(&mut encoder)?;
        self.add_files(&mut encoder)?;
        self.add_engines(&mut encoder)?;
        self.add_waits(&mut encoder)?;
        self.add_stores(&mut encoder)
    }
}

/// The waits of one side of a run.
type WaitsOf = fn(&Control) -> &Waits;

/// A count of requests.
type CountOf = fn(&Traffic) -> u64;
