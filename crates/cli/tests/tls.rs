//! `evener tls`: what is said, and what becomes of what it makes, whatever a program or a user does.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::thread::sleep;
use std::time::Duration;

use common::{Ended, Fixture, PROVIDER};
use rustix::fs::{OFlags, fcntl_setfl};

#[test]
fn a_program_to_check_that_is_not_there_is_named() {
    let fixture = Fixture::new();
    let ended = fixture.expect(2, &["tls", "check", "--provider", PROVIDER, "no-such-program"]);
    let told = "evener: no-such-program: can't run it: No such file or directory\n";
    assert_eq!(ended.messages, told);
}

/// Anybody can put files into /dev/shm.
#[test]
fn a_configuration_without_an_end_is_refused() {
    let fixture = Fixture::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        fixture.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let includes = format!(".include {}\n", fixture.path("pipe").display());
    fs::write(fixture.path("includes"), includes).unwrap();
    for (base, reason) in [
        ("pipe", "it is no file"),
        ("/dev/zero", "it is larger than 16 MiB"),
        ("includes", "it is no file"),
    ] {
        let ended = fixture.run(&["tls", "config", "--provider", PROVIDER, "--base", base]);
        assert_eq!(ended.status, Some(2), "{base}: {}", ended.messages);
        assert!(ended.messages.contains(reason), "{base}: {}", ended.messages);
    }
    let ended = fixture.run(&["tls", "config", "--provider", PROVIDER, "--base", "/dev/null"]);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
}

#[test]
fn what_others_leave_behind_is_no_failure_of_tls_status() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let rubbish = format!("/dev/shm/evener-tls-{}", 3_000_000_000 + u64::from(std::process::id()));
    fs::write(&rubbish, "no counters").unwrap();
    let ended = Fixture::new().run(&["tls", "status"]);
    fs::remove_file(&rubbish).unwrap();
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    let told = format!("{rubbish}: can't read it: it is no file of counters");
    assert!(ended.messages.contains(&told), "{}", ended.messages);
}

/// A script sees how the program has ended, and nothing is left of the configuration.
#[test]
fn a_checked_program_says_how_it_ended() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("temporary")).unwrap();
    for (line, status, told) in [
        ("exit 22", 22, "sh: it ended with exit status: 22\n"),
        ("kill -INT $$", 130, "sh: interrupted\n"),
        ("kill -TERM $$", 130, "sh: interrupted\n"),
        ("kill -QUIT $PPID; sleep 0.1; kill -QUIT $$", 131, "(SIGQUIT)"),
        ("kill -INT $PPID; sleep 0.1; exit 3", 3, "exit status: 3\n"),
        ("kill -KILL $$", 137, "(SIGKILL)"),
        ("mkdir ${OPENSSL_CONF%/*}/counters; exit 9", 9, "it is no file of counters\n"),
        ("kill -TERM $PPID; exec sleep 60", 130, "sh: interrupted\n"),
        ("exit 0", 1, "Perhaps there was no TLS"),
    ] {
        let mut command = fixture.command(&["tls", "check", "--provider", PROVIDER, "sh", "-c"]);
        let ended = Ended::of(
            command.arg(line).env("OPENSSL_CONF", "").env("TMPDIR", fixture.path("temporary")),
        );
        assert_eq!(ended.status, Some(status), "{line}: {}", ended.messages);
        assert!(ended.messages.contains(told), "{line}: {}", ended.messages);
        assert_eq!(ended.messages.contains("Perhaps"), line == "exit 0", "{line}");
        assert_eq!(fixture.names("temporary"), [""; 0], "{line}");
    }
}

/// Nothing is left once that is told, however long it takes; until then no signal ends it.
#[test]
fn a_checked_programs_directory_is_removed_before_its_end_is_told() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("temporary")).unwrap();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // Nothing more goes into a pipe that is full.
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    while writer.write(b".").is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    let mut command = fixture.command(&["tls", "check", "--provider", PROVIDER, "touch", "ended"]);
    command.env("OPENSSL_CONF", "").env("TMPDIR", fixture.path("temporary")).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    while !fixture.path("ended").exists() {
        sleep(SOON / 10);
    }
    sleep(SOON);
    assert_eq!(fixture.names("temporary"), [""; 0]);
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(said.contains("Perhaps there was no TLS"), "{said}");
}

#[test]
fn nobody_else_can_write_what_a_checked_program_reads() {
    let fixture = Fixture::new();
    for umask in ["0", "777"] {
        let look = format!(
            "umask {umask}; $evener tls check --provider $evener sh -c 'stat -c %a ${{OPENSSL_CONF%/*}}'"
        );
        let ended = fixture.shell(&look);
        assert_eq!(String::from_utf8_lossy(&ended.output), "700\n", "{}", ended.messages);
    }
}

#[test]
fn a_checked_program_may_open_as_many_files_as_without_evener() {
    let fixture = Fixture::new();
    let look = "ulimit -Sn 333; $evener tls check --provider $evener sh -c 'ulimit -n'";
    let ended = fixture.shell(look);
    assert_eq!(String::from_utf8_lossy(&ended.output), "333\n", "{}", ended.messages);
}

/// What is in its place then is not removed.
#[test]
fn a_checked_programs_directory_that_cant_be_removed_is_told() {
    let fixture = Fixture::new();
    let replace = "at=${OPENSSL_CONF%/*}; rm -r $at; echo a file >$at; echo $at; exit 9";
    let ended = fixture.run(&["tls", "check", "--provider", PROVIDER, "sh", "-c", replace]);
    let place = String::from_utf8(ended.output).unwrap();
    assert_eq!(ended.status, Some(9), "{}", ended.messages);
    let told = format!("evener: {}: can't remove it: ", place.trim_end());
    assert!(ended.messages.contains(&told), "{}", ended.messages);
    fs::remove_file(place.trim_end()).unwrap();
}

const SOON: Duration = Duration::from_millis(300);
