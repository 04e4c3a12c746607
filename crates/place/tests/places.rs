//! Tests transfers between places, in memory and far away.

mod common;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use common::slow::Slow;
use common::{Options, bytes, cobblestone, every_key_ring, options};
use evener_place::{Abilities, Blob, Entry, Fault, Memory, Name, Origin, Store, transfer};
use evener_place::{FileError, KeyRing, Operation, OperationError, RandomAccess, Report};

fn name(path: impl AsRef<std::path::Path>) -> Name {
    Name::new(path).unwrap()
}

/// Objects of many lengths.
fn objects() -> Memory {
    let memory = Memory::new();
    for (number, length) in [0, 1, 15, 16, 16_384, 16_385, 300_000, 3_000_001].iter().enumerate() {
        memory.insert(name(format!("below/{number}")), &bytes(*length));
    }
    memory
}

fn perform(
    operation: Operation,
    keys: &KeyRing,
    origin: &dyn Origin,
    store: Option<&dyn Store>,
    options: &Options,
) -> Report {
    transfer(operation, keys, origin, store, &options.run, &options.transfer)
        .or_else(OperationError::into_report)
        .unwrap_or_else(|failure| panic!("{failure}"))
}

#[track_caller]
fn assert_same(one: &Memory, other: &Memory) {
    assert_eq!(one.names(), other.names());
    for name in one.names() {
        assert!(one.get(&name) == other.get(&name), "{name:?} differs");
    }
}

#[test]
fn objects_go_there_and_back_in_every_format() {
    for (format, keys) in every_key_ring() {
        for part in [None, Some(70_000)] {
            let (plain, sealed, back) = (objects(), Memory::new(), Memory::new());
            let far = part.map(|part| Slow::new(sealed.clone(), Duration::ZERO, part));
            let store: &dyn Store = far.as_ref().map_or(&sealed, |far| far);
            let report = perform(Operation::Encrypt, &keys, &plain, Some(store), &options());
            assert!(report.is_success(), "{format}, {part:?}: {:?}", report.failures);
            assert_eq!((report.files, sealed.names().len()), (8, 8));
            assert_eq!(sealed.names()[0], name("below/0.enc"));
            let origin = store.origin().unwrap();
            let report = perform(Operation::Verify, &keys, origin, None, &options());
            assert!(report.is_success() && report.files == 8, "{format}, {part:?}");
            let report = perform(Operation::Decrypt, &keys, origin, Some(&back), &options());
            assert!(report.is_success(), "{format}, {part:?}: {:?}", report.failures);
            assert_same(&plain, &back);
        }
    }
}

/// 1,000 objects, three of them long, through 64 calls at once of 50 ms each.
#[test]
fn a_place_of_slow_calls_takes_little_more_than_its_latency() {
    let near = Memory::new();
    for number in 0..1000 {
        let length = if number % 333 == 332 { 9 << 20 } else { 1000 + number * 50 };
        near.insert(name(format!("{number}")), &bytes(length));
    }
    let (sealed, back) = (Memory::new(), Memory::new());
    for (operation, from, to) in
        [(Operation::Encrypt, &near, &sealed), (Operation::Decrypt, &sealed, &back)]
    {
        // On a busy machine threads come late, which counts less where calls take longer.
        let mut measured = Vec::new();
        let is_within = |&(ratio, most): &(f64, usize)| {
            ratio < if common::is_emulated() { 3.0 } else { 1.3 } && most >= 32
        };
        for milliseconds in [50, 50, 200, 800] {
            if !measured.last().is_some_and(is_within) {
                let latency = Duration::from_millis(milliseconds);
                measured.push(times_the_bound(operation, from, to, latency));
            }
        }
        println!("{operation:?}: times the bound, and calls at once: {measured:.2?}");
        assert!(measured.last().is_some_and(is_within), "{operation:?}: {measured:.2?}");
    }
    assert_same(&near, &back);
}

/// The time of a transfer over that of its calls alone, 64 at once, in the same circumstances; and
/// how many it made at once.
fn times_the_bound(
    operation: Operation,
    from: &Memory,
    to: &Memory,
    latency: Duration,
) -> (f64, usize) {
    let (origin, store) =
        (Slow::new(from.clone(), latency, 8 << 20), Slow::new(to.clone(), latency, 8 << 20));
    let options = options().with(|it| {
        it.run.memory = 256 << 20;
        it.transfer.overwrite = true;
    });
    let started = Instant::now();
    let report = perform(operation, &cobblestone(), &origin, Some(&store), &options);
    let took = started.elapsed();
    assert!(report.is_success() && report.files == 1000, "{:?}", report.failures);
    let most = origin.calls.most_in_flight.load(Ordering::SeqCst);
    assert!(most <= 64, "{most} calls at once");
    let calls = [&origin, &store].map(|place| place.calls.made.load(Ordering::SeqCst));
    let calls = calls.iter().sum::<u64>();
    // One call opens an object and one puts it; long ones take one for each segment and part.
    assert!(calls < 2 * 1000 + 3 * 90, "{calls}");
    let started = Instant::now();
    thread::scope(|scope| {
        let make = || (0..calls.div_ceil(64)).for_each(|_| origin.calls.call().unwrap());
        (0..64).for_each(|_| drop(scope.spawn(make)));
    });
    (took.as_secs_f64() / started.elapsed().as_secs_f64(), most)
}

#[test]
fn long_objects_do_not_all_have_parts_in_memory() {
    let near = Memory::new();
    (0..12).for_each(|number| near.insert(name(format!("{number}")), &bytes(1_500_000)));
    let store = Slow::new(Memory::new(), Duration::from_millis(1), 500_000);
    // A quarter is for parts: two of them.
    let options = options().with(|it| it.run.memory = 4 << 20);
    let report = perform(Operation::Encrypt, &cobblestone(), &near, Some(&store), &options);
    assert!(report.is_success() && report.files == 12, "{:?}", report.failures);
    assert!(store.calls.most_uploads.load(Ordering::SeqCst) <= 2);
    let back = Memory::new();
    perform(Operation::Decrypt, &cobblestone(), &store.near, Some(&back), &options);
    assert_same(&near, &back);
}

#[test]
fn what_exists_is_refused_resumed_or_replaced() {
    let (plain, sealed, keys) = (objects(), Memory::new(), cobblestone());
    let encrypt =
        |options: &Options| perform(Operation::Encrypt, &keys, &plain, Some(&sealed), options);
    assert!(encrypt(&options()).is_success());
    let first = sealed.get(&name("below/3.enc"));
    let report = encrypt(&options());
    assert_eq!((report.files, report.failures.len()), (0, 8));
    assert!(matches!(report.failures[0].error, FileError::Place(Fault::Exists(_))));

    sealed.insert(name("below/3.enc"), b"of another");
    let resume = options().with(|it| it.transfer.resume = true);
    let report = encrypt(&resume);
    assert_eq!((report.files_skipped, report.failures.len()), (7, 1));
    assert!(matches!(report.failures[0].error, FileError::Differs { .. }));

    let mut other_key = first.as_ref().unwrap().to_vec();
    other_key[5] ^= 1;
    sealed.insert(name("below/3.enc"), &other_key);
    assert!(matches!(encrypt(&resume).failures[0].error, FileError::OtherKey(_)));

    let report = encrypt(&options().with(|it| it.transfer.overwrite = true));
    assert!(report.is_success() && report.files == 8);
    assert_ne!(sealed.get(&name("below/3.enc")), first);
}

#[test]
fn nothing_unauthenticated_gets_a_name() {
    let (plain, sealed, back, keys) = (objects(), Memory::new(), Memory::new(), cobblestone());
    perform(Operation::Encrypt, &keys, &plain, Some(&sealed), &options());
    for (number, at) in [(5, 200), (7, 2_999_999)] {
        let name = name(format!("below/{number}.enc"));
        let mut changed = sealed.get(&name).unwrap().to_vec();
        changed[at] ^= 1;
        sealed.insert(name, &changed);
    }
    for part in [None, Some(100_000)] {
        let far = part.map(|part| Slow::new(back.clone(), Duration::ZERO, part));
        let store: &dyn Store = far.as_ref().map_or(&back, |far| far);
        let overwrite = options().with(|it| it.transfer.overwrite = true);
        let report = perform(Operation::Decrypt, &keys, &sealed, Some(store), &overwrite);
        assert_eq!((report.files, report.failures.len()), (6, 2), "{:?}", report.failures);
        assert_eq!(back.names().len(), 6);
    }
}

#[test]
fn a_place_that_fails_now_and_then_loses_nothing_in_silence() {
    let (plain, keys) = (objects(), cobblestone());
    for every in [2, 3, 7, 20] {
        let store = Slow::new(Memory::new(), Duration::ZERO, 100_000);
        store.calls.fails.store(every, Ordering::SeqCst);
        let report = perform(Operation::Encrypt, &keys, &plain, Some(&store), &options());
        assert_eq!(report.files + report.failures.len() as u64, 8, "one in {every}");
        assert_eq!(report.files, store.near.names().len() as u64);
        assert!(!report.failures.is_empty());
        let back = Memory::new();
        let report = perform(Operation::Decrypt, &keys, &store.near, Some(&back), &options());
        assert!(report.is_success());
        back.names().iter().for_each(|name| assert!(back.get(name) == plain.get(name)));
    }
}

/// Objects that have another state at each of the first openings.
struct Changing(Memory, std::sync::atomic::AtomicU32);

impl Origin for Changing {
    fn abilities(&self) -> Abilities {
        Abilities::QUICK
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        self.0.walk()
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        let (blob, read) = self.0.open(name, first)?;
        let is_changing = self.1.fetch_sub(1, Ordering::SeqCst) > 1;
        Ok((Box::new(State(blob, is_changing)), read))
    }
}

struct State(Box<dyn Blob>, bool);

impl Blob for State {
    fn length(&self) -> u64 {
        self.0.length()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        self.0.read_at(buffer, at)
    }

    fn check(&self) -> Result<(), Fault> {
        if self.1 { Err(Fault::Changed) } else { Ok(()) }
    }
}

#[test]
fn an_object_that_changes_is_read_again_a_few_times() {
    for (openings, is_done) in [(1, true), (3, true), (9, false)] {
        let plain = Memory::new();
        plain.insert(name("changing"), &bytes(1000));
        let (origin, sealed) = (Changing(plain, openings.into()), Memory::new());
        let report =
            perform(Operation::Encrypt, &cobblestone(), &origin, Some(&sealed), &options());
        assert_eq!((report.is_success(), sealed.names().len() == 1), (is_done, is_done));
    }
}

#[test]
fn names_and_settings_that_make_no_sense_are_refused() {
    for bad in ["", "/", "..", "a/../b", "."] {
        assert!(Name::new(bad).is_err(), "{bad}");
    }
    assert_eq!(name("/a/./b").path(), std::path::Path::new("a/b"));
    let (plain, sealed, keys) = (objects(), Memory::new(), cobblestone());
    let refuses = |operation, store: Option<&dyn Store>, options: &Options| {
        let refused = transfer(operation, &keys, &plain, store, &options.run, &options.transfer);
        matches!(refused, Err(OperationError::NotBegun(_)))
    };
    assert!(refuses(Operation::Encrypt, None, &options()));
    assert!(refuses(Operation::Verify, Some(&sealed), &options()));
    let far = Slow::new(Memory::new(), Duration::ZERO, 8 << 20);
    let small = options().with(|it| it.run.memory = 8 << 20);
    assert!(refuses(Operation::Encrypt, Some(&far), &small));
    let report = perform(Operation::Decrypt, &keys, &plain, Some(&sealed), &options());
    assert_eq!((report.left_out, report.files, sealed.names().len()), (8, 0, 0));
}

/// Objects of which some can't be opened from the second time on.
struct Vanishing(Memory, std::sync::Mutex<std::collections::BTreeSet<Name>>);

impl Origin for Vanishing {
    fn abilities(&self) -> Abilities {
        Abilities::QUICK
    }

    /// First as many errors as one look ahead has entries, and then objects of unknown length.
    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        let errors = (0..1024).map(|_| Err(Fault::Failed("no answer".to_owned())));
        let entries = self.0.walk().map(|entry| Ok(Entry::new(entry?.name, None)));
        Box::new(errors.chain(entries))
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        let is_first = self.1.lock().unwrap().insert(name.clone());
        match is_first || !name.path().to_string_lossy().contains("vanishes") {
            true => self.0.open(name, first),
            false => Err(Fault::Missing(name.clone())),
        }
    }
}

#[test]
fn what_waits_for_its_turn_is_not_lost_with_what_vanishes() {
    let plain = Memory::new();
    for number in 0..9 {
        let kind = if number % 3 == 1 { "vanishes" } else { "stays" };
        plain.insert(name(format!("{number}-{kind}")), &bytes(1_500_000));
    }
    let origin = Vanishing(plain, Default::default());
    // One long object at a time: the others wait, and are opened again.
    let store = Slow::new(Memory::new(), Duration::ZERO, 500_000);
    let options = options().with(|it| it.run.memory = 3 << 20);
    let report = perform(Operation::Encrypt, &cobblestone(), &origin, Some(&store), &options);
    let gone = |failure: &&evener_place::Failure| {
        matches!(failure.error, FileError::Place(Fault::Missing(_)))
    };
    let vanished = report.failures.iter().filter(gone).count();
    assert!((1..=3).contains(&vanished), "{vanished}");
    assert_eq!(report.failures.len(), 1024 + vanished);
    assert_eq!(report.files as usize, 9 - vanished);
    assert!(!report.interrupted);
    assert!(store.calls.most_uploads.load(Ordering::SeqCst) <= 1);
}

#[test]
fn one_long_object_keeps_many_calls_in_flight() {
    let near = Memory::new();
    near.insert(name("long"), &bytes(40 << 20));
    // On a busy machine, short calls end before the next ones begin.
    let most = [20, 20, 200, 2000].map(Duration::from_millis).into_iter().map(|latency| {
        let origin = Slow::new(near.clone(), latency, 8 << 20);
        let store = Slow::new(Memory::new(), latency, 8 << 20);
        let report = perform(Operation::Encrypt, &cobblestone(), &origin, Some(&store), &options());
        assert!(report.is_success(), "{:?}", report.failures);
        let most = origin.calls.most_in_flight.load(Ordering::SeqCst);
        println!("calls of {latency:?}: {most} at once");
        most
    });
    assert!(most.into_iter().any(|most| most > 16));
}

#[test]
fn threads_share_random_access_to_an_object_of_any_place() {
    let (plain, sealed, keys) = (objects(), Memory::new(), cobblestone());
    perform(Operation::Encrypt, &keys, &plain, Some(&sealed), &options());
    let far = Slow::new(sealed, Duration::ZERO, 8 << 20);
    let (blob, _) = far.open(&name("below/7.enc"), &mut []).unwrap();
    let engine = evener_engines::find("openssl").unwrap();
    let opened = RandomAccess::of(blob, &keys, engine).unwrap();
    let content = plain.get(&name("below/7")).unwrap();
    assert_eq!(opened.len(), content.len() as u64);
    thread::scope(|scope| {
        for number in 0..4 {
            let (opened, content) = (&opened, &content);
            scope.spawn(move || {
                for start in (number * 1000..content.len()).step_by(300_007) {
                    let end = (start + 20_000).min(content.len());
                    let mut part = vec![0; end - start];
                    assert_eq!(opened.read_at(&mut part, start as u64).unwrap(), part.len());
                    assert!(part == content[start..end]);
                }
            });
        }
    });
}
