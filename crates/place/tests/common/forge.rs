//! Files of sealed trees, as somebody would make them who has the key.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use evener_core::{Direction, Job, Key, SessionRequest};
use evener_format::index::{
    Block, BlockWriter, Body, Claim, Content, Entry, EntryPath, Kind, Node, NodeWriter, Purpose,
    Reference, Root, RootFile, StorageName, TreeId, TreeKeys,
};
use evener_format::{ChunkIv, Layout};
use evener_keys::signing::OwnKey;
use evener_place::{KeyRing, buffer};
use sha2::{Digest, Sha256};

use super::parts;
use super::sealed::Scene;

/// Makes and reads files of a scene's tree.
pub struct Forge<'a> {
    pub scene: &'a Scene,
    pub keys: TreeKeys,
}

impl<'a> Forge<'a> {
    /// Has the key of the tree that is there.
    pub fn of(scene: &'a Scene, key: &Key) -> Forge<'a> {
        let marker = fs::read_to_string(scene.tree().join("evener-tree-v1")).unwrap();
        let id = marker.strip_prefix("evener-tree-v1 ").unwrap().trim_end();
        Forge { scene, keys: TreeKeys::new(key, TreeId::from_text(id).unwrap()).unwrap() }
    }

    /// Makes a tree without a generation.
    pub fn begin(scene: &'a Scene, key: &Key) -> Forge<'a> {
        let id = TreeId::random().unwrap();
        for directory in ["tree", "data", "keys", "writers"] {
            fs::create_dir_all(scene.tree().join(directory)).unwrap();
        }
        fs::write(scene.tree().join("evener-tree-v1"), format!("evener-tree-v1 {id}\n")).unwrap();
        Forge::of(scene, key)
    }

    pub fn seal(&self, purpose: Purpose, generation: u64, plain: &[u8]) -> Vec<u8> {
        parts::seal(&self.keys, (purpose, generation), plain, &self.scene.run.run)
    }

    pub fn open(&self, purpose: Purpose, generation: u64, sealed: &[u8]) -> Vec<u8> {
        self.try_open(purpose, generation, sealed).unwrap()
    }

    fn try_open(&self, purpose: Purpose, generation: u64, sealed: &[u8]) -> Option<Vec<u8>> {
        let ring = KeyRing::new(self.keys.recipe(purpose, generation).unwrap());
        let mut plain = vec![0; sealed.len()];
        let length = buffer::open(&ring, sealed, &mut plain, &self.scene.run.run).ok()?;
        plain.truncate(length);
        Some(plain)
    }

    /// Puts a file into `data/`.
    pub fn store(&self, bytes: &[u8]) -> StorageName {
        let mut name = [7; StorageName::LENGTH];
        getrandom::fill(&mut name[1..]).unwrap();
        let name = StorageName::new(name);
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        name
    }

    pub fn path(&self, name: StorageName) -> PathBuf {
        self.scene.tree().join(name.path())
    }

    /// A block or node with this plaintext, whose reference says what is true of it.
    pub fn part(&self, purpose: Purpose, first: &[u8], plain: &[u8]) -> Reference {
        self.stored_part(first, &self.seal(purpose, 1, plain))
    }

    /// A reference to a new file with these bytes.
    pub fn stored_part(&self, first: &[u8], sealed: &[u8]) -> Reference {
        parts::reference(&self.keys, first, self.store(sealed), sealed)
    }

    /// A sealed file.
    pub fn content(&self, plain: &[u8]) -> Content {
        self.stored_content(plain.len() as u64, &self.seal(Purpose::Data, 1, plain))
    }

    /// The content that a new file with these bytes seems to have.
    pub fn stored_content(&self, size: u64, sealed: &[u8]) -> Content {
        parts::content(&self.keys, size, self.store(sealed), sealed)
    }

    /// The numbers of entries and of bytes in these nodes; `None` if not all can be read.
    fn total(&self, nodes: &[Reference]) -> Option<(u64, u64)> {
        let open = |purpose, at: &Reference| {
            let sealed = fs::read(self.path(at.name)).ok()?;
            self.try_open(purpose, at.generation, &sealed)
        };
        let (mut entries, mut bytes) = (0, 0_u64);
        for node in nodes {
            for block in Node::parse(&open(Purpose::Node, node)?).ok()?.references {
                for (_, entry) in Block::parse(&open(Purpose::Block, &block)?).ok()?.entries {
                    entries += 1;
                    if let Kind::File(content) = entry.kind {
                        bytes = bytes.checked_add(content.size)?;
                    }
                }
            }
        }
        Some((entries, bytes))
    }

    /// Publishes a generation with these nodes.
    pub fn publish(&self, number: u64, nodes: Vec<Reference>) {
        self.publish_as(number, nodes, None, |_, _| {});
    }

    /// Publishes a generation that is signed, or is changed before.
    pub fn publish_as(
        &self,
        number: u64,
        nodes: Vec<Reference>,
        signer: Option<&OwnKey>,
        change: impl FnOnce(&mut Claim, &mut Body),
    ) {
        let before = (number > 1).then(|| {
            let before = fs::read(self.root_path(number - 1)).unwrap();
            Sha256::digest(before).into()
        });
        let total = self.total(&nodes).unwrap_or((3, 3));
        let mut body = parts::body(&self.keys, nodes, total);
        let mut claim = parts::claim(&self.keys, number, before);
        change(&mut claim, &mut body);
        fs::write(self.root_path(number), self.root(claim, body, signer)).unwrap();
    }

    /// The file of a root.
    pub fn root(&self, mut claim: Claim, mut body: Body, signer: Option<&OwnKey>) -> Vec<u8> {
        claim.policy = body.policy();
        let claim_bytes = claim.bytes();
        body.claim = Sha256::digest(&claim_bytes).into();
        let body = body.bytes();
        let signatures: Vec<_> = signer.map(|signer| signer.sign(&body)).into_iter().collect();
        let plain = Root::write(&body, &signatures, None).unwrap();
        let sealed = self.seal(Purpose::Root, claim.number, &plain);
        let chain = signer.map(|signer| {
            let signed = Claim::signed(&claim_bytes, &sealed);
            (signer.chain_key(), signer.sign_chain(&signed))
        });
        RootFile::write(&claim_bytes, chain.as_ref().map(|(key, it)| (key, it)), &sealed)
    }

    pub fn root_path(&self, number: u64) -> PathBuf {
        self.scene.tree().join(format!("tree/{number:019}"))
    }

    pub fn claim(&self, number: u64) -> Claim {
        RootFile::parse(&fs::read(self.root_path(number)).unwrap(), number).unwrap().claim
    }

    pub fn body(&self, number: u64) -> Body {
        let bytes = fs::read(self.root_path(number)).unwrap();
        let file = RootFile::parse(&bytes, number).unwrap();
        Root::parse(&self.open(Purpose::Root, number, file.sealed)).unwrap().body
    }

    /// The blocks that a generation's nodes name.
    pub fn blocks(&self, number: u64) -> Vec<Reference> {
        let parts = self.body(number).nodes;
        let nodes = parts.iter().map(|node| {
            let sealed = fs::read(self.path(node.name)).unwrap();
            Node::parse(&self.open(Purpose::Node, node.generation, &sealed)).unwrap()
        });
        nodes.flat_map(|node| node.references).collect()
    }

    /// The entries of a block, by path.
    pub fn entries_of(&self, block: &Reference) -> BTreeMap<String, Entry> {
        let sealed = fs::read(self.path(block.name)).unwrap();
        let block = Block::parse(&self.open(Purpose::Block, block.generation, &sealed)).unwrap();
        let path = |directory: &[u8], entry: &Entry| {
            let path = EntryPath { directory: directory.into(), name: entry.name.clone() };
            String::from_utf8(path.whole()).unwrap()
        };
        block.entries.into_iter().map(|(at, entry)| (path(&at, &entry), entry)).collect()
    }

    /// All entries of a generation, by path.
    pub fn entries(&self, number: u64) -> BTreeMap<String, Entry> {
        self.blocks(number).iter().flat_map(|block| self.entries_of(block)).collect()
    }

    /// The file in `data/` that has the content of a path.
    pub fn file(&self, number: u64, path: &str) -> PathBuf {
        self.path(self.content_of(number, path).name)
    }

    pub fn content_of(&self, number: u64, path: &str) -> Content {
        match self.entries(number).remove(path).unwrap().kind {
            Kind::File(content) => content,
            kind => panic!("{kind:?}"),
        }
    }

    /// Publishes generation 1 with one block.
    pub fn publish_block(&self, first: &[u8], block: &[u8]) {
        let block = self.part(Purpose::Block, first, block);
        self.publish_blocks(std::slice::from_ref(&block));
    }

    /// Publishes generation 1 with blocks.
    pub fn publish_blocks(&self, blocks: &[Reference]) {
        let node = node(blocks);
        let node = self.part(Purpose::Node, &blocks[0].first.whole(), &node);
        self.publish(1, vec![node]);
    }

    /// Seals another first chunk under the header that a file has. Everything else of it stays.
    pub fn reseal_first_chunk(&self, content: &Content, plain: &[u8]) {
        let path = self.path(content.name);
        let mut bytes = fs::read(&path).unwrap();
        let cipher =
            self.keys.recipe(Purpose::Data, content.generation).unwrap().open(&bytes).unwrap();
        let layout = Layout::for_sealed(cipher.geometry(), content.length).unwrap();
        let chunk = layout.chunk(0);
        assert!(layout.chunks() > 1 && chunk.plain.end as usize == plain.len());
        let ChunkIv::Known(iv) = cipher.iv(&chunk) else { panic!() };
        let request = SessionRequest {
            cipher: cipher.cipher(),
            direction: Direction::Encrypt,
            key: Some(cipher.key()),
        };
        let engine = &self.scene.run.run.seats[0];
        let output = &mut bytes[chunk.sealed.start as usize..chunk.sealed.end as usize];
        let mut jobs = [Job::new(iv, plain, output)];
        engine.open(&request).unwrap().process(&mut jobs).unwrap();
        fs::write(&path, bytes).unwrap();
    }
}

pub fn node(references: &[Reference]) -> Vec<u8> {
    let mut writer = NodeWriter::default();
    references.iter().for_each(|reference| assert!(writer.push(reference)));
    writer.finish(None)
}

/// A block with entries that a writer would take.
pub fn block(entries: &[(&str, Kind)]) -> Vec<u8> {
    let mut writer = BlockWriter::default();
    for (path, kind) in entries {
        let EntryPath { directory, name } = EntryPath::of(path.as_bytes());
        assert!(writer.push(&directory, &entry(name, kind.clone())).unwrap());
    }
    writer.finish(None)
}

pub fn entry(name: Vec<u8>, kind: Kind) -> Entry {
    Entry { name, kind, mode: None, modified: None, owner: None, attributes: Vec::new() }
}

/// The plaintext of a block that no writer would make.
#[derive(Default)]
pub struct RawBlock {
    keys: Vec<[u8; 32]>,
    body: Vec<u8>,
}

impl RawBlock {
    pub fn of(forge: &Forge<'_>) -> RawBlock {
        RawBlock { keys: vec![forge.keys.commitment().0], body: Vec::new() }
    }

    pub fn directory(mut self, path: &[u8]) -> RawBlock {
        string(&mut self.body, path);
        self
    }

    pub fn entry(mut self, name: &[u8], kind: &Kind) -> RawBlock {
        let body = &mut self.body;
        let (number, more) = match kind {
            Kind::File(content) => (0, 8 + u64::from(content.hash.is_some())),
            Kind::Directory => (1, 0),
            Kind::Symlink(_) => (2, 1),
            Kind::Further(_) => (3, 1),
        };
        head(body, 4, 7 + more);
        string(body, name);
        head(body, 0, number);
        // Neither mode nor time, owner nor attributes.
        body.extend([NULL, NULL, 0, NULL, NULL]);
        match kind {
            Kind::File(content) => {
                head(body, 0, content.size);
                string(body, content.name.bytes());
                head(body, 0, content.offset);
                head(body, 0, content.length);
                string(body, &content.commitment);
                string(body, &content.tag);
                body.push(0);
                head(body, 0, content.generation);
                content.hash.iter().for_each(|hash| string(body, hash));
            }
            Kind::Directory => {}
            Kind::Symlink(target) | Kind::Further(target) => string(body, target),
        }
        self
    }

    pub fn finish(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        head(&mut bytes, 4, self.keys.len() as u64);
        self.keys.iter().for_each(|key| string(&mut bytes, key));
        bytes.extend(self.body);
        bytes.push(NULL);
        bytes
    }
}

/// The head of an item of CBOR.
pub fn head(bytes: &mut Vec<u8>, major: u8, number: u64) {
    let major = major << 5;
    match number {
        0..=23 => bytes.push(major | number as u8),
        24..=0xFF => bytes.extend([major | 24, number as u8]),
        0x100..=0xFFFF => {
            bytes.push(major | 25);
            bytes.extend((number as u16).to_be_bytes());
        }
        0x1_0000..=0xFFFF_FFFF => {
            bytes.push(major | 26);
            bytes.extend((number as u32).to_be_bytes());
        }
        _ => {
            bytes.push(major | 27);
            bytes.extend(number.to_be_bytes());
        }
    }
}

pub fn string(bytes: &mut Vec<u8>, content: &[u8]) {
    head(bytes, 2, content.len() as u64);
    bytes.extend(content);
}

const NULL: u8 = 0xF6;
