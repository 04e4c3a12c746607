//! The files in `writers/`: each says that a writer is at work, so that cleaning spares its files.

use std::fs::{self, File};
use std::path::PathBuf;

use super::depot::{Depot, refused};
use super::state::{State, hexadecimal};
use crate::FileError;

/// The file of this run. It goes when this is dropped.
pub(super) struct AtWork<'a> {
    depot: &'a Depot<'a>,
    name: String,
    /// When the place says that it was made, in seconds since 1970.
    pub(super) time: i64,
    /// The note of it in the state of this machine, locked while this run goes on.
    note: Option<(PathBuf, File)>,
}

/// A writer that is at work, or was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundWriter {
    pub(super) name: String,
    /// When the place says that it was made, in seconds since 1970.
    pub(super) time: i64,
}

impl<'a> AtWork<'a> {
    pub(super) fn make(
        depot: &'a Depot<'a>,
        state: Option<&State>,
    ) -> Result<AtWork<'a>, FileError> {
        let name = new_name()?;
        let note = state.map(|state| state.note_writer(&name)).transpose()?;
        let mut this = AtWork { depot, name, time: 0, note };
        create(depot, &this.name)?;
        let there = all(depot)?.into_iter().find(|it| it.name == this.name);
        let missing =
            || refused("the file of this run in `writers/` is gone: another run has abandoned it");
        this.time = there.ok_or_else(missing)?.time;
        Ok(this)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let removed = self.depot.remove(&path(&self.name));
        if let Some((note, _)) = self.note.as_ref().filter(|_| removed.is_ok()) {
            drop(fs::remove_file(note));
        }
    }
}

/// Makes the file of a writer that outlives this run, such as a job. Returns its name.
pub(super) fn announce(depot: &Depot<'_>) -> Result<String, FileError> {
    let name = new_name()?;
    create(depot, &name)?;
    Ok(name)
}

fn new_name() -> Result<String, FileError> {
    let mut name = [0; 16];
    getrandom::fill(&mut name).map_err(|error| refused(error.to_string()))?;
    Ok(hexadecimal(&name))
}

fn create(depot: &Depot<'_>, name: &str) -> Result<(), FileError> {
    depot.create(&path(name), b"evener-writer-v1\n").map(drop)
}

/// All writers, the oldest first.
pub(super) fn all(depot: &Depot<'_>) -> Result<Vec<FoundWriter>, FileError> {
    let mut writers = Vec::new();
    for entry in depot.list("writers")? {
        let name = entry.name.path().file_name().and_then(|name| name.to_str());
        let Some(name) = name.filter(|name| is_name(name)) else { continue };
        let time = entry.metadata.modified_since_1970().map_or(0, |(seconds, _)| seconds);
        writers.push(FoundWriter { name: name.to_owned(), time });
    }
    writers.sort_by_key(|writer| writer.time);
    Ok(writers)
}

/// Forgets the writers of this machine that are no more.
pub(super) fn forget_dead(depot: &Depot<'_>, state: &State) -> Result<(), FileError> {
    for (name, note) in state.dead_writers()?.iter().filter(|(name, _)| is_name(name)) {
        depot.remove(&path(name))?;
        drop(fs::remove_file(note));
    }
    Ok(())
}

/// Forgets writers that are no more, as far as their files are there.
pub(super) fn forget(depot: &Depot<'_>, names: Vec<String>) -> Result<(), FileError> {
    names.iter().filter(|name| is_name(name)).try_for_each(|name| depot.remove(&path(name)))
}

/// Forgets a writer that is no more.
pub(super) fn abandon(depot: &Depot<'_>, name: &str) -> Result<(), FileError> {
    match all(depot)?.iter().any(|writer| writer.name == name) {
        true => depot.remove(&path(name)),
        false => Err(refused(format!("there is no writer `{name}`"))),
    }
}

/// Returns whether a file is called like a claim. Others were not made by a writer, or are unfinished.
fn is_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|it| it.is_ascii_hexdigit())
}

fn path(name: &str) -> String {
    format!("writers/{name}")
}
