//! Operations on files and trees.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use facade::{Control, Evener, Failure, Operation, OperationError, StreamSource, StreamTarget};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{Trouble, python_report};
use crate::keys::KeyRing;
use crate::options::Wishes;
use crate::path::AnyPath;
use crate::sys::Input;
use crate::trees;
use crate::watched::watched;

/// Encrypts, decrypts or verifies. Returns a report, or raises an exception with it.
#[pyfunction]
pub(crate) fn process<'py>(
    py: Python<'py>,
    operation: &str,
    source: AnyPath,
    target: Option<AnyPath>,
    keys: &KeyRing,
    progress: Option<Py<PyAny>>,
    options: &Bound<'py, PyDict>,
) -> Result<Bound<'py, PyAny>, Trouble> {
    let wishes = Wishes::of(operation, options)?;
    let control = Arc::new(Control::default());
    let (source, target) = (&*source.0, target.as_ref().map(|path| &*path.0));
    let operation = match operation {
        "encrypt" => Operation::Encrypt,
        "decrypt" => Operation::Decrypt,
        _ => Operation::Verify,
    };
    let report = watched(py, &control, progress.as_ref(), || {
        let evener = wishes.evener(keys, &control)?;
        let is_sealed = trees::is_sealed(&evener, &wishes, keys, operation, source, target)?;
        let work = || match is_sealed {
            true => trees::process(&evener, &wishes, keys, operation, source, target),
            false => {
                wishes.check_plain()?;
                Ok(evener.process(operation, source, target)?)
            }
        };
        // A sealed tree adds up its own files.
        let is_measured = operation == Operation::Encrypt || !is_sealed;
        if !is_measured || !control.wants_total() || wishes.has("remove_source") {
            return work();
        }
        let (beside, has_failed) = (target.filter(|_| !is_sealed), AtomicBool::new(false));
        thread::scope(|scope| {
            let measure = || {
                let is_over = || has_failed.load(Ordering::Relaxed);
                if let Some((files, bytes)) = total(&evener, operation, source, beside, is_over) {
                    control.tell_total(files, bytes);
                }
            };
            // If no thread can be started, the total stays unknown.
            let _ = thread::Builder::new().spawn_scoped(scope, measure);
            let done = work();
            has_failed.store(done.is_err(), Ordering::Relaxed);
            done
        })
    })?;
    Ok(python_report(py, &report?)?)
}

/// The number of files that an operation takes, and of their bytes.
fn total(
    evener: &Evener,
    operation: Operation,
    source: &Path,
    target: Option<&Path>,
    is_over: impl Fn() -> bool,
) -> Option<(u64, u64)> {
    match source.metadata() {
        Ok(status) if status.is_file() => Some((1, status.len())),
        _ => {
            let total = evener.measure(operation, source, target, is_over)?;
            Some((total.files, total.bytes))
        }
    }
}

/// Lists encrypted files, or the entries of a sealed tree: a JSON document for each, and one for
/// each part that can't be read.
#[pyfunction]
pub(crate) fn list_place(
    py: Python<'_>,
    path: AnyPath,
    keys: &KeyRing,
    options: &Bound<'_, PyDict>,
) -> Result<Vec<String>, Trouble> {
    let wishes = Wishes::of("list", options)?;
    let control = Arc::new(Control::default());
    let path: &Path = &path.0;
    watched(py, &control, None, || {
        let evener = wishes.evener(keys, &control)?;
        if trees::is_sealed(&evener, &wishes, keys, Operation::Verify, path, None)? {
            return trees::list(&evener, &wishes, keys, path);
        }
        wishes.check_plain()?;
        let listing = evener.list(path)?;
        if let Some(failure) = listing.failures.into_iter().next() {
            return Err(failure.into());
        }
        Ok(listing.files.iter().filter_map(|file| serde_json::to_string(file).ok()).collect())
    })?
}

/// Encrypts buffers, one after another, into a file.
#[pyfunction]
pub(crate) fn seal_pieces(
    py: Python<'_>,
    pieces: Vec<Input>,
    target: AnyPath,
    keys: &KeyRing,
    options: &Bound<'_, PyDict>,
) -> Result<(), Trouble> {
    let wishes = Wishes::of("save", options)?;
    let control = Arc::new(Control::default());
    let pieces: Vec<_> = pieces.iter().map(Input::bytes).collect();
    watched(py, &control, None, || {
        let source = StreamSource::Reader(Box::new(Pieces { current: &[], rest: pieces.iter() }));
        let (evener, path) = (wishes.evener(keys, &control)?, &target.0);
        let sealed =
            evener.process_stream(Operation::Encrypt, source, StreamTarget::File(path.clone()));
        sealed.map(drop).map_err(|error| of_target(error, path).into())
    })?
}

/// The error with the path of the target, where the pieces have none.
fn of_target(mut error: OperationError, target: &Path) -> OperationError {
    let name = |failure: &mut Failure| target.clone_into(&mut failure.path);
    match &mut error {
        OperationError::NotBegun(failure) => name(failure),
        OperationError::Incomplete(report) => report.failures.iter_mut().for_each(name),
    }
    error
}

/// Reads buffers one after another.
struct Pieces<'p> {
    current: &'p [u8],
    rest: std::slice::Iter<'p, &'p [u8]>,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            let Some(next) = self.rest.next() else { return Ok(0) };
            self.current = next;
        }
        self.current.read(buffer)
    }
}
