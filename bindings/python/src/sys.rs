//! Memory of Python's objects as slices.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ops::Range;
use std::slice;

use pyo3::exceptions::{PyBufferError, PyMemoryError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The bytes of an object with the buffer protocol, such as `bytes`, `bytearray`, `memoryview`, a
/// NumPy array or an `mmap`. While this value lives, the object does not move its memory.
pub(crate) struct Input(View);

/// The same, for a writable object.
pub(crate) struct Output(View);

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

fn range(buffer: &View) -> Range<usize> {
    let start = buffer.buf_ptr() as usize;
    start..start + buffer.len_bytes()
}

/// A contiguous view of an object's memory. That of pyo3 refuses views without a shape or strides:
/// those of `ctypes`, and of arrays without dimensions.
struct View(Box<ffi::Py_buffer>);

// SAFETY: the memory may be used on any thread, and `drop` attaches its thread to the interpreter.
unsafe impl Send for View {}
// SAFETY: the same, and shared views are never changed.
unsafe impl Sync for View {}

impl View {
    fn of(object: &Borrowed<'_, '_, PyAny>) -> PyResult<View> {
        let mut raw = Box::new(ffi::Py_buffer::new());
        // Without a request for strides, the view is contiguous.
        let flags = ffi::PyBUF_ND | ffi::PyBUF_FORMAT;
        // SAFETY: the object is alive, and the view stays where it is until `drop` releases it.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *raw, flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        let view = View(raw);
        match view.has_objects() {
            true => Err(PyBufferError::new_err("the buffer holds objects instead of bytes")),
            false => Ok(view),
        }
    }

    fn has_objects(&self) -> bool {
        if self.0.format.is_null() {
            return false;
        }
        // SAFETY: the format is a C string that lives as long as the view.
        let format = unsafe { CStr::from_ptr(self.0.format) };
        // The names of fields stand between colons.
        format.to_bytes().split(|&byte| byte == b':').step_by(2).any(|types| types.contains(&b'O'))
    }

    fn buf_ptr(&self) -> *mut c_void {
        self.0.buf
    }

    fn len_bytes(&self) -> usize {
        self.0.len.unsigned_abs()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: `of` has filled the view, and nothing else releases it.
        Python::attach(|_| unsafe { ffi::PyBuffer_Release(&raw mut *self.0) });
    }
}

/// A `bytes` object.
///
/// # Errors
/// `MemoryError`, where pyo3 would panic.
pub(crate) fn bytes_of<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let (start, length) = (bytes.as_ptr().cast(), bytes.len().cast_signed());
    // SAFETY: Python copies the bytes of the slice into a new object, or returns null.
    let object =
        unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(start, length))? };
    Ok(object.cast_into()?)
}

/// Room for elements.
///
/// # Errors
/// `MemoryError`, where `Vec` itself would end the process.
pub(crate) fn reserved<T>(length: usize) -> PyResult<Vec<T>> {
    let mut room = Vec::new();
    let made = room.try_reserve_exact(length);
    made.map_err(|_| PyMemoryError::new_err("there is not enough memory for the result"))?;
    Ok(room)
}

impl<'py> FromPyObject<'_, 'py> for Input {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Input> {
        View::of(&object).map(Input)
    }
}

impl<'py> FromPyObject<'_, 'py> for Output {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Output> {
        let buffer = View::of(&object)?;
        match buffer.0.readonly != 0 {
            true => Err(PyBufferError::new_err("the output is read-only")),
            false => Ok(Output(buffer)),
        }
    }
}
