//! Counts requests.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::proxy::{Act, Proxy};
use common::{Server, assert_same, bytes, name, perform};
use evener_place::{Memory, Operation, TransferOptions};

#[test]
fn a_long_object_costs_its_parts_and_three_requests() {
    let Some(server) = Server::s3() else { return };
    let counted = Arc::<AtomicU64>::default();
    let counter = counted.clone();
    // Don't count the probes of first use.
    let proxy = Proxy::new(server.port, move |request| {
        counter.fetch_add(u64::from(!request.is_probe()), Ordering::SeqCst);
        Act::Pass
    });
    let (place, options) = (server.through(proxy.port, "counted"), TransferOptions::default());
    let (plain, back) = (Memory::new(), Memory::new());
    plain.insert(name("long"), &bytes(100_000_000));
    let parts = 12;
    assert!(perform(Operation::Encrypt, &plain, Some(&place), &options).is_success());
    let written = counted.swap(0, Ordering::SeqCst);
    assert!(written <= parts + 3, "{written} to write");
    assert!(perform(Operation::Decrypt, &place, Some(&back), &options).is_success());
    let read = counted.swap(0, Ordering::SeqCst);
    assert!(read <= parts + 3, "{read} to read");
    assert_same(&plain, &back);
}
