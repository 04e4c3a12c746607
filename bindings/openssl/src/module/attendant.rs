//! The thread that finds and measures the module, and opens and closes its sessions. These steps
//! may take long, and no record waits for them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Mode, Outcome, Session, SessionRequest,
};
use evener_engines::Watch;
use evener_gate::{Gate, GateOptions, Permit};
use evener_lanes::Kernel;
use evener_lanes::stream::{Chain, Confidential, Gcm, Text};

use super::ahead::Ahead;
use super::message::{InCbc, InGcm, Message, Work};
use super::reference::Reference;
use super::route::{Cost, NEVER, crossover};
use super::sys::without_signals;
use super::{Module, Task};
use crate::config::Routing;
use crate::machine;
use crate::sys::random;
use crate::warning::warn;

/// Starts the thread. It ends with the process, or earlier if no module can be used.
pub(super) fn start(
    module: &'static Module,
    routing: &'static Routing,
    kernel: Kernel,
    tasks: Receiver<Task>,
) -> io::Result<()> {
    let attend = move || match Attendant::new(module, routing, kernel) {
        Ok(attendant) => attendant.serve(tasks),
        Err(error) => warn(&format_args!("{error}; the processor does all records")),
    };
    let thread = thread::Builder::new().name("evener-tls".to_owned());
    without_signals(|| thread.spawn(attend)).map(drop)
}

struct Attendant {
    module: &'static Module,
    engine: Arc<dyn Engine>,
    /// Present if the engine admits a limited number of processes.
    gate: Option<Gate>,
    /// Held while there are sessions.
    permit: Option<Permit>,
    sessions: usize,
}

impl Attendant {
    /// Finds the module and puts it into service.
    fn new(
        module: &'static Module,
        routing: &Routing,
        kernel: Kernel,
    ) -> Result<Attendant, EngineError> {
        let watch = Watch {
            verify_every: Some(routing.verify_every),
            deadline: Some(DEADLINE),
            retreats: false,
        };
        let engine = machine::find(&routing.engine, Arc::new(Reference::new(kernel)), watch)?;
        let unavailable = |reason| EngineError::unavailable(reason).of(&routing.engine);
        let offers = |work: &Work| {
            let offer = engine.offer(work.cipher(16)?, work.direction())?;
            routing.modes.contains(&work.mode()).then_some((*work, offer))
        };
        let works: Vec<_> = Work::ALL.iter().filter_map(offers).collect();
        let Some((_, offer)) = works.first() else {
            let modes = routing.modes.iter().map(|mode| match mode {
                Mode::Gcm => "CTR, for GCM",
                _ => "CBC",
            });
            let modes: Vec<_> = modes.collect();
            return Err(unavailable(format!("it has no AES in {}", modes.join(" or "))));
        };
        let depth = works.iter().map(|(_, offer)| offer.depth).min().unwrap_or(1);
        let gate = match routing.permits.or(offer.holders) {
            None => None,
            Some(permits) => {
                let options = GateOptions::of_engine(&routing.engine, permits);
                Some(Gate::open(options).map_err(|error| unavailable(error.to_string()))?)
            }
        };
        let mut attendant = Attendant { module, engine, gate, permit: None, sessions: 0 };
        module.sessions().set_depth(depth.max(1));
        let works = works.into_iter().map(|(work, _)| work);
        attendant.put_into_service(works, routing.crossover, kernel)?;
        Ok(attendant)
    }

    fn put_into_service(
        &mut self,
        works: impl Iterator<Item = Work>,
        given: Option<usize>,
        kernel: Kernel,
    ) -> Result<(), EngineError> {
        let mut is_used = false;
        for work in works {
            let crossover = match given {
                Some(bytes) => bytes,
                None => self.measure(work, kernel)?,
            };
            is_used |= crossover != NEVER;
            self.module.crossovers[work.index()].store(crossover, Ordering::Release);
        }
        if !is_used {
            let reason = "it is slower than the processor for records of every size";
            return Err(EngineError::unavailable(reason).of(&self.engine.description().name));
        }
        Ok(())
    }

    fn serve(mut self, tasks: Receiver<Task>) {
        for task in tasks {
            match task {
                // Its connection may have ended meanwhile.
                Task::Open { owner, .. } if !self.module.sessions().awaits(owner) => {}
                Task::Open { owner, cipher, direction, key } => {
                    let session = match self.open(cipher, direction, &key) {
                        Ok(session) => session,
                        // The module may have no room at the moment.
                        Err(EngineError::Unavailable { .. } | EngineError::NotOffered { .. }) => {
                            None
                        }
                        Err(error) => {
                            self.module.fail(&error);
                            None
                        }
                    };
                    self.module.give(owner, session);
                }
                Task::Close(session) => {
                    let began = Instant::now();
                    self.close(session);
                    self.module.sessions().closed();
                    if began.elapsed() >= LONGEST_CLOSING {
                        let engine = &self.engine.description().name;
                        let seconds = LONGEST_CLOSING.as_secs_f64();
                        let reason = format!("it did not close a session within {seconds} s");
                        self.module.fail(&EngineError::failed(reason).of(engine));
                    }
                }
            }
        }
    }

    /// Opens a session; `None` if this process has to wait for a permit.
    fn open(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        key: &Key,
    ) -> Result<Option<Box<dyn Session>>, EngineError> {
        if let (Some(gate), None) = (&self.gate, &self.permit) {
            // Other processes use the engine, or the gate failed.
            let Ok(Some(permit)) = gate.try_enter() else { return Ok(None) };
            self.permit = Some(permit);
        }
        let request = SessionRequest { cipher, direction, key: Some(key) };
        let session = {
            // The session's own thread, if it has one, inherits the priority.
            let _ahead = Ahead::go();
            self.engine.open(&request)
        };
        match &session {
            Ok(_) => self.sessions += 1,
            Err(_) => self.leave_gate(),
        }
        session.map(Some)
    }

    fn close(&mut self, session: Box<dyn Session>) {
        drop(session);
        self.sessions -= 1;
        self.leave_gate();
    }

    fn leave_gate(&mut self) {
        if self.sessions == 0 {
            self.permit = None;
        }
    }

    /// Measures the crossover: the size of a record's text, in bytes, from which on the module
    /// takes no longer than the CPU.
    fn measure(&mut self, work: Work, kernel: Kernel) -> Result<usize, EngineError> {
        let mut key = [0; 16];
        let _ = random(&mut key);
        let (Ok(session_key), Some(cipher), Some(mut processor)) =
            (Key::new(&key), work.cipher(key.len()), Processor::new(work, kernel, &key))
        else {
            return Ok(NEVER);
        };
        // Another process may have the last session or permit.
        let Some(mut session) = self.open(cipher, work.direction(), &session_key)? else {
            return Ok(SIZES[0]);
        };
        let mut costs = Vec::new();
        let began = Instant::now();
        for &bytes in &SIZES {
            let cost = cost(&mut *session, &mut processor, bytes)?;
            costs.insert(0, cost);
            if cost.module > cost.cpu || began.elapsed() > LONGEST_MEASUREMENT {
                break;
            }
        }
        self.close(session);
        Ok(crossover(&costs))
    }
}

/// The CPU's cipher for a kind of message.
enum Processor {
    Gcm(Box<Gcm>),
    Cbc(Box<Confidential>, Direction),
}

impl Processor {
    fn new(work: Work, kernel: Kernel, key: &[u8]) -> Option<Processor> {
        Some(match work {
            Work::Gcm => Processor::Gcm(Box::new(Gcm::new(kernel, key)?)),
            Work::Cbc(direction) => {
                let cipher = Confidential::new(kernel, Mode::Cbc, direction, key)?;
                Processor::Cbc(Box::new(cipher), direction)
            }
        })
    }

    /// Starts a message and calls `act` with it.
    fn with<T>(&mut self, act: impl FnOnce(&mut dyn Message) -> T) -> T {
        match self {
            Processor::Gcm(gcm) => {
                let _ = gcm.start(&[0; 12]);
                act(&mut InGcm(gcm, Direction::Encrypt))
            }
            Processor::Cbc(cipher, direction) => {
                let (chain, direction) = (&mut Chain::default(), *direction);
                act(&mut InCbc { cipher, chain, direction })
            }
        }
    }
}

/// Times a text on the module and on the CPU in turn. Returns the shortest time of each.
fn cost(
    session: &mut dyn Session,
    processor: &mut Processor,
    bytes: usize,
) -> Result<Cost, EngineError> {
    let (text, mut result) = (vec![0; bytes], vec![0; bytes]);
    let mut cost = Cost { bytes, module: Duration::MAX, cpu: Duration::MAX };
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let is_done = processor.with(|message| {
            let iv = message.iv(bytes).and_then(|iv| Iv::new(&iv).ok()).unwrap_or(Iv::NONE);
            let mut batch = [Job::new(iv, &text, &mut result)];
            session.process(&mut batch)?;
            let is_done = batch[0].outcome == Outcome::Done { written: bytes };
            Ok::<_, EngineError>(is_done && message.go_on(&text, &result).is_some())
        })?;
        if is_done {
            cost.module = cost.module.min(start.elapsed());
        }
        let start = Instant::now();
        let _ = processor.with(|message| {
            machine::message(bytes, || message.transform(Text::Apart(&text, &mut result)))
        });
        cost.cpu = cost.cpu.min(start.elapsed());
    }
    Ok(cost)
}

/// Time limit to open a session, and to compute a piece; the guard adds 1 s for a piece of 64 KiB.
/// The records of one connection wait this long, once in a process.
const DEADLINE: Duration = Duration::from_secs(3);

/// Time limit to close a session. Each session that hangs keeps a descriptor and a thread.
const LONGEST_CLOSING: Duration = Duration::from_secs(1);

/// The sizes of a record's text to measure, in bytes.
const SIZES: [usize; 6] = [16_384, 8_192, 4_096, 2_048, 1_024, 512];

const ROUNDS: usize = 5;

/// The time after which the measurement ends. Smaller sizes stay on the CPU.
const LONGEST_MEASUREMENT: Duration = Duration::from_millis(200);
