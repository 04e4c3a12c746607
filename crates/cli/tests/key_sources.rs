//! Keys that come from standard input, a descriptor, the environment or a command, and files of
//! secrets that others may read.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use common::{Ended, Fixture, IDENTITY, RECIPIENT, gentle_signals, has};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Runs a shell command line that must succeed.
fn done(fixture: &Fixture, line: &str) -> Ended {
    let ended = fixture.shell(line);
    assert_eq!(ended.status, Some(0), "{line}: {}", ended.messages);
    ended
}

/// Runs a shell command line that must be refused, and returns its message.
fn refused(fixture: &Fixture, line: &str) -> String {
    let ended = fixture.shell(line);
    assert_eq!(ended.status, Some(2), "{line}: {}", ended.messages);
    assert_eq!(ended.messages.lines().count(), 1, "{line}: {}", ended.messages);
    ended.messages
}

#[test]
fn a_key_comes_through_standard_input_or_a_descriptor() {
    let fixture = Fixture::new();
    done(&fixture, "$evener encrypt -k - tree sealed < my.key");
    done(&fixture, "cat my.key | $evener verify -k - sealed");
    done(&fixture, "cat my.key | $evener decrypt -k /dev/fd/3 sealed one 3<&0 </dev/null");
    fixture.assert_same_tree("tree", "one");
    // Standard input can then be the data to encrypt.
    done(&fixture, "echo text | $evener encrypt -k /dev/fd/3 - text.enc 3<my.key");
    done(&fixture, "$evener verify -k my.key text.enc");
    if has("bash") {
        done(&fixture, "bash -c '$evener decrypt -k <(cat my.key) sealed two'");
        fixture.assert_same_tree("tree", "two");
    }
    // A wrapped key, and the identity that opens it.
    done(&fixture, &format!("$evener keygen -r {RECIPIENT} > wrapped.age"));
    done(&fixture, "cat wrapped.age | $evener encrypt -k - -i identity tree other");
    done(&fixture, "cat identity | $evener verify -k wrapped.age -i - other");
    done(&fixture, &format!("echo {RECIPIENT} | $evener encrypt -R - tree third"));
    done(&fixture, "$evener verify -i identity third");
}

#[test]
fn standard_input_is_one_thing() {
    let fixture = Fixture::new();
    for (options, first, second) in [
        ("-k - - out", "--key", "SRC"),
        ("-k /dev/stdin - out", "--key", "SRC"),
        ("-k - -i - tree/one out", "--key", "--identity"),
        ("-r x -R - - out", "--recipients-file", "SRC"),
        ("-k - --passphrase-fd 0 tree/one out", "--key", "--passphrase-fd"),
    ] {
        let told = refused(&fixture, &format!("$evener encrypt {options} < my.key"));
        let expected = format!("evener: {first} and {second} can't both be standard input; ");
        assert!(told.starts_with(&expected), "{told}");
    }
    assert!(!fixture.path("out").exists());
}

#[test]
fn what_comes_through_a_pipe_must_be_a_key() {
    let fixture = Fixture::new();
    for (source, told) in [
        ("true", "can't use `standard input` as a key: it is empty"),
        ("echo swordfish", "neither an `evener-key:` line nor a Tink keyset"),
        ("yes", "`standard input` gives more than 1 MiB"),
    ] {
        let words = refused(&fixture, &format!("{source} | $evener encrypt -k - tree/one out"));
        assert!(words.contains(told), "{words}");
        assert!(!words.contains("swordfish"), "{words}");
    }
    let words = refused(&fixture, "$evener encrypt -k - tree/one out < /dev/null");
    assert!(words.contains("a device or a named pipe"), "{words}");
    let words = refused(&fixture, "$evener encrypt -k \"$(cat my.key)\" tree/one out");
    assert!(words.contains("takes the path of a key file, not the key itself"), "{words}");
    let key = fs::read_to_string(fixture.path("my.key")).unwrap();
    assert!(!words.contains(key.trim()), "{words}");
}

#[test]
fn the_environment_names_a_key_file() {
    let fixture = Fixture::new();
    done(&fixture, "EVENER_KEY_FILE=my.key $evener encrypt tree sealed");
    done(&fixture, "EVENER_KEY_FILE=my.key $evener decrypt sealed restored");
    fixture.assert_same_tree("tree", "restored");
    let listed = done(&fixture, "EVENER_KEY_FILE=my.key $evener list sealed/one.enc");
    assert!(String::from_utf8_lossy(&listed.output).contains("cobblestone-256 "));
    // Options take precedence.
    fixture.expect(0, &["keygen", "-o", "other.key"]);
    done(&fixture, "EVENER_KEY_FILE=other.key $evener verify -k my.key sealed");
    refused(&fixture, "EVENER_KEY_FILE=absent $evener verify sealed");
    done(&fixture, &format!("EVENER_KEY_FILE=absent $evener encrypt -r {RECIPIENT} tree wrapped"));
    assert!(fixture.path("wrapped/evener-key.age").exists());
    done(&fixture, "EVENER_KEY_FILE=absent $evener verify -i identity wrapped");
    let words = refused(&fixture, "EVENER_KEY_FILE= $evener verify sealed");
    assert!(words.contains("no key: give --key"), "{words}");
    // The variable must not hold a key itself.
    let words = refused(&fixture, "EVENER_KEY_FILE=\"$(cat my.key)\" $evener verify sealed");
    assert!(words.contains("EVENER_KEY_FILE holds a key"), "{words}");
    let key = fs::read_to_string(fixture.path("my.key")).unwrap();
    assert!(!words.contains(key.trim()), "{words}");
}

#[test]
fn a_command_writes_the_key() {
    let fixture = Fixture::new();
    done(&fixture, "echo text | $evener encrypt --key-command 'cat my.key' - text.enc");
    let shown = done(&fixture, "$evener decrypt --key-command 'cat my.key' text.enc -");
    assert_eq!(shown.output, b"text\n");
    // The command may have as many open files as Evener had at its start.
    let look = "ulimit -Sn 333; echo text | $evener encrypt --key-command 'ulimit -n >limit; cat my.key' - limited";
    done(&fixture, look);
    assert_eq!(fs::read_to_string(fixture.path("limit")).unwrap(), "333\n");
    done(&fixture, &format!("$evener keygen -r {RECIPIENT} -o wrapped.age"));
    done(&fixture, "$evener encrypt --key-command 'cat wrapped.age' -i identity tree sealed");
    done(&fixture, "$evener verify --key-command 'cat wrapped.age' -i identity sealed");
    for (command, told) in [
        ("printf swordfish; exit 3", "the key command failed (exit status: 3)"),
        ("kill -9 $$", "the key command failed (signal: 9"),
        ("no-such-program-42 2>&-", "the key command failed (exit status: 127)"),
        ("true", "the key command wrote nothing"),
        ("yes", "`what --key-command wrote` gives more than 1 MiB"),
        ("cat", "the key command wrote nothing"),
        ("echo swordfish", "can't use `what --key-command wrote` as a key: "),
    ] {
        let line = format!("cat my.key | $evener encrypt --key-command '{command}' tree/one out");
        let words = refused(&fixture, &line);
        assert!(words.contains(told), "{command}: {words}");
        assert!(!words.contains("swordfish"), "{words}");
    }
    let both = refused(&fixture, "$evener encrypt -k my.key --key-command true tree/one out");
    assert!(both.contains("--key and --key-command exclude each other"), "{both}");
    let format = "--format openssl --cipher aes256 --key-command true";
    let words = refused(&fixture, &format!("$evener encrypt {format} tree/one out"));
    assert!(words.contains("--key-command does not go with --format openssl; "), "{words}");
    assert!(!fixture.path("out").exists());
}

#[test]
fn a_key_command_ends_with_its_terminal() {
    let fixture = Fixture::new();
    let command = "touch started; exec sleep 600";
    let arguments = ["encrypt", "--key-command", command, "tree", "sealed"];
    let mut program = fixture.command(&arguments);
    let child = program.stderr(Stdio::piped()).stdout(Stdio::null()).process_group(0);
    let child = child.spawn().unwrap();
    while !fixture.path("started").exists() {
        sleep(Duration::from_millis(5));
    }
    // The terminal does the same on Ctrl-C.
    kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
    // This ends only when no process has its standard error any more.
    let ended = child.wait_with_output().unwrap();
    let words = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{words}");
    assert!(words.starts_with("evener: interrupted"), "{words}");
    assert!(!fixture.path("sealed").exists());
}

#[test]
fn a_key_command_ends_with_the_program() {
    let fixture = Fixture::new();
    // Several processes, one of which has started another.
    let command = "(sh -c 'touch started; sleep 600; true'; true) | cat; touch went-on";
    for signal in gentle_signals() {
        let arguments = ["encrypt", "--key-command", command, "tree", "sealed"];
        let mut program = fixture.command(&arguments);
        let child = program.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        while !fixture.path("started").exists() {
            sleep(Duration::from_millis(5));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        // This ends only when no process has its standard error any more.
        let ended = child.wait_with_output().unwrap();
        let words = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(130), "{words}");
        assert!(words.contains("evener: interrupted"), "{words}");
        assert!(!fixture.path("went-on").exists() && !fixture.path("sealed").exists());
        fs::remove_file(fixture.path("started")).unwrap();
    }
}

#[test]
fn secrets_that_others_may_read_are_taken_only_on_request() {
    let fixture = Fixture::new();
    fixture.secret("passphrase", "correct horse\n");
    fixture.expect(0, &["keygen", "--passphrase-file", "passphrase", "-o", "locked.key"]);
    fixture.expect(0, &["keygen", "-r", RECIPIENT, "-o", "wrapped.age"]);
    for (mode, secret, options) in [
        (0o644, "my.key", "-k my.key"),
        (0o640, "my.key", "-k my.key"),
        (0o604, "my.key", "-k - < my.key"),
        (0o644, "identity", "-k wrapped.age -i identity"),
        (0o644, "passphrase", "-k locked.key --passphrase-file passphrase"),
    ] {
        fs::set_permissions(fixture.path(secret), fs::Permissions::from_mode(mode)).unwrap();
        let words = refused(&fixture, &format!("$evener encrypt tree/one out {options}"));
        assert!(words.contains("run `chmod 600` on it"), "{words}");
        assert!(!fixture.path("out").exists());
        let insecure = format!("$evener encrypt --insecure-key-file tree/one out {options}");
        let words = done(&fixture, &insecure).messages;
        assert!(words.contains("evener: warning: the secret in "), "{words}");
        assert!(words.contains(&format!("(mode {mode:04o}); run `chmod 600`")), "{words}");
        fs::remove_file(fixture.path("out")).unwrap();
        fs::set_permissions(fixture.path(secret), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let words =
        done(&fixture, "$evener encrypt --insecure-key-file -k my.key tree/one out").messages;
    assert!(!words.contains("warning"), "{words}");
}

/// Containers have their secrets like this: with mode 0444, and nobody can change it.
#[test]
fn a_secret_on_a_read_only_mount_is_taken_with_a_warning() {
    let fixture = Fixture::new();
    let mount = "mount --bind secrets secrets && mount -o remount,bind,ro secrets";
    fixture.shell("mkdir secrets && cp my.key identity secrets && chmod 444 secrets/*");
    if fixture.shell(&format!("unshare -rm sh -c '{mount}'")).status != Some(0) {
        evener_core::skipped!("a read-only mount: namespaces can't be made here");
        return;
    }
    refused(&fixture, "$evener encrypt -k secrets/my.key tree sealed");
    let line = "$evener encrypt -k secrets/my.key tree sealed";
    let words = done(&fixture, &format!("unshare -rm sh -c '{mount} && {line}'")).messages;
    let told = "evener: warning: the secret in secrets/my.key is not yours alone: its group or \
                others may use it (mode 0444); its file system is mounted read-only";
    assert!(words.contains(told), "{words}");
    fixture.expect(0, &["verify", "-k", "my.key", "sealed"]);
    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "wrapped"]);
    let line = "$evener verify -i secrets/identity wrapped";
    let words = done(&fixture, &format!("unshare -rm sh -c '{mount} && {line}'")).messages;
    assert!(words.contains("warning: the secret in secrets/identity"), "{words}");
    assert!(!words.contains(&IDENTITY[20..]), "{words}");
}

#[test]
fn recipients_are_their_owners_and_proper_ones() {
    let fixture = Fixture::new();
    fs::write(fixture.path("team"), RECIPIENT).unwrap();
    fs::set_permissions(fixture.path("team"), fs::Permissions::from_mode(0o666)).unwrap();
    let words = refused(&fixture, "$evener encrypt -R team tree sealed");
    assert!(words.contains("refusing the recipients in `team`"), "{words}");
    let words = refused(&fixture, "$evener keygen -R team");
    assert!(words.contains("run `chmod go-w` on it"), "{words}");
    // Recipients of low order: one of age, and one of SSH.
    for weak in [
        "age1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq5cu47z",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ] {
        let words = refused(&fixture, &format!("$evener encrypt -r '{weak}' tree sealed"));
        assert!(words.contains("can't encrypt for the recipient"), "{words}");
    }
    assert!(!fixture.path("sealed").exists());
    let words = done(&fixture, "$evener encrypt --insecure-key-file -R team tree sealed").messages;
    assert!(words.contains("warning: others may change the recipients in team"), "{words}");
}

/// Anyone who may write to a FIFO determines its content.
#[test]
fn a_fifo_is_checked_as_a_file_is_and_a_pipe_is_not() {
    let fixture = Fixture::new();
    let hexadecimal = "0123456789abcdef0123456789abcdef";
    let openssl = "--format openssl --cipher aes-128-cbc --key-hex-file";
    for (text, options, end) in [
        (RECIPIENT, "-R", ""),
        ("correct horse", "--passphrase-file", ""),
        (hexadecimal, openssl, " --iv-hex-file iv"),
    ] {
        fs::write(fixture.path("iv"), hexadecimal).unwrap();
        for (mode, owner) in [("666", None), ("600", Some("12345")), ("600", None)] {
            let is_root = rustix::process::geteuid().is_root();
            let Some(owner) = (match owner {
                None => Some(String::new()),
                Some(_) if !is_root => None,
                Some(owner) => Some(format!("chown {owner} fifo; ")),
            }) else {
                continue;
            };
            let make = format!("rm -f fifo out; mkfifo -m {mode} fifo; {owner}");
            let write = format!("{{ timeout 60 sh -c 'echo {text} > fifo' & }}; ");
            let read = format!("timeout 60 $evener encrypt {options} fifo{end} tree/one out");
            let ended = fixture.shell(&format!("{make}{write}{read}"));
            let is_own = mode == "600" && owner.is_empty();
            let expected = if is_own { 0 } else { 2 };
            assert_eq!(ended.status, Some(expected), "{options} {mode}: {}", ended.messages);
            assert_eq!(ended.messages.contains("fifo"), !is_own, "{}", ended.messages);
            assert_eq!(fixture.path("out").exists(), is_own);
        }
        let read = format!("$evener encrypt {options} /dev/fd/3{end} tree/one out 3<&0 </dev/null");
        done(&fixture, &format!("rm -f out; echo {text} | {{ {read}; }}"));
        let read = format!("$evener encrypt {options} /proc/self/fd/0{end} tree/one out");
        done(&fixture, &format!("rm -f out; echo {text} | {read}"));
    }
}

/// The encryption would not be what the user expects.
#[test]
fn a_passphrase_that_opens_nothing_is_refused() {
    let fixture = Fixture::new();
    fixture.secret("passphrase", "some words\n");
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "sealed"]);
    for passphrase in ["passphrase", "missing"] {
        let passphrase = ["-k", "my.key", "--passphrase-file", passphrase];
        for arguments in [["encrypt", "tree", "out"], ["decrypt", "sealed", "out"]] {
            let ended = fixture.expect(2, &[&arguments[..], &passphrase].concat());
            assert!(ended.messages.contains("not both"), "{}", ended.messages);
            assert!(!fixture.path("out").exists());
        }
    }
    // A passphrase that opens the key file is not idle.
    fixture.expect(0, &["keygen", "--passphrase-file", "passphrase", "-o", "wrapped"]);
    let wrapped = ["-k", "wrapped", "--passphrase-file", "passphrase"];
    fixture.expect(0, &[&["encrypt", "tree", "other"], &wrapped[..]].concat());
}
