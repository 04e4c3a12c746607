//! Packs the jobs of a batch into an arena, starts the device, waits, and unpacks.
//!
//! A session has two bays, each an arena with a stream. While the device works for one, the other is
//! packed or unpacked.
//!
//! Long messages in memory that the engine has lent are not packed: the device copies them from
//! there and their results to there, while the session borrows their jobs. Input and output of a
//! job never overlap, so the input is intact whatever happens to such a copy. After a failure the
//! outputs are wiped.

use std::sync::Arc;

use evener_core::{
    Cipher, Direction, EngineError, Job, Key, Mode, Outcome, Padding, Rejection, Session,
    SessionRequest, padding, wipe,
};

use super::device::{Device, DeviceError};
use super::lent::Lending;
use super::plan::{self, KeyChoice, Limits, Plan, Shape, Way};
use super::steps::Steps;
use super::straight::Ways;
use super::sys::{Channel, Sizes, Stretch};
use crate::parts::Parts;
use crate::serial::LoadedKey;

pub(super) struct GpuSession {
    engine: String,
    device: Arc<dyn Device>,
    lending: Arc<Lending>,
    cipher: Cipher,
    direction: Direction,
    session_key: Option<Key>,
    /// `None` until it is needed, and after a failure.
    bays: [Option<Bay>; 2],
    /// The ways of the current batch.
    ways: Ways,
}

/// A batch and the session that processes it. After its drop, no copy of the batch is in progress
/// any more, even if the session has panicked.
struct Underway<'s, 'b, 'j> {
    session: &'s mut GpuSession,
    batch: &'b mut [Job<'j>],
    is_over: bool,
}

impl Drop for Underway<'_, '_, '_> {
    fn drop(&mut self) {
        let Underway { session, batch, is_over } = self;
        if !*is_over {
            // The state of the device's work is unknown, so its memory is given back and wiped.
            // That ends all copies.
            session.bays = [None, None];
            // A result may have arrived while another job's tag has not been checked.
            for (index, job) in batch.iter_mut().enumerate() {
                if job.outcome == Outcome::Pending && session.ways.down(index).is_some() {
                    let length = job.output_length(session.cipher, session.direction);
                    wipe(&mut job.output[..length]);
                }
            }
        }
        session.ways.clear();
    }
}

/// An arena with the work in progress in it.
struct Bay {
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

/// The reason why the filling of an arena ended.
enum Filled {
    /// At this job, which did not fit, or at the batch's end.
    Until(usize),
    /// At this job, which does not fit any arena of this size.
    TooLong(usize),
}

impl GpuSession {
    pub(super) fn open(
        engine: &str,
        device: &Arc<dyn Device>,
        lending: &Arc<Lending>,
        request: &SessionRequest<'_>,
    ) -> Result<GpuSession, EngineError> {
        request.check_key()?;
        let &SessionRequest { cipher, direction, key } = request;
        let mut session = GpuSession {
            engine: engine.to_owned(),
            device: Arc::clone(device),
            lending: Arc::clone(lending),
            cipher,
            direction,
            session_key: key.cloned(),
            bays: [None, None],
            ways: Ways::default(),
        };
        session.bay(0, LEAST_ARENA)?;
        Ok(session)
    }

    /// A bay with at least this arena, and no work in progress.
    fn bay(&mut self, turn: usize, arena: usize) -> Result<&mut Bay, EngineError> {
        let (cipher, direction) = (self.cipher, self.direction);
        if self.bays[turn].as_ref().is_some_and(|bay| bay.limits.arena < arena) {
            self.bays[turn] = None;
        }
        match &mut self.bays[turn] {
            Some(bay) => Ok(bay),
            empty => {
                let bay = Bay::open(&*self.device, cipher, direction, arena)
                    .and_then(|mut bay| {
                        if let Some(key) = &self.session_key {
                            bay.load(key)?;
                        }
                        Ok(bay)
                    })
                    .map_err(|error| error.of(&self.engine))?;
                Ok(empty.insert(bay))
            }
        }
    }

    /// The arena size for a batch: small sessions cost little, and large ones soon have the whole
    /// arena.
    fn arena_for(&self, batch: &[Job<'_>]) -> usize {
        let shape = Shape::of(self.cipher, self.direction);
        let needs = batch.iter().map(|job| {
            let length = job.input.len().saturating_add(plan::BLOCK);
            shape.need(length, job.aad.len()).unwrap_or(MOST_ARENA)
        });
        let all = needs.fold(0_usize, usize::saturating_add).min(MOST_ARENA);
        all.next_power_of_two().clamp(LEAST_ARENA, MOST_ARENA)
    }

    fn run(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let (mut next, mut turn, mut stopped) = (0, 0, Ok(()));
        let arena = self.arena_for(batch);
        self.ways.look(batch, &self.lending, self.cipher, self.direction);
        while next < batch.len() && stopped.is_ok() {
            self.collect(turn, batch)?;
            match self.fill(turn, arena, batch, next)? {
                Ok(Filled::Until(job)) => next = job,
                Ok(Filled::TooLong(job)) => {
                    self.perform_long(turn, batch, job)?;
                    next = job + 1;
                    continue;
                }
                Err(()) => {
                    stopped = Err(EngineError::no_key().of(&self.engine));
                }
            }
            self.start(turn, batch)?;
            turn ^= 1;
        }
        self.collect(turn, batch)?;
        self.collect(turn ^ 1, batch)?;
        stopped
    }

    /// Fills a bay of at least this arena.
    fn fill(
        &mut self,
        turn: usize,
        arena: usize,
        batch: &mut [Job<'_>],
        next: usize,
    ) -> Result<Result<Filled, ()>, EngineError> {
        self.bay(turn, arena)?;
        let GpuSession { bays, ways, cipher, direction, session_key, .. } = self;
        let Some(bay) = &mut bays[turn] else { return Ok(Ok(Filled::Until(next))) };
        Ok(bay.fill(batch, next, *cipher, *direction, session_key.is_some(), ways))
    }

    /// Starts the work of the bay's plan.
    fn start(&mut self, turn: usize, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let (cipher, direction) = (self.cipher, self.direction);
        let Some(bay) = &mut self.bays[turn] else { return Ok(()) };
        if bay.plan.is_empty() {
            return Ok(());
        }
        let packed = bay.pack(batch, cipher, direction, &self.ways);
        let started = packed.and_then(|()| bay.submit(direction));
        started.map_err(|error| error.of(&self.engine))
    }

    /// Waits for a bay and gives its jobs their results.
    fn collect(&mut self, turn: usize, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let (cipher, direction) = (self.cipher, self.direction);
        let Some(bay) = &mut self.bays[turn] else { return Ok(()) };
        bay.unpack(batch, cipher, direction).map_err(|error| error.of(&self.engine))
    }

    /// Processes a message that is longer than an arena: in pieces, or with a larger arena if the
    /// mode has no pieces.
    fn perform_long(
        &mut self,
        turn: usize,
        batch: &mut [Job<'_>],
        index: usize,
    ) -> Result<(), EngineError> {
        let (cipher, direction) = (self.cipher, self.direction);
        if matches!(cipher.mode(), Mode::Ecb | Mode::Cbc | Mode::Ctr) {
            let Some(bay) = &mut self.bays[turn] else { return Ok(()) };
            let done = bay.perform_in_pieces(batch, index, cipher, direction, &self.ways);
            return done.map_err(|error| error.of(&self.engine));
        }
        let job = &batch[index];
        let text = text_length(job, cipher, direction);
        let need = Shape::of(cipher, direction).need(text, job.aad.len());
        let arena = need.and_then(usize::checked_next_power_of_two).unwrap_or(usize::MAX);
        let properties = self.device.properties();
        let most = properties.largest_allocation.min(properties.memory / 8);
        if arena as u64 > most {
            let reason = format!(
                "a message of {} bytes is longer than the {most} bytes that the device gives to \
                 one; use shorter segments or another engine",
                job.input.len()
            );
            return Err(EngineError::failed(reason).of(&self.engine));
        }
        // The bay was filled before, so all jobs up to this one have their keys.
        let _ = self.fill(turn, arena, &mut batch[..=index], index)?;
        self.start(turn, batch)?;
        self.collect(turn, batch)
    }
}

impl Session for GpuSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let under_way = &mut Underway { session: self, batch, is_over: false };
        let result = under_way.session.run(under_way.batch);
        under_way.is_over = matches!(result, Ok(()) | Err(EngineError::NoKey { .. }));
        result
    }
}

impl Bay {
    fn open(
        device: &dyn Device,
        cipher: Cipher,
        direction: Direction,
        arena: usize,
    ) -> Result<Bay, DeviceError> {
        let (keys, scratch) = (arena / BYTES_FOR_A_KEY, plan::scratch_of(arena));
        let limits = Limits { arena, keys, scratch };
        let steps = Steps::new(cipher, direction, device.properties());
        let sizes = Sizes { arena, keys: (keys + 1) * steps.slot(), scratch };
        Ok(Bay {
            channel: Channel::open(device, sizes)?,
            plan: Plan::new(Shape::of(cipher, direction), limits),
            limits,
            steps,
            ups: Vec::new(),
            downs: Vec::new(),
            last_key: LoadedKey::none(),
        })
    }

    /// Expands the session's key, which stays in slot 0.
    fn load(&mut self, key: &Key) -> Result<(), DeviceError> {
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
    fn fill(
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
        channel.zero(buffers.input, plan.input_end())?;
        channel.zero(buffers.scratch, plan.scratch())?;
        steps.wipe_keys(channel, keys)?;
        if direction == Direction::Decrypt {
            channel.zero(buffers.output, plan.output_end())?;
        }
        channel.flush()
    }

    /// Waits, and gives the jobs their results. Afterwards the arena holds only ciphertext.
    fn unpack(
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
                let verdict = &arena[number * plan::VERDICT..][..plan::VERDICT];
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
    fn perform_in_pieces(
        &mut self,
        batch: &mut [Job<'_>],
        index: usize,
        cipher: Cipher,
        direction: Direction,
        ways: &Ways,
    ) -> Result<(), DeviceError> {
        let job = &mut batch[index];
        let most = (self.limits.arena - ROOM_BESIDE_A_PIECE) / plan::BLOCK * plan::BLOCK;
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
fn text_length(job: &Job<'_>, cipher: Cipher, direction: Direction) -> usize {
    match direction {
        Direction::Encrypt => job.output_length(cipher, direction) - cipher.tag_length(),
        Direction::Decrypt => job.output_length(cipher, direction),
    }
}

/// Bytes of the arena of a session that has not processed much yet.
const LEAST_ARENA: usize = 64 << 10;

/// Bytes of an arena: a few times what keeps a bus busy while the other arena is packed. Only a
/// message that can't be cut gets a larger one.
const MOST_ARENA: usize = 8 << 20;

/// A part has one key, besides the session's, for this many bytes of an arena.
const BYTES_FOR_A_KEY: usize = 2_048;

/// Bytes for the table and the key of a message that fills an arena.
const ROOM_BESIDE_A_PIECE: usize = 4_096;
