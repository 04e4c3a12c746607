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
    Cipher, Direction, EngineError, Job, Key, Mode, Outcome, Session, SessionRequest, wipe,
};

use super::bay::{Bay, Filled, Room, text_length};
use super::device::Device;
use super::kernels::BLOCK;
use super::lent::Lending;
use super::plan::Shape;
use super::straight::Ways;

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
        session.bay(0, Room { host: LEAST_ARENA, arena: LEAST_ARENA })?;
        Ok(session)
    }

    /// A bay with at least this much room, and no work in progress.
    fn bay(&mut self, turn: usize, room: Room) -> Result<&mut Bay, EngineError> {
        let (cipher, direction) = (self.cipher, self.direction);
        if self.bays[turn].as_ref().is_some_and(|bay| !bay.has(room)) {
            self.bays[turn] = None;
        }
        match &mut self.bays[turn] {
            Some(bay) => Ok(bay),
            empty => {
                let bay = Bay::open(&*self.device, cipher, direction, room)
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

    /// The room for a batch: small sessions cost little, and large ones soon have the whole arena.
    /// Messages that go straight take none of the host's memory.
    fn room_for(&self, batch: &[Job<'_>]) -> Room {
        let (mut host, mut arena) = (0, 0);
        for (index, job) in batch.iter().enumerate() {
            let need = self.need(job, job.input.len().saturating_add(BLOCK), index);
            host = need.host.saturating_add(host);
            arena = need.arena.saturating_add(arena);
        }
        let size =
            |all: usize| all.min(MOST_ARENA).next_power_of_two().clamp(LEAST_ARENA, MOST_ARENA);
        Room { host: size(host), arena: size(arena) }
    }

    /// The most room that a job needs whose text has this length.
    fn need(&self, job: &Job<'_>, length: usize, index: usize) -> Room {
        let shape = Shape::of(self.cipher, self.direction);
        let is_straight = self.ways.up(index).is_some() && self.ways.down(index).is_some();
        let packed = if is_straight { 0 } else { length };
        let bytes = |length| shape.need(length, job.aad.len()).unwrap_or(usize::MAX);
        Room { host: bytes(packed), arena: bytes(length) }
    }

    fn run(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let (mut next, mut turn, mut stopped) = (0, 0, Ok(()));
        self.ways.look(batch, &self.lending, self.cipher, self.direction);
        let room = self.room_for(batch);
        while next < batch.len() && stopped.is_ok() {
            self.collect(turn, batch)?;
            match self.fill(turn, room, batch, next)? {
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

    /// Fills a bay with at least this much room.
    fn fill(
        &mut self,
        turn: usize,
        room: Room,
        batch: &mut [Job<'_>],
        next: usize,
    ) -> Result<Result<Filled, ()>, EngineError> {
        self.bay(turn, room)?;
        let GpuSession { bays, ways, cipher, direction, session_key, .. } = self;
        let Some(bay) = &mut bays[turn] else { return Ok(Ok(Filled::Until(next))) };
        Ok(bay.fill(batch, next, *cipher, *direction, session_key.is_some(), ways))
    }

    /// Starts the work of the bay's plan.
    fn start(&mut self, turn: usize, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let (cipher, direction) = (self.cipher, self.direction);
        let Some(bay) = &mut self.bays[turn] else { return Ok(()) };
        let started = bay.start(batch, cipher, direction, &self.ways);
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
        let need = self.need(job, text_length(job, cipher, direction), index);
        let size = |need: usize| need.checked_next_power_of_two().unwrap_or(usize::MAX);
        let room = Room { host: size(need.host), arena: size(need.arena) };
        let properties = self.device.properties();
        let most = properties.largest_allocation.min(properties.memory / 8);
        if room.arena as u64 > most {
            let reason = format!(
                "a message of {} bytes is longer than the {most} bytes that the device gives to \
                 one; use shorter segments or another engine",
                job.input.len()
            );
            return Err(EngineError::failed(reason).of(&self.engine));
        }
        // The bay was filled before, so all jobs up to this one have their keys.
        let _ = self.fill(turn, room, &mut batch[..=index], index)?;
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

/// Bytes of the arena of a session that has not processed much yet.
const LEAST_ARENA: usize = 64 << 10;

/// Bytes of an arena: 8 MiB of messages, a few times what keeps a bus busy while the other arena is
/// packed, and their table. Only a message that can't be cut gets a larger one.
const MOST_ARENA: usize = 9 << 20;
