//! Tests that trees are completed although an engine fails midway.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::{
    Options, assert_same_tree, bytes, cobblestone, every_key_ring, options, process,
    process_stream, tink,
};
use evener_core::{Engine, Mode};
use evener_engines::faulty::{Fault, Faulty};
use evener_engines::{Watch, guard};
use evener_place::{
    FileError, KeyRing, Operation, Report, StreamSource, StreamTarget, WorkerEffort,
};

/// Long enough for an engine that does not hang, on any machine.
const DEADLINE: Duration = Duration::from_secs(3);

fn openssl() -> Arc<dyn Engine> {
    evener_engines::find("openssl").unwrap()
}

/// A guarded engine, and the engine that takes over after its fault.
fn options_with(faulty: &Arc<Faulty>, verify_every: u64) -> Options {
    let watch =
        Watch { verify_every: Some(verify_every), deadline: Some(DEADLINE), retreats: false };
    let engine = guard(Arc::clone(faulty) as Arc<dyn Engine>, openssl(), watch);
    Options::new(vec![engine, faulty.successor()])
}

fn encrypt(keys: &KeyRing, from: &Path, to: &Path, options: &Options) -> Report {
    process(Operation::Encrypt, keys, from, Some(to), options).unwrap()
}

fn decrypt(keys: &KeyRing, from: &Path, to: &Path, options: &Options) -> Report {
    process(Operation::Decrypt, keys, from, Some(to), options).unwrap()
}

/// 128 files of one job each. Their first bytes differ, so that no file's result is right for
/// another file.
fn make_small_files(root: &Path) {
    fs::create_dir(root).unwrap();
    for number in 0..FILES {
        let content = [&[number as u8][..], &bytes(number * 50)].concat();
        fs::write(root.join(format!("file-{number}")), content).unwrap();
    }
}

/// One file that all workers share.
fn make_large_file(root: &Path) {
    fs::create_dir(root).unwrap();
    fs::write(root.join("large"), bytes(3_000_000)).unwrap();
}

const FILES: usize = 128;

/// The maximum number of files that a worker claims at once.
const CLAIM: usize = 32;

/// The number of known-answer jobs of a session, per direction.
fn known_answers(direction: Operation, keys: &KeyRing) -> u64 {
    let engine = Faulty::new(openssl(), Fault::Error, u64::MAX);
    let watched = guard(Arc::clone(&engine) as Arc<dyn Engine>, openssl(), Watch::default());
    let (cipher, direction) = (keys.primary().cipher(), direction.direction());
    let request = evener_core::SessionRequest { cipher, direction, key: None };
    watched.open(&request).unwrap();
    engine.jobs()
}

/// Encrypts and decrypts a tree, with the fault first in encryption and then in decryption.
fn there_and_back(keys: &KeyRing, make: fn(&Path), fault: Fault, at: u64) {
    let home = tempfile::tempdir().unwrap();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    make(&plain);

    let opening = known_answers(Operation::Encrypt, keys);
    let faulty = Faulty::new(openssl(), fault, opening + at);
    let encrypted = encrypt(keys, &plain, &sealed, &options_with(&faulty, 1));
    assert_retired(&encrypted, &faulty, fault);
    assert!(decrypt(keys, &sealed, &back, &options()).is_success(), "{fault} at {at}");
    assert_same_tree(&plain, &back);
    fs::remove_dir_all(&back).unwrap();

    let opening = known_answers(Operation::Decrypt, keys);
    let faulty = Faulty::new(openssl(), fault, opening + at);
    let decrypted = decrypt(keys, &sealed, &back, &options_with(&faulty, 1));
    assert_retired(&decrypted, &faulty, fault);
    assert_same_tree(&plain, &back);
}

fn assert_retired(report: &Report, faulty: &Faulty, fault: Fault) {
    assert!(faulty.has_struck(), "{fault} did not show: {report:?}");
    assert!(report.is_success(), "{fault}: {:?}", report.failures);
    if matches!(fault, Fault::Hang(_)) && report.retired.is_empty() {
        // With a core present, nobody waits for it until it counts as failed.
        let is_late =
            |worker: &WorkerEffort| worker.was_late && worker.engine == faulty.description().name;
        assert!(report.workers.iter().any(is_late), "{report:?}");
        return;
    }
    let [retirement] = &report.retired[..] else { panic!("{fault}: {:?}", report.retired) };
    println!("{}", retirement.cause);
    assert_eq!(retirement.engine, faulty.description().name);
    assert_eq!((retirement.workers, retirement.doubtful_jobs), (1, 0));
}

#[test]
fn a_tree_is_done_whatever_fails_whenever() {
    // The sound engine claims some files and waits, so the faulty engine surely gets all other
    // files.
    let last = (FILES - CLAIM - 1) as u64;
    thread::scope(|scope| {
        for &fault in Fault::ALL {
            scope.spawn(move || {
                for at in [0, last / 2, last] {
                    there_and_back(&cobblestone(), make_small_files, fault, at);
                }
            });
        }
    });
}

#[test]
fn a_file_in_segments_survives_an_engine_that_fails_between_them() {
    for fault in [Fault::Error, Fault::Wrong, Fault::Short] {
        for keys in [cobblestone(), KeyRing::new(tink(1, 4096))] {
            there_and_back(&keys, make_large_file, fault, 40);
        }
    }
}

/// The engine keeps the buffers in which it hangs, and the reference engine continues with new
/// buffers: for trees of small files with their headers, a long file, and a pipe, which can't be
/// read again.
#[test]
fn what_hangs_is_done_by_the_reference_engine_where_no_other_is_there() {
    let keys = cobblestone();
    let hanging = |operation: Operation, at| {
        let opening = known_answers(operation, &keys);
        let faulty = Faulty::new(openssl(), Fault::Hang(Duration::MAX), opening + at);
        let watch = Watch { verify_every: Some(0), deadline: Some(DEADLINE), retreats: true };
        let engine = guard(Arc::clone(&faulty) as Arc<dyn Engine>, openssl(), watch);
        (faulty, Options::new(vec![engine]))
    };
    let home = common::home();
    for (number, make) in [make_small_files, make_large_file].into_iter().enumerate() {
        let path = |name: &str| home.path().join(format!("{name}-{number}"));
        let [plain, sealed, back] = ["plain", "sealed", "back"].map(path);
        make(&plain);
        let (faulty, options) = hanging(Operation::Encrypt, 3);
        assert!(encrypt(&keys, &plain, &sealed, &options).is_success() && faulty.has_struck());
        let (faulty, options) = hanging(Operation::Decrypt, 3);
        assert!(decrypt(&keys, &sealed, &back, &options).is_success() && faulty.has_struck());
        assert_same_tree(&plain, &back);
    }
    let content = bytes(3_000_000);
    let path = |name: &str| home.path().join(name);
    fs::write(path("plain"), &content).unwrap();
    for (operation, from, to) in
        [(Operation::Encrypt, "plain", "sealed"), (Operation::Decrypt, "sealed", "back")]
    {
        let (faulty, options) = hanging(operation, 40);
        let source = StreamSource::Descriptor(fs::File::open(path(from)).unwrap().into());
        let target = StreamTarget::Descriptor(fs::File::create(path(to)).unwrap().into());
        let report = process_stream(operation, &keys, source, target, &options).unwrap();
        assert!(report.is_success() && faulty.has_struck(), "{operation:?}: {report:?}");
    }
    assert!(fs::read(path("back")).unwrap() == content);
}

/// With a chaining cipher, one engine works at a time, and the next continues where it failed.
#[test]
fn a_pipe_of_a_cipher_that_chains_goes_on_with_the_next_engine() {
    let home = common::home();
    let path = |name: &str| home.path().join(name);
    let content = bytes(3_000_000);
    fs::write(path("plain"), &content).unwrap();
    let encrypt = |keys: &KeyRing, options: &Options| {
        let source = StreamSource::Descriptor(fs::File::open(path("plain")).unwrap().into());
        let target = StreamTarget::Descriptor(fs::File::create(path("sealed")).unwrap().into());
        process_stream(Operation::Encrypt, keys, source, target, options).unwrap()
    };
    for (name, keys) in every_key_ring() {
        if keys.primary().cipher().mode() != Mode::Cbc {
            continue;
        }
        let opening = known_answers(Operation::Encrypt, &keys);
        for (fault, at) in [(Fault::Error, 0), (Fault::Wrong, 3), (Fault::Hang(Duration::MAX), 7)] {
            // Of two modules, the one named first is asked first.
            let faulty = Faulty::new(openssl(), fault, opening + at);
            let [watched, ..] = &options_with(&faulty, 1).run.seats[..] else { panic!("no seats") };
            let sound = Faulty::new(openssl(), Fault::Error, u64::MAX);
            let report = encrypt(&keys, &Options::new(vec![watched.clone(), sound]));
            assert_retired(&report, &faulty, fault);
            let target = path(&format!("back-{name}-{fault}"));
            assert!(
                process(Operation::Decrypt, &keys, &path("sealed"), Some(&target), &options())
                    .unwrap()
                    .is_success()
            );
            assert!(fs::read(&target).unwrap() == content, "{name}, {fault} at {at}");
        }
        // If no engine is left, the report gives the cause.
        let faulty = Faulty::new(openssl(), Fault::Error, opening + 3);
        let alone = Options::new(vec![options_with(&faulty, 1).run.seats[0].clone()]);
        let report = encrypt(&keys, &alone);
        let [failure] = &report.failures[..] else { panic!("{report:?}") };
        assert!(matches!(failure.error, FileError::Engine(_)), "{failure}");
    }
}

/// A file of one job has that job verified, regardless of the random choice, so nothing is in
/// doubt.
#[test]
fn a_file_that_one_engine_does_alone_has_a_verified_job() {
    let home = tempfile::tempdir().unwrap();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    make_small_files(&plain);
    let keys = cobblestone();
    let opening = known_answers(Operation::Encrypt, &keys);
    let faulty = Faulty::new(openssl(), Fault::Wrong, opening + 15);
    let report = encrypt(&keys, &plain, &sealed, &options_with(&faulty, SELDOM));
    assert_retired(&report, &faulty, Fault::Wrong);
    let effort = report.engines[&faulty.description().name];
    assert_eq!((effort.verified_jobs, effort.unverified_jobs), (Some(15), Some(0)));
}

/// So rare that no random choice selects a job.
const SELDOM: u64 = 1 << 60;

/// Of several jobs per file, one is verified: the report names everything that is wrong.
#[test]
fn files_in_doubt_are_named_and_are_no_success() {
    let keys = cobblestone();
    let mut named = 0;
    for round in 0..12 {
        let home = common::home();
        let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
        fs::create_dir(&plain).unwrap();
        for number in 0..40 {
            fs::write(plain.join(format!("file-{number}")), bytes(100_000 + number)).unwrap();
        }
        fs::write(plain.join("large"), bytes(2_000_000)).unwrap();
        let opening = known_answers(Operation::Encrypt, &keys);
        let faulty = Faulty::new(openssl(), Fault::Wrong, opening + 20 + round);
        let report = encrypt(&keys, &plain, &sealed, &options_with(&faulty, SELDOM));
        assert!(faulty.has_struck() && report.failures.is_empty(), "{report:?}");
        let doubtful: Vec<_> = report.doubtful.iter().map(|doubt| doubt.path.clone()).collect();
        assert_eq!(report.is_success(), report.retired[0].doubtful_jobs == 0);
        named += doubtful.len();
        let verified = process(Operation::Verify, &keys, &sealed, None, &options()).unwrap();
        for failure in &verified.failures {
            let name = failure.path.file_stem().unwrap();
            assert!(doubtful.contains(&plain.join(name)), "{failure} is wrong and not named");
        }
        assert_sums_agree(&report);
    }
    println!("{named} files in doubt in 12 rounds");
}

/// Every job that the engine did was either verified or not.
fn assert_sums_agree(report: &Report) {
    for (name, effort) in &report.engines {
        if let (Some(verified), Some(unverified)) = (effort.verified_jobs, effort.unverified_jobs) {
            assert_eq!(verified + unverified, effort.jobs, "{name}: {report:?}");
        }
    }
}

/// Good samples between the wrong jobs clear nothing: the report names every wrong file once the
/// engine is exposed, whenever the file was published.
#[test]
fn a_good_sample_clears_no_earlier_doubt() {
    // The first is usually missed; one of the rest is a file's last job, which is verified.
    const WRONG: &[u64] = &[9, 40, 41, 42, 43, 44, 45, 46, 47];
    let keys = cobblestone();
    let (mut found, mut wrong) = (0, 0);
    for _ in 0..10 {
        let home = common::home();
        let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
        fs::create_dir(&plain).unwrap();
        for number in 0..80 {
            fs::write(plain.join(format!("file-{number}")), bytes(100_000 + number)).unwrap();
        }
        let opening = known_answers(Operation::Encrypt, &keys);
        let faulty = Faulty::new(openssl(), Fault::Among(WRONG), opening);
        let report = encrypt(&keys, &plain, &sealed, &options_with(&faulty, SELDOM));
        assert_sums_agree(&report);
        let Some(retired) = report.retired.first() else { continue };
        found += 1;
        let effort = report.engines[&faulty.description().name];
        assert_eq!(Some(retired.doubtful_jobs), effort.unverified_jobs);
        assert_eq!(report.is_success(), retired.doubtful_jobs == 0, "{report:?}");
        let doubtful: Vec<_> = report.doubtful.iter().map(|doubt| doubt.path.clone()).collect();
        let verified = process(Operation::Verify, &keys, &sealed, None, &options()).unwrap();
        for failure in &verified.failures {
            let name = failure.path.file_stem().unwrap();
            assert!(doubtful.contains(&plain.join(name)), "{failure} is wrong and not named");
            wrong += 1;
        }
    }
    println!("found in {found} of 10 rounds; {wrong} wrong files, all named");
    assert!(found > 0 && wrong > 0);
}

/// An engine whose output only it can read must not verify that output.
#[test]
fn sources_are_compared_on_the_reference() {
    let home = tempfile::tempdir().unwrap();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    make_small_files(&plain);
    let keys = cobblestone();
    let opening = known_answers(Operation::Encrypt, &keys);
    let faulty = Faulty::new(openssl(), Fault::Symmetric, opening);
    let watch = Watch { verify_every: Some(0), deadline: None, retreats: false };
    let engine = guard(Arc::clone(&faulty) as Arc<dyn Engine>, openssl(), watch);
    let alone = |reference| {
        Options::new(vec![engine.clone()]).with(|it| {
            it.tree.remove_source = true;
            it.run.reference = reference;
        })
    };
    let refused = process(Operation::Encrypt, &keys, &plain, Some(&sealed), &alone(None));
    assert!(refused.unwrap_err().to_string().contains("no engine to read outputs back"));
    let report = encrypt(&keys, &plain, &sealed, &alone(Some(openssl())));
    assert_eq!((report.files, report.failures.len()), (0, FILES));
    assert_eq!(fs::read_dir(&plain).unwrap().count(), FILES);
    assert_eq!(fs::read_dir(&sealed).unwrap().count(), 0);
}

#[test]
fn when_no_other_engine_is_left_every_file_is_named() {
    let home = tempfile::tempdir().unwrap();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    make_small_files(&plain);
    let keys = cobblestone();
    let opening = known_answers(Operation::Encrypt, &keys);
    let faulty = Faulty::new(openssl(), Fault::Vanish, opening + 70);
    let options = options_with(&faulty, 1);
    let alone = Options::new(vec![options.run.seats[0].clone()]);
    let report = encrypt(&keys, &plain, &sealed, &alone);
    assert_eq!(report.files + report.failures.len() as u64, FILES as u64);
    assert_eq!(report.files, 70);
    assert!(report.failures[0].error.to_string().contains("vanished"));
}
