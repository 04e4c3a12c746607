//! Objects that fit into a worker's buffers: several in one batch of jobs.

use std::ops::Range;
use std::sync::Arc;

use evener_core::{Cipher, Direction, EngineError};
use evener_format::{FileCipher, Header, Layout};
use evener_pipeline::{Queue, Returned, Worker};

use super::large::Large;
use super::objects::{Blob, Done, Draft, Objects, Opened, ReadAt, Room};
use super::prepare::{Prepared, prepare_plain, prepare_sealed};
use super::segment::{SegmentError, Segments, collect, explain, parts, verify_some};
use super::trail::Seen;
use super::work::{Sealer, Task};
use super::workspace::Workspace;
use crate::FileError;

/// An object that has been read, and the location of its bytes in the worker's buffers.
pub(crate) struct Small<O: Objects> {
    item: O::Item,
    blob: O::Blob,
    cipher: FileCipher,
    layout: Layout,
    input: Range<usize>,
    /// The result, without the header of a sealed object, which comes just before it.
    output: Range<usize>,
    header: Option<Header>,
}

/// An object begins in a buffer at a multiple of this many bytes. See
/// [`evener_core::WipedBuffer`].
const PLACE: usize = 64;

/// The number of objects that a worker has open at once for an engine that wants many bytes.
const MOST_OPEN: usize = 128;

/// The length of an object's result, and its verification.
type Processed = (Result<usize, FileError>, Seen);

/// The result of beginning an object.
pub(crate) enum Begun<O: Objects> {
    Small(Box<Small<O>>),
    Large(Arc<Large<O>>),
    /// There is nothing more to do.
    Finished,
    /// It does not fit beside the objects already begun; process those first.
    Full,
}

impl<O: Objects> Sealer<'_, O> {
    /// Performs a batch of objects: begins as many as the engine wants jobs at once, processes
    /// them together and finishes each.
    pub(crate) fn perform_some(
        &self,
        group: O::Group,
        items: Vec<O::Item>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Task<O>>,
    ) -> Result<(), Returned<Task<O>>> {
        let most = self.most_at_once(worker).min(items.len());
        let mut items = items.into_iter().peekable();
        let mut begun: Vec<Small<O>> = Vec::with_capacity(most);
        while let Some(item) = items.peek() {
            if self.control.is_stopped() {
                break;
            }
            let mut is_full = false;
            match self.begin(&group, item, &begun, workspace, worker) {
                Ok(Begun::Small(small)) => begun.push(*small),
                Ok(Begun::Large(large)) => queue.share(Task::Large(large)),
                Ok(Begun::Finished) => {}
                Ok(Begun::Full) if begun.is_empty() => {
                    let needed = 2 * self.room as u64;
                    self.failed_or_again(&group, item, FileError::Memory { needed }, queue);
                }
                Ok(Begun::Full) => is_full = true,
                Err(SegmentError::File(error)) => self.failed_or_again(&group, item, error, queue),
                Err(SegmentError::Engine(cause)) => {
                    return Err(returned(&group, &mut begun, &mut items, cause));
                }
            }
            if !is_full {
                items.next();
            }
            if is_full || begun.len() == most {
                self.perform_begun(&group, &mut begun, workspace, worker, queue)
                    .map_err(|cause| returned(&group, &mut begun, &mut items, cause))?;
            }
        }
        self.perform_begun(&group, &mut begun, workspace, worker, queue)
            .map_err(|cause| returned(&group, &mut begun, &mut items, cause))?;
        items.for_each(|item| self.objects.failed(&group, &item, FileError::Interrupted));
        Ok(())
    }

    /// The number of objects that a worker has begun at once.
    fn most_at_once(&self, worker: &Worker<'_>) -> usize {
        let direction = self.operation.direction();
        match worker.engine().offer(self.keys.primary().cipher(), direction) {
            // Reading an output back to compare it takes the buffers that hold the others.
            _ if self.reads_back => 1,
            // As many as fit the buffers.
            Some(offer) if offer.bytes > 0 => MOST_OPEN,
            Some(offer) => offer.batch.max(1),
            None => 1,
        }
    }

    /// Opens and reads an object, and prepares its cipher.
    fn begin(
        &self,
        group: &O::Group,
        item: &O::Item,
        begun: &[Small<O>],
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<Begun<O>, SegmentError> {
        let Workspace { input, output, .. } = workspace;
        let behind = |end: usize, room: usize| end.next_multiple_of(PLACE).min(room);
        let used = begun.last().map_or((0, 0), |last| {
            (behind(last.input.end, input.len()), behind(last.output.end, output.len()))
        });
        let is_all = begun.is_empty();
        let room = Room { input: &mut input[used.0..], scratch: &mut output[used.1..], is_all };
        let (blob, read) = match self.objects.open(group, item, room, worker)? {
            Opened::Blob(blob, read) => (blob, read),
            Opened::Finished => return Ok(Begun::Finished),
            Opened::Full => return Ok(Begun::Full),
        };
        let length = blob.length();
        if length > input.len() as u64 {
            // Beginning it takes the buffers that hold the others.
            return match is_all {
                true => self.begin_large(group, item, blob, read, workspace, worker),
                false => Ok(Begun::Full),
            };
        }
        let input_range = used.0..used.0 + length as usize;
        let Some(content) = input.get_mut(input_range.clone()) else { return Ok(Begun::Full) };
        if let Some(rest) = content.get_mut(read..).filter(|rest| !rest.is_empty()) {
            blob.read_exact_at(rest, read as u64)?;
        }

        let direction = self.operation.direction();
        let Prepared { cipher, layout, header } = match direction {
            Direction::Encrypt => prepare_plain(self.keys, length)?,
            Direction::Decrypt => prepare_sealed(self.keys, content, &blob, output, worker)?,
        };
        let needed = match direction {
            Direction::Encrypt => layout.sealed_length(),
            Direction::Decrypt => length,
        };
        if is_all && needed > output.len() as u64 {
            let read = input_range.len();
            return self.begin_large(group, item, blob, read, workspace, worker);
        }
        let same_cipher =
            begun.first().is_none_or(|first| first.cipher.cipher() == cipher.cipher());
        let fits = needed <= (output.len() - used.1) as u64;
        if !same_cipher || !fits {
            return Ok(Begun::Full);
        }
        let header_length = header.as_ref().map_or(0, |header| header.bytes().len());
        let output = used.1 + header_length..used.1 + needed as usize;
        let item = item.clone();
        let input = input_range;
        Ok(Begun::Small(Box::new(Small { item, blob, cipher, layout, input, output, header })))
    }

    fn perform_begun(
        &self,
        group: &O::Group,
        begun: &mut Vec<Small<O>>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Task<O>>,
    ) -> Result<(), EngineError> {
        let Some(cipher) = begun.first().map(|small| small.cipher.cipher()) else { return Ok(()) };
        let results = process_begun(begun, cipher, self.operation.direction(), workspace, worker)?;
        let bytes = begun.iter().map(|small| small.input.len() as u64).sum();
        self.control.has_processed(&worker.engine().description().name, bytes);
        self.note_unverified(group, begun, &results, workspace, worker);
        for (small, (result, _)) in begun.drain(..).zip(results) {
            let item = small.item.clone();
            let finished = result
                .and_then(|length| self.finish_small(group, small, length, workspace, worker));
            if let Err(error) = finished {
                self.failed_or_again(group, &item, error, queue);
            }
        }
        Ok(())
    }

    /// Keeps the names of the objects with unverified jobs.
    fn note_unverified(
        &self,
        group: &O::Group,
        begun: &[Small<O>],
        results: &[Processed],
        workspace: &Workspace,
        worker: &Worker<'_>,
    ) {
        // Outputs that are read back are verified as a whole.
        if !worker.is_watched() || self.reads_back {
            return;
        }
        let engine = &worker.engine().description().name;
        for (small, _) in begun.iter().zip(results).filter(|(_, (_, seen))| seen.open) {
            workspace.trail.add(engine, || O::path(group, &small.item));
        }
    }

    /// Writes a processed object. `length` is the length of the result, without a header.
    fn finish_small(
        &self,
        group: &O::Group,
        small: Small<O>,
        length: usize,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<(), FileError> {
        let Small { item, blob, cipher, layout, output, header, .. } = small;
        self.control.done_bytes(blob.length());
        // Only now, because an engine that is left behind keeps the buffer in which it writes.
        let header = header.as_ref();
        let first = header.map_or(&[][..], Header::bytes);
        let whole = output.start - first.len()..output.start + length;
        workspace.output[whole.start..output.start].copy_from_slice(first);
        let written = whole.len() as u64;
        let draft = self.objects.begin(group, &item, &blob)?;
        if let Some(draft) = &draft {
            let bytes = &workspace.output[whole];
            draft.made(bytes, 0);
            let written = draft.write_at(bytes, 0);
            written.map_err(|error| self.objects.at_output(group, &item, error))?;
        }
        let segments = Segments::new(layout, cipher.geometry(), self.room)?;
        let done = Done {
            group,
            item: &item,
            blob: &Arc::new(blob),
            cipher: &cipher,
            segments: &segments,
            header,
            length: written,
        };
        self.objects.finish(done, draft, workspace, worker)
    }
}

/// Runs the jobs of the objects begun, and returns each one's result length and verification.
fn process_begun<O: Objects>(
    begun: &[Small<O>],
    cipher: Cipher,
    direction: Direction,
    workspace: &mut Workspace,
    worker: &mut Worker<'_>,
) -> Result<Vec<Processed>, EngineError> {
    let Workspace { input, parcel, .. } = workspace;
    let mut ends = Vec::with_capacity(begun.len());
    for small in begun {
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
            parcel.push(part.placed(key, start, small.output.start));
        }
        if worker.is_watched() {
            verify_some(&mut parcel.verifications_mut()[first..]);
        }
        ends.push(parcel.jobs().len());
    }
    workspace.process(worker, cipher, direction, |parcel| {
        let mut start = 0;
        let results = ends.iter().zip(begun).map(|(&end, small)| {
            let jobs = std::mem::replace(&mut start, end)..end;
            let last = small.layout.chunks().checked_sub(1);
            let collected = collect(parcel.outcomes()[jobs.clone()].iter().copied(), 0);
            let collected = collected.map_err(|error| explain(error, last, &small.cipher));
            (collected, Seen::of(&parcel.verifications()[jobs]))
        });
        results.collect()
    })
}

/// The rest of a batch after an engine failed: the objects begun, and the others.
fn returned<O: Objects>(
    group: &O::Group,
    begun: &mut Vec<Small<O>>,
    items: &mut dyn Iterator<Item = O::Item>,
    cause: EngineError,
) -> Returned<Task<O>> {
    let begun = begun.drain(..).map(|small| small.item);
    let items = begun.chain(items).map(O::returned).collect();
    Returned { task: Task::Some { group: group.clone(), items }, cause }
}
