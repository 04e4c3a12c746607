//! A whole sealed tree, made by somebody who has the key.

use std::path::Path;
use std::sync::OnceLock;

use evener_core::Key;
use evener_format::index::{
    BlockWriter, Entry, Kind, NodeWriter, Purpose, Reference, Root, RootFile, StorageName, TreeId,
    TreeKeys,
};
use evener_place::indexed::{self, Keychain, SealedOptions};
use evener_place::{Memory, Name, Operation, Report, RunSettings, TransferOptions};
use sha2::{Digest, Sha256};

use crate::parts;

/// The first byte chooses the plaintext of a block, a node or a root; the others change it, three
/// bytes for each byte: where, and what is added there, or at the end where it is cut. All is sealed
/// as it should be. What is decrypted has only names within the target.
pub fn tree_open(data: &[u8]) {
    let Some((&choice, edits)) = data.split_first() else { return };
    let forge = Forge::new();
    let tree = forge.tree(choice, edits);
    let sealed = SealedOptions {
        keychain: Keychain { keys: vec![key()], ..Keychain::default() },
        ..SealedOptions::default()
    };
    for operation in [Operation::Verify, Operation::Decrypt] {
        let out = Memory::new();
        let store = (operation == Operation::Decrypt).then_some(&out as &dyn evener_place::Store);
        let options = TransferOptions::default();
        let opened = indexed::open(operation, &tree, store, run(), &options, &sealed);
        let report: Option<Report> = opened.map(|(report, _)| report).ok();
        for name in out.names() {
            let leads_out =
                |part: std::path::Component<'_>| !matches!(part, std::path::Component::Normal(_));
            assert!(!name.path().components().any(leads_out), "{:?}", name.path());
        }
        assert!(edits.len() > 2 || report.is_some(), "the tree is whole");
    }
}

struct Forge {
    keys: TreeKeys,
}

impl Forge {
    fn new() -> Forge {
        Forge { keys: TreeKeys::new(&key(), TreeId([3; 16])).expect("a key of 32 bytes") }
    }

    /// The tree, of whose parts the chosen one is changed.
    fn tree(&self, choice: u8, edits: &[u8]) -> Memory {
        let tree = Memory::new();
        let changed = |part: u8, plain: Vec<u8>| match choice % 3 == part {
            true => edited(plain, edits),
            false => plain,
        };
        tree.insert(
            name("evener-tree-v1"),
            format!("evener-tree-v1 {}\n", self.keys.tree()).as_bytes(),
        );
        let mut block = BlockWriter::default();
        for (directory, entry) in self.entries(&tree) {
            assert_eq!(block.push(&directory.into(), &entry), Ok(true));
        }
        let block = changed(0, block.finish(None));
        let mut node = NodeWriter::default();
        node.push(&self.reference(&tree, Purpose::Block, 1, &block));
        let node = changed(1, node.finish(None));
        let node = self.reference(&tree, Purpose::Node, 2, &node);
        let mut body = parts::body(&self.keys, vec![node], (6, 6));
        let mut claim = parts::claim(&self.keys, 1, None);
        claim.policy = body.policy();
        body.claim = Sha256::digest(claim.bytes()).into();
        let root = Root::write(&body.bytes(), &[], None).expect("it is short");
        let sealed = self.seal(Purpose::Root, &changed(2, root));
        let root = RootFile::write(&claim.bytes(), None, &sealed);
        tree.insert(name("tree/0000000000000000001"), &root);
        tree
    }

    fn entries(&self, tree: &Memory) -> Vec<(&'static [u8], Entry)> {
        let sealed = self.seal(Purpose::Data, b"abc");
        let file = |number: u8| {
            Kind::File(parts::content(&self.keys, 3, put(tree, number, &sealed), &sealed))
        };
        let entry = |name: &[u8], kind| Entry {
            name: name.to_vec(),
            kind,
            mode: Some(0o644),
            modified: Some((1, 2)),
            owner: None,
            attributes: vec![(b"user.a".to_vec(), b"b".to_vec())],
        };
        vec![
            (b"", entry(b"", Kind::Directory)),
            (b"", entry(b"d", Kind::Directory)),
            (b"", entry(b"f", file(8))),
            (b"", entry(b"l", Kind::Symlink(b"../f".to_vec()))),
            (b"d", entry(b"again", Kind::Further(b"f".to_vec()))),
            (b"d", entry(b"g", file(9))),
        ]
    }

    fn reference(&self, tree: &Memory, purpose: Purpose, number: u8, plain: &[u8]) -> Reference {
        let sealed = self.seal(purpose, plain);
        parts::reference(&self.keys, b"", put(tree, number, &sealed), &sealed)
    }

    fn seal(&self, purpose: Purpose, plain: &[u8]) -> Vec<u8> {
        parts::seal(&self.keys, (purpose, 1), plain, run())
    }
}

/// Changes, adds or cuts bytes.
fn edited(mut plain: Vec<u8>, edits: &[u8]) -> Vec<u8> {
    for edit in edits.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([edit[0], edit[1]]));
        match plain.get_mut(at & 0x3FFF) {
            _ if at & 0x8000 != 0 => plain.truncate(at & 0x3FFF),
            Some(byte) if at & 0x4000 == 0 => *byte = edit[2],
            Some(_) => plain.insert(at & 0x3FFF, edit[2]),
            None => plain.push(edit[2]),
        }
    }
    plain
}

fn put(tree: &Memory, number: u8, bytes: &[u8]) -> StorageName {
    let stored = StorageName::new([number; 17]);
    tree.insert(name(&stored.path()), bytes);
    stored
}

fn name(path: &str) -> Name {
    Name::new(Path::new(path)).expect("a name")
}

fn key() -> Key {
    Key::new(&[7; 32]).expect("a key")
}

fn run() -> &'static RunSettings {
    static RUN: OnceLock<RunSettings> = OnceLock::new();
    RUN.get_or_init(|| {
        let engine = evener_engines::find("openssl").expect("it is built in");
        RunSettings { memory: 4 << 20, ..RunSettings::new(vec![engine]) }
    })
}
