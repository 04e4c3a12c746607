//! A dry run reports what a real run reports.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::{Ended, Fixture, RECIPIENT, has};

/// A user without any rights beyond those of a file's mode.
const STRANGER: &str = "61234";

/// Runs the program as another user, who owns everything except what a test has taken away.
fn as_stranger(fixture: &Fixture, arguments: &[&str]) -> Ended {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={STRANGER}"), "--regid=61234", "--clear-groups"]);
    command.arg("./evener").args(arguments).current_dir(fixture.path(".")).env("HOME", ".");
    command.env_remove("XDG_CACHE_HOME").env_remove("XDG_STATE_HOME");
    Ended::of(&mut command)
}

fn fixture_of_stranger() -> Option<Fixture> {
    if !has("setpriv") || !rustix::process::geteuid().is_root() {
        evener_core::skipped!("only root can be another user, with setpriv");
        return None;
    }
    let fixture = Fixture::new();
    let program = fixture.path("evener");
    fs::hard_link(env!("CARGO_BIN_EXE_evener"), &program)
        .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_evener"), &program).map(drop))
        .unwrap();
    for name in ["sealed/deep", "closed", "links"] {
        fs::create_dir_all(fixture.path(name)).unwrap();
    }
    std::os::unix::fs::symlink("nowhere", fixture.path("links/link")).unwrap();
    fs::create_dir(fixture.path("shared")).unwrap();
    fs::write(fixture.path("shared/one.enc"), "of somebody else").unwrap();
    let all = ["my.key", "identity", "tree", "sealed", "closed", "links"];
    give_away(&fixture, &all);
    fs::set_permissions(fixture.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(fixture.path("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::set_permissions(fixture.path("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(fixture.path("tree/deep"), fs::Permissions::from_mode(0o555)).unwrap();
    Some(fixture)
}

fn give_away(fixture: &Fixture, names: &[&str]) {
    let mut chown = Command::new("chown");
    chown.args(["-R", STRANGER]).args(names).current_dir(fixture.path("."));
    assert!(chown.status().unwrap().success());
}

/// The messages about files and directories, without the last line, which counts.
fn complaints(ended: &Ended) -> Vec<&str> {
    ended.messages.lines().filter(|line| !line.contains("crypt")).collect()
}

#[test]
fn what_may_not_be_written_is_told_beforehand() {
    let Some(fixture) = fixture_of_stranger() else { return };
    let key = ["-k", "my.key"];
    let cases: [&[&str]; 9] = [
        // The directory that DST is to be made in.
        &["tree", "new"],
        &["tree", "closed/new"],
        &["tree/one", "new.enc"],
        // An existing directory, and a directory that would be made in it.
        &["tree", "closed"],
        &["links", "closed"],
        // Sources that can't be removed, one by one.
        &["--remove-source", "tree", "sealed"],
        &["--remove-source", "tree/deep/two", "sealed"],
        // Someone else's file in a common directory.
        &["--overwrite", "tree/one", "shared"],
        &["tree/one", "/proc/version"],
    ];
    for case in cases {
        let planned = as_stranger(&fixture, &[&["encrypt", "-n"], &key[..], case].concat());
        let done = as_stranger(&fixture, &[&["encrypt"], &key[..], case].concat());
        assert_eq!(complaints(&planned), complaints(&done), "{case:?}");
        assert_eq!(planned.status, done.status, "{case:?}: {planned:?} {done:?}");
        assert_ne!(done.status, Some(0), "{case:?}: {done:?}");
        let _ = fs::remove_dir_all(fixture.path("sealed"));
        fs::create_dir(fixture.path("sealed")).unwrap();
        fs::write(fixture.path("tree/one"), "the first file").unwrap();
        give_away(&fixture, &["sealed", "tree/one"]);
    }
}

#[test]
fn a_key_that_could_not_be_kept_is_told_beforehand() {
    let Some(fixture) = fixture_of_stranger() else { return };
    for target in ["new", "closed"] {
        for dry in [&["-n"][..], &[]] {
            let arguments = [&["encrypt", "-r", RECIPIENT], dry, &["tree", target]].concat();
            let ended = as_stranger(&fixture, &arguments);
            assert_eq!(ended.status, Some(2), "{target} {dry:?}: {ended:?}");
            assert!(ended.messages.contains("Permission denied"), "{ended:?}");
        }
    }
}

#[test]
fn a_device_is_written_into_and_no_name() {
    let fixture = Fixture::new();
    let planned = fixture.expect(0, &["encrypt", "-n", "-k", "my.key", "tree/one", "/dev/null"]);
    // Work that was not done took no time.
    assert_eq!(
        planned.messages,
        "evener: would encrypt tree/one\nevener: would encrypt 1 file, 14 B\n"
    );
    let remove = ["encrypt", "--remove-source", "-k", "my.key", "tree/one", "/dev/null"];
    let done = fixture.expect(2, &remove);
    let planned = fixture.expect(2, &[&remove[..], &["-n"]].concat());
    assert_eq!(planned.messages, done.messages);
}
