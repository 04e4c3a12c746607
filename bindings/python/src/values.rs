//! Values of Python, with exceptions that name the parameter.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The value of a parameter. `wanted` describes it.
///
/// # Errors
/// `TypeError` or `ValueError`.
pub(crate) fn given<'a, 'py, T: FromPyObject<'a, 'py>>(
    name: &str,
    value: &'a Bound<'py, PyAny>,
    wanted: &str,
) -> PyResult<T> {
    value.extract().map_err(|error: T::Error| {
        let message = format!("{name} must be {wanted}");
        let (py, error): (_, PyErr) = (value.py(), error.into());
        if error.is_instance_of::<PyTypeError>(py) {
            PyTypeError::new_err(message)
        } else if error.is_instance_of::<PyOverflowError>(py)
            || error.is_instance_of::<PyValueError>(py)
        {
            PyValueError::new_err(message)
        } else {
            error
        }
    })
}

/// An offset or a length in bytes.
pub(crate) struct Count(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for Count {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Count> {
        given("an offset or a length", &object, "a number from 0 to 2**64 - 1").map(Count)
    }
}

/// The description of a list of strings.
pub(crate) const STRINGS: &str = "a sequence of str";
