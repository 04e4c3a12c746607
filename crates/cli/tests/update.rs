//! Bringing an encrypted tree up to date.

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use common::{Fixture, RECIPIENT, has};

/// Waits until the filesystem's clock has advanced, so that later files are newer than earlier
/// ones.
fn let_time_pass(fixture: &Fixture) {
    let changed = |name: &str| {
        fs::write(fixture.path(name), "").unwrap();
        let status = fs::metadata(fixture.path(name)).unwrap();
        (status.ctime(), status.ctime_nsec())
    };
    let before = changed("before");
    while changed("after") <= before {
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_update_says_what_it_did() {
    let fixture = Fixture::new();
    let update = ["encrypt", "-k", "my.key", "--update"];
    let run = |options: &[&str]| {
        let ended = fixture.expect(0, &[&update, options, &["tree", "sealed"]].concat());
        ended.messages.lines().last().unwrap_or_default().to_owned()
    };
    let_time_pass(&fixture);
    assert!(run(&[]).starts_with("evener: encrypted 2 files, "));
    assert!(run(&[]).ends_with("; 2 unchanged"));
    fs::write(fixture.path("tree/one"), "another content").unwrap();
    fs::write(fixture.path("tree/new"), "new").unwrap();
    assert_eq!(run(&["-n"]), "evener: would encrypt 2 files, 18 B; 1 to update; 1 unchanged");
    let told = run(&[]);
    assert!(told.starts_with("evener: encrypted 2 files, 18 B in "), "{told}");
    assert!(told.ends_with("; 1 updated; 1 unchanged"), "{told}");
    let_time_pass(&fixture);
    fs::remove_file(fixture.path("tree/new")).unwrap();
    fs::remove_dir_all(fixture.path("tree/deep")).unwrap();
    let ended = fixture.expect(0, &[&update[..], &["--delete", "-n", "tree", "sealed"]].concat());
    let told = "evener: sealed/deep/two.enc: its source has gone, so it would be deleted\n\
                evener: sealed/new.enc: its source has gone, so it would be deleted\n\
                evener: would encrypt 0 files, 0 B; 1 unchanged; 2 to delete\n";
    // The earlier update may have been in the same tick as its source.
    let same = ended.messages.replace("would encrypt 1 file, 15 B; 1 to update", UNCHANGED);
    let same = same.replace("evener: would update tree/one\n", "");
    assert_eq!(same, told);
    let delete = [&update[..], &["--delete", "--yes", "--json", "tree", "sealed"]].concat();
    let document = fixture.expect(0, &delete).document();
    assert_eq!(document["files_deleted"], 2);
    assert_eq!(document["update"], true);
    assert_eq!(fixture.names("sealed"), [".evener-mounts", "one.enc"]);
    fixture.expect(0, &["decrypt", "-q", "-k", "my.key", "sealed", "back"]);
    fixture.assert_same_tree("tree", "back");
}

const UNCHANGED: &str = "would encrypt 0 files, 0 B; 1 unchanged";

#[test]
fn nothing_is_deleted_unasked() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "sealed"]);
    fs::remove_file(fixture.path("tree/one")).unwrap();
    let delete = ["encrypt", "-k", "my.key", "--update", "--delete", "tree", "sealed"];
    let ended = fixture.expect(2, &delete);
    assert!(ended.messages.contains("there is no terminal to ask on; --yes deletes"), "{ended:?}");
    for arguments in [
        &["--delete", "--yes"][..],
        &["--update", "--yes"],
        &["--update", "--resume"],
        &["--update", "--remove-source"],
    ] {
        fixture.expect(2, &[&["encrypt", "-k", "my.key"], arguments, &["tree", "sealed"]].concat());
    }
    let decrypt = ["decrypt", "-k", "my.key", "--update", "--delete", "-y", "sealed", "back"];
    let ended = fixture.expect(2, &decrypt);
    assert!(
        ended.messages.contains("only by an encryption that updates a tree"),
        "{}",
        ended.messages
    );
    let file = ["encrypt", "-k", "my.key", "--update", "--delete", "-y", "my.key", "sealed"];
    let ended = fixture.expect(2, &file);
    assert!(ended.messages.contains("SRC is no tree"), "{}", ended.messages);
    assert!(fixture.path("sealed/one.enc").exists());
    if !has("python3") {
        evener_core::skipped!("there is no python3 to make a terminal");
        return;
    }
    let program = r#"
import os, pty, sys
for answer in [b"n\n", b"\n", b"\x04", b"y\n"]:
    assert os.path.exists("sealed/one.enc")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.argv[1], sys.argv[1:])
    shown = b""
    while b"[y/N] " not in shown:
        shown += os.read(terminal, 1000)
    assert b"sealed/one.enc: its source has gone" in shown, shown
    assert b"delete 1 output? " in shown, shown
    os.write(terminal, answer)
    while True:
        try:
            shown += os.read(terminal, 1000)
        except OSError:
            break
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    said = b"; 1 deleted" if answer == b"y\n" else b"sealed: nothing was deleted"
    assert said in shown, (answer, shown)
assert not os.path.exists("sealed/one.enc")
"#;
    let mut command = Command::new("python3");
    command.args(["-c", program, env!("CARGO_BIN_EXE_evener")]).args(delete);
    let output = command.current_dir(fixture.path(".")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_updated_tree_keeps_its_one_key() {
    let fixture = Fixture::new();
    let update = ["encrypt", "-q", "-r", RECIPIENT, "--update", "tree", "sealed"];
    fixture.expect(0, &update);
    fs::write(fixture.path("tree/one"), "another content").unwrap();
    let ended = fixture.expect(2, &update);
    let told = "--update goes on with the key in sealed/evener-key.age, and does not add another";
    assert!(ended.messages.contains(told), "{}", ended.messages);
    for options in [&["-i", "identity"][..], &["-i", "identity", "-r", RECIPIENT]] {
        fs::write(fixture.path("tree/deep/three"), options.len().to_string()).unwrap();
        let rest = ["--update", "--json", "tree", "sealed"];
        let document = fixture.expect(0, &[&["encrypt"], options, &rest[..]].concat()).document();
        assert_ne!(document["files"], 0);
    }
    assert_eq!(fixture.names("sealed"), ["deep", "evener-key.age", "one.enc"]);
    fixture.expect(0, &["decrypt", "-q", "-i", "identity", "sealed", "back"]);
    fixture.assert_same_tree("tree", "back");
    fs::rename(fixture.path("sealed"), fixture.path("moved")).unwrap();
    let moved = ["encrypt", "-i", "identity", "-r", RECIPIENT, "--update", "tree", "moved"];
    let ended = fixture.expect(2, &moved);
    for told in ["you made it for another place", "name it with --key moved/evener-key.age"] {
        assert!(ended.messages.contains(told), "{}", ended.messages);
    }
    let key = ["encrypt", "--key", "moved/evener-key.age", "-i", "identity", "--update"];
    fixture.expect(0, &[&key[..], &["tree", "moved"]].concat());
}

/// A file system in an image, mounted at `mount`, and unmounted again in the end.
struct Image {
    mount: std::path::PathBuf,
    /// The loop device, for a driver that does not accept a plain file.
    device: Option<String>,
}

impl Image {
    /// Returns `None`, with a message, if this machine can't make or mount it.
    fn new(fixture: &Fixture, make: &[&str], mount: &[&str]) -> Option<Image> {
        let image = fixture.path("image");
        fs::File::create(&image).unwrap().set_len(20 << 20).unwrap();
        let at = fixture.path("mount");
        fs::create_dir(&at).unwrap();
        let runs = |words: &[&str], further: &[&std::path::Path]| {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).args(further).current_dir(fixture.path("."));
            command.output().is_ok_and(|output| output.status.success())
        };
        let mut made = Image { mount: at.clone(), device: None };
        if runs(make, &[&image]) {
            if runs(mount, &[&image, &at]) {
                return Some(made);
            }
            let looped = Command::new("losetup").args(["-f", "--show"]).arg(&image).output();
            let device = looped.ok().filter(|output| output.status.success());
            let device = device.and_then(|output| String::from_utf8(output.stdout).ok());
            made.device = device.map(|name| name.trim().to_owned());
            if let Some(device) = &made.device
                && runs(mount, &[device.as_ref(), &at])
            {
                return Some(made);
            }
        }
        evener_core::skipped!("{} or {} does not work here", make[0], mount[0]);
        None
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.mount).output();
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").args(["-d", device]).output();
        }
    }
}

/// This file system finds a name in any case, and lists it in another one.
#[test]
fn where_names_ignore_case_nothing_that_is_wanted_is_deleted() {
    let fixture = Fixture::new();
    let mount = ["lowntfs-3g", "-o", "ignore_case"];
    let Some(_image) = Image::new(&fixture, &["mkfs.ntfs", "-QF"], &mount) else { return };
    fs::create_dir(fixture.path("tree/Deep2")).unwrap();
    fs::write(fixture.path("tree/README"), "precious").unwrap();
    fs::write(fixture.path("tree/Deep2/Other"), "precious").unwrap();
    fs::write(fixture.path("tree/gone"), "gone").unwrap();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "mount/d"]);
    fs::remove_file(fixture.path("tree/gone")).unwrap();
    let update = ["encrypt", "-k", "my.key", "--update", "--delete", "-y", "tree", "mount/d"];
    let ended = fixture.expect(0, &update);
    assert!(ended.messages.contains("; 1 deleted"), "{}", ended.messages);
    let kept = [".evener-mounts", "deep", "deep2", "one.enc", "readme.enc"];
    let mut names = fixture.names("mount/d");
    names.iter_mut().for_each(|name| name.make_ascii_lowercase());
    names.sort();
    assert_eq!(names, kept);
    fixture.expect(0, &["verify", "-q", "-k", "my.key", "mount/d"]);
    assert!(fixture.path("mount/d/README.enc").exists());
    assert!(fixture.path("mount/d/Deep2/Other.enc").exists());
}

/// This file system gives a file a different number for each spelling of its name.
#[test]
fn two_sources_never_share_an_output() {
    let fixture = Fixture::new();
    let mount = ["mount.exfat-fuse"];
    let Some(_image) = Image::new(&fixture, &["mkfs.exfat"], &mount) else { return };
    for name in ["File", "file"] {
        fs::create_dir_all(fixture.path("two")).unwrap();
        fs::write(fixture.path("two").join(name), name.repeat(name.len())).unwrap();
    }
    for option in ["--update", "--overwrite", "--update"] {
        let ended = fixture.expect(1, &["encrypt", "-k", "my.key", option, "two", "mount/d"]);
        assert!(
            ended.messages.contains("takes their two names for one"),
            "{option}: {}",
            ended.messages
        );
    }
    // A directory was renamed in case only, with a foreign file in its counterpart.
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "mount/t"]);
    fs::rename(fixture.path("tree/deep"), fixture.path("tree/DEEP")).unwrap();
    let update = ["encrypt", "-k", "my.key", "--update", "--delete", "-y", "tree", "mount/t"];
    let ended = fixture.expect(0, &update);
    assert!(!ended.messages.contains("deleted"), "{}", ended.messages);
    assert!(fixture.path("mount/t/deep/two.enc").exists());
}

/// The document's counts for two files whose names are the same in the target.
fn counts(fixture: &Fixture, options: &[&str], names: [&str; 2]) -> [u64; 5] {
    let command = [&["encrypt", "--json", "-k", "my.key"], options, &names].concat();
    let document = fixture.expect(1, &command).document();
    let count = |field: &str| document[field].as_u64().unwrap();
    let failures = document["failures"].as_array().unwrap().len() as u64;
    let [done, updated] = [count("files"), count("files_updated")];
    [done, updated, count("files_unchanged"), count("directories"), failures]
}

/// Each source is counted once, as done or as failed, and the number done equals the number of
/// outputs.
#[test]
fn names_that_are_one_are_counted_as_one() {
    let makers = [
        (&["mkfs.exfat"][..], &["mount.exfat-fuse"][..]),
        (&["mkfs.ntfs", "-QF"], &["lowntfs-3g", "-o", "ignore_case"]),
    ];
    for (make, mount) in makers {
        let fixture = Fixture::new();
        let Some(_image) = Image::new(&fixture, make, mount) else { continue };
        for name in ["File", "file", "FILE"] {
            fs::create_dir_all(fixture.path("three")).unwrap();
            fs::write(fixture.path("three").join(name), name.repeat(name.len())).unwrap();
        }
        for (number, options) in [&[][..], &["--overwrite"], &["--update"]].iter().enumerate() {
            let target = format!("mount/{number}");
            let ends = ["three", &*target];
            assert_eq!(counts(&fixture, options, ends), [1, 0, 0, 1, 2], "{make:?} {options:?}");
            assert_eq!(fixture.names(&target).len(), 1, "{make:?} {options:?}");
            // Now something exists beforehand.
            let again = counts(&fixture, &["--overwrite"], ends);
            assert_eq!(again, [1, 0, 0, 1, 2], "{make:?} {options:?}");
            let planned = counts(&fixture, &["--overwrite", "-n"], ends);
            assert_eq!(planned, [1, 0, 0, 1, 2], "{make:?} {options:?}");
            assert_eq!(fixture.names(&target).len(), 1, "{make:?} {options:?}");
        }
        // Symbolic links, if there are any.
        if make[0] == "mkfs.ntfs" {
            fs::create_dir(fixture.path("links")).unwrap();
            for (name, text) in [("Link", "a"), ("link", "b")] {
                std::os::unix::fs::symlink(text, fixture.path("links").join(name)).unwrap();
            }
            let ended = fixture.run(&[
                "encrypt",
                "--json",
                "-k",
                "my.key",
                "--overwrite",
                "links",
                "mount/l",
            ]);
            assert_eq!((ended.status, &ended.document()["symlinks"]), (Some(1), &1.into()));
        }
        // Two directories, one of which would take the other's files.
        for (name, file) in [("Deep", "one"), ("DEEP", "one"), ("DEEP", "two")] {
            fs::create_dir_all(fixture.path("pair").join(name)).unwrap();
            fs::write(fixture.path("pair").join(name).join(file), name).unwrap();
        }
        for options in [&[][..], &["--overwrite"], &["--update"]] {
            let [files, updated, unchanged, directories, failures] =
                counts(&fixture, options, ["pair", "mount/pair"]);
            assert_eq!((directories, failures), (2, 1), "{make:?} {options:?}");
            let of_one = fixture.path("mount/pair/deep");
            let stored = fs::read_dir(&of_one).unwrap().count() as u64;
            assert_eq!(files.max(updated) + unchanged, stored, "{make:?} {options:?}");
            fs::remove_dir_all(fixture.path("mount/pair")).unwrap();
        }
    }
}

#[test]
fn one_source_of_several_does_not_take_the_place_of_all() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("letters")).unwrap();
    fs::write(fixture.path("letters/2"), "2").unwrap();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "letters", "backup/"]);
    let update = ["encrypt", "-k", "my.key", "--update", "--delete", "-y"];
    for target in ["backup/", "backup"] {
        let ended = fixture.expect(2, &[&update[..], &["tree", target]].concat());
        assert!(
            ended.messages.contains("would delete backup/tree, which seems to be"),
            "{}",
            ended.messages
        );
        assert_eq!(fixture.names("backup"), ["letters", "tree"]);
    }
    fixture.expect(0, &[&update[..], &["tree", "backup/tree"]].concat());
    fixture.expect(0, &[&update[..], &["tree", "letters", "backup/"]].concat());
}

#[test]
fn a_tree_without_files_to_decrypt_is_no_success() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("empty")).unwrap();
    for arguments in [&["verify", "empty"][..], &["decrypt", "empty", "back"]] {
        let ended = fixture.expect(1, &[arguments, &["-k", "my.key"]].concat());
        assert!(ended.messages.contains(": it holds neither files"), "{}", ended.messages);
    }
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "sealed"]);
    for choice in [["--exclude", "one"], ["--include", "two"]] {
        let decrypt = ["decrypt", "-k", "my.key", "--only", "one", "sealed", "part"];
        let ended = fixture.expect(1, &[&decrypt[..], &choice].concat());
        assert!(ended.messages.contains("nothing was decrypted"), "{}", ended.messages);
    }
}

#[test]
fn help_that_can_not_be_printed_is_no_success() {
    let fixture = Fixture::new();
    for arguments in ["help", "help encrypt", "--version", "list tree"] {
        let ended = fixture.shell(&format!("$evener {arguments} >/dev/full"));
        let told = "evener: can't write to standard output: No space left on device\n";
        assert_eq!((ended.status, &*ended.messages), (Some(1), told), "{arguments}");
    }
}

#[test]
fn a_key_of_which_no_note_can_be_kept_is_told_of() {
    let fixture = Fixture::new();
    let mut command = fixture.command(&["encrypt", "-r", RECIPIENT, "tree", "sealed"]);
    let ended = common::Ended::of(command.env_remove("XDG_STATE_HOME").env("HOME", "/proc"));
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    assert!(ended.messages.contains("no note of this key could be kept"), "{}", ended.messages);
}
