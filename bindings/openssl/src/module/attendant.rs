//! The thread that finds and measures the module, and opens and closes sessions: all that may take
//! long, so that no record waits for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Offer, Outcome, Session, SessionRequest,
};
use evener_engines::{Watch, find_module};
use evener_gate::{Gate, GateOptions, Permit};
use evener_lanes::Kernel;
use evener_lanes::stream::{Gcm, Text};

use super::reference::Reference;
use super::route::{Cost, NEVER, crossover};
use super::sys::without_signals;
use super::{Module, Task};
use crate::config::{Routing, warn};
use crate::sys::random;

/// Starts the thread. It ends with the process.
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
    /// Where the engine admits a number of processes only.
    gate: Option<Gate>,
    /// There is one while there are sessions.
    permit: Option<Permit>,
    sessions: usize,
}

impl Attendant {
    /// Finds the module and has records go to it.
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
        let engine = find_module(&routing.engine, Arc::new(Reference::new(kernel)), watch)?;
        let unavailable =
            |reason| EngineError::Unavailable { engine: routing.engine.clone(), reason };
        let Some(offer) = engine.offer(Cipher::Aes128Ctr, Direction::Encrypt) else {
            return Err(unavailable("it has no AES in CTR".to_owned()));
        };
        let gate = match routing.permits.or(offer.holders) {
            None => None,
            Some(permits) => {
                let options = GateOptions::new(&*routing.engine, permits);
                Some(Gate::open(options).map_err(|error| unavailable(error.to_string()))?)
            }
        };
        let mut attendant = Attendant { module, engine, gate, permit: None, sessions: 0 };
        attendant.put_into_service(routing.crossover, kernel, offer)?;
        Ok(attendant)
    }

    fn put_into_service(
        &mut self,
        given: Option<usize>,
        kernel: Kernel,
        offer: Offer,
    ) -> Result<(), EngineError> {
        let crossover = match given {
            Some(bytes) => bytes,
            None => self.measure(kernel)?,
        };
        if crossover == NEVER {
            let engine = self.engine.description().name.clone();
            let reason = "it is slower than the processor for records of every size";
            return Err(EngineError::Unavailable { engine, reason: reason.to_owned() });
        }
        self.module.sessions().set_depth(offer.depth.max(1));
        self.module.crossover.store(crossover, Ordering::Release);
        Ok(())
    }

    fn serve(mut self, tasks: Receiver<Task>) {
        for task in tasks {
            match task {
                Task::Open { owner, cipher, key } => {
                    let session = match self.open(cipher, &key) {
                        Ok(session) => session,
                        // It may be that there is no room now.
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
                Task::Close(session) => self.close(session),
            }
        }
    }

    /// Opens a session; `None` where this process has to wait for its turn.
    fn open(&mut self, cipher: Cipher, key: &Key) -> Result<Option<Box<dyn Session>>, EngineError> {
        if let (Some(gate), None) = (&self.gate, &self.permit) {
            // Where the gate can't be passed, others use the engine.
            let Ok(Some(permit)) = gate.try_enter() else { return Ok(None) };
            self.permit = Some(permit);
        }
        // CTR decrypts as it encrypts.
        let request = SessionRequest { cipher, direction: Direction::Encrypt, key: Some(key) };
        let session = self.engine.open(&request);
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

    /// Measures from which size on a record's text takes the module no longer than the CPU.
    fn measure(&mut self, kernel: Kernel) -> Result<usize, EngineError> {
        let mut key = [0; 16];
        let _ = random(&mut key);
        let (Ok(session_key), Some(mut gcm)) = (Key::new(&key), Gcm::new(kernel, &key)) else {
            return Ok(NEVER);
        };
        // Another process may have the last session, or permit.
        let Some(mut session) = self.open(Cipher::Aes128Ctr, &session_key)? else {
            return Ok(SIZES[0]);
        };
        let mut costs = Vec::new();
        let began = Instant::now();
        for &bytes in &SIZES {
            let cost = cost(&mut *session, &mut gcm, bytes)?;
            costs.insert(0, cost);
            if cost.module > cost.cpu || began.elapsed() > LONGEST_MEASUREMENT {
                break;
            }
        }
        self.close(session);
        Ok(crossover(&costs))
    }
}

/// The least of some times for a text, of module and CPU in turns.
fn cost(session: &mut dyn Session, gcm: &mut Gcm, bytes: usize) -> Result<Cost, EngineError> {
    let (text, mut result) = (vec![0; bytes], vec![0; bytes]);
    let mut cost = Cost { bytes, module: Duration::MAX, cpu: Duration::MAX };
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let _ = gcm.start(&[0; 12]);
        let counter = gcm.counter(bytes).unwrap_or_default();
        let mut batch = [Job::new(Iv::new(&counter).unwrap_or(Iv::NONE), &text, &mut result)];
        session.process(&mut batch)?;
        if batch[0].outcome == (Outcome::Done { written: bytes }) {
            let _ = gcm.add_ciphertext(&result);
            cost.module = cost.module.min(start.elapsed());
        }
        let start = Instant::now();
        let _ = gcm.start(&[0; 12]);
        let _ = gcm.transform(Direction::Encrypt, Text::Apart(&text, &mut result));
        cost.cpu = cost.cpu.min(start.elapsed());
    }
    Ok(cost)
}

/// How long a session may take to open, or to do a piece. The records of one connection wait so
/// long, once in a process.
const DEADLINE: Duration = Duration::from_secs(3);

/// The sizes that are measured, of a record's text, in bytes.
const SIZES: [usize; 6] = [16_384, 8_192, 4_096, 2_048, 1_024, 512];

const ROUNDS: usize = 5;

/// When it has taken so long, smaller sizes are the CPU's.
const LONGEST_MEASUREMENT: Duration = Duration::from_millis(200);
