//! A session of `openssl` and one of `lanes`.

use evener_core::{EngineError, Guarded, InPlaceJob, Job, Outcome, Records, Session, Shortcuts};

use super::Crossover;

pub(super) struct CpuSession {
    openssl: Box<dyn Session>,
    lanes: Box<dyn Session>,
    crossover: Crossover,
}

impl CpuSession {
    pub(super) fn new(
        openssl: Box<dyn Session>,
        lanes: Box<dyn Session>,
        crossover: Crossover,
    ) -> CpuSession {
        CpuSession { openssl, lanes, crossover }
    }

    /// The faster session for this number of messages and total of bytes.
    fn pick(&mut self, messages: usize, bytes: usize) -> &mut dyn Session {
        match self.crossover.prefers_lanes(messages, bytes) {
            true => &mut *self.lanes,
            false => &mut *self.openssl,
        }
    }
}

#[deny(clippy::missing_trait_methods, reason = "what is not passed on would be lost here")]
impl Session for CpuSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let pending = batch.iter().filter(|job| job.outcome == Outcome::Pending);
        let (messages, bytes) =
            pending.fold((0, 0), |(messages, bytes), job| (messages + 1, bytes + job.input.len()));
        self.pick(messages, bytes).process(batch)
    }

    fn shortcuts(&mut self) -> Option<&mut dyn Shortcuts> {
        Some(self)
    }

    fn guarded(&mut self) -> Option<&mut dyn Guarded> {
        None
    }
}

#[deny(clippy::missing_trait_methods, reason = "what is not passed on would be lost here")]
impl Shortcuts for CpuSession {
    fn process_in_place(&mut self, job: &mut InPlaceJob<'_>) -> Result<(), EngineError> {
        let bytes = job.data.len().saturating_sub(job.done);
        self.pick(1, bytes).process_in_place(job)
    }

    fn process_records(&mut self, records: &mut Records<'_>) -> Result<(), EngineError> {
        let layout = records.layout();
        self.pick(layout.count, layout.count.saturating_mul(layout.length)).process_records(records)
    }

    fn expect_output(&mut self, bytes: usize) {
        self.openssl.expect_output(bytes);
        self.lanes.expect_output(bytes);
    }
}
