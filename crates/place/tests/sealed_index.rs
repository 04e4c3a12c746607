//! Indexes of sealed trees that are hostile, though made with the key, or damaged.

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::bytes;
use common::forge::{Forge, RawBlock, block, head, node, string};
use common::sealed::{Scene, key};
use evener_format::index::{Content, Kind, Purpose, Reference, StorageName};
use evener_place::{Operation, Selection};

/// Decrypts and verifies a tree whose only block is this, and returns the failures.
#[track_caller]
fn failures_of(make: impl Fn(&Forge<'_>) -> (Vec<u8>, Vec<u8>)) -> Vec<(String, String)> {
    let scene = Scene::new();
    let forge = Forge::begin(&scene, &key(7));
    let (first, block) = make(&forge);
    forge.publish_block(&first, &block);
    failures(&scene)
}

/// The failures of decrypting, which has a bound in time, and of verifying.
#[track_caller]
fn failures(scene: &Scene) -> Vec<(String, String)> {
    let _ = fs::remove_dir_all(scene.path("state-b"));
    let begun = Instant::now();
    let outside = common::sealed::content(&scene.source());
    let failures = scene.failures(&scene.with_key("b"));
    scene.faults(&scene.with_key("b"));
    assert!(begun.elapsed() < Duration::from_secs(60), "it took {:?}", begun.elapsed());
    assert!(common::sealed::content(&scene.source()) == outside);
    let mut names: Vec<_> = fs::read_dir(scene.path("")).unwrap().map(|it| it.unwrap()).collect();
    names.retain(|it| {
        !["source", "tree", "state-b", "out"].iter().any(|name| it.file_name() == *name)
    });
    assert!(names.is_empty(), "{names:?}");
    failures.into_iter().collect()
}

#[track_caller]
fn assert_refused(what: &str, reason: &str, make: impl Fn(&Forge<'_>) -> (Vec<u8>, Vec<u8>)) {
    let failures = failures_of(make);
    assert_eq!(failures.len(), 1, "{what}: {failures:?}");
    assert!(failures[0].1.contains(reason), "{what}: {failures:?}");
}

#[test]
fn paths_that_lead_out_are_refused() {
    let names: [&[u8]; 10] =
        [b"..", b".", b"a/b", b"/etc", b"a\0b", b"", b"a/", b"../../out", b"/", &[b'x'; 256]];
    for name in names {
        assert_refused(&format!("{name:?}"), "index is damaged", |forge| {
            let file = Kind::File(forge.content(b"evil"));
            let block = RawBlock::of(forge).directory(b"").entry(name, &file);
            (b"x".to_vec(), block.finish())
        });
        // Where the reference agrees, it is refused as well.
        let scene = Scene::new();
        let forge = Forge::begin(&scene, &key(7));
        let file = Kind::File(forge.content(b"evil"));
        let raw = RawBlock::of(&forge).directory(b"").entry(name, &file).finish();
        let mut reference = forge.part(Purpose::Block, b"", &raw);
        reference.first.name = name.to_vec();
        let mut reference_of_node = forge.part(Purpose::Node, b"", &node(&[reference]));
        reference_of_node.first.name = name.to_vec();
        forge.publish(1, vec![reference_of_node]);
        assert!(!failures(&scene).is_empty());
    }
    let directories: [&[u8]; 8] =
        [b"..", b"/", b"/etc", b"a/../..", b"a//b", b"a/", b"./a", b"a\0"];
    for directory in directories {
        assert_refused(&format!("{directory:?}"), "index is damaged", |forge| {
            let file = Kind::File(forge.content(b"evil"));
            let block = RawBlock::of(forge).directory(directory).entry(b"x", &file);
            (b"x".to_vec(), block.finish())
        });
    }
}

#[test]
fn further_names_and_links_lead_nowhere() {
    let further = |target: &str| Kind::Further(target.as_bytes().to_vec());
    let cases: [(&str, Vec<(&str, Kind)>); 5] = [
        ("of a missing file", vec![("a", further("missing"))]),
        ("of itself", vec![("a", further("a"))]),
        ("of each other", vec![("a", further("b")), ("b", further("a"))]),
        ("of a directory", vec![("a", further("d")), ("d", Kind::Directory)]),
        ("of the root", vec![("a", further("d/x")), ("d", Kind::Symlink(b"/etc".to_vec()))]),
    ];
    for (what, entries) in cases {
        let failures = failures_of(|_| {
            let mut all = vec![("", Kind::Directory)];
            all.extend(entries.clone());
            (Vec::new(), block(&all))
        });
        assert!(failures.iter().any(|(path, _)| path == "a"), "{what}: {failures:?}");
    }
    for target in [&b".."[..], b"../x", b"/etc/passwd", b"a/../../x", b"", b"a\0"] {
        assert_refused("further", "index is damaged", |forge| {
            let raw = RawBlock::of(forge).directory(b"");
            (b"a".to_vec(), raw.entry(b"a", &Kind::Further(target.to_vec())).finish())
        });
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    let scene = Scene::new();
    let forge = Forge::begin(&scene, &key(7));
    let outside = scene.path("source");
    let link = Kind::Symlink(outside.as_os_str().as_encoded_bytes().to_vec());
    let file = Kind::File(forge.content(b"evil"));
    let entries = [("", Kind::Directory), ("l", link.clone()), ("l/x", file.clone())];
    forge.publish_block(b"", &block(&entries));
    let failures = failures(&scene);
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].0 == "l/x" && failures[0].1.contains("directory is not one"));
    assert!(fs::read_dir(outside).unwrap().next().is_none());

    // A link and a directory of the same name, in one block and in two.
    let scene = Scene::new();
    let forge = Forge::begin(&scene, &key(7));
    let first = forge.part(Purpose::Block, b"", &block(&entries[..2]));
    let raw = RawBlock::of(&forge).directory(b"").entry(b"l", &Kind::Directory);
    let raw = raw.directory(b"l").entry(b"x", &file).finish();
    let second = forge.part(Purpose::Block, b"l", &raw);
    forge.publish_blocks(&[first, second]);
    assert!(!self::failures(&scene).is_empty());
    assert!(fs::read_dir(scene.source()).unwrap().next().is_none());
}

/// Makes a content an impossible one.
type Change = fn(&mut Content);

#[test]
fn impossible_lengths_are_refused() {
    let with = |change: Change| {
        move |forge: &Forge<'_>| {
            let mut content = forge.content(b"abc");
            change(&mut content);
            let raw = RawBlock::of(forge).directory(b"");
            (b"f".to_vec(), raw.entry(b"f", &Kind::File(content)).finish())
        }
    };
    let changes: [(&str, Change); 9] = [
        ("a size of 2^63", |it| it.size = 1 << 63),
        ("a size of 2^64 - 1", |it| it.size = u64::MAX),
        ("a length of 2^63", |it| it.length = 1 << 63),
        ("sizes that fit", |it| (it.size, it.length) = (1 << 62, u64::MAX)),
        ("no length", |it| it.length = 0),
        ("an offset", |it| it.offset = 1),
        ("a large offset", |it| it.offset = u64::MAX),
        ("a size beyond the file", |it| it.size = 4),
        ("a length beyond the file", |it| it.length += 1),
    ];
    for (what, change) in changes {
        assert_refused(what, "", with(change));
    }
    // A long file that is not there takes neither time nor room.
    assert_refused(
        "a long file",
        "bytes, not",
        with(|it| {
            it.size = 1 << 45;
            let geometry = evener_format::Cobblestone::GEOMETRY;
            it.length =
                evener_format::Layout::for_plaintext(&geometry, it.size).unwrap().sealed_length();
        }),
    );
    assert_refused("a shorter size is padding", "", |forge| {
        let mut content = forge.content(b"abc");
        (content.size, content.tag) = (2, [0; 16]);
        (
            b"f".to_vec(),
            RawBlock::of(forge).directory(b"").entry(b"f", &Kind::File(content)).finish(),
        )
    });
}

#[test]
fn a_million_levels_are_refused_and_a_thousand_are_made() {
    assert_refused("2^20 levels", "index is damaged", |forge| {
        let path = vec![&b"a"[..]; 1 << 20].join(&b'/');
        let raw = RawBlock::of(forge).directory(&path);
        (b"x".to_vec(), raw.entry(b"x", &Kind::Directory).finish())
    });
    // As deep as a path may be, without the directories above it.
    assert_refused("2^16 levels", "directory is not one", |forge| {
        let path = vec![&b"a"[..]; 1 << 16].join(&b'/');
        let first = [&path[..], b"/x"].concat();
        let raw = RawBlock::of(forge).directory(&path);
        (first, raw.entry(b"x", &Kind::File(forge.content(b"x"))).finish())
    });
    // With them.
    let scene = Scene::new();
    let forge = Forge::begin(&scene, &key(7));
    let mut blocks: Vec<Reference> = Vec::new();
    let (mut path, mut raw, mut length) = (Vec::new(), RawBlock::of(&forge), 0);
    let mut first = Vec::new();
    let levels = 1000;
    for level in 0..levels {
        raw = raw.directory(&path).entry(b"a", &Kind::Directory);
        length += path.len();
        let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
        path.extend([slash, b"a"].concat());
        if length > 400_000 || level == levels - 1 {
            blocks.push(forge.part(Purpose::Block, &first, &raw.finish()));
            (raw, length) = (RawBlock::of(&forge), 0);
            first = [&path[..], b"/a"].concat();
        }
    }
    blocks[0].first.name = b"a".to_vec();
    forge.publish_blocks(&blocks);
    let failures = failures(&scene);
    assert!(failures.is_empty(), "{:?}", failures.iter().take(2).collect::<Vec<_>>());
}

#[test]
fn entries_out_of_order_over_borders_are_refused() {
    let file = |forge: &Forge<'_>| Kind::File(forge.content(b"f"));
    // The second block begins inside of the first one's range, at the same path, or before it.
    for second in ["b", "a", "0"] {
        let scene = Scene::new();
        let forge = Forge::begin(&scene, &key(7));
        let one = block(&[("", Kind::Directory), ("a", file(&forge)), ("c", file(&forge))]);
        let other = block(&[(second, file(&forge)), ("d", file(&forge))]);
        let one = forge.part(Purpose::Block, b"", &one);
        let other = forge.part(Purpose::Block, second.as_bytes(), &other);
        forge.publish_blocks(&[one, other]);
        let failures = failures(&scene);
        assert!(failures.iter().any(|(_, it)| it.contains("outside its range")), "{failures:?}");
    }
    // The reference gives another first path than the block has.
    for first in ["", "b", "0"] {
        let failures = failures_of(|forge| (first.into(), block(&[("a", file(forge))])));
        assert!(failures[0].1.contains("outside its range"), "{failures:?}");
    }
    // References out of order, and twice the same.
    let scene = Scene::new();
    let forge = Forge::begin(&scene, &key(7));
    let part = forge.part(Purpose::Block, b"a", &block(&[("a", file(&forge))]));
    let before = forge.part(Purpose::Block, b"0", &block(&[("0", file(&forge))]));
    for parts in [[&part, &part], [&part, &before]] {
        let mut raw = Vec::new();
        head(&mut raw, 4, 1);
        string(&mut raw, &forge.keys.commitment().0);
        parts.iter().for_each(|part| raw_reference(&mut raw, part));
        raw.push(0xF6);
        let node = forge.part(Purpose::Node, b"a", &raw);
        forge.publish(1, vec![node]);
        let failures = failures(&scene);
        assert!(failures[0].1.contains("references are out of order"), "{failures:?}");
    }
    // A root that names one node twice.
    let node = forge.part(Purpose::Node, b"a", &node(std::slice::from_ref(&part)));
    forge.publish(1, vec![node.clone(), node]);
    assert!(scene.refusal(&scene.with_key("b")).contains("references are out of order"));
}

fn raw_reference(bytes: &mut Vec<u8>, reference: &Reference) {
    head(bytes, 4, 7);
    string(bytes, &reference.first.directory);
    string(bytes, &reference.first.name);
    string(bytes, reference.name.bytes());
    head(bytes, 0, reference.length);
    string(bytes, &reference.digest);
    head(bytes, 0, 0);
    head(bytes, 0, reference.generation);
}

/// One block of a node or root under several paths: its range betrays it.
#[test]
fn a_part_that_is_named_twice_is_refused() {
    let scene = Scene::new();
    let forge = Forge::begin(&scene, &key(7));
    let one = forge.part(
        Purpose::Block,
        b"",
        &block(&[("", Kind::Directory), ("a", Kind::File(forge.content(b"f")))]),
    );
    let mut other = one.clone();
    other.first.name = b"b".to_vec();
    forge.publish_blocks(&[one, other]);
    let failures = failures(&scene);
    assert!(failures.iter().any(|(path, it)| path == "b" && it.contains("outside its range")));
}

#[test]
fn the_most_references_are_read_in_bounded_time() {
    let scene = Scene::new();
    let forge = Forge::begin(&scene, &key(7));
    let nodes = (0..1_u32 << 16).map(|number| Reference {
        first: evener_format::index::EntryPath::of(format!("{number:07}").as_bytes()),
        name: StorageName::new([3; 17]),
        length: 100,
        digest: [0; 32],
        key: forge.keys.commitment(),
        generation: 1,
    });
    let nodes: Vec<_> = nodes.collect();
    // A part of them is enough here: each costs as much.
    let most = 50_000;
    forge.publish(1, nodes[..most].to_vec());
    let failures = failures(&scene);
    assert_eq!(failures.len(), most, "{:?}", &failures[..2]);
    assert!(failures[0].1.contains("is missing"));
    // All of them, in a tree of which nobody wants anything.
    forge.publish(1, nodes);
    let mut run = scene.run.clone();
    run.transfer.selection = Selection::default().only(&["0050000"]).unwrap();
    let failures = scene.failures_with(&run, Operation::Decrypt, &scene.with_key("c"));
    assert!((1..3).contains(&failures.len()), "{failures:?}");
}

/// Of two entries with the same file, whole verification names the second. What is decrypted is
/// what the key's holder says.
#[test]
fn two_entries_with_one_file_are_found() {
    let scene = Scene::new();
    let forge = Forge::begin(&scene, &key(7));
    let content = Kind::File(forge.content(b"twice"));
    let again = content.clone();
    let other = Kind::File(forge.content(b"once"));
    let entries = [
        ("", Kind::Directory),
        ("a", content),
        ("b", other),
        ("d", Kind::Directory),
        ("d/c", again),
    ];
    forge.publish_block(b"", &block(&entries));
    let faults = scene.faults(&scene.with_key("b"));
    assert_eq!(faults.keys().collect::<Vec<_>>(), ["d/c"]);
    assert!(faults["d/c"].contains("is that of another entry too"), "{faults:?}");
}

#[test]
fn a_size_in_the_root_makes_verifying_read_again() {
    // 2^21 names are kept at once: so many entries would take two passes.
    let scene = Scene::new();
    let forge = Forge::begin(&scene, &key(7));
    let content = Kind::File(forge.content(b"twice"));
    let entries: Vec<_> = ["a", "b", "c", "d"].map(|name| (name, content.clone())).into();
    let block = forge.part(Purpose::Block, b"a", &block(&entries));
    let node = forge.part(Purpose::Node, b"a", &node(&[block]));
    for entries in [0, 3 << 21] {
        forge.publish_as(1, vec![node.clone()], None, |_, body| body.entries = entries);
        let mut faults = scene.faults(&scene.with_key("b"));
        let _ = fs::remove_dir_all(scene.path("state-b"));
        let size = faults.remove(scene.tree().to_str().unwrap()).unwrap();
        assert!(size.contains("the index has 4 entries"), "{size}");
        assert_eq!(faults.keys().collect::<Vec<_>>(), ["b", "c", "d"], "{faults:?}");
    }
}

/// A source whose index has several blocks.
fn many_blocks() -> Scene {
    let scene = Scene::new();
    for number in 0..3000 {
        scene.write(&format!("d{:02}/{number}", number % 30), b"");
    }
    scene.settle();
    scene.seal(&scene.with_key("a"));
    scene.copy("tree", "whole");
    scene
}

#[test]
fn a_damaged_block_costs_its_own_entries() {
    let scene = many_blocks();
    let forge = Forge::of(&scene, &key(7));
    let blocks = forge.blocks(1);
    assert!(blocks.len() > 2, "{}", blocks.len());
    let all = forge.entries(1).len();
    for block in &blocks {
        scene.copy("whole", "tree");
        let lost = forge.entries_of(block);
        let path = forge.path(block.name);
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        fs::write(&path, bytes).unwrap();
        let failures = scene.failures(&scene.with_key("b"));
        let first = match String::from_utf8(block.first.whole()).unwrap() {
            root if root.is_empty() => scene.tree().display().to_string(),
            first => first,
        };
        assert!(failures[&first].contains("damaged from here on"), "{failures:?}");
        // Entries whose directories were lost are named, and not taken.
        let orphans = |path: &&String| *path != &first;
        for path in failures.keys().filter(orphans) {
            assert!(failures[path].contains("directory is not one"), "{}", failures[path]);
            let above = path.rsplit_once('/').unwrap().0;
            assert!(lost.contains_key(above), "{path} {above}");
        }
        let out = scene.path("out");
        let there = if out.exists() { common::sealed::content(&out).len() } else { 0 };
        let failed = failures.keys().filter(orphans).count();
        // The root's own entry is there even if it was lost.
        let made = out.exists() && lost.contains_key("");
        assert_eq!(there, all - lost.len() - failed + usize::from(made), "{first}");
    }
}

/// Cuts each file of the index at each length.
#[test]
fn a_cut_index_is_an_error() {
    let scene = Scene::new();
    scene.write("x", &bytes(100));
    scene.settle();
    scene.seal(&scene.with_key("a"));
    let forge = Forge::of(&scene, &key(7));
    let (node, block) = (forge.body(1).nodes[0].name, forge.blocks(1)[0].name);
    let mut tried = 0;
    for path in [forge.root_path(1), forge.path(node), forge.path(block)] {
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let failures = scene.failures(&scene.with_key("b"));
            assert_eq!(failures.len(), 1, "{path:?} {length}: {failures:?}");
            tried += 1;
        }
        fs::write(&path, whole).unwrap();
    }
    scene.open("whole", &scene.with_key("b"));
    println!("cut at {tried} lengths");
}

/// The plaintext is cut and then sealed, so that nothing but its form tells.
#[test]
fn cut_plaintext_of_the_index_is_an_error() {
    let scene = Scene::new();
    let forge = Forge::begin(&scene, &key(7));
    let block = block(&[("", Kind::Directory), ("f", Kind::File(forge.content(b"abc")))]);
    for length in 0..block.len() {
        forge.publish_block(b"", &block[..length]);
        let _ = fs::remove_dir_all(scene.path("state-b"));
        let failures = scene.failures(&scene.with_key("b"));
        assert_eq!(failures.len(), 1, "{length}: {failures:?}");
    }
    let block = forge.part(Purpose::Block, b"", &block);
    let node = node(&[block]);
    for length in 0..node.len() {
        let part = forge.part(Purpose::Node, b"", &node[..length]);
        forge.publish(1, vec![part]);
        let _ = fs::remove_dir_all(scene.path("state-b"));
        let failures = scene.failures(&scene.with_key("b"));
        assert_eq!(failures.len(), 1, "{length}: {failures:?}");
    }
}
