//! On which core a holder runs, at an engine that computes on the processor's own.
//!
//! The kernel wakes the next in line on the core where it slept last. That is often another
//! holder's, which it pushes aside, while the core that has just become free stands idle until
//! the next balancing, milliseconds later. (The holder that was pushed aside ran a moment ago,
//! so its data are thought to be in its core's cache, and an idle core leaves it there.) So
//! who has waited and finds itself on another holder's core moves over to the vacated one.
//!
//! That is done where there is no more than one holder for each core. Otherwise all cores are
//! busy anyway, and holders that mostly wait for a device need no core of their own.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::layout::Tagged;
use crate::memory::Memory;
use crate::table::{Hold, Table};

impl<M: Memory> Table<M> {
    /// Notes on which core a holder runs: when it comes and when it leaves.
    pub(crate) fn note_core(&self, hold: Hold) {
        let record = self.layout.permit_record(hold.queue, hold.permit);
        self.memory.note(record.core(), name(sched_getcpu()));
    }

    /// Moves a holder that was let in just now from another's core to the one that was vacated
    /// for it, and notes where it is.
    pub(crate) fn settle(&self, hold: Hold) {
        let record = self.layout.permit_record(hold.queue, hold.permit);
        let (here, vacated) = (name(sched_getcpu()), self.memory.load(record.core()));
        if hold.waited && vacated != UNKNOWN && vacated != here && self.is_taken(here, hold) {
            let permits = self.layout.queues * self.layout.permits;
            move_to(vacated, permits);
        }
        self.note_core(hold);
    }

    /// Whether another holder was last seen on a core.
    fn is_taken(&self, core: u64, mine: Hold) -> bool {
        let permits = |queue| (0..self.layout.permits).map(move |permit| (queue, permit));
        (0..self.layout.queues).flat_map(permits).any(|(queue, permit)| {
            (queue, permit) != (mine.queue, mine.permit)
                && self.memory.load(self.layout.permit_record(queue, permit).core()) == core
                && Tagged(self.memory.load(self.layout.permit(queue, permit))).who().is_some()
        })
    }
}

/// Moves this thread to a core and then lets it run where it may run already, if there are
/// enough cores for all holders. Where that is not allowed it stays where it is.
fn move_to(core: u64, holders: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let core = usize::try_from(core - 1).unwrap_or(usize::MAX);
    let is_enough = usize::try_from(allowed.count()).is_ok_and(|cores| holders <= cores);
    if core < CpuSet::MAX_CPU && allowed.is_set(core) && is_enough {
        let mut only = CpuSet::new();
        only.set(core);
        if sched_setaffinity(None, &only).is_ok() {
            // The kernel refuses only what it would have refused a moment before.
            let _ = sched_setaffinity(None, &allowed);
        }
    }
}

/// A core as the record has it.
fn name(core: usize) -> u64 {
    core as u64 + 1
}

const UNKNOWN: u64 = 0;
