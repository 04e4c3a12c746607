//! Batches that own their data, and engines that do with them what they like.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Iv, Job, Key, Memory, Offer, Outcome,
    Parcel, PlacedJob, Rejection, Session, SessionRequest, Verification, WipedBuffer,
};
use evener_engines::{Watch, guard};

use super::{DEADLINE, WATCH, job, key, open, openssl};

/// Does what it likes with batches; may lend memory.
struct Meddler {
    engine: Arc<dyn Engine>,
    lends: bool,
    act: Arc<Act>,
    /// The names of closed and freed objects, in this order.
    log: Log,
}

type Act = dyn Fn(&mut dyn Session, &mut [Job<'_>]) -> Result<(), EngineError> + Send + Sync;

type Log = Arc<Mutex<Vec<&'static str>>>;

struct MeddlerSession {
    session: Box<dyn Session>,
    act: Arc<Act>,
    _closes: Closes,
}

/// Logs its name when it is dropped.
struct Closes(&'static str, Log, Vec<u8>);

fn meddler(
    lends: bool,
    act: impl Fn(&mut dyn Session, &mut [Job<'_>]) -> Result<(), EngineError> + Send + Sync + 'static,
) -> (Arc<dyn Engine>, Log) {
    let log = Log::default();
    let engine = Meddler { engine: openssl(), lends, act: Arc::new(act), log: Arc::clone(&log) };
    (Arc::new(engine), log)
}

/// Returns whether a batch is one of the guard's tests of a new session.
fn is_known_answers(batch: &[Job<'_>]) -> bool {
    batch.iter().any(|job| job.key.is_none_or(|own| own.bytes() != key().bytes()))
}

impl Engine for Meddler {
    fn description(&self) -> &Description {
        self.engine.description()
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        let bytes = if self.lends { 1 << 20 } else { 0 };
        Some(self.engine.offer(cipher, direction)?.bytes(bytes))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let session = self.engine.open(request)?;
        let closes = Closes("session", Arc::clone(&self.log), Vec::new());
        Ok(Box::new(MeddlerSession { session, act: Arc::clone(&self.act), _closes: closes }))
    }
}

impl Session for MeddlerSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        if is_known_answers(batch) {
            return self.session.process(batch);
        }
        (self.act)(&mut *self.session, batch)
    }
}

impl Memory for Closes {
    fn bytes(&self) -> &[u8] {
        &self.2
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.2
    }
}

impl Drop for Closes {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

/// A parcel of three messages in two pairs of buffers.
fn parcel(key: &Key) -> Parcel {
    let mut parcel = Parcel::default();
    let number = Some(parcel.add_key(key));
    let iv = Iv::new(&[1; 16]).unwrap();
    for (range, is_last) in [(0..16, false), (16..48, true), (16..64, true)] {
        let job = PlacedJob::new(iv, range.clone(), range);
        parcel.push(PlacedJob { key: number, ..job });
        if is_last {
            let (mut input, output) = (WipedBuffer::zeros(64), WipedBuffer::zeros(64));
            input.fill(3);
            parcel.add(input, output);
        }
    }
    parcel
}

#[test]
fn a_parcel_is_not_copied_for_an_engine_that_lends_memory_and_for_no_other() {
    for lends in [false, true] {
        let addresses = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&addresses);
        let (engine, _) = meddler(lends, move |session, batch| {
            let places =
                batch.iter().map(|job| (job.input.as_ptr().addr(), job.output.as_ptr().addr()));
            seen.lock().unwrap().extend(places);
            session.process(batch)
        });
        let engine = guard(engine, openssl(), WATCH);
        let mut session = open(&*engine).unwrap();
        let mut parcel = parcel(&key());
        session.process_parcel(&mut parcel).unwrap();
        assert_eq!(parcel.outcomes(), [16, 32, 48].map(|written| Outcome::Done { written }));
        assert_eq!(parcel.verifications(), [Verification::Passed; 3]);
        let buffers: Vec<_> = parcel.drain().collect();
        let places = [(0, 0), (0, 16), (1, 16)].map(|(pair, at): (usize, usize)| {
            let (input, output) = &buffers[pair];
            (input.as_ptr().addr() + at, output.as_ptr().addr() + at)
        });
        assert_eq!(*addresses.lock().unwrap() == places, lends);
    }
}

#[test]
fn a_parcel_that_hangs_or_fails_is_done_by_another_engine_in_other_buffers() {
    let key = key();
    let mut expected = parcel(&key);
    open(&*openssl()).unwrap().process_parcel(&mut expected).unwrap();
    for (hangs, retreats) in [(true, false), (true, true), (false, false), (false, true)] {
        let (engine, _) = meddler(true, move |session, batch| {
            session.process(&mut batch[..1])?;
            if hangs {
                thread::sleep(DEADLINE + DEADLINE / 4);
                session.process(&mut batch[1..])?;
                batch.iter_mut().for_each(|job| job.output.fill(0xEE));
                return Ok(());
            }
            Err(EngineError::failed("gone"))
        });
        let engine = guard(engine, openssl(), Watch { retreats, ..WATCH });
        let mut session = open(&*engine).unwrap();
        let mut parcel = parcel(&key);
        let before = parcel.output(1).as_ptr();
        let result = session.process_parcel(&mut parcel);
        assert_eq!(result.is_ok(), retreats);
        if !retreats {
            assert_eq!(parcel.outcomes(), [Outcome::Pending; 3]);
            open(&*openssl()).unwrap().process_parcel(&mut parcel).unwrap();
        }
        assert_ne!(parcel.output(1).as_ptr(), before);
        if hangs {
            // The engine returns now, and writes to the memory that it has kept.
            thread::sleep(DEADLINE);
        }
        assert_eq!(parcel.outcomes(), expected.outcomes());
        for pair in 0..2 {
            assert_eq!(parcel.output(pair), expected.output(pair));
        }
        assert!(parcel.drain().all(|(input, _)| input.iter().all(|&byte| byte == 3)));
        assert_eq!(engine.account().unwrap().retreated, if retreats { 3 } else { 0 });
    }
}

/// An engine that claims that its wrong result was verified, or need not be.
#[test]
fn no_engine_decides_what_is_verified() {
    for mark in [Verification::ByChance, Verification::Passed] {
        for (lends, deadline) in [(true, WATCH.deadline), (false, WATCH.deadline), (true, None)] {
            let (engine, _) = meddler(lends, move |session, batch| {
                session.process(batch)?;
                batch[1].output[0] ^= 1;
                batch[1].verification = mark;
                Ok(())
            });
            let watch = Watch { verify_every: Some(u64::MAX), deadline, ..WATCH };
            let engine = guard(engine, openssl(), watch);
            let mut session = open(&*engine).unwrap();
            let mut parcel = parcel(&key());
            parcel.verifications_mut()[1] = Verification::Wanted;
            let error = session.process_parcel(&mut parcel).unwrap_err();
            assert!(matches!(error, EngineError::WrongResult { .. }), "{error}");
            let wanted = [Verification::ByChance, Verification::Wanted, Verification::ByChance];
            assert_eq!(parcel.verifications(), wanted);

            let engine = evener_engines::watched(&engine, watch).unwrap();
            let mut session = open(&*engine).unwrap();
            let (key, input, mut output) = (key(), [3; 64], [0; 128]);
            let mut batch: Vec<_> =
                output.chunks_mut(64).map(|output| job(&key, &input, output)).collect();
            batch[1].verification = Verification::Wanted;
            let error = session.process(&mut batch).unwrap_err();
            assert!(matches!(error, EngineError::WrongResult { .. }), "{error}");
            assert_eq!(batch[1].verification, Verification::Wanted);
        }
    }
}

#[test]
fn what_is_settled_before_stays_so() {
    let settled =
        [Outcome::Pending, Outcome::Rejected(Rejection::Tag), Outcome::Done { written: 48 }];
    for fails in [false, true] {
        let (engine, _) = meddler(true, move |session, batch| {
            session.process(batch)?;
            for job in &mut batch[1..] {
                job.outcome = Outcome::Done { written: usize::MAX };
                job.output.fill(0xEE);
            }
            let failed = EngineError::failed(String::new());
            if fails { Err(failed) } else { Ok(()) }
        });
        let engine = guard(engine, openssl(), Watch { retreats: true, ..WATCH });
        let mut session = open(&*engine).unwrap();
        let key = key();
        let mut parcel = parcel(&key);
        parcel.outcomes_mut().copy_from_slice(&settled);
        session.process_parcel(&mut parcel).unwrap();
        assert_eq!(parcel.outcomes()[0], Outcome::Done { written: 16 });
        assert_eq!(parcel.outcomes()[1..], settled[1..]);
        assert!(parcel.output(0)[16..48].iter().chain(parcel.output(1)).all(|&byte| byte == 0));
    }
}

/// Whatever goes wrong: until a session is closed, its device may write to what a batch had.
#[test]
fn outputs_are_freed_after_the_session() {
    for (panics, late) in [(false, false), (true, false), (false, true)] {
        let (engine, log) = meddler(true, move |_, _| {
            if late {
                thread::sleep(DEADLINE + DEADLINE / 4);
            }
            assert!(!panics, "the test panics");
            Err(EngineError::failed("gone"))
        });
        let engine = guard(engine, openssl(), WATCH);
        let mut session = open(&*engine).unwrap();
        let mut parcel = Parcel::default();
        let number = Some(parcel.add_key(&key()));
        let job = PlacedJob::new(Iv::new(&[1; 16]).unwrap(), 0..64, 0..64);
        parcel.push(PlacedJob { key: number, ..job });
        let output = Closes("output", Arc::clone(&log), vec![0; 64]);
        parcel.add(WipedBuffer::zeros(64), WipedBuffer::lent(Box::new(output)));
        let error = session.process_parcel(&mut parcel).unwrap_err().to_string();
        let due = match (panics, late) {
            (true, _) => "its thread panicked",
            (_, true) => "was left behind",
            _ => "gone",
        };
        assert!(error.contains(due), "{error}");
        assert_eq!(log.lock().unwrap().len(), 0);
        drop((session, parcel));
        thread::sleep(if late { DEADLINE } else { DEADLINE / 10 });
        assert_eq!(*log.lock().unwrap(), ["session", "output"], "{panics} {late}");
    }
}

/// A driver that gives no memory is asked for it once.
#[test]
fn an_engine_that_hangs_when_it_is_asked_for_memory_goes_out_of_service() {
    struct Stuck(Arc<dyn Engine>);
    impl Engine for Stuck {
        fn description(&self) -> &Description {
            self.0.description()
        }

        fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
            Some(self.0.offer(cipher, direction)?.bytes(1 << 20))
        }

        fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
            self.0.open(request)
        }

        fn buffer(&self, _: usize) -> Option<WipedBuffer> {
            thread::sleep(Duration::MAX);
            None
        }
    }
    let deadline = Duration::from_millis(500);
    let watch = Watch { deadline: Some(deadline), ..WATCH };
    let engine = guard(Arc::new(Stuck(openssl())), openssl(), watch);
    let begun = Instant::now();
    assert!((0..20).all(|_| engine.buffer(1000).is_none()));
    assert!(begun.elapsed() < 10 * deadline);
    let error = open(&*engine).err().unwrap().to_string();
    assert!(error.contains("gave no memory within 0.5 s"), "{error}");
}
