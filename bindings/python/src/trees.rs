//! Operations on sealed trees.

use std::path::Path;

use facade::sealed_trees::{Depth, refuse_gone};
use facade::{Evener, Failure, Operation, Report, SealedTree};

use crate::error::Trouble;
use crate::keys::KeyRing;
use crate::options::Wishes;

/// Returns whether the encrypted side of an operation is a sealed tree, or will become one.
pub(crate) fn is_sealed(
    evener: &Evener,
    wishes: &Wishes,
    keys: &KeyRing,
    operation: Operation,
    source: &Path,
    target: Option<&Path>,
) -> Result<bool, Trouble> {
    let tree = match (operation, target) {
        (Operation::Encrypt, Some(target)) => target,
        _ => source,
    };
    if let Some(sealed) = wishes.sealed {
        return Ok(sealed);
    }
    if !tree.is_dir() {
        return Ok(false);
    }
    let at = |error| Failure { path: tree.to_owned(), error };
    if evener.is_sealed_tree(&evener.local(tree)).map_err(at)? {
        return Ok(true);
    }
    // Keys that can't seal trees have made none here.
    if let Ok(sealed) = wishes.of_tree(tree, keys) {
        refuse_gone(&sealed).map_err(at)?;
    }
    Ok(false)
}

/// Encrypts into a tree, or decrypts or verifies it.
pub(crate) fn process(
    evener: &Evener,
    wishes: &Wishes,
    keys: &KeyRing,
    operation: Operation,
    source: &Path,
    target: Option<&Path>,
) -> Result<Report, Trouble> {
    let local = target.map(|target| evener.local(target));
    if let (Operation::Encrypt, Some(target), Some(store)) = (operation, target, &local) {
        let mut sealed = wishes.sealed(operation, target, keys)?;
        sealed.wrap = keys.wrap()?;
        sealed.keeps_key = keys.is_passphrase();
        sealed.audience = keys.audience();
        // A mistyped passphrase would seal the new generation.
        if keys.is_passphrase() && evener.is_sealed_tree(store).unwrap_or(true) {
            evener.signers_of_tree(store, &sealed)?;
        }
        let (mut report, made) = evener.seal_tree(&evener.local(source), store, &sealed)?;
        report.sealed = Some(SealedTree::Made(made));
        return Ok(report);
    }
    let (tree, sealed) = (evener.local(source), wishes.sealed(operation, source, keys)?);
    let store = local.as_ref().map(|local| local as _);
    Ok(evener.open_tree(operation, &tree, store, &sealed)?.0)
}

/// Lists the entries of a tree.
pub(crate) fn list(
    evener: &Evener,
    wishes: &Wishes,
    keys: &KeyRing,
    path: &Path,
) -> Result<Vec<String>, Trouble> {
    let (tree, sealed) = (evener.local(path), wishes.sealed(Operation::Verify, path, keys)?);
    let (mut entries, mut failed) = (Vec::new(), None);
    let mut each = |entry| {
        match entry {
            Ok(entry) => entries.extend(serde_json::to_string(&entry)),
            Err(failure) => failed = Some(failure),
        }
        failed.is_none()
    };
    evener.list_tree(&tree, Depth::All, &sealed, &mut each)?;
    match failed {
        Some(failure) => Err(failure.into()),
        None => Ok(entries),
    }
}
