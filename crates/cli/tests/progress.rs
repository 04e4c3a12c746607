//! Progress: the line on a terminal of any width, JSON lines for programs, and the names of files.

mod common;

use std::fs::{self, File};
use std::process::Command;

use common::{Ended, Fixture, has};
use serde_json::Value;

/// Runs a Python program in which `run(columns, feed, arguments)` runs Evener in a terminal with
/// that many columns and returns `(drawn, status)`: the drawn text, as the lines between two
/// returns of the cursor, and how it ended. If `feed` is bytes, standard input is a pipe of them;
/// if it is an open file, standard input is that file.
fn in_terminal(fixture: &Fixture, program: &str) {
    if !has("python3") {
        evener_core::lacking!("there is no python3 to make a terminal");
        return;
    }
    let mut command = Command::new("python3");
    command.args(["-c", &format!("{HARNESS}{program}"), env!("CARGO_BIN_EXE_evener")]);
    command.current_dir(fixture.path(".")).env("XDG_CACHE_HOME", fixture.path("cache"));
    command.env_remove("EVENER_KEY_FILE").env("TERM", "xterm");
    let ended = Ended::of(&mut command);
    assert_eq!(
        ended.status,
        Some(0),
        "{}\n{}",
        String::from_utf8_lossy(&ended.output),
        ended.messages
    );
}

const HARNESS: &str = r#"
import fcntl, os, pty, re, signal, struct, subprocess, sys, termios, threading, time

def resize(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

def run(columns, feed, arguments, enough=lambda drawn: False, at=None):
    ours, theirs = pty.openpty()
    resize(theirs, columns)
    stdin = subprocess.PIPE if callable(feed) else feed
    child = subprocess.Popen([sys.argv[1], *arguments], stdin=stdin, stdout=theirs if "-" in arguments[-1:]
                             else subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    if callable(feed):
        def write():
            try:
                for piece in feed():
                    child.stdin.write(piece)
                    child.stdin.flush()
                child.stdin.close()
            except BrokenPipeError:
                pass
        threading.Thread(target=write, daemon=True).start()
    text, asked = b"", False
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:
            break
        if not more:
            break
        text += more
        drawn = lines(text)
        if at and at(drawn, ours):
            at = None
        if enough(drawn) and not asked:
            asked = True
            child.send_signal(signal.SIGINT)
    return lines(text), child.wait()

def lines(text):
    text = re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"", text).decode()
    return [line for line in re.split("[\r\n]+", text) if line]

def bars(drawn):
    return [line for line in drawn if not line.startswith("evener:")]
"#;

/// Files that each take a while on any machine, because the passphrase of each must be stretched.
fn slow_tree(fixture: &Fixture) {
    fixture.secret("passphrase", "open sesame");
    fs::create_dir(fixture.path("many")).unwrap();
    for number in 0..400 {
        fs::write(fixture.path(&format!("many/{number}")), vec![7; 50_000]).unwrap();
    }
}

#[test]
fn the_line_fits_terminals_of_40_and_80_columns_and_one_that_is_resized() {
    let fixture = Fixture::new();
    slow_tree(&fixture);
    in_terminal(
        &fixture,
        r#"
slow = ["encrypt", "--format", "openssl", "--cipher", "aes-256-ctr", "--passphrase-file", "passphrase",
        "--iterations", "500000", "--exclude", "nothing", "many"]
for columns in [40, 80]:
    moving = lambda drawn: any("left" in line for line in bars(drawn))
    drawn, status = run(columns, subprocess.DEVNULL, slow + ["out-%d" % columns], moving)
    assert status == 130, (status, drawn)
    shown = bars(drawn)
    assert all(len(line) < columns for line in shown), shown
    moving = [line for line in shown if "left" in line]
    assert moving, drawn
    assert re.match(r" *\d+% ", moving[0]) and re.search(r"[\d.]+ [KM]?i?B/s", moving[0]), moving
    assert ("[" in moving[0] and "/400 files" in moving[0]) or columns == 40, moving

# From 80 to 40 columns.
resized = []
def at(drawn, terminal):
    if any("left" in line for line in drawn):
        resize(terminal, 40)
        resized.append(len(bars(drawn)))
        return True
drawn, status = run(80, subprocess.DEVNULL, slow + ["out-resized"],
                    lambda drawn: resized and len(bars(drawn)) > resized[0] + 6, at)
shown = bars(drawn)
# One may have been on its way.
after = shown[resized[0] + 1:]
assert any(len(line) >= 40 for line in shown), shown
assert after and all(len(line) < 40 for line in after), shown
"#,
    );
}

#[test]
fn only_a_known_length_has_an_end() {
    let fixture = Fixture::new();
    File::create(fixture.path("large")).unwrap().set_len(1 << 34).unwrap();
    in_terminal(
        &fixture,
        r#"
def slowly():
    for _ in range(12):
        yield bytes(100_000)
        time.sleep(0.1)
drawn, status = run(80, slowly, ["encrypt", "-k", "my.key", "-", "piped"])
assert status == 0, drawn
shown = bars(drawn)
assert shown and all("%" not in line and "left" not in line for line in shown), shown
assert re.search(r"^[\d.]+ [KM]iB  [\d.]+ [KM]?i?B/s  in 0:0\d$", shown[-1]), shown

# A file that is standard input has a length, whatever was read of it before.
half = lambda drawn: any("left" in line for line in drawn)
with open("large", "rb") as large:
    large.seek(1 << 33)
    drawn, status = run(80, large, ["encrypt", "-k", "my.key", "-", "/dev/null"], half)
assert any(re.match(r" *\d+% \[.*/8.0 GiB .* left", line) for line in drawn), drawn
"#,
    );
}

#[test]
fn binary_plaintext_reaches_a_terminal_only_by_force() {
    let fixture = Fixture::new();
    fs::write(fixture.path("text"), "Grüße,\tand\r\nmore\n").unwrap();
    fs::write(fixture.path("binary"), b"\x89PNG\r\n\x1a\n\0\0\0").unwrap();
    for name in ["text", "binary"] {
        fixture.expect(0, &["encrypt", "-q", "-k", "my.key", name, &format!("{name}.enc")]);
    }
    in_terminal(
        &fixture,
        r#"
decrypt = ["decrypt", "-q", "-k", "my.key"]
drawn, status = run(80, subprocess.DEVNULL, decrypt + ["text.enc", "-"])
assert (drawn, status) == (["Grüße,\tand", "more"], 0), (drawn, status)
drawn, status = run(80, subprocess.DEVNULL, decrypt + ["binary.enc", "-"])
assert status == 1 and len(drawn) == 1 and "--force" in drawn[0], (drawn, status)
assert drawn[0].startswith("evener: binary.enc: is binary"), drawn
os.environ["LC_ALL"] = "C"
def run_raw():
    ours, theirs = pty.openpty()
    child = subprocess.Popen([sys.argv[1], *decrypt, "--force", "binary.enc", "-"], stdout=theirs)
    os.close(theirs)
    shown = os.read(ours, 100)
    return shown, child.wait()
shown, status = run_raw()
assert b"PNG" in shown and status == 0, (shown, status)
"#,
    );
    // Elsewhere all bytes are written.
    let ended = fixture.expect(0, &["decrypt", "-q", "-k", "my.key", "binary.enc", "-"]);
    assert_eq!(ended.output, b"\x89PNG\r\n\x1a\n\0\0\0");
}

/// The JSON objects in a text, one per line; other lines are messages.
fn objects(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| !line.starts_with("evener: "));
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

#[test]
fn programs_get_one_object_a_line() {
    let fixture = Fixture::new();
    let ended = fixture.expect(0, &["encrypt", "-k", "my.key", "--json-progress", "tree", "a"]);
    let lines = objects(&ended.messages);
    let last = lines.last().unwrap();
    assert_eq!(last["event"], "end", "{last}");
    assert_eq!((&last["files"], &last["bytes"]), (&2.into(), &300_014.into()), "{last}");
    assert_eq!((&last["failures"], &last["interrupted"]), (&0.into(), &false.into()));
    assert_eq!(last["engines"]["cpu"], 300_014, "{last}");
    assert!(ended.messages.contains("evener: encrypted 2 files"), "{ended:?}");
    assert!(ended.output.is_empty());
    // The total of a single file is known from the beginning.
    File::create(fixture.path("large")).unwrap().set_len(20 << 20).unwrap();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "large", "large.enc"]);
    for arguments in [&["verify", "large.enc"][..], &["decrypt", "large.enc", "again"]] {
        let ended = fixture.expect(0, &[arguments, &["-k", "my.key", "--json-progress"]].concat());
        let lines = objects(&ended.messages);
        let last = lines.last().unwrap();
        assert!(last["bytes"].as_u64().unwrap() > 20 << 20, "{last}");
        assert_eq!(last["bytes"], last["bytes_total"], "{last}");
        assert!(last["seconds_left"].is_null(), "{last}");
    }

    // With names, to a descriptor; existing content stays.
    fixture.shell("echo '{\"event\":\"mine\"}' >lines");
    let line = "$evener encrypt -q -v -k my.key --json-progress=/dev/fd/3 tree - 3>>lines";
    assert_eq!(fixture.shell(line).status, Some(2));
    let line = "$evener encrypt -n -k my.key --json-progress=/dev/fd/3 tree b 3>>lines";
    assert_eq!(fixture.shell(line).status, Some(0));
    let line = "$evener decrypt -v -k my.key --json-progress=lines a/one.enc - >one";
    assert_eq!(fixture.shell(line).status, Some(0));
    assert_eq!(fs::read(fixture.path("one")).unwrap(), b"the first file");
    let lines = objects(&fs::read_to_string(fixture.path("lines")).unwrap());
    let of_files: Vec<_> = lines.iter().filter(|line| line["event"] == "file").collect();
    let mut names: Vec<_> = of_files.iter().map(|line| line["path"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a/one.enc", "tree/deep/two", "tree/one"], "{lines:?}");
    assert!(of_files.iter().all(|line| line["outcome"] == "done"), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line["event"] == "end").count(), 2);
}

#[test]
fn the_lines_of_a_pipe_of_unknown_length_have_no_total() {
    let fixture = Fixture::new();
    // The second line comes when the first has been reported.
    let line = r#"
        told() { for turn in $(seq 1000); do grep -qs '"bytes":4,' lines && return; sleep 0.1; done; }
        (echo one; told; echo two) | $evener encrypt -k my.key --json-progress=lines - out
    "#;
    assert_eq!(fixture.shell(line).status, Some(0));
    let lines = objects(&fs::read_to_string(fixture.path("lines")).unwrap());
    let first = lines.iter().find(|line| line["bytes"] == 4).expect("no line of 4 bytes");
    let last = lines.last().unwrap();
    assert_eq!(first["event"], "progress", "{first}");
    assert!(first["bytes_total"].is_null() && first["seconds_left"].is_null(), "{first}");
    assert_eq!((&last["event"], &last["bytes"]), (&"end".into(), &8.into()), "{last}");
}

#[test]
fn json_never_mixes_with_the_data() {
    let fixture = Fixture::new();
    for line in [
        "$evener encrypt -k my.key --json-progress tree/one - 2>&1 | cat",
        "$evener encrypt -k my.key --json-progress tree/one - >data 2>&1",
        "$evener encrypt -k my.key --json-progress=/dev/stdout tree/one - | cat",
        "$evener encrypt -k my.key --json-progress=/dev/fd/3 tree/one - 3>&1 | cat",
        "$evener encrypt -k my.key --json --json-progress=/dev/stdout tree sealed",
        "$evener encrypt -k my.key --json --json-progress=both tree sealed >both",
    ] {
        let ended = fixture.shell(line);
        let said = [&ended.output[..], ended.messages.as_bytes()].concat();
        let data = fs::read(fixture.path("data")).unwrap_or_default();
        let said = String::from_utf8([said, data].concat()).expect("no ciphertext");
        assert!(said.contains("--json-progress would mix"), "{line}: {said}");
        assert!(!said.contains("event"), "{line}: {said}");
    }
    // Standard output may have the lines if they do not mix with anything.
    let line = "$evener encrypt -q -k my.key --json-progress=/dev/stdout tree sealed";
    let ended = fixture.shell(line);
    let lines = objects(&String::from_utf8(ended.output).unwrap());
    assert!(lines.last().is_some_and(|last| last["event"] == "end"), "{lines:?}");
}

#[test]
fn files_are_listed_on_request_and_in_a_dry_run() {
    let fixture = Fixture::new();
    let listed = |arguments: &[&str]| {
        let ended = fixture.expect(0, &[arguments, &["-k", "my.key"]].concat());
        let is_file = |line: &&str| line.contains("tree/") || line.contains("sealed/");
        let mut lines: Vec<_> = ended.messages.lines().filter(is_file).map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let dry = ["evener: would encrypt tree/deep/two", "evener: would encrypt tree/one"];
    assert_eq!(listed(&["encrypt", "-n", "tree", "sealed"]), dry);
    assert_eq!(listed(&["encrypt", "-n", "--json", "tree", "sealed"]), [""; 0]);
    assert_eq!(listed(&["encrypt", "-n", "-q", "tree", "sealed"]), [""; 0]);
    let done = ["evener: encrypted tree/deep/two", "evener: encrypted tree/one"];
    assert_eq!(listed(&["encrypt", "-v", "tree", "sealed"]), done);
    assert_eq!(
        listed(&["encrypt", "-v", "--resume", "tree", "sealed"]),
        ["evener: complete already: tree/deep/two", "evener: complete already: tree/one"]
    );
    fs::write(fixture.path("tree/one"), "another first file").unwrap();
    let update = ["encrypt", "--update", "tree", "sealed"];
    assert_eq!(listed(&[&update[..], &["-n"]].concat()), ["evener: would update tree/one"]);
    assert_eq!(
        listed(&[&update[..], &["-v"]].concat()),
        ["evener: unchanged: tree/deep/two", "evener: updated tree/one"]
    );
    fs::remove_file(fixture.path("tree/one")).unwrap();
    assert_eq!(
        listed(&[&update[..], &["-v", "--delete", "--yes"]].concat()),
        ["evener: deleted sealed/one.enc", "evener: unchanged: tree/deep/two"]
    );
    assert_eq!(listed(&["verify", "-v", "sealed"]), ["evener: verified sealed/deep/two.enc"]);
    let line = "$evener encrypt -v -k my.key - piped <tree/deep/two";
    assert!(fixture.shell(line).messages.contains("evener: encrypted -\n"));
}

#[test]
fn progress_that_could_not_be_written_is_told_of() {
    let fixture = Fixture::new();
    let ended = fixture
        .expect(0, &["encrypt", "-k", "my.key", "--json-progress=/dev/full", "tree", "sealed"]);
    let told = "evener: /dev/full: progress could not be written: ";
    assert_eq!(ended.messages.matches(told).count(), 1, "{}", ended.messages);
}

#[test]
fn lines_are_added_to_nothing_but_lines() {
    let fixture = Fixture::new();
    fs::write(fixture.path("empty"), "").unwrap();
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "sealed"]);
    let before = |name: &str| fs::read(fixture.path(name)).unwrap();
    for (arguments, place) in [
        (&["encrypt", "-k", "my.key", "tree", "out"][..], "my.key"),
        (&["encrypt", "-k", "my.key", "tree/one", "out"], "tree/one"),
        (&["encrypt", "-k", "my.key", "empty", "out"], "empty"),
        (&["verify", "-k", "my.key", "sealed"], "sealed/one.enc"),
        (&["decrypt", "-k", "my.key", "sealed/one.enc", "out"], "sealed/one.enc"),
    ] {
        let was = before(place);
        let option = format!("--json-progress={place}");
        let ended = fixture.expect(2, &[arguments, &[&option]].concat());
        let is_told = ended.messages.contains("it holds something else than lines")
            || ended.messages.contains("would mix with the data");
        assert!(is_told, "{arguments:?}: {}", ended.messages);
        assert_eq!(before(place), was, "{arguments:?}");
        assert!(!fixture.path("out").exists());
    }
    // A file that was made for them in vain is removed again.
    fixture.expect(2, &["encrypt", "-k", "my.key", "--json-progress=new", "tree/one", "new"]);
    assert!(!fixture.path("new").exists());
    for lines in [1, 2] {
        let option = ["--json-progress=lines", "--overwrite"];
        fixture.expect(0, &[&["encrypt", "-k", "my.key", "tree", "out"], &option[..]].concat());
        // A slow run also reports its progress.
        let told = objects(&String::from_utf8(before("lines")).unwrap());
        assert_eq!(told.iter().filter(|told| told["event"] == "end").count(), lines);
    }
}

#[test]
fn the_last_line_of_what_was_interrupted_counts_what_was_done() {
    let fixture = Fixture::new();
    slow_tree(&fixture);
    let line = "$evener encrypt -k my.key --max-cpu 1 -j 1 --json --json-progress=lines many out & \
                until [ -e out ]; do sleep 0.01; done; sleep 0.5; kill -TERM $!; wait $!";
    let ended = fixture.shell(line);
    assert_eq!(ended.status, Some(130), "{}", ended.messages);
    let lines = objects(&fs::read_to_string(fixture.path("lines")).unwrap());
    let end = lines.last().unwrap();
    assert_eq!((&end["event"], &end["interrupted"]), (&Value::from("end"), &Value::from(true)));
    assert_eq!(end["files"], ended.document()["files"], "{end}");
}

#[test]
fn a_terminal_that_clears_no_line_gets_none() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "sealed"]);
    let program = r#"
lines = lambda text: text
for kind, clears in [("dumb", False), ("xterm", True)]:
    os.environ["TERM"] = kind
    shown, status = run(80, None, ["verify", "-v", "-k", "my.key", "sealed"])
    assert status == 0 and b"evener: verified 2 files" in shown, shown
    assert (b"\x1b" in shown) == clears, (kind, shown)
"#;
    in_terminal(&fixture, program);
}
