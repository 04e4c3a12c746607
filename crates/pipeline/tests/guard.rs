//! Engines that fail in every way, and runs that lose nothing with them.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Outcome, Session, SessionRequest,
};
use evener_engines::faulty::{Fault, Faulty};
use evener_pipeline::{
    PolicyName, Queue, Returned, RunOptions, RunStatistics, Watch, Work, Worker, guard, run,
};

/// Long enough for an engine that does not hang, on any machine.
const DEADLINE: Duration = Duration::from_secs(2);

const WATCH: Watch = Watch { verify_every: 1, deadline: Some(DEADLINE) };

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
    let engine = guard(openssl(), openssl(), Watch { verify_every: 3, deadline });
    evener_engines::conformance::run(&*engine).assert_passed();
}

/// A hundred messages; keeps what each became.
#[derive(Default)]
struct Messages(Mutex<Vec<(u8, Vec<u8>)>>);

const MESSAGES: u8 = 100;

impl Work for Messages {
    type Task = u8;
    type Bench = ();

    fn bench(&self) {}

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
    let engine = guarded(&faulty, Watch { verify_every: 10, deadline: None });
    let mut session = open(&*engine).unwrap();
    for number in 0..30 {
        encrypt(&mut *session, number).unwrap();
    }
    // Jobs 0, 10, 20 and 30 are verified.
    let error = encrypt(&mut *session, 30).unwrap_err();
    assert!(matches!(error, EngineError::WrongResult { unverified: 9, .. }), "{error}");
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

#[test]
fn the_helpers_cpu_time_is_told() {
    let engine = guard(openssl(), openssl(), Watch::default());
    let mut session = open(&*engine).unwrap();
    encrypt(&mut *session, 1).unwrap();
    assert!(session.cpu_elsewhere() > Duration::ZERO);
}
