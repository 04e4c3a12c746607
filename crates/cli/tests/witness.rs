//! Success is proved outside of the process that loads the code of others: here a provider of OpenSSL
//! that works, and at some moment does what such code should not.

mod common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Ended, Fixture, has};
use rustix::process::{Pid, Signal, kill_process};

/// A tree of this many files, a passphrase, and a provider.
const FILES: usize = 30;

/// A call in the midst of the work, and not in the test with known answers.
const MIDST: usize = 20;

/// Adds a provider with `code` in it, which sees the number of each `call` that processes data; false
/// where none can be built.
fn build(fixture: &Fixture, code: &str) -> bool {
    fixture.secret("passphrase", "open sesame\n");
    fs::create_dir(fixture.path("many")).unwrap();
    for number in 0..FILES {
        fs::write(fixture.path(&format!("many/{number}")), vec![number as u8; 3000]).unwrap();
    }
    let code = format!("{HEADERS}{code}\n#define ACT act\n");
    fs::write(fixture.path("act.h"), code).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../engines/src/openssl/provider/counting.c");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-DCOUNT_FILE=\"/dev/null\""]);
    compiler.arg("-include").arg(fixture.path("act.h")).arg(source).arg("-o");
    // Not to be unloaded before the end.
    compiler.arg(fixture.path("counting.so")).args(["-lcrypto", "-lpthread", "-Wl,-z,nodelete"]);
    let Ok(compiled) = compiler.output() else {
        evener_skipped::lacking!("there is no C compiler for a provider");
        return false;
    };
    let complaint = String::from_utf8_lossy(&compiled.stderr);
    if complaint.contains("core_dispatch.h: No such file") || complaint.contains("find -lcrypto") {
        evener_skipped::lacking!(
            "the system's OpenSSL 3 is not there to build a provider (libssl-dev)"
        );
        return false;
    }
    assert!(compiled.status.success(), "{complaint}");
    true
}

const HEADERS: &str = "
    #include <fcntl.h>
    #include <pthread.h>
    #include <stdlib.h>
    #include <unistd.h>
";

const ENGINE: &str = "openssl:provider=counting,path=.";

/// The program with the provider.
fn command(fixture: &Fixture, arguments: &[&str]) -> Command {
    let (operation, rest) = arguments.split_first().unwrap();
    let usual = ["--format", "openssl", "--cipher", "aes-128-cbc", "--iterations", "1"];
    let given = ["--passphrase-file", "passphrase", "--engine", ENGINE];
    fixture.command(&[&[*operation], &usual[..], &given, rest].concat())
}

fn run(fixture: &Fixture, arguments: &[&str]) -> Ended {
    Ended::of(&mut command(fixture, arguments))
}

/// Checks that each output there is whole, and tells how many there are.
fn whole_outputs(fixture: &Fixture) -> usize {
    let names = if fixture.path("out").exists() { fixture.names("out") } else { Vec::new() };
    for name in &names {
        // A salt, and padding.
        assert_eq!(
            fs::metadata(fixture.path("out").join(name)).unwrap().len(),
            16 + 3008,
            "{name}"
        );
    }
    names.len()
}

#[test]
fn work_that_is_done_is_a_success_whatever_the_code_does_at_the_end() {
    let fixture = Fixture::new();
    let code = "
        static void act(int call) { (void)call; }
        __attribute__((destructor)) static void crash(void) { __builtin_trap(); }
        __attribute__((constructor)) static void start(void) { atexit(crash); }";
    if !build(&fixture, code) {
        return;
    }
    let ended = run(&fixture, &["encrypt", "--json", "many", "out"]);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    assert_eq!(ended.document()["files"], FILES);
    assert_eq!(whole_outputs(&fixture), FILES);
    let ended = run(&fixture, &["verify", "out"]);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    let ended = run(&fixture, &["decrypt", "out", "back"]);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    fixture.assert_same_tree("many", "back");
}

#[test]
fn code_that_ends_the_program_makes_no_success() {
    for (code, how) in [
        ("_exit(0);", "ended with status 0"),
        ("quick_exit(0);", "ended with status 0"),
        ("exit(0);", "ended with status 0"),
        ("_exit(99);", "ended with status 99"),
        ("abort();", "was ended by SIGABRT"),
        ("kill(getpid(), 9);", "was ended by SIGKILL"),
        ("pthread_t thread; pthread_create(&thread, 0, crash, 0); pause();", "ended by SIGSEGV"),
    ] {
        let fixture = Fixture::new();
        let code = format!(
            "#include <signal.h>
            static void *crash(void *place) {{ return *(void *volatile *)place; }}
            static void act(int call) {{ (void)crash; if (call == {MIDST}) {{ {code} }} }}"
        );
        if !build(&fixture, &code) {
            return;
        }
        let ended = run(&fixture, &["encrypt", "-q", "-j", "1", "--json", "many", "out"]);
        assert_eq!(ended.status, Some(1), "{code}: {}", ended.messages);
        let told: Vec<_> =
            ended.messages.lines().filter(|line| line.contains("the process")).collect();
        assert_eq!(told.len(), 1, "{code}: {}", ended.messages);
        assert!(told[0].starts_with("evener: ") && told[0].contains(how), "{code}: {told:?}");
        assert!(told[0].contains("do the rest again"), "{told:?}");
        assert_eq!(how.contains("SIGKILL"), !told[0].contains(ENGINE), "{told:?}");
        let cause = &ended.document()["failures"][0]["cause"];
        assert!(told[0].ends_with(cause.as_str().unwrap()), "{cause}");
        let done = whole_outputs(&fixture);
        assert!(done > 0 && done < FILES, "{code}: {done}");
    }
}

#[test]
fn code_that_closes_the_programs_descriptors_makes_no_success() {
    let told =
        "code that engine `openssl:provider=counting,path=.` loads may have ended it, or closed";
    for (code, told) in [
        // The way to the witness alone; and a file in its place.
        ("close(LAST);", told),
        (
            "int file = open(\"victim\", O_CREAT | O_RDWR, 0600); dup2(file, LAST); close(file);",
            told,
        ),
        // All.
        (
            "for (int file = 0; file <= LAST; file++) close(file);",
            "did not say that the work was done",
        ),
    ] {
        let fixture = Fixture::new();
        let code = format!(
            "#include <sys/resource.h>
            static int last(void) {{
                struct rlimit limit;
                getrlimit(RLIMIT_NOFILE, &limit);
                return limit.rlim_cur < 4096 ? limit.rlim_cur - 1 : 4095;
            }}
            #define LAST last()
            static void act(int call) {{ if (call == {MIDST}) {{ {code} }} }}"
        );
        if !build(&fixture, &code) {
            return;
        }
        let ended = run(&fixture, &["encrypt", "-j", "1", "many", "out"]);
        assert_eq!(ended.status, Some(1), "{code}: {}", ended.messages);
        assert!(ended.messages.contains(told), "{code}: {}", ended.messages);
        whole_outputs(&fixture);
        assert!(fs::read(fixture.path("victim")).unwrap_or_default().is_empty(), "{code}");
    }
}

/// What is abandoned in a driver may crash when the process ends; here whatever ends it does.
#[test]
fn a_crash_after_the_word_of_completion_changes_nothing() {
    let fixture = Fixture::new();
    if !build(&fixture, "static void act(int call) { (void)call; }") {
        return;
    }
    let code = "
        #include <stdlib.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        void _exit(int status)
        {
            if (getppid() == atoi(getenv(\"EVENER_TEST_PROCESS\")))
                for (;;) syscall(SYS_exit_group, status);
            abort();
        }";
    fs::write(fixture.path("crash.c"), code).unwrap();
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-D_GNU_SOURCE", "-shared", "-fPIC", "-w", "-o"]);
    compiler.arg(fixture.path("crash.so")).arg(fixture.path("crash.c"));
    assert!(compiler.status().unwrap().success());
    let process = std::process::id().to_string();
    for (arguments, status) in [
        (["encrypt", "--json", "many", "out"], 0),
        (["encrypt", "--json", "many", "out"], 1),
        (["decrypt", "--json", "many", "none"], 1),
    ] {
        let mut command = command(&fixture, &arguments);
        command.env("LD_PRELOAD", fixture.path("crash.so")).env("EVENER_TEST_PROCESS", &process);
        let ended = Ended::of(&mut command);
        assert_eq!(ended.status, Some(status), "{arguments:?}: {}", ended.messages);
        assert!(!ended.messages.contains("the process"), "{}", ended.messages);
        assert_eq!(ended.document()["files"], if status == 0 { FILES } else { 0 });
    }
}

/// Encrypts a pipe, of which it has read something.
fn start(fixture: &Fixture, json: &str) -> Child {
    let mut command = command(fixture, &["encrypt", json, "-", "piped"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // More than a pipe holds: when it is written, some of it was read.
    child.stdin.as_mut().unwrap().write_all(&vec![1; 8 << 20]).unwrap();
    child
}

fn send(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal).unwrap();
}

/// The process that works.
fn worker(witness: &Child) -> u32 {
    let id = witness.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    children.trim().parse().unwrap()
}

/// The state of a process, as proc(5) has it; `None` once it has ended.
fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next().filter(|&state| state != 'Z' && state != 'X')
}

fn await_state(process: u32, wanted: impl Fn(Option<char>) -> bool) {
    let begun = Instant::now();
    while !wanted(state(process)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{process}: {:?}", state(process));
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn signals_do_what_they_do_without_a_witness() {
    let fixture = Fixture::new();
    if !build(&fixture, "static void act(int call) { (void)call; }") {
        return;
    }
    for (signal, to_worker) in [
        (Signal::INT, false),
        (Signal::TERM, false),
        (Signal::INT, true),
        (Signal::QUIT, false),
        (Signal::KILL, false),
        (Signal::USR1, false),
    ] {
        let child = start(&fixture, "--json");
        let worker = worker(&child);
        send(if to_worker { worker } else { child.id() }, signal);
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        if matches!(signal, Signal::INT | Signal::TERM) {
            assert_eq!(output.status.code(), Some(130), "{signal:?}: {told}");
            assert!(told.contains("interrupted; encrypted 0 files"), "{signal:?}: {told}");
            let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(document["interrupted"], true);
        } else {
            assert_eq!(output.status.signal(), Some(signal.as_raw()), "{told}");
            assert!(!told.contains("the process") && output.stdout.is_empty(), "{told}");
        }
        await_state(worker, |state| state.is_none());
        assert!(!fixture.path("piped").exists());
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let fixture = Fixture::new();
    if !build(&fixture, "static void act(int call) { (void)call; }") {
        return;
    }
    let mut command = command(&fixture, &["encrypt", "-q", "-", "-"]);
    command.stdin(File::open("/dev/zero").unwrap());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 1000]).unwrap();
    let output = child.stdout.take();
    drop(output);
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.signal(), Some(Signal::PIPE.as_raw()), "{told}");
    assert!(!told.contains("the process"), "{told}");
}

#[test]
fn both_processes_stop_and_go_on_together() {
    let fixture = Fixture::new();
    if !build(&fixture, "static void act(int call) { (void)call; }") {
        return;
    }
    let mut child = start(&fixture, "-q");
    let worker = worker(&child);
    for (stopped, signal) in [
        (child.id(), Signal::TSTP),
        (worker, Signal::TSTP),
        (worker, Signal::STOP),
        (worker, Signal::TTIN),
    ] {
        send(stopped, signal);
        await_state(child.id(), |state| state == Some('T'));
        await_state(worker, |state| state == Some('T'));
        send(child.id(), Signal::CONT);
        await_state(worker, |state| state.is_some_and(|state| state != 'T'));
        await_state(child.id(), |state| state.is_some_and(|state| state != 'T'));
    }
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn keys_come_from_descriptors_of_the_shell() {
    let fixture = Fixture::new();
    if !has("bash") {
        evener_skipped::skipped!("there is no bash");
        return;
    }
    if !build(&fixture, "static void act(int call) { (void)call; }") {
        return;
    }
    let line = format!(
        "$0 encrypt -q --format openssl --cipher aes-128-cbc --iterations 1 --engine {ENGINE} \
         --passphrase-fd 9 9< <(cat passphrase) - - < many/7 | cat > sealed && exec $0 decrypt -q \
         --format openssl --cipher aes-128-cbc --iterations 1 --passphrase-file <(cat passphrase) \
         sealed opened"
    );
    let mut command = Command::new("bash");
    command.current_dir(fixture.path(".")).args(["-o", "pipefail", "-c", &line]);
    let ended = Ended::of(command.arg(env!("CARGO_BIN_EXE_evener")));
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    assert_eq!(fs::read(fixture.path("opened")).unwrap(), vec![7; 3000]);
}

/// What a driver for GPUs does when it is looked for.
#[test]
fn commands_that_look_for_engines_have_a_witness_too() {
    let code = "#include <unistd.h>\nint cuInit(unsigned flags) { (void)flags; _exit(0); }";
    let fixture = Fixture::new();
    let fake = concat!(env!("CARGO_MANIFEST_DIR"), "/../engines/src/gpu/cuda/tests/fake.c");
    let code = format!("#define cuInit other\n#include \"{fake}\"\n#undef cuInit\n{code}");
    fs::write(fixture.path("driver.c"), code).unwrap();
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-D_GNU_SOURCE", "-w", "-shared", "-fPIC", "-o"]);
    compiler.arg(fixture.path("libcuda.so.1")).arg(fixture.path("driver.c"));
    let Ok(compiled) = compiler.output() else {
        evener_skipped::lacking!("there is no C compiler for a driver");
        return;
    };
    assert!(compiled.status.success(), "{compiled:?}");
    for arguments in [
        &["engines", "--json"][..],
        &["engines", "--measure"],
        &["speed", "--json"],
        &["speed", "--json", "--engine", "gpu"],
        &["encrypt", "-k", "my.key", "--json", "--engine", "gpu", "tree", "sealed"],
    ] {
        let mut command = fixture.command(arguments);
        let ended = Ended::of(command.env("LD_LIBRARY_PATH", fixture.path(".")));
        assert_eq!(ended.status, Some(1), "{arguments:?}: {}", ended.messages);
        assert!(ended.messages.contains("code that engine `gpu` loads"), "{}", ended.messages);
        if arguments.contains(&"--json") {
            let cause = ended.document()["failures"][0]["cause"].to_string();
            assert!(cause.contains("ended with status 0"), "{cause}");
        }
    }
}

/// Runs a program of Python on the tests' directory.
fn python(fixture: &Fixture, program: &str) {
    let mut command = Command::new("python3");
    command.args(["-c", program, env!("CARGO_BIN_EXE_evener"), ENGINE]);
    command.current_dir(fixture.path(".")).env("TERM", "xterm");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_shell_stops_it_and_has_it_go_on() {
    if !has("python3") || !has("bash") {
        evener_skipped::skipped!("there is no python3 or no bash to make a terminal");
        return;
    }
    let fixture = Fixture::new();
    if !build(&fixture, "static void act(int call) { (void)call; }") {
        return;
    }
    assert!(Command::new("mkfifo").arg(fixture.path("fifo")).status().unwrap().success());
    python(
        &fixture,
        r#"
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(evener=sys.argv[1], engine=sys.argv[2], PS1="", HISTFILE="")
    os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])
shown = b""
def await_text(text, end=60):
    global shown
    while text not in shown:
        shown += os.read(terminal, 1000)
    at = shown.index(text) + len(text)
    shown = shown[at:]
def type(line):
    os.write(terminal, line)
def states():
    found = {}
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = open(f"/proc/{number}/stat").read()
        except OSError:
            continue
        name, rest = stat.split("(", 1)[1].rsplit(") ", 1)
        if name == "evener" and rest.split()[3] == str(pid):
            found[number] = rest.split()[0]
    return list(found.values())
def await_states(test):
    end = time.time() + 60
    while not test(states()):
        assert time.time() < end, (states(), shown)
        time.sleep(0.01)

usual = b"--format openssl --cipher aes-128-cbc --iterations 1 --engine $engine"
type(b"stty -echo; echo rea''dy\n")
await_text(b"ready")
type(b"$evener encrypt -q " + usual + b" --passphrase-file passphrase fifo out; echo 'status'=$?\n")
feed = open("fifo", "wb")
feed.write(bytes(1000000))
feed.flush()
await_states(lambda found: len(found) == 2)
type(b"\x1a")
await_text(b"Stopped")
await_text(b"status=1")
await_states(lambda found: found == ["T", "T"])
type(b"bg\n")
await_states(lambda found: len(found) == 2 and "T" not in found)
type(b"fg; echo 'status'=$?\n")
time.sleep(0.3)
type(b"\x1a")
await_text(b"Stopped")
await_states(lambda found: found == ["T", "T"])
type(b"fg; echo 'status'=$?\n")
await_states(lambda found: len(found) == 2 and "T" not in found)
feed.close()
await_text(b"status=0")
await_states(lambda found: not found)
assert os.path.getsize("out") == 16 + 1000000 + 16 - 1000000 % 16, os.path.getsize("out")

for key, status in [(b"\x03", b"130"), (b"\x1c", b"131")]:
    type(b"$evener encrypt -q " + usual + b" --passphrase-file passphrase fifo out2; echo 'status'=$?\n")
    feed = open("fifo", "wb")
    feed.write(bytes(1000000))
    feed.flush()
    await_states(lambda found: len(found) == 2)
    time.sleep(0.3)
    type(key)
    await_text(b"status=" + status)
    await_states(lambda found: not found)
    assert not os.path.exists("out2")

type(b"$evener encrypt -q " + usual + b" --passphrase many/1 out3; echo 'status'=$?\n")
await_text(b"assphrase")
time.sleep(0.3)
type(b"mistyped\x1a")
await_text(b"Stopped")
await_states(lambda found: found == ["T", "T"])
type(b"fg; echo 'status'=$?\n")
await_text(b"assphrase")
time.sleep(0.3)
type(b"open sesame\n")
await_text(b"again")
time.sleep(0.3)
type(b"open sesame\n")
await_text(b"status=0")
type(b"exit\n")
os.waitpid(pid, 0)
"#,
    );
    let ended = run(&fixture, &["decrypt", "-q", "out3", "back"]);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    assert_eq!(fs::read(fixture.path("back")).unwrap(), vec![1; 3000]);
}
