//! Looks at the files of a sealed tree without reading their content.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;
use std::{iter, thread};

use evener_core::IgnorePoison;
use evener_format::index::{Content, Kind};

use super::blob::{COMMITMENT_AT, SealedBlob};
use super::origin::{Order, fault_of};
use super::reader::{GenerationInfo, any_ring, snapshot, wanted};
use super::snapshot::Snapshot;
use super::total;
use super::writer::SealedOptions;
use crate::place::{Blob as _, Origin};
use crate::record::Record;
use crate::{
    Failure, FileError, Name, OperationError, Report, RunSettings, SealedTree, TransferOptions,
};

/// Looks at every selected file of a generation: it is there, and its length, its header and its
/// last tag are those of its entry. So missing, cut and exchanged files are found, but not those
/// whose content has decayed.
///
/// # Errors
/// [`OperationError::NotBegun`] when the root can't be read or is not believed, and
/// [`OperationError::Incomplete`] when files are not what they should be.
pub fn verify_quickly(
    origin: &dyn Origin,
    run: &RunSettings,
    options: &TransferOptions,
    sealed: &SealedOptions,
) -> Result<(Report, GenerationInfo), OperationError> {
    let started = Instant::now();
    let root = &*origin.label();
    let fail = |error| Failure { path: root.to_owned(), error };
    let (snapshot, info) = snapshot(origin, run, sealed).map_err(fail)?;
    let ring = any_ring(&snapshot).map_err(fail)?;
    let record = Record::new(run, root);
    let mut report = Report {
        operation: "verify".to_owned(),
        format: ring.primary().format().to_owned(),
        cipher: ring.primary().cipher().to_string(),
        ..Report::default()
    };
    let requests = origin.abilities().requests().max(run.seats.len());
    let (sender, receiver) = sync_channel::<Vec<(PathBuf, Content)>>(2 * requests);
    let receiver = Mutex::new(receiver);
    let look = || {
        thread::scope(|scope| {
            for _ in 0..requests.max(1) {
                scope.spawn(|| look_at_all(&snapshot, &receiver, &record));
            }
            let watch = options.selection.watch();
            let mut order = Order::default();
            let mut batch = Vec::new();
            for line in snapshot.lines(wanted(&options.selection)) {
                if run.control.is_stopped() {
                    break;
                }
                let line = match line.map_err(|damage| fault_of(&damage)) {
                    Ok(line) => order.check(&line).map(|path| (path, line.1)),
                    Err(fault) => Err(fault),
                };
                let (path, entry) = match line {
                    Ok(line) => line,
                    Err(fault) => {
                        let path = fault.entry().map_or(Path::new(""), Name::path).to_owned();
                        record.failed(&path, fault.into());
                        continue;
                    }
                };
                match entry.kind {
                    Kind::Directory if watch.takes_directory(&path) => report.directories += 1,
                    Kind::Symlink(_) if watch.takes_file(&path) => report.symlinks += 1,
                    Kind::Further(_) if watch.takes_file(&path) => report.hard_links += 1,
                    Kind::File(content) if watch.takes_file(&path) => batch.push((path, content)),
                    _ => {}
                }
                if batch.len() == BATCH {
                    drop(sender.send(std::mem::take(&mut batch)));
                }
            }
            drop(sender.send(batch));
            drop(sender);
            if !run.control.is_stopped() {
                for (path, error) in watch.missing(None) {
                    record.failed(path, error);
                }
            }
        })
    };
    total::beside(&snapshot, &options.selection, total::looked_at, look);
    record.into_report(&mut report);
    report.interrupted |= run.control.is_stopped();
    report.seconds = started.elapsed().as_secs_f64();
    report.sealed = Some(SealedTree::Read(info.clone()));
    report.into_result().map(|report| (report, info))
}

fn look_at_all(
    snapshot: &Snapshot<'_>,
    receiver: &Mutex<Receiver<Vec<(PathBuf, Content)>>>,
    record: &Record<'_>,
) {
    let next = || receiver.lock().ignore_poison().recv().ok();
    for batch in iter::from_fn(next) {
        record.fed(batch.len() as u64);
        for (path, content) in batch {
            record.control().done_bytes(content.length);
            match look_at(snapshot, &content) {
                Ok(()) => record.done(|| path, content.size, 0, false),
                Err(error) => record.failed_file(&path, error),
            }
        }
    }
}

/// Looks at one file. A small one is read with one call, so all of it is of one version.
fn look_at(snapshot: &Snapshot<'_>, content: &Content) -> Result<(), FileError> {
    let mut first = [0; READ_WHOLE as usize];
    let is_small = content.length <= READ_WHOLE;
    let wanted = if is_small { content.length } else { COMMITMENT_AT + 32 };
    let first = &mut first[..wanted as usize];
    let (blob, read) = SealedBlob::open(snapshot, *content, None, first)?;
    if read < first.len() {
        blob.read_at(first, 0)?;
    }
    if is_small {
        return Ok(());
    }
    let mut tag = [0; 16];
    blob.read_at(&mut tag, content.length - 16)?;
    Ok(blob.check()?)
}

/// The length of the longest file that is read whole, in bytes.
const READ_WHOLE: u64 = 4096;

const BATCH: usize = 64;
