//! Cuts a stream into pieces, and processes them.

use std::collections::VecDeque;
use std::sync::Mutex;

use evener_core::{Direction, Engine, EngineError, IgnorePoison, Iv, Kind, Parcel};
use evener_format::{Chunk, Ending, FileCipher, FormatError, Geometry};
use evener_pipeline::{Load, Queue, Returned, Work, Worker};

use super::pool::{Buffers, Pool};
use super::reader::Reader;
use super::sequencer::{Finished, Sequencer};
use super::trial::Trial;
use crate::{Control, FileError, Refusal};
use evener_seal::{bytes_at_once, collect, explain, iv_after, last_block, parts};

/// Part of a stream, with its place in it.
pub(super) struct Piece {
    number: u64,
    buffers: Buffers,
    chunks: Vec<Chunk>,
    input_length: usize,
    /// The ciphertext block before it, when decrypting a cipher that chains.
    before: Option<Iv>,
}

/// The progress in cutting a stream into pieces.
#[derive(Default)]
pub(super) struct Cut {
    /// The number of pieces so far.
    pieces: u64,
    /// The number of chunks in them.
    chunks: u64,
    /// The last ciphertext block, when decrypting.
    block: Option<Iv>,
}

/// One stream, shared by all workers.
pub(super) struct StreamWork<'a> {
    file: &'a FileCipher,
    direction: Direction,
    pool: &'a Pool,
    sequencer: &'a Sequencer<'a>,
    control: &'a Control,
    /// The last ciphertext block written, for ciphers that chain when encrypting.
    chain: Mutex<Option<Iv>>,
    failure: Mutex<Option<FileError>>,
    /// The number of pieces in the stream, once its end was read.
    pieces: Mutex<Option<u64>>,
    /// Pieces that no engine of a run could process, in no order.
    left: Mutex<Vec<Piece>>,
    /// The reason that a run's last engine failed.
    cause: Mutex<Option<EngineError>>,
}

impl<'a> StreamWork<'a> {
    pub(super) fn new(
        file: &'a FileCipher,
        direction: Direction,
        pool: &'a Pool,
        sequencer: &'a Sequencer<'a>,
        control: &'a Control,
    ) -> StreamWork<'a> {
        StreamWork {
            file,
            direction,
            pool,
            sequencer,
            control,
            chain: Mutex::default(),
            failure: Mutex::default(),
            pieces: Mutex::default(),
            left: Mutex::default(),
            cause: Mutex::default(),
        }
    }

    /// Feeds the pieces that an earlier run has left, and reads the stream on to its end.
    pub(super) fn feed(
        &self,
        reader: &mut Reader<'_>,
        cut: &mut Cut,
        trial: &mut Trial<'_>,
        queue: &Queue<Piece>,
    ) {
        let mut left = std::mem::take(&mut *self.left.lock().ignore_poison());
        left.sort_by_key(|piece| piece.number);
        for piece in left {
            self.push(piece, queue);
        }
        if let Err(error) = self.feed_pieces(reader, cut, trial, queue) {
            self.fail(error);
            queue.stop();
        }
    }

    /// Returns whether another run can continue the stream: only engines failed.
    pub(super) fn can_go_on(&self) -> bool {
        self.cause.lock().ignore_poison().is_some()
            && self.failure.lock().ignore_poison().is_none()
            && !self.control.is_stopped()
            && !self.is_done()
    }

    /// Returns whether the stream's end was read and every piece was written.
    fn is_done(&self) -> bool {
        *self.pieces.lock().ignore_poison() == Some(self.sequencer.pieces())
    }

    /// The outcome of the stream.
    pub(super) fn result(&self) -> Result<(), FileError> {
        match self.failure.lock().ignore_poison().take() {
            _ if self.control.is_stopped() => Err(FileError::Interrupted),
            Some(error) => Err(error),
            None if self.is_done() => Ok(()),
            None => Err(match self.cause.lock().ignore_poison().take() {
                Some(cause) => cause.into(),
                None => Refusal::StreamUnaccounted.into(),
            }),
        }
    }

    fn feed_pieces(
        &self,
        reader: &mut Reader<'_>,
        so_far: &mut Cut,
        trial: &mut Trial<'_>,
        queue: &Queue<Piece>,
    ) -> Result<(), FileError> {
        let geometry = self.file.geometry();
        while self.pieces.lock().ignore_poison().is_none() {
            let Some(mut buffers) = self.buffers(queue)? else {
                *self.cause.lock().ignore_poison() = queue.failure();
                return Ok(());
            };
            let first = so_far.chunks;
            let room = piece_length(geometry, self.direction, first, self.pool.chunks());
            let whole = |length| whole_chunks(geometry, self.direction, first, length);
            let shows_more = |input: &[u8]| trial.shows_more(first, input);
            let (input_length, last) =
                reader.next_piece(&mut buffers.input[..room], whole, shows_more)?;
            let chunks = cut(geometry, self.direction, first, input_length as u64, last)?;
            let block = match self.direction {
                Direction::Decrypt => last_block(&buffers.input[..input_length], self.file),
                Direction::Encrypt => None,
            };
            let (number, before) = (so_far.pieces, so_far.block);
            *so_far = Cut { pieces: number + 1, chunks: first + chunks.len() as u64, block };
            if last {
                *self.pieces.lock().ignore_poison() = Some(so_far.pieces);
            }
            self.push(Piece { number, buffers, chunks, input_length, before }, queue);
        }
        Ok(())
    }

    /// Buffers for the next piece, once there are some; `None` when the queue was stopped.
    fn buffers(&self, queue: &Queue<Piece>) -> Result<Option<Buffers>, FileError> {
        while !queue.is_stopped() {
            if self.control.is_stopped() {
                return Err(FileError::Interrupted);
            }
            if let Some(buffers) = self.pool.take()? {
                return Ok(Some(buffers));
            }
            queue.hold_feed();
            self.control.tally().feed().during(|| self.pool.wait());
        }
        Ok(None)
    }

    fn push(&self, piece: Piece, queue: &Queue<Piece>) {
        if let Err(piece) = queue.push(piece) {
            self.abandon(piece, queue.failure().as_ref());
        }
    }

    /// Processes some pieces in one batch. Returns the length of each piece's result.
    fn process(
        &self,
        pieces: &mut [Piece],
        parcel: &mut Parcel,
        worker: &mut Worker<'_>,
    ) -> Result<Vec<Result<usize, FileError>>, EngineError> {
        let is_chained = self.file.is_chained(self.direction);
        let mut places = Vec::with_capacity(pieces.len());
        let key = parcel.add_key(self.file.key());
        for piece in pieces.iter_mut() {
            let before = match self.direction {
                Direction::Decrypt if !is_chained => piece.before,
                _ => *self.chain.lock().ignore_poison(),
            };
            let Buffers { input, output, .. } = &mut piece.buffers;
            let chunks = piece.chunks.iter().cloned();
            let start = parcel.jobs().len();
            for part in
                parts(self.file, self.direction, chunks, &input[..piece.input_length], before)
            {
                parcel.push(part.placed(key, 0, 0));
            }
            parcel.add(std::mem::take(input), std::mem::take(output));
            places.push(start..parcel.jobs().len());
        }
        let processed = worker.process_parcel(self.file.cipher(), self.direction, parcel);
        let written = places.into_iter().zip(&*pieces).map(|(jobs, piece)| {
            let first = piece.chunks.first().map_or(0, |chunk| chunk.index);
            let last = piece.chunks.last().filter(|chunk| chunk.last).map(|chunk| chunk.index);
            let collected = collect(parcel.outcomes()[jobs].iter().copied(), first);
            collected.map_err(|error| explain(error, last, self.file))
        });
        let written: Vec<_> = written.collect();
        for (piece, (input, output)) in pieces.iter_mut().zip(parcel.drain()) {
            (piece.buffers.input, piece.buffers.output) = (input, output);
        }
        processed?;
        let bytes = pieces.iter().map(|piece| piece.input_length as u64).sum();
        self.control.has_processed(&worker.engine().description().name, bytes);
        if let ([piece], [Ok(written)], true) = (&*pieces, &*written, is_chained) {
            let input = &piece.buffers.input[..piece.input_length];
            let output = &piece.buffers.output[..*written];
            *self.chain.lock().ignore_poison() = iv_after(self.file, self.direction, input, output);
        }
        Ok(written)
    }

    /// Gives the sequencer a processed piece, or records why it could not be processed.
    fn deliver(&self, piece: Piece, written: Result<usize, FileError>, queue: &Queue<Piece>) {
        let delivered = written.and_then(|written| {
            let finished = Finished { buffers: piece.buffers, written };
            self.sequencer.deliver(piece.number, finished, |buffers| self.pool.give_back(buffers))
        });
        if let Err(error) = delivered {
            self.fail(error);
            queue.stop();
        }
    }

    /// The number of claimed pieces to process together: as many as fit the bytes that the engine
    /// wants at once, or one for other engines and for pieces that chain.
    fn together(&self, pieces: &VecDeque<Piece>, engine: &dyn Engine) -> usize {
        let wanted = bytes_at_once(engine, self.file.cipher(), self.direction);
        if self.file.is_chained(self.direction) {
            return 1;
        }
        let mut bytes = 0_usize;
        let fits = |piece: &&Piece| {
            bytes = bytes.saturating_add(piece.input_length);
            bytes <= wanted
        };
        pieces.iter().take_while(fits).count().max(1)
    }

    /// Keeps the first failure.
    fn fail(&self, error: FileError) {
        self.failure.lock().ignore_poison().get_or_insert(error);
    }
}

impl Work for StreamWork<'_> {
    type Task = Piece;
    type Workspace = Parcel;

    fn workspace(&self, engine: &dyn Engine) -> Parcel {
        if engine.description().kind == Kind::Module {
            self.pool.grant(1);
        }
        Parcel::default()
    }

    fn load(piece: &Piece) -> Load {
        Load::jobs(piece.chunks.len() as u64, piece.input_length as u64)
    }

    fn perform(
        &self,
        piece: Piece,
        parcel: &mut Parcel,
        worker: &mut Worker<'_>,
        queue: &Queue<Piece>,
    ) -> Result<(), Returned<Piece>> {
        let mut pieces = VecDeque::from([piece]);
        match (self.perform_claim(&mut pieces, parcel, worker, queue), pieces.pop_front()) {
            (Err(cause), Some(task)) => Err(Returned { task, cause }),
            _ => Ok(()),
        }
    }

    fn perform_claim(
        &self,
        pieces: &mut VecDeque<Piece>,
        parcel: &mut Parcel,
        worker: &mut Worker<'_>,
        queue: &Queue<Piece>,
    ) -> Result<(), EngineError> {
        let wanted = bytes_at_once(worker.engine(), self.file.cipher(), self.direction);
        let at_once = self.pool.pieces_of(wanted);
        self.pool.borrow_from(worker.engine(), at_once);
        if pieces.len() > 1 {
            self.pool.grant(at_once);
        }
        while !pieces.is_empty() {
            let together = self.together(pieces, worker.engine());
            let written =
                self.process(&mut pieces.make_contiguous()[..together], parcel, worker)?;
            for (piece, written) in pieces.drain(..together).zip(written) {
                self.deliver(piece, written, queue);
            }
        }
        Ok(())
    }

    fn abandon(&self, piece: Piece, cause: Option<&EngineError>) {
        match cause {
            Some(cause) => {
                *self.cause.lock().ignore_poison() = Some(cause.clone());
                self.left.lock().ignore_poison().push(piece);
            }
            None => self.fail(FileError::Interrupted),
        }
    }
}

/// The length of the input of `chunks` full chunks from chunk `first` on.
fn piece_length(geometry: &Geometry, direction: Direction, first: u64, chunks: u64) -> usize {
    (first..first + chunks).map(|index| full_length(geometry, direction, index)).sum::<u64>()
        as usize
}

/// The length of the input of whole chunks, from chunk `first` on, in `length` bytes.
fn whole_chunks(geometry: &Geometry, direction: Direction, first: u64, length: usize) -> usize {
    let (one, others) = (first, first.saturating_add(1));
    let [one, others] = [one, others].map(|index| full_length(geometry, direction, index) as usize);
    match length.checked_sub(one) {
        Some(rest) => one + rest - rest.checked_rem(others).unwrap_or(0),
        None => 0,
    }
}

/// Returns whether a full chunk may be the last, so that no empty one must follow.
pub(super) fn may_be_full(geometry: &Geometry, direction: Direction) -> bool {
    match (geometry.ending, direction) {
        (Ending::MayBeFull | Ending::Exact, _) | (Ending::Padded { .. }, Direction::Decrypt) => {
            true
        }
        (Ending::Shorter, _) | (Ending::Padded { .. }, Direction::Encrypt) => false,
    }
}

/// Cuts a piece of `length` bytes of input into chunks, the first of which is number `first`.
pub(super) fn cut(
    geometry: &Geometry,
    direction: Direction,
    first: u64,
    length: u64,
    last: bool,
) -> Result<Vec<Chunk>, FormatError> {
    let may_be_full = may_be_full(geometry, direction);
    let mut chunks = Vec::new();
    let (mut index, mut left) = (first, length);
    loop {
        let full = full_length(geometry, direction, index);
        if last && (left < full || left == full && may_be_full) {
            chunks.push(match direction {
                Direction::Encrypt => geometry.last_chunk_of_plaintext(index, left)?,
                Direction::Decrypt => geometry.last_chunk_of_sealed(index, left)?,
            });
            return Ok(chunks);
        }
        if left < full {
            return Ok(chunks);
        }
        chunks.push(geometry.full_chunk(index)?);
        (index, left) = (index + 1, left - full);
    }
}

fn full_length(geometry: &Geometry, direction: Direction, index: u64) -> u64 {
    match direction {
        Direction::Encrypt => geometry.full_plain_length(index),
        Direction::Decrypt => geometry.full_sealed_length(index),
    }
}
