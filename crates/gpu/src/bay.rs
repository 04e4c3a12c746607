//! An arena with a stream: packs a part of a batch, has the device compute it, and unpacks.

use evener_core::parts::Parts;
use evener_core::{
    Cipher, Direction, Job, Key, LoadedKey, Outcome, Padding, Rejection, padding, wipe,
};

use super::device::{Device, DeviceError};
use super::kernels::{BLOCK, VERDICT};
use super::plan::{self, KeyChoice, Limits, Plan, Shape, Way};
use super::steps::Steps;
use super::straight::Ways;
use super::sys::{Channel, Sizes, Stretch};

/// An arena with the work in progress in it.
pub(super) struct Bay {
    channel: Channel,
    plan: Plan,
    limits: Limits,
    steps: Steps,
    /// The stretches that go straight up and down.
    ups: Vec<Stretch>,
    downs: Vec<Stretch>,
    /// The plan's last key that is not the session's.
    last_key: LoadedKey,
}

/// The bytes of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// In the host's memory, for all that is packed.
    pub(super) host: usize,
    /// In the device's memory, once for the input and once for the output.
    pub(super) arena: usize,
}

/// The reason why the filling of an arena ended.
pub(super) enum Filled {
    /// At this job, which did not fit, or at the batch's end.
    Until(usize),
    /// At this job, which does not fit any arena of this size.
    TooLong(usize),
}

impl Bay {
    pub(super) fn open(
        device: &dyn Device,
        cipher: Cipher,
        direction: Direction,
        Room { host, arena }: Room,
    ) -> Result<Bay, DeviceError> {
        let (keys, scratch) = (arena / BYTES_FOR_A_KEY, plan::scratch_of(arena));
        let limits = Limits { host, arena, keys, scratch };
        let steps = Steps::new(cipher, direction, device.properties());
        let sizes = Sizes { host, arena, keys: (keys + 1) * steps.slot(), scratch };
        let mut channel = Channel::open(device, sizes)?;
        steps.prepare_kernels(&mut channel)?;
        Ok(Bay {
            channel,
            plan: Plan::new(Shape::of(cipher, direction), limits),
            limits,
            steps,
            ups: Vec::new(),
            downs: Vec::new(),
            last_key: LoadedKey::none(),
        })
    }

    /// Returns whether it has this much room.
    pub(super) fn has(&self, room: Room) -> bool {
        self.limits.host >= room.host && self.limits.arena >= room.arena
    }

    /// Expands the session's key, which stays in slot 0.
    pub(super) fn load(&mut self, key: &Key) -> Result<(), DeviceError> {
        let length = key.len();
        self.channel.arena()?[..length].copy_from_slice(key.bytes());
        self.channel.upload(length)?;
        self.steps.expand(&mut self.channel, 0, 0, 1)?;
        self.channel.zero(self.channel.buffers().input, length)?;
        wipe(&mut self.channel.arena()?[..length]);
        Ok(())
    }

    /// Plans jobs from `next` on, as many as fit, and rejects those that no engine can process. The
    /// error means that a job has no key.
    pub(super) fn fill(
        &mut self,
        batch: &mut [Job<'_>],
        next: usize,
        cipher: Cipher,
        direction: Direction,
        has_key: bool,
        ways: &Ways,
    ) -> Result<Filled, ()> {
        self.plan.clear(self.limits);
        self.last_key.clear();
        for (index, job) in batch.iter_mut().enumerate().skip(next) {
            if job.outcome != Outcome::Pending {
                continue;
            }
            if let Err(rejection) = job.check(cipher, direction) {
                job.outcome = Outcome::Rejected(rejection);
                continue;
            }
            let choice = match job.key {
                None if !has_key => return Err(()),
                None => KeyChoice::Session,
                Some(key) if self.last_key.is(key.bytes()) => KeyChoice::Same,
                Some(_) => KeyChoice::New,
            };
            let length = text_length(job, cipher, direction);
            if length == 0 && !cipher.is_authenticated() {
                job.outcome = Outcome::Done { written: 0 };
                continue;
            }
            let way = Way {
                is_straight_up: ways.up(index).is_some(),
                is_straight_down: ways.down(index).is_some(),
            };
            if !self.plan.add(index, length, job.aad.len(), job.iv, choice, way) {
                let is_first = self.plan.is_empty();
                return Ok(if is_first { Filled::TooLong(index) } else { Filled::Until(index) });
            }
            if let (KeyChoice::New, Some(key)) = (choice, job.key) {
                self.last_key.set(key.bytes());
            }
        }
        Ok(Filled::Until(batch.len()))
    }

    /// Starts the work of the plan.
    pub(super) fn start(
        &mut self,
        batch: &mut [Job<'_>],
        cipher: Cipher,
        direction: Direction,
        ways: &Ways,
    ) -> Result<(), DeviceError> {
        if self.plan.is_empty() {
            return Ok(());
        }
        self.pack(batch, cipher, direction, ways)?;
        self.submit(direction)
    }

    /// Copies keys, additional data and texts to the arena, and lists the stretches that go
    /// straight.
    fn pack(
        &mut self,
        batch: &mut [Job<'_>],
        cipher: Cipher,
        direction: Direction,
        ways: &Ways,
    ) -> Result<(), DeviceError> {
        let Bay { channel, plan, ups, downs, .. } = self;
        plan.order();
        ups.clear();
        downs.clear();
        let arena = channel.arena()?;
        plan.write_table(arena);
        for item in plan.items() {
            let job = &mut batch[item.job];
            if let (Some(place), Some(key)) = (plan.key_at(item.key), job.key) {
                arena[place].copy_from_slice(key.bytes());
            }
            arena[plan.aad_at(item)].copy_from_slice(job.aad);
            let (text, result) = (plan.text_at(item), plan.result_at(item).start);
            if let Some(lease) = ways.down(item.job) {
                let length = job.output_length(cipher, direction);
                Stretch::down(&mut job.output[..length], result, lease).add_to(downs);
            }
            if let Some(lease) = ways.up(item.job) {
                Stretch::up(job.input, text.start, lease).add_to(ups);
                continue;
            }
            let text = &mut arena[text];
            let mut parts = Parts::of(job, cipher, direction);
            match parts.next(job, usize::MAX) {
                Some(part) if cipher.block_length() > 1 => part.copy_input(text),
                _ => text[..job.input.len()].copy_from_slice(job.input),
            }
        }
        Ok(())
    }

    /// Queues all work for the packed and listed jobs.
    fn submit(&mut self, direction: Direction) -> Result<(), DeviceError> {
        let Bay { channel, plan, steps, ups, downs, .. } = self;
        let buffers = channel.buffers();
        channel.upload(plan.used())?;
        for stretch in ups.drain(..) {
            channel.upload_straight(&stretch)?;
        }
        let (keys, raw) = plan.keys();
        steps.expand(channel, raw, 1, keys as u32)?;
        steps.compute(channel, plan)?;
        if steps.gives_verdicts() {
            channel.download(plan.verdicts())?;
        }
        channel.download(plan.texts())?;
        for stretch in downs.drain(..) {
            channel.download_straight(&stretch)?;
        }
        channel.end_copies()?;
        channel.zero(buffers.input, plan.input_end())?;
        channel.zero(buffers.scratch, plan.scratch())?;
        steps.wipe_keys(channel, keys)?;
        if direction == Direction::Decrypt {
            channel.zero(buffers.output, plan.output_end())?;
        }
        channel.flush()
    }

    /// Waits, and gives the jobs their results. Afterwards the arena holds only ciphertext.
    pub(super) fn unpack(
        &mut self,
        batch: &mut [Job<'_>],
        cipher: Cipher,
        direction: Direction,
    ) -> Result<(), DeviceError> {
        let Bay { channel, plan, steps, limits, .. } = self;
        if plan.is_empty() {
            return Ok(());
        }
        let arena = channel.arena()?;
        for (number, item) in plan.items().iter().enumerate() {
            let job = &mut batch[item.job];
            let is_forged = steps.gives_verdicts() && {
                let verdict = &arena[number * VERDICT..][..VERDICT];
                verdict.iter().any(|&byte| byte != 0)
            };
            job.outcome = if is_forged {
                Outcome::Rejected(Rejection::Tag)
            } else if plan.way(item).is_straight_down {
                delivered(job, cipher, direction)
            } else {
                deliver(job, &arena[plan.result_at(item)], item.length, cipher, direction)
            };
        }
        wipe_arena(arena, plan, direction);
        plan.clear(*limits);
        Ok(())
    }

    /// Processes a message of ECB, CBC or CTR one arena after another.
    pub(super) fn perform_in_pieces(
        &mut self,
        batch: &mut [Job<'_>],
        index: usize,
        cipher: Cipher,
        direction: Direction,
        ways: &Ways,
    ) -> Result<(), DeviceError> {
        let job = &mut batch[index];
        let most = (self.limits.arena - ROOM_BESIDE_A_PIECE) / BLOCK * BLOCK;
        let mut parts = Parts::of(job, cipher, direction);
        let key = job.key;
        while let Some(part) = parts.next(job, most) {
            let length = part.output.len();
            let choice = if key.is_some() { KeyChoice::New } else { KeyChoice::Session };
            let (up, down) = (ways.up(index), ways.down(index));
            let way = Way { is_straight_up: up.is_some(), is_straight_down: down.is_some() };
            let Bay { channel, plan, ups, downs, limits, .. } = self;
            plan.clear(*limits);
            if !plan.add(index, length, 0, part.iv, choice, way) {
                let (doing, words) = ("planning a piece", "it does not fit the arena".to_owned());
                return Err(DeviceError::Other { doing, words });
            }
            let item = plan.items()[0];
            let (text, result) = (plan.text_at(&item), plan.result_at(&item));
            let arena = channel.arena()?;
            plan.write_table(arena);
            if let (Some(place), Some(key)) = (plan.key_at(item.key), key) {
                arena[place].copy_from_slice(key.bytes());
            }
            match up {
                Some(lease) => Stretch::up(part.message, text.start, lease).add_to(ups),
                None => part.copy_input(&mut arena[text]),
            }
            if let Some(lease) = down {
                Stretch::down(part.output, result.start, lease).add_to(downs);
            }
            self.submit(direction)?;
            let arena = self.channel.arena()?;
            if down.is_none() {
                part.output.copy_from_slice(&arena[result]);
            }
            wipe_arena(arena, &self.plan, Direction::Decrypt);
            parts.advance(job, length);
        }
        self.plan.clear(self.limits);
        job.outcome = match parts.finish(job) {
            Ok(written) => Outcome::Done { written },
            Err(rejection) => {
                let length = job.output_length(cipher, direction);
                wipe(&mut job.output[..length]);
                Outcome::Rejected(rejection)
            }
        };
        Ok(())
    }
}

/// Wipes a part's remains in the arena, except ciphertext.
fn wipe_arena(arena: &mut [u8], plan: &Plan, direction: Direction) {
    let (used, results) = (plan.used(), plan.texts());
    match direction {
        Direction::Decrypt => wipe(&mut arena[..used.max(results.end)]),
        // Ciphertext has overwritten the texts, except where results have gone straight.
        Direction::Encrypt => {
            wipe(&mut arena[..results.start]);
            wipe(&mut arena[results.end..used.max(results.end)]);
        }
    }
}

/// The outcome of a job whose result has come straight to its output.
fn delivered(job: &mut Job<'_>, cipher: Cipher, direction: Direction) -> Outcome {
    let length = job.output_length(cipher, direction);
    if direction == Direction::Encrypt || job.padding == Padding::None {
        return Outcome::Done { written: length };
    }
    let last = &job.output[length - cipher.block_length()..length];
    match padding::padding_length(last) {
        Some(pad) => Outcome::Done { written: length - pad },
        None => {
            wipe(&mut job.output[..length]);
            Outcome::Rejected(Rejection::Padding)
        }
    }
}

/// Copies a result to its job, without padding.
fn deliver(
    job: &mut Job<'_>,
    text: &[u8],
    length: usize,
    cipher: Cipher,
    direction: Direction,
) -> Outcome {
    let written = match (direction, job.padding) {
        (Direction::Encrypt, _) => text.len(),
        (Direction::Decrypt, Padding::None) => length,
        (Direction::Decrypt, Padding::Pkcs7) => {
            let last = &text[length.saturating_sub(cipher.block_length())..length];
            match padding::padding_length(last) {
                Some(pad) => length - pad,
                None => return Outcome::Rejected(Rejection::Padding),
            }
        }
    };
    job.output[..written].copy_from_slice(&text[..written]);
    Outcome::Done { written }
}

/// Bytes that a job's text takes in an arena, without its tag.
pub(super) fn text_length(job: &Job<'_>, cipher: Cipher, direction: Direction) -> usize {
    match direction {
        Direction::Encrypt => job.output_length(cipher, direction) - cipher.tag_length(),
        Direction::Decrypt => job.output_length(cipher, direction),
    }
}

/// A part has one key, besides the session's, for this many bytes of an arena.
const BYTES_FOR_A_KEY: usize = 2_048;

/// Bytes for the table and the key of a message that fills an arena.
const ROOM_BESIDE_A_PIECE: usize = 4_096;
