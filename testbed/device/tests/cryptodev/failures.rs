//! The effects of a failing device on the engine's jobs.

use evener_core::EngineError;

use crate::{JOBS, PROBED_SESSIONS, TRIALS, open, run, with_device};

#[test]
fn a_full_session_table_is_told() {
    with_device("failures::a_full_session_table_is_told", &["--sessions", "2"], || {
        let engine = evener_engines::raw::find("cryptodev").unwrap();
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
    with_device("failures::a_refused_operation_loses_nothing", &["--invalid-at", &refused], || {
        let engine = evener_engines::raw::find("cryptodev").unwrap();
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
    with_device("failures::a_device_that_vanishes_loses_nothing", &["--vanish-at", &last], || {
        let engine = evener_engines::raw::find("cryptodev").unwrap();
        let mut session = open(&*engine).unwrap();
        let (result, done) = run(&mut *session);
        let error = result.unwrap_err();
        assert!(error.to_string().contains("the device is gone"), "{error}");
        assert_eq!(done, [true, true, true, false]);
        assert!(run(&mut *session).0.is_err());
        assert!(matches!(open(&*engine), Err(EngineError::Unavailable { .. })));
        assert!(evener_engines::raw::find("cryptodev").is_err());
    });
}

#[test]
fn jobs_under_way_together_are_done_one_by_one_when_one_is_refused() {
    let name = "failures::jobs_under_way_together_are_done_one_by_one_when_one_is_refused";
    let refused = (TRIALS + 1 + 2).to_string();
    with_device(name, &["--ring", "16", "--invalid-at", &refused], || {
        let engine = evener_engines::raw::find("cryptodev").unwrap();
        let mut session = open(&*engine).unwrap();
        assert_eq!(run(&mut *session), (Ok(()), vec![true; JOBS]));
        assert_eq!(run(&mut *session), (Ok(()), vec![true; JOBS]));
    });
}

#[test]
fn a_device_that_vanishes_with_several_requests_under_way_loses_nothing() {
    let name = "failures::a_device_that_vanishes_with_several_requests_under_way_loses_nothing";
    let last = (TRIALS + 1 + JOBS).to_string();
    with_device(name, &["--ring", "16", "--lazy", "--vanish-at", &last], || {
        let engine = evener_engines::raw::find("cryptodev").unwrap();
        let mut session = open(&*engine).unwrap();
        let (result, done) = run(&mut *session);
        assert!(matches!(result, Err(EngineError::Unavailable { .. })), "{result:?}");
        assert_eq!(done, [false; JOBS]);
    });
}

#[test]
fn software_that_takes_over_is_refused_unless_any_driver_will_do() {
    let name = "failures::software_that_takes_over_is_refused_unless_any_driver_will_do";
    let first_after_two = (PROBED_SESSIONS + 2 + 1).to_string();
    with_device(name, &["--software-from", &first_after_two], || {
        let engine = evener_engines::raw::find("cryptodev").unwrap();
        let mut session = open(&*engine).unwrap();
        assert_eq!(run(&mut *session), (Ok(()), vec![true; JOBS]));
        let mut second = open(&*engine).unwrap();
        let Err(error) = open(&*engine) else { panic!("software was taken for the device") };
        assert!(matches!(&error, EngineError::Unavailable { .. }), "{error:?}");
        let words = error.to_string();
        assert!(words.contains("was served by cbc-aes-testbed (hardware)"), "{words}");
        assert!(words.contains("gave the session to cbc-aes-generic (software)"), "{words}");
        // The device's existing sessions still work.
        assert_eq!(run(&mut *second), (Ok(()), vec![true; JOBS]));
        assert!(evener_engines::raw::find("cryptodev").is_err());
        let engine = evener_engines::raw::find("cryptodev:any").unwrap();
        let mut session = open(&*engine).unwrap();
        assert_eq!(run(&mut *session), (Ok(()), vec![true; JOBS]));
    });
}
