//! For whom this machine seals a tree. Keys that exist open for nobody else.

use std::fs;

use evener_format::index::TreeId;

use super::depot::{Depot, refused};
use super::state::State;
use super::writer::SealedOptions;
use crate::FileError;

impl SealedOptions {
    /// A word for those who can open what these options seal; `None` if the caller has not said.
    pub(super) fn readers(&self) -> Option<&str> {
        match self.wrap {
            Some(_) => self.audience.as_deref(),
            None => Some(KEY),
        }
    }

    /// Refuses others than the last generation of this machine was sealed for.
    pub(super) fn check_audience(
        &self,
        depot: &Depot<'_>,
        state: &State,
        tree: TreeId,
    ) -> Result<(), FileError> {
        let Some(now) = self.readers().filter(|_| !self.accepts_audience) else { return Ok(()) };
        let known = known(state, tree).or_else(|| state.earlier_audience(tree));
        let error = match known.as_deref() {
            Some(known) if known == now => return Ok(()),
            None if now == KEY => return Ok(()),
            None => UNKNOWN,
            Some(known) if known == KEY || now == KEY => OTHER_KIND,
            Some(_) => OTHERS,
        };
        match depot.list("tree")?.is_empty() {
            true => Ok(()),
            false => Err(refused(error)),
        }
    }
}

/// Notes for whom the keys of a tree are wrapped.
pub(super) fn keep(state: &State, tree: TreeId, audience: Option<&str>) -> Result<(), FileError> {
    let Some(audience) = audience.filter(|it| known(state, tree).as_deref() != Some(it)) else {
        return Ok(());
    };
    let (path, new) = (state.path("audience")?, state.path("audience.new")?);
    let written =
        fs::write(&new, format!("{tree} {audience}")).and_then(|()| fs::rename(new, path));
    written.map_err(|error| refused(format!("can't write the state of the tree: {error}")))
}

pub(super) fn known(state: &State, tree: TreeId) -> Option<String> {
    let text = fs::read_to_string(state.path("audience").ok()?).ok()?;
    let (of, audience) = text.split_once(' ')?;
    (of == tree.to_string()).then(|| audience.to_owned())
}

/// Those who hold a key of the caller's.
const KEY: &str = "key";

const OTHERS: &str = "the recipients are not those of the last run here, and the new ones could not read \
                      unchanged files: first wrap the tree's keys for them (`evener rewrap -i IDENTITY -R \
                      RECIPIENTS TREE`); if that was done on another machine, give \
                      --recipients-changed";
const UNKNOWN: &str = "this machine has no notes of the tree's recipients, and others could not read unchanged \
                       files: if the recipients are those of the tree, give --recipients-changed and \
                       an identity (-i) for one run; otherwise first wrap the tree's keys for them \
                       (`evener rewrap -i IDENTITY -R RECIPIENTS TREE`)";
const OTHER_KIND: &str = "the last run here sealed the tree under a key of yours, or this one would, and \
                          recipients do not get such a key: `evener rekey` gives the tree another key; if \
                          that was done on another machine, give --recipients-changed";
