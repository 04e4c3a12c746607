//! Sealed trees whose keys a passphrase wraps: making or opening a wrapped key takes a second.

mod common;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use age::secrecy::SecretString;
use common::sealed::Scene;
use evener_keys::{KeyError, Passphrase, Unlock};
use evener_place::indexed::{self, CleanOptions, Keychain, SealedOptions};
use evener_place::{Local, TreeOptions};

const TEXT: &str = "correct horse battery staple";

/// Counts derivations: each asks for the passphrase.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU64>);

impl Counting {
    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Unlock for Counting {
    fn passphrase(&self, _: &Path) -> Result<Option<Passphrase>, KeyError> {
        self.count();
        Passphrase::new(TEXT.as_bytes(), "the test").map(Some)
    }
}

/// The options of one run.
fn options(scene: &Scene, machine: &str, counting: &Counting) -> SealedOptions {
    let wraps = counting.clone();
    let wrap = move |text: &[u8]| {
        wraps.count();
        let mut recipient = age::scrypt::Recipient::new(SecretString::from(TEXT));
        recipient.set_work_factor(2);
        let recipients = std::iter::once(&recipient as &dyn age::Recipient);
        let mut wrapped = Vec::new();
        let encryptor = age::Encryptor::with_recipients(recipients).unwrap();
        let mut writer = encryptor.wrap_output(&mut wrapped).unwrap();
        writer.write_all(text).unwrap();
        writer.finish().unwrap();
        Ok(wrapped)
    };
    let keychain = Keychain { unlock: Arc::new(counting.clone()), ..Keychain::default() };
    SealedOptions {
        keychain,
        wrap: Some(Arc::new(wrap)),
        audience: Some("passphrase".to_owned()),
        keeps_key: true,
        ..scene.with_key(machine)
    }
}

#[test]
fn one_derivation_serves_a_run() {
    let (scene, counting) = (Scene::new(), Counting::default());
    let keys = || std::fs::read_dir(scene.tree().join("keys")).unwrap().count();
    for round in 0..4 {
        scene.write(&format!("{round}"), &[round]);
        scene.settle();
        scene.seal(&options(&scene, "a", &counting));
        assert_eq!(counting.take(), 1, "generation {}", round + 1);
    }
    assert_eq!(keys(), 1);
    scene.open("out", &options(&scene, "reader", &counting));
    scene.assert_same("out");
    assert_eq!(counting.take(), 1);
}

#[test]
fn cleaning_and_rewrapping_open_each_wrapped_key_once() {
    let (scene, counting) = (Scene::new(), Counting::default());
    for round in 0..3 {
        scene.write("x", &[round]);
        scene.settle();
        scene.seal(&SealedOptions { keeps_key: false, ..options(&scene, "a", &counting) });
    }
    counting.take();
    let tree = Local::new(scene.tree(), &TreeOptions::default());
    let clean = CleanOptions { keep: 3, ..CleanOptions::default() };
    indexed::clean(&tree, &scene.run.run, &options(&scene, "a", &counting), &clean).unwrap();
    assert_eq!(counting.take(), 3);
    let sealed = options(&scene, "a", &counting);
    let wrap = sealed.wrap.clone().unwrap();
    let rewrapped = indexed::rewrap(&tree, &scene.run.run, &wrap, false, &sealed).unwrap();
    assert_eq!((rewrapped.keys, rewrapped.removed), (3, 3));
    // Each new wrapping is made, then opened as a check.
    assert_eq!(counting.take(), 3 + 2 * 3);
}
