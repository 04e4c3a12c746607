//! A run whose device fails at its first, a middle or its last job: another engine processes the
//! jobs that the device did not, and nothing is lost.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Iv, Job, Key, Offer, Outcome, Session,
    SessionRequest,
};
use evener_engines::{Watch, guard};
use evener_pipeline::{PolicyName, Queue, Returned, RunOptions, Work, Worker, run};

use crate::{TRIALS, with_each_device};

#[test]
fn a_device_that_computes_wrongly_is_left() {
    let name = "runs::a_device_that_computes_wrongly_is_left";
    let devices = POSITIONS.map(|at| format!("--wrong-at {at}"));
    with_each_device(name, &devices, || nothing_is_lost(&["wrong", "known answers"]));
}

#[test]
fn a_device_that_hangs_is_left() {
    let name = "runs::a_device_that_hangs_is_left";
    let devices = POSITIONS.map(|at| format!("--hang-at {at}"));
    with_each_device(name, &devices, || nothing_is_lost(&["within 2 s"]));
}

#[test]
fn a_device_that_vanishes_is_left() {
    let name = "runs::a_device_that_vanishes_is_left";
    let devices = POSITIONS.map(|at| format!("--vanish-at {at}"));
    with_each_device(name, &devices, || nothing_is_lost(&["the device is gone"]));
}

#[test]
fn a_device_with_several_requests_under_way_is_left() {
    let name = "runs::a_device_with_several_requests_under_way_is_left";
    let middle = POSITIONS[2] + 1;
    let devices =
        ["wrong", "hang", "vanish"].map(|fault| format!("--ring 16 --{fault}-at {middle}"));
    let check = || nothing_is_lost(&["wrong", "within 2 s", "/dev/crypto"]);
    with_each_device(name, &devices, check);
}

/// The device's operations at which it fails: while the session is tested, at the run's first job,
/// in the middle, and at the last. The other engine claims a message and waits for the failure, so
/// the device is sure to get all messages but one.
const POSITIONS: [usize; 4] = [
    TRIALS + 1,
    TRIALS + KNOWN_ANSWERS + 1,
    TRIALS + KNOWN_ANSWERS + MESSAGES / 2,
    TRIALS + KNOWN_ANSWERS + MESSAGES - 1,
];

/// Number of operations with which the guard tests a session of a cipher without authentication.
const KNOWN_ANSWERS: usize = 4;

const MESSAGES: usize = 100;

/// Runs messages on the device and on an engine that waits for the device's failure.
fn nothing_is_lost(reasons: &[&str]) {
    let openssl = evener_engines::find("openssl").unwrap();
    let device = evener_engines::raw::find("cryptodev").unwrap();
    let watch =
        Watch { verify_every: Some(1), deadline: Some(Duration::from_secs(2)), retreats: false };
    let alarm = Arc::<Alarm>::default();
    let seats: [Arc<dyn Engine>; 2] = [
        Arc::new(Watched { inner: guard(device, openssl.clone(), watch), alarm: alarm.clone() }),
        Arc::new(Waiting { inner: openssl.clone(), alarm: alarm.clone() }),
    ];
    let messages = Messages::default();
    let options = RunOptions::new(PolicyName::Pull, Cipher::Aes128Cbc, Direction::Encrypt, 8);
    let statistics = run(&seats, &options, &messages, |queue| {
        for task in 0..MESSAGES {
            queue.push(task as u8).unwrap();
        }
    });
    assert!(*alarm.rung.lock().unwrap(), "the device did not fail");
    let reason = statistics.workers[0].retired.as_ref().expect("the device stayed in service");
    let reason = reason.to_string();
    println!("{} jobs on the device, then: {reason}", statistics.workers[0].jobs);
    assert!(reasons.iter().any(|known| reason.contains(known)), "{reason}");
    assert!(!reason.contains('\n'));
    assert_eq!(statistics.workers[1].retired, None);
    let jobs: u64 = statistics.workers.iter().map(|worker| worker.jobs).sum();
    assert_eq!(jobs, MESSAGES as u64);
    let mut results = messages.0.into_inner().unwrap();
    results.sort();
    assert_eq!(results.len(), MESSAGES);
    for (number, (task, output)) in results.iter().enumerate() {
        assert_eq!((number, encrypted(&*openssl, *task)), (usize::from(*task), *output));
    }
}

fn encrypted(engine: &dyn Engine, task: u8) -> [u8; 64] {
    let key = Key::new(&[5; 16]).unwrap();
    let request = SessionRequest {
        cipher: Cipher::Aes128Cbc,
        direction: Direction::Encrypt,
        key: Some(&key),
    };
    let (input, mut output) = ([task; 64], [0; 64]);
    let mut batch = [Job::new(Iv::new(&[1; 16]).unwrap(), &input, &mut output)];
    engine.open(&request).unwrap().process(&mut batch).unwrap();
    output
}

/// Each task is a message of 64 times its number; keeps each result.
#[derive(Default)]
struct Messages(Mutex<Vec<(u8, [u8; 64])>>);

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
        let (key, input, mut output) = (Key::new(&[5; 16]).unwrap(), [task; 64], [0; 64]);
        let job = Job::new(Iv::new(&[1; 16]).unwrap(), &input, &mut output);
        let mut jobs = [Job { key: Some(&key), ..job }];
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

#[derive(Default)]
struct Alarm {
    rung: Mutex<bool>,
    rings: Condvar,
}

impl Alarm {
    fn pass<T>(&self, result: Result<T, EngineError>) -> Result<T, EngineError> {
        if result.is_err() {
            *self.rung.lock().unwrap() = true;
            self.rings.notify_all();
        }
        result
    }
}

/// An engine that rings when it fails.
struct Watched {
    inner: Arc<dyn Engine>,
    alarm: Arc<Alarm>,
}

struct WatchedSession {
    inner: Box<dyn Session>,
    alarm: Arc<Alarm>,
}

impl Engine for Watched {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.inner.offer(cipher, direction)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let inner = self.alarm.pass(self.inner.open(request))?;
        Ok(Box::new(WatchedSession { inner, alarm: self.alarm.clone() }))
    }
}

impl Session for WatchedSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        self.alarm.pass(self.inner.process(batch))
    }
}

/// An engine that begins to work when the alarm rings. A test whose fault does not happen must fail
/// and not hang, so the engine stops waiting at some point.
struct Waiting {
    inner: Arc<dyn Engine>,
    alarm: Arc<Alarm>,
}

impl Engine for Waiting {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.inner.offer(cipher, direction)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let rung = self.alarm.rung.lock().unwrap();
        let patience = Duration::from_secs(60);
        drop(self.alarm.rings.wait_timeout_while(rung, patience, |rung| !*rung).unwrap());
        self.inner.open(request)
    }
}
