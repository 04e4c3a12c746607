//! A context's part: its text goes to the module or to the CPU.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use evener_core::{
    Cipher, EngineError, Iv, Job, Key, Mode, Outcome, Session, WipedBuffer, wipe_stack,
};
use evener_lanes::boxed;
use evener_lanes::stream::Text;

use super::ahead::Ahead;
use super::message::{Message, Work};
use super::route::{BLOCK, Delay, Volume};
use super::{MODULE, Module, SETTING, is_calling};
use crate::machine;
use crate::sys::random;

/// One direction of a connection: a context, with its key.
pub(crate) struct Connection {
    /// No other context of this process has it.
    number: u64,
    key: Option<(Work, Cipher, Key)>,
    volume: Volume,
    /// Whether it ever asked for a session.
    has_asked: bool,
    /// Bytes of the message that the module did.
    by_module: u64,
    /// Results that are to replace their text.
    results: WipedBuffer,
    /// For the choice of blocks to look at; 0 until it is needed.
    chance: u64,
}

impl Connection {
    /// One for a new context, where a module is configured for the mode; none for the module's own.
    pub(crate) fn new(mode: Mode) -> Option<Box<Connection>> {
        let (routing, _) = SETTING.get()?;
        (routing.modes.contains(&mode) && !is_calling()).then_some(())?;
        Connection::with(None, 0)
    }

    /// One for a context's copy, which begins anew with the same key.
    pub(crate) fn again(&self) -> Option<Box<Connection>> {
        Connection::with(self.key.clone(), self.by_module)
    }

    /// `None` where there is no memory for it: then the processor does all.
    fn with(key: Option<(Work, Cipher, Key)>, by_module: u64) -> Option<Box<Connection>> {
        boxed(Connection {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            key,
            volume: Volume::default(),
            has_asked: false,
            by_module,
            results: WipedBuffer::default(),
            chance: 0,
        })
    }

    /// What is done from now on, and the key.
    pub(crate) fn set_key(&mut self, work: Work, key: &[u8]) {
        self.leave();
        let cipher = work.cipher(key.len()).zip(Key::new(key).ok());
        self.key = cipher.map(|(cipher, key)| (work, cipher, key));
        self.volume = Volume::default();
    }

    /// What follows is not for a module, as long as no key is set.
    pub(crate) fn forget_key(&mut self) {
        self.leave();
        self.key = None;
    }

    /// Encrypts or decrypts the next part of a message. `None` as [`Message::transform`] has it.
    pub(crate) fn transform(
        &mut self,
        message: &mut dyn Message,
        mut text: Text<'_>,
    ) -> Option<()> {
        let length = match &text {
            Text::InPlace(text) => text.len(),
            Text::Apart(input, output) if output.len() >= input.len() => input.len(),
            // No module gets text that moves.
            Text::Apart(..) | Text::Down(..) => return None,
        };
        let mut done = 0;
        if self.volume.is_promoted()
            && let Some((work, ..)) = self.key
            && let Some(module) = Module::of_this_process()
        {
            let share = self.volume.share_of_module(length, module.crossover(work));
            if share > 0 {
                done = self.use_module(module, message, &mut text, share);
                wipe_stack::<STACK>();
            }
        }
        self.volume.add(length);
        if done > 0 && done == length {
            return Some(());
        }
        machine::message(length - done, || match text {
            Text::InPlace(text) => message.transform(Text::InPlace(&mut text[done..])),
            Text::Apart(input, output) => {
                message.transform(Text::Apart(&input[done..], &mut output[done..]))
            }
            Text::Down(..) => None,
        })
    }

    /// How many bytes of the message the module did, which ends.
    pub(crate) fn end_message(&mut self) -> u64 {
        std::mem::take(&mut self.by_module)
    }

    /// Has the module do the first bytes of a text, and returns how many it did. By itself, so that its
    /// variables lie where the stack is wiped.
    #[inline(never)]
    fn use_module(
        &mut self,
        module: &Module,
        message: &mut dyn Message,
        text: &mut Text<'_>,
        share: usize,
    ) -> usize {
        let Some((work, cipher, key)) = &self.key else { return 0 };
        self.has_asked = true;
        let Some(mut session) = module.take(self.number, *work, *cipher, key) else { return 0 };
        let _ahead = Ahead::go();
        let mut done = 0;
        while done < share {
            let end = share.min(done + LONGEST_PIECE);
            let start = Instant::now();
            let result = self.piece(&mut *session, message, text, done..end);
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

    /// `None` where the piece is none for a module, or there is no memory for its result. Then, and where
    /// the module fails, the text is as it was.
    fn piece(
        &mut self,
        session: &mut dyn Session,
        message: &mut dyn Message,
        text: &mut Text<'_>,
        range: Range<usize>,
    ) -> Result<Option<()>, EngineError> {
        match text {
            Text::Apart(input, output) => {
                self.compute(session, message, &input[range.clone()], &mut output[range])
            }
            Text::InPlace(text) => {
                let mut results = std::mem::take(&mut self.results);
                if results.len() < range.len() {
                    let Some(longer) = WipedBuffer::try_zeros(range.len()) else { return Ok(None) };
                    results = longer;
                }
                let result = &mut results[..range.len()];
                let text = &mut text[range];
                let computed = self.compute(session, message, text, result);
                if let Ok(Some(())) = computed {
                    text.copy_from_slice(result);
                }
                self.results = results;
                computed
            }
            Text::Down(..) => Ok(None),
        }
    }

    /// Computes the next bytes of the message with the module, and goes on behind them.
    fn compute(
        &mut self,
        session: &mut dyn Session,
        message: &mut dyn Message,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<Option<()>, EngineError> {
        let Some(first) = message.iv(input.len()) else { return Ok(None) };
        let Ok(iv) = Iv::new(&first) else { return Ok(None) };
        // Where the module writes nothing, the result before would be there, of which most blocks follow from
        // each other as they should.
        output.fill(0);
        let mut batch = [Job::new(iv, input, output)];
        session.process(&mut batch)?;
        if batch[0].outcome != (Outcome::Done { written: input.len() }) {
            return Ok(None);
        }
        if !self.looks_right(message, first, input, output) {
            return Err(wrong());
        }
        Ok(message.go_on(input, output))
    }

    /// Computes some blocks, chosen at random, and compares.
    fn looks_right(
        &mut self,
        message: &mut dyn Message,
        first: [u8; BLOCK],
        input: &[u8],
        output: &[u8],
    ) -> bool {
        let (input, output) = (input.as_chunks::<BLOCK>().0, output.as_chunks::<BLOCK>().0);
        let blocks = input.len().min(output.len());
        (0..LEAST_LOOKS.max(blocks / BLOCKS_A_LOOK)).all(|_| {
            let Some(index) = self.draw().checked_rem(blocks as u64) else { return true };
            machine::part(BLOCK, || message.is_right(first, input, output, index as usize))
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

/// On how many bytes of the stack a module's session leaves what is made of the key.
const STACK: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use evener_core::Direction;
    use evener_lanes::Kernel;
    use evener_lanes::stream::{Chain, Confidential};

    use super::super::InCbc;
    use super::*;

    /// Says that all is done, and does nothing.
    struct Silent;

    impl Session for Silent {
        fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
            for job in batch {
                job.outcome = Outcome::Done { written: job.input.len() };
            }
            Ok(())
        }
    }

    /// A text that comes again has a result like that before, which the buffer still holds.
    #[test]
    fn a_module_that_writes_nothing_is_found_wrong() {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let cipher = Confidential::new(Kernel::portable(), Mode::Cbc, direction, &[7; 16]);
            let cipher = cipher.unwrap();
            let input = [1; 16 << 10];
            let mut output = input;
            cipher.transform(&mut Chain::new([0; BLOCK]), Text::InPlace(&mut output)).unwrap();
            let mut chain = Chain::new([0; BLOCK]);
            let mut message = InCbc { cipher: &cipher, chain: &mut chain, direction };
            let mut connection = Connection::with(None, 0).unwrap();
            let result = connection.compute(&mut Silent, &mut message, &input, &mut output);
            assert!(result.is_err(), "{direction}");
        }
    }
}
