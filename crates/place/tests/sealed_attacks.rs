//! Attacks on sealed trees by a store that has no key, and by others who lack what they need.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::bytes;
use common::forge::{Forge, block, node};
use common::sealed::{Scene, copy, key};
use evener_core::Key;
use evener_format::index::{Kind, Purpose, SignerKeys, TreeId, TreeKeys};
use evener_keys::age::{Identity, wrap};
use evener_keys::signing::OwnKey;
use evener_place::indexed::{self, At, SealedOptions, Trust};
use evener_place::{FileError, KeyRing, Local, Operation, RandomAccess, TreeOptions};

/// A tree with two generations: in the second, `x` has other content of the same length.
fn two_generations() -> Scene {
    let scene = Scene::new();
    for name in ["x", "y", "below/z"] {
        scene.write(name, &[bytes(50_000), name.as_bytes().to_vec()].concat()[name.len()..]);
    }
    scene.settle();
    scene.seal(&scene.with_key("a"));
    scene.copy("tree", "older");
    scene.copy("state-a", "older-state");
    scene.write("x", &[7; 50_000]);
    scene.settle();
    assert_eq!(scene.seal(&scene.with_key("a")).1.generation, 2);
    scene.copy("tree", "newer");
    scene
}

/// A file without which nothing works, in both of its forms.
fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn cut(path: &Path, length: u64) {
    fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn append(path: &Path, more: &[u8]) {
    fs::write(path, [fs::read(path).unwrap(), more.to_vec()].concat()).unwrap();
}

/// Exchanges two files.
fn swap(one: &Path, other: &Path) {
    let (first, second) = (fs::read(one).unwrap(), fs::read(other).unwrap());
    fs::write(one, second).unwrap();
    fs::write(other, first).unwrap();
}

/// Does something to the file of `x`, and expects these paths to fail and all else to be whole.
#[track_caller]
fn attack_file(what: &str, act: impl Fn(&Forge<'_>, &Path), failing: &[&str], reason: &str) {
    thread_local!(static SCENE: Scene = two_generations());
    SCENE.with(|scene| {
        scene.copy("newer", "tree");
        let forge = Forge::of(scene, &key(7));
        act(&forge, &forge.file(2, "x"));
        for failures in [scene.failures(&scene.with_key("b")), scene.faults(&scene.with_key("c"))] {
            assert_eq!(failures.keys().collect::<Vec<_>>(), failing, "{what}: {failures:?}");
            for error in failures.values() {
                assert!(error.contains(reason), "{what}: {error}");
            }
        }
        scene.assert_all_but(failing);
    });
}

const CHUNK: u64 = 16_384 + 16;

#[test]
fn a_changed_data_file_costs_itself_alone_and_is_named() {
    let exchanged = "exchanged";
    attack_file("swapped", |it, x| swap(x, &it.file(2, "y")), &["x", "y"], exchanged);
    attack_file(
        "swapped across directories",
        |it, x| swap(x, &it.file(2, "below/z")),
        &["below/z", "x"],
        exchanged,
    );
    let older = |it: &Forge<'_>, x: &Path| copy(&it.file(1, "x"), x);
    attack_file("an older version", older, &["x"], exchanged);
    attack_file(
        "another tree's file, under the same key",
        |_, x| {
            let other = two_generations();
            let forge = Forge::of(&other, &key(7));
            assert_eq!(fs::copy(forge.file(2, "x"), x).unwrap(), fs::metadata(x).unwrap().len());
        },
        &["x"],
        exchanged,
    );
    attack_file("removed", |_, x| fs::remove_file(x).unwrap(), &["x"], "is missing");
    attack_file(
        "renamed",
        |_, x| fs::rename(x, x.with_file_name("0".repeat(32))).unwrap(),
        &["x"],
        "is missing",
    );
    attack_file(
        "a directory",
        |_, x| {
            fs::remove_file(x).unwrap();
            fs::create_dir(x).unwrap();
        },
        &["x"],
        "",
    );
    for chunks in 0..4 {
        attack_file("cut", |_, x| cut(x, 56 + chunks * CHUNK), &["x"], "was cut");
    }
    attack_file("empty", |_, x| cut(x, 0), &["x"], "was cut");
    attack_file("a byte more", |_, x| append(x, &[0]), &["x"], "extended");
    attack_file("a chunk more", |_, x| append(x, &[9; CHUNK as usize]), &["x"], "extended");
    // The salt, the commitment, each chunk and tag, and the last byte.
    for at in [0, 23, 24, 55] {
        attack_file("flipped in the header", |_, x| flip(x, at), &["x"], "");
    }
    for at in [56, 20_000, 56 + 16_384, 40_000, 50_056] {
        attack_file("flipped", |_, x| flip(x, at), &["x"], "");
    }
    let last = 56 + 50_000 + 4 * 16 - 1;
    attack_file("flipped at the end", |_, x| flip(x, last), &["x"], exchanged);
}

#[test]
fn a_file_of_another_kind_is_none() {
    let parts = |it: &Forge<'_>| {
        let (root, node) = (it.root_path(2), it.path(it.body(2).nodes[0].name));
        [root, node, it.path(it.blocks(2)[0].name), it.file(2, "y")]
    };
    for number in 0..4 {
        let act = |it: &Forge<'_>, x: &Path| copy(&parts(it)[number], x);
        attack_file("of another kind", act, &["x"], "exchanged");
    }
    // In the place of a part of the index, nothing can be read.
    let scene = two_generations();
    let forge = Forge::of(&scene, &key(7));
    let parts = parts(&forge);
    for (place, there) in parts.iter().enumerate().take(3) {
        for other in parts.iter().filter(|other| *other != there) {
            scene.copy("newer", "tree");
            fs::copy(scene.path("newer").join(other.strip_prefix(scene.tree()).unwrap()), there)
                .unwrap();
            let failures = scene.failures(&scene.with_key("b"));
            assert_eq!(failures.len(), 1, "{place}: {failures:?}");
            assert!(!failures.contains_key("x") && !scene.path("out").join("x").exists());
        }
    }
}

/// Everything is as it should be, but a file was sealed for another purpose, generation or tree.
#[test]
fn purposes_generations_and_trees_are_apart() {
    let seal_as = |keys: &TreeKeys, scene: &Scene, purpose, generation, plain: &[u8]| {
        let other = Forge { scene, keys: keys.clone() };
        other.seal(purpose, generation, plain)
    };
    let mut tried = 0;
    for place in PURPOSES {
        for purpose in PURPOSES {
            for (generation, same_tree) in [(1, true), (2, true), (1, false)] {
                let scene = Scene::new();
                let forge = Forge::begin(&scene, &key(7));
                let tree = if same_tree { forge.keys.tree() } else { TreeId([1; 16]) };
                let keys = TreeKeys::new(&key(7), tree).unwrap();
                let is_right = purpose == place && generation == 1 && same_tree;
                let seal = |at: Purpose, plain: &[u8]| match at == place {
                    true => seal_as(&keys, &scene, purpose, generation, plain),
                    false => forge.seal(at, 1, plain),
                };
                let content = forge.stored_content(3, &seal(Purpose::Data, b"abc"));
                let block = block(&[("", Kind::Directory), ("f", Kind::File(content))]);
                let block = forge.stored_part(b"", &seal(Purpose::Block, &block));
                let node = forge.stored_part(b"", &seal(Purpose::Node, &node(&[block])));
                forge.publish(1, vec![node]);
                if place == Purpose::Root {
                    // The sealed part comes last.
                    let bytes = fs::read(forge.root_path(1)).unwrap();
                    let file = evener_format::index::RootFile::parse(&bytes, 1).unwrap();
                    let plain = forge.open(Purpose::Root, 1, file.sealed);
                    let sealed = seal(Purpose::Root, &plain);
                    let outer = &bytes[..bytes.len() - file.sealed.len()];
                    fs::write(forge.root_path(1), [outer, &sealed].concat()).unwrap();
                }
                let failures = scene.failures(&scene.with_key("b"));
                let what = format!("{purpose:?} {generation} {same_tree} as {place:?}");
                assert_eq!(failures.is_empty(), is_right, "{what}: {failures:?}");
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 48);
}

#[test]
fn a_changed_index_is_refused() {
    let scene = two_generations();
    let forge = Forge::of(&scene, &key(7));
    let node = forge.path(forge.body(2).nodes[0].name);
    let block = forge.path(forge.blocks(2)[0].name);
    let before = forge.path(forge.blocks(1)[0].name);
    type Act = fn(&Path, &Path);
    let acts: [(&str, Act); 5] = [
        ("removed", |path, _| fs::remove_file(path).unwrap()),
        ("flipped", |path, _| flip(path, 70)),
        ("cut", |path, _| cut(path, 71)),
        ("longer", |path, _| append(path, &[0])),
        ("exchanged", |path, other| copy(other, path)),
    ];
    for (what, act) in acts {
        for (path, other) in [(&node, &block), (&block, &before), (&block, &node)] {
            scene.copy("newer", "tree");
            act(path, other);
            for failures in
                [scene.failures(&scene.with_key("b")), scene.faults(&scene.with_key("b"))]
            {
                let error = failures.values().next().unwrap();
                assert!(error.contains("index is damaged from here on"), "{what}: {error}");
                let name = path.strip_prefix(scene.tree()).unwrap().to_str().unwrap();
                assert!(error.contains(name), "{what}: {error}");
            }
        }
    }
    // Each byte of the newest root counts.
    scene.copy("newer", "tree");
    let length = fs::metadata(forge.root_path(2)).unwrap().len() as usize;
    for at in (0..length).step_by(7).chain([length - 1]) {
        scene.copy("newer", "tree");
        flip(&forge.root_path(2), at);
        for machine in ["c", "a"] {
            let error = scene.refusal(&scene.with_key(machine));
            // A root that names another key seems to be of another tree.
            let is_told = error.contains("0000002") || error.contains("there is no key");
            assert!(is_told, "{at}: {error}");
        }
        assert!(!scene.path("state-c").exists() || !scene.path("refused").exists());
    }
}

/// A reader that has seen generation 2.
fn who_has_seen(scene: &Scene) -> SealedOptions {
    let seen = scene.with_key("seen");
    scene.open("seen", &seen);
    seen
}

#[test]
fn older_and_forked_roots_are_refused_by_whom_has_seen_newer_ones() {
    let scene = two_generations();
    let forge = Forge::of(&scene, &key(7));
    let (seen, new) = (who_has_seen(&scene), |name: &str| scene.with_key(name));

    // The older root under the name of the newest.
    fs::copy(forge.root_path(1), forge.root_path(2)).unwrap();
    assert!(scene.refusal(&seen).contains("is no valid root"));
    assert!(scene.refusal(&new("d")).contains("is no valid root"));

    // The newest root is removed, alone or with all that belongs to it.
    scene.copy("newer", "tree");
    fs::remove_file(forge.root_path(2)).unwrap();
    let error = scene.refusal(&seen);
    assert!(error.contains("generation 2 is missing") && error.contains("rolled back"), "{error}");
    fs::remove_file(forge.root_path(1)).unwrap();
    assert!(scene.refusal(&seen).contains("rolled back"));
    scene.copy("older", "tree");
    assert!(scene.refusal(&seen).contains("rolled back"));
    // The writer too.
    let error = scene.try_seal(&new("a")).unwrap_err().to_string();
    assert!(error.contains("rolled back"), "{error}");
    // Freshness at first contact is not promised.
    assert_eq!(scene.open("first", &new("e")).number, 1);
    // It is accepted once.
    let trust = Trust { rollback: true, ..Trust::default() };
    assert_eq!(scene.open("back", &SealedOptions { trust, ..seen.clone() }).number, 1);

    // The first root is removed: the chain is broken for whom begins.
    scene.copy("newer", "tree");
    fs::remove_file(forge.root_path(1)).unwrap();
    assert!(scene.refusal(&new("f")).contains("generation 1 is missing"));
}

#[test]
fn a_fork_names_both_roots() {
    let scene = two_generations();
    let (seen, forge) = (who_has_seen(&scene), Forge::of(&scene, &key(7)));
    let expected = forge_digest(&forge, 2);
    // Another generation 2, on a copy by a machine whose state was copied too.
    scene.copy("older", "tree");
    scene.copy("older-state", "state-a");
    scene.write("x", b"another branch");
    scene.settle();
    assert_eq!(scene.seal(&scene.with_key("a")).1.generation, 2);
    let error = scene.refusal(&seen);
    let there = forge_digest(&forge, 2);
    assert!(there != expected && error.contains(&there) && error.contains(&expected), "{error}");
    assert!(error.contains("forked"), "{error}");
    // The fork goes on beyond what was seen.
    scene.write("x", b"another branch, longer");
    scene.settle();
    assert_eq!(scene.seal(&scene.with_key("a")).1.generation, 3);
    let error = scene.refusal(&seen);
    assert!(error.contains(&there) && error.contains(&expected), "{error}");
    // Both mixed: the third root does not follow the second.
    copy(&scene.path("newer/tree").join("0000000000000000002"), &forge.root_path(2));
    for options in [&seen, &scene.with_key("g")] {
        let error = scene.refusal(options);
        assert!(error.contains("generation 2 is"), "{error}");
    }
}

fn forge_digest(forge: &Forge<'_>, number: u64) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(fs::read(forge.root_path(number)).unwrap());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_large_number_leads_nowhere() {
    let scene = two_generations();
    let forge = Forge::of(&scene, &key(7));
    let seen = who_has_seen(&scene);
    let newest = fs::read(forge.root_path(2)).unwrap();
    let numbers = [5, 1000, 1 << 62, (1 << 62) + 1, i64::MAX as u64, 1 << 63, u64::MAX];
    for number in numbers {
        for bytes in [&newest[..], b"", b"evener-root-v1\n", b"junk"] {
            scene.copy("newer", "tree");
            fs::write(forge.root_path(number), bytes).unwrap();
            let name = format!("first-{number}");
            for options in [&seen, &scene.with_key(&name)] {
                let _ = fs::remove_dir_all(scene.path("out"));
                let info = scene.open("out", options);
                assert_eq!((info.number, info.beyond), (2, vec![number]));
            }
            // A writer takes the next number.
            scene.write("new", format!("{number} {}", bytes.len()).as_bytes());
            scene.settle();
            copy(&scene.path("older-state"), &scene.path("state-w"));
            assert_eq!(scene.seal(&scene.with_key("w")).1.generation, 3);
            assert_eq!(scene.open("three", &scene.with_key("h")).number, 3);
            fs::remove_dir_all(scene.path("three")).unwrap();
            for state in ["state-w", "state-h"] {
                fs::remove_dir_all(scene.path(state)).unwrap();
            }
            fs::remove_file(scene.source().join("new")).unwrap();
        }
    }
}

#[test]
fn junk_under_the_next_number_is_passed_over_by_writers_and_named_to_readers() {
    let scene = two_generations();
    let forge = Forge::of(&scene, &key(7));
    let root_2 = fs::read(forge.root_path(2)).unwrap();
    let mut flipped = root_2.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for junk in [&b""[..], b"junk", b"evener-root-v1\n\x83", &root_2, &flipped] {
        for (writer, has_changes) in [("a", false), ("a", true), ("none", false), ("none", true)] {
            scene.copy("newer", "tree");
            scene.copy("older-state", "state-a");
            fs::write(forge.root_path(3), junk).unwrap();
            let error = scene.refusal(&scene.with_key("reader"));
            assert!(error.contains("3` is no valid root"), "{error}");
            assert!(error.contains("--generation 2"), "{error}");
            if has_changes {
                scene.write("new", b"new");
                scene.settle();
            }
            let (_, made) = scene.seal(&scene.with_key(writer));
            assert_eq!((made.generation, made.is_new), (4, true));
            let _ = fs::remove_dir_all(scene.path("out"));
            assert_eq!(scene.open("out", &scene.with_key("reader")).number, 4);
            scene.assert_same("out");
            let _ = fs::remove_file(scene.source().join("new"));
            for state in ["state-reader", "state-none"] {
                let _ = fs::remove_dir_all(scene.path(state));
            }
        }
    }
}

#[test]
fn a_tree_of_another_id_is_refused_by_whom_has_seen_the_first() {
    let (scene, other) = (two_generations(), two_generations());
    let seen = who_has_seen(&scene);
    copy(&other.tree(), &scene.tree());
    let error = scene.refusal(&seen);
    assert!(error.contains("has seen the tree"), "{error}");
    let error = scene.try_seal(&scene.with_key("a")).unwrap_err().to_string();
    assert!(error.contains("has seen the tree"), "{error}");
    // Its marker alone, or everything but its marker.
    scene.copy("newer", "tree");
    copy(&other.tree().join("evener-tree-v1"), &scene.tree().join("evener-tree-v1"));
    assert!(!scene.refusal(&seen).is_empty() && !scene.refusal(&scene.with_key("i")).is_empty());
    copy(&other.tree(), &scene.tree());
    let marker = scene.path("newer/evener-tree-v1");
    copy(&marker, &scene.tree().join("evener-tree-v1"));
    assert!(!scene.refusal(&seen).is_empty() && !scene.refusal(&scene.with_key("i")).is_empty());
    // Damaged markers.
    let id = fs::read_to_string(marker).unwrap();
    for marker in ["", "evener-tree-v1", "evener-tree-v2 0\n", &id[..20], &id.to_uppercase()] {
        fs::write(scene.tree().join("evener-tree-v1"), marker).unwrap();
        assert!(scene.refusal(&seen).contains("is damaged"));
        let error = scene.try_seal(&scene.with_key("a")).unwrap_err().to_string();
        assert!(error.contains("is damaged"), "{error}");
    }
}

#[test]
fn a_restored_state_is_brought_up_to_date() {
    let scene = two_generations();
    // The state of the writer is from before generation 2.
    scene.copy("older-state", "state-a");
    scene.write("y", b"changed");
    scene.settle();
    let (_, made) = scene.seal(&scene.with_key("a"));
    assert_eq!(made.generation, 3);
    let _ = fs::remove_dir_all(scene.path("out"));
    scene.open("out", &scene.with_key("b"));
    scene.assert_same("out");
    assert!(scene.faults(&scene.with_key("b")).is_empty());
    // Tree and state are both old: nothing shows it, and nothing breaks.
    scene.copy("older", "tree");
    scene.copy("older-state", "state-a");
    assert_eq!(scene.seal(&scene.with_key("a")).1.generation, 2);
    assert!(scene.faults(&scene.with_key("j")).is_empty());
}

#[test]
fn mixed_generations_fail_where_files_are_missing() {
    let scene = two_generations();
    let data = |from: &str| {
        let (from, to) = (scene.path(from).join("data"), scene.tree().join("data"));
        copy(&from, &to);
    };
    // New roots with the data of before: the index is missing.
    data("older");
    let failures = scene.failures(&scene.with_key("b"));
    assert_eq!(failures.len(), 1);
    assert!(failures.values().all(|error| error.contains("is missing")), "{failures:?}");
    // Old roots with new data are the old generation.
    scene.copy("older", "tree");
    data("newer");
    assert_eq!(scene.open("old", &scene.with_key("c")).number, 1);
}

#[test]
fn earlier_generations_are_read_by_the_chain_alone() {
    let scene = two_generations();
    let forge = Forge::of(&scene, &key(7));
    let at = SealedOptions { at: At::Number(1), ..scene.with_key("b") };
    assert_eq!(scene.open("first", &at).number, 1);
    flip(&forge.root_path(1), 60);
    let error = scene.refusal(&at);
    assert!(error.contains("generation 1"), "{error}");
}

#[test]
fn junk_does_no_harm() {
    let scene = two_generations();
    let sealed = scene.with_key("a");
    let junk = [
        "tree/junk",
        "tree/1",
        "tree/0000000000000000000",
        "tree/00000000000000000003",
        "tree/.0000000000000000003",
        "tree/+000000000000000003",
        "keys/junk",
        "keys/junk.1",
        "keys/00000000000000000000000000000000.1",
        "writers/junk",
        "data/junk",
        "data/00/junk",
        "data/00/00/junk",
        "junk",
        ".junk",
        "keys/00000000000000000000000000000000.x",
    ];
    for name in junk {
        let path = scene.tree().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "junk").unwrap();
    }
    for name in ["tree/dir", "keys/dir", "writers/dir", "data/dir"] {
        fs::create_dir(scene.tree().join(name)).unwrap();
    }
    std::os::unix::fs::symlink("/dev/zero", scene.tree().join("keys/link.1")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", scene.tree().join("tree/link")).unwrap();
    scene.open("out", &scene.with_key("b"));
    scene.assert_same("out");
    scene.write("x", b"third");
    scene.settle();
    assert_eq!(scene.seal(&sealed).1.generation, 3);
    assert_eq!(scene.open("three", &scene.with_key("b")).number, 3);
    assert!(scene.faults(&scene.with_key("c")).is_empty());
}

/// A tree that is signed, since it was made for a recipient, and whoever can read it.
struct Signed {
    scene: Scene,
    identity: Identity,
}

impl Signed {
    fn new() -> Signed {
        let (scene, identity) = (Scene::new(), Identity::generate());
        scene.write("x", &bytes(50_000));
        scene.write("y", &bytes(50_000));
        scene.settle();
        let signed = Signed { scene, identity };
        signed.scene.seal(&signed.writer());
        signed.scene.copy("tree", "newer");
        signed
    }

    fn writer(&self) -> SealedOptions {
        self.scene.with_recipient(&self.identity, "a")
    }

    fn reader(&self, machine: &str) -> SealedOptions {
        self.scene.with_identity(&self.identity, machine)
    }

    /// A reader that has seen the tree.
    fn seen(&self) -> SealedOptions {
        let seen = self.reader("seen");
        let _ = fs::remove_dir_all(self.scene.path("seen"));
        self.scene.open("seen", &seen);
        seen
    }

    /// A reader that was told who signs.
    fn told(&self) -> SealedOptions {
        let own = OwnKey::load(&state_file(&self.scene.path("state-a"), "key")).unwrap();
        let trust = Trust { signers: Some(vec![own.public()]), ..Trust::default() };
        let machine = format!("told-{}", rand());
        SealedOptions { trust, ..self.reader(&machine) }
    }

    /// Somebody who has the tree's only recipient makes a key, and wraps it into the tree.
    fn forger(&self) -> (Forge<'_>, Key) {
        let bytes: Vec<u8> = (0..4).flat_map(|_| rand().to_le_bytes()).collect();
        let key = Key::new(&bytes).unwrap();
        let forge = Forge::of(&self.scene, &key);
        let text = evener_keys::KeyMaterial::Cobblestone {
            suite: evener_keys::CobblestoneSuite::Aes256Gcm,
            key: key.clone(),
        };
        let recipient = self.identity.recipient().unwrap();
        let wrapped = wrap(text.to_text().as_bytes(), &[recipient]).unwrap();
        let name = format!("keys/{}.1", forge.keys.commitment().id());
        fs::write(self.scene.tree().join(name), wrapped).unwrap();
        (forge, key)
    }
}

fn state_file(state: &Path, name: &str) -> PathBuf {
    let place = fs::read_dir(state).unwrap().next().unwrap().unwrap().path();
    place.join(name)
}

fn rand() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

/// The forger's own content under the path of a genuine file.
fn forged_nodes(forge: &Forge<'_>) -> Vec<evener_format::index::Reference> {
    let content = forge.content(b"forged");
    let block = block(&[("", Kind::Directory), ("x", Kind::File(content))]);
    let block = forge.part(Purpose::Block, b"", &block);
    vec![forge.part(Purpose::Node, b"", &node(&[block]))]
}

#[test]
fn a_forger_with_the_recipients_makes_no_generation() {
    let own = OwnKey::generate().unwrap();
    for number in [1, 2] {
        for (what, signer) in [("unsigned", None), ("signed by another", Some(&own))] {
            let tree = Signed::new();
            let (seen, told) = (tree.seen(), tree.told());
            let (forge, _) = tree.forger();
            forge.publish_as(number, forged_nodes(&forge), signer, |_, body| {
                if let Some(signer) = signer {
                    let key = signer.public().wire().to_vec();
                    body.signers = vec![SignerKeys { key, chain: signer.chain_key() }];
                }
            });
            for reader in [&seen, &told] {
                let error = tree.scene.refusal(reader);
                let expected = ["exchanged", "signed"];
                assert!(expected.iter().any(|it| error.contains(it)), "{what} {number}: {error}");
            }
            // An unsigned tree with a wrapped key is taken only when that is asked for, and none after
            // a signed root.
            let trust = Trust { unsigned: true, ..Trust::default() };
            let reader = SealedOptions { trust, ..tree.reader("new") };
            match (signer, number) {
                (None, 1) => {
                    let error = tree.scene.refusal(&tree.reader("new"));
                    assert!(error.contains("--unsigned"), "{error}");
                    assert_eq!(tree.scene.open("forged", &reader).number, number);
                }
                (_, 2) => {
                    let error = tree.scene.refusal(&reader);
                    assert!(error.contains("signed"), "{what} {number}: {error}");
                }
                _ => {}
            }
            // The writer goes on from its own generation, or says what is wrong; its next one has
            // nothing of the forger's.
            tree.scene.write("y", b"changed");
            tree.scene.settle();
            match tree.scene.try_seal(&tree.writer()) {
                Ok((_, made)) => {
                    assert_eq!((number, made.generation), (2, 3), "{what}");
                    tree.scene.open("out", &seen);
                    tree.scene.assert_same("out");
                }
                Err(error) => {
                    assert_eq!(number, 1, "{what}: {error}");
                    assert!(error.to_string().contains("generation 1 is"), "{error}");
                }
            }
        }
    }
}

#[test]
fn forged_signatures_do_not_count() {
    type Change = fn(&[u8]) -> Vec<u8>;
    let changes: [(&str, Change); 5] = [
        ("another namespace", |signature| {
            replaced(signature, b"evener-tree-v1", b"evener-tree-v2")
        }),
        ("empty", |_| Vec::new()),
        ("cut", |signature| signature[..signature.len() - 1].to_vec()),
        ("longer", |signature| [signature, &[0]].concat()),
        ("flipped", |signature| {
            let mut flipped = signature.to_vec();
            *flipped.last_mut().unwrap() ^= 1;
            flipped
        }),
    ];
    let tree = Signed::new();
    let own = OwnKey::load(&state_file(&tree.scene.path("state-a"), "key")).unwrap();
    let (forge, key) = tree.forger();
    let genuine = genuine_body(&tree);
    for (what, change) in changes {
        // The body is signed by the right key, so that the signature's form alone decides.
        let mut claim = forge.claim(1);
        claim.key = forge.keys.commitment().id();
        claim.number = 2;
        let mut body = genuine.clone();
        claim.policy = body.policy();
        use sha2::{Digest, Sha256};
        claim.before = Some(Sha256::digest(fs::read(forge.root_path(1)).unwrap()).into());
        let claim_bytes = claim.bytes();
        body.claim = Sha256::digest(&claim_bytes).into();
        let body = body.bytes();
        let signature = change(&own.sign(&body));
        let plain = evener_format::index::Root::write(&body, &[signature], None).unwrap();
        let sealed = forge.seal(Purpose::Root, 2, &plain);
        let signed = evener_format::index::Claim::signed(&claim_bytes, &sealed);
        let chain = (own.chain_key(), own.sign_chain(&signed));
        let chain = Some((&chain.0, &chain.1));
        let root = evener_format::index::RootFile::write(&claim_bytes, chain, &sealed);
        fs::write(forge.root_path(2), root).unwrap();
        let error = tree.scene.refusal(&tree.told());
        assert!(error.contains("is no valid root"), "{what}: {error}");
        let error = tree.scene.refusal(&tree.reader(&format!("new-{what}")));
        assert!(error.contains("is no valid root"), "{what}: {error}");
    }
    drop(key);
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}

/// The body of the first root, opened with the key that is wrapped for the identity.
fn genuine_body(tree: &Signed) -> evener_format::index::Body {
    genuine(tree).body(1)
}

/// Somebody who has opened the tree's first key.
fn genuine(tree: &Signed) -> Forge<'_> {
    let id = Forge::of(&tree.scene, &key(7)).claim(1).key;
    let wrapped = fs::read(tree.scene.tree().join(format!("keys/{id}.1"))).unwrap();
    let file = evener_keys::KeyFile::read_from(&mut &*wrapped, "the key").unwrap();
    match file.open(&vec![tree.identity.clone()]).unwrap() {
        evener_keys::KeyMaterial::Cobblestone { key, .. } => Forge::of(&tree.scene, &key),
        evener_keys::KeyMaterial::Tink(_) => panic!(),
    }
}

/// A reader of the tree also has its keys. It signs with none that may.
#[test]
fn a_reader_moves_no_entries_and_seals_no_other_content() {
    let tree = Signed::new();
    let own = OwnKey::generate().unwrap();
    let (seen, told) = (tree.seen(), tree.told());
    let forge = genuine(&tree);
    // Genuine entries under each other's paths.
    let (x, y) = (forge.content_of(1, "x"), forge.content_of(1, "y"));
    let moved = block(&[("", Kind::Directory), ("x", Kind::File(y)), ("y", Kind::File(x))]);
    let moved = forge.part(Purpose::Block, b"", &moved);
    let nodes = vec![forge.part(Purpose::Node, b"", &node(&[moved]))];
    let genuine = forge.body(1);
    for (what, signer) in [("unsigned", None), ("its own signature", Some(&own))] {
        // The signers are those of before.
        forge.publish_as(2, nodes.clone(), signer, |_, body| {
            body.signers.clone_from(&genuine.signers);
        });
        for reader in [&seen, &told] {
            let error = tree.scene.refusal(reader);
            assert!(error.contains("signed"), "{what}: {error}");
        }
    }
    // With a changed outer part, the genuine root is none.
    tree.scene.copy("newer", "tree");
    let bytes = fs::read(forge.root_path(1)).unwrap();
    let file = evener_format::index::RootFile::parse(&bytes, 1).unwrap();
    let mut claim = file.claim.clone();
    claim.cutoff += 1;
    let signed = evener_format::index::Claim::signed(&claim.bytes(), file.sealed);
    let chain = (own.chain_key(), own.sign_chain(&signed));
    for chain in [None, file.chain, Some(chain)] {
        let chain = chain.as_ref().map(|(key, it)| (key, it));
        let root = evener_format::index::RootFile::write(&claim.bytes(), chain, file.sealed);
        fs::write(forge.root_path(1), root).unwrap();
        assert!(!tree.scene.refusal(&tree.reader("new")).is_empty());
        assert!(!tree.scene.refusal(&seen).is_empty());
    }
}

/// Reads a file as `cat` does. Returns its length.
fn read_in_order(tree: &Signed, name: &str) -> Result<usize, FileError> {
    let run = &tree.scene.run.run;
    let origin = Local::new(tree.scene.tree(), &TreeOptions::default());
    let opened = indexed::open_files(&origin, run, &tree.reader("b"), &[name.into()]);
    let (mut blobs, _) = opened.unwrap();
    // The blob brings its own key.
    let ring = KeyRing::new(genuine(tree).keys.recipe(Purpose::Data, 1).unwrap());
    let file = RandomAccess::of(blobs.remove(0), &ring, run.seats[0].clone())?;
    let (mut buffer, mut at) = (vec![0; 10_000], 0);
    loop {
        match file.read_at(&mut buffer, at as u64)? {
            0 => return Ok(at),
            read => at += read,
        }
    }
}

/// The chunk that is exchanged leaves header, length and last tag as they are.
#[test]
fn the_hash_in_a_signed_entry_stops_other_holders_of_the_key() {
    let tree = Signed::new();
    let forge = genuine(&tree);
    let content = forge.content_of(1, "x");
    forge.reseal_first_chunk(&content, &[9; 16_384]);
    for memory in [tree.scene.run.run.memory, 4 * (20 << 10)] {
        let mut scene_run = tree.scene.run.clone();
        scene_run.run.memory = memory;
        let (decrypted, verified) = (
            tree.scene.failures_with(&scene_run, Operation::Decrypt, &tree.reader("b")),
            tree.scene.failures_with(&scene_run, Operation::Verify, &tree.reader("b")),
        );
        for failures in [decrypted, verified] {
            assert_eq!(failures.keys().collect::<Vec<_>>(), ["x"], "{failures:?}");
            assert!(failures["x"].contains("sealed it again"), "{failures:?}");
        }
        tree.scene.assert_all_but(&["x"]);
    }
    assert_eq!(read_in_order(&tree, "y").unwrap(), 50_000);
    let told = read_in_order(&tree, "x").unwrap_err().to_string();
    assert!(told.contains("sealed it again"), "{told}");
    // An unsigned tree has no hash: nothing is promised, but the content is that of the key's holder.
    let scene = two_generations();
    let forge = Forge::of(&scene, &key(7));
    assert_eq!(forge.content_of(2, "x").hash, None);
}

#[test]
fn added_and_exchanged_keys_do_no_harm() {
    let tree = Signed::new();
    let id = Forge::of(&tree.scene, &key(7)).claim(1).key;
    let (_, _) = tree.forger();
    let foreign = fs::read_dir(tree.scene.tree().join("keys")).unwrap();
    let foreign = foreign.map(|entry| entry.unwrap().path());
    let foreign = foreign.into_iter().find(|it| !it.to_str().unwrap().contains(&id.to_string()));
    let foreign = fs::read(foreign.unwrap()).unwrap();
    // Another key under the name of this one, later than the genuine one: it is not believed.
    fs::write(tree.scene.tree().join(format!("keys/{id}.2")), &foreign).unwrap();
    fs::write(tree.scene.tree().join(format!("keys/{id}.3")), "junk").unwrap();
    fs::write(tree.scene.tree().join(format!("keys/{id}.18446744073709551615")), "").unwrap();
    tree.scene.open("out", &tree.reader("b"));
    tree.scene.assert_same("out");
    // In its place.
    fs::write(tree.scene.tree().join(format!("keys/{id}.1")), &foreign).unwrap();
    let error = tree.scene.refusal(&tree.reader("b"));
    assert!(error.contains("holds another key than its name says"), "{error}");
    fs::remove_dir_all(tree.scene.tree().join("keys")).unwrap();
    let error = tree.scene.refusal(&tree.reader("b"));
    assert!(error.contains("has no wrapped key"), "{error}");
}

/// The reader has both, a key and an identity; its tree was sealed with the key.
#[test]
fn a_forger_continues_no_unsigned_tree() {
    let tree = Signed::new();
    fs::remove_dir_all(tree.scene.tree()).unwrap();
    tree.scene.seal(&tree.scene.with_key("w"));
    fs::create_dir(tree.scene.tree().join("keys")).unwrap();
    let mut reader = tree.reader("both");
    reader.keychain.keys.push(key(7));
    assert_eq!(tree.scene.open("both", &reader).number, 1);
    let (forge, _) = tree.forger();
    forge.publish(2, forged_nodes(&forge));
    let error = tree.scene.refusal(&reader);
    assert!(error.contains("is not sealed with the key"), "{error}");
    let signers = Some(vec![OwnKey::generate().unwrap().public()]);
    let trust = Trust { signers, unsigned: true, ..Trust::default() };
    let error = tree.scene.refusal(&SealedOptions { trust, ..reader });
    assert!(error.contains("is not sealed with the key"), "{error}");
}

const PURPOSES: [Purpose; 4] = [Purpose::Root, Purpose::Node, Purpose::Block, Purpose::Data];
