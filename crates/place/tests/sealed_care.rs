//! Tests what one does with sealed trees besides sealing and opening them.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::bytes;
use common::sealed::{Scene, key};
use evener_keys::age::{Identity, wrap};
use evener_place::indexed::{
    self, At, Change, CleanOptions, Cleaned, Depth, Later, SealedOptions, SignerChange, Wrap,
};
use evener_place::{FileError, Local, Selection, TreeOptions};

/// A tree of three generations.
fn grown(sealed: &dyn Fn(&Scene) -> SealedOptions) -> Scene {
    let scene = Scene::new();
    for number in 0..40 {
        scene.write(&format!("{}/{number}", number % 4), &bytes(1000 + number));
    }
    scene.settle();
    let options = sealed(&scene);
    scene.seal(&options);
    scene.write("1/1", b"changed");
    scene.settle();
    scene.seal(&options);
    fs::remove_file(scene.source().join("2/2")).unwrap();
    scene.write("new", b"new");
    scene.settle();
    assert_eq!(scene.seal(&options).1.generation, 3);
    scene
}

fn local(scene: &Scene) -> Local {
    Local::new(scene.tree(), &TreeOptions::default())
}

#[test]
fn parts_of_a_tree_are_listed() {
    let scene = grown(&|scene| scene.with_key("a"));
    let sealed = scene.with_key("b");
    let list = |paths: &[&str], depth, at| {
        let selection = Selection::default().only(paths).unwrap();
        let sealed = SealedOptions { at, ..sealed.clone() };
        let mut found = Vec::new();
        let tree = local(&scene);
        indexed::list(&tree, &scene.run.run, &selection, depth, &sealed, &mut |entry| {
            found.push(entry.unwrap().path.to_str().unwrap().to_owned());
            true
        })
        .unwrap();
        found
    };
    assert_eq!(list(&[], Depth::One, At::Newest), ["", "0", "1", "2", "3", "new"]);
    assert_eq!(list(&["2"], Depth::One, At::Newest).len(), 10);
    assert_eq!(list(&["2"], Depth::One, At::Number(2)).len(), 11);
    assert_eq!(list(&["1/1"], Depth::All, At::Newest), ["1/1"]);
    assert_eq!(list(&[], Depth::All, At::Newest).len(), 45);
}

#[test]
fn generations_are_compared() {
    let scene = grown(&|scene| scene.with_key("a"));
    let sealed = SealedOptions { at: At::Number(1), ..scene.with_key("a") };
    let source = Local::new(scene.source(), &TreeOptions::default());
    for later in [Later::Generation(At::Newest), Later::Place(&source)] {
        let mut found = Vec::new();
        let (tree, all) = (local(&scene), Selection::default());
        indexed::diff(&tree, later, &scene.run.run, &all, &sealed, &mut |difference| {
            found.push((difference.path.to_str().unwrap().to_owned(), difference.change));
            true
        })
        .unwrap();
        let expected = [
            ("", Change::Metadata),
            ("new", Change::Added),
            ("1/1", Change::Content),
            ("2/2", Change::Removed),
        ];
        found.retain(|(path, change)| path != "2" || *change != Change::Metadata);
        assert_eq!(found, expected.map(|(path, change)| (path.to_owned(), change)));
    }
}

#[test]
fn quick_verification_finds_exchanged_files() {
    let scene = grown(&|scene| scene.with_key("a"));
    let sealed = scene.with_key("a");
    let verify = || {
        let (tree, run) = (local(&scene), &scene.run);
        let verified = indexed::verify_quickly(&tree, &run.run, &run.transfer, &sealed);
        match verified {
            Ok((report, _)) => report,
            Err(error) => error.into_report().unwrap(),
        }
    };
    assert_eq!((verify().files, verify().failures.len()), (40, 0));
    let stored = stored(&scene, "0/4");
    let mut content = fs::read(&stored).unwrap();
    let last = content.len() - 1;
    content[last] ^= 1;
    fs::write(&stored, &content).unwrap();
    let failures = verify().failures;
    assert!(failures.len() == 1 && failures[0].path.ends_with("0/4"), "{failures:?}");
    fs::remove_file(&stored).unwrap();
    assert!(verify().failures[0].error.to_string().contains("missing"));
}

#[test]
fn a_sample_is_verified() {
    let scene = grown(&|scene| scene.with_key("a"));
    let sealed = scene.with_key("a");
    let verify = |files| {
        let (tree, run) = (local(&scene), &scene.run);
        let verified = indexed::verify_sample(&tree, &run.run, &run.transfer, &sealed, files);
        match verified {
            Ok((report, _)) => report,
            Err(error) => error.into_report().unwrap(),
        }
    };
    let report = verify(7);
    assert!(report.is_success() && report.files == 7, "{:?}", report.failures);
    assert!(report.notices[0].reason.contains("7 of 40"), "{:?}", report.notices);
    let stored = stored(&scene, "0/4");
    let mut content = fs::read(&stored).unwrap();
    content[100] ^= 1;
    fs::write(&stored, content).unwrap();
    assert_eq!(verify(40).failures.len(), 1);
}

/// The progress of each operation ends at its total.
#[test]
fn totals_are_those_of_the_index() {
    let scene = grown(&|scene| scene.with_key("a"));
    std::fs::hard_link(scene.source().join("0/4"), scene.source().join("0/linked")).unwrap();
    scene.settle();
    scene.seal(&scene.with_key("a"));
    let sealed = scene.with_key("a");
    let check = |files, work: &dyn Fn(&common::Options, &Local)| {
        let options = scene.run.clone().with(|it| it.run.control = Arc::default());
        let control = options.run.control.clone();
        control.want_total();
        work(&options, &local(&scene));
        let progress = control.progress();
        assert_eq!(control.total(), Some((progress.done_files, progress.done_bytes)));
        assert!(progress.done_files == files && progress.done_bytes > 0, "{progress:?}");
    };
    check(7, &|it, tree| {
        drop(indexed::verify_sample(tree, &it.run, &it.transfer, &sealed, 7).unwrap());
    });
    check(40, &|it, tree| {
        drop(indexed::verify_quickly(tree, &it.run, &it.transfer, &sealed).unwrap());
    });
    check(41, &|it, tree| {
        drop(indexed::rekey(tree, &it.run, &it.transfer, &sealed, Some(&key(8))).unwrap());
    });
}

/// The file that stores an entry.
fn stored(scene: &Scene, path: &str) -> PathBuf {
    let selection = Selection::default().only(&[path]).unwrap();
    let (tree, mut found) = (local(scene), None);
    let sealed = scene.with_key("a");
    indexed::list(&tree, &scene.run.run, &selection, Depth::One, &sealed, &mut |entry| {
        found = entry.unwrap().stored.or(found.take());
        true
    })
    .unwrap();
    scene.tree().join(found.unwrap().0)
}

fn clean(scene: &Scene, keep: u64, sealed: &SealedOptions) -> Result<Cleaned, FileError> {
    let options = CleanOptions { keep, ..CleanOptions::default() };
    indexed::clean(&local(scene), &scene.run.run, sealed, &options)
}

/// Makes all files of the tree as old as two days.
fn age(scene: &Scene) {
    let then = SystemTime::now() - Duration::from_secs(2 * 24 * 60 * 60);
    let mut left = vec![scene.tree()];
    while let Some(path) = left.pop() {
        match path.is_dir() {
            true => left.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path())),
            false => {
                fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap()
            }
        }
    }
}

#[test]
fn cleaning_removes_what_only_old_generations_need() {
    let scene = grown(&|scene| scene.with_key("a"));
    let sealed = scene.with_key("a");
    // Young files are spared, and where nothing goes, there is no generation.
    let cleaned = clean(&scene, 5, &sealed).unwrap();
    assert_eq!((cleaned.files, cleaned.generation, cleaned.kept.len()), (0, None, 3));
    age(&scene);
    let cleaned = clean(&scene, 1, &sealed).unwrap();
    assert_eq!((cleaned.generation, cleaned.removed), (Some(4), vec![1, 2]));
    // Two data files, and blocks and nodes of two generations.
    assert_eq!(cleaned.files, 2 + 2 * 2);
    scene.open("out", &sealed);
    scene.assert_same("out");
    let old = SealedOptions { at: At::Number(2), ..sealed.clone() };
    assert!(scene.refusal(&old).contains("generation 2 was removed"));
    scene.write("more", b"more");
    assert_eq!(scene.seal(&sealed).1.generation, 5);
    assert!(scene.verify(&sealed).unwrap().is_success());
}

#[test]
fn nothing_is_removed_where_a_kept_generation_is_damaged() {
    let scene = grown(&|scene| scene.with_key("a"));
    let sealed = scene.with_key("a");
    age(&scene);
    let before = common::sealed::content(&scene.tree()).len();
    // Blocks and nodes are the only files of other lengths.
    let damage = |path: PathBuf| {
        let mut content = fs::read(&path).unwrap();
        content[70] ^= 1;
        fs::write(&path, content).unwrap();
    };
    let tree = common::sealed::content(&scene.tree());
    let is_index = |bytes: &Vec<u8>| bytes.len() > 1200 && bytes.len() < 1 << 20;
    for (path, (_, _, bytes)) in tree {
        if path.starts_with("data") && is_index(&bytes) {
            damage(scene.tree().join(path));
        }
    }
    let error = clean(&scene, 1, &sealed).unwrap_err().to_string();
    assert!(error.contains("nothing is removed"), "{error}");
    assert_eq!(common::sealed::content(&scene.tree()).len(), before);
}

#[test]
fn signers_come_and_go() {
    let identity = Identity::generate();
    let scene = grown(&|scene| scene.with_recipient(&identity, "a"));
    let (a, b) = (scene.with_recipient(&identity, "a"), scene.with_recipient(&identity, "b"));
    let reads = |machine| scene.with_identity(&identity, machine);
    let signs = |machine| SealedOptions { keychain: reads("").keychain, ..machine };
    let error = match scene.try_seal(&signs(b.clone())) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("b may not sign"),
    };
    assert!(error.contains("may not sign"), "{error}");
    scene.open("first", &reads("reader"));
    let own = indexed::own_signer(&local(&scene), &b).unwrap();
    let line = own.to_line();
    assert_eq!(indexed::TreeSigner::from_line(&line).unwrap(), own);
    let change = SignerChange { add: vec![own.clone()], ..SignerChange::default() };
    let number =
        indexed::change_signers(&local(&scene), &scene.run.run, &change, &signs(a.clone()))
            .unwrap();
    assert_eq!(number, 4);
    // A writer who can't read goes on from the chain, once it knows the signers.
    scene.write("of b", b"of b");
    scene.settle();
    assert_eq!(scene.seal(&signs(b.clone())).1.generation, 5);
    scene.open("second", &reads("reader"));
    scene.assert_same("second");
    // What b made after generation 4 is passed over.
    let revoke = SignerChange { revoke: vec![(own.key.clone(), 4)], ..SignerChange::default() };
    let number =
        indexed::change_signers(&local(&scene), &scene.run.run, &revoke, &signs(a.clone()))
            .unwrap();
    assert_eq!(number, 6);
    assert!(scene.refusal(&reads("reader")).contains("generation 5"));
    let info = scene.open("third", &reads("another"));
    assert_eq!(info.number, 6);
    assert!(!scene.path("third/of b").exists());
    assert!(scene.try_seal(&signs(b)).is_err());
    let (signers, revoked, _) =
        indexed::signers(&local(&scene), &scene.run.run, &reads("another")).unwrap();
    assert_eq!((signers.len(), revoked), (1, vec![(own.key, 4)]));
}

#[test]
fn keys_are_wrapped_for_others() {
    let (identity, other) = (Identity::generate(), Identity::generate());
    let scene = grown(&|scene| scene.with_recipient(&identity, "a"));
    let recipients = [identity.recipient().unwrap(), other.recipient().unwrap()];
    let wrap: Wrap = Arc::new(move |text| Ok(wrap(text, &recipients).unwrap()));
    let sealed = scene.with_identity(&identity, "b");
    let rewrapped = indexed::rewrap(&local(&scene), &scene.run.run, &wrap, false, &sealed).unwrap();
    assert_eq!((rewrapped.keys, rewrapped.removed, rewrapped.unchecked), (3, 3, 0));
    for identity in [&identity, &other] {
        scene.open(&format!("{identity:p}"), &scene.with_identity(identity, "c"));
        let old = SealedOptions { at: At::Number(1), ..scene.with_identity(identity, "c") };
        scene.open(&format!("{identity:p} of old"), &old);
    }
    let stranger = scene.with_identity(&Identity::generate(), "d");
    assert!(scene.try_open("none", &stranger).is_err());
}

#[test]
fn a_new_key_takes_the_place_of_the_old_one() {
    let scene = grown(&|scene| scene.with_key("a"));
    let old = scene.with_key("a");
    let mut new = scene.with_key("a");
    new.keychain.keys = vec![key(8)];
    let (tree, run) = (local(&scene), &scene.run);
    let (report, made) =
        indexed::rekey(&tree, &run.run, &run.transfer, &old, Some(&key(8))).unwrap();
    assert_eq!((report.files, made.generation), (40, 4));
    scene.open("out", &new);
    scene.assert_same("out");
    assert!(scene.try_open("none", &old).is_err());
    // Both keys open the generations before.
    new.keychain.keys.push(key(7));
    scene.open("before", &SealedOptions { at: At::Number(3), ..new.clone() });
    // The old key seals no generation.
    let again = indexed::rekey(&tree, &run.run, &run.transfer, &new, Some(&key(7)));
    assert!(again.unwrap_err().to_string().contains("has had"));
    assert!(scene.try_seal(&old).is_err());
    new.keychain.keys.truncate(1);
    scene.write("later", b"later");
    assert_eq!(scene.seal(&new).1.generation, 5);
}

#[test]
fn a_state_that_others_may_change_is_refused() {
    let scene = Scene::new();
    scene.write("a", b"a");
    scene.settle();
    scene.seal(&scene.with_key("a"));
    let state = fs::read_dir(scene.path("state-a")).unwrap().next().unwrap().unwrap().path();
    let pin = state.join("pin.json");
    fs::set_permissions(&pin, fs::Permissions::from_mode(0o620)).unwrap();
    let told = scene.refusal(&scene.with_key("a"));
    assert!(told.contains("pin.json") && told.contains("others may write to it"), "{told}");
    fs::set_permissions(&pin, fs::Permissions::from_mode(0o600)).unwrap();
    scene.open("out", &scene.with_key("a"));
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&pin, Some(12_345), None).unwrap();
        let told = scene.refusal(&scene.with_key("a"));
        assert!(told.contains("belongs to another user"), "{told}");
    }
}
