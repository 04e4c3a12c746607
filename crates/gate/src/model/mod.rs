//! An exhaustive check of the algorithm's interleavings: the very code of
//! [`table`](crate::table) and [`watch`](crate::watch), with the model as its world.
//!
//! Each process is a coroutine that pauses before every shared access. The checker goes
//! depth-first through every order in which the processes' accesses can interleave, with a
//! crash, a stop or an early return from sleep put in at every point where the scenario allows
//! one. A state is the words, and for each process all that it has read so far; a state that
//! was seen before is not gone into again, which makes the search finite and complete. With
//! three processes the number of preemptions is bounded (Musuvathi and Qadeer, "Iterative
//! context bounding for systematic testing of multithreaded programs", PLDI 2007).
//! Time stands still while any process can run, so a sleeper's time is up only when all
//! sleep: in a scenario without accidents that is a lost wake-up.

//!
//! Here are the scenarios and the search; `run` is one interleaving as far as it has come, and
//! `world` what the processes see of it.

mod run;
mod world;

use std::collections::HashSet;

use run::Run;

/// Two processes in every possible interleaving. Twice each, so that the ring of two places
/// goes round.
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

/// The first process keeps its permit for good and calls the last one away, which so never has
/// its turn; all between them have theirs, if there is a second permit.
#[test]
fn a_call_reaches_a_waiter_at_any_step() {
    Scenario { recalls: true, ..Scenario::TWO }.check();
    Scenario { recalls: true, permits: 2, ..Scenario::THREE }.check();
    Scenario { recalls: true, early: 1, ..Scenario::TWO }.check();
}

/// What is explored.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    processes: usize,
    /// How often each process enters and leaves.
    visits: usize,
    permits: usize,
    places: usize,
    /// How many processes, the last ones, don't wait.
    impatient: usize,
    /// Whether the first process calls the last one away instead of giving its permit back.
    recalls: bool,
    /// How many crashes there may be, at any step of any process.
    crashes: usize,
    /// How many stops there may be, each for longer than the lease and then resumed.
    stops: usize,
    /// How many sleeps may end for no reason.
    early: usize,
    /// Whether the first to wait looks after the gate at once.
    looks_at_once: bool,
    /// How often at most a process that could run on has to give way; `None` for any number.
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

    /// Whether a process waits for its turn until it has it.
    fn is_patient(&self, number: usize) -> bool {
        number < self.processes - self.impatient
    }

    /// Whether a process has all its turns in the end, if it lives.
    fn has_its_turns(&self, number: usize) -> bool {
        let is_last = number + 1 == self.processes;
        self.is_patient(number) && !(self.recalls && is_last)
    }

    /// Goes through every interleaving.
    fn check(self) {
        let mut seen = HashSet::new();
        // The choices still to be tried after each step of the present run.
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

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Run(usize),
    Crash(usize),
    Stop(usize),
    Resume(usize),
    /// A sleep ends for no reason.
    Early(usize),
    /// All sleep, and time passes until the first sleeper's time is up.
    TimeUp(usize),
}
