//! Authenticated messages: the same on every engine and through every call, and never incomplete.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evener::engines::{
    Description, Engine, Job, Offer, Outcome, Session, SessionRequest, Watch, find, watched,
};
use evener::hazmat::nonce;
use evener::{
    Aead, AeadError, Cipher, Direction, EngineError, Key, NonceError, NonceSequence, Opening, Pool,
    Sealing,
};

const CIPHERS: [Cipher; 4] =
    [Cipher::Aes128Gcm, Cipher::Aes192Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 % 251) as u8).collect()
}

fn key(cipher: Cipher) -> Key {
    Key::new(&bytes(cipher.key_length())).unwrap()
}

/// RFC 8439, section 2.8.2.
#[test]
fn a_published_message_is_sealed_as_published() {
    let bytes: Vec<u8> = (0x80..0xA0).collect();
    let aead = Aead::new(Cipher::ChaCha20Poly1305, &Key::new(&bytes).unwrap()).unwrap();
    let nonce = nonce([7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47]);
    let aad = [0x50, 0x51, 0x52, 0x53, 0xC0, 0xC1, 0xC2, 0xC3, 0xC4, 0xC5, 0xC6, 0xC7];
    let text = "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for \
                the future, sunscreen would be it.";
    let mut data = text.as_bytes().to_vec();
    let nonce = aead.seal_in_place_append_tag(nonce, &aad, &mut data).unwrap();
    assert_eq!(data[..4], [0xD3, 0x1A, 0x8D, 0x34]);
    let tag = [
        0x1A, 0xE1, 0x0B, 0x59, 0x4F, 0x09, 0xE2, 0x6A, 0x7E, 0x90, 0x2E, 0xCB, 0xD0, 0x60, 0x06,
        0x91,
    ];
    assert_eq!(data[text.len()..], tag);
    assert_eq!(aead.open_in_place(&nonce, &aad, &mut data).unwrap(), text.as_bytes());
}

#[test]
fn every_call_gives_the_same() {
    for cipher in CIPHERS {
        let aead = Aead::new(cipher, &key(cipher)).unwrap();
        let mut nonces = NonceSequence::counter(*b"test");
        for length in [0, 1, 16, 100, 70_000, 300_000] {
            let (plain, aad) = (bytes(length), bytes(length % 50));
            let mut data = plain.clone();
            let sent = nonces.next_nonce().unwrap();
            let same = nonce(*sent.bytes());
            let sent = aead.seal_in_place_append_tag(sent, &aad, &mut data).unwrap();
            let mut sealed = vec![0; aead.sealed_length(length) + 3];
            aead.seal(same, &aad, &plain, &mut sealed).unwrap();
            assert_eq!(data, sealed[..length + 16], "{cipher} {length}");
            assert_eq!(sealed[length + 16..], [0; 3]);

            let mut opened = vec![0; length];
            assert_eq!(aead.open(&sent, &aad, &data, &mut opened), Ok(length));
            assert_eq!(opened, plain);
            assert_eq!(aead.open_in_place(&sent, &aad, &mut data).unwrap(), plain);
        }
    }
}

#[test]
fn a_forged_message_stays_sealed() {
    let cipher = Cipher::Aes256Gcm;
    let aead = Aead::new(cipher, &key(cipher)).unwrap();
    let mut data = b"attack at dawn".to_vec();
    let mut nonces = NonceSequence::random();
    let sent =
        aead.seal_in_place_append_tag(nonces.next_nonce().unwrap(), b"head", &mut data).unwrap();
    let forged = Err(AeadError::Forged { message: 0, count: 1 });
    let sealed = data.clone();
    assert_eq!(aead.open_in_place(&sent, b"heap", &mut data).map(|_| ()), forged);
    assert_eq!(aead.open_in_place(&[0; 12], b"head", &mut data).map(|_| ()), forged);
    assert_eq!(data, sealed, "nothing was changed");
    data[3] ^= 1;
    let mut opened = [0xA5; 14];
    assert_eq!(aead.open(&sent, b"head", &data, &mut opened).map(|_| ()), forged);
    assert!(!opened.contains(&b'a'));
    let short = aead.open_in_place(&sent, b"head", &mut data[..15]);
    assert!(matches!(short, Err(AeadError::Malformed { .. })), "{short:?}");
    let words = AeadError::Forged { message: 0, count: 1 }.to_string();
    assert!(words.contains("authentication failed"), "{words}");
}

/// Seals and opens a batch, and compares each message with the result of a single call.
fn check_batch(aead: &Aead, lengths: &[usize]) {
    let plain: Vec<_> = lengths.iter().map(|&length| bytes(length)).collect();
    let mut sealed: Vec<_> = lengths.iter().map(|length| vec![0; length + 16]).collect();
    let mut sealer = aead.sealer(NonceSequence::counter([1; 4]));
    let pairs = plain.iter().zip(&mut sealed);
    let mut batch: Vec<_> =
        pairs.map(|(plain, sealed)| Sealing::new(plain, sealed).aad(b"row")).collect();
    sealer.seal_batch(&mut batch).unwrap();
    let sent: Vec<_> = batch.iter().map(|sealing| *sealing.nonce().unwrap()).collect();
    assert_eq!(sealer.nonces().position(), Some(lengths.len() as u64));
    for ((sent, plain), sealed) in sent.iter().zip(&plain).zip(&sealed) {
        let mut data = plain.clone();
        aead.seal_in_place_append_tag(nonce(*sent), b"row", &mut data).unwrap();
        assert!(data == *sealed, "{}", plain.len());
    }

    let forged = lengths.len() / 2;
    sealed[forged][0] ^= 1;
    let mut opened: Vec<_> = lengths.iter().map(|&length| vec![0xA5; length]).collect();
    let triples = sent.iter().zip(&sealed).zip(&mut opened);
    let mut batch: Vec<_> = triples
        .map(|((sent, sealed), opened)| Opening::new(sent, sealed, opened).aad(b"row"))
        .collect();
    let result = aead.open_batch(&mut batch);
    assert_eq!(result, Err(AeadError::Forged { message: forged, count: 1 }));
    for (index, opening) in batch.iter().enumerate() {
        assert_eq!(opening.is_authentic(), index != forged);
    }
    for (index, (opened, plain)) in opened.iter().zip(&plain).enumerate() {
        assert!((opened == plain) == (index != forged), "{index}");
    }
}

fn lengths() -> Vec<usize> {
    (0..700).map(|index| [1, 20, 100, 1500, 9000][index % 5]).chain([500_000, 0]).collect()
}

#[test]
fn a_batch_is_what_its_messages_are() {
    for cipher in CIPHERS {
        let pool = Arc::new(Pool::new(NonZeroUsize::new(3).unwrap()));
        check_batch(&Aead::new(cipher, &key(cipher)).unwrap().pool(pool), &lengths());
    }
}

#[test]
fn several_engines_share_a_batch() {
    let cipher = Cipher::Aes128Gcm;
    let two = Aead::with_engines(cipher, &key(cipher), &["openssl", "cpu"]).unwrap();
    check_batch(&two, &lengths());
    // One module fails at once, and one fails later.
    for batches in [0, 5] {
        let engines = vec![find("openssl").unwrap(), module(batches, false)];
        check_batch(&Aead::on(cipher, &key(cipher), engines).unwrap(), &lengths());
        let alone = vec![module(batches, false), module(batches, false)];
        check_batch(&Aead::on(cipher, &key(cipher), alone).unwrap(), &lengths());
    }
    // One module computes wrong results from the start.
    let engines = vec![find("openssl").unwrap(), module(usize::MAX, true)];
    check_batch(&Aead::on(cipher, &key(cipher), engines).unwrap(), &lengths());
}

fn sealing(sealed: &mut [u8]) -> Sealing<'_> {
    Sealing::new(b"hello", sealed)
}

#[test]
fn what_can_not_be_done_is_said_before_anything_is() {
    let cipher = Cipher::Aes128Gcm;
    let refused = |result: Result<Aead, AeadError>| result.unwrap_err();
    assert_eq!(
        refused(Aead::new(Cipher::Aes128Ctr, &key(cipher))),
        AeadError::NotAuthenticated { cipher: Cipher::Aes128Ctr }
    );
    let words = refused(Aead::new(cipher, &key(Cipher::Aes256Gcm))).to_string();
    assert_eq!(words, "aes-128-gcm takes a key of 16 bytes, not 32");
    assert_eq!(refused(Aead::on(cipher, &key(cipher), Vec::new())), AeadError::NoEngines);
    let unknown = refused(Aead::with_engines(cipher, &key(cipher), &["abacus"]));
    assert!(matches!(unknown, AeadError::Engine(EngineError::Unavailable { .. })), "{unknown}");

    let aead = Aead::new(cipher, &key(cipher)).unwrap();
    let mut sealer = aead.sealer(NonceSequence::counter_from([0; 4], u64::MAX - 2));
    let (mut first, mut second, mut third) = ([0; 21], [0; 21], [0; 21]);
    let mut batch = [sealing(&mut first), sealing(&mut second), sealing(&mut third)];
    let exhausted = Err(AeadError::Nonce(NonceError::Exhausted));
    assert_eq!(sealer.seal_batch(&mut batch), exhausted);
    assert_eq!(sealer.nonces().remaining(), 2, "none was used");
    sealer.seal_batch(&mut batch[..2]).unwrap();
    assert_eq!(third, [0; 21]);

    let mut sealer = aead.sealer(NonceSequence::counter([0; 4]));
    let mut short = [0; 20];
    let mut batch = [sealing(&mut first), sealing(&mut short)];
    let malformed = sealer.seal_batch(&mut batch);
    assert!(matches!(malformed, Err(AeadError::Malformed { message: 1, .. })), "{malformed:?}");
    assert_eq!(sealer.nonces().position(), Some(0));
    sealer.seal_batch(&mut []).unwrap();
    aead.open_batch(&mut []).unwrap();
}

/// OpenSSL under the name of a module that fails after some batches or computes wrong results.
struct Module {
    description: Description,
    engine: Arc<dyn Engine>,
    batches: usize,
    lies: bool,
    failure: EngineError,
}

struct ModuleSession {
    session: Box<dyn Session>,
    batches: usize,
    lies: bool,
    failure: EngineError,
}

fn module(batches: usize, lies: bool) -> Arc<dyn Engine> {
    module_with(batches, lies, EngineError::failed("gone"))
}

fn module_with(batches: usize, lies: bool, failure: EngineError) -> Arc<dyn Engine> {
    let description = Description::module("module");
    Arc::new(Module { description, engine: find("openssl").unwrap(), batches, lies, failure })
}

/// The module reports an error that would be the caller's fault if it were true.
#[test]
fn a_module_that_blames_its_caller_is_left() {
    let cipher = Cipher::Aes128Gcm;
    let failure = EngineError::no_key();
    // Some batches are used up by the test with known answers.
    let engine = module_with(20, false, failure);
    let aead = Aead::on(cipher, &key(cipher), vec![engine]).unwrap();
    let mut nonces = NonceSequence::counter([0; 4]);
    let mut sealed = [0; 40];
    for _ in 0..100 {
        aead.seal(nonces.next_nonce().unwrap(), b"", &[7; 24], &mut sealed).unwrap();
    }
    let account = aead.engines()[0].account().unwrap();
    assert!(matches!(account.fault, Some(EngineError::Failed { .. })), "{:?}", account.fault);
}

impl Engine for Module {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.engine.offer(cipher, direction)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let session = self.engine.open(request)?;
        let (batches, lies, failure) = (self.batches, self.lies, self.failure.clone());
        Ok(Box::new(ModuleSession { session, batches, lies, failure }))
    }
}

impl Session for ModuleSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        self.batches = self.batches.checked_sub(1).ok_or_else(|| self.failure.clone())?;
        self.session.process(batch)?;
        for job in batch.iter_mut().filter(|_| self.lies) {
            if let (Outcome::Done { written: 1.. }, Some(first)) =
                (job.outcome, job.output.first_mut())
            {
                *first ^= 1;
            }
        }
        Ok(())
    }
}

#[test]
fn the_callers_guard_stays() {
    let cipher = Cipher::Aes256Gcm;
    let all = Watch { verify_every: Some(1), ..Watch::default() };
    let lanes = find("lanes").ok();
    let has_it = |engine: &Arc<dyn Engine>| engine.offer(cipher, Direction::Encrypt).is_some();
    let lanes = lanes.filter(has_it).unwrap_or(module(9, false));
    for engine in [module(usize::MAX, false), lanes] {
        let guarded = watched(&engine, all).unwrap();
        let aead = Aead::on(cipher, &key(cipher), vec![Arc::clone(&guarded)]).unwrap();
        assert!(Arc::ptr_eq(&aead.engines()[0], &guarded));
    }
    let aead = Aead::on(cipher, &key(cipher), vec![module(usize::MAX, false)]).unwrap();
    assert!(aead.engines()[0].account().is_some(), "a module without a guard gets one");
}

/// A CPU engine that counts its sessions, and may fail after it has written.
struct Counting {
    description: Description,
    engine: Arc<dyn Engine>,
    opened: Arc<AtomicUsize>,
    fails: bool,
}

struct CountingSession {
    session: Box<dyn Session>,
    fails: bool,
}

impl Engine for Counting {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.engine.offer(cipher, direction)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let session = self.engine.open(request)?;
        Ok(Box::new(CountingSession { session, fails: self.fails }))
    }
}

impl Session for CountingSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        self.session.process(batch)?;
        if self.fails { Err(EngineError::failed("gone")) } else { Ok(()) }
    }
}

fn counting(fails: bool) -> (Arc<dyn Engine>, Arc<AtomicUsize>) {
    let description = Description::cpu("counting");
    let opened = Arc::<AtomicUsize>::default();
    let engine = find("openssl").unwrap();
    (Arc::new(Counting { description, engine, opened: Arc::clone(&opened), fails }), opened)
}

/// Anyone without the key may send any number of forged messages.
#[test]
fn forged_messages_cost_no_sessions() {
    let cipher = Cipher::Aes128Gcm;
    let (engine, opened) = counting(false);
    let aead = Aead::on(cipher, &key(cipher), vec![engine]).unwrap();
    for _ in 0..20 {
        let forged = aead.open(&[0; 12], b"", &[1; 40], &mut [0; 24]);
        assert_eq!(forged, Err(AeadError::Forged { message: 0, count: 1 }));
    }
    assert_eq!(opened.load(Ordering::Relaxed), 1);
}

#[test]
fn an_engine_that_fails_leaves_no_plaintext() {
    let cipher = Cipher::Aes128Gcm;
    let good = Aead::new(cipher, &key(cipher)).unwrap();
    let mut sealed = [0; 40];
    let sent = good.seal(nonce([9; 12]), b"", &[7; 24], &mut sealed).unwrap();
    let (engine, opened) = counting(true);
    let aead = Aead::on(cipher, &key(cipher), vec![engine]).unwrap();
    let mut opened_to = [1; 24];
    assert!(aead.open(&sent, b"", &sealed, &mut opened_to).is_err());
    assert_eq!(opened_to, [0; 24]);
    assert!(aead.open(&sent, b"", &sealed, &mut opened_to).is_err());
    assert_eq!(opened.load(Ordering::Relaxed), 2, "a session that failed is closed");
    let mut batch = [Opening::new(&sent, &sealed, &mut opened_to)];
    assert!(aead.open_batch(&mut batch).is_err());
    assert!(!batch[0].is_authentic());
    assert_eq!(opened_to, [0; 24]);
}

#[test]
fn whole_messages_are_sealed_and_opened_with_their_nonces() {
    let cipher = Cipher::Aes256Gcm;
    let aead = Aead::new(cipher, &key(cipher)).unwrap();
    let mut sealer = aead.sealer(NonceSequence::counter([0; 4]));
    let messages: Vec<_> = (0..100).map(|length| bytes(length * 7)).collect();
    let (first, second) =
        (sealer.seal_all(&messages).unwrap(), sealer.seal_all(&messages).unwrap());
    assert_eq!(sealer.nonces().position(), Some(200));
    assert!(first.iter().zip(&second).all(|(one, other)| one.nonce != other.nonce));
    assert_eq!(aead.open_all(&first).unwrap(), messages);
    let mut forged = second;
    forged[50].bytes[3] ^= 1;
    assert_eq!(aead.open_all(&forged), Err(AeadError::Forged { message: 50, count: 1 }));
}
