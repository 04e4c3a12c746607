//! Files that fit into a worker's buffers: several in one batch of jobs.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use evener_core::{Cipher, Direction};
use evener_format::{FileCipher, Header, Layout};
use evener_pipeline::{Queue, Returned, Worker};

use super::directory::{Directory, Item};
use super::endpoints::PROTECTED;
use super::finish::Done;
use super::large::Large;
use super::names::refuse_long_name;
use super::resume::Existing;
use super::work::{Task, TreeWork};
use crate::FileError;
use crate::Operation;
use crate::prepare::{Prepared, prepare_plain, prepare_sealed};
use crate::segment::{SegmentError, Segments, collect, explain, parts, verify_some};
use crate::source::Source;
use crate::trail::Seen;
use crate::workspace::Workspace;

/// A file that has been read, and the location of its bytes in the worker's buffers.
struct Small {
    item: Item,
    source: Source,
    cipher: FileCipher,
    layout: Layout,
    input: Range<usize>,
    /// The result, without the header of a sealed file, which comes just before it.
    output: Range<usize>,
    header: Option<Header>,
}

/// A file begins in a buffer at a multiple of this many bytes. See [`evener_core::WipedBuffer`].
const PLACE: usize = 64;

/// The number of files that a worker has open at once for an engine that wants many bytes.
const MOST_OPEN: usize = 128;

/// The length of a file's result, and its verification.
type Processed = (Result<usize, FileError>, Seen);

/// The result of opening a file.
enum Begun {
    Small(Box<Small>),
    Large(Arc<Large>),
    /// There is nothing more to do.
    Finished,
    /// It does not fit beside the files already begun; process those first.
    Full,
}

impl TreeWork<'_> {
    /// Performs a batch of files: begins as many as the engine wants jobs at once, processes
    /// them together and finishes each.
    pub(super) fn perform_files(
        &self,
        directory: Arc<Directory>,
        files: Vec<Item>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Task>,
    ) -> Result<(), Returned<Task>> {
        let direction = self.operation.direction();
        let cipher = self.keys.primary().cipher();
        let most = match worker.engine().offer(cipher, direction) {
            // Reading an output back to compare it takes the buffers that hold the others.
            _ if self.options.remove_source => 1,
            // As many as fit the buffers.
            Some(offer) if offer.bytes > 0 => MOST_OPEN,
            Some(offer) => offer.batch.max(1),
            None => 1,
        };
        let mut files = files.into_iter().peekable();
        // An engine may ask for more files than there are.
        let most = most.min(files.len());
        let mut group: Vec<Small> = Vec::with_capacity(most);
        while let Some(item) = files.peek() {
            if self.is_stopped() {
                break;
            }
            match self.begin(&directory, item, &group, workspace, worker) {
                Ok(Begun::Small(small)) => group.push(*small),
                Ok(Begun::Large(large)) => queue.share(Task::Large(large)),
                Ok(Begun::Finished) => {}
                Ok(Begun::Full) => {
                    self.perform_group(&directory, &mut group, workspace, worker, queue)
                        .map_err(|cause| returned(&directory, &mut group, &mut files, cause))?;
                    continue;
                }
                Err(SegmentError::File(error)) => {
                    self.failed_or_again(&directory, item, error, queue);
                }
                Err(SegmentError::Engine(cause)) => {
                    return Err(returned(&directory, &mut group, &mut files, cause));
                }
            }
            files.next();
            if group.len() == most {
                self.perform_group(&directory, &mut group, workspace, worker, queue)
                    .map_err(|cause| returned(&directory, &mut group, &mut files, cause))?;
            }
        }
        self.perform_group(&directory, &mut group, workspace, worker, queue)
            .map_err(|cause| returned(&directory, &mut group, &mut files, cause))?;
        for item in files {
            self.record.failed_file(&directory.path_of(&item.name), FileError::Interrupted);
        }
        Ok(())
    }

    /// Opens and reads a file, and prepares its cipher.
    fn begin(
        &self,
        directory: &Arc<Directory>,
        item: &Item,
        group: &[Small],
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<Begun, SegmentError> {
        refuse_long_name(item)?;
        let source = Source::open(directory.source.as_fd(), &item.name, directory.follows)?;
        if self.options.protected.contains(source.status()) {
            self.record.left_out_file(&directory.path_of(&item.name), PROTECTED);
            return Ok(Begun::Finished);
        }
        let writes = self.operation != Operation::Verify;
        if self.links.is_further_name(&source, directory, item, writes) {
            return Ok(Begun::Finished);
        }
        let Workspace { input, output, .. } = workspace;
        let behind = |end: usize, room: usize| end.next_multiple_of(PLACE).min(room);
        let used = group.last().map_or((0, 0), |last| {
            (behind(last.input.end, input.len()), behind(last.output.end, output.len()))
        });
        let left = (&mut input[used.0..], &mut output[used.1..], group.is_empty());
        let existing = match self.look_for_output(directory, item, &source, left, worker)? {
            Existing::Complete => return Ok(Begun::Finished),
            Existing::Full => return Ok(Begun::Full),
            existing @ (Existing::Undone | Existing::Outdated) => existing,
        };
        if self.options.dry_run {
            let replaces = matches!(existing, Existing::Outdated);
            self.plan(directory, item, (&source, replaces), input, output, worker)?;
            return Ok(Begun::Finished);
        }
        let length = source.length();
        if length > input.len() as u64 {
            // Beginning it takes the buffers that hold the others.
            if !group.is_empty() {
                return Ok(Begun::Full);
            }
            return self.begin_large(directory, item, source, workspace, worker).map(Begun::Large);
        }
        let input_range = used.0..used.0 + length as usize;
        let Some(content) = input.get_mut(input_range.clone()) else { return Ok(Begun::Full) };
        source.read_exact_at(content, 0)?;

        let prepared = match self.operation.direction() {
            Direction::Encrypt => prepare_plain(self.keys, length)?,
            Direction::Decrypt => prepare_sealed(self.keys, content, length, output, worker)?,
        };
        let Prepared { cipher, layout, header } = prepared;
        let needed = match self.operation.direction() {
            Direction::Encrypt => layout.sealed_length(),
            Direction::Decrypt => length,
        };
        if needed > output.len() as u64 {
            if !group.is_empty() {
                return Ok(Begun::Full);
            }
            return self.begin_large(directory, item, source, workspace, worker).map(Begun::Large);
        }
        let same_cipher =
            group.first().is_none_or(|first| first.cipher.cipher() == cipher.cipher());
        let output_range = used.1..used.1 + needed as usize;
        if !same_cipher || output_range.end > output.len() {
            return Ok(Begun::Full);
        }
        let header_length = header.as_ref().map_or(0, |header| header.bytes().len());
        Ok(Begun::Small(Box::new(Small {
            item: item.clone(),
            source,
            header,
            input: input_range,
            output: output_range.start + header_length..output_range.end,
            cipher,
            layout,
        })))
    }

    fn perform_group(
        &self,
        directory: &Arc<Directory>,
        group: &mut Vec<Small>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Task>,
    ) -> Result<(), evener_core::EngineError> {
        let Some(cipher) = group.first().map(|small| small.cipher.cipher()) else { return Ok(()) };
        let results = process_group(group, cipher, self.operation.direction(), workspace, worker)?;
        let bytes = group.iter().map(|small| small.input.len() as u64).sum();
        self.options.control.has_processed(&worker.engine().description().name, bytes);
        self.note_unverified(directory, group, &results, workspace, worker);
        for (small, (result, _)) in group.drain(..).zip(results) {
            let item = small.item.clone();
            let finished = result
                .and_then(|length| self.finish_small(directory, small, length, workspace, worker));
            if let Err(error) = finished {
                self.failed_or_again(directory, &item, error, queue);
            }
        }
        Ok(())
    }

    /// Keeps the names of the files with unverified jobs.
    fn note_unverified(
        &self,
        directory: &Arc<Directory>,
        group: &[Small],
        results: &[Processed],
        workspace: &Workspace,
        worker: &Worker<'_>,
    ) {
        // Outputs that are read back are verified as a whole.
        if !worker.is_watched() || self.options.remove_source {
            return;
        }
        for (small, (_, seen)) in group.iter().zip(results) {
            if seen.open {
                let engine = &worker.engine().description().name;
                workspace.trail.add(engine, || directory.path_of(&small.item.name));
            }
        }
    }

    /// Writes a processed file. `length` is the length of the result, without a header.
    fn finish_small(
        &self,
        directory: &Arc<Directory>,
        small: Small,
        length: usize,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<(), FileError> {
        let Small { item, source, cipher, layout, output, header, .. } = small;
        self.options.control.done_bytes(source.length());
        // Only now, because an engine that is left behind keeps the buffer in which it writes.
        let header = header.as_ref().map_or(&[][..], Header::bytes);
        let whole = output.start - header.len()..output.start + length;
        workspace.output[whole.start..output.start].copy_from_slice(header);
        let written = whole.len() as u64;
        let file = match &directory.target {
            None => None,
            Some(target) => {
                let named = self.at_output(&directory.location, &item.target);
                let file = self.create((directory, target), &item, &source).map_err(&named)?;
                self.write(&file, &workspace.output[whole], 0).map_err(&named)?;
                Some(file)
            }
        };
        let segments = Segments::new(layout, cipher.geometry(), self.room)?;
        let done = Done {
            directory,
            item: &item,
            source: &Arc::new(source),
            cipher: &cipher,
            segments: &segments,
            length: written,
        };
        self.finish(done, file, workspace, worker)
    }
}

/// Runs all jobs of a group and returns each file's result length and verification.
fn process_group(
    group: &[Small],
    cipher: Cipher,
    direction: Direction,
    workspace: &mut Workspace,
    worker: &mut Worker<'_>,
) -> Result<Vec<Processed>, evener_core::EngineError> {
    let Workspace { input, parcel, .. } = workspace;
    let mut ends = Vec::with_capacity(group.len());
    for small in group {
        let Small { cipher, layout, .. } = small;
        let header = match direction {
            Direction::Encrypt => 0,
            Direction::Decrypt => layout.chunk(0).sealed.start as usize,
        };
        let start = small.input.start + header;
        let chunks = (0..layout.chunks()).map(|index| layout.chunk(index));
        let first = parcel.jobs().len();
        let key = parcel.add_key(cipher.key());
        for part in parts(cipher, direction, chunks, &input[start..small.input.end], None) {
            parcel.push(part.placed(key, (start, small.output.start)));
        }
        if worker.is_watched() {
            verify_some(&mut parcel.verifications_mut()[first..]);
        }
        ends.push(parcel.jobs().len());
    }
    workspace.process(worker, cipher, direction, |parcel| {
        let mut start = 0;
        let results = ends.iter().zip(group).map(|(&end, small)| {
            let jobs = std::mem::replace(&mut start, end)..end;
            let last = small.layout.chunks().checked_sub(1);
            let collected = collect(parcel.outcomes()[jobs.clone()].iter().copied(), 0);
            let collected = collected.map_err(|error| explain(error, last, &small.cipher));
            (collected, Seen::of(&parcel.verifications()[jobs]))
        });
        results.collect()
    })
}

/// The rest of a batch of files after an engine failed: open files and unopened files.
fn returned(
    directory: &Arc<Directory>,
    group: &mut Vec<Small>,
    files: &mut dyn Iterator<Item = Item>,
    cause: evener_core::EngineError,
) -> Returned<Task> {
    let begun = group.drain(..).map(|small| small.item);
    let files = begun.chain(files).map(|item| Item { is_again: true, ..item }).collect();
    Returned { task: Task::Files { directory: directory.clone(), files }, cause }
}
