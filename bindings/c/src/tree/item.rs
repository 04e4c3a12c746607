//! What lists of sealed trees consist of.

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use facade::keys::signing::PublicKey;
use facade::sealed_trees::{Difference, GenerationInfo, ListedEntry, TreeSigner};
use serde_json::{Value, json, to_value};

use crate::file::report::text;

/// An entry, generation, difference or signer of a sealed tree. The texts are valid during the call
/// that passes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ItemFacts {
    /// `sizeof(evener_tree_item)` of the library's version, for the reader to compare.
    pub size: usize,
    /// The path below the root of the tree, empty for the root itself; a generation's digest; a
    /// signer's line; or the fingerprint of one who is revoked.
    pub name: *const c_char,
    /// Of an entry: `file`, `directory`, `symlink`, or `link` for a further name of a file. Of a
    /// generation: `whole` or `removed`. Of a difference: `added`, `removed`, `kind`, `content` or
    /// `metadata`. Of a signer: `signer` or `revoked`.
    pub kind: *const c_char,
    /// Bytes of content; of a difference, those after it; else 0.
    pub bytes: u64,
    /// The time of the last modification, or that of a generation, in seconds since 1970; else 0.
    pub time: i64,
    /// The number of a generation; of a file, that for which its content was sealed; of one who is
    /// revoked, the last good one; else 0.
    pub generation: u64,
    /// All of this and more, as the program's `--json` prints it.
    pub json: *const c_char,
}

/// Called with each item, on the thread that called the operation. Return 0 to continue; any other
/// value ends the list. It must not throw or jump out.
pub type ItemCallback =
    Option<unsafe extern "C" fn(item: *const ItemFacts, user_data: *mut c_void) -> c_int>;

/// An item with its texts.
#[derive(Debug, Default)]
pub(crate) struct Item {
    name: CString,
    kind: CString,
    bytes: u64,
    time: i64,
    generation: u64,
    json: CString,
}

impl Item {
    pub(crate) fn facts(&self) -> ItemFacts {
        ItemFacts {
            size: size_of::<ItemFacts>(),
            name: self.name.as_ptr(),
            kind: self.kind.as_ptr(),
            bytes: self.bytes,
            time: self.time,
            generation: self.generation,
            json: self.json.as_ptr(),
        }
    }

    pub(super) fn of_entry(entry: &ListedEntry) -> Item {
        Item {
            bytes: entry.bytes.unwrap_or(0),
            time: entry.modified.map_or(0, |(seconds, _)| seconds),
            generation: entry.sealed_for.unwrap_or(0),
            ..Item::new(path(&entry.path), entry.kind, to_value(entry).unwrap_or_default())
        }
    }

    pub(super) fn of_generation(info: &GenerationInfo, is_whole: bool) -> Item {
        let kind = if is_whole { "whole" } else { "removed" };
        let document = json!({ "number": info.number, "is_whole": is_whole, "root": info });
        Item {
            bytes: info.bytes,
            time: info.time,
            generation: info.number,
            ..Item::new(text(info.digest.clone()), kind, document)
        }
    }

    pub(super) fn of_difference(difference: &Difference) -> Item {
        let kind = to_value(difference.change).unwrap_or_default();
        let kind = kind.as_str().unwrap_or_default();
        Item {
            bytes: difference.bytes_after.unwrap_or(0),
            ..Item::new(path(&difference.path), kind, to_value(difference).unwrap_or_default())
        }
    }

    pub(super) fn of_signer(signer: &TreeSigner) -> Item {
        let line = signer.to_line();
        let document = json!({ "fingerprint": signer.key.fingerprint(), "line": line });
        Item::new(text(line), "signer", document)
    }

    pub(super) fn of_revoked(key: &PublicKey, last: u64) -> Item {
        let fingerprint = key.fingerprint();
        let document = json!({ "fingerprint": fingerprint, "last": last });
        Item { generation: last, ..Item::new(text(fingerprint), "revoked", document) }
    }

    fn new(name: CString, kind: &str, document: Value) -> Item {
        let json = text(document.to_string());
        Item { name, kind: text(kind.to_owned()), json, ..Item::default() }
    }
}

fn path(path: &Path) -> CString {
    // A path has no zero byte.
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}
