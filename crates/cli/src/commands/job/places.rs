//! The places of a job.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use evener::{Evener, Failure};

use crate::ends::{Place, identity, with_those_above};
use crate::stores::{AnyPlace, Stores};
use crate::trouble::{Trouble, shown};

/// The place that was typed under a name. Paths become absolute, since workers run elsewhere.
pub(super) fn place(name: &str, typed: &OsStr) -> Result<Place, Trouble> {
    if let Some(address) = Stores::address(typed)? {
        return Ok(Place::Objects(address));
    }
    if typed.is_empty() || typed == "-" {
        return Err(Trouble::Usage(format!(
            "{name} is a directory or an object store; name one, such as /mnt/{} or s3://bucket/{}",
            name.to_lowercase(),
            name.to_lowercase()
        )));
    }
    let absolute = std::path::absolute(typed);
    absolute.map(Place::Path).map_err(|cause| Trouble::File {
        action: "find",
        path: typed.into(),
        cause,
    })
}

/// The text of a place in the manifest.
pub(super) fn text(name: &str, place: &Place) -> Result<String, Trouble> {
    let path = place.path();
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Trouble::Usage(format!(
            "{name}, {}: a job keeps the path as text, and it is not UTF-8; rename it, or reach it \
             through a link (names below it may be any)",
            shown(&path)
        ))
    })
}

/// Opens a place, as one in which objects `are_made` with the settings of the options, or not.
pub(super) fn opened(
    stores: &Stores,
    evener: &Evener,
    place: &Place,
    are_made: bool,
) -> Result<AnyPlace, Failure> {
    Ok(match place {
        Place::Objects(address) if are_made => AnyPlace::Objects(stores.open(address)?),
        Place::Objects(address) => AnyPlace::Objects(stores.open_source(address)?),
        place => AnyPlace::local(evener, &place.path()),
    })
}

/// Refuses a source that is no directory, and places that can't be made.
pub(super) fn check(places: &[(&str, &Place)]) -> Result<(), Trouble> {
    for (name, place) in places {
        let Place::Path(path) = place else { continue };
        let found = fs::metadata(path);
        let above = path.parent().filter(|above| !above.is_dir());
        let why = match (*name, &found, above) {
            ("SRC", Err(_), _) => "there is no such directory".to_owned(),
            (_, Ok(found), _) if !found.is_dir() => "it is no directory".to_owned(),
            (_, Err(_), Some(above)) => format!("make the directory {} first", shown(above)),
            _ => continue,
        };
        return Err(Trouble::Usage(format!("{name}, {}: {why}", shown(path))));
    }
    Ok(())
}

/// Refuses places of which one is another, or lies in it.
pub(super) fn refuse_overlap(places: &[(&str, &Place)]) -> Result<(), Trouble> {
    for (at, (one, first)) in places.iter().enumerate() {
        for (other, second) in &places[at + 1..] {
            let overlap = match (first, second) {
                (Place::Objects(first), Place::Objects(second)) => {
                    first.holds(second) || second.holds(first)
                }
                (Place::Path(first), Place::Path(second)) => overlap(first, second),
                _ => false,
            };
            if overlap {
                return Err(Trouble::Usage(format!(
                    "{one} ({}) and {other} ({}) overlap; give each a place of its own",
                    shown(&first.path()),
                    shown(&second.path())
                )));
            }
        }
    }
    Ok(())
}

/// Returns whether one of two paths leads to the other or to what is in it.
fn overlap(one: &Path, other: &Path) -> bool {
    let [first, second] = [one, other].map(resolved);
    let holds = |directory: &Path, path: &Path| {
        let found = fs::metadata(directory);
        let there = existing(path);
        found.is_ok_and(|found| with_those_above(there).contains(&identity(&found)))
    };
    first.starts_with(&second)
        || second.starts_with(&first)
        || holds(one, other)
        || holds(other, one)
}

/// An absolute path without links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let there = existing(path);
    let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
    fs::canonicalize(there).unwrap_or_else(|_| there.to_owned()).join(rest)
}

/// The part of an absolute path that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|path| path.exists()).unwrap_or(path)
}
