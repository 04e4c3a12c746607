//! `evener gate`

use std::io::{self, Write};

use clap::{Args, Subcommand};
use evener::gate::{Condition, Presence, Scope, Snapshot, list_gates, reset, snapshot};
use serde::Serialize;

use crate::options::values;
use crate::run::print_json;
use crate::trouble::{Ending, Trouble, complain};

/// Show who uses limited engines, and who waits for them
///
/// Limited are engines that serve only so many processes at once, and all engines with --permits.
/// Lists your own processes, or with --group those of a group, with what has become of each and
/// for how long it has held its place or waited.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Gate {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// The gates of this group, by its name or number, that --gate-group made
    #[arg(long, value_name = "GROUP", value_parser = values::group)]
    group: Option<u32>,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Remove gates, whatever state they are in; those who wait go on to a new one
    Reset {
        /// Only the gate of this engine
        #[arg(value_name = "ENGINE")]
        engine: Option<String>,
        /// The gates of this group, by its name or number, that --gate-group made
        #[arg(long, value_name = "GROUP", value_parser = values::group)]
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
    let mut ending = Ending::Done;
    let mut gates = Vec::new();
    for engine in list_gates(scope, None)? {
        match snapshot(&engine, scope, None) {
            Ok(found) => gates.extend(found.as_ref().map(Shown::from)),
            Err(error) => {
                complain(&error);
                ending = Ending::SomeFailed;
            }
        }
    }
    if json {
        print_json(&Document { gates })?;
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
}

/// A gate as it is shown.
#[derive(Serialize)]
struct Shown {
    engine: String,
    discipline: &'static str,
    /// How many processes it admits at once.
    permits: usize,
    /// Who uses the engine.
    holders: Vec<Person>,
    /// Who waits, list by list, in each in order of arrival.
    waiters: Vec<Person>,
}

/// A process at a gate.
#[derive(Serialize)]
struct Person {
    process: u32,
    /// Its thread that came to the gate.
    thread: u32,
    /// Which list it is in; 0 where there is only one.
    queue: usize,
    condition: &'static str,
    /// For how long it has held its place, or waited.
    seconds: f64,
}

impl From<&Snapshot> for Shown {
    fn from(gate: &Snapshot) -> Shown {
        let persons = |presences: &[Presence]| presences.iter().map(Person::from).collect();
        Shown {
            engine: gate.engine.clone(),
            discipline: gate.discipline.name(),
            permits: gate.permits,
            holders: persons(&gate.holders),
            waiters: persons(&gate.waiters),
        }
    }
}

impl From<&Presence> for Person {
    fn from(presence: &Presence) -> Person {
        Person {
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
            "{engine}: {discipline}, {} of {permits} places taken, {} waiting",
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

impl Person {
    fn print(&self, what: &str, out: &mut dyn Write) -> io::Result<()> {
        let Person { process, condition, seconds, .. } = self;
        writeln!(out, "  {process:>10} {what:7} {condition:9} {seconds:>10.3}")
    }
}
