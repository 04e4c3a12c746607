//! What is written reads back the same, and nothing that is cut reads at all.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::*;
use super::samples::{block, body, claim, padding, references};

proptest! {
    #[test]
    fn blocks(entries in block(), padding in padding()) {
        let mut writer = BlockWriter::default();
        let mut expected = Vec::new();
        for (path, entry) in &entries {
            prop_assert_eq!(writer.push(&path.directory, entry), Ok(true));
            expected.push((path.directory.clone(), entry.clone()));
        }
        prop_assert_eq!(writer.first(), entries.keys().next());
        let bytes = writer.finish(padding);
        let read = Block::parse(&bytes).unwrap();
        prop_assert_eq!(&read.entries, &expected);
        let mut keys: Vec<_> = read.entries.iter().filter_map(|(_, entry)| key(entry)).collect();
        keys.sort();
        keys.dedup();
        let mut listed = read.keys;
        listed.sort();
        prop_assert_eq!(listed, keys);
        never_cut(&bytes, Block::parse);
    }

    #[test]
    fn nodes(references in references(), padding in padding()) {
        let mut writer = NodeWriter::default();
        prop_assert!(references.iter().all(|reference| writer.push(reference)));
        prop_assert_eq!(writer.first(), references.first().map(|reference| &reference.first));
        let bytes = writer.finish(padding);
        prop_assert_eq!(Node::parse(&bytes).unwrap().references, references);
        never_cut(&bytes, Node::parse);
    }

    #[test]
    fn roots(
        claim in claim(),
        body in body(),
        chain in proptest::option::of((any::<[u8; 32]>(), any::<[u8; 64]>())),
        signatures in vec(vec(any::<u8>(), 0..200), 0..3),
        padding in padding(),
    ) {
        let body_bytes = body.bytes();
        let bytes = Root::write(&body_bytes, &signatures, padding).unwrap();
        let expected = Root { body_bytes, body, signatures };
        prop_assert_eq!(Root::parse(&bytes), Ok(expected));
        never_cut(&bytes, Root::parse);

        let claim_bytes = claim.bytes();
        let pair = chain.as_ref().map(|(key, signature)| (key, signature));
        let file = RootFile::write(&claim_bytes, pair, b"sealed");
        let number = claim.number;
        let expected = RootFile { claim, claim_bytes, chain, sealed: b"sealed" };
        prop_assert_eq!(RootFile::parse(&file, number), Ok(expected));
        prop_assert!(RootFile::parse(&file, number + 1).is_err());
        for length in 0..file.len() - 6 {
            prop_assert!(RootFile::parse(&file[..length], number).is_err());
        }
    }
}

fn key(entry: &Entry) -> Option<Commitment> {
    match &entry.kind {
        Kind::File(content) => Some(content.key),
        _ => None,
    }
}

/// Every cut before the padding is an error, and padding of other than zeros.
fn never_cut<T>(bytes: &[u8], parse: impl Fn(&[u8]) -> Result<T, IndexError>) {
    let padding = bytes.iter().rev().take_while(|byte| **byte == 0).count();
    let end = bytes.len() - padding;
    for length in 0..end {
        // An empty list of signatures, or the last bytes of one, may be zeros.
        assert!(parse(&bytes[..length]).is_err(), "the first {length} of {end} bytes");
    }
    assert!(parse(&[bytes, &[0; 9]].concat()).is_ok(), "more padding");
    assert!(parse(&[bytes, &[0, 0, 1]].concat()).is_err(), "something behind it");
}
