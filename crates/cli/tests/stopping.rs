//! Signals at every moment, and resources that the system refuses.

mod common;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Fixture, RECIPIENT, gentle_signals, has};
use rustix::process::{Pid, Signal, kill_process};

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Runs a command that would not end, sends it one signal after a while, and checks that the signal
/// ended it.
fn end_by_one_signal(fixture: &Fixture, arguments: &[&str], after: Duration) {
    let after = after.max(5 * time_to_start(fixture));
    for signal in gentle_signals() {
        let mut command = fixture.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        await_handler(&child, Signal::TERM);
        sleep(after);
        assert!(child.try_wait().unwrap().is_none(), "{arguments:?}: it ended by itself");
        send(&child, signal);
        let sent = Instant::now();
        let status = child.wait().unwrap();
        println!("{arguments:?}: {signal:?} acted in {:?}", sent.elapsed());
        assert_eq!(status.code(), Some(130), "{arguments:?}");
    }
}

/// Waits until the program hears a signal, however busy the machine is.
fn await_handler(child: &Child, signal: Signal) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(60) {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        if caught.is_some_and(|caught| caught >> (signal.as_raw() - 1) & 1 == 1) {
            return;
        }
        sleep(Duration::from_millis(5));
    }
    panic!("the program has set no handlers");
}

/// The time that the program takes to start and end, which is long under emulation.
fn time_to_start(fixture: &Fixture) -> Duration {
    let begin = Instant::now();
    assert!(fixture.command(&["--version"]).output().unwrap().status.success());
    begin.elapsed()
}

#[test]
fn an_interrupted_command_prints_its_document() {
    let fixture = Fixture::new();
    let arguments = ["speed", "--json", "--engine", "openssl", "--time", "60000"];
    let mut command = fixture.command(&arguments);
    let soon = SOON.max(5 * time_to_start(&fixture));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_handler(&child, Signal::INT);
    sleep(soon);
    send(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["failures"][0]["cause"], "interrupted");
    assert_eq!(document["rows"], serde_json::json!([]));
}

#[test]
fn an_abort_is_told() {
    let fixture = Fixture::new();
    let mut command = fixture.command(&["encrypt", "-k", "my.key", "-", "out"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    await_handler(&child, Signal::ABORT);
    sleep(SOON.max(5 * time_to_start(&fixture)));
    send(&child, Signal::ABORT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.lines().any(|line| line.starts_with("evener: aborted, for want of memory")),
        "{said}"
    );
    assert!(!fixture.path("out").exists());
}

const SOON: Duration = Duration::from_millis(300);

/// Many minutes on any machine.
const FOR_EVER: &str = "2000000000";

#[test]
fn one_signal_ends_whatever_the_program_is_at() {
    let fixture = Fixture::new();
    fixture.secret("passphrase", "open sesame");
    let openssl = |operation: &'static str, from: &'static str, to: &'static str| {
        let passphrase = ["--passphrase-file", "passphrase", "--iterations", FOR_EVER];
        let mut arguments = vec![operation, "--format", "openssl", "--cipher", "aes-256-cbc"];
        arguments.extend(passphrase);
        arguments.extend([from, to]);
        arguments
    };
    // The program derives keys, in the workers and for a pipe.
    end_by_one_signal(&fixture, &openssl("encrypt", "tree", "sealed"), SOON);
    end_by_one_signal(&fixture, &openssl("encrypt", "tree/one", "-"), SOON);
    // It reads while nobody writes, and opens and writes while nobody reads.
    for name in ["in", "out"] {
        assert!(Command::new("mkfifo").arg(fixture.path(name)).status().unwrap().success());
    }
    let _held = File::options().read(true).write(true).open(fixture.path("in")).unwrap();
    end_by_one_signal(&fixture, &["encrypt", "-k", "my.key", "tree/one", "out"], SOON);
    File::create(fixture.path("large")).unwrap().set_len(1 << 30).unwrap();
    end_by_one_signal(&fixture, &["encrypt", "-k", "my.key", "large", "-"], SOON);
    assert!(!fixture.path("sealed/one.enc").exists());
}

#[test]
fn a_file_that_claims_to_be_huge_fails_at_once() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree/deep/two", "two.enc"]);
    // The longest file that the filesystem takes.
    let file = File::options().write(true).open(fixture.path("two.enc")).unwrap();
    let length =
        (30..=50).rev().map(|bits| 1_u64 << bits).find(|&length| file.set_len(length).is_ok());
    println!("{length:?} bytes");
    for policy in ["pull", "adaptive"] {
        let arguments = ["decrypt", "-k", "my.key", "--policy", policy, "two.enc", "out"];
        let ended = fixture.expect(1, &arguments);
        assert!(ended.messages.contains("two.enc: "), "{}", ended.messages);
        assert!(!fixture.path("out").exists());
    }
}

/// The options of a key, which encrypt and which decrypt.
const WITH_KEY: [&[&str]; 2] = [&["-k", "my.key"]; 2];
const OF_AGE: [&[&str]; 2] = [&["--format", "age", "-r", RECIPIENT], &["-i", "identity"]];

#[test]
fn interrupted_at_random_no_file_is_half_there() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("plain")).unwrap();
    let sizes =
        |number: usize| if number < 8 { 3_000_000 + number * 400_000 } else { number * 500 };
    for number in 0..60 {
        let content = vec![number as u8; sizes(number)];
        fs::write(fixture.path(&format!("plain/{number}")), content).unwrap();
    }
    interrupt_at_random(&fixture, WITH_KEY, 20);
    interrupt_at_random(&fixture, OF_AGE, 8);
}

fn interrupt_at_random(fixture: &Fixture, [encrypts, opens]: [&[&str]; 2], rounds: usize) {
    let _ = fs::remove_dir_all(fixture.path("sealed"));
    let begun = Instant::now();
    fixture.expect(0, &[&["encrypt", "-q"], encrypts, &["plain", "sealed"]].concat());
    let mut whole = begun.elapsed();
    let policies = ["pull", "adaptive"];
    let mut interrupted = 0;
    for round in 0.. {
        if round >= rounds && interrupted > 0 {
            break;
        }
        assert!(round < 10 * rounds, "no run was interrupted");
        let (operation, keys, from) = match round % 2 {
            0 => ("encrypt", encrypts, "plain"),
            _ => ("decrypt", opens, "sealed"),
        };
        let _ = fs::remove_dir_all(fixture.path("out"));
        let policy = policies[round / 2 % policies.len()];
        let arguments =
            [&[operation], keys, &["-j", "3", "--policy", policy, from, "out"]].concat();
        let mut command = fixture.command(&arguments);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        sleep(whole.mul_f64((round as f64 * 0.618_034).fract()));
        let signals = gentle_signals();
        send(&child, signals[round % signals.len()]);
        let status = child.wait().unwrap().code();
        let mut messages = String::new();
        child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        assert!(matches!(status, Some(0 | 130) | None), "{arguments:?}: {messages}");
        // The first run may have been quicker than these, or slower.
        match status {
            Some(130) => interrupted += 1,
            Some(_) => whole = whole.mul_f64(0.9),
            None => whole = whole.mul_f64(1.1),
        }
        let names = if fixture.path("out").exists() { fixture.names("out") } else { Vec::new() };
        match operation {
            "encrypt" if names.is_empty() => {}
            "encrypt" => {
                fixture.expect(0, &[&["verify", "-q"], opens, &["out"]].concat());
            }
            _ => {
                for name in &names {
                    let read = |tree: &str| fs::read(fixture.path(tree).join(name)).unwrap();
                    assert!(read("out") == read("plain"), "{arguments:?}: {name} is half there");
                }
            }
        }
        // Before its work, the program has nothing to count.
        let had_begun = !messages.is_empty() && messages != "evener: interrupted\n";
        if had_begun || !names.is_empty() {
            let counted = format!("crypted {} file", names.len());
            assert!(messages.contains(&counted), "{arguments:?}: {messages} {names:?}");
        }
    }
}

#[test]
fn a_file_or_pipe_that_was_killed_at_random_has_no_name() {
    let fixture = Fixture::new();
    fs::write(fixture.path("plain"), vec![7; 10_000_000]).unwrap();
    for [encrypts, opens] in [WITH_KEY, OF_AGE] {
        let _ = fs::remove_file(fixture.path("sealed"));
        let begun = Instant::now();
        fixture.expect(0, &[&["encrypt", "-q"], encrypts, &["plain", "sealed"]].concat());
        let whole = begun.elapsed();
        let mut killed = 0;
        for round in 0..12 {
            let _ = fs::remove_file(fixture.path("out"));
            let (operation, keys, from) = match round % 2 {
                0 => ("encrypt", encrypts, "plain"),
                _ => ("decrypt", opens, "sealed"),
            };
            let source = if round % 4 < 2 { from } else { "-" };
            let arguments = [&[operation, "-q"], keys, &[source, "out"]].concat();
            let mut command = fixture.command(&arguments);
            command.stdin(File::open(fixture.path(from)).unwrap());
            let mut child = command.stderr(Stdio::null()).spawn().unwrap();
            sleep(whole.mul_f64((f64::from(round) * 0.618_034).fract()));
            let _ = child.kill();
            killed += u32::from(child.wait().unwrap().signal() == Some(9));
            if !fixture.path("out").exists() {
                continue;
            }
            if operation == "encrypt" {
                fixture.expect(0, &[&["verify", "-q"], opens, &["out"]].concat());
            } else {
                let read = |name: &str| fs::read(fixture.path(name)).unwrap();
                assert!(read("out") == read("plain"), "{arguments:?}: it is half there");
            }
        }
        assert!(killed > 0, "every run was over before it was killed");
    }
}

#[test]
fn a_signal_at_the_prompt_leaves_the_terminal_with_its_echo() {
    if !has("python3") {
        evener_core::skipped!("there is no python3 to make a terminal");
        return;
    }
    let fixture = Fixture::new();
    let program = r#"
import os, pty, select, signal, sys, termios, time
for name in ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"]:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.argv[1], [sys.argv[1], "keygen", "--passphrase", "-o", "wrapped.key"])
    shown = b""
    while b"assphrase" not in shown:
        shown += os.read(terminal, 1000)
    echo = lambda: bool(termios.tcgetattr(terminal)[3] & termios.ECHO)
    end = time.time() + 60
    while echo() and time.time() < end:
        time.sleep(0.01)
    assert not echo(), "what is typed is shown"
    time.sleep(0.1)
    os.kill(pid, getattr(signal, name))
    status = os.waitpid(pid, 0)[1]
    expected = -signal.SIGQUIT if name == "SIGQUIT" else 130
    assert os.waitstatus_to_exitcode(status) == expected, (name, status)
    assert echo(), "the terminal was left without echo after " + name
"#;
    let mut command = Command::new("python3");
    command.args(["-c", program, env!("CARGO_BIN_EXE_evener")]).current_dir(fixture.path("."));
    command.env("TERM", "xterm");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!fixture.path("wrapped.key").exists());
}

#[test]
fn keys_of_the_terminal_act_at_the_prompt_as_elsewhere() {
    if !has("python3") {
        evener_core::skipped!("there is no python3 to make a terminal");
        return;
    }
    let fixture = Fixture::new();
    let program = r#"
import os, pty, signal, sys, termios, time
def start():
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.argv[1], [sys.argv[1], "keygen", "--passphrase", "-o", "wrapped.key"])
    return pid, terminal
def await_prompt(terminal, prompt):
    shown = b""
    while prompt not in shown:
        shown += os.read(terminal, 1000)
    return shown
def echo(terminal):
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)
for key, expected in [(b"\x03", 130), (b"\x1c", -signal.SIGQUIT)]:
    pid, terminal = start()
    await_prompt(terminal, b"new key: ")
    assert not echo(terminal), "what is typed is shown"
    os.write(terminal, b"secret" + key)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == expected, (key, status)
    assert echo(terminal), "the terminal was left without echo"
    os.close(terminal)

pid, terminal = start()
await_prompt(terminal, b"new key: ")
os.write(terminal, b"mistyped\x1a")
status = os.waitpid(pid, os.WUNTRACED)[1]
assert os.WIFSTOPPED(status), status
assert echo(terminal), "the terminal was left without echo"
os.kill(pid, signal.SIGCONT)
shown = await_prompt(terminal, b"new key: ")
end = time.time() + 60
while echo(terminal) and time.time() < end:
    time.sleep(0.01)
assert not echo(terminal), "what is typed is shown"
os.write(terminal, b"open sesame\n")
shown += await_prompt(terminal, b"again: ")
os.write(terminal, b"open sesamx\x7fe\n")
while True:
    try:
        shown += os.read(terminal, 1000)
    except OSError:
        break
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert status == 0, (status, shown)
assert b"sesam" not in shown and b"mistyped" not in shown, shown
"#;
    let mut command = Command::new("python3");
    command.args(["-c", program, env!("CARGO_BIN_EXE_evener")]).current_dir(fixture.path("."));
    command.env("TERM", "xterm");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fixture.secret("passphrase", "open sesame\n");
    fixture.expect(
        0,
        &["encrypt", "-k", "wrapped.key", "--passphrase-file", "passphrase", "tree/one", "out"],
    );
}

#[test]
fn an_interruption_before_the_work_is_told() {
    let fixture = Fixture::new();
    assert!(Command::new("mkfifo").arg(fixture.path("never")).status().unwrap().success());
    let soon = SOON.max(5 * time_to_start(&fixture));
    for signal in gentle_signals() {
        let json = if signal == Signal::TERM { &["--json"][..] } else { &[] };
        let arguments = [&["encrypt", "-R", "never", "tree", "sealed"], json].concat();
        let mut command = fixture.command(&arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        await_handler(&child, signal);
        sleep(soon);
        send(&child, signal);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130));
        let told = String::from_utf8(ended.stderr).unwrap();
        let expected = "evener: interrupted; encrypted 0 files, 0 B in 0.000 s, 0 B/s\n";
        assert_eq!(told, expected);
        if !json.is_empty() {
            let document: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
            assert_eq!(document["interrupted"], true);
        }
    }
}

#[test]
fn progress_leaves_the_lines_of_others_alone() {
    if !has("python3") {
        evener_core::skipped!("there is no python3 to make a terminal");
        return;
    }
    let fixture = Fixture::new();
    assert!(Command::new("mkfifo").arg(fixture.path("fifo")).status().unwrap().success());
    let program = r#"
import fcntl, os, pty, re, struct, sys, termios
def resize(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "encrypt", "-k", "my.key", "fifo", "out"])
resize(terminal, 100)
feed = open("fifo", "wb")
feed.write(bytes(1000000))
feed.flush()
shown = b""
drawn = lambda: [line.strip(b"\r") for line in shown.split(b"\r\x1b[J")[1:]]
while len(drawn()) < 4:
    shown += os.read(terminal, 1000)
assert max(len(line) for line in drawn()) > 12, shown
resize(terminal, 12)
lines = []
while len(lines) < 12:
    shown += os.read(terminal, 1000)
    lines = drawn()
    lines = lines[next((at for at, line in enumerate(lines) if 0 < len(line) < 12), len(lines)):]
assert all(len(line) < 12 for line in lines), lines
feed.close()
while True:
    try:
        shown += os.read(terminal, 1000)
    except OSError:
        break
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
assert set(re.findall(rb"\x1b\[[0-9;?]*[A-Za-z]", shown)) == {b"\x1b[J"}, shown
assert b"\r\x1b[Jevener: encrypted 1 file" in shown, shown
"#;
    let mut command = Command::new("python3");
    command.args(["-c", program, env!("CARGO_BIN_EXE_evener")]).current_dir(fixture.path("."));
    command.env("TERM", "xterm");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn who_hangs_up_stops_the_program_unless_it_is_to_go_on() {
    if !gentle_signals().contains(&Signal::HUP) {
        evener_core::skipped!("this test was started to ignore SIGHUP");
        return;
    }
    let fixture = Fixture::new();
    // The reader never comes.
    assert!(Command::new("mkfifo").arg(fixture.path("out")).status().unwrap().success());
    for (before, ends) in [("", true), ("trap '' HUP QUIT;", false)] {
        for signal in [Signal::HUP, Signal::QUIT] {
            let line = format!("ulimit -c 0; {before} exec $evener encrypt -k my.key tree/one out");
            let mut command = Command::new("sh");
            command.args(["-c", &line]).env("evener", env!("CARGO_BIN_EXE_evener"));
            let command = command.current_dir(fixture.path(".")).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            // A signal that comes before the work ends the program without a report.
            await_handler(&child, Signal::INT);
            sleep(SOON.max(5 * time_to_start(&fixture)));
            send(&child, signal);
            sleep(SOON);
            if !ends {
                assert!(child.try_wait().unwrap().is_none(), "{signal:?}");
                child.kill().unwrap();
            }
            let mut messages = String::new();
            child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
            let status = child.wait().unwrap();
            if ends && signal == Signal::HUP {
                assert_eq!(status.code(), Some(130), "{messages}");
                assert!(messages.contains("interrupted; encrypted 0 files"), "{messages}");
            } else {
                let ended_by = if ends { signal } else { Signal::KILL };
                assert_eq!(status.signal(), Some(ended_by.as_raw()), "{messages}");
            }
        }
    }
}

#[test]
fn no_signal_leaves_an_unfinished_file() {
    let fixture = Fixture::new();
    // On this filesystem, unfinished files have names.
    let source = "../place/tests/shim/faults.c";
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut build = Command::new(compiler);
    build.args(["-shared", "-fPIC", "-O1", "-o"]).arg(fixture.path("shim.so")).arg(source);
    assert!(build.arg("-ldl").status().unwrap().success(), "the shim does not build");
    // The file is long enough to be stopped, and takes no blocks on the disk.
    fs::create_dir(fixture.path("large")).unwrap();
    File::create(fixture.path("large/zeros")).unwrap().set_len(8 << 30).unwrap();
    fs::create_dir(fixture.path("sealed")).unwrap();
    for signal in gentle_signals() {
        let mut command = fixture.command(&["encrypt", "-q", "-k", "my.key", "large", "sealed"]);
        command.env("LD_PRELOAD", fixture.path("shim.so")).env("EVENER_FAULT_NO_TMPFILE", "1");
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        while fixture.names("sealed").is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "{signal:?}: it ended by itself");
            sleep(Duration::from_millis(1));
        }
        assert!(fixture.names("sealed")[0].ends_with(".part"), "{signal:?}");
        send(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal:?}");
        assert_eq!(fixture.names("sealed"), Vec::<String>::new(), "{signal:?}");
    }
}

#[test]
fn a_closed_standard_output_is_an_error() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree/one", "one.enc"]);
    for line in [
        "decrypt -k my.key one.enc -",
        "decrypt -k my.key one.enc /dev/stdout",
        "verify -q --json -k my.key one.enc",
        "keygen",
        "list one.enc",
        "engines",
        "completions bash",
    ] {
        let ended = fixture.shell(&format!("$evener {line} >&-"));
        assert_eq!(ended.status, Some(1), "{line}: {}", ended.messages);
        let told = "can't write to standard output: it is closed";
        assert!(ended.messages.contains(told), "{line}: {}", ended.messages);
        assert!(!ended.messages.contains("crypted 1 file"), "{line}: {}", ended.messages);
    }
    let ended = fixture.shell("$evener decrypt -k my.key one.enc one >&-");
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    // This is a wish of the user's and no mistake.
    assert_eq!(fixture.shell("$evener keygen >/dev/null").status, Some(0));
}

#[test]
fn a_closed_standard_input_is_an_error() {
    let fixture = Fixture::new();
    for line in
        ["encrypt -k my.key - out", "encrypt -k my.key /dev/stdin out", "verify -k my.key -"]
    {
        let ended = fixture.shell(&format!("$evener {line} <&-"));
        assert_eq!(ended.status, Some(2), "{line}: {}", ended.messages);
        assert_eq!(ended.messages, "evener: can't read standard input: it is closed\n");
    }
    assert!(!fixture.path("out").exists());
    // Nobody needs standard input here; and an empty one is a file.
    assert_eq!(fixture.shell("$evener encrypt -k my.key tree sealed <&-").status, Some(0));
    assert_eq!(fixture.shell("$evener encrypt -k my.key - out </dev/null").status, Some(0));
}

#[test]
fn a_file_beyond_the_limit_is_an_error_of_that_file() {
    let fixture = Fixture::new();
    let ended = fixture.shell("ulimit -f 100; $evener encrypt -k my.key tree sealed");
    assert_eq!(ended.status, Some(1), "{}", ended.messages);
    let told = "tree/deep/two: can't write its output: File too large";
    assert!(ended.messages.contains(told), "{}", ended.messages);
    assert_eq!(fixture.names("sealed/deep"), Vec::<String>::new());
    assert_eq!(fixture.names("sealed"), ["deep", "one.enc"]);
}

#[test]
fn threads_and_memory_that_cant_be_had_are_errors() {
    let fixture = Fixture::new();
    if !has("prlimit") || !has("setpriv") || !rustix::process::geteuid().is_root() {
        evener_core::skipped!("only root can be another user, with prlimit and setpriv");
        return;
    }
    // The limit of processes does not apply to root.
    let owner = Command::new("chown").arg("61234").arg(fixture.path("my.key")).status();
    assert!(owner.unwrap().success());
    fs::set_permissions(fixture.path("."), fs::Permissions::from_mode(0o777)).unwrap();
    let program = fixture.path("evener");
    fs::hard_link(env!("CARGO_BIN_EXE_evener"), &program)
        .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_evener"), &program).map(drop))
        .unwrap();
    let threads = ["--nproc=1", "--nproc=2", "--nproc=3"];
    let memory = ["--as=70000000", "--as=80000000", "--as=100000000", "--as=200000000"];
    for limit in threads.into_iter().chain(memory) {
        for policy in ["adaptive", "pull"] {
            let _ = fs::remove_dir_all(fixture.path("sealed"));
            let mut command = Command::new("prlimit");
            command.args([limit, "setpriv", "--reuid=61234", "--regid=61234", "--clear-groups"]);
            command.args(["./evener", "encrypt", "-j", "4", "--policy", policy, "-k", "my.key"]);
            command.args(["tree", "sealed"]).current_dir(fixture.path(".")).env("HOME", ".");
            let output = command.output().unwrap();
            let messages = String::from_utf8_lossy(&output.stderr);
            println!("{limit} {policy}: {}: {messages}", output.status);
            assert_eq!(output.status.signal(), None, "{limit}: {messages}");
            assert!(!messages.contains("internal error"), "{limit}: {messages}");
            assert!(!messages.is_empty(), "{limit}");
            if output.status.code() == Some(0) {
                assert!(messages.contains("encrypted 2 files"), "{limit}: {messages}");
            }
        }
    }
}

#[test]
fn a_run_with_owners_that_was_stopped_is_resumed() {
    if !rustix::process::geteuid().is_root() {
        evener_core::skipped!("only root may give files to other users");
        return;
    }
    let fixture = Fixture::new();
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    for number in 0..20 {
        let directory = fixture.path(&format!("plain/{number}"));
        fs::create_dir_all(&directory).unwrap();
        for file in 0..20 {
            fs::write(directory.join(file.to_string()), vec![1; 50_000]).unwrap();
        }
        chown(&directory, Some(1234), Some(1234)).unwrap();
        fs::File::open(&directory).unwrap().set_modified(old).unwrap();
    }
    let mut command = fixture.command(&["encrypt", "-k", "my.key", "--owner", "plain", "sealed"]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    while !fixture.path("sealed").exists() && child.try_wait().unwrap().is_none() {
        sleep(Duration::from_millis(1));
    }
    send(&child, Signal::INT);
    child.wait().unwrap();
    fixture.expect(0, &["encrypt", "-k", "my.key", "--owner", "--resume", "plain", "sealed"]);
    for number in 0..20 {
        let status = fs::metadata(fixture.path(&format!("sealed/{number}"))).unwrap();
        assert_eq!((status.uid(), status.gid(), status.mode() & 0o777), (1234, 1234, 0o755));
        assert_eq!(status.modified().unwrap(), old, "directory {number}");
    }
}
