//! The library's errors as Python exceptions.

use std::path::Path;

use facade::format::FormatError;
use facade::keys::KeyError;
use facade::place::Fault;
use facade::{AeadError, EngineError, Failure, FileError, OperationError, Refusal, Report};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// An error of the library, not yet an exception.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The caller's mistake.
    Usage(String),
    Key(KeyError),
    /// A key file can't be read, and its name may be a key.
    HiddenKey,
    Engine(EngineError),
    Aead(AeadError),
    File(FileError),
    Operation(Box<OperationError>),
    /// An exception that Python raised.
    Python(PyErr),
}

impl Trouble {
    pub(crate) fn usage(message: impl ToString) -> Trouble {
        Trouble::Usage(message.to_string())
    }
}

impl From<Trouble> for PyErr {
    fn from(trouble: Trouble) -> PyErr {
        let raised = Python::attach(|py| match trouble {
            Trouble::Usage(message) => Ok(PyValueError::new_err(message)),
            Trouble::Python(error) => Ok(error),
            Trouble::Key(error @ KeyError::PassphraseMemory { .. }) => {
                Ok(PyMemoryError::new_err(error.to_string()))
            }
            Trouble::Key(error) => raise(py, "KeyError", &error.to_string(), error.path(), None),
            Trouble::HiddenKey => raise(py, "KeyError", HIDDEN_KEY, None, None),
            Trouble::Engine(error) => raise(py, "EvenerError", &error.to_string(), None, None),
            Trouble::Aead(error) => raise(py, of_aead(&error), &error.to_string(), None, None),
            Trouble::File(error) => of_file(py, &error),
            Trouble::Operation(error) => of_operation(py, *error),
        });
        raised.unwrap_or_else(|error| error)
    }
}

fn of_operation(py: Python<'_>, error: OperationError) -> PyResult<PyErr> {
    let message = shown(&error.to_string());
    let (first, report) = match &error {
        OperationError::NotBegun(failure) => (Some(failure), None),
        OperationError::Incomplete(report) => (report.failures.first(), Some(&**report)),
    };
    let class = first.map_or("EvenerError", |failure| class_of(&failure.error));
    let raised = raise(py, class, &message, first.map(|failure| &*failure.path), report)?;
    first.map_or(Ok(()), |failure| tell_number(py, &raised, &failure.error))?;
    Ok(raised)
}

fn of_file(py: Python<'_>, error: &FileError) -> PyResult<PyErr> {
    let raised = raise(py, class_of(error), &shown(&error.to_string()), None, None)?;
    tell_number(py, &raised, error)?;
    Ok(raised)
}

/// Sets `errno` of a `SystemError`.
fn tell_number(py: Python<'_>, raised: &PyErr, error: &FileError) -> PyResult<()> {
    match error {
        FileError::System { errno, .. } | FileError::Output { errno, .. } => {
            raised.value(py).setattr("errno", errno.number())
        }
        _ => Ok(()),
    }
}

fn of_aead(error: &AeadError) -> &'static str {
    match error {
        AeadError::Forged { .. } => "DamagedError",
        AeadError::NotAuthenticated { .. } | AeadError::Malformed { .. } => USAGE,
        _ => "EvenerError",
    }
}

/// The class of an error with a file.
fn class_of(error: &FileError) -> &'static str {
    match error {
        FileError::Rejected { .. }
        | FileError::RejectedEnd { .. }
        | FileError::Format(_)
        | FileError::Place(Fault::Damaged { .. }) => "DamagedError",
        FileError::Exists(_)
        | FileError::Taken(_)
        | FileError::Differs { .. }
        | FileError::OtherKey(_)
        | FileError::Newer(_)
        | FileError::NoDirectory { .. }
        | FileError::Special { .. }
        | FileError::NoLink { .. }
        | FileError::Place(Fault::Exists(_)) => "ExistsError",
        FileError::Place(Fault::Missing(_)) | FileError::Refused(Refusal::NotFound { .. }) => {
            "MissingError"
        }
        FileError::System { errno, .. } if errno.kind() == std::io::ErrorKind::NotFound => {
            "MissingError"
        }
        FileError::System { .. } | FileError::Output { .. } => "SystemError",
        FileError::Refused(Refusal::NoKey(_)) => "KeyError",
        FileError::Refused(Refusal::Options(_)) | FileError::ShortBuffer { .. } => USAGE,
        _ => "EvenerError",
    }
}

fn raise(
    py: Python<'_>,
    class: &str,
    message: &str,
    path: Option<&Path>,
    report: Option<&Report>,
) -> PyResult<PyErr> {
    if class == USAGE {
        return Ok(PyValueError::new_err(message.to_owned()));
    }
    let exception = py.import("evener._errors")?.getattr(class)?.call1((message,))?;
    if let Some(path) = path {
        exception.setattr("path", path.as_os_str())?;
    }
    if let Some(report) = report {
        exception.setattr("report", python_report(py, report)?)?;
    }
    Ok(PyErr::from_value(exception))
}

/// The report as a Python object.
pub(crate) fn python_report<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let document = serde_json::to_string(report).map_err(Trouble::usage)?;
    CLASS.import(py, "evener._report", "Report")?.call_method1("_of", (document,))
}

/// Escapes control characters, which names of files may have.
fn shown(message: &str) -> String {
    facade::program::shown_text(message).to_string()
}

const HIDDEN_KEY: &str = "can't read the key file: there is none of the name given, which is not \
                          shown because it may be a key itself; KeyRing.of_bytes takes the bytes of a key";

/// Stands for `ValueError`, which is not a class of this package.
const USAGE: &str = "";

impl From<KeyError> for Trouble {
    fn from(error: KeyError) -> Trouble {
        Trouble::Key(error)
    }
}

impl From<EngineError> for Trouble {
    fn from(error: EngineError) -> Trouble {
        Trouble::Engine(error)
    }
}

impl From<AeadError> for Trouble {
    fn from(error: AeadError) -> Trouble {
        Trouble::Aead(error)
    }
}

impl From<FileError> for Trouble {
    fn from(error: FileError) -> Trouble {
        Trouble::File(error)
    }
}

impl From<FormatError> for Trouble {
    fn from(error: FormatError) -> Trouble {
        Trouble::File(error.into())
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        OperationError::from(failure).into()
    }
}

impl From<OperationError> for Trouble {
    fn from(error: OperationError) -> Trouble {
        Trouble::Operation(Box::new(error))
    }
}

impl From<PyErr> for Trouble {
    fn from(error: PyErr) -> Trouble {
        Trouble::Python(error)
    }
}
