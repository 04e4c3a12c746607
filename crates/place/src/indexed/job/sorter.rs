//! Sorts the rows of a source of any length.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, Seek, Write};
use std::sync::Arc;

use evener_format::index::{EntryPath, Kind};

use super::super::depot::refused;
use super::rows::{Row, RowReader, RowWriter};
use crate::FileError;

/// Takes rows in any order, and returns them in the index's, with the directories that their names
/// imply. It keeps some in memory, and the others in nameless files of the temporary directory.
pub(super) struct Sorter {
    rows: Vec<Row>,
    bytes: usize,
    most: usize,
    runs: Vec<File>,
    /// The directories of the last row: their rows were taken.
    above: Vec<u8>,
}

impl Sorter {
    /// A sorter that keeps about `most` bytes in memory.
    pub(super) fn new(most: usize) -> Sorter {
        Sorter { rows: Vec::new(), bytes: 0, most, runs: Vec::new(), above: Vec::new() }
    }

    pub(super) fn push(&mut self, row: Row) -> Result<(), FileError> {
        if *row.directory != *self.above {
            self.add_directories(&row.directory)?;
        }
        self.add(row)
    }

    /// Adds the directories above a row, unless the last row had them too.
    fn add_directories(&mut self, directory: &Arc<[u8]>) -> Result<(), FileError> {
        let last = std::mem::replace(&mut self.above, directory.to_vec());
        let mut path: &[u8] = directory;
        while !path.is_empty() {
            let is_above_last =
                last.strip_prefix(path).is_some_and(|it| it.is_empty() || it.starts_with(b"/"));
            if is_above_last {
                break;
            }
            let implied = EntryPath::of(path);
            path = path.iter().rposition(|byte| *byte == b'/').map_or(&[], |slash| &path[..slash]);
            self.add(Row::implied(implied))?;
        }
        Ok(())
    }

    fn add(&mut self, row: Row) -> Result<(), FileError> {
        self.bytes += ROW + row.entry.name.len() + row.directory.len();
        self.rows.push(row);
        match self.bytes > self.most {
            true => self.spill(),
            false => Ok(()),
        }
    }

    fn spill(&mut self) -> Result<(), FileError> {
        let failed = |error: io::Error| {
            refused(format!("can't keep the rows of the job in the temporary directory: {error}"))
        };
        let mut file = tempfile::tempfile().map_err(failed)?;
        let mut writer = RowWriter::default();
        let mut rows = Merged::of(vec![Run::Memory(self.take_sorted().into_iter())])?;
        while let Some(row) = rows.next()? {
            writer.push(&row)?;
            file.write_all(&writer.take()).map_err(failed)?;
        }
        file.write_all(&writer.finish()).map_err(failed)?;
        file.rewind().map_err(failed)?;
        self.runs.push(file);
        Ok(())
    }

    fn take_sorted(&mut self) -> Vec<Row> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by_cached_key(Row::path);
        self.bytes = 0;
        rows
    }

    /// All rows in order.
    pub(super) fn finish(mut self) -> Result<Merged, FileError> {
        let files = std::mem::take(&mut self.runs).into_iter();
        let mut runs: Vec<_> =
            files.map(|file| Run::File(RowReader::new(BufReader::new(file)))).collect();
        runs.push(Run::Memory(self.take_sorted().into_iter()));
        Merged::of(runs)
    }
}

/// Rows in order.
enum Run {
    Memory(std::vec::IntoIter<Row>),
    File(RowReader<BufReader<File>>),
}

impl Run {
    fn next(&mut self) -> Result<Option<Row>, FileError> {
        match self {
            Run::Memory(rows) => Ok(rows.next()),
            Run::File(rows) => rows.next(),
        }
    }
}

/// Several runs as one, in which each directory occurs once.
pub(super) struct Merged {
    runs: Vec<Run>,
    /// The next row of each run, by its path.
    heads: BinaryHeap<Reverse<(EntryPath, usize)>>,
    rows: Vec<Option<Row>>,
}

impl Merged {
    fn of(runs: Vec<Run>) -> Result<Merged, FileError> {
        let rows = runs.iter().map(|_| None).collect();
        let mut merged = Merged { runs, heads: BinaryHeap::new(), rows };
        (0..merged.runs.len()).try_for_each(|run| merged.fill(run))?;
        Ok(merged)
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// Also when two entries that are not directories have one name; the rows go on behind them.
    pub(super) fn next(&mut self) -> Result<Option<Row>, FileError> {
        let Some(mut row) = self.pop()? else { return Ok(None) };
        let path = row.path();
        let mut is_doubled = false;
        while self.heads.peek().is_some_and(|Reverse((next, _))| *next == path) {
            let Some(other) = self.pop()? else { break };
            is_doubled |= !row.is_directory() || !other.is_directory();
            // One of a walk has metadata, an implied one has none.
            if row.entry.mode.is_none() && row.entry.modified.is_none() {
                row = other;
            }
        }
        match is_doubled {
            true => Err(refused(format!("`{}`: {BOTH}", shown(&path.whole())))),
            false => Ok(Some(row)),
        }
    }

    fn pop(&mut self) -> Result<Option<Row>, FileError> {
        let Some(Reverse((_, run))) = self.heads.pop() else { return Ok(None) };
        let row = self.rows[run].take();
        self.fill(run)?;
        Ok(row)
    }

    fn fill(&mut self, run: usize) -> Result<(), FileError> {
        if let Some(row) = self.runs[run].next()? {
            self.heads.push(Reverse((row.path(), run)));
            self.rows[run] = Some(row);
        }
        Ok(())
    }
}

/// A path, safe to print.
fn shown(path: &[u8]) -> String {
    use std::os::unix::ffi::OsStrExt;
    evener_core::shown(std::path::Path::new(std::ffi::OsStr::from_bytes(path))).to_string()
}

/// The number of objects of a row that are a file and a further one.
pub(super) fn is_object(row: &Row) -> bool {
    matches!(row.entry.kind, Kind::File(_))
}

/// About the bytes that a row takes besides its path.
const ROW: usize = 400;

const BOTH: &str = "it is an object, and others have names below it or the same name, so it would be \
                    a file and a directory";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;
    use crate::place::Entry;

    fn sorted(names: &[&str], most: usize) -> Result<Vec<(String, bool)>, FileError> {
        let (mut sorter, mut directory) = (Sorter::new(most), Arc::from([]));
        for name in names {
            let entry = Entry::new(Name::found(name.into()), Some(3));
            sorter.push(Row::of(&mut directory, &entry).unwrap())?;
        }
        let (mut merged, mut rows) = (sorter.finish()?, Vec::new());
        while let Some(row) = merged.next()? {
            rows.push((String::from_utf8(row.path().whole()).unwrap(), row.is_directory()));
        }
        Ok(rows)
    }

    #[test]
    fn rows_are_sorted_with_their_directories() {
        let names = ["z", "a/b/c", "a-b", "a/b/d", "a!", "a/c", "b/x", "a/b/c2/y"];
        let expected = [
            ("a", true),
            ("a!", false),
            ("a-b", false),
            ("b", true),
            ("z", false),
            ("a/b", true),
            ("a/c", false),
            ("a/b/c", false),
            ("a/b/c2", true),
            ("a/b/d", false),
            ("a/b/c2/y", false),
            ("b/x", false),
        ];
        let expected = expected.map(|(name, is_directory)| (name.to_owned(), is_directory));
        for most in [0, 1_000, 2_000, 1 << 20] {
            assert_eq!(sorted(&names, most).unwrap(), expected);
        }
    }

    #[test]
    fn a_file_that_is_a_directory_is_refused() {
        for most in [0, 1 << 20] {
            let error = sorted(&["a/b", "a"], most).unwrap_err().to_string();
            assert!(error.contains("`a`: it is an object"), "{error}");
            assert!(sorted(&["a", "a"], most).is_err());
        }
    }
}
