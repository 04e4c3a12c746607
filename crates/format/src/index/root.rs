//! Roots of generations.

use sha2::{Digest, Sha256};

use super::cbor::{Reader, Writer};
use super::key_list::KeyList;
use super::node::check_order;
use super::{Border, IndexError, KeyId, MOST_FILE, MOST_ROOT, Padding, Reference, TreeId};

/// The file of a root: a line, a CBOR array of the [`Claim`], and the Cobblestone file of the
/// [`Root`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootFile<'a> {
    /// The facts that take no key.
    pub claim: Claim,
    /// The bytes of the claim.
    pub claim_bytes: Vec<u8>,
    /// The Ed25519 key that signs the chain, and its signature over [`Claim::signed`].
    pub chain: Option<([u8; 32], [u8; 64])>,
    /// The Cobblestone file.
    pub sealed: &'a [u8],
}

/// The facts about a root that writers must check who can't read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The key that opens it.
    pub key: KeyId,
    /// The number of the generation: 1 or more, at most 2^62.
    pub number: u64,
    /// The SHA-256 of its predecessor's file; `None` for the first.
    pub before: Option<[u8; 32]>,
    /// The files between it and its predecessor that are no valid roots, with their SHA-256.
    pub skipped: Vec<(u64, [u8; 32])>,
    /// Files in `data/` that are older than this, in seconds since 1970, and that no kept
    /// generation names, may be gone.
    pub cutoff: i64,
    /// The generations that are still whole; `None` for all.
    pub kept: Option<Kept>,
    /// Keys that seal no later root.
    pub retired: Vec<KeyId>,
    /// The [policy](Body::policy) of the root: it changes only with those who may sign.
    pub policy: [u8; 32],
}

/// What cleaning has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The generation that cleaning made. Later ones are whole.
    pub until: u64,
    /// The earlier ones that are whole, in ascending order.
    pub generations: Vec<u64>,
}

/// The plaintext of a root: its body, and signatures over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The bytes that are signed.
    pub body_bytes: Vec<u8>,
    /// The body.
    pub body: Body,
    /// Signatures of OpenSSH (SSHSIG, binary) over the body's bytes.
    pub signatures: Vec<Vec<u8>>,
}

/// The content of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The tree.
    pub tree: TreeId,
    /// The SHA-256 of the claim's bytes.
    pub claim: [u8; 32],
    /// When it was made, in seconds since 1970.
    pub time: i64,
    /// Who may sign the next generation; nobody in an unsigned tree.
    pub signers: Vec<SignerKeys>,
    /// Public keys of OpenSSH that are no longer believed, each with its last good generation.
    pub revoked: Vec<(Vec<u8>, u64)>,
    /// Where blocks and nodes begin.
    pub border: Border,
    /// The padding of all files.
    pub padding: Option<Padding>,
    /// The number of entries.
    pub entries: u64,
    /// The bytes of all files' content.
    pub bytes: u64,
    /// The nodes.
    pub nodes: Vec<Reference>,
}

/// A writer's public keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SignerKeys {
    /// The public key of OpenSSH that signs bodies, in its wire form.
    pub key: Vec<u8>,
    /// The Ed25519 key that signs chains.
    pub chain: [u8; 32],
}

impl<'a> RootFile<'a> {
    /// Reads the file of a root as far as that takes no key. `number` is that of its name.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn parse(bytes: &'a [u8], number: u64) -> Result<RootFile<'a>, IndexError> {
        if bytes.len() as u64 > MOST_FILE {
            return Err(IndexError::Limit("the root has more than 72 MiB"));
        }
        let Some(rest) = bytes.strip_prefix(LINE) else {
            return match bytes.starts_with(LINE_BEGINNING) {
                true => Err(IndexError::Unknown("another version of roots".to_owned())),
                false => Err(IndexError::Malformed("it is no root")),
            };
        };
        let mut reader = Reader::new(rest, rest.len());
        reader.array(3, 3)?;
        let claim_bytes = reader.bytes(MOST_CLAIM)?;
        let chain = match (reader.optional(Reader::fixed)?, reader.optional(Reader::fixed)?) {
            (Some(key), Some(signature)) => Some((key, signature)),
            (None, None) => None,
            _ => return Err(IndexError::Malformed("a key or a signature is missing")),
        };
        let claim = Claim::parse(&claim_bytes)?;
        if claim.number != number {
            return Err(IndexError::Malformed("it is the root of another generation"));
        }
        Ok(RootFile { claim, claim_bytes, chain, sealed: reader.rest() })
    }

    /// Puts the file together. The Cobblestone file is `sealed`.
    pub fn write(claim: &[u8], chain: Option<(&[u8; 32], &[u8; 64])>, sealed: &[u8]) -> Vec<u8> {
        let mut bytes = LINE.to_vec();
        let mut writer = Writer::new(&mut bytes);
        writer.array(3);
        writer.bytes(claim);
        writer.optional(chain, |writer, (key, _)| writer.bytes(key));
        writer.optional(chain, |writer, (_, signature)| writer.bytes(signature));
        bytes.extend(sealed);
        bytes
    }
}

impl Claim {
    /// The bytes of the claim.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.array(8);
        writer.bytes(&self.key.0);
        writer.number(self.number);
        writer.optional(self.before.as_ref(), |writer, before| writer.bytes(before));
        writer.array(2 * self.skipped.len());
        for (number, digest) in &self.skipped {
            writer.number(*number);
            writer.bytes(digest);
        }
        writer.signed(self.cutoff);
        writer.optional(self.kept.as_ref(), |writer, kept| {
            writer.array(1 + kept.generations.len());
            writer.number(kept.until);
            kept.generations.iter().for_each(|number| writer.number(*number));
        });
        writer.array(self.retired.len());
        self.retired.iter().for_each(|key| writer.bytes(&key.0));
        writer.bytes(&self.policy);
        bytes
    }

    /// What the chain's key signs: the claim's bytes and the SHA-256 of the Cobblestone file.
    pub fn signed(claim: &[u8], sealed: &[u8]) -> Vec<u8> {
        [claim, &Sha256::digest(sealed)].concat()
    }

    fn parse(bytes: &[u8]) -> Result<Claim, IndexError> {
        let mut reader = Reader::new(bytes, MOST_CLAIM);
        reader.array(8, 8)?;
        let key = KeyId(reader.fixed()?);
        let number = reader.generation()?;
        let before = reader.optional(|reader| reader.fixed())?;
        let skipped =
            pairs(&mut reader, MOST_SKIPPED, |reader| Ok((reader.generation()?, reader.fixed()?)))?;
        if !are_before(skipped.iter().map(|(number, _)| *number), number) {
            return Err(IndexError::Malformed("skipped roots are out of order"));
        }
        let cutoff = reader.signed()?;
        let kept = reader.optional(Kept::read)?;
        let retired = list(&mut reader, MOST_KEPT, |reader| reader.fixed().map(KeyId))?;
        let policy = reader.fixed()?;
        reader.end()?;
        Ok(Claim { key, number, before, skipped, cutoff, kept, retired, policy })
    }
}

impl Kept {
    /// Returns whether a generation is whole.
    pub fn contains(&self, number: u64) -> bool {
        number >= self.until || self.generations.binary_search(&number).is_ok()
    }

    fn read(reader: &mut Reader<'_>) -> Result<Kept, IndexError> {
        let length = reader.array(1, 1 + MOST_KEPT)?;
        let until = reader.generation()?;
        let generations =
            (1..length).map(|_| reader.generation()).collect::<Result<Vec<_>, _>>()?;
        match are_before(generations.iter().copied(), until) {
            true => Ok(Kept { until, generations }),
            false => Err(IndexError::Malformed("generations are out of order")),
        }
    }
}

impl Root {
    /// Reads the plaintext of a root.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn parse(bytes: &[u8]) -> Result<Root, IndexError> {
        let mut reader = Reader::new(bytes, MOST_ROOT);
        reader.array(2, 2)?;
        let body_bytes = reader.bytes(MOST_ROOT)?;
        let length = reader.array(0, MOST_SIGNERS)?;
        let signatures =
            (0..length).map(|_| reader.bytes(MOST_SIGNATURE)).collect::<Result<_, _>>()?;
        reader.padding()?;
        let body = Body::parse(&body_bytes)?;
        Ok(Root { body_bytes, body, signatures })
    }

    /// The plaintext of a root, padded.
    ///
    /// # Errors
    /// [`IndexError::Limit`] for a root that is too long.
    pub fn write(
        body: &[u8],
        signatures: &[Vec<u8>],
        padding: Option<Padding>,
    ) -> Result<Vec<u8>, IndexError> {
        let mut bytes = Vec::with_capacity(body.len() + 1024);
        let mut writer = Writer::new(&mut bytes);
        writer.array(2);
        writer.bytes(body);
        writer.array(signatures.len());
        signatures.iter().for_each(|signature| writer.bytes(signature));
        if bytes.len() > MOST_ROOT {
            return Err(IndexError::Limit("the root has more than 8 MiB"));
        }
        Padding::pad(padding, &mut bytes);
        Ok(bytes)
    }
}

impl Body {
    /// The bytes that are signed.
    pub fn bytes(&self) -> Vec<u8> {
        let mut keys = KeyList::default();
        let mut nodes = Vec::new();
        let mut writer = Writer::new(&mut nodes);
        writer.array(self.nodes.len());
        self.nodes.iter().for_each(|node| node.write(&mut writer, &mut keys));
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.map(FIELDS.len());
        // The order of FIELDS.
        for field in FIELDS {
            writer.text(field);
            match field {
                "version" => writer.number(1),
                "features" => writer.array(0),
                "tree" => writer.bytes(&self.tree.0),
                "claim" => writer.bytes(&self.claim),
                "time" => writer.signed(self.time),
                "keys" => keys.write(&mut writer),
                "signers" => self.write_signers(&mut writer),
                "revoked" => self.write_revoked(&mut writer),
                "border" => writer.bytes(&self.border.0),
                "pad" => writer.optional(self.padding, |writer, it| writer.number(it.floor)),
                "entries" => writer.number(self.entries),
                "bytes" => writer.number(self.bytes),
                _ => {}
            }
        }
        bytes.extend(nodes);
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<Body, IndexError> {
        let mut reader = Reader::new(bytes, MOST_ROOT);
        let length = reader.map(1 << 16)?;
        // A later version says so before anything else.
        let expect = |reader: &mut Reader<'_>, name: &str| match reader.text(64)? {
            field if field == name => Ok(()),
            field => Err(IndexError::Unknown(format!("the field {}", field.escape_debug()))),
        };
        expect(&mut reader, "version")?;
        let version = reader.number()?;
        expect(&mut reader, "features")?;
        let features = reader.array(0, 1 << 10)?;
        let features = (0..features).map(|_| reader.text(64)).collect::<Result<Vec<_>, _>>()?;
        if version != 1 {
            return Err(IndexError::Unknown(format!("version {version} of sealed trees")));
        }
        if let Some(feature) = features.first() {
            return Err(IndexError::Unknown(format!("the feature {}", feature.escape_debug())));
        }
        if length != FIELDS.len() {
            return Err(IndexError::Unknown("other fields in its root".to_owned()));
        }
        expect(&mut reader, "tree")?;
        let tree = TreeId(reader.fixed()?);
        expect(&mut reader, "claim")?;
        let claim = reader.fixed()?;
        expect(&mut reader, "time")?;
        let time = reader.signed()?;
        expect(&mut reader, "keys")?;
        let keys = KeyList::read(&mut reader, MOST_NODES)?;
        expect(&mut reader, "signers")?;
        let signers = pairs(&mut reader, MOST_SIGNERS, |reader| {
            Ok(SignerKeys { key: reader.bytes(MOST_KEY)?, chain: reader.fixed()? })
        })?;
        expect(&mut reader, "revoked")?;
        let revoked =
            pairs(&mut reader, 1 << 16, |reader| Ok((reader.bytes(MOST_KEY)?, reader.number()?)))?;
        expect(&mut reader, "border")?;
        let border = Border(reader.fixed()?);
        expect(&mut reader, "pad")?;
        let padding = reader.optional(Reader::number)?.map(|floor| Padding { floor });
        if padding.is_some_and(|padding| padding.floor > Padding::MOST_FLOOR) {
            return Err(IndexError::Malformed("the padding is too long"));
        }
        expect(&mut reader, "entries")?;
        let entries = reader.number()?;
        expect(&mut reader, "bytes")?;
        let total = reader.number()?;
        expect(&mut reader, "nodes")?;
        let nodes = list(&mut reader, MOST_NODES, |reader| Reference::read(reader, &keys))?;
        nodes.iter().zip(nodes.iter().skip(1)).try_for_each(|(a, b)| check_order(Some(a), b))?;
        reader.end()?;
        Ok(Body {
            tree,
            claim,
            time,
            signers,
            revoked,
            border,
            padding,
            entries,
            bytes: total,
            nodes,
        })
    }

    /// The SHA-256 of those who may sign and of those who no longer may. Whoever holds no key can so
    /// tell between which roots they differ.
    pub fn policy(&self) -> [u8; 32] {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.array(2);
        self.write_signers(&mut writer);
        self.write_revoked(&mut writer);
        Sha256::digest(&bytes).into()
    }

    fn write_signers(&self, writer: &mut Writer<'_>) {
        writer.array(2 * self.signers.len());
        for signer in &self.signers {
            writer.bytes(&signer.key);
            writer.bytes(&signer.chain);
        }
    }

    fn write_revoked(&self, writer: &mut Writer<'_>) {
        writer.array(2 * self.revoked.len());
        for (key, last) in &self.revoked {
            writer.bytes(key);
            writer.number(*last);
        }
    }
}

fn list<T>(
    reader: &mut Reader<'_>,
    most: usize,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, IndexError>,
) -> Result<Vec<T>, IndexError> {
    let length = reader.array(0, most)?;
    (0..length).map(|_| read(reader)).collect()
}

/// Returns whether generations are in ascending order, each once, and all before another.
fn are_before(mut numbers: impl Iterator<Item = u64>, end: u64) -> bool {
    let mut least = 0;
    numbers.all(|number| {
        let is_behind = (least..end).contains(&number);
        least = number + 1;
        is_behind
    })
}

fn pairs<T>(
    reader: &mut Reader<'_>,
    most: usize,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, IndexError>,
) -> Result<Vec<T>, IndexError> {
    let length = reader.array(0, 2 * most)?;
    match length % 2 {
        0 => (0..length / 2).map(|_| read(reader)).collect(),
        _ => Err(IndexError::Malformed("a pair lacks its second half")),
    }
}

/// The fields of a body in their order. The nodes come last.
const FIELDS: [&str; 13] = [
    "version", "features", "tree", "claim", "time", "keys", "signers", "revoked", "border", "pad",
    "entries", "bytes", "nodes",
];

const LINE: &[u8] = b"evener-root-v1\n";
const LINE_BEGINNING: &[u8] = b"evener-root-";
/// The number of files that a root can pass over.
pub const MOST_SKIPPED: usize = 1000;
const MOST_NODES: usize = 1 << 16;
const MOST_KEPT: usize = 1 << 16;
const MOST_CLAIM: usize = 2 << 20;
const MOST_SIGNERS: usize = 1024;
const MOST_SIGNATURE: usize = 16 << 10;
const MOST_KEY: usize = 4 << 10;
