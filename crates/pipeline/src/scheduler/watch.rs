//! The watch of idle cores over the claims of modules: late ones are taken back.

use std::time::Duration;

use super::{Call, Phase, Scheduler, State};

impl<T> Scheduler<T> {
    /// Takes back the late claims of modules for an idle core. Returns the time until the next
    /// check.
    pub(super) fn watch_claims(&mut self, now: Duration) -> Option<Duration> {
        if let Some(planned) = self.next_look
            && now.saturating_sub(planned) > OVERSLEPT
        {
            // The process was stopped, so the modules had no time to work.
            self.pace.shift(now.saturating_sub(planned));
            self.idle_since = None;
        }
        let is_drained = self.backlog.waiting().tasks == 0;
        let is_urgent = is_drained && (self.phase == Phase::Closed || self.feed_is_held);
        let since = *self.idle_since.get_or_insert(now);
        let cores = (0..self.workers.len()).filter(|&worker| {
            let is_idle = matches!(self.workers[worker], State::Parked | State::Resting);
            !self.pace.is_module(worker) && is_idle
        });
        // The asking worker is idle too.
        let cores = cores.count() + 1;
        self.next_look = None;
        for worker in 0..self.workers.len() {
            let is_module = self.pace.is_module(worker) && self.workers[worker] == State::Working;
            let Some(due) = self.pace.due(worker).filter(|_| is_module) else { continue };
            let again = self.pace.again(worker, cores);
            let is_sooner_done_again = again.is_some_and(|again| due > now.saturating_add(again));
            let at = match is_urgent {
                false => due.saturating_add(PATIENCE),
                true if is_sooner_done_again => now,
                true => due.min(since.saturating_add(PATIENCE)),
            };
            if at <= now {
                self.workers[worker] = State::Recalled;
                self.calls.push(Call::Recall(worker));
            } else {
                self.next_look = Some(self.next_look.map_or(at, |next| next.min(at)));
            }
        }
        self.next_look.map(|next| next.saturating_sub(now))
    }

    /// Makes an idle core watch the claims of modules, if there are any.
    pub(super) fn have_claims_watched(&mut self, now: Duration) {
        let is_modules = |worker, state| state == State::Working && self.pace.is_module(worker);
        if self.is_over() || self.find(is_modules).is_none() {
            return;
        }
        let is_core = |worker| !self.pace.is_module(worker);
        let idle = self.find(|worker, state| {
            is_core(worker) && matches!(state, State::Parked | State::Resting)
        });
        let is_there =
            |worker, state| is_core(worker) && !matches!(state, State::Unstarted | State::Left);
        let unstarted = || {
            let found = self.find(|worker, state| is_core(worker) && state == State::Unstarted);
            found.filter(|_| self.find(is_there).is_none())
        };
        if let Some(worker) = idle.or_else(unstarted) {
            self.call(worker, now);
        }
    }
}

/// The time that idle cores wait for a module's claim. With the time that an opening may take from
/// the cores (`engines/guard`) it is less than the 20 ms by which a module may lengthen a run.
pub(super) const PATIENCE: Duration = Duration::from_millis(8);

/// The excess over a planned wait that shows that the process was stopped.
const OVERSLEPT: Duration = Duration::from_millis(250);
