//! An open sealed tree, for the commands that list it, compare it or change what is around its
//! content.

use std::path::{Path, PathBuf};

use evener::sealed_trees::{GenerationInfo, SealedOptions};
use evener::{Evener, Failure};

use super::{find, is_sealed_in, open, retain};
use crate::options::{Choosing, OpeningKeys, Part, TreeOptions, TrustOptions};
use crate::signals::Signals;
use crate::stores::{AnyPlace, Stores};
use crate::summary;
use crate::trouble::{Trouble, complain, refused, shown};

/// Refuses what is no sealed tree.
pub(crate) fn refuse_other(stores: &Stores, path: &Path) -> Result<(), Trouble> {
    if is_sealed_in(stores, path.as_os_str())? {
        return Ok(());
    }
    let error = refused("it is no sealed tree: it has no file evener-tree-v1");
    Err(Failure { path: path.to_owned(), error }.into())
}

/// A sealed tree with what opens it.
pub(crate) struct Tree {
    pub(crate) path: PathBuf,
    pub(crate) evener: Evener,
    pub(crate) sealed: SealedOptions,
    stores: Stores,
    is_quiet: bool,
}

impl Tree {
    /// Finds what opens a tree, according to the options.
    pub(crate) fn find(
        path: &Path,
        options: TreeOptions,
        is_quiet: bool,
        signals: &Signals,
    ) -> Result<Tree, Trouble> {
        let stores = Stores::new(&options.stores);
        let (mut keys, trust) = options.split();
        keys.complete()?;
        Tree::with_keys(path, &keys, &stores, &trust, is_quiet, signals)
    }

    /// Finds what opens a tree, with these keys.
    pub(crate) fn with_keys(
        path: &Path,
        keys: &OpeningKeys,
        stores: &Stores,
        trust: &TrustOptions,
        is_quiet: bool,
        signals: &Signals,
    ) -> Result<Tree, Trouble> {
        if !is_sealed_in(stores, path.as_os_str())? {
            let mut strict = trust.clone();
            strict.allow_rollback = false;
            find(stores, path.as_os_str(), &mut strict)?;
        }
        refuse_other(stores, path)?;
        let (mut sealed, ring, warnings) =
            open(keys, stores, (path, trust.allow_rollback), signals)?;
        sealed.trust = trust.trust()?;
        for warning in warnings.iter().filter(|_| !is_quiet) {
            complain(&format_args!("warning: {warning}"));
        }
        let (stores, path, evener) = (stores.clone(), path.to_owned(), Evener::new(ring)?);
        Ok(Tree { path, evener, sealed, stores, is_quiet })
    }

    /// The tree as a place.
    ///
    /// # Errors
    /// When an object store can't be opened.
    pub(crate) fn place(&self) -> Result<AnyPlace, Trouble> {
        self.stores.place(&self.path, &self.evener)
    }

    /// Opens the tree's object store, if it is in one.
    pub(crate) fn stores(&self) -> &Stores {
        &self.stores
    }

    /// If new files are locked, also locks those that the newest generation needs, all roots and
    /// all wrapped keys. If this `opens` no generation, it locks the marker, roots and keys alone.
    ///
    /// # Errors
    /// When the tree can't be read, or the store refuses a lock.
    pub(crate) fn retain(&self, opens: bool) -> Result<(), Trouble> {
        let Some(tree) = Stores::address(self.path.as_os_str())? else { return Ok(()) };
        Ok(retain(&self.stores, &tree, opens.then_some((&self.evener, &self.sealed)))?)
    }

    /// Takes only a part of the tree.
    pub(crate) fn select(self, choosing: Choosing, part: Part) -> Result<Tree, Trouble> {
        let mut options = evener::TreeOptions::default();
        choosing.apply(&mut options)?;
        part.apply(&mut options)?;
        let selection = options.selection;
        let evener = self.evener.with_options(|options| options.transfer.selection = selection);
        Ok(Tree { evener, ..self })
    }

    /// Says what a user should know of the tree that was read.
    pub(crate) fn tell_of(&self, read: &GenerationInfo) {
        summary::of_read(read).iter().filter(|_| !self.is_quiet).for_each(|line| complain(line));
    }

    /// Says something, unless only failures are wanted.
    pub(crate) fn say(&self, line: &str) {
        if !self.is_quiet {
            complain(&format_args!("{}: {line}", shown(&self.path)));
        }
    }
}
