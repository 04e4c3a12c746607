//! Keys that come from standard input, a descriptor, the environment or a command, and files of
//! secrets that others may read.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use common::{Bench, Ended, IDENTITY, RECIPIENT, has};
use rustix::process::{Pid, Signal, kill_process_group};

/// Runs a line of shell that is to succeed.
fn done(bench: &Bench, line: &str) -> Ended {
    let ended = bench.shell(line);
    assert_eq!(ended.status, Some(0), "{line}: {}", ended.messages);
    ended
}

/// Runs a line of shell that is to be refused, and gives its words.
fn refused(bench: &Bench, line: &str) -> String {
    let ended = bench.shell(line);
    assert_eq!(ended.status, Some(2), "{line}: {}", ended.messages);
    assert_eq!(ended.messages.lines().count(), 1, "{line}: {}", ended.messages);
    ended.messages
}

#[test]
fn a_key_comes_through_standard_input_or_a_descriptor() {
    let bench = Bench::new();
    done(&bench, "$evener encrypt -k - tree sealed < my.key");
    done(&bench, "cat my.key | $evener verify -k - sealed");
    done(&bench, "cat my.key | $evener decrypt -k /dev/fd/3 sealed one 3<&0 </dev/null");
    bench.assert_same_tree("tree", "one");
    // What is encrypted can be standard input then.
    done(&bench, "echo text | $evener encrypt -k /dev/fd/3 - text.enc 3<my.key");
    done(&bench, "$evener verify -k my.key text.enc");
    if has("bash") {
        done(&bench, "bash -c '$evener decrypt -k <(cat my.key) sealed two'");
        bench.assert_same_tree("tree", "two");
    }
    // A wrapped key, and what opens it.
    done(&bench, &format!("$evener keygen -r {RECIPIENT} > wrapped.age"));
    done(&bench, "cat wrapped.age | $evener encrypt -k - -i identity tree other");
    done(&bench, "cat identity | $evener verify -k wrapped.age -i - other");
    done(&bench, &format!("echo {RECIPIENT} | $evener encrypt -R - tree third"));
    done(&bench, "$evener verify -i identity third");
}

#[test]
fn standard_input_is_one_thing() {
    let bench = Bench::new();
    for (options, first, second) in [
        ("-k - - out", "--key", "SRC"),
        ("-k /dev/stdin - out", "--key", "SRC"),
        ("-k - -i - tree/one out", "--key", "--identity"),
        ("-r x -R - - out", "--recipients-file", "SRC"),
        ("-k - --passphrase-fd 0 tree/one out", "--key", "--passphrase-fd"),
    ] {
        let told = refused(&bench, &format!("$evener encrypt {options} < my.key"));
        let expected = format!("evener: {first} and {second} can't both be standard input; ");
        assert!(told.starts_with(&expected), "{told}");
    }
    assert!(!bench.path("out").exists());
}

#[test]
fn what_comes_through_a_pipe_must_be_a_key() {
    let bench = Bench::new();
    for (source, told) in [
        ("true", "cannot use \"standard input\" as a key: it is empty"),
        ("echo swordfish", "neither an `evener-key:` line nor a Tink keyset"),
        ("yes", "\"standard input\" gives more than 1 MiB"),
    ] {
        let words = refused(&bench, &format!("{source} | $evener encrypt -k - tree/one out"));
        assert!(words.contains(told), "{words}");
        assert!(!words.contains("swordfish"), "{words}");
    }
    let words = refused(&bench, "$evener encrypt -k - tree/one out < /dev/null");
    assert!(words.contains("is not a regular file"), "{words}");
    let words = refused(&bench, "$evener encrypt -k \"$(cat my.key)\" tree/one out");
    assert!(words.contains("takes the path of a key file, not the key itself"), "{words}");
    let key = fs::read_to_string(bench.path("my.key")).unwrap();
    assert!(!words.contains(key.trim()), "{words}");
}

#[test]
fn the_environment_names_a_key_file() {
    let bench = Bench::new();
    done(&bench, "EVENER_KEY_FILE=my.key $evener encrypt tree sealed");
    done(&bench, "EVENER_KEY_FILE=my.key $evener decrypt sealed restored");
    bench.assert_same_tree("tree", "restored");
    let listed = done(&bench, "EVENER_KEY_FILE=my.key $evener list sealed/one.enc");
    assert!(String::from_utf8_lossy(&listed.output).contains("cobblestone-256 "));
    // What is given by an option goes first.
    bench.expect(0, &["keygen", "-o", "other.key"]);
    done(&bench, "EVENER_KEY_FILE=other.key $evener verify -k my.key sealed");
    refused(&bench, "EVENER_KEY_FILE=absent $evener verify sealed");
    done(&bench, &format!("EVENER_KEY_FILE=absent $evener encrypt -r {RECIPIENT} tree wrapped"));
    assert!(bench.path("wrapped/evener-key.age").exists());
    done(&bench, "EVENER_KEY_FILE=absent $evener verify -i identity wrapped");
    let words = refused(&bench, "EVENER_KEY_FILE= $evener verify sealed");
    assert!(words.contains("no key: give --key"), "{words}");
    // It holds no key itself.
    let words = refused(&bench, "EVENER_KEY_FILE=\"$(cat my.key)\" $evener verify sealed");
    assert!(words.contains("EVENER_KEY_FILE holds a key"), "{words}");
    let key = fs::read_to_string(bench.path("my.key")).unwrap();
    assert!(!words.contains(key.trim()), "{words}");
}

#[test]
fn a_command_writes_the_key() {
    let bench = Bench::new();
    done(&bench, "echo text | $evener encrypt --key-command 'cat my.key' - text.enc");
    let shown = done(&bench, "$evener decrypt --key-command 'cat my.key' text.enc -");
    assert_eq!(shown.output, b"text\n");
    done(&bench, &format!("$evener keygen -r {RECIPIENT} -o wrapped.age"));
    done(&bench, "$evener encrypt --key-command 'cat wrapped.age' -i identity tree sealed");
    done(&bench, "$evener verify --key-command 'cat wrapped.age' -i identity sealed");
    for (command, told) in [
        ("printf swordfish; exit 3", "the key command failed (exit status: 3)"),
        ("kill -9 $$", "the key command failed (signal: 9"),
        ("no-such-program-42 2>&-", "the key command failed (exit status: 127)"),
        ("true", "the key command wrote nothing"),
        ("yes", "\"what --key-command wrote\" gives more than 1 MiB"),
        ("cat", "the key command wrote nothing"),
        ("echo swordfish", "cannot use \"what --key-command wrote\" as a key: "),
    ] {
        let line = format!("cat my.key | $evener encrypt --key-command '{command}' tree/one out");
        let words = refused(&bench, &line);
        assert!(words.contains(told), "{command}: {words}");
        assert!(!words.contains("swordfish"), "{words}");
    }
    let both = refused(&bench, "$evener encrypt -k my.key --key-command true tree/one out");
    assert!(both.contains("--key and --key-command exclude each other"), "{both}");
    let format = "--format openssl --cipher aes256 --key-command true";
    let words = refused(&bench, &format!("$evener encrypt {format} tree/one out"));
    assert!(words.contains("--key-command does not go with --format openssl; "), "{words}");
    assert!(!bench.path("out").exists());
}

#[test]
fn a_key_command_ends_with_its_terminal() {
    let bench = Bench::new();
    let command = "touch started; exec sleep 600";
    let arguments = ["encrypt", "--key-command", command, "tree", "sealed"];
    let mut program = bench.command(&arguments);
    let child = program.stderr(Stdio::piped()).stdout(Stdio::null()).process_group(0);
    let child = child.spawn().unwrap();
    while !bench.path("started").exists() {
        sleep(Duration::from_millis(5));
    }
    // As the terminal does on Ctrl-C.
    kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
    // Ends only when nobody has its standard error any more.
    let ended = child.wait_with_output().unwrap();
    let words = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{words}");
    assert!(words.starts_with("evener: interrupted"), "{words}");
    assert!(!bench.path("sealed").exists());
}

#[test]
fn secrets_that_others_may_read_are_taken_only_on_request() {
    let bench = Bench::new();
    bench.secret("passphrase", "correct horse\n");
    bench.expect(0, &["keygen", "--passphrase-file", "passphrase", "-o", "locked.key"]);
    bench.expect(0, &["keygen", "-r", RECIPIENT, "-o", "wrapped.age"]);
    for (mode, secret, options) in [
        (0o644, "my.key", "-k my.key"),
        (0o640, "my.key", "-k my.key"),
        (0o604, "my.key", "-k - < my.key"),
        (0o644, "identity", "-k wrapped.age -i identity"),
        (0o644, "passphrase", "-k locked.key --passphrase-file passphrase"),
    ] {
        fs::set_permissions(bench.path(secret), fs::Permissions::from_mode(mode)).unwrap();
        let words = refused(&bench, &format!("$evener encrypt tree/one out {options}"));
        assert!(words.contains("run `chmod 600` on it"), "{words}");
        assert!(!bench.path("out").exists());
        let insecure = format!("$evener encrypt --insecure-key-file tree/one out {options}");
        let words = done(&bench, &insecure).messages;
        assert!(words.contains("evener: warning: the secret in "), "{words}");
        assert!(words.contains(&format!("(mode {mode:04o}); run `chmod 600`")), "{words}");
        fs::remove_file(bench.path("out")).unwrap();
        fs::set_permissions(bench.path(secret), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let words = done(&bench, "$evener encrypt --insecure-key-file -k my.key tree/one out").messages;
    assert!(!words.contains("warning"), "{words}");
}

/// As containers have their secrets: of mode 0444, and nobody can change it.
#[test]
fn a_secret_on_a_read_only_mount_is_taken_with_a_warning() {
    let bench = Bench::new();
    let mount = "mount --bind secrets secrets && mount -o remount,bind,ro secrets";
    bench.shell("mkdir secrets && cp my.key identity secrets && chmod 444 secrets/*");
    if bench.shell(&format!("unshare -rm sh -c '{mount}'")).status != Some(0) {
        evener_skipped::skipped!("a read-only mount: namespaces can't be made here");
        return;
    }
    refused(&bench, "$evener encrypt -k secrets/my.key tree sealed");
    let line = "$evener encrypt -k secrets/my.key tree sealed";
    let words = done(&bench, &format!("unshare -rm sh -c '{mount} && {line}'")).messages;
    let told = "evener: warning: the secret in secrets/my.key is not yours alone: its group or \
                others may use it (mode 0444); its file system is mounted read-only";
    assert!(words.contains(told), "{words}");
    bench.expect(0, &["verify", "-k", "my.key", "sealed"]);
    bench.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "wrapped"]);
    let line = "$evener verify -i secrets/identity wrapped";
    let words = done(&bench, &format!("unshare -rm sh -c '{mount} && {line}'")).messages;
    assert!(words.contains("warning: the secret in secrets/identity"), "{words}");
    assert!(!words.contains(&IDENTITY[20..]), "{words}");
}

#[test]
fn recipients_are_their_owners_and_proper_ones() {
    let bench = Bench::new();
    fs::write(bench.path("team"), RECIPIENT).unwrap();
    fs::set_permissions(bench.path("team"), fs::Permissions::from_mode(0o666)).unwrap();
    let words = refused(&bench, "$evener encrypt -R team tree sealed");
    assert!(words.contains("refusing the recipients in \"team\""), "{words}");
    let words = refused(&bench, "$evener keygen -R team");
    assert!(words.contains("run `chmod go-w` on it"), "{words}");
    // Of low order: one of age, and one of SSH.
    for weak in [
        "age1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq5cu47z",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ] {
        let words = refused(&bench, &format!("$evener encrypt -r '{weak}' tree sealed"));
        assert!(words.contains("cannot encrypt for the recipient"), "{words}");
    }
    assert!(!bench.path("sealed").exists());
    let words = done(&bench, "$evener encrypt --insecure-key-file -R team tree sealed").messages;
    assert!(words.contains("warning: others may change the recipients in team"), "{words}");
}
