//! Tests operations that are stopped, or lose their last engine, at every batch that they process.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use common::child::{Flags, key_ring};
use common::scene::{Age, Scene};
use common::{Options, process, process_stream};
use evener_core::{Description, Engine, EngineError, Job, Kind, Session};
use evener_engines::acting::Acting;
use evener_pipeline::PolicyName;
use evener_place::{Control, Operation, Report, StreamSource, StreamTarget};

/// The event at a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The operation is stopped.
    Stop,
    /// From then on, all engines fail.
    Fail,
}

/// Counts the batches of all engines that share it, and triggers the event at one of them.
struct Plot {
    event: Event,
    at: u64,
    batches: AtomicU64,
    control: Arc<Control>,
}

impl Plot {
    fn process(&self, session: &mut dyn Session, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let Plot { event, at, batches, control } = self;
        let number = batches.fetch_add(1, Ordering::SeqCst);
        if number >= *at {
            if *event == Event::Fail {
                return Err(EngineError::unavailable("it failed"));
            }
            if number == *at {
                control.stop();
                // Let the other workers meet the stop while this segment is being processed.
                sleep(Duration::from_millis(2));
            }
        }
        session.process(batch)
    }
}

/// Three workers, of these kinds.
fn options(kinds: [Kind; 3], policy: PolicyName, plot: &Arc<Plot>, flags: Flags) -> Options {
    let openssl = evener_engines::find("openssl").unwrap();
    let seat = |(number, kind): (usize, Kind)| {
        let description = Description::new(format!("disturbed-{number}"), kind);
        let plot = Arc::clone(plot);
        let disturbed =
            Acting::new(Arc::clone(&openssl), move |session, batch| plot.process(session, batch));
        Arc::new(disturbed.described(description)) as Arc<dyn Engine>
    };
    let seats = kinds.into_iter().enumerate().map(seat).collect();
    let (control, policy) = (Arc::clone(&plot.control), Some(policy.into()));
    // Buffers so short that long files have several segments.
    flags.options().with(|it| {
        it.run.seats = seats;
        it.run.policy = policy;
        it.run.control = control;
        it.run.memory = 6 * (70 << 10);
    })
}

const MIXED: [Kind; 3] = [Kind::Cpu, Kind::Module, Kind::Module];

/// Two files of several segments, and some shorter files.
fn fill(root: &Path, age: Age) {
    fs::create_dir(root).unwrap();
    for number in 0..6 {
        age.write(&root.join(format!("small-{number}")), 1 + number * 900);
    }
    age.write(&root.join("large-1"), 300_000);
    age.write(&root.join("large-2"), 420_000);
}

const FILES: u64 = 8;

/// Disturbs an operation at its first batch and every `step`th batch after that, until it
/// completes.
fn disturb(
    operation: Operation,
    keys: &'static str,
    (kinds, policy): ([Kind; 3], PolicyName),
    event: Event,
    step: usize,
) {
    for overwrite in [false, true] {
        let flags = Flags { overwrite, ..Flags::default() };
        let scene = Scene::new(operation, keys, flags, fill);
        for at in (0..).step_by(step) {
            let what =
                format!("{operation:?} {keys} {kinds:?} {policy} {event:?} at {at}, {flags:?}");
            scene.reset();
            let control = Arc::default();
            let plot = Arc::new(Plot { event, at, batches: AtomicU64::new(0), control });
            let options = options(kinds, policy, &plot, flags);
            let report = process(
                operation,
                &key_ring(keys),
                &scene.source(),
                Some(&scene.target()),
                &options,
            )
            .unwrap();
            scene.assert_whole(&what);
            scene.assert_no_leftovers(&what);
            check(&report, event, &what);
            let new = scene.count_new(&what);
            assert_eq!(new, report.files, "{what}: {:?}", report.failures);
            if plot.batches.load(Ordering::SeqCst) <= at {
                assert!(report.is_success() && report.files == FILES, "{what}");
                assert!(at > 8, "{what}: too few batches");
                break;
            }
        }
    }
}

fn check(report: &Report, event: Event, what: &str) {
    let failures = report.failures.len() as u64;
    match event {
        // Work that an interruption leaves undone is not a failure.
        Event::Stop => assert_eq!(failures, 0, "{what}: {:?}", report.failures),
        Event::Fail => {
            assert!(!report.interrupted, "{what}");
            assert_eq!(report.files + failures, FILES, "{what}: {:?}", report.failures);
        }
    }
    assert!(report.files == FILES || !report.is_success(), "{what}");
}

fn disturb_all(event: Event, step: usize) {
    for workers in [
        (MIXED, PolicyName::Pull),
        (MIXED, PolicyName::Adaptive),
        ([Kind::Cpu; 3], PolicyName::Pull),
        ([Kind::Module; 3], PolicyName::Adaptive),
    ] {
        for operation in [Operation::Encrypt, Operation::Decrypt] {
            disturb(operation, "cobblestone-256", workers, event, step);
        }
    }
    // Chained when it encrypts, and padded; and with a header that takes an exchange of keys.
    for operation in [Operation::Encrypt, Operation::Decrypt] {
        for keys in ["openssl aes-256-cbc", "age"] {
            disturb(operation, keys, (MIXED, PolicyName::Pull), event, step);
        }
    }
}

#[test]
fn stopped_at_every_batch() {
    disturb_all(Event::Stop, 1);
}

#[test]
fn without_an_engine_from_every_batch_on() {
    disturb_all(Event::Fail, 3);
}

#[test]
fn streams_that_are_stopped_or_lose_their_engines_get_no_name() {
    for operation in [Operation::Encrypt, Operation::Decrypt] {
        for keys in ["cobblestone-256", "age"] {
            disturb_stream(operation, keys);
        }
    }
}

fn disturb_stream(operation: Operation, keys: &'static str) {
    let scene = Scene::new(operation, keys, Flags::default(), fill);
    let ring = key_ring(keys);
    let source = fs::read_dir(scene.source()).unwrap().map(|entry| entry.unwrap().path());
    let source = source.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let target = scene.source().with_file_name("stream");
    for event in [Event::Stop, Event::Fail] {
        for at in 0.. {
            let what = format!("{operation:?} {keys} {event:?} at {at}");
            let control = Arc::default();
            let plot = Arc::new(Plot { event, at, batches: AtomicU64::new(0), control });
            let options = options(MIXED, PolicyName::Pull, &plot, Flags::default());
            let from = StreamSource::File(source.clone());
            let to = StreamTarget::File(target.clone());
            let report = process_stream(operation, &ring, from, to, &options).unwrap();
            assert_eq!(u64::from(target.exists()), report.files, "{what}");
            if plot.batches.load(Ordering::SeqCst) <= at {
                assert!(report.is_success(), "{what}");
                fs::remove_file(&target).unwrap();
                break;
            }
            assert!(!report.is_success(), "{what}");
            assert!(report.files == 0, "{what}");
        }
    }
}
