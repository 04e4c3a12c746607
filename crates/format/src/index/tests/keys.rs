//! The keys of a tree's files. The known values come from Python's hmac and hashlib, and the
//! package `cryptography`.

use std::collections::HashSet;

use evener_core::Key;

use super::super::*;
use super::bytes;
use crate::tests::{open, seal};

#[test]
fn keys_are_the_known_ones() {
    let keys = keys(*b"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f");
    assert_eq!(
        keys.commitment().to_string(),
        "f8cc6ed4cd3a1b9c6ab167ed9d947d3f444041332046f7421480eaa9169e0329"
    );
    assert_eq!(keys.commitment().id().to_string(), "f8cc6ed4cd3a1b9c6ab167ed9d947d3f");
    let sealed = bytes(
        "6465666768696a6b6c6d6e6f707172737475767778797a7bb28fc609e7279c868286a7c3bd7c14c003c6bfcf735983\
         e149d5c5fedbb2817b0e7bad0a51d8c9efc73e595a794d38bda22af2dda3d6",
    );
    let recipe = keys.recipe(Purpose::Root, 42).unwrap();
    assert_eq!(open(&recipe, &sealed).unwrap(), b"a root");
    let commitment = commitment_of(&sealed).unwrap();
    assert_eq!(commitment[..], sealed[24..56]);
    assert_eq!(commitment_of(&sealed[..55]), None);
}

#[test]
fn only_the_same_purpose_tree_and_generation_open() {
    let trees = [keys([1; 16]), keys([2; 16])];
    let commitments: HashSet<_> = trees.iter().map(TreeKeys::commitment).collect();
    assert_eq!(commitments.len(), 2);
    let recipes: Vec<_> = trees
        .iter()
        .flat_map(|keys| PURPOSES.map(|purpose| (keys, purpose)))
        .flat_map(|(keys, purpose)| [1, 2, 1 << 40].map(|it| keys.recipe(purpose, it).unwrap()))
        .collect();
    for (at, recipe) in recipes.iter().enumerate() {
        let sealed = seal(recipe, b"content");
        let opening: Vec<_> =
            (0..recipes.len()).filter(|other| open(&recipes[*other], &sealed).is_ok()).collect();
        assert_eq!(opening, [at]);
    }
}

#[test]
fn keys_have_32_bytes_and_are_not_shown() {
    let tree = TreeId([7; 16]);
    for length in [16, 31, 33, 64] {
        assert!(TreeKeys::new(&Key::new(&vec![7; length]).unwrap(), tree).is_err(), "{length}");
    }
    let shown = format!("{:?}", keys([7; 16]));
    assert_eq!(shown, "TreeKeys { tree: 07070707070707070707070707070707, .. }");
    assert_eq!(format!("{:?}", Border([7; 16])), "Border(redacted)");
}

#[test]
fn names_are_text_both_ways() {
    let name = StorageName::new([0x3F; StorageName::LENGTH]);
    let text = name.to_string();
    let (directory, file) = text.strip_prefix("data/").unwrap().split_once('/').unwrap();
    assert_eq!((directory, file.len()), ("3f", 32));
    assert_eq!(StorageName::from_text(directory, file), Some(name));
    assert_eq!(StorageName::new(*name.bytes()), name);
    for directory in ["", "3", "3F", "3g", "+3", " 3", "3é", "3f0", "3f/"] {
        assert_eq!(StorageName::from_text(directory, file), None, "{directory}");
    }
    for file in ["", &file[1..], &text, &file.replace(&file[..1], "G"), &"+1".repeat(16)] {
        assert_eq!(StorageName::from_text("3f", file), None, "{file}");
    }
    let id = TreeId::random().unwrap();
    assert_eq!(TreeId::from_text(&id.to_string()), Some(id));
    assert_eq!(KeyId::from_text(&id.to_string()), Some(KeyId(id.0)));
    assert_eq!(KeyId::from_text(&"é".repeat(16)), None);
    assert_eq!(TreeId::from_text(&"AB".repeat(16)), None);
}

fn keys(tree: [u8; 16]) -> TreeKeys {
    let key: Vec<u8> = (0..32).collect();
    TreeKeys::new(&Key::new(&key).unwrap(), TreeId(tree)).unwrap()
}

const PURPOSES: [Purpose; 4] = [Purpose::Root, Purpose::Node, Purpose::Block, Purpose::Data];
