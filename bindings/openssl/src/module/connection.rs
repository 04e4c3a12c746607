//! A context's part: its text goes to the module or to the CPU.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use evener_core::{Cipher, Direction, EngineError, Iv, Job, Key, Outcome, Session};
use evener_lanes::stream::{Gcm, Text};
use zeroize::Zeroizing;

use super::route::{BLOCK, Delay, Volume};
use super::{MODULE, Module, SETTING};
use crate::sys::random;

/// One direction of a connection: a context, with its key.
pub(crate) struct Connection {
    /// No other context of this process has it.
    number: u64,
    key: Option<(Cipher, Key)>,
    volume: Volume,
    /// Whether it ever asked for a session.
    has_asked: bool,
    /// Bytes of the message that the module did.
    by_module: u64,
    /// Results that are to replace their text.
    results: Zeroizing<Vec<u8>>,
    /// For the choice of blocks to look at; 0 until it is needed.
    chance: u64,
}

impl Connection {
    /// One for a new context, where a module is configured.
    pub(crate) fn new() -> Option<Box<Connection>> {
        SETTING.get()?;
        Some(Box::new(Connection {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            key: None,
            volume: Volume::default(),
            has_asked: false,
            by_module: 0,
            results: Zeroizing::default(),
            chance: 0,
        }))
    }

    /// The key of the messages from now on.
    pub(crate) fn set_key(&mut self, key: &[u8]) {
        self.leave();
        let cipher = match key.len() {
            16 => Cipher::Aes128Ctr,
            24 => Cipher::Aes192Ctr,
            _ => Cipher::Aes256Ctr,
        };
        self.key = Key::new(key).ok().map(|key| (cipher, key));
        self.volume = Volume::default();
    }

    /// Encrypts or decrypts the next part of a message. `None` as [`Gcm::transform`] has it.
    pub(crate) fn transform(
        &mut self,
        gcm: &mut Gcm,
        direction: Direction,
        mut text: Text<'_>,
    ) -> Option<()> {
        let length = match &text {
            Text::InPlace(text) => text.len(),
            Text::Apart(input, output) if output.len() >= input.len() => input.len(),
            // GCM takes no text that moves.
            Text::Apart(..) | Text::Down(..) => return None,
        };
        let mut done = 0;
        if self.volume.is_promoted()
            && let Some(module) = Module::of_this_process()
        {
            let share = self.volume.share_of_module(length, module.crossover());
            if share > 0 {
                done = self.use_module(module, gcm, direction, &mut text, share);
            }
        }
        self.volume.add(length);
        match text {
            _ if done > 0 && done == length => Some(()),
            Text::InPlace(text) => gcm.transform(direction, Text::InPlace(&mut text[done..])),
            Text::Apart(input, output) => {
                gcm.transform(direction, Text::Apart(&input[done..], &mut output[done..]))
            }
            Text::Down(..) => None,
        }
    }

    /// How many bytes of the message the module did, which ends.
    pub(crate) fn end_message(&mut self) -> u64 {
        std::mem::take(&mut self.by_module)
    }

    /// Has the module do the first bytes of a text, and returns how many it did.
    fn use_module(
        &mut self,
        module: &Module,
        gcm: &mut Gcm,
        direction: Direction,
        text: &mut Text<'_>,
        share: usize,
    ) -> usize {
        let Some((cipher, key)) = &self.key else { return 0 };
        self.has_asked = true;
        let Some(mut session) = module.take(self.number, *cipher, key) else { return 0 };
        let mut done = 0;
        while done < share {
            let end = share.min(done + LONGEST_PIECE);
            let start = Instant::now();
            let result = self.piece(&mut *session, gcm, direction, text, done..end);
            if let Ok(Some(())) = result {
                done = end;
            }
            let failure = match result {
                Ok(_) if module.delay.add(start.elapsed()) => Some(slow()),
                Ok(Some(())) => None,
                Ok(None) => break,
                Err(error) => Some(error),
            };
            if let Some(error) = failure {
                module.close([session]);
                module.fail(&error);
                self.by_module += done as u64;
                return done;
            }
        }
        module.give(self.number, Some(session));
        self.by_module += done as u64;
        done
    }

    /// `None` where the piece is none for a module. Then, and where the module fails, the text is
    /// as it was.
    fn piece(
        &mut self,
        session: &mut dyn Session,
        gcm: &mut Gcm,
        direction: Direction,
        text: &mut Text<'_>,
        range: Range<usize>,
    ) -> Result<Option<()>, EngineError> {
        match text {
            Text::Apart(input, output) => {
                self.compute(session, gcm, direction, &input[range.clone()], &mut output[range])
            }
            Text::InPlace(text) => {
                let mut results = std::mem::take(&mut self.results);
                if results.len() < range.len() {
                    results = Zeroizing::new(vec![0; range.len()]);
                }
                let result = &mut results[..range.len()];
                let text = &mut text[range];
                let computed = self.compute(session, gcm, direction, text, result);
                if let Ok(Some(())) = computed {
                    text.copy_from_slice(result);
                }
                self.results = results;
                computed
            }
            Text::Down(..) => Ok(None),
        }
    }

    /// Computes the next bytes of the message with the module, and goes on with its hash.
    fn compute(
        &mut self,
        session: &mut dyn Session,
        gcm: &mut Gcm,
        direction: Direction,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<Option<()>, EngineError> {
        let Some(counter) = gcm.counter(input.len()) else { return Ok(None) };
        let Ok(iv) = Iv::new(&counter) else { return Ok(None) };
        let mut batch = [Job::new(iv, input, output)];
        session.process(&mut batch)?;
        if batch[0].outcome != (Outcome::Done { written: input.len() }) {
            return Ok(None);
        }
        if !self.looks_right(gcm, counter, input, output) {
            return Err(wrong());
        }
        Ok(gcm.add_ciphertext(match direction {
            Direction::Encrypt => output,
            Direction::Decrypt => input,
        }))
    }

    /// Computes some blocks, chosen at random, and compares. A tag says nothing of a result: it is
    /// made of the ciphertext, wrong or right.
    fn looks_right(
        &mut self,
        gcm: &mut Gcm,
        counter: [u8; BLOCK],
        input: &[u8],
        output: &[u8],
    ) -> bool {
        let (input, output) = (input.as_chunks::<BLOCK>().0, output.as_chunks::<BLOCK>().0);
        let blocks = input.len().min(output.len());
        let counter = u128::from_be_bytes(counter);
        (0..LEAST_LOOKS.max(blocks / BLOCKS_A_LOOK)).all(|_| {
            let Some(number) = self.draw().checked_rem(blocks as u64) else { return true };
            let pad = gcm.pad((counter + u128::from(number)).to_be_bytes());
            let (input, output) = (input[number as usize], output[number as usize]);
            u128::from_ne_bytes(input) ^ u128::from_ne_bytes(pad) == u128::from_ne_bytes(output)
        })
    }

    /// The next number of a sequence that the module can't know (SplitMix64).
    fn draw(&mut self) -> u64 {
        if self.chance == 0 {
            let mut bytes = [0; 8];
            // Without random numbers it is a sequence all the same.
            let _ = random(&mut bytes);
            self.chance = u64::from_ne_bytes(bytes) | 1;
        }
        self.chance = self.chance.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.chance ^ self.chance >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Gives up the session.
    fn leave(&mut self) {
        // A child after a fork has none of its parent's.
        if std::mem::take(&mut self.has_asked)
            && let Some(module) = MODULE.get()
        {
            module.forget(self.number);
        }
    }
}

impl Clone for Connection {
    /// Another context, which begins anew with the same key.
    fn clone(&self) -> Connection {
        Connection {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            key: self.key.clone(),
            volume: Volume::default(),
            has_asked: false,
            by_module: self.by_module,
            results: Zeroizing::default(),
            chance: 0,
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.leave();
    }
}

fn wrong() -> EngineError {
    failed("a part of a result was wrong, and others before it may have been".to_owned())
}

fn slow() -> EngineError {
    let (usual, most) = (Delay::USUAL.as_millis(), Delay::MOST.as_secs());
    failed(format!("its results take over {usual} ms; records have waited {most} s for it"))
}

fn failed(reason: String) -> EngineError {
    let engine = SETTING.get().map_or(String::new(), |(routing, _)| routing.engine.clone());
    EngineError::Failed { engine, reason }
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// What one request to the module has at most, in bytes.
const LONGEST_PIECE: usize = 64 << 10;

/// Of so many blocks of a piece one is looked at, and so many at least.
const BLOCKS_A_LOOK: usize = 64;
const LEAST_LOOKS: usize = 2;
