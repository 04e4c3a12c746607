//! Memory of Python's objects as slices.

#![allow(unsafe_code)]

use std::ops::Range;
use std::slice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

/// The bytes of an object with the buffer protocol, such as `bytes`, `bytearray`, `memoryview`, a
/// NumPy array or an `mmap`. While this value lives, the object does not move its memory.
pub(crate) struct Input(PyUntypedBuffer);

/// The same, for a writable object.
pub(crate) struct Output(PyUntypedBuffer);

impl Input {
    /// The bytes. As with every Python function that lets other threads run while it reads a
    /// buffer, the caller must prevent writes to it meanwhile.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.0.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the view was exported as contiguous (`extract`), so these bytes are one
        // allocation, which the exporter neither frees nor moves before the view is released,
        // and `self` outlives the slice. They are initialised, since Python's objects always are.
        // The slice's length is that of the view, which never changes.
        unsafe { slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}

impl Output {
    /// The bytes, see [`Input::bytes`].
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.0.len_bytes() == 0 {
            return &mut [];
        }
        // SAFETY: as in `Input::bytes`, and the exporter has declared it writable. The
        // slice borrows `self` mutably; `disjoint` keeps other slices of this call away from it.
        unsafe { slice::from_raw_parts_mut(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}

/// The memory of a call that reads one buffer and writes another.
pub(crate) enum Slices<'a> {
    /// Two buffers.
    Apart(&'a [u8], &'a mut [u8]),
    /// The output, and the number of bytes at its beginning that are the input.
    InPlace(&'a mut [u8], usize),
}

impl<'a> Slices<'a> {
    /// # Errors
    /// `ValueError` where they share memory and do not begin together, or the output ends first.
    pub(crate) fn of(input: &'a Input, output: &'a mut Output) -> PyResult<Slices<'a>> {
        let (from, to) = (range(&input.0), range(&output.0));
        if from.start == to.start && (1..=to.len()).contains(&from.len()) {
            return Ok(Slices::InPlace(output.bytes_mut(), from.len()));
        }
        disjoint(input, output).map(|(from, to)| Slices::Apart(from, to))
    }
}

/// Both slices of a call that reads one buffer and writes another.
///
/// # Errors
/// `ValueError` where they share memory.
pub(crate) fn disjoint<'a>(
    input: &'a Input,
    output: &'a mut Output,
) -> PyResult<(&'a [u8], &'a mut [u8])> {
    refuse_shared(input, output)?;
    Ok((input.bytes(), output.bytes_mut()))
}

/// Refuses an input that shares memory with the output.
///
/// # Errors
/// `ValueError` where it does.
pub(crate) fn refuse_shared(input: &Input, output: &Output) -> PyResult<()> {
    let (from, to) = (range(&input.0), range(&output.0));
    if from.start < to.end && to.start < from.end {
        return Err(PyValueError::new_err("the input and the output share memory"));
    }
    Ok(())
}

fn range(buffer: &PyUntypedBuffer) -> Range<usize> {
    let start = buffer.buf_ptr() as usize;
    start..start + buffer.len_bytes()
}

fn contiguous(object: &Borrowed<'_, '_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(object)?;
    match buffer.is_c_contiguous() {
        true => Ok(buffer),
        false => Err(PyBufferError::new_err("the buffer is not contiguous")),
    }
}

impl<'py> FromPyObject<'_, 'py> for Input {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Input> {
        contiguous(&object).map(Input)
    }
}

impl<'py> FromPyObject<'_, 'py> for Output {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Output> {
        let buffer = contiguous(&object)?;
        match buffer.readonly() {
            true => Err(PyBufferError::new_err("the output is read-only")),
            false => Ok(Output(buffer)),
        }
    }
}
