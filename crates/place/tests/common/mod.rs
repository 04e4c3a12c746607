//! Shared code of this crate's tests.

#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

pub mod child;
pub mod forge;
pub mod job;
pub mod kills;
pub mod late;
pub mod meddler;
pub mod parts;
pub mod scene;
pub mod sealed;
pub mod slow;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener_core::{Cipher, Engine, Iv, Key};
use evener_format::{CobblestoneSuite, Digest, HkdfHash, OpensslSecret, Recipe, TinkKey};
use evener_keys::NoUnlock;
use evener_keys::age::{FileHeaders, Identity};
use evener_place::{
    Existing, Failure, KeyRing, Operation, OperationError, Report, RunSettings, StreamOptions,
    StreamSource, StreamTarget, TransferOptions, TreeOptions,
};
use zeroize::Zeroizing;

/// The settings of a run, and the options of its operation.
#[derive(Clone, Default)]
pub struct Options {
    pub run: RunSettings,
    pub tree: TreeOptions,
    pub stream: StreamOptions,
    pub transfer: TransferOptions,
}

impl Options {
    pub fn new(seats: Vec<Arc<dyn Engine>>) -> Options {
        Options { run: RunSettings::new(seats), ..Options::default() }
    }

    pub fn with(mut self, change: impl FnOnce(&mut Options)) -> Options {
        change(&mut self);
        self
    }
}

/// Like the library's function, but returns the report of failed files too, which most tests check.
pub fn process(
    operation: Operation,
    keys: &KeyRing,
    source: &Path,
    target: Option<&Path>,
    options: &Options,
) -> Result<Report, Failure> {
    evener_place::process(operation, keys, source, target, &options.run, &options.tree)
        .or_else(OperationError::into_report)
}

/// As [`process`], for a stream.
pub fn process_stream(
    operation: Operation,
    keys: &KeyRing,
    source: StreamSource,
    target: StreamTarget,
    options: &Options,
) -> Result<Report, Failure> {
    evener_place::process_stream(operation, keys, source, target, &options.run, &options.stream)
        .or_else(OperationError::into_report)
}

/// A separate directory for a test, in memory if the machine supports it: these tests create many
/// thousands of files.
pub fn home() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Returns whether the processor is emulated, as `scripts/cross` reports.
pub fn is_emulated() -> bool {
    std::env::var_os("EVENER_EMULATOR").is_some()
}

/// Options with two workers on the openssl engine.
pub fn options() -> Options {
    let engine: Arc<dyn Engine> = evener_engines::find("openssl").unwrap();
    let reference = Some(engine.clone());
    Options::new(vec![engine.clone(), engine]).with(|it| it.run.reference = reference)
}

pub fn existing(overwrite: bool, resume: bool) -> Existing {
    match (overwrite, resume) {
        (overwrite, true) => Existing::Resume { overwrite },
        (true, false) => Existing::Overwrite,
        (false, false) => Existing::Refuse,
    }
}

pub fn cobblestone() -> KeyRing {
    let key = Key::new(&[7; 32]).unwrap();
    KeyRing::new(Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &key, b"context").unwrap())
}

/// A key ring for each format and type of cipher.
pub fn every_key_ring() -> Vec<(String, KeyRing)> {
    let mut rings = vec![("cobblestone-256".to_owned(), cobblestone())];
    let key = Key::new(&[9; 16]).unwrap();
    let recipe = Recipe::cobblestone(CobblestoneSuite::Aes128Gcm, &key, b"").unwrap();
    rings.push(("cobblestone-128".to_owned(), KeyRing::new(recipe)));
    rings.push(("age".to_owned(), age_with(same_identity())));
    rings.push(("tink".to_owned(), KeyRing::new(tink(1, 4096)).with(tink(2, 1 << 20))));
    for cipher in [Cipher::Aes256Cbc, Cipher::Aes128Ctr, Cipher::BfCbc] {
        let passphrase = OpensslSecret::Passphrase {
            passphrase: Zeroizing::new(b"open sesame".to_vec()),
            digest: Digest::Sha256,
            iterations: 1,
        };
        let recipe = Recipe::openssl_enc(cipher, passphrase).unwrap();
        rings.push((format!("openssl {cipher}"), KeyRing::new(recipe)));
    }
    let raw =
        OpensslSecret::Raw { key: Key::new(&[3; 24]).unwrap(), iv: Iv::new(&[4; 8]).unwrap() };
    let recipe = Recipe::openssl_enc(Cipher::DesEde3Cbc, raw).unwrap();
    rings.push(("openssl des-ede3-cbc, raw".to_owned(), KeyRing::new(recipe)));
    rings
}

/// A key ring that encrypts to a fresh identity and opens with it.
pub fn age() -> KeyRing {
    age_with(Identity::generate())
}

fn age_with(identity: Identity) -> KeyRing {
    let recipients = identity.recipient().into_iter().collect();
    let headers = FileHeaders::opened_by(vec![identity], None);
    KeyRing::new(headers.for_recipients(recipients).unwrap().recipe())
}

/// An identity that a killed process and the next one have.
pub fn same_identity() -> Identity {
    let home = home();
    let path = home.path().join("identity");
    let text = b"AGE-SECRET-KEY-1AVAUC2SN5XMEYHPEUW5REVFPLFSNGUTU3Z8ELL050JTS9UC03J7SK8M0KD";
    // As simply as can be: in some processes, calls fail.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
    file.write_all(text).unwrap();
    Identity::read_file(&path, &NoUnlock).unwrap().remove(0)
}

pub fn tink(seed: u8, segment_length: u32) -> Recipe {
    let key = TinkKey {
        id: u32::from(seed),
        value: Zeroizing::new(vec![seed; 32]),
        hash: HkdfHash::Sha256,
        derived_key_length: 32,
        segment_length,
    };
    Recipe::tink(key, b"associated data").unwrap()
}

/// Bytes that do not repeat with any block length.
pub fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 % 251) as u8 ^ (index >> 8) as u8).collect()
}

/// The properties of an entry that a tree should keep.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: char,
    pub mode: u32,
    pub modified: (i64, i64),
    pub content: Vec<u8>,
}

impl Entry {
    pub fn is_file(&self) -> bool {
        self.kind == 'f'
    }
}

/// All entries of a tree by their relative paths.
pub fn snapshot(root: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut entries = BTreeMap::new();
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let (kind, content) = if metadata.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            ('d', Vec::new())
        } else if metadata.is_symlink() {
            ('l', fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())
        } else {
            ('f', fs::read(&path).unwrap())
        };
        let mode = if kind == 'l' { 0 } else { metadata.permissions().mode() & 0o7777 };
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        let relative = path.strip_prefix(root).unwrap().to_owned();
        entries.insert(relative, Entry { kind, mode, modified, content });
    }
    entries
}

pub fn assert_same_tree(expected: &Path, actual: &Path) {
    let (expected, actual) = (snapshot(expected), snapshot(actual));
    let names = |tree: &BTreeMap<PathBuf, Entry>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&expected), names(&actual));
    for (path, entry) in &expected {
        let there = &actual[path];
        assert_eq!(
            (entry.kind, entry.mode, entry.modified),
            (there.kind, there.mode, there.modified),
            "{path:?}"
        );
        assert!(entry.content == there.content, "{path:?}: content differs");
    }
}

/// Encrypts, verifies and decrypts a tree below `home`, and compares every byte.
pub fn round_trip(name: &str, keys: &KeyRing, plain: &Path, home: &Path, options: &Options) {
    let (sealed, back) = (home.join("sealed"), home.join("back"));
    for (operation, from, to) in [
        (Operation::Encrypt, plain, Some(&*sealed)),
        (Operation::Verify, &*sealed, None),
        (Operation::Decrypt, &*sealed, Some(&*back)),
    ] {
        let report = process(operation, keys, from, to, options).unwrap();
        assert!(report.is_success(), "{name}: {operation:?}: {:?}", report.failures);
    }
    assert_same_tree(plain, &back);
}
