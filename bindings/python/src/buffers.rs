//! The content of whole files in buffers.

use std::sync::Arc;

use facade::format::Layout;
use facade::{Control, Evener, FileError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Trouble;
use crate::keys::KeyRing;
use crate::sys::{Input, Output, Slices};
use crate::values::Count;
use crate::watched::watched;

/// The greatest sealed length of `length` bytes.
#[pyfunction]
#[pyo3(signature = (length, *, keys))]
pub(crate) fn sealed_size(length: Count, keys: &KeyRing) -> Result<u64, Trouble> {
    keys.evener()?.sealed_length(length.0).map_err(Trouble::usage)
}

/// The length of the content of a file that has `length` bytes; `None` if no whole file has them.
///
/// # Errors
/// With age, whose headers have no fixed length, and with keys whose chunks differ.
#[pyfunction]
#[pyo3(signature = (length, *, keys))]
pub(crate) fn opened_size(length: u64, keys: &KeyRing) -> Result<Option<u64>, Trouble> {
    let ring = keys.evener()?.key_ring();
    let geometry = ring.primary().geometry();
    if ring.is_of_age() || ring.recipes().any(|recipe| recipe.geometry() != geometry) {
        return Err(Trouble::usage(
            "with these keys, a file's length does not show that of its content",
        ));
    }
    Ok(Layout::for_sealed(&geometry, length).ok().map(|layout| layout.plain_length()))
}

/// Seals into a buffer, which may begin where the data does, and returns the number of bytes.
#[pyfunction]
#[pyo3(signature = (data, out, *, keys, context=None))]
pub(crate) fn seal_into(
    py: Python<'_>,
    data: Input,
    mut out: Output,
    keys: &KeyRing,
    context: Option<&[u8]>,
) -> Result<usize, Trouble> {
    match Slices::of(&data, &mut out)? {
        Slices::Apart(data, out) => seal(py, data, out, keys, context),
        Slices::InPlace(buffer, length) => {
            done(py, length, keys, context, |evener| evener.seal_in_place(buffer, length))
        }
    }
}

/// Opens into a buffer, which may begin where the sealed data does, and returns the number of bytes.
#[pyfunction]
#[pyo3(signature = (sealed, out, *, keys, context=None))]
pub(crate) fn open_into(
    py: Python<'_>,
    sealed: Input,
    mut out: Output,
    keys: &KeyRing,
    context: Option<&[u8]>,
) -> Result<usize, Trouble> {
    match Slices::of(&sealed, &mut out)? {
        Slices::Apart(sealed, out) => open(py, sealed, out, keys, context),
        Slices::InPlace(buffer, length) => {
            done(py, length, keys, context, |evener| evener.open_in_place(&mut buffer[..length]))
        }
    }
}

/// Seals into a new object.
#[pyfunction]
#[pyo3(signature = (data, *, keys, context=None))]
pub(crate) fn seal_bytes<'py>(
    py: Python<'py>,
    data: Input,
    keys: &KeyRing,
    context: Option<&[u8]>,
) -> Result<Bound<'py, PyBytes>, Trouble> {
    let data = data.bytes();
    let room = keys.evener()?.sealed_length(data.len() as u64)?;
    made(py, room as usize, |out| seal(py, data, out, keys, context))
}

/// Opens into a new object.
#[pyfunction]
#[pyo3(signature = (sealed, *, keys, context=None))]
pub(crate) fn open_bytes<'py>(
    py: Python<'py>,
    sealed: Input,
    keys: &KeyRing,
    context: Option<&[u8]>,
) -> Result<Bound<'py, PyBytes>, Trouble> {
    let sealed = sealed.bytes();
    let geometry = keys.evener()?.key_ring().primary().geometry();
    // A key of another geometry may open it.
    let room = Layout::for_sealed(&geometry, sealed.len() as u64);
    let room = room.map_or(sealed.len(), |layout| layout.plain_length() as usize);
    match made(py, room, |out| open(py, sealed, out, keys, context)) {
        Err(Trouble::File(FileError::ShortBuffer { .. })) => {
            made(py, sealed.len(), |out| open(py, sealed, out, keys, context))
        }
        opened => opened,
    }
}

fn seal(
    py: Python<'_>,
    data: &[u8],
    out: &mut [u8],
    keys: &KeyRing,
    context: Option<&[u8]>,
) -> Result<usize, Trouble> {
    done(py, data.len(), keys, context, |evener| evener.seal(data, out))
}

fn open(
    py: Python<'_>,
    sealed: &[u8],
    out: &mut [u8],
    keys: &KeyRing,
    context: Option<&[u8]>,
) -> Result<usize, Trouble> {
    done(py, sealed.len(), keys, context, |evener| evener.open(sealed, out))
}

/// Makes a `bytes` object of the bytes that `fill` writes.
pub(crate) fn made<'py>(
    py: Python<'py>,
    room: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<usize, Trouble>,
) -> Result<Bound<'py, PyBytes>, Trouble> {
    let mut filled = Ok(0);
    let bytes = PyBytes::new_with(py, room, |out| {
        filled = fill(out);
        Ok(())
    })?;
    let length = filled?;
    Ok(if length < room { PyBytes::new(py, &bytes.as_bytes()[..length]) } else { bytes })
}

/// Does work on `length` bytes: short work directly, longer work with the interpreter detached, and
/// very long work on another thread, so signals can end it.
fn done(
    py: Python<'_>,
    length: usize,
    keys: &KeyRing,
    context: Option<&[u8]>,
    work: impl FnOnce(&Evener) -> Result<usize, FileError> + Send,
) -> Result<usize, Trouble> {
    let context = context.unwrap_or_default();
    if length < LONG && context.is_empty() {
        let evener = keys.evener()?;
        return Ok(unattached(py, length, || work(evener))?);
    }
    let control = Arc::new(Control::default());
    // Threads are shared by all calls with these keys.
    let pool = &keys.evener()?.options().run.pool;
    let evener = Evener::builder(keys.ring(context)?).options(|options| {
        options.run.control = Arc::clone(&control);
        options.run.pool.clone_from(pool);
    });
    let evener = evener.build()?;
    if length < LONG {
        return Ok(unattached(py, length, || work(&evener))?);
    }
    Ok(watched(py, &control, None, || work(&evener))??)
}

/// Does work on `length` bytes. If it is long, other Python threads run meanwhile.
pub(crate) fn unattached<T: Send>(
    py: Python<'_>,
    length: usize,
    work: impl FnOnce() -> T + Send,
) -> T {
    if length < DETACHED { work() } else { py.detach(work) }
}

/// From this many bytes on, work takes much longer than detaching and attaching the interpreter.
const DETACHED: usize = 32 << 10;

/// From this many bytes on, one core could take 100 ms.
const LONG: usize = 64 << 20;
