//! Reads encrypted files at any offset.

use std::sync::{Arc, Mutex, PoisonError};

use facade::place::{Blob, Fault};
use facade::{Control, FileError, Operation, RandomAccess};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::buffers::made;
use crate::error::Trouble;
use crate::keys::KeyRing;
use crate::options::Wishes;
use crate::path::AnyPath;
use crate::sys::Output;

/// The plaintext of an encrypted file. Threads share it.
#[pyclass(frozen, module = "evener._evener")]
pub(crate) struct Reader {
    content: RandomAccess,
    raised: Raised,
}

/// The exception of a file object, which passes through the library as text.
type Raised = Arc<Mutex<Option<PyErr>>>;

#[pymethods]
impl Reader {
    /// Opens a file, or a member of a sealed tree.
    #[staticmethod]
    fn of_path(
        py: Python<'_>,
        path: AnyPath,
        member: Option<AnyPath>,
        keys: &KeyRing,
        options: &Bound<'_, PyDict>,
    ) -> Result<Reader, Trouble> {
        let wishes = Wishes::of("open", options)?;
        let content = py.detach(|| {
            let evener = wishes.evener(keys, &Arc::new(Control::default()))?;
            let Some(member) = member else {
                wishes.check_plain()?;
                return Ok(evener.open_at(&path.0)?);
            };
            let sealed = wishes.sealed(Operation::Decrypt, &path.0, keys)?;
            let tree = evener.local(&path.0);
            let (mut opened, _) = evener.open_in_tree(&tree, &sealed, &[member.0])?;
            opened.pop().ok_or_else(|| Trouble::usage("the tree has no such file"))
        })?;
        Ok(Reader { content, raised: Raised::default() })
    }

    /// Opens an object that has `seek` and `read`.
    #[staticmethod]
    fn of_file(
        py: Python<'_>,
        file: Bound<'_, PyAny>,
        keys: &KeyRing,
        options: &Bound<'_, PyDict>,
    ) -> Result<Reader, Trouble> {
        let wishes = Wishes::of("open", options)?;
        wishes.check_plain()?;
        let raised = Raised::default();
        let length = file.call_method1("seek", (0, 2))?.extract()?;
        let blob =
            Box::new(FileObject { file: file.unbind(), length, raised: Arc::clone(&raised) });
        let opened = py.detach(|| {
            let evener = wishes.evener(keys, &Arc::new(Control::default()))?;
            Ok(evener.open_blob(blob)?)
        });
        match opened {
            Ok(content) => Ok(Reader { content, raised }),
            Err(error) => Err(took(&raised).map_or(error, Trouble::Python)),
        }
    }

    #[getter]
    fn size(&self) -> u64 {
        self.content.len()
    }

    /// Fills a buffer, or less of it at the end of the file, and returns the number of bytes.
    fn read_into(&self, py: Python<'_>, mut out: Output, offset: u64) -> Result<usize, Trouble> {
        self.fill(py, out.bytes_mut(), offset)
    }

    /// Reads `length` bytes, or fewer at the end of the file.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: u64,
    ) -> Result<Bound<'py, PyBytes>, Trouble> {
        let room = length.min(self.content.len().saturating_sub(offset));
        made(py, room as usize, |out| self.fill(py, out, offset))
    }

    /// Reads the ranges from each start to the corresponding end.
    fn cat_ranges<'py>(
        &self,
        py: Python<'py>,
        starts: Vec<u64>,
        ends: Vec<u64>,
    ) -> Result<Vec<Bound<'py, PyBytes>>, Trouble> {
        let whole = starts.len() == ends.len() && starts.iter().zip(&ends).all(|(a, b)| a <= b);
        if !whole {
            return Err(PyValueError::new_err("each start has an end that is not below it").into());
        }
        // In the order of the file, each chunk is decrypted only once.
        let mut order: Vec<_> = (0..starts.len()).collect();
        order.sort_by_key(|&index| starts[index]);
        let mut read = Vec::with_capacity(order.len());
        for index in order {
            let bytes = self.read_at(py, starts[index], ends[index] - starts[index])?;
            read.push((index, bytes));
        }
        read.sort_by_key(|(index, _)| *index);
        Ok(read.into_iter().map(|(_, bytes)| bytes).collect())
    }
}

impl Reader {
    /// Reads in pieces, and handles signals between them.
    fn fill(&self, py: Python<'_>, out: &mut [u8], offset: u64) -> Result<usize, Trouble> {
        let mut done = 0;
        while done < out.len() {
            let piece = (out.len() - done).min(PIECE);
            let piece = &mut out[done..done + piece];
            let read = py.detach(|| self.content.read_at(piece, offset + done as u64));
            let read = read.map_err(|error| self.trouble(error))?;
            if read == 0 {
                break;
            }
            done += read;
            py.check_signals()?;
        }
        Ok(done)
    }

    fn trouble(&self, error: FileError) -> Trouble {
        took(&self.raised).map_or(error.into(), Trouble::Python)
    }
}

fn took(raised: &Raised) -> Option<PyErr> {
    raised.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The sealed bytes of a Python file object.
struct FileObject {
    file: Py<PyAny>,
    length: u64,
    raised: Raised,
}

impl FileObject {
    fn read(&self, py: Python<'_>, buffer: &mut [u8], at: u64) -> PyResult<bool> {
        let file = self.file.bind(py);
        file.call_method1("seek", (at,))?;
        let mut done = 0;
        while done < buffer.len() {
            let read = file.call_method1("read", (buffer.len() - done,))?;
            let read: &[u8] = read.extract()?;
            if read.is_empty() || read.len() > buffer.len() - done {
                return Ok(false);
            }
            buffer[done..done + read.len()].copy_from_slice(read);
            done += read.len();
        }
        Ok(true)
    }
}

impl Blob for FileObject {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        // No thread that waits for this one's lock holds the interpreter: `Reader` detaches first.
        match Python::attach(|py| self.read(py, buffer, at)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Fault::Changed),
            Err(error) => {
                let fault = Fault::Failed(error.to_string());
                *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Err(fault)
            }
        }
    }

    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}

/// One core takes 20 ms for this many bytes.
const PIECE: usize = 16 << 20;
