//! Measures the crossovers on this machine.

use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Outcome, Session, SessionRequest,
};
use rustix::time::{ClockId, clock_gettime};

use super::{Crossover, Crossovers, NAME};

/// Measures the crossovers of `lanes` against `openssl`, by the calling thread's CPU clock.
pub(super) fn run(openssl: &dyn Engine, lanes: &dyn Engine) -> Result<Crossovers, EngineError> {
    let mut crossovers = Crossovers::default();
    let mut output = vec![0; MOST_MESSAGES * (MOST_BYTES + BETWEEN_OUTPUTS)];
    for &cipher in Cipher::ALL {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let engines = [openssl, lanes];
            if engines.iter().all(|engine| engine.offer(cipher, direction).is_some()) {
                let mut race = Race::new(engines, cipher, direction, &mut output)?;
                crossovers.insert(cipher, direction, race.crossover()?);
            }
        }
    }
    Ok(crossovers)
}

/// `openssl` and `lanes` at the same batches.
struct Race<'r> {
    sessions: [Box<dyn Session>; 2],
    iv: Iv,
    /// The messages to process, for each of [`LENGTHS`].
    inputs: Vec<Vec<u8>>,
    output: &'r mut [u8],
    ends: Instant,
}

impl<'r> Race<'r> {
    fn new(
        engines: [&dyn Engine; 2],
        cipher: Cipher,
        direction: Direction,
        output: &'r mut [u8],
    ) -> Result<Race<'r>, EngineError> {
        let key: Vec<u8> = (1..).take(cipher.key_length()).collect();
        let key = Key::new(&key).ok();
        let iv = Iv::new(&[3; Iv::MAX_LENGTH][..cipher.iv_length()]).unwrap_or(Iv::NONE);
        let open = |engine: &dyn Engine, direction| {
            engine.open(&SessionRequest { cipher, direction, key: key.as_ref() })
        };
        let mut inputs: Vec<_> = LENGTHS.iter().map(|&length| vec![0x5A; length]).collect();
        if direction == Direction::Decrypt {
            let mut sealing = open(engines[0], Direction::Encrypt)?;
            for input in &mut inputs {
                let mut sealed = vec![0; input.len() + cipher.tag_length()];
                process(&mut *sealing, &mut [Job::new(iv, input, &mut sealed)])?;
                *input = sealed;
            }
        }
        let [openssl, lanes] = engines;
        Ok(Race {
            sessions: [open(openssl, direction)?, open(lanes, direction)?],
            iv,
            inputs,
            output,
            ends: Instant::now() + MOST_TIME,
        })
    }

    /// Finds the number of messages from which `lanes` is faster at two lengths, and then the
    /// greatest length at which it still is.
    fn crossover(&mut self) -> Result<Crossover, EngineError> {
        let mut least_messages = 1;
        while !(self.lanes_win(least_messages, SHORT)? && self.lanes_win(least_messages, MEDIUM)?) {
            least_messages *= 2;
            if least_messages > MOST_MESSAGES {
                return Ok(Crossover::NEVER);
            }
        }
        let mut most_bytes = LENGTHS[MEDIUM];
        for (length, &bytes) in LENGTHS.iter().enumerate().skip(MEDIUM + 1) {
            if !self.lanes_win(least_messages, length)? {
                return Ok(Crossover { least_messages, most_bytes });
            }
            most_bytes = bytes;
        }
        Ok(Crossover { least_messages, most_bytes: usize::MAX })
    }

    /// Returns whether `lanes` takes at most as long as `openssl`, by the shortest of several
    /// alternating runs: other programs on the core can only make a run longer.
    fn lanes_win(&mut self, messages: usize, length: usize) -> Result<bool, EngineError> {
        let mut best = [Duration::MAX; 2];
        for run in 0..MOST_RUNS {
            if run >= LEAST_RUNS && Instant::now() >= self.ends {
                break;
            }
            for (contender, best) in best.iter_mut().enumerate() {
                *best = self.time(contender, messages, length)?.min(*best);
            }
        }
        let [openssl, lanes] = best;
        Ok(lanes <= openssl)
    }

    /// The CPU time for about [`BYTES_A_RUN`] bytes in batches of this many messages.
    fn time(
        &mut self,
        contender: usize,
        messages: usize,
        length: usize,
    ) -> Result<Duration, EngineError> {
        let input = &self.inputs[length];
        let outputs = self.output.chunks_mut(input.len() + BETWEEN_OUTPUTS);
        let mut batch: Vec<_> =
            outputs.take(messages).map(|output| Job::new(self.iv, input, output)).collect();
        let batches = BYTES_A_RUN / (messages * (LENGTHS[length] + CALL)) + 1;
        let session = &mut *self.sessions[contender];
        let begun = thread_time();
        for _ in 0..batches {
            process(session, &mut batch)?;
        }
        Ok(thread_time().saturating_sub(begun))
    }
}

fn process(session: &mut dyn Session, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
    for job in batch.iter_mut() {
        job.outcome = Outcome::Pending;
    }
    session.process(batch)?;
    let undone = batch.iter().find(|job| !matches!(job.outcome, Outcome::Done { .. }));
    undone.map_or(Ok(()), |job| {
        let reason = format!("a message of its calibration came back as {:?}", job.outcome);
        Err(EngineError::failed(reason).of(NAME))
    })
}

/// The calling thread's CPU time.
fn thread_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// The lengths of messages, in bytes: whole blocks.
const LENGTHS: [usize; 6] = [64, 256, 1024, 4096, 16_384, MOST_BYTES];
/// The indices of the two lengths at which `lanes` must win.
const SHORT: usize = 1;
const MEDIUM: usize = 2;
const MOST_BYTES: usize = 65_536;
const MOST_MESSAGES: usize = 64;
/// Outputs a power of two apart would collide in the cache.
const BETWEEN_OUTPUTS: usize = 80;

/// The bytes of a run, which takes about 10 to 100 µs, much longer than reading the clock.
const BYTES_A_RUN: usize = 100_000;
/// The cost of a message besides its bytes, expressed in bytes.
const CALL: usize = 200;
const LEAST_RUNS: usize = 3;
const MOST_RUNS: usize = 9;
/// The time limit for one direction of a cipher.
const MOST_TIME: Duration = Duration::from_millis(20);
