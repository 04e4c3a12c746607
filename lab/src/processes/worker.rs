//! The work of a forked process.

use std::error::Error;
use std::time::{Duration, Instant};

use evener_core::{Cipher, Direction, Iv, Job, Key, Outcome, SessionRequest};
use evener_gate::{Gate, GateOptions};

/// The work of one process.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) engine: String,
    pub(super) gate: GateOptions,
    pub(super) cipher: Cipher,
    pub(super) messages: usize,
    pub(super) length: usize,
}

/// The times of one process.
pub(super) struct Times {
    /// Time until the gate admitted the process.
    pub(super) waited: Duration,
    /// Time from then until the last message was done.
    pub(super) worked: Duration,
}

impl Work {
    /// Finds the engine, passes the gate, opens a session and encrypts the messages.
    ///
    /// Each process probes the engine, because some (PKCS#11) do not survive a fork.
    pub(super) fn run(&self) -> Result<Times, Box<dyn Error>> {
        let engine = crate::find(&self.engine)?;
        let offer = engine
            .offer(self.cipher, Direction::Encrypt)
            .ok_or_else(|| format!("`{}` does not encrypt {}", self.engine, self.cipher))?;
        let gate = Gate::open(self.gate.clone())?;
        // No cipher's speed depends on the bytes.
        let key = Key::new(&vec![0x5A; self.cipher.key_length()]).map_err(|_| "no key")?;
        let iv = Iv::new(&vec![0xA5; self.cipher.iv_length()]).map_err(|_| "no IV")?;

        let start = Instant::now();
        let permit = gate.enter()?;
        let waited = start.elapsed();
        let start = Instant::now();
        let request =
            SessionRequest { cipher: self.cipher, direction: Direction::Encrypt, key: Some(&key) };
        let mut session = engine.open(&request)?;
        let batch = offer.batch.clamp(1, self.messages);
        let input = vec![0x33; self.length];
        // Staggered, so that buffers a power of two apart do not collide in the cache.
        let room = self.length + self.cipher.tag_length() + STAGGER;
        let mut outputs = vec![0; room * batch];
        let mut left = self.messages;
        while left > 0 {
            let outputs = outputs.chunks_exact_mut(room).take(left);
            let mut jobs: Vec<_> = outputs.map(|output| Job::new(iv, &input, output)).collect();
            session.process(&mut jobs)?;
            if let Some(job) = jobs.iter().find(|job| !matches!(job.outcome, Outcome::Done { .. }))
            {
                return Err(format!("a message was not encrypted: {:?}", job.outcome).into());
            }
            left -= jobs.len();
        }
        drop(session);
        let worked = start.elapsed();
        drop(permit);
        Ok(Times { waited, worked })
    }
}

/// Gap between outputs, in bytes: a cache line.
const STAGGER: usize = 64;
