//! Bytes that no honest writer makes. Each case is a sound one with one change.

use std::sync::Arc;

use super::super::cbor::Writer;
use super::super::path::is_path;
use super::super::*;

#[test]
fn sound_ones_are_read() {
    assert!(Block::parse(&block(|_| {})).is_ok());
    assert!(node(|_| {}).is_ok());
    assert!(claim(|_| {}).is_ok());
    assert!(body(|_| {}).is_ok());
}

#[test]
fn paths_that_lead_out_are_refused() {
    let long = [b'a'; 256];
    let names = [&b""[..], b".", b"..", b"/", b"a/b", b"/a", b"a\0", b"../a", &long];
    for name in names {
        let shown = name.escape_ascii();
        let at_root = block(|it| (it.name, it.directory) = (name.to_vec(), Vec::new()));
        assert!(Block::parse(&at_root).is_err(), "{shown} at the root");
        assert!(Block::parse(&block(|it| it.name = name.to_vec())).is_err(), "{shown}");
        assert!(node(|it| it.name = name.to_vec()).is_err(), "a reference to {shown}");
    }
    for directory in [&b"/"[..], b"/a", b"a/", b"a//b", b"..", b"a/../b", b"a/./b", b"a/\0", &long]
    {
        let shown = directory.escape_ascii();
        assert!(!is_path(directory), "{shown}");
        assert!(Block::parse(&block(|it| it.directory = directory.to_vec())).is_err(), "{shown}");
        assert!(Block::parse(&block(|it| it.further = Some(directory.to_vec()))).is_err());
        assert!(node(|it| it.directory = directory.to_vec()).is_err(), "{shown}");
    }
    assert!(Block::parse(&block(|it| it.further = Some(b"some/file".to_vec()))).is_ok());
    let levels = |count: usize| vec![&b"a"[..]; count].join(&b'/');
    let sound = levels(MOST_PATH / 2);
    assert!(Block::parse(&block(|it| it.directory = sound.clone())).is_ok());
    assert!(Block::parse(&block(|it| it.directory = levels(1_000_000))).is_err());
    assert!(node(|it| it.directory = levels(1_000_000)).is_err());
}

#[test]
fn lengths_that_no_file_has_are_refused() {
    let read = |offset, length, size| {
        Block::parse(&block(|it| (it.offset, it.length, it.size) = (offset, length, size)))
    };
    let most = (1 << 38) * 16_400;
    for (offset, length, size) in [(0, 72, 0), (7, 73, 1), (9, 1000, 928), ((1 << 63) - 73, 72, 0)]
    {
        assert!(read(offset, length, size).is_ok(), "{offset} {length} {size}");
    }
    for (offset, length, size) in [
        (0, 0, 0),
        (0, 71, 0),
        (0, 72, 1),
        (0, 172, 101),
        (0, 56 + 16_400, 16_384),
        (0, 56 + 16_400, 0),
        (0, 56 + 16_415, 16_384),
        (0, 1 << 63, 1),
        (0, 1 << 62, 1),
        (0, u64::MAX, u64::MAX),
        (0, 172, 1 << 63),
        (0, 172, u64::MAX),
        (1 << 63, 172, 100),
        ((1 << 63) - 72, 172, 100),
        (u64::MAX, 172, 100),
        (u64::MAX - 171, 172, 100),
        (0, 56 + most, 1),
    ] {
        assert!(read(offset, length, size).is_err(), "{offset} {length} {size}");
    }
    for length in [0, 71, 56 + 16_400, MOST_FILE + 1, 1 << 63, u64::MAX] {
        assert!(node(|it| it.length = length).is_err(), "{length}");
    }
    assert!(node(|it| it.length = MOST_FILE).is_ok());
}

#[test]
fn fields_are_checked() {
    let cases: [Case<Parts>; 11] = [
        ("a key out of the list", |it| it.key = 1),
        ("a key far out of the list", |it| it.key = u64::MAX),
        ("generation 0", |it| it.generation = 0),
        ("a generation that is too large", |it| it.generation = (1 << 62) + 1),
        ("a mode of a type", |it| it.mode = 0o10_000),
        ("a long second", |it| it.nanoseconds = 1_000_000_000),
        ("a mode that is no number of 32 bits", |it| it.mode = 1 << 32),
        ("no time but nanoseconds", |it| it.has_time = false),
        ("attributes out of order", |it| it.attributes = vec![b"b".to_vec(), b"a".to_vec()]),
        ("an attribute twice", |it| it.attributes = vec![b"a".to_vec(); 2]),
        ("an attribute without name", |it| it.attributes = vec![Vec::new()]),
    ];
    for (case, change) in cases {
        assert!(Block::parse(&block(change)).is_err(), "{case}");
    }
    assert!(Block::parse(&block(|it| it.attributes = vec![b"a\0".to_vec()])).is_err());
    assert!(Block::parse(&block(|it| it.keys = vec![[1; 32]; 2])).is_err(), "a key twice");
    assert!(node(|it| it.key = 1).is_err(), "a key out of the list");
    assert!(node(|it| it.generation = 0).is_err(), "generation 0");
}

#[test]
fn entries_come_in_order() {
    let sound: [&[Place<'_>]; 3] = [
        &[("", ""), ("", "a"), ("", "a-"), ("a", "b"), ("a/b", "c")],
        &[("a/b", "c"), ("a-b", "c")],
        &[("a", "a"), ("a", "ÿ")],
    ];
    for entries in sound {
        assert!(Block::parse(&listing(entries)).is_ok(), "{entries:?}");
        assert_eq!(push(entries), Ok(true), "{entries:?}");
    }
    let wrong: [&[Place<'_>]; 7] = [
        &[("a", "b"), ("a", "b")],
        &[("a", "c"), ("a", "b")],
        &[("b", "a"), ("a", "b")],
        &[("a-b", "c"), ("a/b", "c")],
        &[("", "a"), ("", "")],
        &[("", ""), ("", "")],
        &[("a", "")],
    ];
    for entries in wrong {
        assert!(Block::parse(&listing(entries)).is_err(), "{entries:?}");
        assert!(push(entries).is_err(), "{entries:?}");
    }
    let sound = Node::parse(&node_of(&[("", ""), ("", "a"), ("a/b", "c"), ("a-b", "c")])).unwrap();
    assert_eq!(sound.references.len(), 4);
    for references in wrong {
        assert!(Node::parse(&node_of(references)).is_err(), "{references:?}");
    }
    assert!(Node::parse(&node_of(&[])).is_err());
}

#[test]
fn a_directory_comes_before_its_entries_and_once() {
    /// A directory's path, or the name of an entry.
    type Part<'a> = Result<&'a str, &'a str>;
    let read = |parts: &[Part<'_>]| {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.array(0);
        for part in parts {
            match part {
                Ok(directory) => writer.bytes(directory.as_bytes()),
                Err(name) => directory(name).write(&mut writer, &mut Default::default()),
            }
        }
        writer.null();
        Block::parse(&bytes)
    };
    assert!(read(&[Ok("a"), Err("b"), Err("c"), Ok("b"), Err("a")]).is_ok());
    let wrong: [&[Part<'_>]; 7] = [
        &[],
        &[Err("a")],
        &[Ok("a")],
        &[Ok("a"), Ok("b"), Err("c")],
        &[Ok("a"), Err("b"), Ok("b")],
        &[Ok("a"), Err("b"), Ok("a"), Err("c")],
        &[Ok("a"), Ok("a"), Err("c")],
    ];
    for parts in wrong {
        assert!(read(parts).is_err(), "{parts:?}");
    }
}

#[test]
fn other_forms_of_items_are_refused() {
    let sound = block(|_| {});
    // An array of one key begins it.
    assert_eq!(sound[0], 0x81);
    let begins = |form: &[u8]| [form, &sound[1..]].concat();
    assert!(Block::parse(&begins(&[0x81])).is_ok());
    for form in
        [&[0x98, 1][..], &[0x99, 0, 1], &[0x9A, 0, 0, 0, 1], &[0x9F], &[0xC1, 0x81], &[0xA1]]
    {
        assert!(Block::parse(&begins(form)).is_err(), "{form:x?}");
    }
    // Where an entry or the end may come: null in two bytes, numbers with a fraction, among them
    // those that are none, a break, what is reserved, and lengths that nothing has.
    for item in [
        &[0xF8, 22][..],
        &[0xF9, 0x7C, 0x01],
        &[0xFA, 0x7F, 0x80, 0, 1],
        &[0xFB, 0x7F, 0xF0, 0, 0, 0, 0, 0, 1],
        &[0xFF],
        &[0xFC],
        &[0x5F, 0x41, 0, 0xFF],
        &[0x5B, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        &[0x5A, 0xFF, 0xFF, 0xFF, 0xFF],
        &[0x9A, 0xFF, 0xFF, 0xFF, 0xFF],
        &[0x9B, 0x80, 0, 0, 0, 0, 0, 0, 0],
    ] {
        assert!(Block::parse(&[&[0x80][..], item, &[0xF6]].concat()).is_err(), "{item:x?}");
        assert!(Node::parse(&[&[0x80][..], item, &[0xF6]].concat()).is_err(), "{item:x?}");
        assert!(Block::parse(&[item, &[0xF6]].concat()).is_err(), "{item:x?}");
        assert!(Root::parse(&[&[0x82][..], item].concat()).is_err(), "{item:x?}");
    }
}

#[test]
fn limits_hold_before_padding() {
    let padding = Some(Padding { floor: 2 * MOST_BLOCK as u64 });
    let entry = |name: &str, value: usize| Entry {
        attributes: vec![(b"user.a".to_vec(), vec![1; value])],
        ..directory(name)
    };
    let mut writer = BlockWriter::default();
    let root: Arc<[u8]> = Arc::from(&b""[..]);
    assert!(matches!(writer.push(&root, &entry("a", MOST_BLOCK)), Err(IndexError::Limit(_))));
    assert_eq!(writer.push(&root, &entry("a", MOST_BLOCK - 1000)), Ok(true));
    assert_eq!(writer.push(&root, &entry("b", 1000)), Ok(false));
    assert_eq!(writer.push(&root, &entry("b", 10)), Ok(true));
    let bytes = writer.finish(padding);
    assert_eq!(bytes.len(), 2 * MOST_BLOCK);
    assert_eq!(Block::parse(&bytes).unwrap().entries.len(), 2);

    // A block of the same entries, but longer than it may be.
    let mut bytes = vec![0x80, 0x40];
    for name in ["a", "b"] {
        entry(name, MOST_BLOCK / 2).write(&mut Writer::new(&mut bytes), &mut Default::default());
    }
    bytes.push(0xF6);
    assert!(Block::parse(&bytes).is_err());

    let names: Vec<_> = (0..=MOST_ENTRIES).map(|number| format!("{number:04}")).collect();
    let mut entries: Vec<_> = names.iter().map(|name| ("", &name[..])).collect();
    assert!(Block::parse(&listing(&entries)).is_err());
    assert_eq!(push(&entries), Ok(false));
    entries.pop();
    assert!(Block::parse(&listing(&entries)).is_ok());

    let name = vec![b'a'; 256];
    let too_long = Entry { name, ..directory("") };
    assert!(matches!(BlockWriter::default().push(&root, &too_long), Err(IndexError::Limit(_))));
    assert!(matches!(Root::write(&vec![0; MOST_ROOT], &[], None), Err(IndexError::Limit(_))));
}

#[test]
fn claims_are_checked() {
    let cases: [Case<Claim>; 11] = [
        ("generation 0", |it| it.number = 0),
        ("a generation that is too large", |it| it.number = (1 << 62) + 1),
        ("another generation", |it| it.number = 11),
        ("a skipped generation 0", |it| it.skipped = vec![(0, [0; 32])]),
        ("itself skipped", |it| it.skipped = vec![(10, [0; 32])]),
        ("skipped out of order", |it| it.skipped = vec![(9, [0; 32]), (8, [0; 32])]),
        ("skipped twice", |it| it.skipped = vec![(9, [0; 32]); 2]),
        ("many skipped", |it| it.skipped = (1..1002).map(|it| (it, [0; 32])).collect()),
        ("kept out of order", |it| it.kept = kept(9, &[3, 2])),
        ("kept twice", |it| it.kept = kept(9, &[3, 3])),
        ("kept behind its end", |it| it.kept = kept(9, &[9])),
    ];
    for (case, change) in cases {
        assert!(claim(change).is_err(), "{case}");
    }
    assert!(claim(|it| it.kept = kept(9, &[1, 8])).is_ok());
    assert!(claim(|it| it.retired = vec![KeyId([0; 16]); (1 << 16) + 1]).is_err());
    let kept = kept(9, &[1, 8]).unwrap();
    assert_eq!([1, 2, 8, 9, 10].map(|it| kept.contains(it)), [true, false, true, true, true]);
}

#[test]
fn root_files_are_whole() {
    let claim = claim_of(|_| {}).bytes();
    let sound = RootFile::write(&claim, Some((&[1; 32], &[2; 64])), b"sealed");
    assert!(RootFile::parse(&sound, 10).is_ok());
    let longer = RootFile::write(&[&claim[..], &[0]].concat(), None, b"sealed");
    assert!(RootFile::parse(&longer, 10).is_err(), "something behind the claim");
    for (key, signature) in [(Some([1; 32]), None), (None, Some([2; 64]))] {
        let mut bytes = b"evener-root-v1\n".to_vec();
        let mut writer = Writer::new(&mut bytes);
        writer.array(3);
        writer.bytes(&claim);
        writer.optional(key, |writer, key| writer.bytes(&key));
        writer.optional(signature, |writer, signature| writer.bytes(&signature));
        assert!(RootFile::parse(&bytes, 10).is_err(), "half of a chain's signature");
    }
    assert!(matches!(RootFile::parse(b"evener-root-v2\n", 10), Err(IndexError::Unknown(_))));
    assert!(matches!(RootFile::parse(b"evener-tree-v1\n", 10), Err(IndexError::Malformed(_))));
}

#[test]
fn later_versions_and_features_are_named() {
    let cases = [
        ("version", "version 2 of sealed trees"),
        ("feature", "the feature a\\nb"),
        ("field", "the field more"),
        ("fields", "other fields in its root"),
    ];
    for (change, expected) in cases {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.map(if change == "fields" { 14 } else { 13 });
        writer.text("version");
        writer.number(if change == "version" { 2 } else { 1 });
        writer.text("features");
        writer.array(usize::from(change == "feature"));
        if change == "feature" {
            writer.text("a\nb");
        }
        writer.text(if change == "field" { "more" } else { "tree" });
        let root = Root::write(&bytes, &[], None).unwrap();
        assert_eq!(Root::parse(&root), Err(IndexError::Unknown(expected.to_owned())), "{change}");
    }
    assert!(body(|it| it.padding = Some(Padding { floor: Padding::MOST_FLOOR + 1 })).is_err());
    assert!(body(|it| it.nodes = vec![it.nodes[0].clone(); 2]).is_err(), "a node twice");
}

/// The directory and the name of an entry.
type Place<'a> = (&'a str, &'a str);

/// What a case changes, and how.
type Case<Changed> = (&'static str, fn(&mut Changed));

/// The parts of a block with a file and perhaps a further name.
struct Parts {
    keys: Vec<[u8; 32]>,
    directory: Vec<u8>,
    name: Vec<u8>,
    mode: u64,
    has_time: bool,
    nanoseconds: u64,
    attributes: Vec<Vec<u8>>,
    size: u64,
    offset: u64,
    length: u64,
    key: u64,
    generation: u64,
    further: Option<Vec<u8>>,
}

fn block(change: impl FnOnce(&mut Parts)) -> Vec<u8> {
    let mut parts = Parts {
        keys: vec![[1; 32]],
        directory: b"some".to_vec(),
        name: b"file".to_vec(),
        mode: 0o644,
        has_time: true,
        nanoseconds: 1,
        attributes: Vec::new(),
        size: 100,
        offset: 0,
        length: 172,
        key: 0,
        generation: 1,
        further: None,
    };
    change(&mut parts);
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.array(parts.keys.len());
    parts.keys.iter().for_each(|key| writer.bytes(key));
    writer.bytes(&parts.directory);
    writer.array(15);
    common(&mut writer, &parts.name, 0, &parts);
    writer.number(parts.size);
    writer.bytes(&[3; 17]);
    writer.number(parts.offset);
    writer.number(parts.length);
    writer.bytes(&[4; 32]);
    writer.bytes(&[5; 16]);
    writer.number(parts.key);
    writer.number(parts.generation);
    if let Some(further) = &parts.further {
        writer.array(8);
        common(&mut writer, b"further", 3, &parts);
        writer.bytes(further);
    }
    writer.null();
    bytes
}

fn common(writer: &mut Writer<'_>, name: &[u8], kind: u64, parts: &Parts) {
    writer.bytes(name);
    writer.number(kind);
    writer.number(parts.mode);
    writer.optional(parts.has_time.then_some(-5), |writer, seconds| writer.signed(seconds));
    writer.number(parts.nanoseconds);
    writer.null();
    let attributes = Some(&parts.attributes).filter(|attributes| !attributes.is_empty());
    writer.optional(attributes, |writer, attributes| {
        writer.array(2 * attributes.len());
        for name in attributes {
            writer.bytes(name);
            writer.bytes(b"");
        }
    });
}

/// A block of directories, whatever their order.
fn listing(entries: &[Place<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.array(0);
    let mut last = None;
    for (path, name) in entries {
        if last.replace(path) != Some(path) {
            writer.bytes(path.as_bytes());
        }
        directory(name).write(&mut writer, &mut Default::default());
    }
    writer.null();
    bytes
}

/// Pushes directories, and returns the last result.
fn push(entries: &[Place<'_>]) -> Result<bool, IndexError> {
    let mut writer = BlockWriter::default();
    entries.iter().try_fold(true, |_, (path, name)| {
        writer.push(&Arc::from(path.as_bytes()), &directory(name))
    })
}

fn directory(name: &str) -> Entry {
    Entry {
        name: name.into(),
        kind: Kind::Directory,
        mode: None,
        modified: None,
        owner: None,
        attributes: Vec::new(),
    }
}

/// The parts of a node's reference.
struct ReferenceParts {
    directory: Vec<u8>,
    name: Vec<u8>,
    length: u64,
    key: u64,
    generation: u64,
}

fn node(change: impl FnOnce(&mut ReferenceParts)) -> Result<Node, IndexError> {
    let (directory, name) = (b"some".to_vec(), b"file".to_vec());
    let mut parts = ReferenceParts { directory, name, length: 172, key: 0, generation: 1 };
    change(&mut parts);
    Node::parse(&node_bytes(&[parts]))
}

fn node_of(references: &[Place<'_>]) -> Vec<u8> {
    let parts = |(directory, name): &Place<'_>| ReferenceParts {
        directory: (*directory).into(),
        name: (*name).into(),
        length: 172,
        key: 0,
        generation: 1,
    };
    node_bytes(&references.iter().map(parts).collect::<Vec<_>>())
}

fn node_bytes(references: &[ReferenceParts]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.array(1);
    writer.bytes(&[1; 32]);
    for parts in references {
        writer.array(7);
        writer.bytes(&parts.directory);
        writer.bytes(&parts.name);
        writer.bytes(&[3; 17]);
        writer.number(parts.length);
        writer.bytes(&[4; 32]);
        writer.number(parts.key);
        writer.number(parts.generation);
    }
    writer.null();
    bytes
}

fn claim(change: impl FnOnce(&mut Claim)) -> Result<(), IndexError> {
    let bytes = RootFile::write(&claim_of(change).bytes(), None, b"");
    RootFile::parse(&bytes, 10).map(|_| ())
}

fn claim_of(change: impl FnOnce(&mut Claim)) -> Claim {
    let (key, number, before, policy) = (KeyId([1; 16]), 10, Some([2; 32]), [3; 32]);
    let (skipped, kept, retired) = (Vec::new(), None, Vec::new());
    let mut claim = Claim { key, number, before, skipped, cutoff: 0, kept, retired, policy };
    change(&mut claim);
    claim
}

fn kept(until: u64, generations: &[u64]) -> Option<Kept> {
    Some(Kept { until, generations: generations.to_vec() })
}

fn body(change: impl FnOnce(&mut Body)) -> Result<Root, IndexError> {
    let mut body = Body {
        tree: TreeId([1; 16]),
        claim: [2; 32],
        time: 3,
        signers: Vec::new(),
        revoked: Vec::new(),
        border: Border([4; 16]),
        padding: None,
        entries: 1,
        bytes: 0,
        nodes: Node::parse(&node_of(&[("", "")])).unwrap().references,
    };
    change(&mut body);
    Root::parse(&Root::write(&body.bytes(), &[], None).unwrap())
}
