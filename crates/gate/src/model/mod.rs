//! An exhaustive check of the algorithm's interleavings. It runs the code of
//! [`table`](crate::table) and [`watch`](crate::watch) with modelled memory, processes and time.
//!
//! Each process is a coroutine that pauses before every shared access. The checker goes depth-first
//! through every order in which the processes' accesses can interleave, with a crash, a stop or an
//! early return from sleep put in at every point where the scenario allows one. A state is the
//! shared words, and for each process all that it has read so far. A state that was seen before is
//! not explored again, which makes the search finite and complete. With three processes the number
//! of preemptions is bounded (Musuvathi and Qadeer, "Iterative context bounding for systematic
//! testing of multithreaded programs", PLDI 2007). Time stands still while any process can run, so
//! a sleep ends by time only when all processes sleep. In a scenario without crashes and stops that
//! is a lost wake-up.

//!
//! This file has the scenarios and the search, `run` one interleaving, and `world` the memory and
//! clock that its processes see.

mod run;
mod world;

use std::collections::HashSet;

use run::Run;

/// Two processes in every possible interleaving. Each enters twice, so that the ring of two places
/// is reused.
#[test]
fn two_take_turns() {
    Scenario { visits: 2, ..Scenario::TWO }.check();
    Scenario { visits: 2, permits: 2, preemptions: Some(3), ..Scenario::TWO }.check();
    Scenario { looks_at_once: true, ..Scenario::TWO }.check();
}

#[test]
fn three_take_turns() {
    Scenario::THREE.check();
    Scenario { permits: 2, ..Scenario::THREE }.check();
    Scenario { looks_at_once: true, ..Scenario::THREE }.check();
}

/// The last process does not want to wait.
#[test]
fn an_impatient_process_is_in_nobodys_way() {
    Scenario { impatient: 1, ..Scenario::TWO }.check();
    Scenario { impatient: 1, ..Scenario::THREE }.check();
    Scenario { impatient: 1, permits: 2, ..Scenario::THREE }.check();
}

#[test]
fn a_crash_at_any_step_blocks_nobody() {
    Scenario { crashes: 1, ..Scenario::TWO }.check();
    Scenario { crashes: 1, permits: 2, ..Scenario::TWO }.check();
    Scenario { crashes: 1, preemptions: Some(2), ..Scenario::THREE }.check();
    Scenario { crashes: 2, preemptions: Some(1), ..Scenario::THREE }.check();
}

#[test]
fn a_process_stopped_at_any_step_past_its_lease_blocks_nobody() {
    Scenario { stops: 1, preemptions: Some(3), ..Scenario::TWO }.check();
    Scenario { stops: 1, preemptions: Some(1), ..Scenario::THREE }.check();
}

#[test]
fn a_sleeper_may_wake_at_any_moment() {
    Scenario { early: 1, ..Scenario::TWO }.check();
    Scenario { early: 1, preemptions: Some(2), ..Scenario::THREE }.check();
}

/// The first process keeps its permit for good and recalls the last one, which never gets a permit.
/// All other processes get one, if there is a second permit.
#[test]
fn a_call_reaches_a_waiter_at_any_step() {
    Scenario { recalls: true, ..Scenario::TWO }.check();
    Scenario { recalls: true, permits: 2, ..Scenario::THREE }.check();
    Scenario { recalls: true, early: 1, ..Scenario::TWO }.check();
}

/// A scenario to explore.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    processes: usize,
    /// The number of times that each process enters and leaves.
    visits: usize,
    permits: usize,
    places: usize,
    /// The number of processes, from the end, that don't wait.
    impatient: usize,
    /// True if the first process recalls the last one instead of releasing its permit.
    recalls: bool,
    /// Greatest number of crashes, at any step of any process.
    crashes: usize,
    /// Greatest number of stops, each for longer than the lease and then continued.
    stops: usize,
    /// Greatest number of sleeps that end without a cause.
    early: usize,
    /// True if the first waiter checks for dead processes at once.
    looks_at_once: bool,
    /// Greatest number of preemptions; `None` for no limit.
    preemptions: Option<usize>,
}

impl Scenario {
    /// Two processes and one permit, in every interleaving.
    const TWO: Scenario = Scenario {
        processes: 2,
        visits: 1,
        permits: 1,
        places: 2,
        impatient: 0,
        recalls: false,
        crashes: 0,
        stops: 0,
        early: 0,
        looks_at_once: false,
        preemptions: None,
    };

    /// Three processes and one permit.
    const THREE: Scenario =
        Scenario { processes: 3, places: 4, preemptions: Some(3), ..Scenario::TWO };

    /// Returns whether a process waits until it gets a permit.
    fn is_patient(&self, number: usize) -> bool {
        number < self.processes - self.impatient
    }

    /// Returns whether a process, if it lives, gets all its permits in the end.
    fn has_its_turns(&self, number: usize) -> bool {
        let is_last = number + 1 == self.processes;
        self.is_patient(number) && !(self.recalls && is_last)
    }

    /// Explores every interleaving.
    fn check(self) {
        let mut seen = HashSet::new();
        // The choices not yet tried after each step of the present run.
        let mut path: Vec<Vec<Choice>> = Vec::new();
        let mut runs = 0_u64;
        let mut stacks = Vec::new();
        loop {
            runs += 1;
            let mut run = Run::new(self, &mut stacks);
            for choices in &path {
                run.step(*choices.last().expect("only steps with a choice are kept"));
            }
            while seen.insert(run.state()) {
                let choices = run.choices();
                let Some(&choice) = choices.last() else {
                    run.check_end();
                    break;
                };
                path.push(choices);
                run.step(choice);
            }
            run.abandon(&mut stacks);
            while let Some(choices) = path.last_mut() {
                choices.pop();
                if !choices.is_empty() {
                    break;
                }
                path.pop();
            }
            if path.is_empty() {
                println!("{self:?}: {} states, {runs} runs", seen.len());
                return;
            }
        }
    }
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Run(usize),
    Crash(usize),
    Stop(usize),
    Resume(usize),
    /// A sleep ends without a cause.
    Early(usize),
    /// All processes sleep, and time advances to the end of the first sleep.
    TimeUp(usize),
}
