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
            move_to(vacated, self.layout.queues * self.layout.permits);
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

/// Moves this thread to a core, and lets it run wherever it may run from there on; returns
/// whether it did. It stays where it is if there are fewer cores than holders, if it may not
/// run on that core, or if it may not choose.
fn move_to(core: u64, holders: usize) -> bool {
    let Ok(allowed) = sched_getaffinity(None) else { return false };
    let index = core.checked_sub(1).and_then(|index| usize::try_from(index).ok());
    let is_allowed = |&index: &usize| index < CpuSet::MAX_CPU && allowed.is_set(index);
    let are_enough = usize::try_from(allowed.count()).is_ok_and(|cores| holders <= cores);
    let Some(index) = index.filter(is_allowed).filter(|_| are_enough) else { return false };
    let mut only = CpuSet::new();
    only.set(index);
    // Who was allowed the first is allowed the second, which only takes the first back.
    sched_setaffinity(None, &only).and_then(|()| sched_setaffinity(None, &allowed)).is_ok()
}

/// A core as the records have it.
fn name(core: usize) -> u64 {
    core as u64 + 1
}

const UNKNOWN: u64 = 0;

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::identity::Identity;
    use crate::layout::Layout;
    use crate::sys::Mapping;

    #[test]
    fn who_waited_moves_from_anothers_core_to_the_vacated_one() {
        let allowed = sched_getaffinity(None).unwrap();
        let cores = cores(&allowed);
        if cores.len() < 2 {
            evener_skipped::skipped!("this process may run on one core only");
            return;
        }
        let table = table(2);
        let who = Identity::new(7, 7);
        let word = Tagged::new(Some(who), 1);
        let hold = Hold { queue: 0, permit: 0, word, position: 0, waited: true };
        let [mine, others] = [0, 1].map(|permit| table.layout.permit_record(0, permit).core());
        table.memory.store(table.layout.permit(0, 1), word.0);
        // The kernel may move the thread at any moment, too; mostly it does not.
        let moved = (0..1000).any(|_| {
            let here = sched_getcpu();
            let vacated = *cores.iter().find(|&&core| core != here).unwrap();
            table.memory.store(mine, name(vacated));
            table.memory.store(others, name(here));
            table.settle(hold);
            assert_eq!(sched_getaffinity(None).unwrap(), allowed);
            table.memory.load(mine) == name(vacated)
        });
        assert!(moved);
    }

    #[test]
    fn a_core_is_taken_by_a_holder_that_was_seen_there() {
        let table = table(2);
        let who = Some(Identity::new(7, 7));
        let word = Tagged::new(who, 1);
        let hold = |permit| Hold { queue: 0, permit, word, position: 0, waited: true };
        table.note_core(hold(1));
        let here = table.memory.load(table.layout.permit_record(0, 1).core());
        assert!(!table.is_taken(here, hold(0)), "nobody holds the permit");
        table.memory.store(table.layout.permit(0, 1), word.0);
        assert!(table.is_taken(here, hold(0)));
        assert!(!table.is_taken(here, hold(1)), "that is oneself");
        assert!(!table.is_taken(here + 1, hold(0)));
    }

    #[test]
    fn a_core_that_is_not_there_or_needed_is_not_moved_to() {
        let allowed = sched_getaffinity(None).unwrap();
        let cores = cores(&allowed);
        assert!(move_to(name(cores[0]), cores.len()));
        assert!(!move_to(name(cores[0]), cores.len() + 1));
        for nowhere in [UNKNOWN, name(CpuSet::MAX_CPU), u64::MAX] {
            assert!(!move_to(nowhere, 1));
        }
        assert_eq!(sched_getaffinity(None).unwrap(), allowed);
    }

    fn cores(allowed: &CpuSet) -> Vec<usize> {
        (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect()
    }

    fn table(permits: usize) -> Table<Mapping> {
        let layout = Layout { queues: 1, permits, places: 2, lease: None };
        let file = rustix::fs::memfd_create("gate", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, (layout.words() * 8) as u64).unwrap();
        Table { memory: Mapping::new(file.as_fd(), layout.words()).unwrap(), layout }
    }
}
