//! Paths: `str`, `bytes` and `os.PathLike`, with any bytes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A path, as `os.fsencode` encodes it.
pub(crate) struct AnyPath(pub(crate) PathBuf);

impl<'py> FromPyObject<'_, 'py> for AnyPath {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<AnyPath> {
        let bytes = object.py().import("os")?.call_method1("fsencode", (object,))?;
        let bytes = bytes.cast_into::<PyBytes>()?.as_bytes().to_vec();
        if bytes.is_empty() || bytes.contains(&0) {
            return Err(PyValueError::new_err("a path is not empty and has no null byte"));
        }
        Ok(AnyPath(PathBuf::from(OsString::from_vec(bytes))))
    }
}
