//! Waits at a gate that a recall ends, and the reports about them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::file::GateFile;
use crate::patience::Patience;
use evener_core::{Bell, Recall};

/// A process at a gate, whose file may be reset while it waits.
pub(crate) trait Visit: Patience {
    /// Called with the file at which the process will wait; again with the new file after a reset.
    fn comes_to(&mut self, _: &Arc<GateFile>) {}
}

impl Visit for bool {}

/// The state of a wait at a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The gate's engine.
    pub engine: String,
    /// The time that it has lasted.
    pub time: Duration,
    /// Number of processes ahead in the queue.
    pub ahead: usize,
}

/// Waits until a recall ends the wait, and reports after 1 s, 2 s, 4 s and so on, so that a long
/// queue hardly ever wakes for reports.
pub(crate) struct Recallable<'a> {
    recall: &'a Recall,
    tell: &'a mut dyn FnMut(&Wait),
    engine: &'a str,
    started: Instant,
    /// Time of the next report.
    next: Duration,
    file: Option<Arc<GateFile>>,
    /// The place where it waits, whose bell the recall rings.
    at: Option<((usize, u64), Bell)>,
}

impl<'a> Recallable<'a> {
    pub(crate) fn new(
        recall: &'a Recall,
        tell: &'a mut dyn FnMut(&Wait),
        engine: &'a str,
    ) -> Recallable<'a> {
        let (started, next) = (Instant::now(), FIRST_WORD);
        Recallable { recall, tell, engine, started, next, file: None, at: None }
    }

    /// Registers the place with the recall.
    fn register(&mut self, file: &Arc<GateFile>, queue: usize, position: u64) {
        if self.at.as_ref().is_none_or(|(at, _)| *at != (queue, position)) {
            let file = Arc::clone(file);
            let bell = self.recall.bell(move || {
                file.table.ring(queue, position);
            });
            self.at = Some(((queue, position), bell));
        }
    }
}

impl Patience for Recallable<'_> {
    fn stays(&mut self, queue: usize, position: u64) -> Option<Duration> {
        let file = Arc::clone(self.file.as_ref()?);
        self.register(&file, queue, position);
        if self.recall.is_called() {
            return None;
        }
        let time = self.started.elapsed();
        if time >= self.next {
            while self.next <= time {
                self.next *= 2;
            }
            let ahead = file.table.count_ahead(queue, position);
            (self.tell)(&Wait { engine: self.engine.to_owned(), time, ahead });
        }
        Some(self.next.saturating_sub(time))
    }
}

impl Visit for Recallable<'_> {
    fn comes_to(&mut self, file: &Arc<GateFile>) {
        self.at = None;
        self.file = Some(Arc::clone(file));
    }
}

/// Shorter waits are not reported.
const FIRST_WORD: Duration = Duration::from_secs(1);
