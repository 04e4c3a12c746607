//! Recipients and identities of every kind that age supports: SSH keys, plugins, and keys sent
//! through a pipe.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{Ended, Fixture, RECIPIENT, has};

/// A recipient and an identity of the plugin below.
const PLUGINS_RECIPIENT: &str = "age1evtest1v4mx2mn9wgaa36uv";
const PLUGINS_IDENTITY: &str = "AGE-PLUGIN-EVTEST-1V4MX2MN9WGHSZKMM";

/// A plugin that hides a file key from nobody.
const PLUGIN: &str = r#"#!/usr/bin/env python3
import base64, hashlib, os, sys

def receive():
    words = sys.stdin.readline().rstrip("\n").split(" ")
    assert words[0] == "->", words
    body = ""
    while True:
        line = sys.stdin.readline().rstrip("\n")
        body += line
        if len(line) < 64:
            break
    return words[1], words[2:], base64.b64decode(body + "=" * (-len(body) % 4))

def send(*words, body=b""):
    text = base64.b64encode(body).decode().rstrip("=")
    print(" ".join(("->",) + words))
    for start in range(0, len(text) + 1, 64):
        print(text[start:start + 64])
    sys.stdout.flush()

def ask(*words, body=b""):
    send(*words, body=body)
    return receive()

def hidden(key):
    return bytes(a ^ b for a, b in zip(key, hashlib.sha256(b"evtest").digest()))

received = []
while True:
    kind, words, body = receive()
    if kind == "done":
        break
    received.append((kind, words, body))
names = [words[0] for kind, words, _ in received if kind in ("add-recipient", "add-identity")]
if "EVTEST_DIES" in os.environ:
    sys.exit(0)
if "EVTEST_FAILS" in os.environ:
    place = "recipient" if "recipient" in sys.argv[1] else "identity"
    ask("error", place, "0", body=b"the device\nis not there")
elif sys.argv[1] == "--age-plugin=recipient-v1":
    assert names == ["age1evtest1v4mx2mn9wgaa36uv"], names
    keys = [body for kind, _, body in received if kind == "wrap-file-key"]
    for index, key in enumerate(keys):
        assert ask("recipient-stanza", str(index), "evtest", "x", body=hidden(key))[0] == "ok"
elif sys.argv[1] == "--age-plugin=identity-v1":
    assert names == ["AGE-PLUGIN-EVTEST-1V4MX2MN9WGHSZKMM"], names
    ask("msg", body=b"please touch\nthe device")
    if "EVTEST_PIN" in os.environ:
        kind, _, pin = ask("request-secret", body=b"PIN of the device")
        assert kind == "ok" and pin == b"1234", (kind, pin)
    for kind, words, body in received:
        if kind == "recipient-stanza" and words[1] == "evtest":
            key = hidden(body)[:7] if "EVTEST_SHORT" in os.environ else hidden(body)
            assert ask("file-key", words[0], body=key)[0] == "ok"
send("done")
"#;

/// A fixture whose `bin` has the plugin.
fn fixture_with_plugin() -> Option<Fixture> {
    if !has("python3") {
        evener_core::skipped!("there is no python3 for a plugin");
        return None;
    }
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("bin")).unwrap();
    let program = fixture.path("bin/age-plugin-evtest");
    fs::write(&program, PLUGIN).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fixture.secret("plugins", &format!("# an identity\n{PLUGINS_IDENTITY}\n"));
    Some(fixture)
}

fn run(fixture: &Fixture, status: i32, line: &str) -> Ended {
    let ended = fixture.shell(line);
    assert_eq!(ended.status, Some(status), "{line}: {}", ended.messages);
    ended
}

#[test]
fn a_plugin_wraps_and_unwraps_keys() {
    let Some(fixture) = fixture_with_plugin() else { return };
    let path = "PATH=$PWD/bin:$PATH";
    let both = format!("-r {PLUGINS_RECIPIENT} -r {RECIPIENT}");
    run(&fixture, 0, &format!("{path} $evener encrypt {both} tree sealed"));
    let verified = run(&fixture, 0, &format!("{path} $evener verify -i plugins sealed"));
    assert!(verified.messages.contains("evener: please touch the device\n"), "{verified:?}");
    // With an identity that needs no plugin, no device has to be touched.
    let verified =
        run(&fixture, 0, &format!("{path} $evener verify -i plugins -i identity sealed"));
    assert!(!verified.messages.contains("touch"), "{verified:?}");
    run(&fixture, 0, "$evener verify -i identity sealed");
    if has("age") {
        let key = run(&fixture, 0, &format!("{path} age -d -i plugins sealed/evener-key.age"));
        assert!(key.output.starts_with(b"evener-key:v1:"), "{key:?}");
        let line = format!("age -r {PLUGINS_RECIPIENT} -o theirs.age my.key");
        run(&fixture, 0, &format!("{path} {line}"));
        run(&fixture, 0, &format!("{path} $evener encrypt -k theirs.age -i plugins tree other"));
        run(&fixture, 0, "$evener verify -k my.key other");
    } else {
        evener_core::lacking!("there is no program `age`");
    }
}

#[test]
fn a_plugin_opens_files_of_age_and_wraps_one_at_a_time() {
    let Some(fixture) = fixture_with_plugin() else { return };
    let path = "PATH=$PWD/bin:$PATH";
    let encrypt = format!("{path} $evener encrypt -q --format age -r {PLUGINS_RECIPIENT}");
    run(&fixture, 0, &format!("{encrypt} tree/one one.age"));
    run(&fixture, 0, &format!("{path} $evener decrypt -i plugins one.age - | cmp - tree/one"));
    let ended = run(&fixture, 2, &format!("{encrypt} tree sealed"));
    assert!(ended.messages.contains("plugin for each file"), "{}", ended.messages);
    assert!(!fixture.path("sealed").exists());
}

#[test]
fn what_is_wrong_with_a_plugin_is_said_in_one_sentence() {
    let Some(fixture) = fixture_with_plugin() else { return };
    let encrypt = format!("$evener encrypt -r {PLUGINS_RECIPIENT} tree sealed");
    let path = "PATH=$PWD/bin:$PATH";
    let cases = [
        (encrypt.clone(), "there is no program `age-plugin-evtest` in PATH"),
        (format!("EVTEST_FAILS=1 {path} {encrypt}"), "the device is not there"),
        (format!("EVTEST_DIES=1 {path} {encrypt}"), "the age plugin failed: it ended before"),
    ];
    for (line, told) in cases {
        let ended = run(&fixture, 2, &line);
        assert!(ended.messages.contains(told), "{line}: {}", ended.messages);
        assert_eq!(ended.messages.lines().count(), 1, "{}", ended.messages);
        assert!(!fixture.path("sealed").exists());
    }
    run(&fixture, 0, &format!("{path} {encrypt}"));
    let verify = "$evener verify -i plugins sealed";
    for (environment, told) in [
        ("", "there is no program `age-plugin-evtest` in PATH"),
        ("EVTEST_FAILS=1 PATH=$PWD/bin:$PATH", "the device is not there"),
        ("EVTEST_DIES=1 PATH=$PWD/bin:$PATH", "the age plugin failed: it ended before"),
        ("EVTEST_SHORT=1 PATH=$PWD/bin:$PATH", "file keys too, which are secret"),
    ] {
        let ended = run(&fixture, 2, &format!("{environment} {verify}"));
        assert!(ended.messages.contains(told), "{}", ended.messages);
        assert!(!ended.messages.contains(PLUGINS_IDENTITY), "{}", ended.messages);
    }
}

#[test]
fn ssh_keys_are_recipients_and_identities() {
    if !has("ssh-keygen") {
        evener_core::lacking!("there is no ssh-keygen (openssh-client)");
        return;
    }
    let fixture = Fixture::new();
    for (kind, options) in [("ed25519", ""), ("rsa", "-b 2048"), ("rsa", "-b 2048 -m PEM")] {
        run(&fixture, 0, "rm -rf sealed id id.pub recipients theirs.age");
        run(&fixture, 0, &format!("ssh-keygen -q -t {kind} {options} -N '' -C ann -f id"));
        run(&fixture, 0, "$evener encrypt -r \"$(cat id.pub)\" tree sealed");
        run(&fixture, 0, "$evener verify -i id sealed");
        let other = run(&fixture, 2, "$evener verify -i identity sealed");
        assert!(other.messages.contains("no identity given opens"), "{}", other.messages);
        // In a file, and beside others.
        let list = format!("(echo '# the team'; cat id.pub; echo {RECIPIENT}) > recipients");
        run(&fixture, 0, &list);
        run(&fixture, 0, "$evener keygen -R recipients > both.age");
        run(&fixture, 0, "$evener encrypt -q --overwrite -k both.age -i id tree/one one");
        run(&fixture, 0, "$evener verify -q -k both.age -i identity one");
        if !has("age") {
            evener_core::lacking!("there is no program `age`");
            continue;
        }
        run(&fixture, 0, "age -d -i id sealed/evener-key.age > opened.key && chmod 600 opened.key");
        run(&fixture, 0, "$evener verify -k opened.key sealed");
        run(&fixture, 0, "age -R id.pub -o theirs.age opened.key");
        run(&fixture, 0, "$evener verify -k theirs.age -i id sealed");
    }
    let mut public = fs::read_to_string(fixture.path("id.pub")).unwrap();
    public.truncate(60);
    let ended = fixture.expect(2, &["keygen", "-r", &public]);
    assert!(ended.messages.contains("the SSH key is mistyped"), "{}", ended.messages);
    fs::set_permissions(fixture.path("id"), fs::Permissions::from_mode(0o644)).unwrap();
    let ended = fixture.expect(2, &["verify", "-i", "id", "sealed"]);
    assert!(ended.messages.contains("run `chmod 600` on it"), "{}", ended.messages);
}

#[test]
fn an_ssh_key_with_a_passphrase_asks_for_it() {
    if !has("ssh-keygen") || !has("python3") {
        evener_core::lacking!("there is no ssh-keygen (openssh-client), or no python3");
        return;
    }
    let fixture = Fixture::new();
    run(&fixture, 0, "ssh-keygen -q -t ed25519 -a 1 -N 'open sesame' -C ann -f id");
    run(&fixture, 0, "$evener encrypt -r \"$(cat id.pub)\" tree sealed");
    let line = "$evener verify -i id sealed";
    let prompt = "Passphrase for id: ";
    let right = fixture.at_terminal(prompt, "open sesame", line);
    let shown = String::from_utf8_lossy(&right.output).into_owned();
    assert_eq!(right.status, Some(0), "{shown}");
    assert!(!shown.contains("sesame"), "{shown}");
    let wrong = fixture.at_terminal(prompt, "open barley", line);
    let shown = String::from_utf8_lossy(&wrong.output).into_owned();
    assert_eq!(wrong.status, Some(2), "{shown}");
    assert!(shown.contains("the passphrase does not open"), "{shown}");
}

#[test]
fn a_plugin_asks_for_a_pin_on_the_terminal() {
    let Some(fixture) = fixture_with_plugin() else { return };
    let path = "PATH=$PWD/bin:$PATH";
    run(&fixture, 0, &format!("{path} $evener encrypt -r {PLUGINS_RECIPIENT} tree sealed"));
    let line = format!("EVTEST_PIN=1 {path} $evener verify -i plugins sealed");
    let ended = fixture.at_terminal("PIN of the device: ", "1234", &line);
    let shown = String::from_utf8_lossy(&ended.output).into_owned();
    assert_eq!(ended.status, Some(0), "{shown}");
    assert!(!shown.contains("1234"), "{shown}");
}

#[test]
fn a_pipe_carries_its_wrapped_key() {
    let fixture = Fixture::new();
    fixture.secret("passphrase", "correct horse\n");
    let two = fs::read(fixture.path("tree/deep/two")).unwrap();
    let recipient = format!("-r {RECIPIENT}");
    for (how, opens) in [
        (&*recipient, "-i identity"),
        (&format!("{recipient} --format tink"), "-i identity"),
        ("--passphrase-file passphrase", "--passphrase-file passphrase"),
    ] {
        run(&fixture, 0, "rm -f piped fifo out; mkfifo fifo");
        run(&fixture, 0, &format!("cat tree/deep/two | $evener encrypt {how} - - | cat > piped"));
        assert!(fs::read(fixture.path("piped")).unwrap().starts_with(b"evener-pipe:v1:"));
        // From the pipe alone, from a file, and from a FIFO.
        let back = run(&fixture, 0, &format!("cat piped | $evener decrypt {opens} - -"));
        assert!(back.output == two);
        let back = run(&fixture, 0, &format!("$evener decrypt {opens} piped -"));
        assert!(back.output == two);
        run(&fixture, 0, &format!("cat piped > fifo & $evener decrypt {opens} fifo out"));
        assert!(fs::read(fixture.path("out")).unwrap() == two);
        run(&fixture, 0, &format!("$evener verify {opens} piped"));
        run(&fixture, 0, &format!("$evener verify {opens} - < piped"));
        let listed = fixture.expect(0, &["list", "piped"]);
        assert!(String::from_utf8_lossy(&listed.output).contains(" evener-pipe "));
    }
    // Output to a descriptor has no place for a key beside it.
    run(&fixture, 0, &format!("$evener encrypt {recipient} tree/one /dev/fd/3 3> descriptor"));
    let back = run(&fixture, 0, "$evener decrypt -i identity descriptor -");
    assert_eq!(back.output, b"the first file");
}

#[test]
fn the_key_of_a_pipe_is_read_with_care() {
    let fixture = Fixture::new();
    run(&fixture, 0, &format!("cat tree/one | $evener encrypt -r {RECIPIENT} - - > piped"));
    let piped = fs::read(fixture.path("piped")).unwrap();
    // The key can be extracted and named, which is all that age can do with it.
    let line_end = piped.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let length: usize = std::str::from_utf8(&piped[15..line_end - 1]).unwrap().parse().unwrap();
    fs::write(fixture.path("key.age"), &piped[line_end..line_end + length]).unwrap();
    let back = run(&fixture, 0, "$evener decrypt -k key.age -i identity piped -");
    assert_eq!(back.output, b"the first file");
    fs::write(fixture.path("rest"), &piped[line_end + length..]).unwrap();
    let back = run(&fixture, 0, "$evener decrypt -k key.age -i identity - - < rest");
    assert_eq!(back.output, b"the first file");
    if has("age") {
        let key = run(&fixture, 0, "age -d -i identity key.age");
        assert!(key.output.starts_with(b"evener-key:v1:"), "{key:?}");
    } else {
        evener_core::lacking!("there is no program `age`");
    }

    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree/one", "plain.enc"]);
    for (line, told) in [
        ("$evener decrypt -i identity - - < plain.enc", "does not begin with a wrapped key"),
        ("head -c 100 piped | $evener decrypt -i identity - -", "it ends before the wrapped key"),
        ("$evener decrypt -k my.key - - < piped", "wrong key"),
        ("$evener decrypt -i identity --resume piped out", "--resume does not go with a pipe, "),
        ("$evener encrypt -i identity - - < piped", "--recipient, which writes a fresh one"),
    ] {
        let ended = run(&fixture, 2, line);
        assert!(ended.messages.contains(told), "{line}: {}", ended.messages);
        assert!(ended.output.is_empty());
    }
    let mut changed = piped.clone();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(fixture.path("changed"), &changed).unwrap();
    let ended = run(&fixture, 1, "$evener decrypt -i identity changed out");
    assert!(ended.messages.contains("changed: chunk 0"), "{}", ended.messages);
    assert!(!fixture.path("out").exists());
}
