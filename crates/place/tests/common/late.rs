//! A module that hangs in a batch that the test chooses, alongside cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Job, Kind, Memory, Offer, Outcome,
    Session, SessionRequest, WipedBuffer,
};
use evener_engines::{Watch, guard};

/// The end of the batch in which the module hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Its results are right.
    Right,
    /// Its results are wrong.
    Wrong,
    /// The module panics.
    Panic,
    /// The module writes to all its buffers and fails.
    Scribble,
}

/// When the batch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Just before a core does the same work again.
    Meanwhile,
    /// After the run.
    Afterwards,
}

/// The condition that each core awaits before each of its batches, so that the module reaches the
/// batch in which it hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// No condition.
    Free,
    /// The module hangs, or the run has not begun this many batches. The module hangs in its first
    /// batch after that.
    Until,
    /// The module hangs.
    Last,
    /// The module hangs, or has had half a second, after which the policy has no work for it.
    Offered,
}

/// The plan and its progress.
pub struct Plan {
    /// The number of the module's batch in which it hangs, counted from 0 at its first in the run;
    /// or the number of batches that the run begins before.
    pub at: u64,
    pub late: Late,
    pub end: End,
    pub pace: Pace,
    /// The module lends memory, and wants many bytes per batch.
    pub lends: bool,
    /// Runs when the module hangs, before anything is taken back from it.
    pub deed: Option<Box<dyn Fn() + Send + Sync>>,
    /// The module's unique name: the time that a module took to open decides whether a later run
    /// starts it.
    pub name: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Batches that the module has begun, including known answers.
    begun: u64,
    /// The number of known answers.
    opening: u64,
    /// Batches that the cores have begun.
    by_cores: u64,
    /// The inputs of the batch in which the module hangs.
    held: Option<Vec<Vec<u8>>>,
    is_released: bool,
    /// The module's session was closed although it worked.
    was_let_go: bool,
    has_ended: bool,
}

impl State {
    fn by_module(&self) -> u64 {
        self.begun.saturating_sub(self.opening)
    }
}

impl Plan {
    pub fn new(at: u64, (late, end): (Late, End), pace: Pace, lends: bool) -> Plan {
        static PLANS: AtomicU64 = AtomicU64::new(0);
        let name = format!("late-{}", PLANS.fetch_add(1, Ordering::Relaxed));
        let (state, changed) = Default::default();
        Plan { at, late, end, pace, lends, deed: None, name, state, changed }
    }

    /// The module, under a run's guard; and the cores, as one worker.
    pub fn seats(self: &Arc<Plan>, request: &SessionRequest<'_>) -> [Arc<dyn Engine>; 2] {
        let watched = |plan: &Arc<Plan>| {
            let module = Arc::new(Fake::new(&plan.name, Kind::Module, plan));
            guard(module, openssl(), Watch::of_a_run(None))
        };
        let counting = Plan::new(u64::MAX, (self.late, self.end), Pace::Free, self.lends);
        let counting = Arc::new(counting);
        watched(&counting).open(request).unwrap();
        self.lock().opening = counting.lock().begun;
        [watched(self), self.core()]
    }

    pub fn core(self: &Arc<Plan>) -> Arc<dyn Engine> {
        Arc::new(Fake::new("core", Kind::Cpu, self))
    }

    /// The number of batches that the cores have begun.
    pub fn by_cores(&self) -> u64 {
        self.lock().by_cores
    }

    pub fn has_hung(&self) -> bool {
        self.lock().held.is_some()
    }

    /// True if the run released the module before it hung: on a busy machine even a sound module is
    /// late.
    pub fn was_let_go(&self) -> bool {
        self.lock().was_let_go
    }

    /// Releases the batch that hangs, and waits for its end.
    pub fn release(&self) {
        let mut state = self.lock();
        state.is_released = true;
        self.changed.notify_all();
        drop(self.wait(state, |state| state.has_ended));
    }

    fn begin(&self, kind: Kind, batch: &mut [Job<'_>], inner: &mut dyn Session) -> Processed {
        match kind {
            Kind::Module => self.begin_on_module(batch, inner),
            _ => {
                self.begin_on_core(batch);
                inner.process(batch)
            }
        }
    }

    fn begin_on_core(&self, batch: &[Job<'_>]) {
        let mut state = self.lock();
        let number = state.by_cores;
        state.by_cores += 1;
        let is_ready = |state: &State| {
            state.held.is_some()
                || state.was_let_go
                || match self.pace {
                    Pace::Free => true,
                    // The run would no longer start a module that is not ready soon.
                    Pace::Until => state.by_module() > 0 && number + state.by_module() < self.at,
                    Pace::Last | Pace::Offered => false,
                }
        };
        state = match self.pace {
            Pace::Offered => {
                let waited = self.changed.wait_timeout_while(state, OFFER, |it| !is_ready(it));
                waited.unwrap().0
            }
            _ => self.wait(state, is_ready),
        };
        let is_held = |job: &Job<'_>| state.held.iter().flatten().any(|held| held == job.input);
        let is_anew = !state.is_released && batch.iter().any(is_held);
        drop(state);
        if is_anew && self.end == End::Meanwhile {
            self.release();
        }
    }

    fn begin_on_module(&self, batch: &mut [Job<'_>], inner: &mut dyn Session) -> Processed {
        let mut state = self.lock();
        let number = state.begun;
        state.begun += 1;
        let own = number.checked_sub(state.opening);
        let hangs = match self.pace {
            Pace::Until => {
                state.held.is_none() && own.is_some_and(|own| own + state.by_cores >= self.at)
            }
            _ => own == Some(self.at),
        };
        if hangs {
            self.deed.iter().for_each(|deed| deed());
            state.held = Some(batch.iter().map(|job| job.input.to_vec()).collect());
        }
        self.changed.notify_all();
        if !hangs {
            drop(state);
            return inner.process(batch);
        }
        drop(self.wait(state, |state| state.is_released));
        // Marks the end even on a panic.
        let _ended = Ended(self);
        match self.late {
            Late::Right => inner.process(batch),
            Late::Wrong => {
                inner.process(batch)?;
                batch.iter_mut().for_each(|job| job.output[0] ^= 1);
                Ok(())
            }
            Late::Panic => panic!("the late module panics, as it was asked to"),
            Late::Scribble => {
                for job in batch {
                    job.output.fill(0xA5);
                    job.outcome = Outcome::Done { written: job.output.len() };
                }
                Err(EngineError::failed("it has failed after the end").of(&self.name))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn wait<'s>(
        &self,
        state: MutexGuard<'s, State>,
        until: impl Fn(&State) -> bool,
    ) -> MutexGuard<'s, State> {
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| !until(state));
        let (state, timeout) = waited.unwrap();
        if timeout.timed_out() {
            drop(state);
            panic!("nothing has come of the plan: {:?}, {:?}", self.late, self.pace);
        }
        state
    }
}

type Processed = Result<(), EngineError>;

struct Ended<'p>(&'p Plan);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

fn openssl() -> Arc<dyn Engine> {
    evener_engines::find("openssl").unwrap()
}

/// The openssl engine in the role of the module or of the cores.
struct Fake {
    description: Description,
    inner: Arc<dyn Engine>,
    plan: Arc<Plan>,
}

struct FakeSession {
    kind: Kind,
    inner: Box<dyn Session>,
    plan: Arc<Plan>,
}

impl Fake {
    fn new(name: &str, kind: Kind, plan: &Arc<Plan>) -> Fake {
        let description = Description::new(name, kind);
        Fake { description, inner: openssl(), plan: Arc::clone(plan) }
    }

    fn lends(&self) -> bool {
        self.plan.lends && self.description.kind == Kind::Module
    }
}

impl Engine for Fake {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        let offer = self.inner.offer(cipher, direction)?;
        let bytes = if self.lends() { AT_ONCE } else { 0 };
        Some(offer.bytes(bytes))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let (kind, plan) = (self.description.kind, Arc::clone(&self.plan));
        Ok(Box::new(FakeSession { kind, inner: self.inner.open(request)?, plan }))
    }

    fn buffer(&self, bytes: usize) -> Option<WipedBuffer> {
        self.lends().then(|| WipedBuffer::lent(Box::new(Lent(vec![0; bytes]))))
    }
}

impl Session for FakeSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Processed {
        self.plan.begin(self.kind, batch, &mut *self.inner)
    }
}

impl Drop for FakeSession {
    fn drop(&mut self) {
        if self.kind == Kind::Module {
            let mut state = self.plan.lock();
            state.was_let_go |= state.by_module() > 0;
            self.plan.changed.notify_all();
        }
    }
}

struct Lent(Vec<u8>);

impl Memory for Lent {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

const AT_ONCE: usize = 128 << 10;

const OFFER: Duration = Duration::from_millis(500);

/// A plan that fails to take effect must fail, not hang.
const PATIENCE: Duration = Duration::from_secs(60);
