//! A module that is slow to open, far away or gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Job, Offer, Outcome, Session,
    SessionRequest,
};

use crate::model::clock::{burn, thread_time};

/// The troubles of a module.
#[derive(Clone, Debug, Default)]
pub(super) struct Troubles {
    /// The time to open a session.
    pub(super) opening: Duration,
    /// True if the opening computes on a core for that time; otherwise it sleeps.
    pub(super) computes: bool,
    /// The batch at which the module hangs for good, counted from 1 over all sessions. The first
    /// batch of a session, a guard's test, is not counted.
    pub(super) hangs_at: Option<u64>,
    /// The minimum time of a batch, for each MiB of it.
    pub(super) per_mib: Duration,
}

/// A module that does its work with another engine and has troubles as well.
pub(super) struct Troubled {
    description: Description,
    inner: Arc<dyn Engine>,
    troubles: Troubles,
    batches: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Troubled {
    /// Creates a module of this name that works with `inner`.
    pub(super) fn new(name: String, inner: Arc<dyn Engine>, troubles: Troubles) -> Troubled {
        let detail = format!("{} with troubles", inner.description().name);
        let description = Description::module(name).detail(detail);
        let (batches, is_over) = (Arc::default(), Arc::default());
        Troubled { description, inner, troubles, batches, is_over }
    }

    /// The number of batches begun.
    pub(super) fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Ends openings and batches that are still in progress, as failures, so that they do not slow
    /// down the next run.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Engine for Troubled {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.inner.offer(cipher, direction)?;
        Some(Offer::new(DEPTH).batch(BATCH))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let Troubles { opening, computes, .. } = self.troubles;
        let has_come = match computes {
            true => compute(opening, &self.is_over),
            false => sleep_until(Instant::now().checked_add(opening), &self.is_over),
        };
        if !has_come {
            return Err(ended(&self.description.name));
        }
        Ok(Box::new(TroubledSession {
            name: self.description.name.clone(),
            inner: self.inner.open(request)?,
            troubles: self.troubles.clone(),
            batches: Arc::clone(&self.batches),
            is_over: Arc::clone(&self.is_over),
            is_tested: false,
        }))
    }
}

struct TroubledSession {
    name: String,
    inner: Box<dyn Session>,
    troubles: Troubles,
    batches: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    is_tested: bool,
}

impl Session for TroubledSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        if !std::mem::replace(&mut self.is_tested, true) {
            return self.inner.process(batch);
        }
        let (begun, bytes) = (Instant::now(), batch.iter().map(pending_bytes).sum::<usize>());
        let number = self.batches.fetch_add(1, Ordering::Relaxed) + 1;
        if self.troubles.hangs_at.is_some_and(|at| number >= at) {
            sleep_until(None, &self.is_over);
            return Err(ended(&self.name));
        }
        self.inner.process(batch)?;
        let least = self.troubles.per_mib.mul_f64(bytes as f64 / f64::from(1 << 20));
        // The results are right even if nobody waits for them any more.
        sleep_until(begun.checked_add(least), &self.is_over);
        Ok(())
    }
}

fn pending_bytes(job: &Job<'_>) -> usize {
    if job.outcome == Outcome::Pending { job.input.len() } else { 0 }
}

fn ended(name: &str) -> EngineError {
    EngineError::failed("the measurement is over").of(name)
}

/// Sleeps until `until`, or for good; returns false if the measurement ends first.
fn sleep_until(until: Option<Instant>, is_over: &AtomicBool) -> bool {
    loop {
        let left = until.map_or(Duration::MAX, |it| it.saturating_duration_since(Instant::now()));
        if left.is_zero() || is_over.load(Ordering::Relaxed) {
            return left.is_zero();
        }
        thread::sleep(left.min(LOOK));
    }
}

/// Keeps the thread's core busy for `time`; returns false if the measurement ends first.
fn compute(time: Duration, is_over: &AtomicBool) -> bool {
    let end = thread_time() + time;
    while thread_time() < end && !is_over.load(Ordering::Relaxed) {
        burn((thread_time() + LOOK).min(end));
    }
    thread_time() >= end
}

/// Two workers, so that the module has work while a thread copies.
const DEPTH: usize = 2;
const BATCH: usize = 32;

/// The interval between checks for the end of the measurement.
const LOOK: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use evener_core::{Iv, Key};

    use super::*;

    const CIPHER: Cipher = Cipher::Aes128Cbc;

    fn module(troubles: Troubles) -> Troubled {
        Troubled::new("far".to_owned(), evener_engines::find("openssl").unwrap(), troubles)
    }

    fn request(key: &Key) -> SessionRequest<'_> {
        SessionRequest { cipher: CIPHER, direction: Direction::Encrypt, key: Some(key) }
    }

    fn batch(session: &mut dyn Session) -> Result<(), EngineError> {
        let mut output = [0; 64];
        let iv = Iv::new(&[0; 16]).unwrap();
        session.process(&mut [Job::new(iv, &[1; 64], &mut output)])
    }

    #[test]
    fn a_module_without_troubles_conforms() {
        evener_engines::conformance::run(&module(Troubles::default())).assert_passed();
    }

    #[test]
    fn batches_and_openings_take_their_time() {
        let key = Key::new(&[1; 16]).unwrap();
        let time = Duration::from_millis(3);
        for computes in [false, true] {
            let troubles =
                Troubles { opening: time, computes, hangs_at: None, per_mib: 16_384 * time };
            let (module, begun) = (module(troubles), Instant::now());
            let mut session = module.open(&request(&key)).unwrap();
            assert!(begun.elapsed() >= time);
            batch(&mut *session).unwrap();
            let begun = Instant::now();
            batch(&mut *session).unwrap();
            assert!(begun.elapsed() >= time);
            assert_eq!(module.batches(), 1);
        }
    }

    #[test]
    fn what_hangs_ends_with_the_measurement() {
        let key = Key::new(&[1; 16]).unwrap();
        let module = module(Troubles { hangs_at: Some(2), ..Troubles::default() });
        let mut session = module.open(&request(&key)).unwrap();
        // The guard's test, and the first batch.
        batch(&mut *session).unwrap();
        batch(&mut *session).unwrap();
        let hanging = thread::spawn(move || batch(&mut *session).map_err(|it| it.to_string()));
        while module.batches() < 2 {
            thread::yield_now();
        }
        assert!(!hanging.is_finished());
        module.end();
        assert!(hanging.join().unwrap().unwrap_err().contains("over"));

        let never = Troubles { opening: Duration::MAX, ..Troubles::default() };
        let module = self::module(never);
        module.end();
        assert!(module.open(&request(&key)).is_err());
    }
}
