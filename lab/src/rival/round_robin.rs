//! `round-robin`: equal shares for all workers, dealt out in turn as tasks are fed.

use std::time::Duration;

use evener_pipeline::Waiting;
use evener_pipeline::policy::{Claim, Decision, Effect, Event, Policy, Seat};

/// Every worker gets the same number of tasks, whether it is busy or not. Only the numbers are
/// equal; a worker takes its tasks from the head of the queue.
pub(super) struct RoundRobin {
    workers: Vec<Share>,
    in_service: usize,
    /// Tasks claimed by workers that have ended.
    settled: u64,
}

#[derive(Clone, Copy)]
struct Share {
    claimed: u64,
    in_service: bool,
}

impl RoundRobin {
    pub(super) fn new(seats: &[Seat]) -> RoundRobin {
        let workers = vec![Share { claimed: 0, in_service: true }; seats.len()];
        RoundRobin { in_service: workers.len(), workers, settled: 0 }
    }

    /// A worker's share of the tasks fed so far.
    fn dealt(&self, worker: usize, waiting: &Waiting) -> u64 {
        let before = self.workers[..worker].iter().filter(|share| share.in_service).count();
        let fed = waiting.fed.saturating_sub(self.settled);
        let in_service = self.in_service.max(1) as u64;
        fed.saturating_add(in_service - 1).saturating_sub(before as u64) / in_service
    }
}

impl Policy for RoundRobin {
    fn next(&self, worker: usize, waiting: &Waiting, _: Duration) -> Decision {
        // Returned and shared tasks belong to no worker's share.
        let due = |worker| {
            let dealt = self.dealt(worker, waiting);
            dealt.saturating_sub(self.workers[worker].claimed)
        };
        let in_service = (0..self.workers.len()).filter(|&one| self.workers[one].in_service);
        if due(worker) > 0
            || waiting.tasks as u64 > in_service.map(due).fold(0, u64::saturating_add)
        {
            Decision::Claim(Claim::ONE)
        } else {
            Decision::Wait(None)
        }
    }

    fn note(&mut self, worker: usize, event: &Event, _: &Waiting, _: Duration) -> Effect {
        match event {
            Event::Claimed { .. } => self.workers[worker].claimed += 1,
            // The other workers get its share, and the task that it returned.
            Event::Left if self.workers[worker].in_service => {
                self.workers[worker].in_service = false;
                self.in_service = self.in_service.saturating_sub(1);
                let claimed = self.workers[worker].claimed.saturating_sub(1);
                self.settled = self.settled.saturating_add(claimed);
                return Effect::AskAgain;
            }
            _ => {}
        }
        Effect::Nothing
    }

    /// Does not restrain modules: the shares are fixed.
    fn restrain(&self, _: Duration) -> Option<Decision> {
        None
    }
}
