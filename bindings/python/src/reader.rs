//! Reads encrypted files at any offset.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use facade::{Control, FileError, Operation, RandomAccess};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::buffers::made;
use crate::error::Trouble;
use crate::keys::KeyRing;
use crate::options::Wishes;
use crate::path::AnyPath;
use crate::source::{Fetched, Object, Sealed, Source};
use crate::sys::Output;
use crate::values::Count;

/// The plaintext of an encrypted file. Threads share it.
#[pyclass(frozen, module = "evener._evener")]
pub(crate) struct Reader {
    content: RandomAccess,
    /// The Python object that has the sealed bytes; `None` for a file.
    source: Option<Arc<Source>>,
    run: Mutex<Run>,
}

/// Small reads that follow each other.
#[derive(Default)]
struct Run {
    plain: Range<u64>,
    /// What was fetched for the reads to come.
    ahead: Option<Fetched>,
}

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
        Ok(Reader { content, source: None, run: Mutex::default() })
    }

    /// Opens an object that has `seek` and `read`.
    #[staticmethod]
    fn of_file(
        py: Python<'_>,
        file: Bound<'_, PyAny>,
        keys: &KeyRing,
        options: &Bound<'_, PyDict>,
    ) -> Result<Reader, Trouble> {
        let length = file.call_method1("seek", (0, 2))?.extract()?;
        Reader::of_object(py, Object::File(file.unbind()), length, keys, options)
    }

    /// Opens a file of `length` bytes that a function reads: it takes the starts and the ends of
    /// ranges, and returns their bytes.
    #[staticmethod]
    fn of_ranges(
        py: Python<'_>,
        read: Py<PyAny>,
        length: u64,
        keys: &KeyRing,
        options: &Bound<'_, PyDict>,
    ) -> Result<Reader, Trouble> {
        Reader::of_object(py, Object::Ranges(read), length, keys, options)
    }

    #[getter]
    fn size(&self) -> u64 {
        self.content.len()
    }

    /// Fills a buffer, or less of it at the end of the file, and returns the number of bytes.
    fn read_into(&self, py: Python<'_>, mut out: Output, offset: Count) -> Result<usize, Trouble> {
        self.fill(py, out.bytes_mut(), offset.0)
    }

    /// Reads `length` bytes, or fewer at the end of the file.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        offset: Count,
        length: Count,
    ) -> Result<Bound<'py, PyBytes>, Trouble> {
        self.read(py, offset.0, length.0)
    }

    /// Reads the ranges from each start to the corresponding end.
    fn cat_ranges<'py>(
        &self,
        py: Python<'py>,
        starts: Vec<Count>,
        ends: Vec<Count>,
    ) -> Result<Vec<Bound<'py, PyBytes>>, Trouble> {
        let numbers = |counts: Vec<Count>| counts.into_iter().map(|count| count.0).collect();
        let (starts, ends): (Vec<u64>, Vec<u64>) = (numbers(starts), numbers(ends));
        let whole = starts.len() == ends.len() && starts.iter().zip(&ends).all(|(a, b)| a <= b);
        if !whole {
            return Err(PyValueError::new_err("each start has an end that is not below it").into());
        }
        // In the order of the file, each chunk is decrypted only once.
        let mut order: Vec<_> = (0..starts.len()).collect();
        order.sort_by_key(|&index| starts[index]);
        let mut read = Vec::with_capacity(order.len());
        let mut left = &order[..];
        while !left.is_empty() {
            let (now, later) = left.split_at(together(left, &starts, &ends));
            left = later;
            let plain = now.iter().map(|&index| starts[index]..ends[index]).collect();
            let _fetched = py.detach(|| self.fetch(plain)).map_err(|error| self.trouble(error))?;
            for &index in now {
                let bytes = self.read(py, starts[index], ends[index] - starts[index])?;
                read.push((index, bytes));
            }
        }
        read.sort_by_key(|(index, _)| *index);
        Ok(read.into_iter().map(|(_, bytes)| bytes).collect())
    }
}

impl Reader {
    fn of_object(
        py: Python<'_>,
        object: Object,
        length: u64,
        keys: &KeyRing,
        options: &Bound<'_, PyDict>,
    ) -> Result<Reader, Trouble> {
        let wishes = Wishes::of("open", options)?;
        wishes.check_plain()?;
        let source = Arc::new(Source::new(object, length));
        let opened = py.detach(|| {
            let evener = wishes.evener(keys, &Arc::new(Control::default()))?;
            let _fetched = source.prepare(evener.key_ring()).map_err(FileError::from)?;
            let opened = evener.open_blob(Box::new(Sealed(Arc::clone(&source))))?;
            // Objects may refuse calls on other threads than the caller's.
            Ok(opened.with_workers(1))
        });
        match opened {
            Ok(content) => Ok(Reader { content, source: Some(source), run: Mutex::default() }),
            Err(error) => Err(source.take_raised().map_or(error, Trouble::Python)),
        }
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: u64,
    ) -> Result<Bound<'py, PyBytes>, Trouble> {
        let room = length.min(self.content.len().saturating_sub(offset));
        made(py, room as usize, |out| self.fill(py, out, offset))
    }

    /// Reads in pieces, and handles signals between them.
    fn fill(&self, py: Python<'_>, out: &mut [u8], offset: u64) -> Result<usize, Trouble> {
        let mut done = 0;
        while done < out.len() {
            let piece = (out.len() - done).min(PIECE);
            let piece = &mut out[done..done + piece];
            let at = offset + done as u64;
            let read = py.detach(|| {
                let plain = at..at.saturating_add(piece.len() as u64);
                self.read_ahead(&plain)?;
                let _fetched = self.fetch(vec![plain])?;
                self.content.read_at(piece, at)
            });
            let read = read.map_err(|error| self.trouble(error))?;
            if read == 0 {
                break;
            }
            done += read;
            py.check_signals()?;
        }
        Ok(done)
    }

    /// Has the source fetch what reading ranges needs.
    fn fetch(&self, plain: Vec<Range<u64>>) -> Result<Option<Fetched>, FileError> {
        let Some(source) = &self.source else { return Ok(None) };
        let sealed = plain.into_iter().map(|range| self.content.sealed_range(range)).collect();
        Ok(Some(source.fetch(sealed)?))
    }

    /// When small reads follow each other, fetches as much again as they have read.
    fn read_ahead(&self, plain: &Range<u64>) -> Result<(), FileError> {
        let Some(source) = &self.source else { return Ok(()) };
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        if plain.start != run.plain.end || plain.end - plain.start >= NOT_SMALL {
            *run = Run { plain: plain.clone(), ahead: None };
            return Ok(());
        }
        run.plain.end = plain.end;
        let needed = self.content.sealed_range(plain.clone());
        if !source.missing(vec![needed]).is_empty() {
            let length = (run.plain.end - run.plain.start).min(MOST_AHEAD);
            let ahead = self.content.sealed_range(plain.start..plain.end.saturating_add(length));
            run.ahead = Some(source.fetch(vec![ahead])?);
        }
        Ok(())
    }

    fn trouble(&self, error: FileError) -> Trouble {
        let raised = self.source.as_ref().and_then(|source| source.take_raised());
        raised.map_or(error.into(), Trouble::Python)
    }
}

/// Returns how many of the ranges, at least one, are fetched together.
fn together(order: &[usize], starts: &[u64], ends: &[u64]) -> usize {
    let mut room = PIECE as u64;
    let fits = |&&index: &&usize| {
        let length = ends[index] - starts[index];
        let fits = length <= room;
        room = room.saturating_sub(length);
        fits
    };
    order.iter().take_while(fits).count().max(1)
}

/// One core takes 20 ms for this many bytes.
const PIECE: usize = 16 << 20;

/// From this many bytes on, a read takes long enough by itself.
const NOT_SMALL: u64 = 64 << 10;

/// The most bytes to read ahead.
const MOST_AHEAD: u64 = 4 << 20;
