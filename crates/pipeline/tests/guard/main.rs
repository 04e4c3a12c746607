//! Engines that fail in every way, and runs that lose nothing with them.

mod crowded;
mod expense;
mod parcels;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, thread};

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, InPlaceJob, Iv, Job, Key, Offer, Outcome,
    Padding, RecordLayout, Records, Session, SessionRequest, Shortcuts, Verification,
};
use evener_engines::faulty::{Fault, Faulty};
use evener_engines::{Watch, guard};
use evener_pipeline::{PolicyName, Queue, Returned, RunOptions, RunStatistics, Work, Worker, run};
use rustix::process::{Pid, Signal, kill_process};

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

/// The number of jobs that test a session before it gets its first.
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

/// The result of encrypting 64 bytes.
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

/// A hundred messages; keeps the result of each.
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
                    if matches!(fault, Fault::Hang(_)) {
                        // The run continues without it, and ends.
                        assert_eq!(failed.retired, None);
                        assert_eq!(failed.taken_back, usize::from(at > 0), "{fault} at {at}");
                    } else if at > 0 || failed.retired.is_some() {
                        // Otherwise the run was over before the opening had failed.
                        let reason = failed
                            .retired
                            .as_ref()
                            .unwrap_or_else(|| panic!("{fault} at {at}: {statistics:?}"));
                        if let EngineError::WrongResult { unverified, .. } = reason {
                            assert_eq!(*unverified, 0);
                        }
                        let reason = reason.to_string();
                        println!("{reason}");
                        assert!(reason.contains("faulty") && !reason.contains('\n'), "{reason}");
                    }
                    assert_eq!(failed.jobs, at.saturating_sub(opening), "{fault} at {at}");
                    assert_eq!(sound.retired, None);
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
    // Sampling is so rare that it picks none of these jobs, except the session's first.
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

/// OpenSSL with a count of the batches of jobs.
struct Counting(Description, Arc<AtomicU64>);

struct CountingSession(Box<dyn Session>, Arc<AtomicU64>);

impl Engine for Counting {
    fn description(&self) -> &Description {
        &self.0
    }

    fn offer(&self, _: Cipher, _: Direction) -> Option<Offer> {
        Some(Offer::new(1))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(CountingSession(openssl().open(request)?, Arc::clone(&self.1))))
    }
}

impl Session for CountingSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.process(batch)
    }

    fn shortcuts(&mut self) -> Option<&mut dyn Shortcuts> {
        Some(self)
    }
}

impl Shortcuts for CountingSession {
    fn process_records(&mut self, records: &mut Records<'_>) -> Result<(), EngineError> {
        self.0.process_records(records)
    }
}

#[test]
fn records_that_nobody_checks_stay_records() {
    for (every, are_jobs) in [(0, false), (1, true)] {
        let batches = Arc::new(AtomicU64::new(0));
        let counting = Arc::new(Counting(Description::cpu("counting"), Arc::clone(&batches)));
        let watch = Watch { verify_every: Some(every), deadline: None, retreats: false };
        let engine = guard(counting, openssl(), watch);
        let (cipher, direction, key) = (Cipher::Aes128Cbc, Direction::Encrypt, key());
        let request = SessionRequest { cipher, direction, key: Some(&key) };
        let mut session = engine.open(&request).unwrap();
        let before = batches.load(Ordering::SeqCst);
        let layout = RecordLayout::packed(cipher, direction, Padding::None, 5, 32);
        let (ivs, input, mut output) = ([1; 80], [2; 160], [0; 160]);
        let mut records =
            Records::new(cipher, direction, layout, &ivs, &input, &mut output).unwrap();
        session.process_records(&mut records).unwrap();
        assert_eq!(records.done(), 5);
        assert_eq!(batches.load(Ordering::SeqCst) > before, are_jobs);
        assert_eq!(engine.account().unwrap().jobs, 5);
    }
}

/// A module that fails when no other engine is there to do its jobs.
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

/// Results that were handed on can't be taken back, so they are reported, once.
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

/// A job that asks for it is verified, whatever the random sample is.
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
    // The engine returns now, and no thread waits for it.
    thread::sleep(DEADLINE);
    assert_eq!(output, [0xEE; 64]);
    assert!(encrypt(&mut *session, 1).is_err());
}

/// The process is this test itself, once more.
#[test]
fn while_the_process_is_stopped_no_deadline_passes() {
    const IS_CHILD: &str = "EVENER_TEST_STOPPED";
    if env::var_os(IS_CHILD).is_some() {
        let faulty = Faulty::new(openssl(), Fault::Hang(DEADLINE / 2), known_answers());
        let mut session = open(&*guarded(&faulty, WATCH)).unwrap();
        println!("\n{IS_CHILD}");
        encrypt(&mut *session, 1).unwrap();
        assert!(faulty.has_struck());
        return;
    }
    let name = "while_the_process_is_stopped_no_deadline_passes";
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(IS_CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == IS_CHILD));
    thread::sleep(DEADLINE / 8);
    let process = Pid::from_child(&child);
    kill_process(process, Signal::STOP).unwrap();
    thread::sleep(DEADLINE * 2);
    kill_process(process, Signal::CONT).unwrap();
    let rest: Vec<_> = said.map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success(), "{rest:#?}");
}

#[test]
fn the_helpers_cpu_time_is_told() {
    let engine = guard(openssl(), openssl(), Watch::default());
    let mut session = open(&*engine).unwrap();
    encrypt(&mut *session, 1).unwrap();
    assert!(session.cpu_elsewhere() > Duration::ZERO);
}
