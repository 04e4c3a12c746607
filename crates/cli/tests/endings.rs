//! How the program ends: exit statuses, signals, readers that go away.

mod common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Fixture, RECIPIENT};
use rustix::process::{Pid, Signal, kill_process};

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Waits until the program has read some of its sources.
fn await_work(child: &mut Child) {
    let counters = format!("/proc/{}/io", child.id());
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(60) {
        let text = fs::read_to_string(&counters).unwrap_or_default();
        let read = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        if read.and_then(|bytes| bytes.parse().ok()).is_some_and(|bytes: u64| bytes > 16 << 20) {
            return;
        }
        sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    panic!("the program did not begin");
}

#[test]
fn an_interrupted_pipe_leaves_nothing() {
    let fixture = Fixture::new();
    let before = fixture.names(".");
    let mut command = fixture.command(&["encrypt", "-k", "my.key", "-", "output.enc"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // This is more than a pipe holds: once it is written, the program has read some of it.
    input.write_all(&vec![1; 8 << 20]).unwrap();
    send(&child, Signal::INT);
    let status = child.wait().unwrap();
    drop(input);
    let mut messages = String::new();
    child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
    assert_eq!(status.code(), Some(130), "{messages}");
    assert!(messages.contains("interrupted; encrypted 0 files"), "{messages}");
    assert_eq!(fixture.names("."), before);
}

#[test]
fn an_interrupted_tree_leaves_complete_files_only() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("large")).unwrap();
    // The file is long enough to be interrupted, and takes no blocks on the disk.
    File::create(fixture.path("large/zeros")).unwrap().set_len(8 << 30).unwrap();
    for (signal, keys) in [(Signal::TERM, ["-k", "my.key"]), (Signal::INT, ["-r", RECIPIENT])] {
        let mut command = fixture.command(&["encrypt", keys[0], keys[1], "large", "sealed"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        await_work(&mut child);
        send(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let mut messages = String::new();
        child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        assert!(messages.contains("--resume goes on"), "{messages}");
        // The wrapped key had encrypted nothing that remains, and was removed too.
        let left = fs::read_dir(fixture.path("sealed")).into_iter().flatten().count();
        assert_eq!(left, 0, "after {keys:?}");
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let fixture = Fixture::new();
    // A reader that never comes delays the first signal: the program waits to write.
    let mut command = fixture.command(&["encrypt", "-k", "my.key", "-", "-"]);
    let mut child =
        command.stdin(File::open("/dev/zero").unwrap()).stdout(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 1 << 16];
    child.stdout.as_mut().unwrap().read_exact(&mut some).unwrap();
    send(&child, Signal::INT);
    sleep(Duration::from_millis(600));
    send(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A terminal and a parent may both send a signal, and the work is still reported.
#[test]
fn signals_that_come_together_are_one() {
    let fixture = Fixture::new();
    let mut pauses = vec![30, 10, 3, 1, 0];
    while let Some(pause) = pauses.pop() {
        let mut command = fixture.command(&["encrypt", "-k", "my.key", "--json", "-", "out"]);
        command.stdin(File::open("/dev/zero").unwrap());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        await_work(&mut child);
        let first = Instant::now();
        for signal in [Signal::INT, Signal::INT, Signal::TERM] {
            send(&child, signal);
            sleep(Duration::from_millis(pause));
        }
        // On a busy machine they may come too far apart.
        if first.elapsed() > Duration::from_millis(250) {
            child.wait_with_output().unwrap();
            pauses.push(pause);
            continue;
        }
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let document: serde_json::Value = serde_json::from_str(&text).expect(&text);
        assert_eq!(document["interrupted"], true, "{pause} ms: {text}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let fixture = Fixture::new();
    let mut command = fixture.command(&["encrypt", "-k", "my.key", "-", "-"]);
    command.stdin(File::open("/dev/zero").unwrap());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 1000];
    child.stdout.as_mut().unwrap().read_exact(&mut some).unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    let mut messages = String::new();
    child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
    assert_eq!((status.signal(), messages.as_str()), (Some(Signal::PIPE.as_raw()), ""));
}

#[test]
fn one_broken_file_does_not_stop_the_others() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "sealed"]);
    fs::write(fixture.path("sealed/broken.enc"), "not encrypted at all").unwrap();
    let ended = fixture.expect(1, &["decrypt", "-k", "my.key", "--json", "sealed", "restored"]);
    assert_eq!(ended.messages.lines().count(), 2, "{}", ended.messages);
    assert!(ended.messages.starts_with("evener: sealed/broken.enc: "), "{}", ended.messages);
    let document = ended.document();
    assert_eq!(document["files"], 2);
    assert_eq!(document["failures"][0]["path"], "sealed/broken.enc");
    fixture.assert_same_tree("tree", "restored");
}

#[test]
fn a_tree_of_which_nothing_was_taken_is_no_success() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "sealed"]);
    let keys = ["-i", "identity"];
    for arguments in [
        &["verify", "--suffix", ".sealed", "sealed"][..],
        &["verify", "--include", "*.html", "sealed"],
        &["verify", "--include", "one.enc", "sealed"],
        &["decrypt", "--exclude", "one", "--exclude", "deep", "sealed", "restored"],
    ] {
        let ended = fixture.expect(1, &[arguments, &keys, &["--json"]].concat());
        let told = format!(
            "sealed: nothing was {}",
            if arguments[0] == "verify" { "verified" } else { "decrypted" }
        );
        assert!(ended.messages.contains(&told), "{arguments:?}: {}", ended.messages);
        assert_eq!(ended.document()["failures"][0]["path"], "sealed");
    }
    let ended = fixture.expect(1, &["encrypt", "-k", "my.key", "--include", "none", "tree", "new"]);
    assert!(ended.messages.contains("nothing was encrypted"), "{}", ended.messages);
    fs::create_dir_all(fixture.path("empty/deep")).unwrap();
    // The tree holds nothing but the key.
    fs::copy(fixture.path("sealed/evener-key.age"), fixture.path("empty/deep/evener-key.age"))
        .unwrap();
    fixture.expect(1, &["verify", "-i", "identity", "empty/deep"]);
}

/// As the help says: directories and links count as something, and a tree without them is no
/// success.
#[test]
fn every_command_ends_alike_on_trees_without_files() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("empty")).unwrap();
    fs::create_dir_all(fixture.path("directories/deep")).unwrap();
    fs::create_dir_all(fixture.path("links")).unwrap();
    symlink("nowhere", fixture.path("links/link")).unwrap();
    for (tree, status) in [("empty", 1), ("directories", 0), ("links", 0)] {
        let target = format!("to-{tree}");
        for command in [
            &["encrypt", "-k", "my.key", tree, &target][..],
            &["encrypt", "-k", "my.key", "-n", tree, "planned"],
            &["encrypt", "-k", "my.key", "--update", tree, "updated"],
            &["decrypt", "-k", "my.key", tree, "back"],
            &["decrypt", "-k", "my.key", "-n", tree, "planned"],
            &["verify", "-k", "my.key", tree],
            &["list", tree],
        ] {
            let ended = fixture.expect(status, command);
            let told = "it holds neither files nor links nor directories";
            assert_eq!(ended.messages.contains(told), status == 1, "{}", ended.messages);
            assert!(!fixture.path("planned").exists());
        }
        assert_eq!(fixture.path(&target).exists(), status == 0);
        if status == 0 {
            fixture.expect(0, &["decrypt", "-k", "my.key", &target, &format!("from-{tree}")]);
            for name in fixture.names(tree) {
                let back = fixture.path(&format!("from-{tree}")).join(name);
                assert!(fs::symlink_metadata(back).is_ok());
            }
        }
        for made in ["back", "updated"] {
            let _ = fs::remove_dir_all(fixture.path(made));
        }
    }
    // A single empty tree beside others may be intended; several trees that are all empty may not.
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "empty", "several/"]);
    fixture.expect(0, &["decrypt", "-k", "my.key", "several/tree", "several/empty", "back/"]);
    fs::create_dir(fixture.path("void")).unwrap();
    let ended = fixture.expect(1, &["encrypt", "-k", "my.key", "void", "empty", "none/"]);
    assert!(ended.messages.contains("; 2 failed"), "{}", ended.messages);
    // Left-out entries do not count as work.
    let made = std::process::Command::new("mkfifo").arg(fixture.path("void/fifo")).status();
    assert!(made.unwrap().success());
    for command in
        [&["encrypt", "void", "none"][..], &["decrypt", "void", "none"], &["verify", "void"]]
    {
        let ended = fixture.expect(1, &[command, &["-k", "my.key"]].concat());
        assert!(ended.messages.contains("all that it holds was left out"), "{}", ended.messages);
    }
}

#[test]
fn links_and_empty_directories_that_only_names_are_restored() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("tree/links")).unwrap();
    fs::create_dir_all(fixture.path("tree/empty")).unwrap();
    symlink("z", fixture.path("tree/links/l")).unwrap();
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "sealed"]);
    let decrypt = ["decrypt", "-k", "my.key", "sealed"];
    for (number, only) in ["links", "links/l", "empty"].iter().enumerate() {
        let target = format!("restored-{number}");
        let ended = fixture.expect(0, &[&decrypt[..], &["--only", only, &target]].concat());
        assert!(!ended.messages.contains("nothing was"), "{only}: {}", ended.messages);
        let made = fixture.path(&target).join(only);
        assert!(fs::symlink_metadata(&made).is_ok(), "{only}");
        let link = fixture.path(&target).join("links/l");
        assert_eq!(fs::read_link(link).ok(), only.contains("links").then(|| "z".into()), "{only}");
    }
    // If there are files to take, or the named entries are left out, nothing was done.
    for only in
        [&["--only", "deep", "--exclude", "two"][..], &["--only", "empty", "--exclude", "empty"]]
    {
        let ended = fixture.expect(1, &[&decrypt[..], only, &["none"]].concat());
        assert!(ended.messages.contains("nothing was decrypted"), "{}", ended.messages);
        assert!(!fixture.path("none").exists());
    }
}

#[test]
fn a_wrong_key_is_one_for_every_name_of_a_file() {
    let fixture = Fixture::new();
    fixture.expect(0, &["keygen", "-o", "other.key"]);
    fs::hard_link(fixture.path("tree/one"), fixture.path("tree/again")).unwrap();
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "sealed"]);
    fixture.expect(2, &["verify", "-k", "other.key", "sealed"]);
    let ended = fixture.expect(2, &["decrypt", "-k", "other.key", "sealed", "restored"]);
    assert!(ended.messages.contains("is a hard link to `"), "{}", ended.messages);
    // If a file failed for another reason, the key alone is not to blame.
    fs::write(fixture.path("sealed/broken.enc"), "not encrypted at all").unwrap();
    fixture.expect(1, &["decrypt", "-k", "other.key", "sealed", "restored"]);
}

#[test]
fn json_is_one_document_whatever_happens() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "sealed"]);
    let verify = |status, key, source| {
        fixture.expect(status, &["verify", "--json", "-q", "-k", key, source]).document()
    };
    let document = verify(0, "my.key", "sealed");
    assert_eq!(document["failures"].as_array().map(Vec::len), Some(0));
    assert_eq!(document["cipher"], "aes-256-gcm");
    assert_eq!(verify(2, "my.key", "absent")["failures"][0]["path"], "absent");
    let document = verify(2, "absent.key", "sealed");
    let cause = document["failures"][0]["cause"].as_str().unwrap();
    assert!(cause.contains("absent.key"), "{cause}");
}

#[test]
fn what_cant_be_understood_is_in_a_document_too() {
    let fixture = Fixture::new();
    for (arguments, operation, cause) in [
        (
            &["verify", "--json", "--no-such", "tree"][..],
            "verify",
            "unexpected argument '--no-such'",
        ),
        (&["encrypt", "-k", "my.key", "--json"], "encrypt", "arguments were not provided"),
        (&["encrypt", "--json", "-j", "x", "tree", "sealed"], "encrypt", "invalid value 'x'"),
        (&["list", "--json", "--format", "zip", "tree"], "", "invalid value 'zip'"),
        (&["--json"], "", "unexpected argument '--json'"),
    ] {
        let ended = fixture.expect(2, arguments);
        let document = ended.document();
        // Other documents lack the operation.
        let named = document["operation"].as_str().unwrap_or_default();
        assert_eq!(named, operation, "{arguments:?}");
        let told = document["failures"][0]["cause"].as_str().unwrap();
        assert!(told.contains(cause) && !told.contains('\n'), "{arguments:?}: {told}");
        assert!(ended.messages.starts_with("evener: "), "{}", ended.messages);
    }
    let document = fixture.expect(2, &["list", "--json", "-k", "absent.key", "tree"]).document();
    let cause = document["failures"][0]["cause"].as_str().unwrap();
    assert!(cause.contains("absent.key"), "{cause}");
    // Help was asked for; and a name is not an option.
    let ended = fixture.expect(0, &["verify", "--json", "--help"]);
    assert!(!ended.output.is_empty() && !ended.output.starts_with(b"{"));
    assert_eq!(fixture.expect(2, &["verify", "--no-such", "--", "--json"]).output, b"");
}

#[test]
fn names_that_are_no_text_lose_nothing_in_the_document() {
    let fixture = Fixture::new();
    let name = OsStr::from_bytes(b"caf\xe9");
    let sealed = OsStr::from_bytes(b"caf\xe9.enc");
    fs::write(fixture.path("tree").join(name), "odd").unwrap();
    let encrypt = ["encrypt", "--json", "-q", "-k", "my.key", "tree", "sealed"];
    fixture.expect(0, &encrypt);
    let document = fixture.expect(1, &encrypt).document();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let failures = document["failures"].as_array().unwrap();
    let odd: Vec<_> = failures.iter().filter(|failure| !failure["path_hex"].is_null()).collect();
    assert_eq!(odd.len(), 1, "{document}");
    assert_eq!(odd[0]["path_hex"], hex(b"tree/caf\xe9"));
    assert_eq!(odd[0]["path"], "tree/caf\u{fffd}");
    let document = fixture.expect(0, &["list", "--json", "sealed"]).document();
    let files = document["files"].as_array().unwrap();
    let odd: Vec<_> = files.iter().filter(|file| !file["path_hex"].is_null()).collect();
    assert_eq!(odd.len(), 1, "{document}");
    assert_eq!(odd[0]["path_hex"], hex(&[b"sealed/", sealed.as_bytes()].concat()));
}

#[test]
fn a_full_device_for_the_document_is_an_error() {
    let fixture = Fixture::new();
    let ended = fixture.shell("$evener engines --json > /dev/full");
    assert_eq!(ended.status, Some(1), "{}", ended.messages);
    let ended = fixture.shell("$evener keygen > /dev/full");
    assert_eq!(ended.messages, "evener: can't write to standard output: No space left on device\n");
}

#[test]
fn outputs_on_a_full_device_are_no_files() {
    let fixture = Fixture::new();
    let ended = fixture.shell("$evener encrypt -k my.key tree/deep/two - > /dev/full");
    assert_eq!(ended.status, Some(1), "{}", ended.messages);
    assert!(ended.messages.contains("No space left on device"), "{}", ended.messages);
}

#[test]
fn files_beyond_the_limit_of_open_ones_fail_with_advice() {
    let fixture = Fixture::new();
    for number in 0..300 {
        fs::create_dir_all(fixture.path(&format!("wide/{number}"))).unwrap();
        fs::write(fixture.path(&format!("wide/{number}/file")), "content").unwrap();
    }
    // Workers that keep up with the walk need few files, but each needs some.
    let begun = [30, 20, 12, 10].into_iter().find(|limit| {
        let line = format!("ulimit -n {limit}; $evener encrypt -k my.key wide sealed-{limit}");
        let ended = fixture.shell(&line);
        if ended.status != Some(0) {
            for told in ["Too many open files", "; `ulimit -n` allows more"] {
                assert!(ended.messages.contains(told), "{limit}: {}", ended.messages);
            }
        }
        ended.status == Some(1)
    });
    let sealed = format!("sealed-{}", begun.expect("no limit was too low"));
    fixture.expect(0, &["encrypt", "-k", "my.key", "--resume", "wide", &sealed]);
    fixture.expect(0, &["verify", "-k", "my.key", &sealed]);
}
