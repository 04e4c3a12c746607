//! A list of the processes at a gate.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::directory::Directory;
use crate::error::GateError;
use crate::file::{Found, GateFile};
use crate::gate::Gate;
use crate::identity::{Fate, Identity};
use crate::layout::{Layout, Record, Tagged};
use crate::memory::Memory;
use crate::options::{Discipline, Scope};
use crate::sys::Mapping;
use crate::table::{Standing, Table};

/// The state of a gate. Processes come and go while it is read, so the entries may be from slightly
/// different moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The gate's engine.
    pub engine: String,
    /// The shared file.
    pub path: PathBuf,
    /// The order in which it admits.
    pub discipline: Discipline,
    /// Number of permits, over all queues.
    pub permits: usize,
    /// The time for which a process may be stopped before it loses its place or permit.
    pub lease: Option<Duration>,
    /// The threads with permits.
    pub holders: Vec<Presence>,
    /// The waiting threads: queue by queue, in each in order of arrival.
    pub waiters: Vec<Presence>,
}

/// A thread at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Its process' id.
    pub process: u32,
    /// Its own id, `gettid(2)`.
    pub thread: u32,
    /// Its queue: for `lists`, process id mod number of lists; else 0.
    pub queue: usize,
    /// The state of its process.
    pub condition: Condition,
    /// The time that it has held its permit, or waited.
    pub time: Duration,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// It runs or sleeps.
    Running,
    /// It is stopped by a signal or a debugger.
    Stopped,
    /// It has died; its place or permit will pass on as soon as another process waits for it.
    Dead,
}

impl Gate {
    /// The state of this gate; empty when the gate is off.
    ///
    /// # Errors
    /// [`GateError`] when the gate was reset and can't be opened again.
    pub fn snapshot(&self) -> Result<Snapshot, GateError> {
        let options = self.options();
        let here = options.directory.as_deref();
        let found = match options.discipline {
            Discipline::None => None,
            _ => snapshot(&options.engine, options.scope, here)?,
        };
        Ok(found.unwrap_or_else(|| Snapshot {
            engine: options.engine.clone(),
            path: PathBuf::new(),
            discipline: options.discipline,
            permits: options.permits,
            lease: options.lease,
            holders: Vec::new(),
            waiters: Vec::new(),
        }))
    }
}

/// The state of an engine's gate. `None` if there is no gate, or only an unused file of another
/// version.
///
/// # Errors
/// [`GateError`] when the gate's file can't be trusted, or is in use and can't be read.
pub fn snapshot(
    engine: &str,
    scope: Scope,
    directory: Option<&Path>,
) -> Result<Option<Snapshot>, GateError> {
    let directory = Directory::open(engine, scope, directory)?;
    let path = directory.file_path(&Directory::file_name(engine)?);
    Ok(match GateFile::find(&directory, engine)? {
        Found::Gate(table) => Some(take(&table, engine, path)),
        Found::Nothing | Found::Remains => None,
    })
}

/// The engines with a gate, whatever state the gates are in.
///
/// # Errors
/// [`GateError`] when the directory can't be read or trusted.
pub fn list_gates(scope: Scope, directory: Option<&Path>) -> Result<Vec<String>, GateError> {
    let all = "(all)";
    let listed = Directory::open(all, scope, directory)?.engines();
    listed.map_err(|cause: io::Error| GateError::System {
        doing: "listing the files",
        engine: all.into(),
        cause,
    })
}

fn take(table: &Table<Mapping>, engine: &str, path: PathBuf) -> Snapshot {
    let layout @ Layout { queues, permits, places, lease } = table.layout;
    let (mut holders, mut waiters) = (Vec::new(), Vec::new());
    for queue in 0..queues {
        for permit in 0..permits {
            let word = Tagged(table.memory.load(layout.permit(queue, permit)));
            let record = layout.permit_record(queue, permit);
            holders.extend(word.who().map(|who| presence(table, queue, who, record)));
        }
        let head = table.memory.load(layout.head(queue));
        for position in (0..places as u64).map(|place| head.wrapping_add(place)) {
            let record = layout.place_record(queue, position);
            match table.standing(queue, position) {
                Standing::Waiting(who) => waiters.push(presence(table, queue, who, record)),
                Standing::Past => {}
                Standing::Vacant | Standing::Ahead => break,
            }
        }
    }
    let (engine, discipline) = (engine.to_owned(), Discipline::of(&layout));
    Snapshot { engine, path, discipline, permits: queues * permits, lease, holders, waiters }
}

fn presence(table: &Table<Mapping>, queue: usize, who: Identity, record: Record) -> Presence {
    let since = table.memory.load(record.since());
    Presence {
        process: who.process(),
        thread: table.memory.load(record.thread()) as u32,
        queue,
        condition: match who.fate() {
            Fate::Running => Condition::Running,
            Fate::Stopped => Condition::Stopped,
            Fate::Dead => Condition::Dead,
        },
        time: Duration::from_nanos(table.memory.now().saturating_sub(since)),
    }
}
