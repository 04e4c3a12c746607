//! Reads many chunks of an encrypted object, by several threads and straight into their place.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread;

use evener_core::{Direction, Engine, IgnorePoison, wipe};
use evener_format::{FileCipher, Layout};
use evener_seal::{Alone, Blob, Processor, collect, explain, push_jobs, zeros};

use crate::FileError;

/// An encrypted object whose chunks do not depend on each other.
pub(crate) struct Sealed<'a> {
    pub(crate) blob: &'a dyn Blob,
    pub(crate) cipher: &'a FileCipher,
    pub(crate) layout: &'a Layout,
}

/// Some consecutive chunks, and the place of their plaintext.
type Piece<'b> = (Range<u64>, &'b mut [u8]);

impl Sealed<'_> {
    /// Decrypts chunks into `buffer`, which has exactly the length of their plaintext, with up to
    /// `workers` threads.
    ///
    /// # Errors
    /// When reading fails or a chunk is not authentic. The buffer is then wiped.
    pub(crate) fn read(
        &self,
        chunks: Range<u64>,
        buffer: &mut [u8],
        engine: &Arc<dyn Engine>,
        workers: usize,
    ) -> Result<(), FileError> {
        let workers = workers.min(buffer.len() / LEAST_SHARE).max(1);
        let pieces = Mutex::new(self.pieces(chunks, buffer).into_iter());
        let work = || {
            let done = self.work(&pieces, engine);
            if done.is_err() {
                // The others stop soon.
                pieces.lock().ignore_poison().by_ref().for_each(drop);
            }
            done
        };
        let done = thread::scope(|scope| {
            let name = || thread::Builder::new().name("evener".to_owned());
            // Where no more threads can be had, the others do it all.
            let others: Vec<_> =
                (1..workers).map_while(|_| name().spawn_scoped(scope, work).ok()).collect();
            let own = work();
            let joined = others
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            joined.fold(own, Result::and)
        });
        drop(pieces);
        if done.is_err() {
            wipe(buffer);
        }
        done
    }

    fn pieces<'b>(&self, chunks: Range<u64>, mut buffer: &'b mut [u8]) -> Vec<Piece<'b>> {
        let longest = self.cipher.geometry().longest_chunk();
        let each = (PIECE as u64 / longest).max(1);
        let mut pieces = Vec::new();
        let mut first = chunks.start;
        while first < chunks.end {
            let end = first.saturating_add(each).min(chunks.end);
            let plain = self.layout.chunk(end - 1).plain.end - self.layout.chunk(first).plain.start;
            let (piece, rest) = buffer.split_at_mut(plain as usize);
            buffer = rest;
            pieces.push((first..end, piece));
            first = end;
        }
        pieces
    }

    /// Takes pieces until none is left.
    fn work<'b>(
        &self,
        pieces: &Mutex<impl Iterator<Item = Piece<'b>>>,
        engine: &Arc<dyn Engine>,
    ) -> Result<(), FileError> {
        let mut engine = Alone::new(Arc::clone(engine));
        let mut input = zeros(0)?;
        loop {
            let next = pieces.lock().ignore_poison().next();
            let Some((chunks, output)) = next else { return Ok(()) };
            let sealed = self.layout.chunk(chunks.start).sealed.start
                ..self.layout.chunk(chunks.end - 1).sealed.end;
            let length = sealed.end - sealed.start;
            if (input.len() as u64) < length {
                input = zeros(length)?;
            }
            let input = &mut input[..length as usize];
            self.blob.read_exact_at(input, sealed.start)?;
            self.open(chunks, input, output, &mut engine)?;
        }
    }

    fn open(
        &self,
        chunks: Range<u64>,
        input: &[u8],
        output: &mut [u8],
        engine: &mut Alone,
    ) -> Result<(), FileError> {
        let first = chunks.start;
        let (cipher, direction) = (self.cipher.cipher(), Direction::Decrypt);
        let mut jobs = Vec::with_capacity((chunks.end - first) as usize);
        let chunks = chunks.map(|index| self.layout.chunk(index));
        push_jobs(&mut jobs, self.cipher, direction, chunks, input, output);
        engine.process(cipher, direction, &mut jobs)?;
        let last = self.layout.chunks().checked_sub(1);
        let opened = collect(jobs.iter().map(|job| job.outcome), first);
        opened.map_err(|error| explain(error, last, self.cipher))?;
        Ok(())
    }
}

/// The sealed bytes that are read at once. With its plaintext, a piece fits a core's second-level cache.
const PIECE: usize = 264 << 10;

/// The least plaintext for which a thread is worth starting, in bytes.
const LEAST_SHARE: usize = 512 << 10;
