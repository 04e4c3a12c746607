//! Tests engines that want many bytes at once, in memory of their own.

mod common;

use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{
    Options, assert_same_tree, bytes, cobblestone, every_key_ring, home, options, process,
    process_stream,
};
use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Job, Memory, Offer, Session,
    SessionRequest, WipedBuffer,
};
use evener_engines::{Watch, watched};
use evener_place::{KeyRing, Operation, Report, StreamSource, StreamTarget};

/// A module that wants [`AT_ONCE`] bytes in a batch, and lends memory for them.
struct Lender {
    description: Description,
    engine: Arc<dyn Engine>,
    arena: Arc<Arena>,
}

#[derive(Default)]
struct Arena {
    /// The address ranges of lent memory.
    lent: Mutex<Vec<Range<usize>>>,
    /// The number of messages in other memory, which had to be copied.
    copies: AtomicUsize,
    /// The maximum number of input bytes in one batch.
    most: AtomicUsize,
    /// How often it lent memory for a whole batch.
    large: AtomicUsize,
    /// Fails after this many batches.
    batches_left: AtomicUsize,
}

struct Lent(Vec<u8>, Arc<Arena>);

struct LenderSession(Box<dyn Session>, Arc<Arena>);

const AT_ONCE: usize = 1 << 20;

/// A guard's known answers are fewer bytes in total, and are in its own memory.
const OWN: usize = 64 << 10;

fn lender(batches: usize) -> (Arc<dyn Engine>, Arc<Arena>) {
    let arena = Arc::new(Arena { batches_left: AtomicUsize::new(batches), ..Arena::default() });
    let description = Description::module("lender").detail("OpenSSL with memory of its own");
    let engine = evener_engines::find("openssl").unwrap();
    (Arc::new(Lender { description, engine, arena: Arc::clone(&arena) }), arena)
}

impl Engine for Lender {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.engine.offer(cipher, direction).map(|_| Offer::new(2).bytes(AT_ONCE))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(LenderSession(self.engine.open(request)?, Arc::clone(&self.arena))))
    }

    fn buffer(&self, bytes: usize) -> Option<WipedBuffer> {
        let lent = Lent(vec![0; bytes], Arc::clone(&self.arena));
        self.arena.lent.lock().unwrap().push(lent.range());
        self.arena.large.fetch_add(usize::from(bytes >= AT_ONCE), Ordering::SeqCst);
        Some(WipedBuffer::lent(Box::new(lent)))
    }
}

impl Lent {
    fn range(&self) -> Range<usize> {
        let start = self.0.as_ptr().addr();
        start..start + self.0.len()
    }
}

impl Memory for Lent {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        assert!(self.0.iter().all(|&byte| byte == 0), "memory is given back with data in it");
        self.1.lent.lock().unwrap().retain(|range| *range != self.range());
    }
}

impl Session for LenderSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let Arena { lent, copies, most, batches_left, .. } = &*self.1;
        let take = |left: usize| left.checked_sub(1);
        if batches_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err() {
            return Err(EngineError::failed("the device is gone"));
        }
        let is_lent = |bytes: &[u8]| {
            let start = bytes.as_ptr().addr();
            let lent = lent.lock().unwrap();
            lent.iter().any(|lent| lent.start <= start && start + bytes.len() <= lent.end)
        };
        let bytes = batch.iter().map(|job| job.input.len()).sum();
        for job in batch.iter() {
            if bytes > OWN && !(is_lent(job.input) && is_lent(job.output)) {
                copies.fetch_add(1, Ordering::SeqCst);
            }
        }
        most.fetch_max(bytes, Ordering::SeqCst);
        self.0.process(batch)
    }
}

/// The guards that an engine may have: on a separate thread, as a deadline requires, and on the
/// worker's thread.
fn guards() -> [Option<Watch>; 3] {
    let soon = Some(Duration::from_secs(600));
    let apart = Watch { deadline: soon, ..Watch::of_a_run(Some(10)) };
    [None, Some(Watch { deadline: None, ..apart }), Some(apart)]
}

fn guarded(engine: &Arc<dyn Engine>, watch: Option<Watch>) -> Arc<dyn Engine> {
    watch.map_or_else(|| Arc::clone(engine), |watch| watched(engine, watch).unwrap())
}

const LENGTHS: [usize; 2] = [9 << 20, (13 << 20) + 5];
const SHORT_LENGTHS: [usize; 2] = [1 << 20, (3 << 20) + 5];

fn make_tree(root: &Path, long: [usize; 2]) {
    fs::create_dir_all(root.join("small")).unwrap();
    for number in 0..150 {
        fs::write(root.join(format!("small/{number}")), bytes(9_000 + 131 * number)).unwrap();
    }
    for (name, length) in ["long", "longer"].iter().zip(long) {
        fs::write(root.join(name), bytes(length)).unwrap();
    }
}

fn there_and_back(
    keys: &KeyRing,
    (home, long): (&Path, [usize; 2]),
    options: impl Fn() -> Options,
    check: impl Fn(Operation, &Report),
) {
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.join(name));
    make_tree(&plain, long);
    for (operation, from, to) in [
        (Operation::Encrypt, &plain, Some(&*sealed)),
        (Operation::Verify, &sealed, None),
        (Operation::Decrypt, &sealed, Some(&*back)),
    ] {
        let report = process(operation, keys, from, to, &options()).unwrap();
        assert!(report.is_success(), "{operation:?}: {:?} {:?}", report.failures, report.retired);
        assert_eq!(report.files, 152, "{operation:?}");
        check(operation, &report);
    }
    assert_same_tree(&plain, &back);
}

#[test]
fn what_a_worker_reads_lies_in_the_engines_memory() {
    for watch in guards() {
        let (engine, arena) = lender(usize::MAX);
        let home = home();
        let seat = guarded(&engine, watch);
        let seats = || Options::new(vec![Arc::clone(&seat), Arc::clone(&seat)]);
        there_and_back(&cobblestone(), (home.path(), LENGTHS), seats, |operation, _| {
            let (copies, most) =
                (arena.copies.load(Ordering::SeqCst), arena.most.swap(0, Ordering::SeqCst));
            assert_eq!(copies, 0, "{operation:?} under {watch:?}");
            // Each worker's input, output and spare buffer; on a busy machine one may do it all. A guard
            // that copied would have its own.
            let large = arena.large.swap(0, Ordering::SeqCst);
            assert!([3, 6].contains(&large), "{operation:?} under {watch:?}: {large}");
            assert!((AT_ONCE / 2..=2 * AT_ONCE).contains(&most), "{operation:?}: {most}");
        });
        drop(seat);
        assert!(arena.lent.lock().unwrap().is_empty(), "all memory is given back");
    }
}

#[test]
fn what_a_pipe_brings_lies_in_the_engines_memory() {
    for watch in guards() {
        let (engine, arena) = lender(usize::MAX);
        let home = home();
        let seat = guarded(&engine, watch);
        let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
        fs::write(&plain, bytes((40 << 20) + 77)).unwrap();
        for (operation, from, to) in
            [(Operation::Encrypt, &plain, &sealed), (Operation::Decrypt, &sealed, &back)]
        {
            let (from, to) = (File::open(from).unwrap(), File::create(to).unwrap());
            let source = StreamSource::Descriptor(from.into());
            let target = StreamTarget::Descriptor(to.into());
            let options = Options::new(vec![Arc::clone(&seat), Arc::clone(&seat)]);
            let report =
                process_stream(operation, &cobblestone(), source, target, &options).unwrap();
            assert!(report.is_success(), "{operation:?}: {:?}", report.failures);
            // The start of a stream is read before a session is open; its buffers are reused.
            let jobs = (40 << 20) / (16 << 10);
            let copies = arena.copies.swap(0, Ordering::SeqCst);
            assert!(copies < jobs / 4, "{operation:?} under {watch:?}: {copies} of {jobs}");
        }
        assert!(fs::read(&plain).unwrap() == fs::read(&back).unwrap());
        drop(seat);
        assert!(arena.lent.lock().unwrap().is_empty(), "all memory is given back");
    }
}

#[test]
fn what_it_fails_workers_with_shorter_buffers_do() {
    let mut rings = every_key_ring();
    // A cipher whose messages can be split, a chaining one and a padded one.
    let kinds = ["cobblestone-256", "openssl aes-256-cbc", "openssl aes-128-ctr"];
    rings.retain(|(name, _)| kinds.contains(&name.as_str()));
    for (name, keys) in rings {
        for batches in [0, 1, 5] {
            let home = home();
            let seats = || {
                let (engine, _) = lender(batches);
                let seats = vec![Arc::clone(&engine), engine, options().run.seats.remove(0)];
                Options::new(seats)
            };
            there_and_back(&keys, (home.path(), SHORT_LENGTHS), seats, |operation, report| {
                assert!(report.failures.is_empty(), "{name}: {operation:?}");
            });
        }
    }
}

#[test]
fn without_memory_to_spare_its_buffers_are_as_short_as_others() {
    let (engine, arena) = lender(usize::MAX);
    let home = home();
    let seats = || Options::new(vec![Arc::clone(&engine); 2]).with(|it| it.run.memory = 2 << 20);
    there_and_back(&cobblestone(), (home.path(), LENGTHS), seats, |operation, _| {
        let most = arena.most.load(Ordering::SeqCst);
        assert!(most <= 300 << 10, "{operation:?}: {most}");
    });
}
