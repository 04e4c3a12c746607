//! Gates for engines that only a limited number of processes may use at once.
//!
//! [`gated`] wraps engines. A process gets its permit when it opens its first session, and returns
//! it when its last session closes. So no session with a permit waits for a session without one.
//! For the same reason a process gets its permits of all engines together, in the order of the
//! engines' names, which excludes deadlocks between processes.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use evener_core::{
    Account, Cipher, Description, Direction, Engine, EngineError, Guarded, IgnorePoison, Job,
    Offer, Recall, Session, SessionRequest, Shortcuts, WipedBuffer,
};
use evener_gate::{Discipline, Gate, GateError, GateOptions, Permit, Scope, Wait};

/// How processes share engines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// The order of admission; [`Discipline::None`] admits all processes at once.
    pub discipline: Discipline,
    /// Number of permits of each engine; `None` for the number that an engine
    /// [reports](Offer::holders). Engines that report nothing then have no gate.
    pub permits: Option<NonZeroUsize>,
    /// The processes that share a gate.
    pub scope: Scope,
    /// The time for which a process may be stopped before it loses its place; `None` for no limit.
    /// The same for all processes.
    pub lease: Option<Duration>,
    /// The directory of the gates, instead of the default; for tests and unusual systems.
    pub directory: Option<PathBuf>,
}

/// A callback during a wait for a permit.
pub type HearOfWait = dyn Fn(&Wait) + Send + Sync;

/// Callbacks of a process that waits for its permit.
#[derive(Clone, Default)]
pub struct Patience {
    /// Ends the wait: opening the session then fails with [`EngineError::Interrupted`].
    pub recall: Recall,
    /// Called on the waiting thread after 1 s, 2 s, 4 s and so on.
    pub tell: Option<Arc<HearOfWait>>,
}

/// The engines, in the same order, each wrapped in a gate if it is limited for this cipher.
///
/// Opening a session then waits for a permit, or until the wait is ended. Put the gate outside of
/// a guard, because the guard's deadline would include the wait.
///
/// # Errors
/// [`EngineError::Unavailable`] when a gate can't be opened, see [`GateError`].
pub fn gated(
    engines: &[Arc<dyn Engine>],
    cipher: Cipher,
    direction: Direction,
    turns: &Turns,
    patience: &Patience,
) -> Result<Vec<Arc<dyn Engine>>, EngineError> {
    if turns.discipline == Discipline::None {
        return Ok(engines.to_vec());
    }
    let limits: Vec<_> = engines
        .iter()
        .map(|engine| {
            let offer = engine.offer(cipher, direction)?;
            turns.permits.map(NonZeroUsize::get).or(offer.holders)
        })
        .collect();
    let mut names: Vec<_> = engines
        .iter()
        .zip(&limits)
        .filter_map(|(engine, limit)| Some((engine.description().name.clone(), (*limit)?)))
        .collect();
    names.sort();
    // An engine that is selected twice needs one permit.
    names.dedup_by(|one, other| one.0 == other.0);
    let gates = names.into_iter().map(|(name, permits)| open(name, permits, turns));
    let admission = Arc::new(Admission {
        gates: gates.collect::<Result<_, _>>()?,
        patience: patience.clone(),
        pass: Mutex::default(),
    });
    let gate = |(engine, limit): (&Arc<dyn Engine>, &Option<usize>)| match limit {
        None => Arc::clone(engine),
        Some(_) => {
            let (engine, admission) = (Arc::clone(engine), Arc::clone(&admission));
            Arc::new(Gated { engine, admission }) as Arc<dyn Engine>
        }
    };
    Ok(engines.iter().zip(&limits).map(gate).collect())
}

fn open(engine: String, permits: usize, turns: &Turns) -> Result<Gate, EngineError> {
    let permits = permits.clamp(1, GateOptions::MAX_PERMITS);
    let options = GateOptions {
        discipline: turns.discipline,
        scope: turns.scope,
        lease: turns.lease,
        directory: turns.directory.clone(),
        ..GateOptions::of_engine(&engine, permits)
    };
    Gate::open(options).map_err(unavailable(&engine))
}

fn unavailable(engine: &str) -> impl Fn(GateError) -> EngineError {
    move |error| EngineError::unavailable(error.to_string()).of(engine)
}

/// This process' permits of the engines of one run.
struct Admission {
    /// In the order of the engines' names.
    gates: Vec<Gate>,
    patience: Patience,
    /// Shared by the open sessions.
    pass: Mutex<Weak<Pass>>,
}

/// A permit of every gate, given back when the last session that has it closes.
struct Pass {
    _permits: Vec<Permit>,
}

impl Admission {
    /// Waits for the process' permits, unless it has them. One thread waits at the gate, the other
    /// threads of the process wait for that thread.
    fn enter(&self) -> Result<Arc<Pass>, EngineError> {
        let mut current = self.pass.lock().ignore_poison();
        if let Some(pass) = current.upgrade() {
            return Ok(pass);
        }
        let permits = self.gates.iter().map(|gate| self.pass(gate)).collect::<Result<_, _>>()?;
        let pass = Arc::new(Pass { _permits: permits });
        *current = Arc::downgrade(&pass);
        Ok(pass)
    }

    fn pass(&self, gate: &Gate) -> Result<Permit, EngineError> {
        let Patience { recall, tell } = &self.patience;
        // Either recall ends the wait.
        let heeded = Recall::heeded();
        let _bell = heeded.clone().map(|heeded| recall.bell(move || heeded.call()));
        let recall = match &heeded {
            Some(heeded) if !recall.is_called() => heeded,
            _ => recall,
        };
        let mut tell = |wait: &Wait| tell.iter().for_each(|tell| tell(wait));
        let failed = unavailable(&gate.options().engine);
        let permit = gate.enter_unless(recall, &mut tell).map_err(failed)?;
        permit.ok_or_else(|| EngineError::Interrupted { engine: gate.options().engine.clone() })
    }
}

struct Gated {
    engine: Arc<dyn Engine>,
    admission: Arc<Admission>,
}

#[deny(clippy::missing_trait_methods, reason = "what is not passed on would be lost here")]
impl Engine for Gated {
    fn description(&self) -> &Description {
        self.engine.description()
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.engine.offer(cipher, direction)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let pass = self.admission.enter()?;
        let session = self.engine.open(request)?;
        Ok(Box::new(GatedSession { session, _pass: pass }))
    }

    fn holds_key(&self) -> bool {
        self.engine.holds_key()
    }

    fn buffer(&self, bytes: usize) -> Option<WipedBuffer> {
        self.engine.buffer(bytes)
    }

    fn account(&self) -> Option<Account> {
        self.engine.account()
    }
}

/// The fields are dropped in this order: the session closes before the permit is returned.
struct GatedSession {
    session: Box<dyn Session>,
    _pass: Arc<Pass>,
}

#[deny(clippy::missing_trait_methods, reason = "what is not passed on would be lost here")]
impl Session for GatedSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        self.session.process(batch)
    }

    fn shortcuts(&mut self) -> Option<&mut dyn Shortcuts> {
        self.session.shortcuts()
    }

    fn guarded(&mut self) -> Option<&mut dyn Guarded> {
        self.session.guarded()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use evener_gate::{Scope, snapshot};

    use super::*;

    /// Notes how many of its sessions were open when each opened.
    struct Limited {
        description: Description,
        open: Arc<AtomicUsize>,
        seen: Mutex<Vec<usize>>,
    }

    struct LimitedSession(Arc<AtomicUsize>);

    impl Engine for Limited {
        fn description(&self) -> &Description {
            &self.description
        }

        fn offer(&self, _: Cipher, _: Direction) -> Option<Offer> {
            Some(Offer::new(2).holders(Some(1)))
        }

        fn open(&self, _: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
            self.seen.lock().unwrap().push(self.open.fetch_add(1, Ordering::SeqCst));
            Ok(Box::new(LimitedSession(Arc::clone(&self.open))))
        }

        fn buffer(&self, bytes: usize) -> Option<WipedBuffer> {
            Some(WipedBuffer::zeros(bytes))
        }
    }

    impl Session for LimitedSession {
        fn process(&mut self, _: &mut [Job<'_>]) -> Result<(), EngineError> {
            Ok(())
        }
    }

    impl Drop for LimitedSession {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn limited() -> Arc<Limited> {
        let description = Description::module("limited");
        Arc::new(Limited { description, open: Arc::default(), seen: Mutex::default() })
    }

    fn behind_gate(engine: &Arc<Limited>, turns: &Turns, patience: &Patience) -> Arc<dyn Engine> {
        let engine: Arc<dyn Engine> = Arc::clone(engine) as _;
        let mut gated =
            gated(&[engine], Cipher::Aes256Gcm, Direction::Encrypt, turns, patience).unwrap();
        gated.pop().unwrap()
    }

    fn open(engine: &Arc<dyn Engine>) -> Box<dyn Session> {
        let (cipher, direction) = (Cipher::Aes256Gcm, Direction::Encrypt);
        engine.open(&SessionRequest { cipher, direction, key: None }).unwrap()
    }

    #[test]
    fn sessions_of_one_run_share_a_turn_and_another_waits_for_all_of_them() {
        let directory = tempfile::tempdir().unwrap();
        let turns = Turns { directory: Some(directory.path().to_owned()), ..Turns::default() };
        let engine = limited();
        let patience = Patience::default();
        let behind = || behind_gate(&engine, &turns, &patience);
        let (first, second) = (behind(), behind());
        let sessions = [open(&first), open(&first)];
        thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(open(&second)));
            let waits = || {
                let found = snapshot("limited", Scope::User, Some(directory.path())).unwrap();
                found.is_some_and(|gate| gate.waiters.len() == 1)
            };
            while !waits() {
                thread::yield_now();
            }
            let [one, other] = sessions;
            drop(one);
            assert!(waits());
            drop(other);
            waiter.join().unwrap();
        });
        drop(open(&first));
        assert_eq!(*engine.seen.lock().unwrap(), [0, 1, 0, 0]);
        assert_eq!(first.buffer(5).map(|buffer| buffer.len()), Some(5), "the engine lends it");
    }

    #[test]
    fn a_process_that_is_called_away_opens_no_session() {
        let directory = tempfile::tempdir().unwrap();
        let turns = Turns { directory: Some(directory.path().to_owned()), ..Turns::default() };
        let engine = limited();
        let patience = Patience::default();
        let first = behind_gate(&engine, &turns, &Patience::default());
        let second = behind_gate(&engine, &turns, &patience);
        let session = open(&first);
        let request =
            SessionRequest { cipher: Cipher::Aes256Gcm, direction: Direction::Encrypt, key: None };
        thread::scope(|scope| {
            // Two threads wait: one at the gate, the other for the first.
            let waiters = [(); 2].map(|()| scope.spawn(|| second.open(&request).err()));
            patience.recall.call();
            for waiter in waiters {
                let error = waiter.join().unwrap();
                assert!(matches!(error, Some(EngineError::Interrupted { .. })), "{error:?}");
            }
        });
        drop(session);
        drop(open(&first));
        assert_eq!(engine.seen.lock().unwrap().len(), 2);
    }

    #[test]
    fn no_discipline_is_no_gate() {
        let turns = Turns { discipline: Discipline::None, ..Turns::default() };
        let engine: Arc<dyn Engine> = limited();
        let engines = [engine];
        let patience = Patience::default();
        let (cipher, direction) = (Cipher::Aes256Gcm, Direction::Encrypt);
        let gated = gated(&engines, cipher, direction, &turns, &patience).unwrap();
        assert!(Arc::ptr_eq(&gated[0], &engines[0]));
    }
}
