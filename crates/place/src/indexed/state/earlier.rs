//! The state of a place under names that earlier versions gave it.

use std::fs::{self, File};
use std::path::Path;

use evener_format::index::TreeId;

use super::{PIN, State};
use crate::indexed::depot::{Depot, refused};
use crate::indexed::marker;
use crate::indexed::roots::Pin;
use crate::indexed::writer::SealedOptions;
use crate::place::Origin;
use crate::{FileError, RunSettings};

/// The names of all places in a directory of states, as far as they can be read.
pub fn known_places(all: &Path) -> Vec<String> {
    let places = fs::read_dir(all).into_iter().flatten().flatten();
    let name = |place: fs::DirEntry| {
        let state = State { directory: place.path(), place: String::new(), alias: None };
        Some(state.kept().ok()??.place)
    };
    places.filter_map(name).collect()
}

/// Takes over what is known of a place under `earlier` names, which may be those of other places too:
/// the tree that is here must be the one seen under them. Does nothing if the place is known under
/// its own name. Of the options, the state, the trust and [`SealedOptions::on_accepted`] count.
/// Returns true if [`Trust::rollback`](super::super::Trust::rollback) accepted that there is another
/// tree or none: then the names count no longer for this place.
///
/// # Errors
/// When another tree or none is here, or the state can't be read or written.
pub fn take_over(
    origin: &dyn Origin,
    sealed: &SealedOptions,
    earlier: &[String],
) -> Result<bool, FileError> {
    let Some((all, place)) = &sealed.state else { return Ok(false) };
    let state = State::of(all, place);
    if earlier.is_empty() || state.directory.join(APART).exists() || state.pin()?.is_some() {
        return Ok(false);
    }
    let mut seen = Vec::new();
    for name in earlier {
        let state = State::of(all, name);
        seen.extend(state.pin()?.map(|pin| (pin, state)));
    }
    let run = RunSettings::default();
    let here = marker::read(&Depot { origin, store: None, run: &run })?;
    // A tree without a root was only begun.
    let is_it = |pin: &Pin| Some(pin.tree) == here;
    seen.retain(|(pin, _)| pin.number > 0 || is_it(pin));
    let newest = seen.iter().max_by_key(|(pin, _)| pin.number);
    match (newest, seen.iter().find(|(pin, _)| !is_it(pin))) {
        (None, _) => Ok(false),
        (Some((_, newest)), None) => state.take(newest).map(|()| false),
        (_, Some((pin, other))) if sealed.trust.rollback => {
            let made = state.path(APART).map(File::create)?;
            made.map_err(|error| state.failed("write", &error))?;
            sealed.tell(&format!(
                "accepted that the sealed tree {}, which this machine has seen as `{}`, is not here",
                pin.tree, other.place
            ));
            Ok(true)
        }
        (_, Some((pin, other))) => Err(refused(not_here(pin.tree, &other.place, here))),
    }
}

fn not_here(seen: TreeId, name: &str, here: Option<TreeId>) -> String {
    let here = here.map_or_else(|| "none".to_owned(), |here| format!("the tree {here}"));
    format!(
        "an earlier version has seen the sealed tree {seen} as `{name}`, and here is {here}: \
         --allow-rollback accepts that, as where the tree is on another server"
    )
}

impl State {
    /// Moves the files of another name here, and what was noted last at the end.
    fn take(&self, from: &State) -> Result<(), FileError> {
        let (_own, _other) = (self.lock()?, from.lock()?);
        let Some(mut kept) = from.kept()?.filter(|_| !self.directory.join(PIN).exists()) else {
            return Ok(());
        };
        let moved = fs::read_dir(&from.directory).and_then(|files| {
            for file in files.flatten().filter(|file| file.file_name() != PIN) {
                let here = self.directory.join(file.file_name());
                if !here.exists() {
                    fs::rename(file.path(), here)?;
                }
            }
            Ok(())
        });
        moved.map_err(|error| self.failed("move", &error))?;
        kept.place.clone_from(&self.place);
        self.write_pin(&kept)?;
        fs::remove_file(from.directory.join(PIN)).map_err(|error| self.failed("move", &error))
    }
}

/// Beside the state of a place: its earlier names are those of other places.
const APART: &str = "apart";
