//! `evener gate`

use std::io::{self, Write};

use clap::{Args, Subcommand};
use evener::Failure;
use evener::gate::{Condition, Presence, Scope, Snapshot, list_gates, reset, snapshot};
use serde::Serialize;

use crate::document::print_json;
use crate::options::values;
use crate::trouble::{Ending, Trouble, complain};

/// Show which processes use limited engines, and which wait for them
///
/// An engine is limited if it serves only a certain number of processes at once, or if --permits
/// sets a number. The list shows your own processes, or with --gate-group those of a group: their
/// state (running, stopped or dead) and how long they have used the engine or waited.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Gate {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the gates that --gate-group made for this group (name or number)
    #[arg(long = "gate-group", alias = "group", value_name = "GROUP", value_parser = values::group)]
    group: Option<u32>,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Remove gates in any state; waiting processes continue at a new gate
    Reset {
        /// Remove only the gate of this engine [default: all gates]
        #[arg(value_name = "ENGINE")]
        engine: Option<String>,
        /// Remove the gates that --gate-group made for this group (name or number)
        #[arg(long = "gate-group", alias = "group", value_name = "GROUP", value_parser = values::group)]
        group: Option<u32>,
    },
}

impl Gate {
    pub(crate) fn perform(self) -> Result<Ending, Trouble> {
        match self.action {
            None => show(scope(self.group), self.json),
            Some(Action::Reset { engine: Some(engine), group }) => {
                if reset(&engine, scope(group), None)? {
                    Ok(Ending::Done)
                } else {
                    Err(Trouble::Usage(format!("engine `{engine}` has no gate")))
                }
            }
            Some(Action::Reset { engine: None, group }) => reset_all(scope(group)),
        }
    }
}

fn scope(group: Option<u32>) -> Scope {
    group.map_or(Scope::User, Scope::Group)
}

fn reset_all(scope: Scope) -> Result<Ending, Trouble> {
    let mut ending = Ending::Done;
    for engine in list_gates(scope, None)? {
        if let Err(error) = reset(&engine, scope, None) {
            complain(&error);
            ending = Ending::SomeFailed;
        }
    }
    Ok(ending)
}

fn show(scope: Scope, json: bool) -> Result<Ending, Trouble> {
    let (mut gates, mut failures) = (Vec::new(), Vec::new());
    for engine in list_gates(scope, None)? {
        match snapshot(&engine, scope, None) {
            Ok(found) => gates.extend(found.as_ref().map(Shown::from)),
            Err(error) => {
                complain(&error);
                failures.push(Trouble::from(error).as_failure());
            }
        }
    }
    let ending = if failures.is_empty() { Ending::Done } else { Ending::SomeFailed };
    if json {
        print_json(&Document { gates, failures })?;
    } else {
        let mut out = io::stdout().lock();
        gates
            .iter()
            .try_for_each(|gate| gate.print(&mut out))
            .and_then(|()| out.flush())
            .map_err(Trouble::Output)?;
    }
    Ok(ending)
}

#[derive(Serialize)]
struct Document {
    gates: Vec<Shown>,
    failures: Vec<Failure>,
}

/// A gate, for display.
#[derive(Serialize)]
struct Shown {
    engine: String,
    discipline: &'static str,
    /// The number of processes that it admits at once.
    permits: usize,
    /// The processes that use the engine.
    holders: Vec<Process>,
    /// The waiting processes, list by list, each list in order of arrival.
    waiters: Vec<Process>,
}

/// A process at a gate.
#[derive(Serialize)]
struct Process {
    process: u32,
    /// The thread that holds the permit or waits for it.
    thread: u32,
    /// The number of its list; 0 if there is only one.
    queue: usize,
    condition: &'static str,
    /// The time that it has held its permit, or waited.
    seconds: f64,
}

impl From<&Snapshot> for Shown {
    fn from(gate: &Snapshot) -> Shown {
        let processes = |presences: &[Presence]| presences.iter().map(Process::from).collect();
        Shown {
            engine: gate.engine.clone(),
            discipline: gate.discipline.name(),
            permits: gate.permits,
            holders: processes(&gate.holders),
            waiters: processes(&gate.waiters),
        }
    }
}

impl From<&Presence> for Process {
    fn from(presence: &Presence) -> Process {
        Process {
            process: presence.process,
            thread: presence.thread,
            queue: presence.queue,
            condition: match presence.condition {
                Condition::Stopped => "stopped",
                Condition::Dead => "dead",
                _ => "running",
            },
            seconds: presence.time.as_secs_f64(),
        }
    }
}

impl Shown {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Shown { engine, discipline, permits, holders, waiters } = self;
        writeln!(
            out,
            "{engine}: {discipline}, {} of {permits} permits in use, {} waiting",
            holders.len(),
            waiters.len()
        )?;
        if !holders.is_empty() || !waiters.is_empty() {
            writeln!(out, "  {:>10} {:7} {:9} {:>10}", "process", "", "condition", "seconds")?;
        }
        holders.iter().try_for_each(|holder| holder.print("holds", out))?;
        waiters.iter().try_for_each(|waiter| waiter.print("waits", out))
    }
}

impl Process {
    fn print(&self, what: &str, out: &mut dyn Write) -> io::Result<()> {
        let Process { process, condition, seconds, .. } = self;
        writeln!(out, "  {process:>10} {what:7} {condition:9} {seconds:>10.3}")
    }
}
