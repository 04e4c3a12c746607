//! Objects of several segments, which all idle workers share.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use evener_core::{Direction, IgnorePoison, Iv};
use evener_format::{FileCipher, Header};
use evener_pipeline::{Load, Queue, Returned, Worker};

use super::ledger::{End, Ledger};
use super::objects::{Blob, Done, Draft, Objects, ReadAt, block_before};
use super::prepare::{Prepared, bytes_to_prepare, prepare_plain, prepare_sealed};
use super::segment::{Segment, SegmentError, Segments, iv_after, process_segment};
use super::small::Begun;
use super::work::{Sealer, Task};
use super::workspace::Workspace;
use super::writing::{Made, Writing};
use crate::FileError;
use crate::Operation;

/// An object that is processed in segments, which workers claim by their numbers. The worker that
/// settles the last one finishes the object, if the ledger proves that all were done.
pub struct Large<O: Objects> {
    group: O::Group,
    item: O::Item,
    blob: Arc<O::Blob>,
    cipher: FileCipher,
    segments: Segments,
    /// The header of a sealed object that is made.
    header: Option<Header>,
    /// True if it has an output.
    is_written: bool,
    /// Its output, until it is finished or has failed.
    output: RwLock<Option<O::Draft>>,
    /// True while an invitation to help with it is in the queue.
    is_invited: AtomicBool,
    writing: Writing,
    ledger: Mutex<Ledger>,
    /// The plaintext's length, which only the last segment shows in padded formats.
    length: AtomicU64,
    /// The last ciphertext block written, for ciphers that chain when encrypting.
    chain: Mutex<Option<Iv>>,
}

impl<O: Objects> Large<O> {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().ignore_poison()
    }

    /// Returns whether nothing is left to claim. An invitation may outlast the object.
    pub(crate) fn is_claimed(&self) -> bool {
        !self.ledger().has_some_to_claim()
    }

    /// Notes that an invitation was taken from the queue.
    pub(crate) fn follow_invitation(&self) {
        self.is_invited.store(false, Ordering::Relaxed);
    }

    /// The approximate work of a segment.
    pub(crate) fn load(&self) -> Load {
        let layout = self.segments.layout();
        let segments = self.segments.count().max(1);
        Load::jobs(layout.chunks().div_ceil(segments), layout.plain_length() / segments)
    }

    /// The name under which it is reported.
    fn path(&self) -> PathBuf {
        O::path(&self.group, &self.item)
    }
}

impl<O: Objects> Sealer<'_, O> {
    /// Begins an object that does not fit a worker's buffers, unless too many are begun already. Its
    /// first bytes, `read` of them, are in the input buffer.
    pub(crate) fn begin_large(
        &self,
        group: &O::Group,
        item: &O::Item,
        blob: O::Blob,
        read: usize,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<Begun<O>, SegmentError> {
        if !self.openings.may_open(|| (group.clone(), item.clone())) {
            return Ok(Begun::Finished);
        }
        let begun = self.open_large(group, item, blob, read, workspace, worker);
        if begun.is_err() {
            self.openings.closed();
        }
        begun.map(Begun::Large)
    }

    /// Feeds an object that has waited for the end of another.
    pub(crate) fn feed_waiting(&self, queue: &Queue<Task<O>>) {
        if let Some((group, item)) = self.openings.next() {
            queue.share(Task::Some { group, items: vec![item] });
        }
    }

    fn open_large(
        &self,
        group: &O::Group,
        item: &O::Item,
        blob: O::Blob,
        read: usize,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<Arc<Large<O>>, SegmentError> {
        let direction = self.operation.direction();
        let Prepared { cipher, layout, header } = match direction {
            Direction::Encrypt => prepare_plain(self.keys, blob.length())?,
            Direction::Decrypt => self.prepare_large(&blob, read, workspace, worker)?,
        };
        let segments = Segments::new(layout, cipher.geometry(), self.room)?;
        let segments = if self.is_watched { segments.verifying_some()? } else { segments };
        let output = self.objects.begin(group, item, &blob)?;
        if let (Some(output), Some(header)) = (&output, &header) {
            output.made(header.bytes(), 0);
            let written = output.write_at(header.bytes(), 0);
            written.map_err(|error| self.objects.at_output(group, item, error))?;
        }
        if direction == Direction::Decrypt {
            // Each segment counts its own bytes; none contains the header.
            self.control.done_bytes(segments.layout().chunk(0).sealed.start);
        }
        Ok(Arc::new(Large {
            group: group.clone(),
            item: item.clone(),
            ledger: Mutex::new(Ledger::new(segments.count())),
            length: AtomicU64::new(segments.layout().plain_length()),
            is_written: output.is_some(),
            output: RwLock::new(output),
            is_invited: AtomicBool::new(true),
            writing: Writing::default(),
            chain: Mutex::new(None),
            blob: Arc::new(blob),
            cipher,
            segments,
            header,
        }))
    }

    /// Prepares the opening of a sealed object from its beginning.
    fn prepare_large(
        &self,
        blob: &O::Blob,
        read: usize,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<Prepared, SegmentError> {
        let Workspace { input, output, .. } = workspace;
        let length = blob.length().min(bytes_to_prepare(self.keys));
        let beginning = usize::try_from(length).ok().and_then(|length| input.get_mut(..length));
        let beginning = beginning.ok_or(FileError::Memory { needed: length.saturating_mul(2) })?;
        if read < beginning.len() {
            blob.read_exact_at(&mut beginning[read..], read as u64)?;
        }
        prepare_sealed(self.keys, beginning, blob, output, worker)
    }

    /// Claims segments of an object until none is left, after inviting another worker to do so.
    pub(crate) fn help_with(
        &self,
        large: Arc<Large<O>>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Task<O>>,
    ) -> Result<(), Returned<Task<O>>> {
        let chained = large.cipher.is_chained(self.operation.direction());
        let count = large.segments.count();
        let is_ordered = self.window < u64::MAX;
        let mut invited = chained;
        loop {
            // Segments that chain must come one by one.
            let most = if chained { 1 } else { workspace.pieces(self.room) };
            let Some(claimed) = large.ledger().claim(most, self.window) else { return Ok(()) };
            // Another worker helps only if finished segments are written as fast.
            if !invited && claimed.end < count && !large.writing.is_behind() {
                if !large.is_invited.swap(true, Ordering::Relaxed) {
                    queue.share(Task::Large(large.clone()));
                }
                // Where results must come in order, helpers leave and are needed again.
                invited = !is_ordered;
            }
            self.perform_segments(&large, claimed, workspace, worker, queue)?;
            queue.renew(worker);
        }
    }

    /// Performs segments whose engine has failed. In a cipher that chains no worker was invited,
    /// and the object continues from here.
    pub(crate) fn perform_returned(
        &self,
        large: Arc<Large<O>>,
        claimed: Range<u64>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Task<O>>,
    ) -> Result<(), Returned<Task<O>>> {
        self.perform_segments(&large, claimed, workspace, worker, queue)?;
        // Others may have left an object whose results must come in order.
        let is_left = large.cipher.is_chained(self.operation.direction()) || self.window < u64::MAX;
        if is_left { self.help_with(large, workspace, worker, queue) } else { Ok(()) }
    }

    /// Performs claimed segments, as many at once as the worker's buffers hold, and ends the object
    /// if they include the last one to be settled.
    fn perform_segments(
        &self,
        large: &Arc<Large<O>>,
        mut claimed: Range<u64>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Task<O>>,
    ) -> Result<(), Returned<Task<O>>> {
        let most = workspace.pieces(self.room);
        while !claimed.is_empty() {
            if self.control.is_stopped() || large.ledger().has_failed() {
                let interrupted = Err(FileError::Interrupted);
                self.settle(large, &claimed, interrupted, workspace, worker, queue);
                return Ok(());
            }
            let part = claimed.start..claimed.end.min(claimed.start + most);
            claimed.start = part.end;
            match self.transform(large, &part, workspace, worker) {
                Ok((length, offset)) => {
                    let made = Made { segments: part, length, offset };
                    self.write_segments(large, made, workspace, worker, queue);
                }
                Err(SegmentError::File(error)) => {
                    self.settle(large, &part, Err(error), workspace, worker, queue);
                }
                Err(SegmentError::Engine(cause)) => {
                    let rest = part.start..claimed.end;
                    return Err(Returned { task: Task::Segments(large.clone(), rest), cause });
                }
            }
        }
        Ok(())
    }

    /// Writes segments, the first `length` bytes of the worker's output buffer, and those that
    /// other workers leave meanwhile; or leaves them to the worker that is already writing.
    fn write_segments(
        &self,
        large: &Arc<Large<O>>,
        made: Made,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Task<O>>,
    ) {
        let Made { length, offset, .. } = made;
        let segments = made.segments.clone();
        if !large.is_written {
            return self.settle(large, &segments, Ok(length as u64), workspace, worker, queue);
        }
        if let Some(output) = &*large.output.read().ignore_poison() {
            output.made(&workspace.output[..length], offset);
        }
        let write = |bytes: &[u8], offset| {
            let output = large.output.read().ignore_poison();
            let written = output.as_ref().ok_or(FileError::Interrupted)?.write_at(bytes, offset);
            let written = written.map(|()| bytes.len() as u64);
            written.map_err(|error| self.objects.at_output(&large.group, &large.item, error))
        };
        let buffer = &mut workspace.output;
        let Some(mut writer) = large.writing.hand_in(buffer, made, &self.spares) else { return };
        let result = write(&workspace.output[..length], offset);
        self.settle(large, &segments, result, workspace, worker, queue);
        let mut written = None;
        while let Some(piece) = writer.next(written.take()) {
            let result = write(piece.bytes(), piece.made.offset);
            self.settle(large, &piece.made.segments, result, workspace, worker, queue);
            written = Some(piece);
        }
    }

    /// Records the outcome of claimed segments, and ends the object with the last of them.
    fn settle(
        &self,
        large: &Large<O>,
        segments: &Range<u64>,
        result: Result<u64, FileError>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Task<O>>,
    ) {
        let end = match result {
            Ok(written) => large.ledger().done(segments, written),
            Err(error) => large.ledger().failed(segments, error),
        };
        match end {
            None => return,
            Some(End::Failed(error)) => {
                large.output.write().ignore_poison().take();
                self.failed_or_again(&large.group, &large.item, error, queue);
            }
            Some(End::Done { written }) => {
                if let Err(error) = self.finish_large(large, written, workspace, worker) {
                    self.failed_or_again(&large.group, &large.item, error, queue);
                }
            }
        }
        self.openings.closed();
        self.feed_waiting(queue);
    }

    /// Records that these claimed segments will never be done.
    pub(crate) fn abandon_segments(
        &self,
        large: &Large<O>,
        segments: &Range<u64>,
        error: FileError,
    ) {
        let end = large.ledger().failed(segments, error);
        self.record_abandoned(large, end);
    }

    /// Records that an object's unclaimed segments will never be done.
    pub(crate) fn abandon_rest(&self, large: &Large<O>, error: FileError) {
        // An invitation to an object whose segments are all claimed says nothing about it.
        if large.is_claimed() {
            return;
        }
        let end = large.ledger().give_up(error);
        self.record_abandoned(large, end);
    }

    fn record_abandoned(&self, large: &Large<O>, end: Option<End>) {
        if let Some(End::Failed(error)) = end {
            self.objects.failed(&large.group, &large.item, error);
        }
    }

    /// Reads and processes some segments that fit the worker's buffers as one. Returns the length
    /// of the result, which is at the start of the workspace's output buffer, and its offset in the
    /// output.
    fn transform(
        &self,
        large: &Large<O>,
        indices: &Range<u64>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<(usize, u64), SegmentError> {
        let direction = self.operation.direction();
        let segment = large.segments.run(indices);
        let before = self.block_before(large, &segment)?;
        let read_at = match direction {
            Direction::Encrypt => segment.plain.start,
            Direction::Decrypt => segment.sealed.start,
        };
        let input_length = segment.input_length(direction);
        large.blob.read_exact_at(&mut workspace.input[..input_length], read_at)?;
        let written = process_segment(
            &large.cipher,
            &large.segments,
            &segment,
            direction,
            before,
            workspace,
            worker,
        )?;
        let engine = &worker.engine().description().name;
        self.control.done_bytes(input_length as u64);
        self.control.has_processed(engine, input_length as u64);
        // Outputs that are read back are verified as a whole.
        if worker.is_watched() && !self.reads_back && workspace.seen.open {
            workspace.trail.add(engine, || large.path());
        }

        if large.cipher.is_chained(direction) {
            let mut chain = large.chain.lock().ignore_poison();
            let (input, output) = (&workspace.input[..input_length], &workspace.output[..written]);
            *chain = iv_after(&large.cipher, direction, input, output);
        }
        let write_at = match direction {
            Direction::Encrypt => segment.sealed.start,
            Direction::Decrypt => segment.plain.start,
        };
        if indices.end == large.segments.count() && direction == Direction::Decrypt {
            large.length.store(write_at + written as u64, Ordering::Release);
        }
        Ok((written, write_at))
    }

    /// The ciphertext block before a segment, if the cipher chains: its IV.
    fn block_before(&self, large: &Large<O>, segment: &Segment) -> Result<Option<Iv>, FileError> {
        let direction = self.operation.direction();
        if direction == Direction::Encrypt || large.cipher.is_chained(direction) {
            return Ok(*large.chain.lock().ignore_poison());
        }
        block_before(&*large.blob, &large.cipher, segment.sealed.start)
    }

    /// Ends an object whose every segment was done, `written` bytes in all.
    fn finish_large(
        &self,
        large: &Large<O>,
        written: u64,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<(), FileError> {
        let layout = large.segments.layout();
        let (header, length) = match self.operation {
            // The header was written when the object was begun.
            Operation::Encrypt => (layout.chunk(0).sealed.start, layout.sealed_length()),
            Operation::Decrypt | Operation::Verify => (0, large.length.load(Ordering::Acquire)),
        };
        if header + written != length {
            return Err(FileError::Incomplete { expected: length, written: header + written });
        }
        let done = Done {
            group: &large.group,
            item: &large.item,
            blob: &large.blob,
            cipher: &large.cipher,
            segments: &large.segments,
            header: large.header.as_ref(),
            length,
        };
        let output = large.output.write().ignore_poison().take();
        self.objects.finish(done, output, workspace, worker)
    }
}
