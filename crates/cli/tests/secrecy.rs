//! The program's measures to keep keys secret, and its work under them.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Fixture, IDENTITY, has};

#[test]
fn a_process_with_keys_leaves_no_core_dump() {
    let fixture = Fixture::new();
    let mut command = fixture.command(&["encrypt", "-k", "my.key", "-", "sealed"]);
    let mut process = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = process.stdin.take().unwrap();
    input.write_all(&vec![7; 4 << 20]).unwrap();
    let about = |name: &str| {
        let path = PathBuf::from(format!("/proc/{}/{name}", process.id()));
        fs::read_to_string(path).unwrap()
    };
    let line = |text: String, start: &str| {
        let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    // By the time it has read 4 MiB of its source, it has read the key.
    assert_eq!(line(about("limits"), "Max core file size")[4..6], ["0", "0"]);
    let locked = line(about("status"), "VmLck:");
    if line(about("limits"), "Max locked memory")[3] == "unlimited" {
        assert_ne!(locked[1], "0");
    }
    drop(input);
    assert!(process.wait().unwrap().success());
}

#[test]
fn a_secret_in_place_of_a_name_is_not_printed() {
    let fixture = Fixture::new();
    let small = IDENTITY.to_lowercase();
    let key = "evener-key:v1:cobblestone-128:AAECAwQFBgcICQoLDA0ODw";
    for secret in [IDENTITY, &small, "AGE-PLUGIN-YUBIKEY-1QQQQQQQQQQQQQQQ", key] {
        for arguments in [
            &["decrypt", "-i", secret, "tree", "out"][..],
            &["decrypt", "-k", secret, "tree", "out"],
            &["decrypt", "--passphrase-file", secret, "tree", "out"],
            &["encrypt", "-R", secret, "tree", "out"],
            &["encrypt", "-r", secret, "tree", "out"],
            &["encrypt", "-k", "my.key", secret, "out"],
            &["verify", "-k", "my.key", "tree", secret],
            &["keygen", secret],
            &["keygen", "--format", secret],
            &[secret],
        ] {
            for json in [&[][..], &["--json"]] {
                let ended = fixture.run(&[arguments, json].concat());
                let printed =
                    format!("{}{}", ended.messages, String::from_utf8_lossy(&ended.output));
                assert_ne!(ended.status, Some(0), "{printed}");
                assert!(!printed.contains(&secret[secret.len() - 15..]), "{printed}");
            }
        }
    }
}

/// Root may lock its memory although it may not raise a finite limit, as in many containers.
#[test]
fn memory_is_locked_beyond_a_limit_that_cannot_be_raised() {
    let under = "prlimit --memlock=65536:65536 setpriv --bounding-set=-sys_resource \
                 --inh-caps=-sys_resource";
    let fixture = Fixture::new();
    let line = |program: &str| format!("{under} {program}");
    let may = "python3 -c 'import ctypes; exit(ctypes.CDLL(None).mlockall(7))'";
    if fixture.shell(&line("true")).status != Some(0) || fixture.shell(&line(may)).status != Some(0)
    {
        evener_core::skipped!("locking memory beyond a limit: this process may not");
        return;
    }
    let key = "grep VmLck /proc/$PPID/status >&2; cat my.key";
    let line = line(&format!("$evener verify --key-command '{key}' my.key"));
    let ended = fixture.shell(&line);
    let locked = ended.messages.lines().find(|line| line.contains("VmLck")).unwrap_or_default();
    assert!(locked.split_whitespace().nth(1).is_some_and(|size| size != "0"), "{ended:?}");
}

/// A process that is not dumpable has its `/proc/self` owned by root, and outputs get their names
/// by way of `/proc/self/fd`.
#[test]
fn an_ordinary_user_encrypts_and_decrypts() {
    if !rustix::process::geteuid().is_root() || !has("setpriv") {
        evener_core::skipped!(
            "becoming an ordinary user: this is not root, or there is no setpriv"
        );
        return;
    }
    let fixture = Fixture::new();
    // This process must not copy it: another test may be starting a program, which would hold the
    // copy open for writing, and then nothing could run it.
    assert_eq!(fixture.shell("cp $evener evener").status, Some(0));
    assert_eq!(fixture.shell("chown -R 65534:65534 . && chmod 755 .").status, Some(0));
    let user = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    for (number, namespace) in ["", "unshare --user --map-root-user"].into_iter().enumerate() {
        if fixture.shell(&format!("{user} {namespace} true")).status != Some(0) {
            evener_core::skipped!("user namespaces: they can't be made here");
            continue;
        }
        let line = format!(
            "HOME=$PWD XDG_CACHE_HOME=$PWD {user} {namespace} sh -ec '
                ./evener encrypt -k my.key tree sealed-{number}
                ./evener decrypt -k my.key sealed-{number} back-{number}
                ./evener decrypt -k my.key - - < sealed-{number}/one.enc'"
        );
        let ended = fixture.shell(&line);
        assert_eq!(ended.status, Some(0), "{ended:?}");
        assert_eq!(ended.output, b"the first file");
        fixture.assert_same_tree("tree", &format!("back-{number}"));
    }

    // The process's user can't read its memory.
    let mut command = Command::new("setpriv");
    command.env("HOME", fixture.path(".")).env("XDG_CACHE_HOME", fixture.path("."));
    command.args(user.split(' ').skip(1)).args(["./evener", "encrypt", "-k", "my.key", "-", "x"]);
    let mut process = command.current_dir(fixture.path(".")).stdin(Stdio::piped()).spawn().unwrap();
    let memory = PathBuf::from(format!("/proc/{}/mem", process.id()));
    let is_closed = || fs::metadata(&memory).unwrap().uid() == 0 && has_become(process.id(), 65534);
    let closed = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        is_closed()
    });
    assert!(closed);
    drop(process.stdin.take());
    assert!(process.wait().unwrap().success());
}

fn has_become(process: u32, user: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("Uid:")).unwrap_or_default();
    line.split_whitespace().nth(2) == Some(&user.to_string())
}
