//! Bytes that Python made from docs/design/formats.md.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::super::*;
use super::bytes;

#[test]
fn blocks_are_the_known_ones() {
    let plain = bytes(BLOCK);
    let Block { entries, keys } = Block::parse(&plain).unwrap();
    assert_eq!(keys, [KEY, OTHER]);
    let (empty, d): (Arc<[u8]>, Arc<[u8]>) = (b""[..].into(), b"d"[..].into());
    let content = Content {
        size: 16_384,
        name: name(),
        offset: 70_000,
        length: 56 + 16_400 + 16,
        commitment: [4; 32],
        tag: [5; 16],
        key: KEY,
        generation: 300,
        hash: None,
    };
    let signed = Content {
        size: 0,
        offset: 0,
        length: 72,
        commitment: [6; 32],
        tag: [7; 16],
        key: OTHER,
        generation: 1 << 62,
        hash: Some([8; 32]),
        ..content
    };
    let attributes = vec![(b"user.a".to_vec(), Vec::new()), (b"user.b".to_vec(), vec![0, 255])];
    let file = Entry {
        owner: Some((0, 65_534)),
        attributes,
        ..entry(b"file", Kind::File(content), Some(0o4644), Some((1_700_000_000, 5)))
    };
    let times = Some((0, 0));
    let expected = [
        (empty.clone(), entry(b"", Kind::Directory, Some(0o755), Some((-2, 999_999_999)))),
        (empty, entry(b"d", Kind::Directory, Some(0o700), times)),
        (d.clone(), file),
        (d.clone(), entry(b"link", Kind::Symlink(b"../../x".to_vec()), Some(0o777), times)),
        (d.clone(), entry(b"more", Kind::Further(b"d/file".to_vec()), Some(0o644), times)),
        (d, entry(b"\xFF", Kind::File(signed), None, None)),
    ];
    assert_eq!(entries, expected);
    let mut writer = BlockWriter::default();
    for (directory, entry) in &entries {
        assert_eq!(writer.push(directory, entry), Ok(true));
    }
    assert_eq!(writer.finish(None), plain);
}

#[test]
fn nodes_are_the_known_ones() {
    let plain = bytes(NODE);
    let Node { references } = Node::parse(&plain).unwrap();
    let third = reference("d/e/x", 72, KEY, 2);
    assert_eq!(references, [first(), second(), third]);
    let mut writer = NodeWriter::default();
    assert!(references.iter().all(|reference| writer.push(reference)));
    assert_eq!(writer.finish(None), plain);
}

#[test]
fn roots_are_the_known_ones() {
    let file = bytes(ROOT_FILE);
    let parsed = RootFile::parse(&file, 10).unwrap();
    let body = Body {
        tree: TreeId(std::array::from_fn(|at| at as u8)),
        claim: Sha256::digest(&parsed.claim_bytes).into(),
        time: 1_700_000_000,
        signers: vec![SignerKeys { key: b"ssh".to_vec(), chain: [3; 32] }],
        revoked: vec![(b"old".to_vec(), 7)],
        border: Border([5; 16]),
        padding: Some(Padding { floor: 4096 }),
        entries: 5,
        bytes: 16_384,
        nodes: vec![first(), second()],
    };
    let claim = Claim {
        key: KEY.id(),
        number: 10,
        before: Some([2; 32]),
        skipped: vec![(8, [3; 32]), (9, [4; 32])],
        cutoff: -1,
        kept: Some(Kept { until: 6, generations: vec![1, 5] }),
        retired: vec![OTHER.id()],
        policy: body.policy(),
    };
    assert_eq!(parsed.claim, claim);
    assert_eq!(parsed.claim_bytes, claim.bytes());
    assert_eq!(parsed.sealed, b"sealed");
    let chain = parsed.chain.as_ref().map(|(key, signature)| (key, signature));
    assert_eq!(RootFile::write(&claim.bytes(), chain, b"sealed"), file);

    let root = Root::parse(&bytes(ROOT)).unwrap();
    assert_eq!(root.body, body);
    assert_eq!(root.body_bytes, body.bytes());
    assert_eq!(root.signatures, [b"a signature"]);
}

fn entry(name: &[u8], kind: Kind, mode: Option<u32>, modified: Option<Times>) -> Entry {
    Entry { name: name.to_vec(), kind, mode, modified, owner: None, attributes: Vec::new() }
}

fn first() -> Reference {
    reference("", 72, KEY, 1)
}

fn second() -> Reference {
    reference("d/file", 172, OTHER, 1 << 40)
}

fn reference(path: &str, length: u64, key: Commitment, generation: u64) -> Reference {
    let (first, digest) = (EntryPath::of(path.as_bytes()), [9; 32]);
    Reference { first, name: name(), length, digest, key, generation }
}

fn name() -> StorageName {
    StorageName::new(std::array::from_fn(|at| at as u8))
}

const KEY: Commitment = Commitment([1; 32]);
const OTHER: Commitment = Commitment([2; 32]);

const BLOCK: &str = "\
    825820010101010101010101010101010101010101010101010101010101010101010158200202020202020202\
    020202020202020202020202020202020202020202020202408740011901ed211a3b9ac9fff6f6874164011901\
    c00000f6f641648f4466696c65001909a41a6553f10005820019fffe8446757365722e614046757365722e6242\
    00ff19400051000102030405060708090a0b0c0d0e0f101a000111701940585820040404040404040404040404\
    040404040404040404040404040404040404040450050505050505050505050505050505050019012c88446c69\
    6e6b021901ff0000f6f6472e2e2f2e2e2f7888446d6f7265031901a40000f6f646642f66696c659041ff00f6f6\
    00f6f60051000102030405060708090a0b0c0d0e0f100018485820060606060606060606060606060606060606\
    06060606060606060606060606065007070707070707070707070707070707011b400000000000000058200808\
    080808080808080808080808080808080808080808080808080808080808f6";
const NODE: &str = "\
    825820010101010101010101010101010101010101010101010101010101010101010158200202020202020202\
    02020202020202020202020202020202020202020202020287404051000102030405060708090a0b0c0d0e0f10\
    18485820090909090909090909090909090909090909090909090909090909090909090900018741644466696c\
    6551000102030405060708090a0b0c0d0e0f1018ac582009090909090909090909090909090909090909090909\
    09090909090909090909011b00000100000000008743642f65417851000102030405060708090a0b0c0d0e0f10\
    1848582009090909090909090909090909090909090909090909090909090909090909090002f6";
const ROOT: &str = "\
    8259019ead6776657273696f6e0168666561747572657380647472656550000102030405060708090a0b0c0d0e\
    0f65636c61696d5820a7568eb96cfbc2a4df316fd57667d816c7421dcd88a9b52f150b2311f37405a26474696d\
    651a6553f100646b65797382582001010101010101010101010101010101010101010101010101010101010101\
    0158200202020202020202020202020202020202020202020202020202020202020202677369676e6572738243\
    73736858200303030303030303030303030303030303030303030303030303030303030303677265766f6b6564\
    82436f6c640766626f7264657250050505050505050505050505050505056370616419100067656e7472696573\
    05656279746573194000656e6f6465738287404051000102030405060708090a0b0c0d0e0f1018485820090909\
    090909090909090909090909090909090909090909090909090909090900018741644466696c65510001020304\
    05060708090a0b0c0d0e0f1018ac58200909090909090909090909090909090909090909090909090909090909\
    090909011b0000010000000000814b61207369676e6174757265";
const ROOT_FILE: &str = "\
    6576656e65722d726f6f742d76310a8358b58850010101010101010101010101010101010a5820020202020202\
    020202020202020202020202020202020202020202020202020284085820030303030303030303030303030303\
    030303030303030303030303030303030309582004040404040404040404040404040404040404040404040404\
    04040404040404208306010581500202020202020202020202020202020258209b5be714ed10b5a9df5d5c7cc1\
    ae269435f9d0f12c7a5c3b095485f4020a18fe5820010101010101010101010101010101010101010101010101\
    010101010101010158400202020202020202020202020202020202020202020202020202020202020202020202\
    02020202020202020202020202020202020202020202020202020202027365616c6564";
