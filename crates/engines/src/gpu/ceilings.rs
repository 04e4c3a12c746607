//! What a device, its bus and its kernels do by themselves, for benchmarks: without sessions, without
//! packing, and the kernels without copies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Outcome, SessionRequest, WipedBuffer,
};

use super::device::{Device, DeviceError};
use super::plan::{self, KeyChoice, Limits, Plan, Shape, Way};
use super::probe;
use super::steps::{self, Steps};
use super::sys::{Channel, Sizes};

/// A device, without the engine.
pub struct Bare {
    device: Arc<dyn Device>,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Facts {
    /// `cuda` or `opencl`.
    pub backend: &'static str,
    /// As the driver prints it.
    pub name: String,
    /// The driver or platform with its version.
    pub driver: String,
    /// In bytes.
    pub memory: u64,
    /// Shared (OpenCL: local) memory of one work-group, in bytes.
    pub shared_memory: usize,
    /// Streaming multiprocessors, or compute units.
    pub units: usize,
    /// Whether it is a real GPU, not a device that computes on the processor's cores.
    pub is_gpu: bool,
}

/// How long copies of so many bytes take, in seconds for each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// To the device.
    pub up: f64,
    /// From the device.
    pub down: f64,
    /// One each way, at the same time.
    pub both: f64,
}

/// Messages for a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texts {
    /// The cipher.
    pub cipher: Cipher,
    /// Encrypt or decrypt. Ciphers that authenticate are only encrypted.
    pub direction: Direction,
    /// Bytes of each, whole blocks.
    pub length: usize,
    /// Bytes of all.
    pub bytes: usize,
    /// How often it is measured.
    pub rounds: usize,
}

impl Bare {
    /// The device that an engine's name (`gpu`, `gpu:cuda:0`) stands for.
    ///
    /// # Errors
    /// The reason why it is absent, as text.
    pub fn find(engine: &str) -> Result<Bare, String> {
        let parameters = engine.strip_prefix(super::NAME).unwrap_or(engine);
        let parameters = parameters.strip_prefix(':').unwrap_or(parameters);
        Ok(Bare { device: probe::device(parameters)? })
    }

    /// What it is.
    pub fn facts(&self) -> Facts {
        let properties = self.device.properties().clone();
        Facts {
            backend: properties.backend,
            name: properties.name,
            driver: properties.driver,
            memory: properties.memory,
            shared_memory: properties.shared_memory,
            units: properties.units,
            is_gpu: properties.is_gpu,
        }
    }

    /// Measures copies between page-locked memory and the device for about this long each.
    ///
    /// # Errors
    /// When the device fails.
    pub fn copies(&self, bytes: usize, time: Duration) -> Result<Copies, EngineError> {
        self.copy_both_ways(bytes, time).map_err(|error| error.of(super::NAME))
    }

    fn copy_both_ways(&self, bytes: usize, time: Duration) -> Result<Copies, DeviceError> {
        let sizes = Sizes { arena: bytes, keys: 256, scratch: 256 };
        let (mut one, mut other) =
            (Channel::open(&*self.device, sizes)?, Channel::open(&*self.device, sizes)?);
        let mut seconds = |up: bool, down: bool| -> Result<f64, DeviceError> {
            let mut run = |count: u32| -> Result<Duration, DeviceError> {
                let begun = Instant::now();
                for _ in 0..count {
                    if up {
                        one.upload(bytes)?;
                    }
                    if down {
                        other.download(0..bytes)?;
                    }
                }
                one.flush()?;
                other.flush()?;
                one.wait()?;
                other.wait()?;
                Ok(begun.elapsed())
            };
            // The first copies find out how many fill the time.
            run(1)?;
            let one = run(1)?.max(Duration::from_nanos(100));
            let count = (time.as_secs_f64() / one.as_secs_f64()).clamp(1.0, MOST_COPIES) as u32;
            Ok(run(count)?.as_secs_f64() / f64::from(count))
        };
        Ok(Copies {
            up: seconds(true, false)?,
            down: seconds(false, true)?,
            both: seconds(true, true)?,
        })
    }

    /// Whether there is a kernel for a cipher.
    pub fn computes(&self, cipher: Cipher) -> bool {
        steps::performs(cipher)
    }

    /// Measures a kernel on random texts in the device's memory, and compares every result with that
    /// of `reference`. Returns the bytes of a run, and the median of its times in seconds: of some
    /// runs in a row, less the first, so that starting and waiting are not counted.
    ///
    /// # Errors
    /// When the device fails, or a result is wrong.
    pub fn kernel(
        &self,
        texts: &Texts,
        reference: &dyn Engine,
    ) -> Result<(usize, f64), EngineError> {
        let Texts { cipher, direction, length, .. } = *texts;
        let failed = |error: DeviceError| error.of(super::NAME);
        let mut run = Run::prepare(&*self.device, texts).map_err(failed)?;
        let mut times = Vec::with_capacity(texts.rounds.max(1));
        run.seconds(1).map_err(failed)?;
        for _ in 0..texts.rounds.max(1) {
            let (first, all) = (run.seconds(1), run.seconds(1 + IN_A_ROW));
            let rest = all.map_err(failed)? - first.map_err(failed)?;
            times.push(rest.max(1e-9) / f64::from(IN_A_ROW));
        }
        times.sort_by(f64::total_cmp);
        run.compare(cipher, direction, reference)?;
        Ok((run.plan.items().len() * length, times[times.len() / 2]))
    }
}

/// Texts in the device's memory, and what computes them.
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
        let limits = Limits { arena, keys: 1, scratch: plan::scratch_of(arena) };
        let steps = Steps::new(cipher, direction, device.properties());
        let sizes = Sizes { arena, keys: 2 * steps.slot(), scratch: limits.scratch };
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

    fn seconds(&mut self, runs: u32) -> Result<f64, DeviceError> {
        let begun = Instant::now();
        for _ in 0..runs {
            self.steps.compute(&mut self.channel, &self.plan)?;
        }
        self.channel.flush()?;
        self.channel.wait()?;
        Ok(begun.elapsed().as_secs_f64())
    }

    fn compare(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        reference: &dyn Engine,
    ) -> Result<(), EngineError> {
        let failed = |error: DeviceError| error.of(super::NAME);
        let buffers = self.channel.buffers();
        let range = self.plan.texts();
        // What was measured last is computed once more, from the beginning.
        self.channel.zero(buffers.output, self.plan.used()).map_err(failed)?;
        self.channel.zero(buffers.scratch, self.plan.scratch()).map_err(failed)?;
        self.seconds(1).map_err(failed)?;
        self.channel.download(range.clone()).map_err(failed)?;
        let results = self.channel.arena().map_err(failed)?;
        let request = SessionRequest { cipher, direction, key: Some(&self.key) };
        let mut session = reference.open(&request)?;
        for item in self.plan.items() {
            let at = self.plan.text_at(item);
            let text = at.start - range.start..at.start - range.start + item.length;
            let mut expected = vec![0; item.length + cipher.tag_length()];
            let mut jobs = [Job::new(item.iv, &self.texts[text], &mut expected)];
            session.process(&mut jobs)?;
            let is_done = matches!(jobs[0].outcome, Outcome::Done { .. });
            if !is_done || results[at] != expected {
                let reason = format!("the kernel of {cipher} to {direction} computes wrongly");
                return Err(EngineError::Failed { engine: super::NAME.to_owned(), reason });
            }
        }
        Ok(())
    }
}

/// Another one for each message.
fn iv(cipher: Cipher, number: usize) -> Iv {
    let mut bytes = [7; Iv::MAX_LENGTH];
    bytes[..4].copy_from_slice(&(number as u32).to_le_bytes());
    Iv::new(&bytes[..cipher.iv_length()]).unwrap_or(Iv::NONE)
}

/// Copies that are queued at once at most.
const MOST_COPIES: f64 = 2_000.0;

/// Runs of a kernel whose time is taken.
const IN_A_ROW: u32 = 4;
