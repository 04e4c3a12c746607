//! Keys that are wrapped with age and kept beside the files that they encrypt.

mod common;

use std::fs;
use std::process::Command;

use common::{Ended, Fixture, RECIPIENT, has};

/// Another recipient, whose identity nobody has.
const STRANGER: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

#[test]
fn a_tree_carries_its_wrapped_key() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "sealed"]);
    assert_eq!(fixture.names("sealed"), ["deep", "evener-key.age", "one.enc"]);
    fixture.expect(0, &["verify", "-i", "identity", "sealed"]);
    fixture.expect(0, &["decrypt", "-i", "identity", "sealed", "restored"]);
    fixture.assert_same_tree("tree", "restored");

    // A part of the tree takes the tree's key if it is named.
    let key = ["-k", "sealed/evener-key.age"];
    fixture.expect(0, &["verify", key[0], key[1], "-i", "identity", "sealed/deep"]);
    let file = "sealed/deep/two.enc";
    let two = fixture.expect(0, &["decrypt", key[0], key[1], "-i", "identity", file, "-"]);
    assert_eq!(two.output, fs::read(fixture.path("tree/deep/two")).unwrap());
}

#[test]
fn age_opens_the_wrapped_key_and_makes_others() {
    if !has("age") {
        evener_core::lacking!("there is no program `age`");
        return;
    }
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "sealed"]);
    let mut age = Command::new("age");
    age.args(["-d", "-i", "identity", "sealed/evener-key.age"]).current_dir(fixture.path("."));
    let opened = Ended::of(&mut age);
    assert!(opened.output.starts_with(b"evener-key:v1:cobblestone-256:"), "{opened:?}");

    // The text that age shows is a key file, and a key file that age wraps can be used.
    fixture.secret("opened.key", std::str::from_utf8(&opened.output).unwrap());
    fixture.expect(0, &["verify", "-k", "opened.key", "sealed"]);
    let line = format!("age -a -r {RECIPIENT} -o armoured.key opened.key");
    assert_eq!(fixture.shell(&line).status, Some(0));
    fixture.expect(0, &["verify", "-k", "armoured.key", "-i", "identity", "sealed"]);
    let refused = fixture.expect(2, &["verify", "-k", "armoured.key", "sealed"]);
    assert!(refused.messages.contains("(`-i`)"), "{}", refused.messages);
}

#[test]
fn a_later_run_adds_a_key_or_reuses_the_one_that_it_can_open() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "sealed"]);
    fs::write(fixture.path("tree/three"), "later").unwrap();
    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "--resume", "tree", "sealed"]);
    assert_eq!(
        fixture.names("sealed"),
        ["deep", "evener-key-2.age", "evener-key.age", "one.enc", "three.enc"]
    );
    fs::write(fixture.path("tree/four"), "later still").unwrap();
    let reuse = ["encrypt", "-r", RECIPIENT, "-i", "identity", "--resume", "tree", "sealed"];
    let reused = fixture.expect(0, &reuse);
    assert!(reused.messages.contains("evener-key.age, which you made before"), "{reused:?}");
    assert!(!fixture.path("sealed/evener-key-3.age").exists());
    fixture.expect(0, &["decrypt", "-i", "identity", "sealed", "restored"]);
    fixture.assert_same_tree("tree", "restored");
}

#[test]
fn a_wrapped_key_that_does_not_read_back_costs_no_source() {
    let fixture = Fixture::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shim/wrong_byte.c");
    let shim = fixture.path("shim.so");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&shim).args([source, "-ldl"]);
    assert!(compiler.status().unwrap().success(), "the shim does not build");
    let remove = ["encrypt", "-r", RECIPIENT, "--remove-source"];
    let keygen = ["keygen", "-r", RECIPIENT, "-o", "made.key"];
    let (tree, file) = (["tree", "sealed"], ["tree/one", "one.enc"]);
    for command in [&[&remove[..], &tree].concat(), &[&remove[..], &file].concat(), &keygen[..]] {
        for byte in ["0", "60", "200"] {
            let mut command = fixture.command(command);
            let ended = Ended::of(command.env("LD_PRELOAD", &shim).env("WRONG_BYTE", byte));
            assert_eq!(ended.status, Some(2), "{ended:?}");
            assert!(ended.messages.contains("does not read back as it was written"), "{ended:?}");
            assert_eq!(fixture.names("tree"), ["deep", "one"]);
            assert!(
                ["sealed", "one.enc", "made.key"].iter().all(|made| !fixture.path(made).exists())
            );
        }
    }
    assert!(!fixture.names(".").iter().any(|name| name.contains("evener-key")));
}

#[test]
fn a_planted_key_is_never_encrypted_with() {
    let fixture = Fixture::new();
    // An attacker who can write to the place makes keys and wraps them for the owner, whose
    // recipient is no secret; or leaves them in plain text, for their owner alone.
    fs::create_dir(fixture.path("sealed")).unwrap();
    let made = fixture.expect(0, &["keygen"]).output;
    fixture.secret("planted.key", std::str::from_utf8(&made).unwrap());
    fixture.secret("sealed/evener-key-0.age", std::str::from_utf8(&made).unwrap());
    fixture.expect(0, &["keygen", "-r", RECIPIENT, "-o", "sealed/evener-key.age"]);
    fixture.expect(0, &["keygen", "-r", STRANGER, "-o", "sealed/evener-key-1.age"]);
    fs::create_dir(fixture.path("sealed/evener-key-3.age")).unwrap();
    fs::copy(fixture.path("sealed/evener-key.age"), fixture.path("planted.age")).unwrap();

    // Without --recipient there is no key to encrypt with.
    let refused = fixture.expect(2, &["encrypt", "-i", "identity", "tree", "sealed"]);
    assert!(refused.messages.contains("may be somebody else's"), "{refused:?}");
    assert!(refused.messages.contains("--key sealed/evener-key.age"), "{refused:?}");
    assert!(!fixture.path("sealed/one.enc").exists());

    let encrypt = ["encrypt", "-r", RECIPIENT, "-i", "identity", "tree", "sealed"];
    let made = fixture.expect(0, &encrypt);
    assert!(made.messages.contains("makes a fresh key and leaves sealed/evener-key.age alone"));
    assert!(fixture.path("sealed/evener-key-2.age").exists());
    let planted = ["-k", "planted.key", "-k", "planted.age", "-i", "identity"];
    fixture.expect(2, &[&["verify"], &planted[..], &["sealed"]].concat());
    fixture.expect(0, &["verify", "-k", "sealed/evener-key-2.age", "-i", "identity", "sealed"]);

    // The same holds when the run is continued and the key's own file was replaced meanwhile.
    fs::rename(fixture.path("sealed/evener-key.age"), fixture.path("sealed/evener-key-2.age"))
        .unwrap();
    fs::write(fixture.path("tree/three"), "later").unwrap();
    let resume = ["encrypt", "-r", RECIPIENT, "-i", "identity", "--resume", "tree", "sealed"];
    let resumed = fixture.expect(1, &resume);
    assert!(resumed.messages.contains("was not made with this key"), "{resumed:?}");
    let three = ["sealed/three.enc", "-"];
    fixture.expect(2, &[&["decrypt"], &planted[..], &three].concat());
    // A named key is used: the user vouches for it.
    let named = ["-k", "sealed/evener-key-2.age", "-i", "identity", "--overwrite"];
    fixture.expect(0, &[&["encrypt"], &named[..], &["tree", "sealed"]].concat());
}

#[test]
fn content_that_the_passphrase_encrypts_is_no_key() {
    let fixture = Fixture::new();
    fixture.secret("passphrase", "correct horse battery staple\n");
    fixture.expect(0, &["keygen", "-o", "stranger.key"]);
    let by_passphrase = ["--passphrase-file", "passphrase"];
    let as_age = [&["encrypt", "--format", "age"], &by_passphrase[..]].concat();
    fixture.expect(0, &[&as_age[..], &["stranger.key", "attachment.age"]].concat());
    fs::create_dir(fixture.path("sealed")).unwrap();
    for planted in ["sealed/evener-key.age", "one.enc.evener-key.age"] {
        fs::copy(fixture.path("attachment.age"), fixture.path(planted)).unwrap();
    }
    let encrypt = [&["encrypt"], &by_passphrase[..]].concat();
    let update = [&encrypt[..], &["--update", "tree", "sealed"]].concat();
    let refused = fixture.expect(2, &update);
    assert!(refused.messages.contains("name it with --key sealed/evener-key.age"), "{refused:?}");
    for (source, target) in [("tree", "sealed"), ("tree/one", "one.enc")] {
        let made = fixture.expect(0, &[&encrypt[..], &[source, target]].concat());
        assert!(made.messages.contains("may be somebody else's"), "{made:?}");
        fixture.expect(2, &["verify", "-k", "stranger.key", target]);
        fixture.expect(0, &[&["verify"], &by_passphrase[..], &[target]].concat());
    }
    // The run's own key is used again, and a named one if it opens.
    let updated = fixture.expect(0, &update);
    assert!(updated.messages.contains("evener-key-2.age, which you made before"), "{updated:?}");
    let named = ["-k", "sealed/evener-key.age", "--overwrite", "tree", "sealed"];
    fixture.expect(0, &[&encrypt[..], &named].concat());
    fixture.expect(0, &["verify", "-k", "stranger.key", "sealed"]);
}

#[test]
fn an_output_whose_key_is_lost_is_not_complete() {
    let fixture = Fixture::new();
    fixture.secret("passphrase", "correct horse battery staple\n");
    let means = [
        &["-r", RECIPIENT][..],
        &["-r", RECIPIENT, "-i", "identity"],
        &["--passphrase-file", "passphrase"],
    ];
    for (number, means) in means.into_iter().enumerate() {
        for (source, target, key) in [
            ("tree", format!("sealed-{number}"), format!("sealed-{number}/evener-key.age")),
            ("tree/one", format!("one-{number}"), format!("one-{number}.evener-key.age")),
        ] {
            let encrypt = [&["encrypt", "--resume"], means, &[source, &target]].concat();
            // There is nothing yet that could go unchecked.
            assert!(!fixture.expect(0, &encrypt).messages.contains("warning"));
            let resumed = fixture.expect(0, &encrypt);
            assert!(resumed.messages.contains("complete already"), "{resumed:?}");
            for junk in [None, Some(""), Some("junk"), Some("age-encryption.org/v1\njunk")] {
                fs::remove_file(fixture.path(&key)).unwrap();
                if let Some(junk) = junk {
                    fs::write(fixture.path(&key), junk).unwrap();
                }
                let refused = fixture.expect(1, &encrypt);
                let told = "was not made with this key";
                assert!(refused.messages.contains(told), "{junk:?}: {refused:?}");
                if junk.is_none() {
                    // A fresh key that encrypted nothing does not stay.
                    assert!(!fixture.path(&key).exists());
                    fs::write(fixture.path(&key), "").unwrap();
                }
            }
        }
    }
}

#[test]
fn planted_keys_take_no_minutes() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "sealed"]);
    let text = "B".repeat(42) + "A";
    let stanzas = format!("-> X25519 {text}\n{text}\n").repeat(7_000);
    for number in 0..5 {
        let key = format!("age-encryption.org/v1\n{stanzas}--- {text}\n{number:0100}");
        fs::write(fixture.path(&format!("sealed/evener-key-{}.age", number + 2)), key).unwrap();
    }
    let opened = fixture.expect(0, &["decrypt", "-i", "identity", "sealed", "restored"]);
    assert!(opened.messages.contains("the 4 longest wrapped keys were not tried"), "{opened:?}");
    fixture.assert_same_tree("tree", "restored");
    fs::write(fixture.path("tree/three"), "later").unwrap();
    let resume = ["encrypt", "-r", RECIPIENT, "--resume", "tree", "sealed"];
    let refused = fixture.expect(2, &resume);
    assert!(refused.messages.contains("would not be tried again"), "{refused:?}");
    // The key that is there is enough.
    let reuse = ["encrypt", "-r", RECIPIENT, "-i", "identity", "--resume", "tree", "sealed"];
    fixture.expect(0, &reuse);
}

#[test]
fn a_key_that_was_made_elsewhere_is_left_alone() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "sealed"]);
    fs::write(fixture.path("tree/three"), "later").unwrap();
    let resume = ["encrypt", "-r", RECIPIENT, "-i", "identity", "--resume", "tree", "sealed"];
    let mut elsewhere = fixture.command(&resume);
    let ended = Ended::of(elsewhere.env_remove("XDG_STATE_HOME").env("HOME", fixture.path("home")));
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert!(ended.messages.contains("nothing shows that you made it on this machine"));
    assert!(fixture.path("sealed/evener-key-2.age").exists());
    assert!(fixture.path("home/.local/state/evener/keys").exists());
    fixture.expect(0, &["verify", "-i", "identity", "sealed"]);

    // With a passphrase, its outputs are complete: in the first run elsewhere, and in later ones.
    fixture.secret("passphrase", "correct horse\n");
    fixture.secret("other", "wrong horse\n");
    let means = ["encrypt", "--resume", "--passphrase-file"];
    let resume = [&means[..], &["passphrase", "tree", "moved"]].concat();
    fixture.expect(0, &resume);
    let elsewhere = |arguments: &[&str]| {
        let mut command = fixture.command(arguments);
        Ended::of(command.env("XDG_STATE_HOME", fixture.path("elsewhere")))
    };
    let mistyped = elsewhere(&[&means[..], &["other", "tree", "moved"]].concat());
    assert_eq!(mistyped.status, Some(2), "{mistyped:?}");
    for (number, told) in
        ["leaves moved/evener-key.age alone", "which you made before"].into_iter().enumerate()
    {
        fs::write(fixture.path("tree").join(format!("later {number}")), "later").unwrap();
        let ended = elsewhere(&resume);
        assert_eq!(ended.status, Some(0), "{ended:?}");
        assert!(ended.messages.contains(told), "{ended:?}");
    }
    assert_eq!(fixture.names("moved").iter().filter(|name| name.ends_with(".age")).count(), 2);
}

#[test]
fn a_key_of_another_place_or_for_others_is_left_alone() {
    let fixture = Fixture::new();
    let shared = ["encrypt", "-r", RECIPIENT, "-r", STRANGER];
    fixture.expect(0, &[&shared[..], &["tree", "shared"]].concat());
    // A reader of one place's key copies it to another place, to read what is added there.
    fs::create_dir(fixture.path("private")).unwrap();
    let replay =
        || fs::copy(fixture.path("shared/evener-key.age"), fixture.path("private/evener-key.age"));
    replay().unwrap();
    let refused = fixture.expect(2, &["encrypt", "-i", "identity", "tree", "private"]);
    assert!(refused.messages.contains("you made it for another place"), "{refused:?}");
    assert!(refused.messages.contains("shared/evener-key.age"), "{refused:?}");
    let own = ["encrypt", "-r", RECIPIENT, "-i", "identity", "tree", "private"];
    let made = fixture.expect(0, &own);
    assert!(made.messages.contains("private/evener-key.age alone: you made it for"), "{made:?}");
    let copied = ["-k", "private/evener-key.age", "-i", "identity"];
    fixture.expect(2, &[&["verify"], &copied[..], &["private"]].concat());
    fixture.expect(0, &["verify", "-i", "identity", "private"]);
    // Nor does it work from one file to another in the same directory.
    fixture.expect(0, &[&shared[..], &["tree/one", "one.enc"]].concat());
    let beside = [fixture.path("one.enc.evener-key.age"), fixture.path("two.enc.evener-key.age")];
    fs::copy(&beside[0], &beside[1]).unwrap();
    fixture.expect(2, &["encrypt", "-i", "identity", "tree/one", "two.enc"]);

    // In its own place the key is for its original recipients, in any order, by any name.
    fs::write(fixture.path("tree/three"), "later").unwrap();
    std::os::unix::fs::symlink("shared", fixture.path("link")).unwrap();
    let same = ["-r", STRANGER, "-r", RECIPIENT, "-i", "identity", "--resume", "tree", "link"];
    let reused = fixture.expect(0, &[&["encrypt"], &same[..]].concat());
    assert!(reused.messages.contains("evener-key.age, which you made before"), "{reused:?}");
    fs::write(fixture.path("tree/four"), "later still").unwrap();
    let fewer = ["-r", RECIPIENT, "-i", "identity", "--resume", "tree", "shared"];
    let made = fixture.expect(0, &[&["encrypt"], &fewer[..]].concat());
    assert!(made.messages.contains("did not make it for the recipients"), "{made:?}");
    assert!(fixture.path("shared/evener-key-2.age").exists());

    // A tree that was moved gets a fresh key.
    fs::rename(fixture.path("shared"), fixture.path("moved")).unwrap();
    fs::write(fixture.path("tree/five"), "last").unwrap();
    let moved = ["-r", RECIPIENT, "-i", "identity", "--resume", "tree", "moved"];
    let made = fixture.expect(0, &[&["encrypt"], &moved[..]].concat());
    assert!(made.messages.contains("you made it for another place"), "{made:?}");
    fixture.expect(0, &["verify", "-i", "identity", "moved"]);
}

#[test]
fn a_key_that_nothing_was_encrypted_with_is_not_left_behind() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "--dry-run", "tree", "sealed"]);
    assert!(!fixture.path("sealed").exists());
    fixture.expect(2, &["encrypt", "-r", RECIPIENT, "tree", "tree/sealed"]);
    assert!(!fixture.path("tree/sealed").exists());

    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "sealed"]);
    fixture.expect(1, &["encrypt", "-r", RECIPIENT, "tree", "sealed"]);
    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "--resume", "tree", "sealed"]);
    assert_eq!(fixture.names("sealed"), ["deep", "evener-key.age", "one.enc"]);

    fs::write(fixture.path("taken"), "").unwrap();
    fixture.expect(1, &["encrypt", "-r", RECIPIENT, "tree/one", "taken"]);
    assert!(!fixture.path("taken.evener-key.age").exists());
}

#[test]
fn a_single_file_has_its_key_beside_it() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "tree/one", "one.enc"]);
    assert!(fixture.path("one.enc.evener-key.age").exists());
    let one = fixture.expect(0, &["decrypt", "-i", "identity", "one.enc", "-"]);
    assert_eq!(one.output, b"the first file");

    fs::create_dir(fixture.path("box")).unwrap();
    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "tree/one", "box"]);
    assert_eq!(fixture.names("box"), ["one.enc", "one.enc.evener-key.age"]);
    fixture.expect(0, &["verify", "-i", "identity", "box/one.enc"]);
}

#[test]
fn a_wrong_identity_opens_nothing_and_writes_nothing() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-r", STRANGER, "tree", "sealed"]);
    let refused = fixture.expect(2, &["decrypt", "-i", "identity", "sealed", "restored"]);
    assert!(refused.messages.contains("no identity given opens"), "{}", refused.messages);
    assert!(!fixture.path("restored").exists());
    let refused = fixture.expect(2, &["encrypt", "-i", "identity", "tree", "sealed"]);
    assert!(refused.messages.contains("no identity given opens"), "{}", refused.messages);
    let refused = fixture.expect(2, &["decrypt", "-i", "identity", "tree", "restored"]);
    assert!(refused.messages.contains("no wrapped key"), "{}", refused.messages);
}

#[test]
fn a_fifo_gets_the_wrapped_key_first() {
    let fixture = Fixture::new();
    let line = format!(
        "mkfifo fifo; cat fifo > sealed & $evener encrypt -q -r {RECIPIENT} tree/one fifo; s=$?; \
         wait; exit $s"
    );
    assert_eq!(fixture.shell(&line).status, Some(0));
    fixture.expect(0, &["decrypt", "-i", "identity", "sealed", "back"]);
    let read = |name| fs::read(fixture.path(name)).unwrap();
    assert_eq!(read("back"), read("tree/one"));
    let moving = ["encrypt", "--remove-source", "-r", RECIPIENT, "tree/one", "fifo"];
    let refused = fixture.expect(2, &moving);
    assert!(refused.messages.contains("can't be read back"), "{}", refused.messages);
    assert_eq!(read("back"), read("tree/one"));
}

#[test]
fn a_pipe_without_a_wrapped_key_takes_one_by_its_name() {
    let fixture = Fixture::new();
    for (arguments, told) in [
        (["encrypt", "-i", "identity", "-", "-"], "or --key KEYFILE"),
        (["decrypt", "-i", "identity", "-", "-"], "name its key file (`--key` takes one)"),
    ] {
        let refused = fixture.expect(2, &arguments);
        assert!(refused.messages.contains(told), "{}", refused.messages);
    }
    fixture.expect(0, &["keygen", "-r", RECIPIENT, "-o", "wrapped.key"]);
    let line = "$evener encrypt -q -k wrapped.key -i identity - - < tree/one \
                | $evener decrypt -q -k wrapped.key -i identity - -";
    assert_eq!(fixture.shell(line).output, b"the first file");
}

#[test]
fn a_passphrase_wraps_a_tree_and_comes_from_a_descriptor() {
    let fixture = Fixture::new();
    fixture.secret("passphrase", "correct horse\nfor somebody else\n");
    fixture.secret("other", "wrong horse\n");
    let encrypt = "$evener encrypt --passphrase-fd 3 tree sealed 3<passphrase";
    assert_eq!(fixture.shell(encrypt).status, Some(0));
    assert_eq!(fixture.names("sealed"), ["deep", "evener-key.age", "one.enc"]);
    let verify = ["verify", "--passphrase-file", "passphrase", "sealed"];
    fixture.expect(0, &verify);
    let refused = fixture.expect(2, &["verify", "--passphrase-file", "other", "sealed"]);
    assert!(refused.messages.contains("does not open"), "{}", refused.messages);

    // The same passphrase continues with the same key; another one does not make a second.
    fs::write(fixture.path("tree/three"), "later").unwrap();
    let resume = ["encrypt", "--resume", "--passphrase-file"];
    fixture.expect(2, &[&resume[..], &["other", "tree", "sealed"]].concat());
    // Another user's key is not used to encrypt, even if it was there first.
    fs::rename(fixture.path("sealed/evener-key.age"), fixture.path("sealed/evener-key-2.age"))
        .unwrap();
    fixture.expect(0, &["keygen", "-r", RECIPIENT, "-o", "sealed/evener-key.age"]);
    let resumed = fixture
        .expect(0, &[&resume[..], &["passphrase", "-i", "identity", "tree", "sealed"]].concat());
    assert!(resumed.messages.contains("evener-key-2.age, which"), "{resumed:?}");
    fs::rename(fixture.path("sealed/evener-key-2.age"), fixture.path("sealed/evener-key.age"))
        .unwrap();
    assert_eq!(fixture.names("sealed"), ["deep", "evener-key.age", "one.enc", "three.enc"]);
    fixture.expect(0, &verify);
}
