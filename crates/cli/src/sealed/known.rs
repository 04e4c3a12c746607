//! What this machine knows of sealed trees.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener::Failure;
use evener::sealed_trees::{
    OnAccepted, SealedOptions, known_places, refuse_gone, refuse_gone_at, remembered,
    state_directory, take_over,
};

use super::is_sealed_in;
use crate::objects::{Address, server_name};
use crate::options::TrustOptions;
use crate::stores::Stores;
use crate::trouble::{Trouble, complain, shown};

/// Returns whether a path or an address leads to a sealed tree. If this machine has seen a tree
/// there, or above it, and it is gone, this is an error, unless --allow-rollback accepts it; the
/// option is then used up. An address below a sealed tree is an error too.
pub(crate) fn find(
    stores: &Stores,
    typed: &OsStr,
    trust: &mut TrustOptions,
) -> Result<bool, Trouble> {
    if is_sealed_in(stores, typed)? {
        return Ok(true);
    }
    let is_forgotten = match Stores::address(typed)? {
        Some(address) => refuse_gone_in(stores, &address, trust.allow_rollback)?,
        None if typed == "-" => false,
        None => {
            let path = Path::new(typed);
            let mut options = state_of(stores, path, false)?;
            options.trust.rollback = trust.allow_rollback;
            refuse_gone_at(path, &options)?
        }
    };
    trust.allow_rollback &= !is_forgotten;
    Ok(false)
}

/// As [`refuse_gone_at`], for an address. It asks the store only about trees that this machine has
/// seen.
fn refuse_gone_in(stores: &Stores, address: &Address, accepts: bool) -> Result<bool, Trouble> {
    let mut trees = seen_above(stores, address)?;
    trees.retain(|tree| tree != address);
    let mut is_forgotten = false;
    for tree in trees.into_iter().chain([address.clone()]) {
        if tree != *address && stores.has_sealed(&tree)? {
            return Err(part_of(address, &tree));
        }
        let (mut options, is_accepted) = state_in(stores, &tree, accepts)?;
        options.trust.rollback = accepts;
        let path = PathBuf::from(tree.to_string());
        is_forgotten |= is_accepted
            || refuse_gone(&options).map_err(|error| Failure { path: path.clone(), error })?;
    }
    Ok(is_forgotten)
}

/// Refuses a sealed tree that this machine has seen in a store, or what is below it, as the place for
/// other outputs.
pub(crate) fn refuse_seen(stores: &Stores, typed: &OsStr) -> Result<(), Trouble> {
    let Some(address) = Stores::address(typed)? else { return Ok(()) };
    for tree in seen_above(stores, &address)? {
        if stores.has_sealed(&tree)? {
            return Err(part_of(&address, &tree));
        }
    }
    Ok(())
}

fn part_of(address: &Address, tree: &Address) -> Trouble {
    Trouble::Usage(match address == tree {
        true => format!("{address} is a sealed tree; name another place"),
        false => format!(
            "{address} is a part of the sealed tree {tree}: name the tree itself, or another place"
        ),
    })
}

/// The sealed trees that this machine may have seen at an address or above it.
fn seen_above(stores: &Stores, address: &Address) -> Result<Vec<Address>, Trouble> {
    let server = stores.server(address)?;
    let noted = state_directory("trees").map(|all| known_places(&all)).unwrap_or_default();
    let mut trees = Vec::new();
    for (tree, on) in noted.iter().flat_map(|noted| readings(noted)) {
        let is_here = tree.holds(address) && on.is_none_or(|on| on == server);
        if is_here && !trees.contains(&tree) {
            trees.push(tree);
        }
    }
    Ok(trees)
}

/// Options with this user's notes of a sealed tree. A warning names a tree accepted in its place.
/// `accepts` is --allow-rollback.
pub(crate) fn state_of(
    stores: &Stores,
    tree: &Path,
    accepts: bool,
) -> Result<SealedOptions, Trouble> {
    match Stores::address(tree.as_os_str())? {
        Some(address) => state_in(stores, &address, accepts).map(|(options, _)| options),
        None => Ok(SealedOptions { on_accepted: Some(telling(tree)), ..remembered(tree) }),
    }
}

/// The same for an address. Adopts the notes of earlier versions, which spelled the server
/// differently or left it out. Also returns true if --allow-rollback accepted that they are of
/// another tree.
fn state_in(
    stores: &Stores,
    address: &Address,
    accepts: bool,
) -> Result<(SealedOptions, bool), Trouble> {
    let path = PathBuf::from(address.to_string());
    let mut options =
        SealedOptions { on_accepted: Some(telling(&path)), ..SealedOptions::default() };
    let Some(all) = state_directory("trees") else { return Ok((options, false)) };
    let name = stores.name(address)?;
    let earlier = earlier_names(&known_places(&all), address, &name, &stores.server(address)?);
    options.state = Some((all, name));
    options.trust.rollback = accepts;
    let taken = take_over(&stores.open_source(address)?, &options, &earlier);
    let is_accepted = taken.map_err(|error| Failure { path, error })?;
    options.trust.rollback = false;
    Ok((options, is_accepted))
}

fn telling(tree: &Path) -> OnAccepted {
    let path = tree.to_owned();
    Arc::new(move |accepted: &str| {
        complain(&format_args!("warning: {}: {accepted}", shown(&path)));
    })
}

/// The names of a place with another spelling of its server, or else without any.
fn earlier_names(noted: &[String], address: &Address, name: &str, server: &str) -> Vec<String> {
    let with = |has_server: bool| -> Vec<String> {
        let is_it = |noted: &&String| {
            let is_it = |(tree, on): (Address, Option<String>)| {
                tree == *address && on.is_some() == has_server && on.is_none_or(|on| on == server)
            };
            *noted != name && readings(noted).any(is_it)
        };
        noted.iter().filter(is_it).cloned().collect()
    };
    let spelled = with(true);
    if spelled.is_empty() { with(false) } else { spelled }
}

/// The addresses and servers that the name of a place may mean: a prefix may hold ` at ` itself.
fn readings(noted: &str) -> impl Iterator<Item = (Address, Option<String>)> {
    let whole = noted.parse().ok().map(|address| (address, None));
    let split = noted.rsplit_once(" at ");
    let split =
        split.and_then(|(address, on)| Some((address.parse().ok()?, Some(server_name(on)))));
    whole.into_iter().chain(split)
}

/// The warning that nothing can be remembered of a tree.
pub(crate) fn forgetful(sealed: &SealedOptions) -> Option<String> {
    sealed.state.is_none().then(|| FORGETFUL.to_owned())
}

const FORGETFUL: &str = "without XDG_STATE_HOME and HOME, nothing is remembered of sealed trees: this \
                         machine can't notice that a tree was rolled back or exchanged";
