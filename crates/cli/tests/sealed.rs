//! Sealed trees: made, read, listed and cared for.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use common::{Ended, Fixture, RECIPIENT, has};
use rustix::process::{Pid, Signal, kill_process};

/// Lets the times of changes be old enough to be believed.
fn settle() {
    sleep(Duration::from_millis(60));
}

/// The last line on standard error.
fn last(ended: &Ended) -> &str {
    ended.messages.lines().last().unwrap_or_default()
}

/// A fixture with a link and an empty directory.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    symlink("one", fixture.path("tree/link")).unwrap();
    fs::create_dir(fixture.path("tree/empty")).unwrap();
    settle();
    fixture
}

#[test]
fn a_tree_goes_there_and_back_in_generations() {
    let fixture = fixture();
    let seal = ["encrypt", "--sealed", "-k", "my.key", "tree", "sealed"];
    let told = fixture.expect(0, &seal).messages;
    assert!(told.starts_with("evener: sealed 2 files, 293.0 KiB in "), "{told}");
    assert!(told.ends_with("; generation 1\n"), "{told}");
    for entry in ["evener-tree-v1", "tree/0000000000000000001"] {
        assert!(fixture.path("sealed").join(entry).is_file());
    }
    let told = fixture.expect(0, &seal).messages;
    assert_eq!(told, "evener: nothing changed: generation 1 stays; 2 unchanged\n");
    fs::rename(fixture.path("tree/deep/two"), fixture.path("tree/moved")).unwrap();
    fs::remove_dir_all(fixture.path("tree/empty")).unwrap();
    fs::write(fixture.path("tree/new"), "new").unwrap();
    settle();
    let told = fixture.expect(0, &seal).messages;
    assert!(told.starts_with("evener: sealed 1 file, 3 B in "), "{told}");
    assert!(told.ends_with("; 2 unchanged; 1 moved; 1 gone; generation 2\n"), "{told}");
    let told = fixture.expect(0, &["decrypt", "-k", "my.key", "sealed", "back"]).messages;
    assert!(told.ends_with("; generation 2\n"), "{told}");
    fixture.assert_same_tree("tree", "back");
    fixture.expect(0, &["decrypt", "-k", "my.key", "--generation", "1", "sealed", "first"]);
    assert_eq!(fixture.names("first"), ["deep", "empty", "link", "one"]);
    fixture.expect(0, &["verify", "-k", "my.key", "sealed"]);
    fixture.expect(0, &["verify", "--quick", "-k", "my.key", "sealed"]);
    let sample = ["verify", "--sample", "2", "-k", "my.key", "sealed"];
    assert!(fixture.expect(0, &sample).messages.contains("2 of 3 files were read"));
    let at = ["verify", "-k", "my.key", "--at", "2020-01-01", "sealed"];
    let told = fixture.expect(2, &at).messages;
    assert_eq!(told, "evener: sealed: there is no generation as old as that\n");
}

#[test]
fn progress_has_a_total() {
    let fixture = fixture();
    fixture.expect(0, &["encrypt", "-q", "--sealed", "-k", "my.key", "tree", "sealed"]);
    for arguments in [&["verify", "sealed"][..], &["decrypt", "sealed", "back"]] {
        let arguments = [arguments, &["-q", "-k", "my.key", "--json-progress"]].concat();
        let told = fixture.expect(0, &arguments).messages;
        let last: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
        assert!(last["bytes"].as_u64().unwrap() > 300_000, "{last}");
        assert_eq!(last["bytes"], last["bytes_total"], "{last}");
    }
}

#[test]
fn parts_are_decrypted_and_printed() {
    let fixture = fixture();
    fixture.expect(0, &["encrypt", "-q", "--sealed", "-k", "my.key", "tree", "sealed"]);
    fixture.expect(0, &["decrypt", "-k", "my.key", "sealed", "part", "deep", "one"]);
    assert_eq!(fixture.names("part"), ["deep", "one"]);
    fixture.expect(0, &["decrypt", "-k", "my.key", "--only", "deep", "sealed", "only"]);
    assert_eq!(fixture.names("only"), ["deep"]);
    let cat = ["cat", "-k", "my.key", "sealed", "one", "deep/two"];
    let printed = fixture.expect(0, &cat).output;
    assert_eq!(printed, [b"the first file", &vec![7; 300_000][..]].concat());
    let range = ["cat", "-k", "my.key", "--offset", "4", "--count", "5", "sealed", "one"];
    assert_eq!(fixture.expect(0, &range).output, b"first");
    for (arguments, told) in [
        (&["decrypt", "-k", "my.key", "sealed", "x", "gone"][..], "gone: nothing of this name"),
        (&["decrypt", "-k", "my.key", "--include", "*.jpg", "sealed", "y"], "select nothing"),
        (&["cat", "-k", "my.key", "sealed", "gone"], "sealed/gone: "),
        (&["cat", "-k", "my.key", "sealed"], "name files in it too"),
        (&["list", "-k", "my.key", "sealed", "gone"], "gone: nothing of this name"),
    ] {
        let ended = fixture.run(arguments);
        assert!(ended.status != Some(0) && ended.messages.contains(told), "{ended:?}");
    }
}

#[test]
fn recipients_sign_and_readers_see_it() {
    let fixture = fixture();
    let seal = ["encrypt", "--sealed", "-r", RECIPIENT, "tree", "sealed"];
    let told = fixture.expect(0, &seal).messages;
    let signer = told.split_whitespace().find(|word| word.starts_with("SHA256:")).unwrap();
    let signer = signer.trim_end_matches(';');
    assert!(told.contains("readers see this at first use"), "{told}");
    fs::write(fixture.path("tree/one"), "changed").unwrap();
    settle();
    let told = fixture.expect(0, &seal).messages;
    assert!(told.ends_with("; 1 unchanged; generation 2\n"), "{told}");
    assert_eq!(fixture.names("sealed/keys").len(), 2);
    // Another machine.
    let read = |arguments: &[&str]| {
        let mut command = fixture.command(arguments);
        Ended::of(command.env("XDG_STATE_HOME", fixture.path("other")))
    };
    let verify = ["verify", "-i", "identity", "sealed"];
    let ended = read(&verify);
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert!(last(&ended).starts_with("evener: first use of the tree "), "{ended:?}");
    assert!(last(&ended).ends_with(&format!("signed by {signer} (generation 2)")), "{ended:?}");
    assert!(!read(&verify).messages.contains("first use"));
    fixture.expect(0, &["decrypt", "-q", "-i", "identity", "sealed", "back"]);
    fixture.assert_same_tree("tree", "back");
    // Whoever can't read the tree, and did not make it, can't go on with it.
    let ended = read(&seal);
    assert_eq!(ended.status, Some(2));
    assert!(ended.messages.contains("has no notes of the tree's recipients"), "{ended:?}");
    let ended = read(&[&seal[..2], &["--recipients-changed"], &seal[2..]].concat());
    assert_eq!(ended.status, Some(2));
    assert!(ended.messages.contains("has no state of the tree"), "{ended:?}");
    let own = read(&["signers", "--own", "sealed"]);
    let own = String::from_utf8(own.output).unwrap();
    let add = ["signers", "-i", "identity", "--add", own.trim(), "sealed"];
    assert_eq!(
        fixture.expect(0, &add).messages,
        "evener: sealed: the signers were changed; generation 3\n"
    );
    fs::write(fixture.path("tree/two"), "by another").unwrap();
    settle();
    let confirmed = ["--recipients-changed", "-i", "identity"];
    let ended = read(&[&seal[..2], &confirmed, &seal[2..]].concat());
    assert!(ended.messages.ends_with("generation 4\n"), "{ended:?}");
    let listed = fixture.expect(0, &["signers", "-i", "identity", "--json", "sealed"]).document();
    assert_eq!(listed["signers"].as_array().map(Vec::len), Some(2));
    // What the other has made is not believed any more.
    let revoke =
        ["signers", "-i", "identity", "--revoke", own.trim(), "--last-good", "3", "sealed"];
    assert!(fixture.expect(0, &revoke).messages.ends_with("generation 5\n"));
    let told = fixture.expect(2, &revoke).messages;
    assert!(told.ends_with("is none of the tree's signers\n"), "{told}");
    fixture.expect(0, &["decrypt", "-q", "-i", "identity", "sealed", "third"]);
    assert_eq!(fixture.names("third"), ["deep", "empty", "link", "one"]);
}

#[test]
fn a_passphrase_has_to_be_the_same_each_time() {
    let fixture = fixture();
    fixture.secret("passphrase", "correct horse battery staple\n");
    fixture.secret("another", "incorrect horse battery\n");
    let with = |file: &'static str| ["encrypt", "--sealed", "--passphrase-file", file];
    let ends = ["tree", "sealed"];
    fixture.expect(0, &[&with("passphrase")[..], &ends].concat());
    fs::write(fixture.path("tree/one"), "changed").unwrap();
    settle();
    let told = fixture.expect(2, &[&with("another")[..], &ends].concat()).messages;
    assert!(told.contains("does not open `sealed/keys/"), "{told}");
    let told = fixture.expect(0, &[&with("passphrase")[..], &ends].concat()).messages;
    assert!(told.ends_with("generation 2\n"), "{told}");
    fixture.expect(0, &["decrypt", "-q", "--passphrase-file", "passphrase", "sealed", "back"]);
    fixture.assert_same_tree("tree", "back");
    fixture.expect(2, &["verify", "--passphrase-file", "another", "sealed"]);
}

#[test]
fn a_key_of_the_user_signs() {
    if !has("ssh-keygen") {
        evener_core::lacking!("there is no program `ssh-keygen`");
        return;
    }
    let fixture = fixture();
    for name in ["signer", "stranger"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(fixture.path(name))
            .status();
        assert!(made.unwrap().success());
    }
    let seal = ["encrypt", "--sealed", "-r", RECIPIENT, "--sign", "signer", "tree", "sealed"];
    fixture.expect(0, &seal);
    let verify = |signers| ["verify", "-i", "identity", "--signers", signers, "sealed"];
    fixture.expect(0, &verify("signer.pub"));
    let told = fixture.expect(2, &verify("stranger.pub")).messages;
    assert!(told.contains("whom --signers does not name"), "{told}");
    let told = fixture.expect(2, &verify("my.key")).messages;
    assert!(told.starts_with("evener: my.key, line 1: it is no public key of OpenSSH"), "{told}");
    let told = fixture.expect(2, &verify("nowhere")).messages;
    assert!(told.starts_with("evener: nowhere: can't read it: "), "{told}");
}

#[test]
fn wrong_keys_and_older_trees_are_refused() {
    let fixture = fixture();
    fixture.expect(0, &["keygen", "-o", "other.key"]);
    let seal = ["encrypt", "-q", "--sealed", "-k", "my.key", "tree", "sealed"];
    fixture.expect(0, &seal);
    let told = fixture.expect(2, &["verify", "-k", "other.key", "sealed"]).messages;
    assert!(told.contains("the key given is not that of the tree"), "{told}");
    let verify = ["verify", "--json", "-k", "my.key", "sealed"];
    let first = fixture.expect(0, &verify).document();
    fs::write(fixture.path("tree/one"), "changed").unwrap();
    settle();
    fixture.expect(0, &seal);
    let second = fixture.expect(0, &verify).document();
    assert_eq!(second["sealed"]["number"], 2);
    // The store forgets a generation.
    fs::remove_file(fixture.path("sealed/tree/0000000000000000002")).unwrap();
    let told =
        fixture.expect(2, &verify[..1].iter().chain(&verify[2..]).copied().collect::<Vec<_>>());
    assert!(told.messages.contains("rolled back"), "{told:?}");
    fixture.expect(2, &seal);
    let rolled_back = ["verify", "-k", "my.key", "--allow-rollback", "sealed"];
    fixture.expect(0, &rolled_back);
    // A machine without state knows by what it is told.
    let pinned = |document: &serde_json::Value| {
        let (number, digest) = (&document["sealed"]["number"], &document["sealed"]["digest"]);
        let pin = format!("{number}:{}", digest.as_str().unwrap());
        let mut command = fixture.command(&["verify", "-k", "my.key", "--pin", &pin, "sealed"]);
        Ended::of(command.env("XDG_STATE_HOME", fixture.path("new")))
    };
    let ended = pinned(&second);
    assert_eq!(ended.status, Some(2), "{ended:?}");
    let ended = pinned(&first);
    assert_eq!(ended.status, Some(0), "{ended:?}");
}

#[test]
fn options_that_mean_nothing_are_refused() {
    let fixture = fixture();
    let seal = |options: &[&'static str]| {
        [&["encrypt", "--sealed", "-k", "my.key"][..], options, &["tree", "sealed"]].concat()
    };
    for (options, told) in [
        (&["--delete", "--update"][..], "--delete: a generation has no files that are gone"),
        (&["--yes"], "--yes: nothing is asked"),
        (&["--overwrite"], "--overwrite: a new generation replaces none"),
        (&["--remove-source"], "--remove-source: a sealed tree does not replace its source"),
        (&["--ignore-ctime"], "--ignore-ctime: it is for --update of plain trees"),
        (&["--sparse"], "--sparse: it writes holes when decrypting"),
        (&["--suffix", ".x"], "--suffix: files of a sealed tree have random names"),
        (&["--context", "x"], "--context: a sealed tree binds its files to itself"),
        (&["--format", "tink"], "a sealed tree is in cobblestone-256"),
        (&["--base64"], "--base64 is not for sealed trees"),
        (&["--follow-symlinks"], "--follow-symlinks: a sealed tree keeps the links themselves"),
    ] {
        let ended = fixture.expect(2, &seal(options));
        assert!(ended.messages.starts_with(&format!("evener: {told}")), "{ended:?}");
        assert!(ended.messages.ends_with("; leave it out\n"), "{ended:?}");
        assert!(!fixture.path("sealed").exists());
    }
    let told = fixture.expect(0, &seal(&["--dry-run"])).messages;
    assert!(told.ends_with("evener: would seal 2 files, 293.0 KiB\n"), "{told}");
    assert!(!fixture.path("sealed").exists());
    for options in [&["--pad", "4K", "--durable", "--owner"][..], &["--update", "--checksum"]] {
        fixture.expect(0, &seal(options));
    }
    fixture.expect(0, &seal(&["--resume", "--one-file-system", "--skip-changing"]));
    let told = fixture.expect(2, &seal(&["--pad", "8K"])).messages;
    assert!(
        told.starts_with("evener: --pad is for a new tree, and sealed is one already"),
        "{told}"
    );
    let open = |options: &[&'static str]| {
        [&["decrypt", "-k", "my.key"][..], options, &["sealed", "back"]].concat()
    };
    for (options, told) in [
        (&["--update"][..], "--update: use --resume"),
        (&["--dry-run"], "--dry-run: `evener list` shows"),
        (&["--remove-source"], "--remove-source: a sealed tree"),
        (&["--suffix", ".x"], "--suffix: files of a sealed tree"),
        (&["--follow-symlinks"], "--follow-symlinks: the links of a sealed tree"),
        (&["--one-file-system"], "--one-file-system: a sealed tree shows no file systems"),
        (&["--context", "x"], "--context: a sealed tree"),
    ] {
        let ended = fixture.expect(2, &open(options));
        assert!(ended.messages.starts_with(&format!("evener: {told}")), "{ended:?}");
        assert!(!fixture.path("back").exists());
    }
    fixture.expect(0, &open(&["--sparse", "--durable", "--xattrs"]));
    let told = fixture.expect(1, &open(&[])).messages;
    assert!(told.contains("exists; --overwrite replaces it, --resume skips"), "{told}");
    fixture.expect(0, &open(&["--resume"]));
    fixture.expect(0, &open(&["--overwrite"]));
    fixture.assert_same_tree("tree", "back");
}

#[test]
fn sealed_trees_and_others_are_told_apart() {
    let fixture = fixture();
    fixture.expect(0, &["encrypt", "-q", "--sealed", "-k", "my.key", "tree", "sealed"]);
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "plain"]);
    fs::create_dir(fixture.path("none")).unwrap();
    let reason = "is for sealed trees";
    for (arguments, told) in [
        (
            &["encrypt", "-k", "my.key", "tree", "sealed"][..],
            "sealed is a sealed tree: --sealed adds",
        ),
        (
            &["encrypt", "-k", "my.key", "tree/one", "sealed"],
            "sealed is a sealed tree: --sealed adds",
        ),
        (
            &["encrypt", "-k", "my.key", "tree", "sealed/x"],
            "sealed is a sealed tree: --sealed adds",
        ),
        (&["decrypt", "-k", "my.key", "plain", "sealed"], "sealed is a sealed tree; decrypt to"),
        (
            &["decrypt", "-k", "my.key", "sealed", "sealed", "x/"],
            "sealed is a sealed tree; decrypt to",
        ),
        (&["encrypt", "--sealed", "-k", "my.key", "tree", "plain"], "holds something else"),
        (
            &["encrypt", "--sealed", "-k", "my.key", "none", "sealed"],
            "nothing was sealed: it holds",
        ),
        (&["encrypt", "--sealed", "-k", "my.key", "tree/one", "x"], "SRC is none"),
        (&["encrypt", "--sealed", "-k", "my.key", "-", "x"], "SRC is none"),
        (
            &["encrypt", "--sealed", "-k", "my.key", "tree", "none", "x"],
            "--sealed takes one directory",
        ),
        (&["encrypt", "--sealed", "-i", "identity", "tree", "x"], "no key that could seal"),
        (&["encrypt", "-k", "my.key", "--checksum", "tree", "x"], reason),
        (&["encrypt", "-k", "my.key", "--sign", "my.key", "tree", "x"], reason),
        (&["encrypt", "-k", "my.key", "--unsigned", "tree", "x"], reason),
        (&["decrypt", "-k", "my.key", "--generation", "1", "plain", "x"], reason),
        (&["decrypt", "-k", "my.key", "plain", "sealed", "x/"], "sealed is a sealed tree, which"),
        (&["verify", "-k", "my.key", "--quick", "plain"], reason),
        (&["verify", "-k", "my.key", "--at", "2026-01-01", "plain"], reason),
        (&["list", "--long", "plain"], reason),
        (&["list", "plain", "one"], reason),
        (&["diff", "-k", "my.key", "plain", "1"], "it is no sealed tree"),
        (&["clean", "-k", "my.key", "plain"], "it is no sealed tree"),
    ] {
        let ended = fixture.expect(2, arguments);
        assert!(ended.messages.contains(told), "{arguments:?}: {ended:?}");
    }
    // A sealed tree is a source like any other.
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "sealed", "again"]);
}

#[test]
fn keys_of_other_formats_do_not_seal() {
    let fixture = fixture();
    for format in ["tink", "cobblestone-128"] {
        fixture.expect(0, &["keygen", "--format", format, "-o", format]);
        let told = fixture.expect(2, &["encrypt", "--sealed", "-k", format, "tree", "x"]).messages;
        assert!(told.contains("a sealed tree takes keys for cobblestone-256"), "{told}");
    }
    let both = ["encrypt", "--sealed", "-k", "my.key", "-r", RECIPIENT, "tree", "x"];
    assert!(fixture.expect(2, &both).messages.contains("--key and --recipient exclude"));
    assert!(!fixture.path("x").exists());
}

#[test]
fn documents_have_the_generation() {
    let fixture = fixture();
    let seal = ["encrypt", "--json", "--sealed", "-r", RECIPIENT, "tree", "sealed"];
    let made = &fixture.expect(0, &seal).document()["sealed"];
    assert_eq!((&made["generation"], &made["is_new"]), (&1.into(), &true.into()));
    assert!(made["signer"].as_str().unwrap().starts_with("SHA256:"));
    fs::remove_file(fixture.path("tree/one")).unwrap();
    fs::rename(fixture.path("tree/deep/two"), fixture.path("tree/moved")).unwrap();
    symlink(OsStr::from_bytes(b"aim-\xff"), fixture.path("tree/odd")).unwrap();
    settle();
    let made = &fixture.expect(0, &seal).document()["sealed"];
    assert_eq!((&made["gone"], &made["moved"]), (&1.into(), &1.into()));
    assert_eq!(fixture.expect(0, &seal).document()["sealed"]["is_new"], false);
    // A file that fails is not left out of the document of its generation.
    let listed = fixture.expect(0, &["list", "--json", "-i", "identity", "sealed"]).document();
    assert_eq!(listed["generation"]["number"], 2);
    let entries = listed["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 6);
    let odd = entries.iter().find(|entry| entry["path"] == "odd").unwrap();
    assert_eq!(
        (&odd["target"], &odd["target_hex"]),
        (&"aim-\u{fffd}".into(), &"61696d2dff".into())
    );
    let differs = ["diff", "--json", "-i", "identity", "sealed", "1", "2"];
    let changes = fixture.expect(1, &differs).document();
    let paths = changes["differences"].as_array().unwrap().iter().map(|it| it["path"].clone());
    assert!(paths.into_iter().any(|path| path == "moved"));
    let cleaned = fixture.expect(0, &["clean", "--json", "-i", "identity", "sealed"]).document();
    assert_eq!(cleaned["removed"], serde_json::json!([]));
    let refused = ["diff", "--json", "-i", "identity", "tree", "1"];
    assert_eq!(fixture.expect(2, &refused).document()["failures"][0]["path"], "tree");
}

#[test]
fn lists_show_what_a_tree_holds() {
    let fixture = fixture();
    fixture.expect(0, &["encrypt", "-q", "--sealed", "-k", "my.key", "tree", "sealed"]);
    let list = |options: &[&'static str], paths: &[&'static str]| {
        let ended =
            fixture.expect(0, &[&["list", "-k", "my.key"], options, &["sealed"], paths].concat());
        String::from_utf8(ended.output).unwrap()
    };
    let names = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" "))
            .collect()
    };
    let all = ["./", "deep/", "empty/", "link -> one", "one", "deep/two"];
    assert_eq!(names(&list(&[], &[])), all);
    assert_eq!(names(&list(&["--shallow"], &[])), all[..5]);
    assert_eq!(names(&list(&[], &["deep"])), ["deep/", "deep/two"]);
    let long = list(&["--long"], &["one"]);
    assert!(long.contains(" data/") && long.starts_with("0"), "{long}");
    let generations = list(&["--generations"], &[]);
    assert_eq!(generations.lines().count(), 2, "{generations}");
}

#[test]
fn cleaning_keeps_what_it_should() {
    let fixture = fixture();
    let seal = ["encrypt", "-q", "--sealed", "-k", "my.key", "tree", "sealed"];
    for content in ["1", "22", "333"] {
        fs::write(fixture.path("tree/one"), content).unwrap();
        settle();
        fixture.expect(0, &seal);
    }
    let clean = |options: &[&'static str]| {
        let ended = fixture.expect(0, &[&["clean", "-k", "my.key"], options, &["sealed"]].concat());
        String::from_utf8(ended.output).unwrap()
    };
    assert!(clean(&[]).starts_with("removed 0 generations, 0 files"));
    assert!(clean(&["--keep", "2", "-n"]).starts_with("would remove 1 generation, "));
    assert!(clean(&["--keep", "2"]).ends_with("; recorded in generation 4\n"));
    let first = ["verify", "-k", "my.key", "--generation", "1", "sealed"];
    assert!(fixture.expect(2, &first).messages.contains("generation 1 was removed"));
    fixture.expect(0, &["verify", "-k", "my.key", "--generation", "2", "sealed"]);
}

#[test]
fn keys_are_exchanged() {
    let fixture = fixture();
    fixture.expect(0, &["keygen", "-o", "new.key"]);
    fixture.expect(0, &["encrypt", "-q", "--sealed", "-k", "my.key", "tree", "sealed"]);
    let rekey = ["rekey", "-k", "my.key", "--new-key", "new.key", "sealed"];
    let told = fixture.expect(0, &rekey).messages;
    assert!(told.starts_with("evener: sealed 2 files"), "{told}");
    assert!(told.ends_with("; generation 2\n"), "{told}");
    fixture.expect(2, &["verify", "-k", "my.key", "sealed"]);
    fixture.expect(0, &["verify", "-k", "new.key", "sealed"]);
    fixture.expect(0, &["verify", "-k", "new.key", "-k", "my.key", "--generation", "1", "sealed"]);
    // The key of removed generations is not needed.
    let list = ["list", "--generations", "-k", "new.key", "sealed"];
    assert!(fixture.expect(1, &list).messages.contains("there is no key"));
    let clean = ["clean", "-q", "--keep", "1", "-k", "new.key", "-k", "my.key", "sealed"];
    fixture.expect(0, &clean);
    let listed = String::from_utf8(fixture.expect(0, &list).output).unwrap();
    assert!(listed.ends_with(" - (removed)\n") && listed.lines().count() == 4, "{listed}");
    let neither = ["rekey", "-k", "new.key", "sealed"];
    assert!(fixture.expect(2, &neither).messages.contains("--new-key or --recipient"));
    // Other recipients.
    fixture.expect(0, &["encrypt", "-q", "--sealed", "-r", RECIPIENT, "tree", "wrapped"]);
    let other = evener_age_identity(&fixture);
    let rewrap = ["rewrap", "-r", &other, "-i", "identity", "-i", "other", "wrapped"];
    let told = fixture.expect(0, &rewrap).messages;
    assert!(
        told.ends_with("1 key wrapped for these recipients; 1 old wrapping removed\n"),
        "{told}"
    );
    fixture.expect(0, &["verify", "-i", "other", "wrapped"]);
    fixture.expect(2, &["verify", "-i", "identity", "wrapped"]);
}

/// Makes the file `other`, an identity, and returns its recipient.
fn evener_age_identity(fixture: &Fixture) -> String {
    use age::secrecy::ExposeSecret as _;
    let identity = age::x25519::Identity::generate();
    fixture.secret("other", identity.to_string().expose_secret());
    identity.to_public().to_string()
}

#[test]
fn a_stopped_run_leaves_the_last_generation() {
    let fixture = fixture();
    let seal = ["encrypt", "--sealed", "-k", "my.key", "-j", "1", "tree", "sealed"];
    fixture.expect(0, &seal);
    for number in 0..40 {
        fs::write(fixture.path(&format!("tree/{number}")), vec![number; 4_000_000]).unwrap();
    }
    settle();
    let mut child = fixture.command(&seal).stderr(Stdio::piped()).spawn().unwrap();
    sleep(Duration::from_millis(150));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = child.wait().unwrap();
    if status.code() == Some(130) {
        assert!(!fixture.path("sealed/tree/0000000000000000002").exists());
        assert!(fixture.names("sealed/writers").is_empty());
    }
    fixture.expect(0, &["verify", "-k", "my.key", "sealed"]);
    fixture.expect(0, &seal);
    fixture.expect(0, &["decrypt", "-q", "-k", "my.key", "sealed", "back"]);
    fixture.assert_same_tree("tree", "back");
}

#[test]
fn what_signs_ends_with_the_run() {
    let fixture = fixture();
    let path = fixture.path("ssh-keygen");
    fs::write(&path, "#!/bin/sh\necho > asked\nsleep 60 &\nwait\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGhfRLoSRcGEfS6rYbf5M1Hn5/AQ9dZufkC/4W+n/ghe";
    fs::write(fixture.path("signer.pub"), key).unwrap();
    let seal = ["encrypt", "--sealed", "-k", "my.key", "--sign", "signer", "tree", "sealed"];
    let mut path = fixture.path("").into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = fixture.command(&seal);
    let child = command.env("PATH", path).stderr(Stdio::piped()).spawn().unwrap();
    while !fixture.path("asked").exists() {
        sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    // The pipe is closed when the last descendant has ended.
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{told}");
    assert!(told.contains("interrupted; "), "{told}");
    assert!(!fixture.path("sealed/tree").exists());
}

#[test]
fn junk_behind_the_last_generation_is_passed_over_by_name() {
    let fixture = fixture();
    fixture.expect(0, &["encrypt", "-q", "--sealed", "-k", "my.key", "tree", "sealed"]);
    fs::write(fixture.path("sealed/tree/0000000000000000002"), "junk").unwrap();
    let told = fixture.expect(2, &["verify", "-k", "my.key", "sealed"]).messages;
    assert!(told.contains("--generation 1 reads the one before"), "{told}");
    fixture.expect(0, &["verify", "-k", "my.key", "--generation", "1", "sealed"]);
    // The next run repairs it, even if nothing has changed.
    fixture.expect(0, &["encrypt", "-q", "--sealed", "-k", "my.key", "tree", "sealed"]);
    fixture.expect(0, &["verify", "-k", "my.key", "sealed"]);
}

#[test]
fn a_state_that_takes_nothing_is_told_with_what_helps() {
    let fixture = fixture();
    // Nobody makes a directory there.
    let mut command = fixture.command(&["encrypt", "--sealed", "-k", "my.key", "tree", "sealed"]);
    let ended = Ended::of(command.env("XDG_STATE_HOME", "/sys/none"));
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(ended.messages.contains("; XDG_STATE_HOME may name another"), "{ended:?}");
}

#[test]
fn a_damaged_state_is_told() {
    let fixture = fixture();
    let state = fixture.path("state");
    let run =
        |arguments: &[&str]| Ended::of(fixture.command(arguments).env("XDG_STATE_HOME", &state));
    let seal = ["encrypt", "--sealed", "-k", "my.key", "tree", "sealed"];
    assert_eq!(run(&seal).status, Some(0));
    let trees = state.join("evener/trees");
    let tree = fs::read_dir(&trees).unwrap().next().unwrap().unwrap().path();
    fs::write(tree.join("pin.json"), "{}").unwrap();
    for arguments in [&seal[..], &["verify", "-k", "my.key", "sealed"]] {
        let ended = run(arguments);
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.messages.contains("pin.json"), "{ended:?}");
    }
    fs::remove_file(tree.join("pin.json")).unwrap();
    fs::write(tree.join("entries"), "damaged").unwrap();
    assert_eq!(run(&["verify", "-k", "my.key", "sealed"]).status, Some(0));
    let ended = run(&seal);
    assert!(ended.messages.contains("entries` is damaged; remove it if you believe"), "{ended:?}");
    // Entries that are lost cost time, nothing else.
    fs::remove_file(tree.join("entries")).unwrap();
    let ended = run(&seal);
    assert!(ended.messages.contains("nothing changed: generation 1 stays"), "{ended:?}");
}

#[test]
fn without_a_home_a_key_still_seals() {
    let fixture = fixture();
    let run = |arguments: &[&str]| {
        let mut command = fixture.command(arguments);
        Ended::of(command.env_remove("XDG_STATE_HOME").env_remove("HOME"))
    };
    let seal = ["encrypt", "--sealed", "-r", RECIPIENT, "tree", "sealed"];
    let ended = run(&seal);
    assert_eq!(ended.status, Some(2));
    assert!(ended.messages.contains("a signed tree needs a directory for its state"), "{ended:?}");
    assert!(!fixture.path("sealed").exists());
    let seal = ["encrypt", "--sealed", "-k", "my.key", "tree", "sealed"];
    assert_eq!(run(&seal).status, Some(0));
    let ended = run(&seal);
    assert!(ended.messages.contains("nothing changed"), "{ended:?}");
    assert_eq!(run(&["verify", "-k", "my.key", "sealed"]).status, Some(0));
}
