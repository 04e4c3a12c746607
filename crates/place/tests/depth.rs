//! Tests very deep trees.

mod common;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::child::shim;
use common::meddler::meddling;
use common::{Options, cobblestone, home, options, process};
use evener_place::indexed::{self, Keychain, SealedOptions};
use evener_place::{
    Delete, Existing, Failure, Local, Operation, Store, TreeOptions, Update, list, measure,
};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, mkdirat, openat};

/// The actions of a separate process on trees below a directory.
const DEEDS: [&str; 10] =
    ["plan", "seal", "open", "encrypt", "measure", "list", "verify", "decrypt", "update", "delete"];

#[test]
fn child() {
    let Ok(deed) = env::var("EVENER_TEST_DEED") else { return };
    let at = |name: &str| Path::new(&env::var_os("EVENER_TEST_HOME").unwrap()).join(name);
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(at);
    let run = |operation, from: &Path, to: Option<&Path>, options: Options| {
        let report = process(operation, &cobblestone(), from, to, &options).unwrap();
        assert!(report.is_success(), "{:?}", report.failures.first());
    };
    let update = || options().with(|it| it.tree.existing = Existing::update());
    let delete = || {
        let delete = Some(Delete { agree: Arc::new(|_| true), unmounted: false });
        let update = Update { delete, ..Update::default() };
        options().with(|it| it.tree.existing = Existing::Update(update))
    };
    match &*deed {
        "plan" => {
            let plan = options().with(|it| it.tree.dry_run = true);
            run(Operation::Encrypt, &plain, Some(&sealed), plan);
        }
        "encrypt" => run(Operation::Encrypt, &plain, Some(&sealed), options()),
        "measure" => {
            assert!(
                measure(
                    Operation::Decrypt,
                    &cobblestone(),
                    &sealed,
                    None,
                    &TreeOptions::default(),
                    || { false }
                )
                .unwrap()
                .files
                    > 0
            );
        }
        "list" => {
            let listing = list(&sealed, None, &TreeOptions::default()).unwrap();
            assert!(listing.failures.is_empty() && !listing.files.is_empty());
        }
        "verify" => run(Operation::Verify, &sealed, None, options()),
        "decrypt" => run(Operation::Decrypt, &sealed, Some(&back), options()),
        "update" => run(Operation::Encrypt, &plain, Some(&sealed), update()),
        "delete" => run(Operation::Encrypt, &plain, Some(&sealed), delete()),
        "seal" | "open" => {
            let [plain, tree, opened] = [plain, at("tree"), at("opened")]
                .map(|path| Local::new(path, &TreeOptions::default()));
            let keychain = Keychain { keys: vec![common::sealed::key(7)], ..Keychain::default() };
            let sealed = SealedOptions { keychain, ..SealedOptions::default() };
            let Options { run, transfer, .. } = options();
            if deed == "seal" {
                indexed::seal(&plain, &tree, &run, &transfer, &sealed).unwrap();
            } else {
                let opened = Some(&opened as &dyn Store);
                indexed::open(Operation::Decrypt, &tree, opened, &run, &transfer, &sealed).unwrap();
            }
        }
        _ => unreachable!(),
    }
    std::process::exit(0);
}

fn write(directory: &OwnedFd, name: &str, content: &str) {
    let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY;
    let file = openat(directory, name, flags, Mode::RUSR | Mode::WUSR).unwrap();
    rustix::io::write(&file, content.as_bytes()).unwrap();
}

fn enter(directory: &OwnedFd, name: &str) -> OwnedFd {
    openat(directory, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

/// Acts on each directory of a chain.
fn each_level(root: &Path, mut act: impl FnMut(&OwnedFd)) {
    let mut at = openat(CWD, root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    loop {
        act(&at);
        match openat(&at, "down", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
            Ok(below) => at = below,
            Err(_) => return,
        }
    }
}

/// A chain of directories, each with a file, and beside the chain, directories in which the file
/// has another name.
fn make_chain(root: &Path, levels: usize) {
    fs::create_dir(root).unwrap();
    let mut left = levels;
    each_level(root, |level| {
        write(level, "file", "content");
        // In any listing order, the chain is not always the last directory.
        let names = if left > 0 { &["a", "down", "z"][..] } else { &["a", "z"] };
        names.iter().for_each(|name| mkdirat(level, *name, Mode::RWXU).unwrap());
        left = left.saturating_sub(1);
        write(&enter(level, "a"), "file", "beside");
        linkat(level, "file", enter(level, "z"), "same", AtFlags::empty()).unwrap();
    });
}

/// Removes a tree that may be too deep for the standard library's functions.
fn remove(tree: &Path) {
    assert!(Command::new("rm").arg("-rf").arg(tree).status().unwrap().success());
}

/// Removes the trees in the directory on drop.
struct Deep(tempfile::TempDir);

impl Deep {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Deep {
    fn drop(&mut self) {
        ["plain", "sealed", "back", "tree", "opened"]
            .iter()
            .for_each(|name| remove(&self.path(name)));
    }
}

/// Runs the process that performs a deed, with a limit on open files.
fn perform(deed: &str, home: &Deep, limit: u32, shim: Option<&Path>) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\"")]);
    command.arg(env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--quiet"]);
    command.env("EVENER_TEST_DEED", deed).env("EVENER_TEST_HOME", home.0.path());
    if let Some(shim) = shim {
        command.env("LD_PRELOAD", shim).env("EVENER_FAULT_COUNT", home.path("count"));
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{deed}: {errors}");
    output
}

#[test]
fn the_work_grows_with_the_depth_and_not_with_its_square() {
    let calls = [200, 800].map(|levels| {
        let home = Deep(home());
        make_chain(&home.path("plain"), levels);
        DEEDS.map(|deed| {
            match deed {
                "update" => each_level(&home.path("plain"), |level| write(level, "file", "new")),
                // Everything except the topmost directory is gone.
                "delete" => remove(&home.path("plain/down")),
                _ => {}
            }
            perform(deed, &home, 400, Some(shim()));
            fs::read_to_string(home.path("count")).unwrap().parse::<usize>().unwrap()
        })
    });
    for (deed, (few, many)) in DEEDS.iter().zip(calls[0].iter().zip(calls[1])) {
        println!("{deed}: {few} and {many} names opened");
        // Quadratic growth would open sixteen times as many.
        assert!(many < 6 * few, "{deed}: {few} and {many} names opened");
    }
}

/// While the walk is far below, another process replaces a directory on the way back.
#[test]
fn a_directory_that_was_replaced_is_not_entered_on_the_way_back() {
    for side in ["plain", "sealed"] {
        let home = Deep(home());
        let [plain, sealed, away] = ["plain", "sealed", "back"].map(|name| home.path(name));
        make_chain(&plain, 100);
        let place = home.path(side).join("down/down/down");
        let decoy = home.path("decoy");
        make_chain(&decoy, 100);
        each_level(&decoy, |level| write(level, "secret", "secret"));
        let names = |tree: &Path| {
            let found = Command::new("find").arg(tree).args(["-printf", "%P\n"]).output().unwrap();
            let mut names: Vec<_> = found
                .stdout
                .split(|byte| *byte == b'\n')
                .map(OsStr::from_bytes)
                .map(OsStr::to_owned)
                .collect();
            names.sort();
            names
        };
        let before = names(&decoy);
        let (is_done, control) = (AtomicBool::new(false), options().run.control);
        let deed = {
            let (control, place, decoy) = (control.clone(), place.clone(), decoy.clone());
            move || {
                if is_done.swap(true, Ordering::SeqCst) {
                    return;
                }
                // The queue is full before the walk ends.
                while control.progress().found_files < 60 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                fs::rename(&place, &away).unwrap();
                fs::rename(&decoy, &place).unwrap();
            }
        };
        let options = meddling(deed).with(|it| it.run.control = control);
        let report = process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &options);
        let failures = report.unwrap().failures;
        let is_told = |failure: &Failure| failure.error.to_string().contains("replaced");
        assert!(failures.iter().all(is_told) && !failures.is_empty(), "{side}: {failures:?}");
        assert!(names(&sealed).iter().all(|name| !name.to_string_lossy().contains("secret.enc")));
        let after = names(&place);
        let new: Vec<_> = after.iter().filter(|name| !before.contains(name)).collect();
        let gone: Vec<_> = before.iter().filter(|name| !after.contains(name)).collect();
        assert!(new.is_empty() && gone.is_empty(), "{side}: new {new:?}, gone {gone:?}");
    }
}
