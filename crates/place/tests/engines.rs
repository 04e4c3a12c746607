//! Tests engines that want many jobs at once, and engines that fail midway.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{
    Options, assert_same_tree, bytes, every_key_ring, home, options, process, round_trip, tink,
};
use evener_core::{Engine, EngineError};
use evener_engines::acting::Acting;
use evener_place::{FileError, KeyRing, Operation};

/// The openssl engine in disguise: it requests `size` jobs at once, and fails permanently after
/// `batches_left` batches.
fn disguised(size: usize, batches_left: usize) -> Arc<dyn Engine> {
    let batches_left = AtomicUsize::new(batches_left);
    let engine = evener_engines::find("openssl").unwrap();
    let engine = Acting::new(engine, move |session, batch| {
        let take = |left: usize| left.checked_sub(1);
        if batches_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err() {
            // Half of the batch was done when the device vanished.
            let half = batch.len() / 2;
            session.process(&mut batch[..half])?;
            return Err(EngineError::failed("the device is gone"));
        }
        session.process(batch)
    });
    Arc::new(engine.offering(move |offer| offer.batch(size)))
}

/// Files shorter and longer than a worker's buffer, mixed, so that a worker has begun a batch of
/// short files when a long one comes.
fn make_mixed_tree(root: &Path) {
    fs::create_dir_all(root).unwrap();
    for number in 0..60 {
        let length = if number % 7 == 3 { 150_000 + number } else { number * 131 };
        fs::write(root.join(format!("{number}")), bytes(length)).unwrap();
    }
}

/// Buffers of 70 KiB for any number of workers.
fn options_with(seats: Vec<Arc<dyn Engine>>) -> Options {
    options().with(|it| {
        it.run.memory = seats.len() * (140 << 10);
        it.run.seats = seats;
    })
}

/// One key ring of each type in [`every_key_ring`], with segments that fit those buffers.
fn key_rings() -> Vec<(String, KeyRing)> {
    let mut rings = every_key_ring();
    let kinds = ["cobblestone-256", "openssl aes-256-cbc", "openssl des-ede3-cbc, raw"];
    rings.retain(|(name, _)| kinds.contains(&name.as_str()));
    rings.push(("tink".to_owned(), KeyRing::new(tink(1, 4096)).with(tink(2, 5000))));
    rings
}

#[test]
fn batches_of_short_files_survive_a_long_one_among_them() {
    for (name, keys) in key_rings() {
        let home = home();
        let plain = home.path().join("plain");
        make_mixed_tree(&plain);
        let options = options_with(vec![disguised(16, usize::MAX)]);
        round_trip(&name, &keys, &plain, home.path(), &options);
    }
}

#[test]
fn memory_that_holds_a_chunk_does_whatever_number_of_workers_is_asked_for() {
    let home = home();
    let plain = home.path().join("plain");
    make_mixed_tree(&plain);
    let segment = 64 << 10;
    let keys = KeyRing::new(tink(1, segment as u32)).with(tink(2, segment as u32));
    let seats = vec![disguised(1, usize::MAX); 50];
    let mut options = options().with(|it| {
        it.run.memory = 5 * segment;
        it.run.seats = seats;
    });
    round_trip("two workers", &keys, &plain, home.path(), &options);
    options.run.memory = 2 * segment + 1024;
    let away = home.path().join("one worker");
    fs::create_dir(&away).unwrap();
    round_trip("one worker", &keys, &plain, &away, &options);

    options.run.memory = segment;
    let none = away.join("none");
    let report = process(Operation::Encrypt, &keys, &plain, Some(&none), &options).unwrap();
    assert!(!report.is_success());
    for failure in &report.failures {
        assert!(matches!(failure.error, FileError::Memory { .. }), "{failure:?}");
    }
}

#[test]
fn what_one_engine_fails_another_does() {
    for (name, keys) in key_rings() {
        for batches in [0, 1, 7] {
            for batch in [1, 16] {
                let home = home();
                let [plain, sealed, back] =
                    ["plain", "sealed", "back"].map(|name| home.path().join(name));
                make_mixed_tree(&plain);
                for (operation, from, to) in [
                    (Operation::Encrypt, &plain, Some(&*sealed)),
                    (Operation::Verify, &sealed, None),
                    (Operation::Decrypt, &sealed, Some(&*back)),
                ] {
                    let seats = vec![disguised(batch, batches), disguised(batch, usize::MAX)];
                    let report = process(operation, &keys, from, to, &options_with(seats)).unwrap();
                    assert!(report.is_success(), "{name}: {operation:?}: {:?}", report.failures);
                    assert_eq!(report.files, 60, "{name}: {operation:?}");
                }
                assert_same_tree(&plain, &back);
            }
        }
    }
}

#[test]
fn when_no_engine_is_left_every_file_is_done_or_named() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    make_mixed_tree(&plain);
    for (name, keys) in key_rings() {
        for batches in 0..20 {
            let _ = fs::remove_dir_all(&sealed);
            let seats = vec![disguised(4, batches), disguised(4, batches)];
            let options = options_with(seats);
            let report =
                process(Operation::Encrypt, &keys, &plain, Some(&sealed), &options).unwrap();
            assert_eq!(report.files as usize + report.failures.len(), 60, "{name}, {batches}");
            for failure in &report.failures {
                assert!(matches!(failure.error, FileError::Engine(_)), "{name}: {failure:?}");
            }
            assert_eq!(fs::read_dir(&sealed).unwrap().count() as u64, report.files, "{name}");
        }
    }
}
