//! The engine by itself: workers whose messages are in its own memory, with copies interleaved.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Outcome, SessionRequest, WipedBuffer,
};
use evener_gpu::ceilings::Bare;
use rustix::time::{ClockId, clock_gettime};

use super::report::Sessions;

/// Measures sessions of so many workers, or as many as the engine recommends, with batches of `batch`
/// bytes.
pub(super) fn measure(
    bare: &Bare,
    engine: &dyn Engine,
    cipher: Cipher,
    (workers, message, batch): (Option<usize>, usize, usize),
    time: Duration,
) -> Result<Sessions, EngineError> {
    let offered = || engine.offer(cipher, Direction::Encrypt).map_or(1, |offer| offer.depth.max(1));
    let workers = workers.unwrap_or_else(offered);
    let message = message.min(batch);
    let before = bare.copies(batch, time / 2)?;
    let (bytes, wall, cpu) = perform(engine, cipher, (workers, message, batch), time)?;
    let after = bare.copies(batch, time / 2)?;
    let copies = 2.0 * batch as f64 / (before.both + after.both) / 1e9;
    let rate = bytes / wall / 1e9;
    Ok(Sessions {
        cipher: cipher.name().to_owned(),
        message,
        batch,
        workers,
        gb_per_second: rate,
        copies_gb_per_second: copies,
        part_of_copies: rate / copies,
        cpu_milliseconds_per_gb: cpu * 1e12 / bytes,
    })
}

/// Returns the number of bytes encrypted, and the wall time and this process's CPU time in seconds.
fn perform(
    engine: &dyn Engine,
    cipher: Cipher,
    (workers, message, batch): (usize, usize, usize),
    time: Duration,
) -> Result<(f64, f64, f64), EngineError> {
    let (ready, go) = (Barrier::new(workers + 1), Barrier::new(workers + 1));
    thread::scope(|scope| {
        let work = || {
            let prepared = Worker::prepare(engine, cipher, message, batch);
            let prepared = prepared.and_then(|mut worker| worker.once(engine).map(|()| worker));
            ready.wait();
            go.wait();
            let mut worker = prepared?;
            let (begun, mut batches) = (Instant::now(), 0);
            while begun.elapsed() < time {
                worker.once(engine)?;
                batches += 1;
            }
            Ok(batches * worker.count * message)
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        ready.wait();
        let (begun, cpu) = (Instant::now(), cpu_time());
        go.wait();
        let mut bytes = 0;
        for thread in threads {
            let ended =
                || EngineError::failed("a worker's thread ended").of(&engine.description().name);
            bytes += thread.join().unwrap_or_else(|_| Err(ended()))?;
        }
        Ok((bytes as f64, begun.elapsed().as_secs_f64(), cpu_time() - cpu))
    })
}

struct Worker {
    session: Box<dyn evener_core::Session>,
    input: WipedBuffer,
    output: WipedBuffer,
    iv: Iv,
    message: usize,
    room: usize,
    count: usize,
}

impl Worker {
    fn prepare(
        engine: &dyn Engine,
        cipher: Cipher,
        message: usize,
        batch: usize,
    ) -> Result<Worker, EngineError> {
        let raw: Vec<u8> = (1..).take(cipher.key_length()).collect();
        let key = Key::new(&raw).ok();
        let request = SessionRequest { cipher, direction: Direction::Encrypt, key: key.as_ref() };
        let (count, room) = ((batch / message).max(1), message + cipher.tag_length());
        let buffer = |bytes| engine.buffer(bytes).unwrap_or_else(|| WipedBuffer::zeros(bytes));
        let mut input = buffer(count * message);
        // No cipher's time depends on the bytes; random ones serve as well as any.
        getrandom::fill(&mut input).map_err(|_| {
            EngineError::failed("the system has no random numbers").of(&engine.description().name)
        })?;
        Ok(Worker {
            session: engine.open(&request)?,
            input,
            output: buffer(count * room),
            iv: Iv::new(&[3; Iv::MAX_LENGTH][..cipher.iv_length()]).unwrap_or(Iv::NONE),
            message,
            room,
            count,
        })
    }

    /// Encrypts all messages, in one batch.
    fn once(&mut self, engine: &dyn Engine) -> Result<(), EngineError> {
        let inputs = self.input.chunks_exact(self.message);
        let outputs = self.output.chunks_exact_mut(self.room);
        let mut jobs: Vec<_> =
            inputs.zip(outputs).map(|(input, output)| Job::new(self.iv, input, output)).collect();
        self.session.process(&mut jobs)?;
        if jobs.iter().all(|job| matches!(job.outcome, Outcome::Done { .. })) {
            return Ok(());
        }
        Err(EngineError::failed("it did not encrypt a message").of(&engine.description().name))
    }
}

/// CPU time of this process, in seconds.
pub(super) fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
