//! New keys and other recipients for plain trees, files, and pipes that were stored.

mod common;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use common::{Ended, Fixture, RECIPIENT};

/// Makes the file `name`, an identity, and returns its recipient.
fn identity(fixture: &Fixture, name: &str) -> String {
    use age::secrecy::ExposeSecret as _;
    let identity = age::x25519::Identity::generate();
    fixture.secret(name, identity.to_string().expose_secret());
    identity.to_public().to_string()
}

/// A fixture with `sealed`, whose key is wrapped for `identity`, and the recipient of `other`.
fn wrapped() -> (Fixture, String) {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-q", "-r", RECIPIENT, "tree", "sealed"]);
    let other = identity(&fixture, "other");
    (fixture, other)
}

fn verifies(fixture: &Fixture, identity: &str, path: &str) -> bool {
    fixture.run(&["verify", "-q", "-i", identity, path]).status == Some(0)
}

/// The content of every file below a directory.
fn content(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        match fs::symlink_metadata(&path).unwrap() {
            found if found.is_dir() => {
                left.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            }
            found if found.is_file() => {
                let below = path.strip_prefix(directory).unwrap().to_owned();
                files.insert(below, fs::read(&path).unwrap());
            }
            _ => {}
        }
    }
    files
}

#[test]
fn a_tree_gets_other_recipients() {
    let (fixture, other) = wrapped();
    let before = content(&fixture.path("sealed/deep"));
    let rewrap = ["rewrap", "-r", &other, "-i", "identity", "-i", "other", "sealed"];
    let told = fixture.expect(0, &rewrap).messages;
    assert!(told.ends_with(": 1 key wrapped for these recipients; 1 old wrapping removed\n"));
    assert_eq!(fixture.names("sealed"), ["deep", "evener-key-2.age", "one.enc"]);
    assert_eq!(content(&fixture.path("sealed/deep")), before);
    assert!(verifies(&fixture, "other", "sealed") && !verifies(&fixture, "identity", "sealed"));
    // It is still this user's key for this place.
    fs::write(fixture.path("tree/new"), "new").unwrap();
    let update = ["encrypt", "-r", &other, "-i", "other", "--update", "tree", "sealed"];
    assert!(fixture.expect(0, &update).messages.contains("evener-key-2.age, which you made"));
    // Both recipients.
    let both = ["rewrap", "-r", &other, "-r", RECIPIENT, "-i", "other", "--json", "sealed"];
    let document = fixture.expect(0, &both).document();
    assert_eq!((&document["keys"], &document["removed"]), (&1.into(), &1.into()));
    assert!(verifies(&fixture, "other", "sealed") && verifies(&fixture, "identity", "sealed"));
}

#[test]
fn an_unchecked_wrapping_replaces_none() {
    let (fixture, other) = wrapped();
    let rewrap = ["rewrap", "-r", &other, "-i", "identity", "sealed"];
    let told = fixture.expect(0, &rewrap).messages;
    assert!(told.contains("--trust-unopened"), "{told}");
    assert!(verifies(&fixture, "other", "sealed") && verifies(&fixture, "identity", "sealed"));
    let trusting = ["rewrap", "-r", &other, "-i", "identity", "--trust-unopened", "sealed"];
    let told = fixture.expect(0, &trusting).messages;
    assert!(told.contains("nothing given opens 1 other wrapped keys, which stay"), "{told}");
    assert!(verifies(&fixture, "other", "sealed") && !verifies(&fixture, "identity", "sealed"));
}

#[test]
fn what_has_no_wrapped_key_is_refused() {
    let (fixture, other) = wrapped();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "keyed"]);
    fs::create_dir(fixture.path("empty")).unwrap();
    let refused = |status, path: &str, words: &str| {
        let rewrap = ["rewrap", "-r", &other, "-i", "identity", path];
        let told = fixture.expect(status, &rewrap).messages;
        assert!(told.contains(words), "{path}: {told}");
    };
    refused(2, "keyed", "has no wrapped key (evener-key.age)");
    refused(2, "keyed/one.enc", "has no wrapped key at its head or beside it");
    refused(2, "empty", "has no wrapped key (evener-key.age)");
    refused(2, "nowhere", "can't open it");
    // A new key needs files that are encrypted.
    for (status, path, words) in [
        (2, "tree", "if they are not encrypted yet, `evener encrypt` does that"),
        (2, "tree/one", "if it is not encrypted yet, `evener encrypt` does that"),
    ] {
        let told = fixture.expect(status, &["rekey", "-r", &other, "-i", "identity", path]);
        assert!(told.messages.contains(words), "{path}: {told:?}");
    }
    fixture.expect(0, &["keygen", "-o", "new.key"]);
    let told = fixture.expect(1, &["rekey", "-k", "my.key", "--new-key", "new.key", "tree"]);
    assert!(
        told.messages.contains("no file that the key given opens; `evener encrypt`"),
        "{told:?}"
    );
    let told = fixture.expect(2, &["rewrap", "-r", &other, "-k", "my.key", "sealed"]).messages;
    assert!(told.contains("--key names a key that lies elsewhere"), "{told}");
    let told = fixture.expect(2, &["rewrap", "-r", &other, "-i", "other", "sealed"]).messages;
    assert!(told.contains("no identity given opens"), "{told}");
    let told = fixture.expect(2, &["rewrap", "-i", "identity", "sealed"]).messages;
    assert!(told.contains("no recipient"), "{told}");
    let unsigned = ["rewrap", "--unsigned", "-r", &other, "-i", "identity", "sealed"];
    assert!(fixture.expect(2, &unsigned).messages.contains("is for sealed trees"));
    assert_eq!(fixture.names("sealed"), ["deep", "evener-key.age", "one.enc"]);
}

#[test]
fn a_planted_key_is_wrapped_and_stays_doubtful() {
    let (fixture, other) = wrapped();
    fixture.expect(0, &["keygen", "-r", RECIPIENT, "-o", "sealed/evener-key-7.age"]);
    let rewrap = ["rewrap", "-r", &other, "-i", "identity", "-i", "other", "sealed"];
    fixture.expect(0, &rewrap);
    assert_eq!(
        fixture.names("sealed"),
        ["deep", "evener-key-2.age", "evener-key-3.age", "one.enc"]
    );
    fs::write(fixture.path("tree/new"), "new").unwrap();
    let update = ["encrypt", "-r", &other, "-i", "other", "--update", "tree", "sealed"];
    let told = fixture.expect(0, &update).messages;
    assert!(told.contains("evener-key-2.age, which you made before"), "{told}");
}

#[test]
fn a_stored_pipe_gets_another_head() {
    let (fixture, other) = wrapped();
    let line = format!("$evener encrypt -r {RECIPIENT} - - <tree/deep/two >pipe");
    assert_eq!(fixture.shell(&line).status, Some(0));
    fs::set_permissions(fixture.path("pipe"), fs::Permissions::from_mode(0o640)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(fixture.path("pipe")).unwrap().set_modified(time).unwrap();
    // As a filter.
    let both = format!("-r {other} -i identity -i other");
    let filtered = fixture.shell(&format!("$evener rewrap {both} - <pipe >filtered"));
    assert_eq!(filtered.status, Some(0), "{filtered:?}");
    // Nothing opens the new one.
    let before = fs::read(fixture.path("pipe")).unwrap();
    let refused = fixture.expect(2, &["rewrap", "-r", &other, "-i", "identity", "pipe"]).messages;
    assert!(refused.contains("--trust-unopened"), "{refused}");
    assert_eq!(fs::read(fixture.path("pipe")).unwrap(), before);
    // In its place.
    fixture.expect(0, &["rewrap", "-r", &other, "-i", "identity", "-i", "other", "pipe"]);
    let found = fs::metadata(fixture.path("pipe")).unwrap();
    assert_eq!((found.mode() & 0o777, found.modified().unwrap()), (0o640, time));
    for name in ["pipe", "filtered"] {
        assert!(verifies(&fixture, "other", name) && !verifies(&fixture, "identity", name));
        let opened = fixture.expect(0, &["decrypt", "-q", "-i", "other", name, "-"]).output;
        assert_eq!(opened, fs::read(fixture.path("tree/deep/two")).unwrap());
    }
    // A new key: for recipients, and none at the head.
    let both = ["-i", "identity", "-i", "other"];
    let told = fixture.expect(0, &[&["rekey", "-r", RECIPIENT], &both[..], &["pipe"]].concat());
    assert!(told.messages.starts_with("evener: rekeyed 1 file, "), "{told:?}");
    assert!(verifies(&fixture, "identity", "pipe") && !verifies(&fixture, "other", "pipe"));
    fixture.expect(0, &["rekey", "--new-key", "my.key", "-i", "identity", "pipe"]);
    let found = fs::metadata(fixture.path("pipe")).unwrap();
    assert_eq!((found.mode() & 0o777, found.modified().unwrap()), (0o640, time));
    let opened = fixture.expect(0, &["decrypt", "-q", "-k", "my.key", "pipe", "-"]).output;
    assert_eq!(opened, fs::read(fixture.path("tree/deep/two")).unwrap());
    for arguments in [&["rekey", "-k", "my.key", "-r", RECIPIENT, "-"][..], &["rewrap", "-"]] {
        fixture.expect(2, arguments);
    }
}

#[test]
fn age_files_get_other_recipients() {
    let (fixture, other) = wrapped();
    let encrypt = ["encrypt", "-q", "--format", "age", "-r", RECIPIENT, "tree", "aged"];
    fixture.expect(0, &encrypt);
    fs::write(fixture.path("aged/notes"), "plain").unwrap();
    let both = ["-r", &other, "-i", "identity", "-i", "other"];
    // One that nobody opens, and one that is damaged.
    let two = fixture.path("aged/deep/two.age");
    let whole = fs::read(&two).unwrap();
    let before = fs::read(fixture.path("aged/one.age")).unwrap();
    fs::write(&two, &whole[..100]).unwrap();
    let unchecked = ["rewrap", "-r", &other, "-i", "identity", "aged/one.age"];
    assert!(fixture.expect(2, &unchecked).messages.contains("--trust-unopened"));
    assert!(fs::read(fixture.path("aged/one.age")).unwrap() == before);
    let ended = fixture.expect(1, &[&["rewrap", "--json"], &both[..], &["aged"]].concat());
    let document = ended.document();
    assert_eq!((&document["keys"], &document["removed"]), (&1.into(), &1.into()));
    assert_eq!(document["failures"][0]["path"], "aged/deep/two.age");
    assert!(fs::read(&two).unwrap() == whole[..100]);
    fs::write(&two, &whole).unwrap();
    let told = fixture.expect(0, &[&["rewrap"], &both[..], &["aged/deep/two.age"]].concat());
    assert!(told.messages.ends_with("; 1 old wrapping removed\n"), "{told:?}");
    assert!(verifies(&fixture, "other", "aged") && !verifies(&fixture, "identity", "aged"));
    fs::remove_file(fixture.path("aged/notes")).unwrap();
    fixture.expect(0, &["decrypt", "-q", "-i", "other", "aged", "restored"]);
    fixture.assert_same_tree("tree", "restored");
    // As a filter, and armoured.
    let back = format!("-r {RECIPIENT} -i identity -i other");
    let line = format!("$evener rewrap {back} - <aged/deep/two.age >two.age");
    assert_eq!(fixture.shell(&line).status, Some(0));
    let opened = fixture.expect(0, &["decrypt", "-q", "-i", "identity", "two.age", "-"]).output;
    assert_eq!(opened, fs::read(fixture.path("tree/deep/two")).unwrap());
    let line = format!("$evener encrypt -q --format age -a -r {RECIPIENT} tree/one text.age");
    assert_eq!(fixture.shell(&line).status, Some(0));
    let armoured = fixture.expect(2, &[&["rewrap"], &both[..], &["text.age"]].concat());
    assert!(armoured.messages.contains("is in ASCII armour"), "{armoured:?}");
    let rekey = fixture.expect(2, &[&["rekey"], &both[..], &["aged"]].concat());
    assert!(rekey.messages.contains("`evener rewrap` changes its recipients"), "{rekey:?}");
}

#[test]
fn a_tree_gets_a_fresh_key() {
    let (fixture, other) = wrapped();
    let deep = fixture.path("sealed/deep");
    fs::hard_link(deep.join("two.enc"), deep.join("three.enc")).unwrap();
    symlink("two.enc", deep.join("link.enc")).unwrap();
    let odd = deep.join(OsString::from_vec(b"odd-\xff\n.enc".to_vec()));
    fs::copy(deep.join("two.enc"), &odd).unwrap();
    // Whatever the old key opens is sealed anew, and nothing else.
    fs::copy(deep.join("two.enc"), deep.join("two.other")).unwrap();
    fs::write(deep.join("notes"), "plain").unwrap();
    fs::write(deep.join("notes.txt"), [7; 500]).unwrap();
    fs::set_permissions(&odd, fs::Permissions::from_mode(0o604)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for path in [&odd, &deep] {
        fs::File::open(path).unwrap().set_modified(time).unwrap();
    }
    let number = |path: &Path| fs::metadata(path).unwrap().ino();
    let before = [odd.clone(), deep.join("two.enc")].map(|path| number(&path));

    let rekey = ["rekey", "-r", &other, "-i", "identity", "-i", "other"];
    let planned = fixture.expect(0, &[&rekey[..], &["-n", "sealed"]].concat()).messages;
    assert!(planned.contains("would rekey 4 files") && planned.contains("2 left out"), "{planned}");
    assert!(verifies(&fixture, "identity", "sealed"));
    let told = fixture.expect(0, &[&rekey[..], &["sealed"]].concat()).messages;
    assert!(told.contains("rekeyed 4 files") && told.contains("2 left out"), "{told}");

    assert_eq!(fixture.names("sealed"), ["deep", "evener-key-2.age", "one.enc"]);
    assert!(verifies(&fixture, "other", "sealed") && !verifies(&fixture, "identity", "sealed"));
    let found = fs::metadata(&odd).unwrap();
    assert_eq!((found.mode() & 0o777, found.modified().unwrap()), (0o604, time));
    assert_eq!(fs::metadata(&deep).unwrap().modified().unwrap(), time);
    assert_eq!(number(&deep.join("two.enc")), number(&deep.join("three.enc")));
    assert_ne!(before, [odd, deep.join("two.enc")].map(|path| number(&path)));
    assert_eq!(fs::read_link(deep.join("link.enc")).unwrap(), Path::new("two.enc"));
    assert_eq!(fs::read(deep.join("notes")).unwrap(), b"plain");
    let key = ["-k", "sealed/evener-key-2.age", "-i", "other", "sealed/deep/two.other", "-"];
    let opened = fixture.expect(0, &[&["decrypt", "-q"], &key[..]].concat()).output;
    assert_eq!(opened, fs::read(fixture.path("tree/deep/two")).unwrap());

    // The same recipients once more, another key, and back to recipients.
    let again = ["rekey", "-r", &other, "-i", "other", "sealed"];
    assert!(fixture.expect(0, &again).messages.contains("rekeyed 4 files"));
    assert_eq!(fixture.names("sealed"), ["deep", "evener-key.age", "one.enc"]);
    fixture.expect(0, &["rekey", "--new-key", "my.key", "-i", "other", "sealed"]);
    assert_eq!(fixture.names("sealed"), ["deep", "one.enc"]);
    fixture.expect(0, &["verify", "-k", "my.key", "sealed"]);
    let same = ["rekey", "--new-key", "my.key", "-k", "my.key", "sealed"];
    assert!(fixture.expect(2, &same).messages.contains("have already"));
    fixture.expect(0, &["rekey", "-k", "my.key", "-r", &other, "-i", "other", "sealed"]);
    assert!(verifies(&fixture, "other", "sealed"));
    // It is this user's key for this place.
    fs::write(fixture.path("tree/new"), "new").unwrap();
    let update = ["encrypt", "-r", &other, "-i", "other", "--update", "tree", "sealed"];
    assert!(fixture.expect(0, &update).messages.contains("evener-key.age, which you made"));
}

#[test]
fn a_file_gets_a_fresh_key() {
    let (fixture, other) = wrapped();
    fixture.expect(0, &["encrypt", "-q", "-r", RECIPIENT, "tree/one", "one.enc"]);
    let both = ["-r", &other, "-i", "identity", "-i", "other"];
    fixture.expect(0, &[&["rewrap"], &both[..], &["one.enc"]].concat());
    assert!(fixture.path("one.enc.evener-key-2.age").exists());
    let document = fixture.expect(0, &[&["rekey", "--json"], &both[..], &["one.enc"]].concat());
    assert_eq!(document.document()["files"], 1);
    assert!(fixture.path("one.enc.evener-key.age").exists());
    assert!(!fixture.path("one.enc.evener-key-2.age").exists());
    assert!(verifies(&fixture, "other", "one.enc") && !verifies(&fixture, "identity", "one.enc"));
    // A file of a tree has the tree's key, and goes with the tree, unless that is named.
    let one = "sealed/deep/../one.enc";
    let told = fixture.expect(2, &[&["rekey"], &both[..], &[one]].concat()).messages;
    assert!(told.contains("if it belongs to a tree, name that"), "{told}");
    let named = ["-k", "sealed/evener-key.age", one];
    fixture.expect(0, &[&["rekey"], &both[..], &named].concat());
    assert!(fixture.path("sealed/evener-key.age").exists());
    assert!(verifies(&fixture, "other", "sealed/one.enc"));
    assert!(!verifies(&fixture, "identity", "sealed/one.enc"));
}

#[test]
fn nothing_is_sealed_under_a_key_that_others_put_there() {
    let (fixture, other) = wrapped();
    // A key of somebody else's for the new recipients, and a file under it.
    fixture.expect(0, &["keygen", "-r", &other, "-o", "sealed/evener-key-2.age"]);
    let planted = ["-k", "sealed/evener-key-2.age", "-i", "other"];
    fixture
        .expect(0, &[&["encrypt", "-q"], &planted[..], &["tree/one", "sealed/evil.enc"]].concat());
    let rekey = ["rekey", "-r", &other, "-i", "identity", "-i", "other", "sealed"];
    let told = fixture.expect(1, &rekey).messages;
    assert!(told.contains("1 wrapped keys are not used"), "{told}");
    assert!(told.contains("sealed/evil.enc: "), "{told}");
    // The files have a key that is not the planted one, and both old keys are still there.
    assert_eq!(
        fixture.names("sealed"),
        ["deep", "evener-key-2.age", "evener-key-3.age", "evener-key.age", "evil.enc", "one.enc"]
    );
    let mut verify = vec!["verify", "-q"];
    verify.extend(planted);
    assert_ne!(fixture.run(&[&verify[..], &["sealed/one.enc"]].concat()).status, Some(0));
    // Without the file, the run ends, and removes only what was this user's.
    fs::remove_file(fixture.path("sealed/evil.enc")).unwrap();
    let told = fixture.expect(0, &rekey).messages;
    assert!(told.contains("goes on with the key in sealed/evener-key-3.age"), "{told}");
    assert!(told.contains("rekeyed 0 files") && told.contains("2 under the new key"), "{told}");
    assert_eq!(
        fixture.names("sealed"),
        ["deep", "evener-key-2.age", "evener-key-3.age", "one.enc"]
    );
    // Where nothing shows whose they are, two keys are one too many.
    let verify = ["verify", "-q", "-k", "sealed/evener-key-3.age", "-i", "other", "sealed"];
    fixture.expect(0, &verify);
    let elsewhere = |arguments: &[&str]| {
        Ended::of(fixture.command(arguments).env("XDG_STATE_HOME", fixture.path("elsewhere")))
    };
    let rekey = ["rekey", "--new-key", "my.key", "-i", "other"];
    let refused = elsewhere(&[&rekey[..], &["sealed"]].concat());
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.messages.contains("has several wrapped keys"), "{refused:?}");
    let named = elsewhere(&[&rekey[..], &["-k", "sealed/evener-key-3.age", "sealed"]].concat());
    assert_eq!(named.status, Some(0), "{named:?}");
    assert_eq!(fixture.names("sealed"), ["deep", "evener-key-2.age", "one.enc"]);
    fixture.expect(0, &["verify", "-q", "-k", "my.key", "sealed"]);
}

#[test]
fn files_that_fail_stay_as_they_are() {
    let (fixture, other) = wrapped();
    let rekey = ["rekey", "-r", &other, "-i", "identity", "-i", "other", "sealed"];
    let two = fixture.path("sealed/deep/two.enc");
    let whole = fs::read(&two).unwrap();
    let mut damaged = whole.clone();
    damaged[200_000] ^= 1;
    for (bytes, words) in [
        (&damaged[..], "was changed"),
        (&whole[..whole.len() - 1], "sealed/deep/two.enc: "),
        (&whole[..60], "sealed/deep/two.enc: "),
        (b"", "sealed/deep/two.enc: "),
        (&[9; 1000], "wrong key or wrong context"),
    ] {
        fs::write(&two, bytes).unwrap();
        let ended = fixture.expect(1, &rekey);
        assert!(ended.messages.contains(words), "{words}: {}", ended.messages);
        assert_eq!(fs::read(&two).unwrap(), bytes);
        assert!(fixture.path("sealed/evener-key.age").exists());
        let names = fixture.names("sealed/deep");
        assert_eq!(names, ["two.enc"]);
    }
    fs::write(&two, &whole).unwrap();
    let told = fixture.expect(0, &rekey).messages;
    assert!(told.contains("rekeyed 1 file, ") && told.contains("; 1 under the new key"), "{told}");
    assert!(verifies(&fixture, "other", "sealed"));
    assert!(!fixture.path("sealed/evener-key.age").exists());
    // A wrong key, and one that nothing opens.
    fixture.expect(0, &["keygen", "-o", "wrong.key"]);
    fixture.expect(2, &["rekey", "--new-key", "my.key", "-k", "wrong.key", "sealed"]);
    let closed = ["rekey", "--new-key", "my.key", "-i", "identity", "sealed"];
    assert!(fixture.expect(2, &closed).messages.contains("no identity given opens"));
    let unopened = ["rekey", "-r", RECIPIENT, "-i", "other", "sealed"];
    assert!(fixture.expect(2, &unopened).messages.contains("--trust-unopened"));
    fixture.expect(2, &["rekey", "-i", "other", "sealed"]);
    fixture.expect(2, &["rekey", "--new-key", "my.key", "-i", "other", "--unsigned", "sealed"]);
    fs::create_dir(fixture.path("empty")).unwrap();
    let nothing = fixture.expect(1, &["rekey", "--new-key", "wrong.key", "-k", "my.key", "empty"]);
    assert!(nothing.messages.contains("nothing was rekeyed"), "{nothing:?}");
    assert!(verifies(&fixture, "other", "sealed"));
}

#[test]
fn a_key_in_use_stays() {
    let (fixture, other) = wrapped();
    let key = fs::File::open(fixture.path("sealed/evener-key.age")).unwrap();
    key.lock_shared().unwrap();
    let rekey = ["rekey", "-r", &other, "-i", "identity", "-i", "other", "sealed"];
    let told = fixture.expect(0, &rekey).messages;
    assert!(told.contains("stays, because another run uses it"), "{told}");
    assert!(fixture.path("sealed/evener-key.age").exists());
}

#[test]
fn an_interrupted_run_needs_what_opens_its_key() {
    let (fixture, other) = wrapped();
    fs::write(fixture.path("sealed/bad.enc"), [9; 1000]).unwrap();
    let trusting = ["rekey", "-r", &other, "-i", "identity", "--trust-unopened", "sealed"];
    fixture.expect(1, &trusting);
    let told = fixture.expect(2, &trusting).messages;
    assert!(told.contains("an earlier run for these recipients was interrupted"), "{told}");
    fs::remove_file(fixture.path("sealed/bad.enc")).unwrap();
    // Without the other identity, another new key can't open what has the first.
    fixture.expect(2, &["rekey", "--new-key", "my.key", "-i", "identity", "sealed"]);
    fixture.expect(0, &["rekey", "-r", &other, "-i", "identity", "-i", "other", "sealed"]);
    assert!(verifies(&fixture, "other", "sealed"));
}

#[test]
fn a_full_disk_and_a_read_only_directory_lose_nothing() {
    let (fixture, other) = wrapped();
    let mount = "mkdir -p full && mount -t tmpfs -o size=900k none full && cp -r sealed full/";
    if fixture.shell(&format!("unshare -rm sh -c '{mount}'")).status != Some(0) {
        evener_core::skipped!("a full file system: none can be mounted here");
        return;
    }
    let both = format!("-r {other} -i identity -i other full/sealed");
    let full = "head -c 1000000 /dev/zero >full/rest";
    // The key fits, and the longer file does not.
    let nearly = format!("head -c 20000 /dev/zero >full/room; {full}; rm full/room");
    for (change, fill, status) in [("rewrap", full, 2), ("rekey", full, 2), ("rekey", &nearly, 1)] {
        let check = "$evener verify -q -i identity -i other full/sealed";
        let line = format!(
            "{mount} && {fill}; $evener {change} {both}; test $? = {status} || exit 9; \
             {check} || exit 8; rm full/rest; $evener {change} {both} || exit 7; {check} || exit 6; \
             mount -o remount,ro full; $evener {change} {both} && exit 5; {check}"
        );
        let ended = fixture.shell(&format!("unshare -rm sh -c '{line}'"));
        assert_eq!(ended.status, Some(0), "{change}: {ended:?}");
        assert!(ended.messages.contains("No space left on device"), "{ended:?}");
        assert!(ended.messages.contains("Read-only file system"), "{ended:?}");
    }
}

/// Kills a command so many times, and checks that everything opens with one of the identities, also
/// after another run.
fn kill_often(change: &str, prepare: &str, path: &str, rounds: u32) {
    let (fixture, other) = wrapped();
    for number in 0..60_u8 {
        fs::write(fixture.path(&format!("tree/{number}")), vec![number; 20_000]).unwrap();
    }
    let prepare = prepare.replace("RECIPIENT", RECIPIENT);
    let line = format!("rm -rf sealed* piped* one.enc*; {prepare}");
    let run = || {
        let mut command = fixture.command(&[change, "-q", "-r", &other, "-i", "identity", "-i"]);
        command.args(["other", path]).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let expected = match path {
        "sealed" => content(&fixture.path("tree")),
        _ => BTreeMap::from([(
            PathBuf::from("it"),
            fs::read(fixture.path("tree/deep/two")).unwrap(),
        )]),
    };
    let check = |what: &str| {
        let (target, into) = if path == "sealed" { ("out", "out") } else { ("out/it", "out") };
        drop(fs::remove_dir_all(fixture.path(into)));
        if path != "sealed" {
            fs::create_dir(fixture.path(into)).unwrap();
        }
        fixture.expect(0, &["decrypt", "-q", "-i", "identity", "-i", "other", path, target]);
        assert!(content(&fixture.path(into)) == expected, "{what}");
    };
    assert_eq!(fixture.shell(&line).status, Some(0));
    let begun = Instant::now();
    assert!(run().wait().unwrap().success());
    let whole_run = begun.elapsed();
    let mut killed = 0;
    for round in 0..rounds {
        let what = format!("{change} {path}, round {round}");
        assert_eq!(fixture.shell(&line).status, Some(0));
        for _ in 0..2 {
            let mut child = run();
            std::thread::sleep(whole_run.mul_f64((f64::from(round) * 0.618_034).fract()));
            drop(child.kill());
            killed += u32::from(child.wait().unwrap().code().is_none());
            check(&what);
        }
        assert!(run().wait().unwrap().success(), "{what}");
        check(&what);
        assert!(verifies(&fixture, "other", path), "{what}");
        if change == "rekey" {
            // Also where a run was killed when all was done, and the next one made another key.
            let keys = fixture.names(if path == "sealed" { "sealed" } else { "." });
            let keys =
                keys.iter().filter(|name| name.contains("evener-key") && name.contains(path));
            assert!(path == "sealed" || keys.count() <= 1, "{what}");
            assert!(!verifies(&fixture, "identity", path), "{what}");
        }
    }
    println!("{change} {path}: {killed} of {} killed", rounds * 2);
    assert!(killed > 0, "every run was over before it was killed");
}

/// The number of rounds: more in the nightly run.
fn rounds(usual: u32) -> u32 {
    std::env::var("EVENER_TEST_ROUNDS").ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

#[test]
fn killed_at_any_moment() {
    let tree = "$evener encrypt -q -r RECIPIENT tree sealed";
    let file = "$evener encrypt -q -r RECIPIENT tree/deep/two one.enc";
    let pipe = "$evener encrypt -q -r RECIPIENT - - <tree/deep/two >piped";
    for change in ["rekey", "rewrap"] {
        kill_often(change, tree, "sealed", rounds(8));
        kill_often(change, file, "one.enc", rounds(4));
        kill_often(change, pipe, "piped", rounds(4));
    }
}

#[test]
fn a_stopped_run_goes_on() {
    let (fixture, other) = wrapped();
    for number in 0..40_u8 {
        fs::write(fixture.path(&format!("tree/{number}")), vec![number; 2_000_000]).unwrap();
    }
    fixture.expect(
        0,
        &["encrypt", "-q", "-r", RECIPIENT, "-i", "identity", "--update", "tree", "sealed"],
    );
    let rekey = ["rekey", "-r", &other, "-i", "identity", "-i", "other", "sealed"];
    let mut child = fixture.command(&rekey).stderr(Stdio::piped()).spawn().unwrap();
    let key = fixture.path("sealed/evener-key-2.age");
    let begun = Instant::now();
    while !key.exists() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(100));
    let id = rustix::process::Pid::from_child(&child);
    let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    let status = child.wait().unwrap();
    fixture.expect(0, &["verify", "-q", "-i", "identity", "-i", "other", "sealed"]);
    if status.code() == Some(130) {
        let mut told = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut told).unwrap();
        assert!(told.contains("run it again to go on from here"), "{told}");
        fixture.expect(0, &rekey);
    }
    assert!(verifies(&fixture, "other", "sealed") && !verifies(&fixture, "identity", "sealed"));
    assert_eq!(fixture.names("sealed").iter().filter(|it| it.contains("evener-key")).count(), 1);
}
