//! Shared code of this crate's tests.

#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

pub mod pages;
pub mod proxy;
mod server;

use std::path::Path;
use std::sync::Arc;

use evener_core::{Engine, Key};
use evener_format::{CobblestoneSuite, Recipe};
use evener_object::{Access, Address, Objects, Settings};
use evener_place::{
    KeyRing, Memory, Name, Operation, OperationError, Origin, Report, RunSettings, Store,
    TransferOptions, transfer,
};

pub use server::Server;

impl Server {
    /// The place below a prefix, through this port.
    pub fn through(&self, port: u16, prefix: &str) -> Objects {
        let address: Address = format!("{}://bucket/{prefix}", self.scheme).parse().unwrap();
        Objects::new(&address, &self.settings(port)).unwrap()
    }

    pub fn settings(&self, port: u16) -> Settings {
        let (path, id, secret) = match self.scheme {
            "az" => ("/devstoreaccount1", "devstoreaccount1", server::AZURITE_KEY),
            _ => ("", "key", "secret"),
        };
        let mut settings = Settings::default();
        settings.endpoint = Some(format!("http://127.0.0.1:{port}{path}"));
        settings.access = Some(Access { id: id.to_owned(), secret: secret.to_owned() });
        settings
    }

    pub fn place(&self, prefix: &str) -> Objects {
        self.through(self.port, prefix)
    }
}

/// The settings of a run with two workers.
pub fn settings() -> RunSettings {
    let engine: Arc<dyn Engine> = evener_engines::find("openssl").unwrap();
    RunSettings::new(vec![engine.clone(), engine])
}

pub fn keys() -> KeyRing {
    let key = Key::new(&[7; 32]).unwrap();
    KeyRing::new(Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &key, b"context").unwrap())
}

/// Encrypts, decrypts or verifies; also returns the report of failures.
pub fn perform(
    operation: Operation,
    origin: &dyn Origin,
    store: Option<&dyn Store>,
    options: &TransferOptions,
) -> Report {
    transfer(operation, &keys(), origin, store, &settings(), options)
        .or_else(OperationError::into_report)
        .unwrap_or_else(|failure| panic!("{failure}"))
}

pub fn name(path: impl AsRef<Path>) -> Name {
    Name::new(path).unwrap()
}

/// Objects of several lengths: the longest has three parts.
pub fn objects() -> Memory {
    let memory = Memory::new();
    for (number, length) in [0, 1, 16_384, 300_000, 3_000_001, 20_000_000].iter().enumerate() {
        memory.insert(name(format!("below/{number}")), &bytes(*length));
    }
    memory
}

/// Bytes that never repeat at a distance of chunks.
pub fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251) as u8).collect()
}

#[track_caller]
pub fn assert_same(one: &Memory, other: &Memory) {
    assert_eq!(one.names(), other.names());
    for name in one.names() {
        assert!(one.get(&name) == other.get(&name), "{name:?} differs");
    }
}
