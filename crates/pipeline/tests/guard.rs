//! Engines that fail in every way, and runs that lose nothing with them.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, InPlaceJob, Iv, Job, Key, Memory, Offer,
    Outcome, Padding, Parcel, PlacedJob, RecordLayout, Records, Rejection, Session, SessionRequest,
    Verification, WipedBuffer,
};
use evener_engines::faulty::{Fault, Faulty};
use evener_engines::{Watch, guard};
use evener_pipeline::{PolicyName, Queue, Returned, RunOptions, RunStatistics, Work, Worker, run};

/// Long enough for an engine that does not hang, on any machine.
const DEADLINE: Duration = Duration::from_secs(2);

const WATCH: Watch = Watch { verify_every: Some(1), deadline: Some(DEADLINE), retreats: false };

fn openssl() -> Arc<dyn Engine> {
    evener_engines::find("openssl").unwrap()
}

fn guarded(engine: &Arc<Faulty>, watch: Watch) -> Arc<dyn Engine> {
    guard(Arc::clone(engine) as Arc<dyn Engine>, openssl(), watch)
}

fn open(engine: &dyn Engine) -> Result<Box<dyn Session>, EngineError> {
    let (cipher, direction) = (Cipher::Aes128Cbc, Direction::Encrypt);
    engine.open(&SessionRequest { cipher, direction, key: None })
}

/// With how many jobs a session is tested before it gets its first.
fn known_answers() -> u64 {
    let engine = Faulty::new(openssl(), Fault::Error, u64::MAX);
    open(&*guarded(&engine, WATCH)).unwrap();
    engine.jobs()
}

fn key() -> Key {
    Key::new(&[5; 16]).unwrap()
}

fn job<'a>(key: &'a Key, input: &'a [u8], output: &'a mut [u8]) -> Job<'a> {
    Job { key: Some(key), ..Job::new(Iv::new(&[1; 16]).unwrap(), input, output) }
}

/// What became of 64 bytes.
fn encrypt(session: &mut dyn Session, number: u8) -> Result<Vec<u8>, EngineError> {
    let mut output = vec![0; 64];
    let key = key();
    let input = [number; 64];
    let mut batch = [job(&key, &input, &mut output)];
    let result = session.process(&mut batch);
    let due = match result {
        Ok(()) => Outcome::Done { written: 64 },
        Err(_) => Outcome::Pending,
    };
    assert_eq!(batch[0].outcome, due);
    result.map(|()| output)
}

#[test]
fn a_guarded_engine_conforms() {
    let deadline = Some(Duration::from_secs(600));
    let engine =
        guard(openssl(), openssl(), Watch { verify_every: Some(3), deadline, retreats: false });
    evener_engines::conformance::run(&*engine).assert_passed();
}

/// A hundred messages; keeps what each became.
#[derive(Default)]
struct Messages(Mutex<Vec<(u8, Vec<u8>)>>);

const MESSAGES: u8 = 100;

impl Work for Messages {
    type Task = u8;
    type Workspace = ();

    fn workspace(&self, _: &dyn Engine) {}

    fn perform(
        &self,
        task: u8,
        (): &mut (),
        worker: &mut Worker<'_>,
        _: &Queue<u8>,
    ) -> Result<(), Returned<u8>> {
        let (key, input, mut output) = (key(), [task; 64], vec![0; 64]);
        let mut jobs = [job(&key, &input, &mut output)];
        worker
            .process(Cipher::Aes128Cbc, Direction::Encrypt, &mut jobs)
            .map_err(|cause| Returned { task, cause })?;
        assert_eq!(jobs[0].outcome, Outcome::Done { written: 64 });
        self.0.lock().unwrap().push((task, output));
        Ok(())
    }

    fn abandon(&self, task: u8, cause: Option<&EngineError>) {
        panic!("{task} was abandoned: {cause:?}");
    }
}

/// Runs all messages on an engine with a fault and a sound one, and checks every result.
fn run_with(fault: Fault, at: u64) -> RunStatistics {
    let faulty = Faulty::new(openssl(), fault, at);
    let messages = Messages::default();
    let seats = [guarded(&faulty, WATCH), faulty.successor()];
    let (cipher, direction) = (Cipher::Aes128Cbc, Direction::Encrypt);
    let options = RunOptions::new(PolicyName::Pull, cipher, direction, 8);
    let statistics = run(&seats, &options, &messages, |queue| {
        for task in 0..MESSAGES {
            queue.push(task).unwrap();
        }
    });
    assert!(faulty.has_struck(), "{fault} at {at} did not show");
    let mut results = messages.0.into_inner().unwrap();
    results.sort();
    let mut sound = open(&*openssl()).unwrap();
    for (number, (task, output)) in (0..MESSAGES).zip(&results) {
        assert_eq!(number, *task, "{fault} at {at}");
        assert_eq!(encrypt(&mut *sound, number).unwrap(), *output, "{fault} at {at}");
    }
    assert_eq!(results.len(), usize::from(MESSAGES));
    statistics
}

#[test]
fn whatever_fails_whenever_nothing_is_lost() {
    let opening = known_answers();
    // The sound engine claims a message and waits for the fault, so 99 are sure to come.
    let last = u64::from(MESSAGES) - 2;
    thread::scope(|scope| {
        for &fault in Fault::ALL {
            scope.spawn(move || {
                for at in [0, opening, opening + 50, opening + last] {
                    let statistics = run_with(fault, at);
                    let [failed, sound] = &statistics.workers[..] else { panic!("two workers") };
                    println!("{}", failed.retired.as_deref().unwrap_or("not retired"));
                    let reason = failed.retired.as_ref().expect("the engine stayed in service");
                    assert!(reason.contains("faulty") && !reason.contains('\n'), "{reason}");
                    assert_eq!(failed.jobs, at.saturating_sub(opening), "{fault} at {at}");
                    assert_eq!((failed.doubtful, &sound.retired), (0, &None));
                    assert_eq!(failed.jobs + sound.jobs, u64::from(MESSAGES));
                }
            });
        }
    });
}

#[test]
fn wrong_results_between_verified_jobs_are_counted() {
    let opening = known_answers();
    let faulty = Faulty::new(openssl(), Fault::Wrong, opening + 25);
    // So rarely that no lot falls on these jobs, but for the session's first.
    let watch = Watch { verify_every: Some(1 << 60), deadline: None, retreats: false };
    let engine = guarded(&faulty, watch);
    let mut session = open(&*engine).unwrap();
    for number in 0..30 {
        encrypt(&mut *session, number).unwrap();
    }
    let (key, input, mut output) = (key(), [30; 64], [0; 64]);
    let mut batch = [Job { verification: Verification::Wanted, ..job(&key, &input, &mut output) }];
    let error = session.process(&mut batch).unwrap_err();
    assert!(matches!(error, EngineError::WrongResult { unverified: 29, .. }), "{error}");
    let account = engine.account().unwrap();
    assert_eq!((account.jobs, account.verified, account.unverified()), (30, 1, 29));
    assert_eq!(account.fault, Some(error));
}

#[test]
fn a_sessions_last_job_is_verified_when_it_closes() {
    let opening = known_answers();
    let faulty = Faulty::new(openssl(), Fault::Wrong, opening + 1);
    let watch = Watch { verify_every: Some(1 << 60), deadline: None, retreats: false };
    for closes in [false, true] {
        let faulty =
            if closes { faulty.clone() } else { Faulty::new(openssl(), Fault::Wrong, opening + 1) };
        let engine = guarded(&faulty, watch);
        let mut session = open(&*engine).unwrap();
        for number in 0..3 {
            encrypt(&mut *session, number).unwrap();
        }
        assert_eq!(engine.account().unwrap().fault, None);
        if !closes {
            assert!(matches!(
                session.finish(),
                Err(EngineError::WrongResult { unverified: 2, .. })
            ));
        }
        drop(session);
        let fault = engine.account().unwrap().fault;
        assert!(matches!(fault, Some(EngineError::WrongResult { unverified: 2, .. })), "{fault:?}");
    }
}

#[test]
fn every_kind_of_work_is_watched() {
    let watch = Watch { verify_every: Some(1), deadline: None, retreats: false };
    for deadline in [None, Some(DEADLINE)] {
        let opening = known_answers();
        let faulty = Faulty::new(openssl(), Fault::Wrong, opening);
        let engine = guarded(&faulty, Watch { deadline, ..watch });
        let (cipher, direction, key) = (Cipher::Aes128Cbc, Direction::Encrypt, key());
        let request = SessionRequest { cipher, direction, key: Some(&key) };
        let mut session = engine.open(&request).unwrap();
        let layout = RecordLayout::packed(cipher, direction, Padding::None, 5, 32);
        let (ivs, input, mut output) = ([1; 80], [2; 160], [0; 160]);
        let mut records =
            Records::new(cipher, direction, layout, &ivs, &input, &mut output).unwrap();
        let error = session.process_records(&mut records).unwrap_err();
        assert!(matches!(error, EngineError::WrongResult { unverified: 0, .. }), "{error}");
        assert_eq!(records.done(), 0);

        let engine =
            guarded(&Faulty::new(openssl(), Fault::Wrong, opening), Watch { deadline, ..watch });
        let mut session = engine.open(&request).unwrap();
        let mut data = [3; 64];
        let mut job = InPlaceJob::new(cipher, direction, Iv::new(&[1; 16]).unwrap(), &mut data);
        let error = session.process_in_place(&mut job).unwrap_err();
        assert!(matches!(error, EngineError::WrongResult { unverified: 0, .. }), "{error}");
        assert_eq!(data, [3; 64]);
    }
}

/// A module that fails when nobody else is there to do its jobs.
#[test]
fn a_guard_that_retreats_does_the_work_on_the_reference() {
    let opening = known_answers();
    let mut sound = open(&*openssl()).unwrap();
    let right: Vec<_> = (0..10).map(|number| encrypt(&mut *sound, number).unwrap()).collect();
    for fault in [Fault::Error, Fault::Wrong, Fault::Short, Fault::Panic, Fault::Repeat] {
        for at in [0, opening, opening + 5] {
            let faulty = Faulty::new(openssl(), fault, at);
            let engine = guarded(&faulty, Watch { retreats: true, ..WATCH });
            let mut session = open(&*engine).unwrap();
            let done: Vec<_> =
                (0..10).map(|number| encrypt(&mut *session, number).unwrap()).collect();
            assert_eq!(done, right, "{fault} at {at}");
            // Another session is the reference's from its beginning.
            let jobs = faulty.jobs();
            assert_eq!(encrypt(&mut *open(&*engine).unwrap(), 3).unwrap(), right[3]);
            assert_eq!(faulty.jobs(), jobs);
            let account = engine.account().unwrap();
            let by_engine = at.saturating_sub(opening);
            assert_eq!((account.jobs, account.retreated), (by_engine, 11 - by_engine), "{fault}");
            println!("{}", account.fault.expect("the engine stayed in service"));
        }
    }
}

/// What was handed on before can't be taken back, so it is told, once.
#[test]
fn a_guard_that_retreats_tells_of_results_in_doubt() {
    let opening = known_answers();
    let faulty = Faulty::new(openssl(), Fault::Wrong, opening + 1);
    let watch = Watch { verify_every: Some(1 << 60), deadline: None, retreats: true };
    let engine = guarded(&faulty, watch);
    let mut session = open(&*engine).unwrap();
    for number in 0..3 {
        encrypt(&mut *session, number).unwrap();
    }
    let error = session.finish().unwrap_err();
    assert!(matches!(error, EngineError::WrongResult { unverified: 2, .. }), "{error}");
    let right = encrypt(&mut *open(&*openssl()).unwrap(), 7).unwrap();
    assert_eq!(encrypt(&mut *session, 7).unwrap(), right);
}

/// The job that is asked for is verified whatever the lots say.
#[test]
fn a_job_may_ask_to_be_verified() {
    let watch = Watch { verify_every: Some(1 << 60), deadline: None, retreats: false };
    let engine = guard(openssl(), openssl(), watch);
    let mut session = open(&*engine).unwrap();
    let (key, input, mut output) = (key(), [3; 64], [0; 256]);
    let mut batch: Vec<_> = output.chunks_mut(64).map(|output| job(&key, &input, output)).collect();
    batch[2].verification = Verification::Wanted;
    session.process(&mut batch).unwrap();
    let passed = batch.iter().map(|job| job.verification == Verification::Passed);
    assert_eq!(passed.collect::<Vec<_>>(), [true, false, true, false]);
}

#[test]
fn an_engine_goes_out_of_service_for_all_of_its_sessions() {
    let opening = known_answers();
    let faulty = Faulty::new(openssl(), Fault::Short, 2 * opening + 1);
    let engine = guarded(&faulty, WATCH);
    let mut sessions = [open(&*engine).unwrap(), open(&*engine).unwrap()];
    encrypt(&mut *sessions[0], 0).unwrap();
    let error = encrypt(&mut *sessions[0], 1).unwrap_err();
    assert!(error.to_string().contains("63 bytes where 64 were due"), "{error}");
    assert_eq!(encrypt(&mut *sessions[1], 2).unwrap_err(), error);
    assert_eq!(open(&*engine).err(), Some(error));
}

#[test]
fn a_batch_that_fails_in_the_middle_stays_pending() {
    let opening = known_answers();
    let faulty = Faulty::new(openssl(), Fault::Error, opening + 2);
    let engine = guarded(&faulty, WATCH);
    let mut session = open(&*engine).unwrap();
    let (key, input, mut output) = (key(), [3; 64], [0; 256]);
    let mut batch: Vec<_> = output.chunks_mut(64).map(|output| job(&key, &input, output)).collect();
    batch[0].outcome = Outcome::Done { written: 7 };
    assert!(session.process(&mut batch).is_err());
    let outcomes: Vec<_> = batch.iter().map(|job| job.outcome).collect();
    assert_eq!(outcomes[0], Outcome::Done { written: 7 });
    assert!(outcomes[1..].iter().all(|outcome| *outcome == Outcome::Pending));
}

#[test]
fn what_hangs_writes_to_nothing_that_was_lent() {
    let opening = known_answers();
    let faulty = Faulty::new(openssl(), Fault::Hang(DEADLINE + DEADLINE / 4), opening);
    let engine = guarded(&faulty, WATCH);
    let mut session = open(&*engine).unwrap();
    let (key, input, mut output) = (key(), [3; 64], vec![0xEE; 64]);
    let mut batch = [job(&key, &input, &mut output)];
    let error = session.process(&mut batch).unwrap_err();
    assert!(error.to_string().contains("did not finish a batch within 2 s"), "{error}");
    // It comes back now, and finds nobody waiting.
    thread::sleep(DEADLINE);
    assert_eq!(output, [0xEE; 64]);
    assert!(encrypt(&mut *session, 1).is_err());
}

/// Does what it likes with batches; may lend memory.
struct Meddler {
    engine: Arc<dyn Engine>,
    lends: bool,
    act: Arc<Act>,
    /// What was closed and freed, in this order.
    log: Log,
}

type Act = dyn Fn(&mut dyn Session, &mut [Job<'_>]) -> Result<(), EngineError> + Send + Sync;

type Log = Arc<Mutex<Vec<&'static str>>>;

struct MeddlerSession {
    session: Box<dyn Session>,
    act: Arc<Act>,
    _closes: Closes,
}

/// Is logged when it is dropped.
struct Closes(&'static str, Log, Vec<u8>);

fn meddler(
    lends: bool,
    act: impl Fn(&mut dyn Session, &mut [Job<'_>]) -> Result<(), EngineError> + Send + Sync + 'static,
) -> (Arc<dyn Engine>, Log) {
    let log = Log::default();
    let engine = Meddler { engine: openssl(), lends, act: Arc::new(act), log: Arc::clone(&log) };
    (Arc::new(engine), log)
}

/// Whether a batch is one of the guard's tests of a new session.
fn is_known_answers(batch: &[Job<'_>]) -> bool {
    batch.iter().any(|job| job.key.is_none_or(|own| own.bytes() != key().bytes()))
}

impl Engine for Meddler {
    fn description(&self) -> &Description {
        self.engine.description()
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        let bytes = if self.lends { 1 << 20 } else { 0 };
        Some(Offer { bytes, ..self.engine.offer(cipher, direction)? })
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
            Err(EngineError::Failed { engine: "meddler".to_owned(), reason: "gone".to_owned() })
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
            // It comes back now, and writes to what it has kept.
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

/// An engine that says itself that its wrong result was verified, or need not be.
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
            let failed = EngineError::Failed { engine: String::new(), reason: String::new() };
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
            Err(EngineError::Failed { engine: "meddler".to_owned(), reason: "gone".to_owned() })
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
            Some(Offer { bytes: 1 << 20, ..self.0.offer(cipher, direction)? })
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

#[test]
fn the_helpers_cpu_time_is_told() {
    let engine = guard(openssl(), openssl(), Watch::default());
    let mut session = open(&*engine).unwrap();
    encrypt(&mut *session, 1).unwrap();
    assert!(session.cpu_elsewhere() > Duration::ZERO);
}
