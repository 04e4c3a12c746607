//! The total of an operation on a generation, for its progress.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;

use evener_format::index::{EntryPath, Kind};

use super::reader::wanted;
use super::snapshot::Snapshot;
use crate::{Control, Selection};

/// Does some work. If somebody asks for the total, another thread adds up the selected files
/// meanwhile. `length` returns an entry's share in bytes; `None` if the work does not count it.
pub(super) fn beside<T>(
    snapshot: &Snapshot<'_>,
    selection: &Selection,
    length: fn(&Kind) -> Option<u64>,
    work: impl FnOnce() -> T,
) -> T {
    let control = &snapshot.depot.run.control;
    thread::scope(|scope| {
        if control.wants_total() {
            let add_up = || add_up(snapshot, selection, length, control);
            // If no thread can be started, the total stays unknown.
            let _ = thread::Builder::new().spawn_scoped(scope, add_up);
        }
        work()
    })
}

/// The number of encrypted bytes to read for an entry.
pub(super) fn stored(kind: &Kind) -> Option<u64> {
    match kind {
        Kind::File(content) => Some(content.length),
        Kind::Further(_) => Some(0),
        Kind::Directory | Kind::Symlink(_) => None,
    }
}

/// The encrypted length of an entry. Further names of a file do not count.
pub(super) fn looked_at(kind: &Kind) -> Option<u64> {
    match kind {
        Kind::File(content) => Some(content.length),
        Kind::Further(_) | Kind::Directory | Kind::Symlink(_) => None,
    }
}

/// The length of an entry's plaintext in bytes.
pub(super) fn plain(kind: &Kind) -> Option<u64> {
    match kind {
        Kind::File(content) => Some(content.size),
        Kind::Further(_) => Some(0),
        Kind::Directory | Kind::Symlink(_) => None,
    }
}

/// Adds up the selected files, unless the index is damaged.
fn add_up(
    snapshot: &Snapshot<'_>,
    selection: &Selection,
    length: fn(&Kind) -> Option<u64>,
    control: &Control,
) {
    let (mut files, mut bytes) = (0, 0);
    for line in snapshot.lines(wanted(selection)) {
        let Ok((directory, entry)) = line else { return };
        if control.is_stopped() {
            return;
        }
        let Some(length) = length(&entry.kind) else { continue };
        let path = EntryPath { directory, name: entry.name }.whole();
        if selection.takes_file(Path::new(OsStr::from_bytes(&path))) {
            files += 1;
            bytes += length;
        }
    }
    control.tell_total(files, bytes);
}
