//! Kernels on texts in a device's memory.

use std::thread;

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Outcome, SessionRequest, WipedBuffer,
};

use super::Bare;
use crate::NAME;
use crate::device::{Device, DeviceError};
use crate::plan::{self, Item, KeyChoice, Limits, Plan, Shape, Way};
use crate::steps::{self, Steps};
use crate::sys::{Channel, Sizes};

/// Messages for a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texts {
    /// The cipher.
    pub cipher: Cipher,
    /// Encrypt or decrypt. Authenticated ciphers are only encrypted.
    pub direction: Direction,
    /// Bytes of each message, whole blocks.
    pub length: usize,
    /// Bytes of all messages.
    pub bytes: usize,
    /// Number of measurements.
    pub rounds: usize,
}

impl Bare {
    /// Returns whether there is a kernel for a cipher.
    pub fn computes(&self, cipher: Cipher) -> bool {
        steps::performs(cipher)
    }

    /// Measures a kernel on random texts in the device's memory, and compares every result with
    /// that of `reference`. Returns the bytes of a run, and the median of its times in seconds, by
    /// the device's clock.
    ///
    /// # Errors
    /// When the device fails, or a result is wrong.
    pub fn kernel(
        &self,
        texts: &Texts,
        reference: &dyn Engine,
    ) -> Result<(usize, f64), EngineError> {
        let Texts { cipher, direction, length, .. } = *texts;
        let failed = |error: DeviceError| error.of(NAME);
        let mut run = Run::prepare(&*self.device, texts).map_err(failed)?;
        let times = (0..texts.rounds.max(1)).map(|_| run.seconds());
        let mut times = times.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        times.sort_by(f64::total_cmp);
        run.compare(cipher, direction, reference)?;
        Ok((run.plan.items().len() * length, times[times.len() / 2].max(1e-9)))
    }
}

/// Texts in the device's memory, with the kernels' channel and steps.
struct Run {
    channel: Channel,
    plan: Plan,
    steps: Steps,
    /// A copy of the texts, with room for tags.
    texts: WipedBuffer,
    key: Key,
}

impl Run {
    fn prepare(device: &dyn Device, texts: &Texts) -> Result<Run, DeviceError> {
        let &Texts { cipher, direction, length, bytes, .. } = texts;
        let refused =
            |words: &str| DeviceError::Other { doing: "preparing texts", words: words.to_owned() };
        let shape = Shape::of(cipher, direction);
        let count = (bytes / length.max(1)).max(1);
        let arena = shape.need(length, 0).and_then(|each| each.checked_mul(count));
        let arena = arena.ok_or_else(|| refused("they are too long"))?;
        let limits = Limits { host: arena, arena, keys: 1, scratch: plan::scratch_of(arena) };
        let steps = Steps::new(cipher, direction, device.properties());
        let sizes = Sizes { host: arena, arena, keys: 2 * steps.slot(), scratch: limits.scratch };
        let mut channel = Channel::open(device, sizes)?;
        let raw: Vec<u8> = (1..).take(cipher.key_length()).collect();
        let key = Key::new(&raw).map_err(|_| refused("no key fits"))?;
        channel.arena()?[..raw.len()].copy_from_slice(&raw);
        channel.upload(raw.len())?;
        steps.expand(&mut channel, 0, 0, 1)?;
        let mut plan = Plan::new(shape, limits);
        for number in 0..count {
            if !plan.add(number, length, 0, iv(cipher, number), KeyChoice::Session, Way::PACKED) {
                break;
            }
        }
        plan.order();
        let used = plan.used();
        let memory = channel.arena()?;
        let range = plan.texts();
        getrandom::fill(&mut memory[range.clone()]).map_err(|_| refused("no random numbers"))?;
        plan.write_table(memory);
        let mut copy = WipedBuffer::zeros(range.len());
        copy.copy_from_slice(&memory[range]);
        channel.upload(used)?;
        channel.wait()?;
        Ok(Run { channel, plan, steps, texts: copy, key })
    }

    /// The device's time of a run. Another run precedes it, so that the device does not wait for
    /// the start of a kernel.
    fn seconds(&mut self) -> Result<f64, DeviceError> {
        self.steps.compute(&mut self.channel, &self.plan)?;
        self.channel.begin_timing()?;
        self.steps.compute(&mut self.channel, &self.plan)?;
        self.channel.end_timing()
    }

    /// Repeats the last measured computation from the beginning, and compares its results.
    fn compare(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        reference: &dyn Engine,
    ) -> Result<(), EngineError> {
        self.bring_results().map_err(|error| error.of(NAME))?;
        let Run { channel, plan, texts, key, .. } = self;
        let results = &*channel.arena().map_err(|error| error.of(NAME))?;
        let first = plan.texts().start;
        let request = SessionRequest { cipher, direction, key: Some(key) };
        let compare = |items: &[Item]| -> Result<(), EngineError> {
            let mut session = reference.open(&request)?;
            let mut expected = Vec::new();
            for item in items {
                let at = plan.text_at(item);
                let text = at.start - first..at.start - first + item.length;
                expected.clear();
                expected.resize(item.length + cipher.tag_length(), 0);
                let mut jobs = [Job::new(item.iv, &texts[text], &mut expected)];
                session.process(&mut jobs)?;
                let is_done = matches!(jobs[0].outcome, Outcome::Done { .. });
                if !is_done || results[at] != expected {
                    return Err(wrong(cipher, direction));
                }
            }
            Ok(())
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let share = plan.items().len().div_ceil(threads).max(1);
        thread::scope(|scope| {
            let shares = plan.items().chunks(share);
            let threads: Vec<_> = shares.map(|items| scope.spawn(|| compare(items))).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .into_iter()
                .try_for_each(|result| result.unwrap_or_else(|_| Err(wrong(cipher, direction))))
        })
    }

    fn bring_results(&mut self) -> Result<(), DeviceError> {
        let buffers = self.channel.buffers();
        self.channel.zero(buffers.output, self.plan.used())?;
        self.channel.zero(buffers.scratch, self.plan.scratch())?;
        self.steps.compute(&mut self.channel, &self.plan)?;
        self.channel.download(self.plan.texts())
    }
}

fn wrong(cipher: Cipher, direction: Direction) -> EngineError {
    let reason = format!("the kernel of {cipher} to {direction} computes wrongly");
    EngineError::failed(reason).of(NAME)
}

/// Returns a different IV for each message.
fn iv(cipher: Cipher, number: usize) -> Iv {
    let mut bytes = [7; Iv::MAX_LENGTH];
    bytes[..4].copy_from_slice(&(number as u32).to_le_bytes());
    Iv::new(&bytes[..cipher.iv_length()]).unwrap_or(Iv::NONE)
}
