//! An engine with a fault, for tests of callers (feature `faulty`).
//!
//! It passes its jobs to another engine and counts them; from a given job on it has the fault. The
//! test jobs of a new session count too.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, IgnorePoison, Iv, Job, Kind, Offer,
    Outcome, Rejection, Session, SessionRequest,
};

/// The kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Processing fails.
    Error,
    /// Processing fails, and no session can be opened any more.
    Vanish,
    /// One byte too few is returned.
    Short,
    /// A bit of the result is wrong.
    Wrong,
    /// A good message is rejected.
    Reject,
    /// The job is left pending, though processing succeeds.
    Undone,
    /// Processing panics.
    Panic,
    /// Processing takes this long; the result is right.
    Hang(Duration),
    /// Processing takes this long, and a bit of the result is wrong.
    Late(Duration),
    /// The result of the previous job is returned.
    Repeat,
    /// Two results of a batch are exchanged; in a batch of one, the result is the previous job's.
    Swap,
    /// A bit is wrong in the results of messages of more than this many bytes.
    Long(usize),
    /// A bit of the IV is wrong in both directions, so that the engine decrypts its own output and
    /// no other engine does.
    Symmetric,
    /// A bit of the result is wrong in this many of a million jobs, chosen at random.
    Rare(u32),
    /// A bit of the result is wrong in exactly these jobs, numbered from 0 at the first job that
    /// may have the fault.
    Among(&'static [u64]),
}

impl Fault {
    /// One of each kind except `Long`, `Rare` and `Among`. The hang is the longest possible.
    pub const ALL: &'static [Fault] = &[
        Fault::Error,
        Fault::Vanish,
        Fault::Short,
        Fault::Wrong,
        Fault::Reject,
        Fault::Undone,
        Fault::Panic,
        Fault::Hang(Duration::MAX),
        Fault::Late(Duration::from_millis(5)),
        Fault::Repeat,
        Fault::Swap,
        Fault::Symmetric,
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Error => "error",
            Fault::Vanish => "vanish",
            Fault::Short => "short",
            Fault::Wrong => "wrong",
            Fault::Reject => "reject",
            Fault::Undone => "undone",
            Fault::Panic => "panic",
            Fault::Hang(_) => "hang",
            Fault::Late(_) => "late",
            Fault::Repeat => "repeat",
            Fault::Swap => "swap",
            Fault::Long(_) => "long",
            Fault::Symmetric => "symmetric",
            Fault::Rare(_) => "rare",
            Fault::Among(_) => "among",
        })
    }
}

/// The engine `faulty:FAULT@JOB`, a module.
pub struct Faulty {
    description: Description,
    inner: Arc<dyn Engine>,
    state: Arc<State>,
}

struct State {
    fault: Fault,
    /// The number of the first job that has the fault, from 0.
    at: u64,
    jobs: AtomicU64,
    struck: Mutex<bool>,
    strikes: Condvar,
}

impl Faulty {
    /// An engine that works as `inner` does until its job number `at`, counted from 0.
    pub fn new(inner: Arc<dyn Engine>, fault: Fault, at: u64) -> Arc<Faulty> {
        let state = State {
            fault,
            at,
            jobs: AtomicU64::new(0),
            struck: Mutex::new(false),
            strikes: Condvar::new(),
        };
        let description = Description::module(format!("{NAME}:{fault}@{at}"))
            .detail(format!("{} with a fault", inner.description().name));
        Arc::new(Faulty { description, inner, state: Arc::new(state) })
    }

    /// Number of jobs so far.
    pub fn jobs(&self) -> u64 {
        self.state.jobs.load(Ordering::SeqCst)
    }

    /// Returns whether the fault has occurred.
    pub fn has_struck(&self) -> bool {
        *self.state.struck.lock().ignore_poison()
    }

    /// A correct engine that starts when the fault has occurred, so that a test controls which job
    /// fails. It waits half a minute at most. For a fault that hangs it is a CPU engine, which
    /// takes the work back; otherwise it is a module, which leaves the faulty engine time to fail.
    pub fn successor(&self) -> Arc<dyn Engine> {
        let kind = match self.state.fault {
            Fault::Hang(_) => Kind::Cpu,
            _ => Kind::Module,
        };
        let mut description = self.inner.description().clone();
        description.kind = kind;
        let (inner, state) = (Arc::clone(&self.inner), Arc::clone(&self.state));
        Arc::new(Successor { description, inner, state })
    }
}

impl Engine for Faulty {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.inner.offer(cipher, direction)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        if self.state.fault == Fault::Vanish && self.jobs() > self.state.at {
            return Err(gone());
        }
        let inner = self.inner.open(request)?;
        let state = Arc::clone(&self.state);
        Ok(Box::new(FaultySession { inner, state, before: Vec::new() }))
    }
}

struct FaultySession {
    inner: Box<dyn Session>,
    state: Arc<State>,
    /// The result of the previous job.
    before: Vec<u8>,
}

impl FaultySession {
    /// Processes a job with the fault.
    fn perform(&mut self, job: &mut Job<'_>) -> Result<(), EngineError> {
        let inner = &mut self.inner;
        let mut perform = |job: &mut Job<'_>| inner.process(std::slice::from_mut(job));
        match self.state.fault {
            Fault::Error => return Err(EngineError::failed("it has an error")),
            Fault::Vanish => return Err(gone()),
            Fault::Reject => job.outcome = Outcome::Rejected(Rejection::Tag),
            Fault::Undone => {}
            Fault::Panic => panic!("the faulty engine panics, as it was asked to"),
            Fault::Short => {
                perform(job)?;
                if let Outcome::Done { written } = &mut job.outcome {
                    *written = written.saturating_sub(1);
                }
            }
            Fault::Wrong => {
                perform(job)?;
                spoil(job);
            }
            Fault::Late(duration) => {
                thread::sleep(duration);
                perform(job)?;
                spoil(job);
            }
            Fault::Long(most) => {
                perform(job)?;
                if job.input.len() > most {
                    self.state.strike();
                    spoil(job);
                }
            }
            Fault::Rare(_) | Fault::Among(_) => {
                perform(job)?;
                self.state.strike();
                spoil(job);
            }
            Fault::Symmetric => {
                let right = job.iv;
                let mut iv = right.bytes().to_vec();
                iv.first_mut().into_iter().for_each(|byte| *byte ^= 1);
                job.iv = Iv::new(&iv).unwrap_or(right);
                let performed = perform(job);
                job.iv = right;
                performed?;
            }
            Fault::Repeat | Fault::Swap => {
                perform(job)?;
                if let Outcome::Done { written } = job.outcome {
                    let own = job.output[..written].to_vec();
                    let others = self.before.iter().cycle().chain(std::iter::repeat(&0));
                    job.output[..written].iter_mut().zip(others).for_each(|(to, from)| *to = *from);
                    // If both results are equal by chance, nothing is wrong.
                    if job.output[..written] != own {
                        self.state.strike();
                    }
                    if self.state.fault == Fault::Swap {
                        self.before = own;
                    }
                }
            }
            Fault::Hang(duration) => {
                thread::sleep(duration);
                perform(job)?;
            }
        }
        Ok(())
    }
}

impl Session for FaultySession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        for job in batch.iter_mut().filter(|job| job.outcome == Outcome::Pending) {
            let number = self.state.jobs.fetch_add(1, Ordering::SeqCst);
            if number < self.state.at || self.state.fault.spares(number, self.state.at) {
                self.inner.process(std::slice::from_mut(job))?;
                if let Outcome::Done { written } = job.outcome {
                    self.before = job.output[..written].to_vec();
                }
            } else {
                if !self.state.fault.shows_later() {
                    self.state.strike();
                }
                self.perform(job)?;
            }
        }
        Ok(())
    }
}

impl State {
    fn strike(&self) {
        *self.struck.lock().ignore_poison() = true;
        self.strikes.notify_all();
    }

    fn wait(&self) {
        let struck = self.struck.lock().ignore_poison();
        drop(self.strikes.wait_timeout_while(struck, PATIENCE, |struck| !*struck));
    }
}

impl Fault {
    /// Returns whether only processing a job shows if it has the fault.
    fn shows_later(self) -> bool {
        matches!(self, Fault::Long(_) | Fault::Repeat | Fault::Swap)
    }

    /// Returns whether the random choice or the list spares a job. `at` is the first job that may
    /// have the fault.
    fn spares(self, number: u64, at: u64) -> bool {
        let millionths = match self {
            Fault::Among(wrong) => return !wrong.contains(&(number - at)),
            Fault::Rare(millionths) => millionths,
            _ => return false,
        };
        // From the process' random state, so that runs differ.
        let lot = RandomState::new().hash_one(number) % 1_000_000;
        lot >= u64::from(millionths)
    }
}

/// Makes a result wrong.
fn spoil(job: &mut Job<'_>) {
    if let Outcome::Done { written } = job.outcome {
        job.output.get_mut(written / 2).into_iter().for_each(|byte| *byte ^= 1);
    }
}

struct Successor {
    description: Description,
    inner: Arc<dyn Engine>,
    state: Arc<State>,
}

impl Engine for Successor {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.inner.offer(cipher, direction)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        self.state.wait();
        self.inner.open(request)
    }
}

fn gone() -> EngineError {
    EngineError::unavailable("it has vanished")
}

const NAME: &str = "faulty";

/// A test whose fault does not occur must fail, not hang.
const PATIENCE: Duration = Duration::from_secs(30);
