//! Tests file systems that keep a file's content but not all of its metadata.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::child::{Errand, Flags, serve, shim};
use common::{bytes, home, options, process};
use evener_place::Operation;
use rustix::fs::{XattrFlags, setxattr};
use tempfile::TempDir;

#[test]
fn child() {
    serve();
}

/// A tree, and its sealed version.
struct Trees {
    home: TempDir,
}

impl Trees {
    fn new() -> Trees {
        let trees = Trees { home: home() };
        let plain = trees.at("plain");
        fs::create_dir_all(plain.join("below")).unwrap();
        for (name, length) in [("one", 10), ("below/long", 400_000)] {
            fs::write(plain.join(name), bytes(length)).unwrap();
        }
        fs::set_permissions(plain.join("one"), fs::Permissions::from_mode(0o640)).unwrap();
        let keys = common::cobblestone();
        let report =
            process(Operation::Encrypt, &keys, &plain, Some(&trees.at("sealed")), &options());
        assert!(report.unwrap().is_success());
        trees
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Encrypts or decrypts the tree to `out` while a call fails there, without unnamed files.
    /// Returns the status, the messages, and the names of the outputs.
    fn run(&self, operation: Operation, flags: Flags, call: &str, errno: i32) -> Outcome {
        let source = match operation {
            Operation::Encrypt => self.at("plain"),
            _ => self.at("sealed"),
        };
        let out = self.at("out");
        let _ = fs::remove_dir_all(&out);
        let keys = "cobblestone-256";
        let errand = Errand { operation, keys, source: &source, target: &out, flags };
        let mut command = errand.command();
        command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NO_TMPFILE", "1");
        command.env("EVENER_FAULT_CALL", call).env("EVENER_FAULT_DO", errno.to_string());
        command.env("EVENER_FAULT_NTH", "0").env("EVENER_FAULT_BELOW", &out);
        let output = command.output().unwrap();
        let messages = String::from_utf8(output.stderr).unwrap();
        Outcome { status: output.status.code().unwrap(), messages, names: names(&out) }
    }
}

struct Outcome {
    status: i32,
    messages: String,
    names: Vec<String>,
}

impl Outcome {
    fn assert(&self, status: i32, names: &[&str], message: &str) {
        assert_eq!(self.status, status, "{}", self.messages);
        assert_eq!(self.names, names, "{}", self.messages);
        let times = self.messages.matches(message).count();
        assert_eq!(times, 1, "`{message}` in {}", self.messages);
        assert_eq!(self.messages.lines().count(), 1, "{}", self.messages);
    }
}

/// The names of all files below a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(at).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => waiting.push(path),
                false => names.push(path.strip_prefix(directory).unwrap().display().to_string()),
            }
        }
    }
    names.sort();
    names
}

const SEALED: &[&str] = &["below/long.enc", "one.enc"];
const PLAIN: &[&str] = &["below/long", "one"];
const EPERM: i32 = 1;
const EIO: i32 = 5;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

#[test]
fn without_modes_and_times_all_is_stored_and_said_once() {
    let trees = Trees::new();
    let lacks = [("fchmod", "sets no modes"), ("futimens", "sets no times")];
    for (call, message) in lacks {
        for errno in [EPERM, ENOSYS, EOPNOTSUPP] {
            for (operation, names) in [(Operation::Encrypt, SEALED), (Operation::Decrypt, PLAIN)] {
                trees.run(operation, Flags::default(), call, errno).assert(0, names, message);
            }
        }
        let removing = Flags { remove_source: true, ..Flags::default() };
        let trees = Trees::new();
        trees.run(Operation::Encrypt, removing, call, EPERM).assert(0, SEALED, message);
        assert!(names(&trees.at("plain")).is_empty());
    }
}

#[test]
fn what_was_asked_for_and_not_kept_is_a_failure_and_the_ciphertext_is_stored() {
    let xattrs = Flags { xattrs: true, ..Flags::default() };
    let owner = Flags { owner: true, ..Flags::default() };
    let durable = Flags { durable: true, ..Flags::default() };
    let cases = [
        (owner, "fchown", EPERM, "owners could not be kept (Operation not permitted)"),
        (durable, "syncfs", ENOSYS, "what was written could not be synced"),
        (xattrs, "fsetxattr", EOPNOTSUPP, "extended attributes could not be kept"),
    ];
    for (flags, call, errno, message) in cases {
        let trees = Trees::new();
        let one = trees.at("plain/one");
        let given = setxattr(&one, "user.note", b"1", XattrFlags::empty());
        if let (Err(errno), "fsetxattr") = (given, call) {
            evener_core::skipped!("extended attributes: {errno}");
            continue;
        }
        trees.run(Operation::Encrypt, flags, call, errno).assert(1, SEALED, message);
        // Then only the source has the lost metadata.
        let removing = Flags { remove_source: true, ..flags };
        let outcome = trees.run(Operation::Encrypt, removing, call, errno);
        assert_eq!(outcome.status, 1, "{}", outcome.messages);
        assert!(one.exists(), "{}", outcome.messages);
    }
    let trees = Trees::new();
    trees.run(Operation::Encrypt, durable, "syncfs", EINVAL).assert(1, SEALED, "synced");
    // A failing disk is not a disk without support.
    let outcome = trees.run(Operation::Encrypt, durable, "syncfs", EIO);
    assert_eq!((outcome.status, outcome.names.len()), (1, 0), "{}", outcome.messages);
}

#[test]
fn plaintext_does_not_get_another_owner_than_was_asked_for() {
    let trees = Trees::new();
    let owner = Flags { owner: true, ..Flags::default() };
    let outcome = trees.run(Operation::Decrypt, owner, "fchown", EPERM);
    assert_eq!((outcome.status, outcome.names.len()), (1, 0), "{}", outcome.messages);
}
