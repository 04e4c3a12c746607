//! A context's part: sends its text to the module or to the CPU.

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
    /// Unique among the contexts of this process.
    number: u64,
    key: Option<(Work, Cipher, Key)>,
    volume: Volume,
    /// True once it has asked for a session with its current key.
    has_asked: bool,
    /// Bytes of the message that the module computed.
    by_module: u64,
    /// Results of pieces in place, before they replace their text.
    results: WipedBuffer,
    /// State of the generator that chooses the blocks to check; 0 until it is needed.
    chance: u64,
}

impl Connection {
    /// A connection for a new context. `None` if no module is configured for the mode, for a
    /// module's own contexts, and if there is no memory.
    pub(crate) fn new(mode: Mode) -> Option<Box<Connection>> {
        let (routing, _) = SETTING.get()?;
        (routing.modes.contains(&mode) && !is_calling()).then_some(())?;
        Connection::with(None, 0)
    }

    /// A connection for a context's copy, which starts again with the same key.
    pub(crate) fn again(&self) -> Option<Box<Connection>> {
        Connection::with(self.key.clone(), self.by_module)
    }

    /// `None` if there is no memory for it: then the CPU does everything.
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

    /// Sets the kind of work and the key for what follows.
    pub(crate) fn set_key(&mut self, work: Work, key: &[u8]) {
        self.leave();
        let cipher = work.cipher(key.len()).zip(Key::new(key).ok());
        self.key = cipher.map(|(cipher, key)| (work, cipher, key));
        self.volume = Volume::default();
    }

    /// Leaves all text to the CPU until a key is set.
    pub(crate) fn forget_key(&mut self) {
        self.leave();
        self.key = None;
    }

    /// Encrypts or decrypts the next part of a message. Returns `None` as [`Message::transform`]
    /// does.
    pub(crate) fn transform(
        &mut self,
        message: &mut dyn Message,
        mut text: Text<'_>,
    ) -> Option<()> {
        let length = match &text {
            Text::InPlace(text) => text.len(),
            Text::Apart(input, output) if output.len() >= input.len() => input.len(),
            // A module can't take text that moves.
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

    /// Ends the message. Returns the number of its bytes that the module computed.
    pub(crate) fn end_message(&mut self) -> u64 {
        std::mem::take(&mut self.by_module)
    }

    /// Has the module compute the first bytes of a text, and returns their number. Not inlined, so
    /// that the wiped stack includes its variables.
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

    /// Computes a piece with the module. `None` if the module can't compute it, or if there is no
    /// memory for its result. Then, and if the module fails, the text is unchanged.
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

    /// Computes the next bytes of the message with the module, and advances the message past them.
    fn compute(
        &mut self,
        session: &mut dyn Session,
        message: &mut dyn Message,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<Option<()>, EngineError> {
        let Some(first) = message.iv(input.len()) else { return Ok(None) };
        let Ok(iv) = Iv::new(&first) else { return Ok(None) };
        // Without this, a module that writes nothing would leave the previous result, most of whose
        // blocks follow from each other correctly.
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

    /// Recomputes some blocks, chosen at random, and compares them.
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
            // If the system has no random bytes, a fixed sequence will do.
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
        // A forked child has none of its parent's sessions.
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
    let engine = SETTING.get().map_or("", |(routing, _)| &routing.engine);
    EngineError::failed(reason).of(engine)
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The longest piece in one request to the module, in bytes.
const LONGEST_PIECE: usize = 64 << 10;

/// One block in this many of a piece is checked, and at least `LEAST_LOOKS` blocks.
const BLOCKS_A_LOOK: usize = 64;
const LEAST_LOOKS: usize = 2;

/// The bytes of stack on which a module's session leaves data derived from the key.
const STACK: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use evener_core::Direction;
    use evener_lanes::Kernel;
    use evener_lanes::stream::{Chain, Confidential};

    use super::super::InCbc;
    use super::*;

    /// Reports all jobs as done, and writes nothing.
    struct Silent;

    impl Session for Silent {
        fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
            for job in batch {
                job.outcome = Outcome::Done { written: job.input.len() };
            }
            Ok(())
        }
    }

    /// A repeated text has the same result as before, which the buffer still holds.
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
