//! The engine on SoftHSM2, and on a module that gives SoftHSM2 limits and faults.

mod ending;
mod softhsm;

use std::cell::Cell;
use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Outcome, Session, SessionRequest,
};
use zeroize::Zeroizing;

use super::mechanism::PART_LENGTH;
use super::uri::Uri;
use super::{Attendance, find, find_within, probe, probe_unattended};
use softhsm::{Home, PIN, with_token};

fn engine(uri: &str) -> Arc<dyn Engine> {
    probe(uri).unwrap_or_else(|error| panic!("{error}")).remove(0)
}

fn refusal(uri: &str) -> String {
    let error = probe(uri).err().expect("an engine was found").to_string();
    println!("{error}");
    assert!(!error.contains(PIN));
    error
}

fn open(engine: &dyn Engine, key: Option<&Key>) -> Result<Box<dyn Session>, EngineError> {
    let request = SessionRequest { cipher: Cipher::Aes128Cbc, direction: Direction::Encrypt, key };
    engine.open(&request)
}

/// Encrypts 64 bytes with AES-128-CBC.
fn encrypt(session: &mut dyn Session, key: Option<&Key>) -> Result<Vec<u8>, EngineError> {
    let mut output = vec![0; 64];
    let mut batch = [Job { key, ..Job::new(Iv::new(&[7; 16]).unwrap(), &[9; 64], &mut output) }];
    let result = session.process(&mut batch);
    assert_eq!(result.is_ok(), batch[0].outcome == Outcome::Done { written: 64 });
    result.map(|()| output)
}

/// The result of openssl for the same message.
fn expected(key: &Key) -> Vec<u8> {
    let openssl = crate::find("openssl").unwrap();
    encrypt(&mut *open(&*openssl, Some(key)).unwrap(), None).unwrap()
}

fn key(seed: u8) -> Key {
    Key::new(&[seed; 16]).unwrap()
}

#[test]
fn a_token_conforms() {
    with_token("a_token_conforms", &[], |home| {
        let engine = engine(&home.uri("token=evener"));
        println!("{:?}", engine.description());
        let report = crate::conformance::run(&*engine);
        report.assert_passed();
        for &cipher in Cipher::ALL {
            let offered = engine.offer(cipher, Direction::Encrypt).is_some();
            assert_eq!(offered, super::mechanism::mechanism(cipher).is_some(), "{cipher}");
        }
    });
}

#[test]
fn a_wrong_pin_is_said() {
    with_token("a_wrong_pin_is_said", &[], |home| {
        home.set_pin_file("999999");
        assert!(refusal(&home.uri("token=evener")).contains("the PIN is wrong"));
        home.set_pin_file("");
        assert!(refusal(&home.uri("token=evener")).contains("its first line is empty"));
        let uri = format!("token=evener?module-path={}", home.module().display());
        assert!(refusal(&uri).contains("asks for a PIN"));
        assert!(refusal(&format!("{uri}&pin-source=/nowhere")).contains("No such file"));
        assert!(refusal(&format!("{uri}&pin-value={PIN}")).contains("every process"));
    });
}

#[test]
fn a_wrong_pin_of_a_file_is_tried_once_until_the_file_changes() {
    with_token("a_wrong_pin_of_a_file_is_tried_once_until_the_file_changes", &[], |home| {
        let uri = home.uri("token=evener");
        home.set_pin_file("999999");
        assert!(refusal(&uri).contains("the PIN is wrong"));
        for _ in 0..10 {
            assert!(refusal(&uri).contains("was refused by the token earlier"));
        }
        crate::forget_refused_pins().unwrap();
        assert!(refusal(&uri).contains("the PIN is wrong"));
        // After ten tries the PIN would be locked.
        home.set_pin_file(PIN);
        assert!(probe(&uri).is_ok());
    });
}

/// SoftHSM rewrites the token's file at each login, and a reader then finds half of it.
#[test]
fn processes_that_begin_at_once_all_find_the_token() {
    const ONE_OF_THEM: &str = "EVENER_ONE_OF_THEM";
    let test = "processes_that_begin_at_once_all_find_the_token";
    with_token(test, &[], |home| {
        if env::var_os(ONE_OF_THEM).is_some() {
            drop(engine(&home.uri("token=evener")));
            return;
        }
        for _ in 0..4 {
            let begin = |_| {
                let mut process = Command::new(env::current_exe().unwrap());
                process.args(env::args_os().skip(1)).env(ONE_OF_THEM, "");
                process.stdout(Stdio::null()).spawn().unwrap()
            };
            let processes: Vec<_> = (0..6).map(begin).collect();
            for mut process in processes {
                assert!(process.wait().unwrap().success());
            }
        }
    });
}

#[test]
fn where_nobody_watches_a_wrong_pin_is_tried_once() {
    with_token("where_nobody_watches_a_wrong_pin_is_tried_once", &[], |home| {
        let uri = home.uri("token=evener");
        let said = || probe_unattended(&uri).err().expect("an engine was found").to_string();
        assert!(probe_unattended(&uri).is_ok());
        home.set_pin_file("999999");
        assert!(said().contains("the PIN is wrong"));
        // The right PIN is not tried either: nobody knows that it is right.
        home.set_pin_file(PIN);
        for _ in 0..3 {
            assert!(said().contains("a wrong PIN was entered before"));
        }
        assert!(probe(&uri).is_ok());
        assert!(probe_unattended(&uri).is_ok());
    });
}

#[test]
fn a_prompt_may_answer_instead_of_a_file() {
    with_token("a_prompt_may_answer_instead_of_a_file", &[], |home| {
        let uri = format!("token=evener?module-path={}", home.module().display());
        let asked = Cell::new(String::new());
        let wrong = find(&uri, &|token| {
            asked.set(token.to_owned());
            Some(Zeroizing::new(b"0000".to_vec()))
        });
        assert!(wrong.err().unwrap().to_string().contains("the PIN is wrong"));
        assert!(asked.take().contains("token `evener`"));
        let engine = find(&uri, &|_| Some(Zeroizing::new(PIN.into()))).unwrap();
        let mut session = open(&*engine, Some(&key(1))).unwrap();
        assert_eq!(encrypt(&mut *session, None).unwrap(), expected(&key(1)));
    });
}

#[test]
fn a_locked_pin_is_not_tried() {
    let settings = [("EVENER_SHIM_PIN_LOCKED", "1")];
    with_token("a_locked_pin_is_not_tried", &settings, |home| {
        let Some(uri) = home.shim("token=evener") else { return };
        assert!(refusal(&uri).contains("locked"));
    });
}

#[test]
fn tokens_and_modules_that_are_not_there_are_named() {
    with_token("tokens_and_modules_that_are_not_there_are_named", &[], |home| {
        let text = refusal(&home.uri("token=enigma"));
        assert!(text.contains("there are: token `evener`"), "{text}");
        assert!(refusal(&home.uri("token=evener;model=HSM%209")).contains("there are"));
        assert!(refusal(&home.uri("library-version=99.9")).contains("does not match the URI"));
        assert!(refusal("?module-path=/nowhere/module.so").contains("/nowhere/module.so"));
        assert!(refusal("?module-path=/lib/x86_64-linux-gnu/libm.so.6").contains("can't be used"));
        assert!(refusal("?module-name=evener-none").contains("module-path="));
        engine(&home.uri("model=SoftHSM%20v2;manufacturer=SoftHSM%20project"));
    });
}

#[test]
fn a_module_that_is_no_file_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("module.so");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let words = refusal(&format!("?module-path={}", pipe.display()));
    assert!(words.contains("module.so can't be used: it is no regular file"), "{words}");
}

#[test]
fn a_key_in_the_token_is_used_without_leaving_it() {
    with_token("a_key_in_the_token_is_used_without_leaving_it", &[], |home| {
        home.import_key("archive", "0102", &[5; 16]);
        home.import_key("other", "0103", &[6; 32]);
        for path in ["token=evener;object=archive", "token=evener;id=%01%02"] {
            let engine = engine(&home.uri(path));
            assert!(engine.holds_key());
            let mut session = open(&*engine, None).unwrap();
            assert_eq!(encrypt(&mut *session, None).unwrap(), expected(&key(5)));
            let refused = encrypt(&mut *session, Some(&key(5)));
            assert!(matches!(refused, Err(EngineError::HoldsKey { .. })));
            assert!(matches!(open(&*engine, Some(&key(5))), Err(EngineError::HoldsKey { .. })));
            assert_eq!(encrypt(&mut *session, None).unwrap(), expected(&key(5)));
            let offers = |cipher| engine.offer(cipher, Direction::Encrypt).is_some();
            assert!(offers(Cipher::Aes128Gcm) && !offers(Cipher::Aes256Gcm));
            assert!(!offers(Cipher::DesEde3Cbc));
        }
        assert!(refusal(&home.uri("token=evener;object=none")).contains("no secret key"));
        assert!(refusal(&home.uri("token=evener;type=secret-key;id=%FF")).contains("no secret"));
        home.import_key("archive", "0104", &[7; 16]);
        assert!(refusal(&home.uri("token=evener;object=archive")).contains("several keys"));
    });
}

#[test]
fn a_removed_token_fails_in_words() {
    with_token("a_removed_token_fails_in_words", &[], |home| {
        home.import_key("archive", "0102", &[5; 16]);
        let engine = engine(&home.uri("token=evener;object=archive"));
        let mut session = open(&*engine, None).unwrap();
        assert_eq!(encrypt(&mut *session, None).unwrap(), expected(&key(5)));
        fs::remove_dir_all(home.tokens()).unwrap();
        let error = encrypt(&mut *session, None).unwrap_err();
        println!("{error}");
        assert!(matches!(error, EngineError::Failed { .. }));
        assert!(error.to_string().contains("removed"), "{error}");
    });
}

#[test]
fn a_token_that_is_pulled_out_fails_in_words() {
    let settings = [("EVENER_SHIM_REMOVED_AFTER", "2")];
    with_token("a_token_that_is_pulled_out_fails_in_words", &settings, |home| {
        let Some(uri) = home.shim("token=evener") else { return };
        let engine = engine(&uri);
        let mut session = open(&*engine, None).unwrap();
        for seed in [1, 2] {
            let output = encrypt(&mut *session, Some(&key(seed))).unwrap();
            assert_eq!(output, expected(&key(seed)));
        }
        for seed in [2, 3] {
            let error = encrypt(&mut *session, Some(&key(seed))).unwrap_err();
            assert!(error.to_string().contains("the token was removed"), "{error}");
        }
        assert!(matches!(open(&*engine, None), Err(EngineError::Unavailable { .. })));
    });
}

#[test]
fn parts_are_chained_right_where_a_token_writes_to_its_input() {
    let settings = [("EVENER_SHIM_LIE", "scribble")];
    let test = "parts_are_chained_right_where_a_token_writes_to_its_input";
    with_token(test, &settings, |home| {
        let Some(uri) = home.shim("token=evener") else { return };
        let engine = engine(&uri);
        let (key, iv) = (key(5), Iv::new(&[7; 16]).unwrap());
        let sealed: Vec<u8> = (0..3 * PART_LENGTH).map(|at| (at / 7) as u8).collect();
        let decrypt = |engine: &dyn Engine| {
            let (cipher, direction) = (Cipher::Aes128Cbc, Direction::Decrypt);
            let request = SessionRequest { cipher, direction, key: Some(&key) };
            let (input, mut output) = (sealed.clone(), vec![0; sealed.len()]);
            let mut batch = [Job::new(iv, &input, &mut output)];
            engine.open(&request).unwrap().process(&mut batch).unwrap();
            assert_eq!(batch[0].outcome, Outcome::Done { written: sealed.len() });
            (input, output)
        };
        let (input, output) = decrypt(&*engine);
        assert_ne!(input, sealed, "the token wrote to its input");
        assert!(output == decrypt(&*crate::find("openssl").unwrap()).1);
    });
}

#[test]
fn the_session_limit_is_kept_and_said() {
    let settings = [("EVENER_SHIM_SESSIONS", "2")];
    with_token("the_session_limit_is_kept_and_said", &settings, |home| {
        let Some(uri) = home.shim("token=evener") else { return };
        let engine = engine(&uri);
        // One of the two sessions keeps the user logged in.
        let offer = engine.offer(Cipher::Aes128Cbc, Direction::Encrypt).unwrap();
        assert_eq!(offer.depth, 1);
        let mut session = open(&*engine, Some(&key(1))).unwrap();
        let error = open(&*engine, None).err().unwrap();
        assert!(error.to_string().contains("no session left"), "{error}");
        assert_eq!(encrypt(&mut *session, None).unwrap(), expected(&key(1)));
        assert!(refusal(&uri).contains("no session left"));
        drop(session);
        assert!(open(&*engine, None).is_ok());
    });
}

#[test]
fn who_only_looks_at_a_scarce_token_keeps_no_session() {
    let settings = [("EVENER_SHIM_SESSIONS", "2")];
    with_token("who_only_looks_at_a_scarce_token_keeps_no_session", &settings, |home| {
        home.import_key("archive", "0102", &[5; 16]);
        let Some(uri) = home.shim("token=evener;object=archive") else { return };
        // Both are found while neither works. Then they work in turns, and each logs in again.
        let engines = [engine(&uri), engine(&uri)];
        for engine in engines.iter().chain(&engines) {
            let offer = engine.offer(Cipher::Aes128Gcm, Direction::Encrypt).unwrap();
            assert_eq!((offer.depth, offer.holders), (1, Some(1)));
            let mut session = open(&**engine, None).unwrap();
            assert_eq!(encrypt(&mut *session, None).unwrap(), expected(&key(5)));
        }
    });
}

#[test]
fn a_token_with_no_session_to_spare_is_refused() {
    let settings = [("EVENER_SHIM_SESSIONS", "1")];
    with_token("a_token_with_no_session_to_spare_is_refused", &settings, |home| {
        let Some(uri) = home.shim("token=evener") else { return };
        assert!(refusal(&uri).contains("in use"));
    });
}

#[test]
fn a_module_that_hangs_is_left_behind() {
    let settings = [("EVENER_SHIM_HANGS", "1")];
    with_token("a_module_that_hangs_is_left_behind", &settings, |home| {
        let Some(uri) = home.shim("token=evener") else { return };
        let uri = Uri::parse(&uri).unwrap();
        let found = find_within(
            Duration::from_millis(300),
            "pkcs11:token".to_owned(),
            uri,
            Attendance::Attended,
            &|_| None,
        );
        let words = found.err().expect("it answered").to_string();
        assert!(words.contains("is not available: it did not answer within 0.3 s"), "{words}");
        // Callers of other engines are not affected.
        assert!(crate::find("openssl").is_ok());
    });
}

#[test]
fn a_module_that_never_closes_a_session_holds_nobody_up() {
    let settings = [("EVENER_SHIM_CLOSING", "1000000000")];
    with_token("a_module_that_never_closes_a_session_holds_nobody_up", &settings, |home| {
        let Some(uri) = home.shim("token=evener") else { return };
        let engine = engine(&uri);
        assert!(engine.offer(Cipher::Aes128Cbc, Direction::Encrypt).is_some());
        // Returns, though the session that keeps the user logged in stays open.
        drop(engine);
    });
}

#[test]
fn a_pin_file_that_others_can_read_is_refused() {
    with_token("a_pin_file_that_others_can_read_is_refused", &[], |home| {
        let pin = home.pin_file();
        fs::set_permissions(&pin, Permissions::from_mode(0o644)).unwrap();
        let words = refusal(&home.uri("token=evener"));
        assert!(words.contains("mode 644") && words.contains("chmod 600"), "{words}");
    });
}

#[test]
fn a_mechanism_that_is_not_listed_is_not_offered() {
    // CKM_AES_CBC
    let settings = [("EVENER_SHIM_WITHOUT", "0x1082")];
    with_token("a_mechanism_that_is_not_listed_is_not_offered", &settings, |home: &Home| {
        let Some(uri) = home.shim("token=evener") else { return };
        let engine = engine(&uri);
        assert!(engine.offer(Cipher::Aes128Cbc, Direction::Encrypt).is_none());
        assert!(engine.offer(Cipher::Aes128Gcm, Direction::Encrypt).is_some());
        assert!(matches!(open(&*engine, None), Err(EngineError::NotOffered { .. })));
    });
}
