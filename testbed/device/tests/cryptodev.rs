//! The engine `cryptodev` against a device that works, and one that does not.
//!
//! Each test starts the device with its faults and runs itself again while the device is
//! there. That needs `/dev/cuse`, which the testbed has, and the right to open it.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, iter};

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Iv, Job, Key, Kind, Offer, Outcome,
    Session, SessionRequest,
};

#[test]
fn the_engine_conforms() {
    with_device("the_engine_conforms", &[], || {
        conforms(&[
            Cipher::Aes128Ecb,
            Cipher::Aes192Cbc,
            Cipher::Aes256Ctr,
            Cipher::Aes256Gcm,
            Cipher::Camellia128Cbc,
            Cipher::DesEde3Cbc,
        ]);
    });
}

#[test]
fn the_engine_conforms_on_a_busy_device_that_wants_its_data_aligned() {
    let name = "the_engine_conforms_on_a_busy_device_that_wants_its_data_aligned";
    with_device(name, &["--busy-every", "100", "--alignment", "64"], || {
        conforms(&[Cipher::Aes128Cbc, Cipher::Aes128Gcm]);
    });
}

#[test]
fn software_is_used_only_when_named() {
    with_device("software_is_used_only_when_named", &["--software"], || {
        let Err(error) = evener_engines::find("cryptodev") else { panic!("software was found") };
        assert!(error.to_string().contains("cbc-aes-generic (software)"), "{error}");
        let engine = evener_engines::find("cryptodev:cbc-aes-generic").unwrap();
        assert_eq!(engine.description().kind, Kind::Cpu);
        assert!(engine.offer(Cipher::Aes128Cbc, Direction::Encrypt).is_some());
        assert!(engine.offer(Cipher::Aes128Ctr, Direction::Encrypt).is_none());
    });
}

#[test]
fn a_full_session_table_is_told() {
    with_device("a_full_session_table_is_told", &["--sessions", "2"], || {
        let engine = evener_engines::find("cryptodev").unwrap();
        let first = open(&*engine).unwrap();
        let mut second = open(&*engine).unwrap();
        let Err(error) = open(&*engine) else { panic!("there was room for a third session") };
        assert!(matches!(&error, EngineError::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains("no room"), "{error}");
        drop(first);
        let mut third = open(&*engine).unwrap();
        for session in [&mut second, &mut third] {
            assert_eq!(run(&mut **session), (Ok(()), vec![true; JOBS]));
        }
    });
}

#[test]
fn a_refused_operation_loses_nothing() {
    let refused = (TRIALS + 2).to_string();
    with_device("a_refused_operation_loses_nothing", &["--invalid-at", &refused], || {
        let engine = evener_engines::find("cryptodev").unwrap();
        let mut session = open(&*engine).unwrap();
        let (result, done) = run(&mut *session);
        assert!(matches!(result, Err(EngineError::Failed { .. })), "{result:?}");
        assert_eq!(done, [true, false, false, false]);
        assert_eq!(run(&mut *session), (Ok(()), vec![true; JOBS]));
    });
}

#[test]
fn a_device_that_vanishes_loses_nothing() {
    let last = (TRIALS + JOBS).to_string();
    with_device("a_device_that_vanishes_loses_nothing", &["--vanish-at", &last], || {
        let engine = evener_engines::find("cryptodev").unwrap();
        let mut session = open(&*engine).unwrap();
        let (result, done) = run(&mut *session);
        let error = result.unwrap_err();
        assert!(error.to_string().contains("the device is gone"), "{error}");
        assert_eq!(done, [true, true, true, false]);
        assert!(run(&mut *session).0.is_err());
        assert!(matches!(open(&*engine), Err(EngineError::Unavailable { .. })));
        assert!(evener_engines::find("cryptodev").is_err());
    });
}

/// Puts the engine through the conformance suite with these ciphers, one of each kind: every
/// ioctl here is several task switches of an emulated CPU.
fn conforms(ciphers: &'static [Cipher]) {
    let engine = evener_engines::find("cryptodev").unwrap();
    assert_eq!(engine.description().kind, Kind::Module);
    let engine = Restricted { engine, ciphers };
    assert!(ciphers.iter().all(|&cipher| engine.offer(cipher, Direction::Encrypt).is_some()));
    evener_engines::conformance::run(&engine).assert_passed();
}

struct Restricted {
    engine: Arc<dyn Engine>,
    ciphers: &'static [Cipher],
}

impl Engine for Restricted {
    fn description(&self) -> &Description {
        self.engine.description()
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.engine.offer(cipher, direction).filter(|_| self.ciphers.contains(&cipher))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        match self.offer(request.cipher, request.direction) {
            Some(_) => self.engine.open(request),
            None => Err(EngineError::NotOffered {
                engine: self.description().name.clone(),
                cipher: request.cipher,
                direction: request.direction,
            }),
        }
    }
}

fn open(engine: &dyn Engine) -> Result<Box<dyn Session>, EngineError> {
    let key = Key::new(&[7; 16]).unwrap();
    engine.open(&SessionRequest {
        cipher: Cipher::Aes128Cbc,
        direction: Direction::Encrypt,
        key: Some(&key),
    })
}

/// Processes a batch. Every job that is done must be right, and the others must be as they
/// were; the result says which are done.
fn run(session: &mut dyn Session) -> (Result<(), EngineError>, Vec<bool>) {
    let iv = Iv::new(&[1; 16]).unwrap();
    let input = [9; 64];
    let mut expected = [0; 64];
    let reference = evener_engines::find("openssl").unwrap();
    let mut batch = [Job::new(iv, &input, &mut expected)];
    open(&*reference).unwrap().process(&mut batch).unwrap();
    let mut outputs = vec![[0; 64]; JOBS];
    let mut batch: Vec<_> = outputs.iter_mut().map(|output| Job::new(iv, &input, output)).collect();
    let result = session.process(&mut batch);
    let mut done = Vec::new();
    for job in &batch {
        done.push(job.outcome != Outcome::Pending);
        let expected = if job.outcome == Outcome::Pending { [0; 64] } else { expected };
        assert_eq!(*job.output, expected);
    }
    (result, done)
}

/// Runs the named test again, under the device, where it does `check`.
fn with_device(name: &str, options: &[&str], check: fn()) {
    if env::var_os(INSIDE).is_some() {
        return check();
    }
    if !Path::new("/dev/cuse").exists() {
        return println!("skipped: there is no /dev/cuse here; the testbed has it");
    }
    // There is one /dev/crypto, and the tests' threads share it.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let this_program = env::current_exe().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_crypto-device"))
        .args(options.iter().copied().chain(iter::once("--")))
        .arg(this_program)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, name)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

static TURN: Mutex<()> = Mutex::new(());

const INSIDE: &str = "EVENER_TEST_INSIDE";

/// How many operations probing takes: one for each key length of GCM.
const TRIALS: usize = 3;

const JOBS: usize = 4;
