//! Entries, references and roots, chosen at random.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::super::*;
use crate::{Cobblestone, Layout};

/// A name with all bytes that names can have, at times as long as one can be.
pub(super) fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("no part of a name", |byte| !matches!(byte, 0 | b'/'));
    prop_oneof![20 => vec(byte.clone(), 1..5), 1 => vec(byte, 255)]
        .prop_filter("no name", |name| !matches!(&name[..], b"." | b".."))
}

/// A path, which is empty for the root.
pub(super) fn path(least: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(name(), least..4).prop_map(|components| components.join(&b'/'))
}

pub(super) fn entry() -> impl Strategy<Value = Entry> {
    let kind = prop_oneof![
        4 => content().prop_map(Kind::File),
        1 => Just(Kind::Directory),
        1 => vec(1_u8.., 1..40).prop_map(Kind::Symlink),
        1 => path(1).prop_map(Kind::Further),
    ];
    let facts = (
        option::of(0..=0o7777_u32),
        option::of((any::<i64>(), 0..1_000_000_000_u32)),
        option::of(any::<(u32, u32)>()),
        btree_map(vec(1_u8.., 1..12), vec(any::<u8>(), 0..12), 0..3),
    );
    (name(), kind, facts).prop_map(|(name, kind, (mode, modified, owner, attributes))| Entry {
        name,
        kind,
        mode,
        modified,
        owner,
        attributes: attributes.into_iter().collect(),
    })
}

fn content() -> impl Strategy<Value = Content> {
    let place = (storage_name(), 0..1_u64 << 62, 0..1_u64 << 45, 0..1_u64 << 45);
    let sealed = (any::<[u8; 32]>(), any::<[u8; 16]>(), key(), generation());
    let hash = option::of(any::<[u8; 32]>());
    (place, sealed, hash).prop_map(|((name, offset, size, padding), sealed, hash)| {
        let (commitment, tag, key, generation) = sealed;
        let layout = Layout::for_plaintext(&Cobblestone::GEOMETRY, size + padding).unwrap();
        let length = layout.sealed_length();
        Content { size, name, offset, length, commitment, tag, key, generation, hash }
    })
}

pub(super) fn block() -> impl Strategy<Value = BTreeMap<EntryPath, Entry>> {
    let root = option::of(entry()).prop_map(|root| {
        root.map(|root| (Vec::new(), Entry { name: Vec::new(), kind: Kind::Directory, ..root }))
    });
    (root, vec((path(0), entry()), 1..12)).prop_map(|(root, entries)| {
        let path = |(directory, entry): &(Vec<u8>, Entry)| EntryPath {
            directory: directory[..].into(),
            name: entry.name.clone(),
        };
        root.into_iter().chain(entries).map(|it| (path(&it), it.1)).collect()
    })
}

pub(super) fn references() -> impl Strategy<Value = Vec<Reference>> {
    let reference = (storage_name(), 0..MOST_NODE as u64, any::<[u8; 32]>(), key(), generation());
    btree_map(path(0), reference, 1..12).prop_map(|all| {
        let reference = |(path, (name, plain, digest, key, generation)): (Vec<u8>, _)| {
            let layout = Layout::for_plaintext(&Cobblestone::GEOMETRY, plain).unwrap();
            let (first, length) = (EntryPath::of(&path), layout.sealed_length());
            Reference { first, name, length, digest, key, generation }
        };
        let mut all: Vec<_> = all.into_iter().map(reference).collect();
        all.sort_by(|one, other| one.first.cmp(&other.first));
        all
    })
}

pub(super) fn claim() -> impl Strategy<Value = Claim> {
    let before = option::of(any::<[u8; 32]>());
    let skipped = btree_map(1..1000_u64, any::<[u8; 32]>(), 0..4);
    let kept = option::of((1001..1_u64 << 62, vec(1..1000_u64, 0..4))).prop_map(|kept| {
        kept.map(|(until, generations)| {
            let generations = generations.into_iter().collect::<BTreeSet<_>>().into_iter();
            Kept { until, generations: generations.collect() }
        })
    });
    let facts = (1000..1_u64 << 62, before, skipped, any::<i64>(), kept);
    let keys = (any::<[u8; 16]>(), vec(any::<[u8; 16]>().prop_map(KeyId), 0..3), any::<[u8; 32]>());
    (facts, keys).prop_map(|((number, before, skipped, cutoff, kept), (key, retired, policy))| {
        let (key, skipped) = (KeyId(key), skipped.into_iter().collect());
        Claim { key, number, before, skipped, cutoff, kept, retired, policy }
    })
}

pub(super) fn body() -> impl Strategy<Value = Body> {
    let signer = (vec(any::<u8>(), 0..60), any::<[u8; 32]>());
    let policy = (
        vec(signer.prop_map(|(key, chain)| SignerKeys { key, chain }), 0..3),
        vec((vec(any::<u8>(), 0..60), 0..1_u64 << 62), 0..3),
    );
    let facts = (any::<[u8; 16]>(), any::<[u8; 32]>(), any::<i64>());
    let shape = (any::<[u8; 16]>(), padding(), any::<u64>(), any::<u64>());
    (facts, policy, shape, references()).prop_map(|(facts, policy, shape, nodes)| {
        let ((tree, claim, time), (signers, revoked)) = (facts, policy);
        let (border, padding, entries, bytes) = shape;
        let (tree, border) = (TreeId(tree), Border(border));
        Body { tree, claim, time, signers, revoked, border, padding, entries, bytes, nodes }
    })
}

pub(super) fn padding() -> impl Strategy<Value = Option<Padding>> {
    option::of((0..5000_u64).prop_map(|floor| Padding { floor }))
}

fn storage_name() -> impl Strategy<Value = StorageName> {
    any::<[u8; 17]>().prop_map(StorageName::new)
}

fn key() -> impl Strategy<Value = Commitment> {
    (0..5_u8).prop_map(|number| Commitment([number; 32]))
}

fn generation() -> impl Strategy<Value = u64> {
    prop_oneof![1..100_u64, Just(1_u64 << 62)]
}
