//! Signals, terminals and shells, with a witness that watches the working process.

mod common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::provider::{ENGINE, build, command, run};
use common::{Ended, Fixture, has};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The provider does its work and nothing else.
const NOTHING: &str = "static void act(int call) { (void)call; }";

/// Encrypts a pipe, and returns once it has read some of it.
fn start(fixture: &Fixture, json: &str) -> Child {
    let mut command = command(fixture, &["encrypt", json, "-", "piped"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.process_group(0).spawn().unwrap();
    // This is more than a pipe holds: once it is written, the program has read some of it.
    child.stdin.as_mut().unwrap().write_all(&vec![1; 8 << 20]).unwrap();
    child
}

fn send(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal).unwrap();
}

/// The working process.
fn worker(witness: &Child) -> u32 {
    let id = witness.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    children.trim().parse().unwrap()
}

/// The state of a process in the format of proc(5); `None` once it has ended.
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
    if !build(&fixture, NOTHING) {
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
        let mut child = start(&fixture, "--json");
        let worker = worker(&child);
        // The end of the input would end the work.
        let input = child.stdin.take();
        send(if to_worker { worker } else { child.id() }, signal);
        let output = child.wait_with_output().unwrap();
        drop(input);
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
    if !build(&fixture, NOTHING) {
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
    if !build(&fixture, NOTHING) {
        return;
    }
    let mut child = start(&fixture, "-q");
    let worker = worker(&child);
    // The signal goes to one of the two, or to both.
    for (stopped, signal) in [
        (Some(child.id()), Signal::TSTP),
        (Some(worker), Signal::TSTP),
        (Some(worker), Signal::STOP),
        (Some(worker), Signal::TTIN),
        (None, Signal::TSTP),
        (None, Signal::STOP),
    ] {
        let group = Pid::from_child(&child);
        match stopped {
            Some(process) => send(process, signal),
            None => kill_process_group(group, signal).unwrap(),
        }
        await_state(child.id(), |state| state == Some('T'));
        await_state(worker, |state| state == Some('T'));
        match stopped {
            Some(_) => send(child.id(), Signal::CONT),
            None => kill_process_group(group, Signal::CONT).unwrap(),
        }
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
        evener_core::skipped!("there is no bash");
        return;
    }
    if !build(&fixture, NOTHING) {
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

/// Runs a Python program in the tests' directory.
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
        evener_core::skipped!("there is no python3 or no bash to make a terminal");
        return;
    }
    let fixture = Fixture::new();
    if !build(&fixture, NOTHING) {
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
def await_text(text):
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
def await_foreground():
    while os.tcgetpgrp(terminal) == pid:
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
await_foreground()
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
    type(key)
    await_text(b"status=" + status)
    await_states(lambda found: not found)
    assert not os.path.exists("out2")

type(b"$evener encrypt -q " + usual + b" --passphrase many/1 out3; echo 'status'=$?\n")
await_text(b"assphrase")
type(b"mistyped\x1a")
await_text(b"Stopped")
await_states(lambda found: found == ["T", "T"])
type(b"fg; echo 'status'=$?\n")
await_text(b"assphrase")
type(b"open sesame\n")
await_text(b"again")
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
