//! Dry runs: a store that is read, but not written to.

use std::path::Path;

use super::{Abilities, Draft, Entry, Fault, Kind, Name, NewObject, Origin, Store, Tree};

/// A store that pretends to make everything that it could make.
pub(super) struct Pretence<'s>(pub(super) &'s dyn Store);

impl Pretence<'_> {
    /// Fails for a name that is taken, as the store itself would.
    fn refuse_taken(
        &self,
        new: &NewObject<'_>,
        is_replaced: impl Fn(&Kind) -> bool,
    ) -> Result<(), Fault> {
        match self.0.look(new.name)? {
            Some(there) if !(new.replaces && is_replaced(&there.kind)) => {
                Err(Fault::Exists(new.name.clone()))
            }
            _ => Ok(()),
        }
    }
}

impl Store for Pretence<'_> {
    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }

    fn look(&self, name: &Name) -> Result<Option<Entry>, Fault> {
        self.0.look(name)
    }

    fn begin(&self, _: &NewObject<'_>) -> Result<Box<dyn Draft>, Fault> {
        Err(Fault::Refused("a dry run writes nothing".to_owned()))
    }

    fn origin(&self) -> Option<&dyn Origin> {
        self.0.origin()
    }

    fn sync(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn tree(&self) -> Option<&dyn Tree> {
        self.0.tree().map(|_| self as &dyn Tree)
    }

    fn path(&self) -> Option<&Path> {
        self.0.path()
    }
}

impl Tree for Pretence<'_> {
    fn make_directory(&self, directory: &NewObject<'_>) -> Result<bool, Fault> {
        match self.0.look(directory.name)? {
            Some(there) if there.kind == Kind::Directory => Ok(false),
            Some(_) => Err(Fault::Exists(directory.name.clone())),
            None => Ok(true),
        }
    }

    fn symlink(&self, link: &NewObject<'_>, _: &Path) -> Result<(), Fault> {
        self.refuse_taken(link, |there| matches!(there, Kind::SymbolicLink(_)))
    }

    fn hard_link(&self, link: &NewObject<'_>, _: &Name) -> Result<(), Fault> {
        self.refuse_taken(link, |there| *there == Kind::Object)
    }

    fn settle(&self, _: &NewObject<'_>, _: bool) -> Result<bool, Fault> {
        Ok(true)
    }
}
