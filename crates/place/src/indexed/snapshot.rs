//! The index of one generation.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::iter;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use evener_format::index::{Block, Body, Entry, EntryPath, Kind, Node, Purpose, Reference};
use sha2::{Digest, Sha256};

use super::base::says_nothing;
use super::depot::{Depot, refused};
use super::keys::Keys;
use super::roots::{Generation, Roots, root_path};
use super::wanted::Wanted;
use crate::{Fault, FileError, Name};

/// The index of one generation.
pub(super) struct Snapshot<'a> {
    pub(super) depot: Depot<'a>,
    pub(super) keys: Keys<'a>,
    pub(super) generation: Generation,
}

/// A part of an index.
pub(super) enum Part {
    /// A node, and the SHA-256 of its plaintext. Its blocks follow.
    Node(Reference, [u8; 32]),
    /// A block and its plaintext.
    Block(Reference, Vec<u8>, Block),
}

/// A part of an index that can't be read: the path of its first entry, and the reason.
#[derive(Clone, Debug)]
pub(super) struct Damage {
    pub(super) first: EntryPath,
    pub(super) error: FileError,
    /// Its file.
    pub(super) file: String,
    /// True if what could not be read may be as it should.
    pub(super) is_unread: bool,
    /// A better reason: the generation was removed meanwhile, or its root is wrong.
    pub(super) instead: Option<String>,
}

impl Damage {
    /// The name of its first entry.
    pub(super) fn name(&self) -> Name {
        Name::found(PathBuf::from(OsString::from_vec(self.first.whole())))
    }
}

impl From<Damage> for FileError {
    fn from(damage: Damage) -> FileError {
        let name = damage.name();
        match damage.instead {
            Some(reason) => refused(reason),
            None if damage.is_unread => damage.error,
            None => Fault::Damaged { name, reason: damage.error.to_string() }.into(),
        }
    }
}

/// One entry with its directory.
pub(super) type Line = (Arc<[u8]>, Entry);

/// The numbers of entries and bytes in an index, which its root records.
#[derive(Default)]
struct Total {
    entries: u64,
    bytes: u128,
}

impl Total {
    fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        if let Kind::File(content) = &entry.kind {
            self.bytes += u128::from(content.size);
        }
    }
}

impl Snapshot<'_> {
    /// The nodes and blocks that may hold what is wanted, in order.
    pub(super) fn parts(&self, wanted: Wanted) -> Parts<'_> {
        let nodes = &self.generation.body.nodes;
        let (nodes, blocks) = (with_next(nodes, None), VecDeque::new());
        Parts { snapshot: self, nodes, blocks, wanted, without: None }
    }

    /// The entries that may be wanted, and others of the same blocks. After a whole index, compares
    /// its numbers with those in the root.
    pub(super) fn lines(&self, wanted: Wanted) -> impl Iterator<Item = Result<Line, Damage>> {
        let mut total = wanted.is_everything().then(Total::default);
        let mut lines = self.parts(wanted).flat_map(|part| match part {
            Ok(Part::Node(..)) => Vec::new(),
            Ok(Part::Block(_, _, block)) => block.entries.into_iter().map(Ok).collect(),
            Err(damage) => vec![Err(damage)],
        });
        iter::from_fn(move || match lines.next() {
            Some(Ok(line)) => {
                total.iter_mut().for_each(|total| total.add(&line.1));
                Some(Ok(line))
            }
            // The entries of an unreadable part can't be counted.
            Some(Err(damage)) => {
                total = None;
                Some(Err(damage))
            }
            None => self.compare(total.take()?).map(Err),
        })
    }

    /// The damage, if the numbers in the root are not those of the index.
    fn compare(&self, total: Total) -> Option<Damage> {
        let Body { entries, bytes, .. } = self.generation.body;
        let Total { entries: found, bytes: found_bytes } = total;
        let reason = format!(
            "the index has {found} entries with {found_bytes} bytes of content, and its root says \
             {entries} with {bytes}: its writer was at fault, or meant to deceive"
        );
        let is_same = (entries, u128::from(bytes)) == (found, found_bytes);
        (!is_same).then(|| Damage {
            first: EntryPath::of(b""),
            error: refused(reason.clone()),
            file: root_path(self.generation.claim.number),
            is_unread: false,
            instead: Some(reason),
        })
    }

    /// The entry with a path.
    pub(super) fn find(&self, path: &[u8]) -> Result<Option<Entry>, FileError> {
        let wanted = EntryPath::of(path);
        let nodes = with_next(&self.generation.body.nodes, None);
        let mut parts = Parts {
            snapshot: self,
            nodes: nodes.into_iter().filter(|at| holds(at, &wanted)).collect(),
            blocks: VecDeque::new(),
            wanted: Wanted::default(),
            without: None,
        };
        while let Some(part) = parts.next() {
            match part? {
                Part::Node(..) => parts.blocks.retain(|at| holds(at, &wanted)),
                Part::Block(_, _, block) => {
                    let is_it = |(directory, entry): &Line| {
                        **directory == *wanted.directory && entry.name == wanted.name
                    };
                    if let Some((_, entry)) = block.entries.into_iter().find(is_it) {
                        return Ok(Some(entry));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The reason why files of this generation are missing, if a later one says that it was removed.
    pub(super) fn removed(&self) -> Option<String> {
        let roots = Roots { depot: &self.depot, keys: &self.keys };
        let number = self.generation.claim.number;
        let later = roots.numbers().ok()?.into_iter().rev().take_while(|it| *it > number);
        let kept = later.into_iter().find_map(|it| roots.step(it).ok()?.claim.kept)?;
        (!kept.contains(number)).then(|| format!("generation {number} was removed"))
    }

    /// The plaintext of a node or block.
    fn open(&self, purpose: Purpose, at: &Reference) -> Result<Vec<u8>, FileError> {
        let path = at.name.path();
        let sealed = self.depot.read(&path, at.length)?;
        let sealed = sealed.ok_or_else(|| refused(format!("`{path}` is missing")))?;
        let digest: [u8; 32] = Sha256::digest(&sealed).into();
        if sealed.len() as u64 != at.length || digest != at.digest {
            return Err(refused(format!("`{path}` is not what the index names: it was changed")));
        }
        let key = self.keys.listed(&self.depot, at.key)?;
        self.depot.open(key.recipe(purpose, at.generation)?, &sealed)
    }

    fn damage(&self, at: &Reference, error: FileError) -> Damage {
        let is_unread = says_nothing(&error) || self.keys.listed(&self.depot, at.key).is_err();
        let (first, file) = (at.first.clone(), at.name.path());
        Damage { first, error, file, is_unread, instead: self.removed() }
    }

    /// The content of a node.
    pub(super) fn node_of(&self, at: &Reference) -> Result<Node, FileError> {
        self.node(at, None).map(|(node, _)| node)
    }

    fn node(
        &self,
        at: &Reference,
        next: Option<&EntryPath>,
    ) -> Result<(Node, [u8; 32]), FileError> {
        let plain = self.open(Purpose::Node, at)?;
        let node = Node::parse(&plain).map_err(|error| refused(error.to_string()))?;
        let (first, last) = (node.references.first(), node.references.last());
        check_range(at, next, first.map(|it| &it.first), last.map(|it| &it.first))?;
        Ok((node, Sha256::digest(&plain).into()))
    }

    fn block(
        &self,
        at: &Reference,
        next: Option<&EntryPath>,
    ) -> Result<(Vec<u8>, Block), FileError> {
        let plain = self.open(Purpose::Block, at)?;
        let block = Block::parse(&plain).map_err(|error| refused(error.to_string()))?;
        let path = |(directory, entry): &Line| EntryPath {
            directory: directory.clone(),
            name: entry.name.clone(),
        };
        let (first, last) = (block.entries.first().map(path), block.entries.last().map(path));
        check_range(at, next, first.as_ref(), last.as_ref())?;
        Ok((plain, block))
    }
}

/// Checks that the content of a node or block lies where its reference says.
fn check_range(
    at: &Reference,
    next: Option<&EntryPath>,
    first: Option<&EntryPath>,
    last: Option<&EntryPath>,
) -> Result<(), FileError> {
    let is_in_range =
        first == Some(&at.first) && next.is_none_or(|next| last.is_some_and(|last| last < next));
    match is_in_range {
        true => Ok(()),
        false => Err(refused("a part of the index lies outside its range")),
    }
}

/// A reference, and the path at which its range ends.
type Range = (Reference, Option<EntryPath>);

fn holds((reference, next): &Range, path: &EntryPath) -> bool {
    reference.first <= *path && next.as_ref().is_none_or(|next| path < next)
}

/// References with the paths at which their ranges end.
fn with_next(references: &[Reference], end: Option<&EntryPath>) -> VecDeque<Range> {
    let next = references.iter().skip(1).map(|next| Some(next.first.clone()));
    references.iter().cloned().zip(next.chain([end.cloned()])).collect()
}

/// The nodes and blocks of an index.
pub(super) struct Parts<'s> {
    snapshot: &'s Snapshot<'s>,
    nodes: VecDeque<Range>,
    blocks: VecDeque<Range>,
    wanted: Wanted,
    /// Digests of blocks that are passed over.
    without: Option<&'s HashSet<[u8; 32]>>,
}

impl<'s> Parts<'s> {
    /// The same, without the blocks that have these digests.
    pub(super) fn without(self, blocks: &'s HashSet<[u8; 32]>) -> Parts<'s> {
        Parts { without: Some(blocks), ..self }
    }
}

impl Iterator for Parts<'_> {
    type Item = Result<Part, Damage>;

    fn next(&mut self) -> Option<Result<Part, Damage>> {
        let Parts { snapshot, nodes, blocks, wanted, without } = self;
        while let Some((block, next)) = blocks.pop_front() {
            let is_left_out = without.is_some_and(|without| without.contains(&block.digest));
            if !is_left_out && wanted.may_hold(&block.first, next.as_ref()) {
                return Some(match snapshot.block(&block, next.as_ref()) {
                    Ok((plain, content)) => Ok(Part::Block(block, plain, content)),
                    Err(error) => Err(snapshot.damage(&block, error)),
                });
            }
        }
        while let Some((node, next)) = nodes.pop_front() {
            if wanted.may_hold(&node.first, next.as_ref()) {
                return Some(match snapshot.node(&node, next.as_ref()) {
                    Ok((content, digest)) => {
                        *blocks = with_next(&content.references, next.as_ref());
                        Ok(Part::Node(node, digest))
                    }
                    Err(error) => Err(snapshot.damage(&node, error)),
                });
            }
        }
        None
    }
}
