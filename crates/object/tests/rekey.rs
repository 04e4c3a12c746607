//! New keys for objects.

mod common;

use common::proxy::{Act, Proxy};
use common::{Server, keys, name, perform, settings};
use evener_core::Key;
use evener_format::{CobblestoneSuite, Recipe};
use evener_place::{
    KeyRing, Memory, Metadata, NewObject, Operation, OperationError, RekeyOptions, Store as _,
    TransferOptions, rekey_objects,
};

fn new_keys() -> KeyRing {
    let key = Key::new(&[9; 32]).unwrap();
    KeyRing::new(Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &key, b"context").unwrap())
}

/// Another writer replaces the object while it is sealed anew.
#[test]
fn only_the_version_that_was_read_is_replaced() {
    let Some(server) = Server::s3() else { return };
    let plain = Memory::new();
    plain.insert(name("a"), b"first");
    let place = server.place("x");
    let options = TransferOptions::default();
    assert!(perform(Operation::Encrypt, &plain, Some(&place), &options).is_success());
    let path = server.bucket().join("x/a.enc");
    let other = place.clone();
    let proxy = Proxy::new(server.port, move |it| {
        if it.is_put() && it.target.contains("a.enc") {
            let (name, metadata) = (name("a.enc"), Metadata::default());
            let mut object = NewObject::new(&name, &metadata);
            object.replaces = true;
            other.begin(&object).unwrap().publish(b"another").unwrap();
        }
        Act::Pass
    });
    let through = server.through(proxy.port, "x");
    let rekeyed = rekey_objects(
        &through,
        None,
        (&keys(), &new_keys()),
        &settings(),
        &RekeyOptions::default(),
    );
    let report = rekeyed.or_else(OperationError::into_report).unwrap();
    assert_eq!((report.files, report.failures.len()), (0, 1), "{:?}", report.failures);
    assert_eq!(std::fs::read(path).unwrap(), b"another");
    assert!(place.look(&name("a.enc")).unwrap().is_some());
}
