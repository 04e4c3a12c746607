//! Whole files' content in memory, and parts of files: correct on engines that return wrong
//! results, and stopped on request.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{ThreadId, current};

use evener::engines::{
    Description, Engine, EngineError, Job, Kind, Offer, Session, SessionRequest, find,
};
use evener::keys::{CobblestoneSuite, KeyMaterial};
use evener::{Cipher, Control, Direction, Evener, EvenerBuilder, FileError, Key, KeyRing};

/// OpenSSL, with a trick that runs at each of its batches.
struct Tricky {
    description: Description,
    openssl: Arc<dyn Engine>,
    batches: Arc<AtomicUsize>,
    trick: Arc<Trick>,
}

/// The function is called with the number of the batch, from 0, and its finished jobs.
type Trick = dyn Fn(usize, &mut [Job<'_>]) + Send + Sync;

impl Tricky {
    fn engine(
        kind: Kind,
        trick: impl Fn(usize, &mut [Job<'_>]) + Send + Sync + 'static,
    ) -> Arc<dyn Engine> {
        let description = Description::new("tricky", kind).detail("a test");
        let (openssl, batches) = (find("openssl").unwrap(), Arc::default());
        Arc::new(Tricky { description, openssl, batches, trick: Arc::new(trick) })
    }
}

impl Engine for Tricky {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.openssl.offer(cipher, direction)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let session = self.openssl.open(request)?;
        let (batches, trick) = (Arc::clone(&self.batches), Arc::clone(&self.trick));
        Ok(Box::new(TrickySession { session, batches, trick }))
    }
}

struct TrickySession {
    session: Box<dyn Session>,
    batches: Arc<AtomicUsize>,
    trick: Arc<Trick>,
}

impl Session for TrickySession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        self.session.process(batch)?;
        (self.trick)(self.batches.fetch_add(1, Ordering::SeqCst), batch);
        Ok(())
    }
}

/// A module that is correct until the known answers are done, and then always wrong.
fn liar() -> Arc<dyn Engine> {
    Tricky::engine(Kind::Module, |batch, jobs| {
        let is_wrong = batch >= 20;
        jobs.iter_mut().filter(|_| is_wrong).for_each(|job| job.output[0] ^= 1);
    })
}

/// The same key each time.
fn keys() -> KeyRing {
    let (suite, key) = (CobblestoneSuite::Aes256Gcm, Key::new(&[7; 32]).unwrap());
    KeyMaterial::Cobblestone { suite, key }.key_ring(b"").unwrap()
}

fn content() -> Vec<u8> {
    (0..3_000_001_u32).map(|index| (index % 251) as u8).collect()
}

#[test]
fn a_module_that_lies_makes_no_wrong_content() {
    let content = content();
    let sound = Evener::new(keys()).unwrap();
    let mut right = vec![0; sound.sealed_length(content.len() as u64).unwrap() as usize];
    assert_eq!(sound.seal(&content, &mut right).unwrap(), right.len());

    type Set = fn(EvenerBuilder) -> EvenerBuilder;
    let ways: [(&str, Set); 2] = [
        ("the caller's own", |builder| builder.engine(liar())),
        ("the caller's seats", |builder| {
            let liar = liar();
            builder.options(|options| options.run.seats = vec![liar.clone(), liar])
        }),
    ];
    for (way, set) in ways {
        let lying = || set(Evener::builder(keys())).build().unwrap();
        let mut sealed = vec![0; right.len()];
        assert_eq!(lying().seal(&content, &mut sealed).unwrap(), sealed.len(), "{way}");
        let mut opened = vec![0; sealed.len()];
        let length = sound.open(&sealed, &mut opened).unwrap();
        assert!(opened[..length] == content, "{way}: sealed");
        let length = lying().open(&right, &mut opened).unwrap();
        assert!(opened[..length] == content, "{way}: opened");
    }

    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    std::fs::write(&path, &right).unwrap();
    // Every read is verified here; the default is the first and one in 1,000.
    let lying = Evener::builder(keys()).engine(liar()).verify_engine(1).build().unwrap();
    let file = lying.open_at(&path).unwrap();
    let mut part = vec![0; 1_000_000];
    assert_eq!(file.read_at(&mut part, 1_500_000).unwrap(), part.len());
    assert!(part == content[1_500_000..2_500_000]);
}

#[test]
fn threads_wait_for_the_next_buffer() {
    let seen: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
    let engine = {
        let seen = Arc::clone(&seen);
        Tricky::engine(Kind::Cpu, move |_, _| _ = seen.lock().unwrap().insert(current().id()))
    };
    let two = NonZeroUsize::new(2).unwrap();
    let evener = Evener::builder(keys()).engine(engine).workers(two).build().unwrap();
    let content = content();
    let mut sealed = vec![0; evener.sealed_length(content.len() as u64).unwrap() as usize];
    for _ in 0..10 {
        evener.seal(&content, &mut sealed).unwrap();
    }
    let seen = seen.lock().unwrap();
    assert!(seen.contains(&current().id()) && seen.len() <= 2, "{seen:?}");
}

#[test]
fn it_works_in_place() {
    let evener = Evener::new(keys()).unwrap();
    for length in [0, 1, 16_384, 16_385, 9_000_000] {
        let content: Vec<u8> = content().into_iter().cycle().take(length).collect();
        let mut buffer = content.clone();
        let error = evener.seal_in_place(&mut buffer, length).unwrap_err();
        assert!(matches!(error, FileError::ShortBuffer { .. }), "{error}");
        buffer.resize(evener.sealed_length(length as u64).unwrap() as usize, 0);
        assert_eq!(evener.seal_in_place(&mut buffer, length).unwrap(), buffer.len());
        assert!(*evener.open_bytes(&buffer).unwrap() == content);
        let sealed = buffer.clone();
        assert_eq!(evener.open_in_place(&mut buffer).unwrap(), length);
        assert!(buffer[..length] == content);

        let mut changed = sealed.clone();
        *changed.last_mut().unwrap() ^= 1;
        evener.open_in_place(&mut changed).unwrap_err();
        assert!(changed.iter().all(|&byte| byte == 0));
        let mut of_another = sealed;
        of_another[30] ^= 1;
        let before = of_another.clone();
        evener.open_in_place(&mut of_another).unwrap_err();
        assert!(of_another == before);
    }
}

#[test]
fn it_stops_when_asked() {
    let content = content();
    let control = Arc::new(Control::default());
    let stopping = {
        let control = Arc::clone(&control);
        Tricky::engine(Kind::Cpu, move |batch, _| {
            if batch == 2 {
                control.stop();
            }
        })
    };
    let evener = |engine: Arc<dyn Engine>, control: &Arc<Control>| {
        Evener::builder(keys())
            .engine(engine)
            .options(|options| options.run.control = Arc::clone(control))
            .build()
            .unwrap()
    };
    let unstopped = evener(find("openssl").unwrap(), &Arc::default());
    let mut sealed = vec![0; unstopped.sealed_length(content.len() as u64).unwrap() as usize];
    unstopped.seal(&content, &mut sealed).unwrap();
    let mut opened = vec![7; sealed.len()];
    let opening = evener(stopping, &control);
    assert_eq!(opening.open(&sealed, &mut opened).unwrap_err(), FileError::Interrupted);
    // No plaintext is left.
    assert!(opened.iter().all(|&byte| byte == 0 || byte == 7));
    let error = opening.seal(&content, &mut sealed).unwrap_err();
    assert_eq!(error, FileError::Interrupted);
}

#[test]
fn a_short_buffer_is_no_damage() {
    let evener = Evener::new(keys()).unwrap();
    let sealed = evener.seal_bytes(b"hello").unwrap();
    let error = evener.open(&sealed, &mut [0; 4]).unwrap_err();
    assert_eq!(error, FileError::ShortBuffer { needed: 5, room: 4 });
    let error = evener.seal(b"hello", &mut [0; 4]).unwrap_err();
    assert_eq!(error, FileError::ShortBuffer { needed: sealed.len() as u64, room: 4 });
}
