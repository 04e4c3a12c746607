//! Directories and object stores behind one type.

use std::path::{Path, PathBuf};

use evener::Evener;
use evener::place::{
    Abilities, Blob, Draft, Entry, Fault, Local, Name, NewObject, Origin, Store, Tree,
};

use crate::objects::Objects;

/// One object of a place, as if there were no others.
pub(super) struct One {
    pub(super) place: AnyPlace,
    pub(super) name: Name,
}

impl Origin for One {
    fn abilities(&self) -> Abilities {
        Origin::abilities(&self.place)
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        let found = self.place.look(&self.name);
        let missing = || Fault::Missing(self.name.clone());
        Box::new(std::iter::once(found.and_then(|found| found.ok_or_else(missing))))
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        self.place.open(name, first)
    }

    fn label(&self) -> PathBuf {
        Origin::label(&self.place)
    }
}

/// A directory of this machine, or objects.
pub(crate) enum AnyPlace {
    Local(Box<Local>),
    Objects(Objects),
}

impl AnyPlace {
    pub(crate) fn local(evener: &Evener, path: &Path) -> AnyPlace {
        AnyPlace::Local(Box::new(evener.local(path)))
    }

    fn as_store(&self) -> &dyn Store {
        match self {
            AnyPlace::Local(local) => &**local,
            AnyPlace::Objects(objects) => objects,
        }
    }

    fn as_origin(&self) -> &dyn Origin {
        match self {
            AnyPlace::Local(local) => &**local,
            AnyPlace::Objects(objects) => objects,
        }
    }
}

impl Origin for AnyPlace {
    fn abilities(&self) -> Abilities {
        self.as_origin().abilities()
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        self.as_origin().walk()
    }

    fn list(&self, directory: &Name) -> Result<Vec<Entry>, Fault> {
        self.as_origin().list(directory)
    }

    fn list_each(
        &self,
        directory: &Name,
        take: &mut dyn FnMut(Entry) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.as_origin().list_each(directory, take)
    }

    fn list_at_most(&self, directory: &Name, most: usize) -> Result<Vec<Entry>, Fault> {
        self.as_origin().list_at_most(directory, most)
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        self.as_origin().open(name, first)
    }

    fn path(&self) -> Option<&Path> {
        self.as_origin().path()
    }

    fn label(&self) -> PathBuf {
        self.as_origin().label()
    }
}

impl Store for AnyPlace {
    fn abilities(&self) -> Abilities {
        self.as_store().abilities()
    }

    fn look(&self, name: &Name) -> Result<Option<Entry>, Fault> {
        self.as_store().look(name)
    }

    fn begin(&self, object: &NewObject<'_>) -> Result<Box<dyn Draft>, Fault> {
        self.as_store().begin(object)
    }

    fn origin(&self) -> Option<&dyn Origin> {
        self.as_store().origin()
    }

    fn sync(&self) -> Result<(), Fault> {
        self.as_store().sync()
    }

    fn tree(&self) -> Option<&dyn Tree> {
        self.as_store().tree()
    }

    fn keep(&self, name: &Name) -> Result<bool, Fault> {
        self.as_store().keep(name)
    }

    fn remove(&self, name: &Name) -> Result<(), Fault> {
        self.as_store().remove(name)
    }

    fn notices(&self) -> Vec<String> {
        self.as_store().notices()
    }

    fn path(&self) -> Option<&Path> {
        self.as_store().path()
    }

    fn label(&self) -> PathBuf {
        self.as_store().label()
    }
}
