//! The file that says that a place is a sealed tree.

use evener_format::index::TreeId;

use super::depot::{Created, Depot, damaged, refused};
use crate::FileError;

/// The name of the marker.
pub(super) const MARKER: &str = "evener-tree-v1";

/// The tree that a place says it is; `None` if it is no sealed tree.
pub(super) fn read(depot: &Depot<'_>) -> Result<Option<TreeId>, FileError> {
    let Some(bytes) = depot.read(MARKER, 4096)? else { return Ok(None) };
    let text = std::str::from_utf8(&bytes).ok();
    let id = text.and_then(|text| text.strip_prefix("evener-tree-v1 ")?.strip_suffix('\n'));
    match id.and_then(TreeId::from_text) {
        Some(id) => Ok(Some(id)),
        None => Err(damaged(MARKER, format!("`{MARKER}` is damaged: it should name the tree"))),
    }
}

/// Makes a place a sealed tree.
pub(super) fn create(depot: &Depot<'_>, tree: TreeId) -> Result<(), FileError> {
    match depot.create(MARKER, format!("evener-tree-v1 {tree}\n").as_bytes())? {
        Created::Ours => Ok(()),
        Created::Taken => Err(refused("another run is making a sealed tree there; try again")),
    }
}
