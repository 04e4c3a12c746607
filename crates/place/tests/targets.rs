//! Tests outputs whose name an entry other than a file has taken, and filesystems without the usual
//! operations for assigning names.

mod common;

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use common::child::{Errand, Flags, serve, shim};
use common::scene::{Scene, fill_small};
use common::{Options, bytes, cobblestone, home, options, process};
use evener_keys as keys;
use evener_place::{Existing, Failure, Operation, Report};

#[test]
fn child() {
    if let Some(path) = std::env::var_os(KEY) {
        match keys::create(Path::new(&path), b"a key") {
            Ok(made) => eprintln!("{}", made.naming.notice().unwrap_or("as it should be")),
            Err(error) => eprintln!("{error}"),
        }
        return;
    }
    serve();
}

const KEY: &str = "EVENER_TEST_KEY_TO_MAKE";

/// A sealed file, its content, and a directory for outputs.
struct Fixture {
    home: tempfile::TempDir,
    content: Vec<u8>,
}

impl Fixture {
    fn new() -> Fixture {
        let fixture = Fixture { home: home(), content: bytes(200_000) };
        fs::write(fixture.at("plain"), &fixture.content).unwrap();
        let target = fixture.at("sealed");
        process(
            Operation::Encrypt,
            &cobblestone(),
            &fixture.at("plain"),
            Some(&target),
            &options(),
        )
        .unwrap();
        fixture
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn decrypt(&self, target: &Path, options: &Options) -> Result<Report, Failure> {
        process(Operation::Decrypt, &cobblestone(), &self.at("sealed"), Some(target), options)
    }

    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.at(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }
}

fn overwriting() -> Options {
    options().with(|it| it.tree.existing = Existing::Overwrite)
}

#[test]
fn devices_and_fifos_are_written_into() {
    let fixture = Fixture::new();
    let fifo = fixture.fifo("fifo");
    for options in [options(), overwriting()] {
        let report = fixture.decrypt(Path::new("/dev/null"), &options).unwrap();
        assert!(report.is_success() && report.files == 1, "{:?}", report.failures);
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());

        let read = thread::scope(|scope| {
            let reader = scope.spawn(|| fs::read(&fifo).unwrap());
            let report = fixture.decrypt(&fifo, &options).unwrap();
            assert!(report.is_success(), "{:?}", report.failures);
            reader.join().unwrap()
        });
        assert!(read == fixture.content);
        assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    }
    let moving = options().with(|it| it.tree.remove_source = true);
    let refused = fixture.decrypt(Path::new("/dev/null"), &moving).unwrap_err();
    assert!(refused.to_string().contains("can't be read back"), "{refused}");
    assert!(fixture.at("sealed").exists());
}

#[test]
fn what_a_link_points_to_is_replaced_and_the_link_stays() {
    let fixture = Fixture::new();
    let (real, link) = (fixture.at("real"), fixture.at("link"));
    fs::write(&real, "old").unwrap();
    symlink("real", &link).unwrap();
    let report = fixture.decrypt(&link, &options()).unwrap();
    assert!(report.failures[0].error.to_string().contains("`real` exists"), "{report:?}");
    assert_eq!(fs::read(&real).unwrap(), b"old");
    assert!(fixture.decrypt(&link, &overwriting()).unwrap().is_success());
    assert!(fs::read(&real).unwrap() == fixture.content);
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("real"));

    symlink("loop", fixture.at("loop")).unwrap();
    let refused = fixture.decrypt(&fixture.at("loop"), &overwriting()).unwrap_err();
    assert!(refused.to_string().contains("Too many levels of symbolic links"), "{refused}");
    symlink("no/where", fixture.at("dangling")).unwrap();
    assert!(fixture.decrypt(&fixture.at("dangling"), &overwriting()).is_err());
    // A link to a missing entry does not create that entry.
    symlink("elsewhere", fixture.at("planted")).unwrap();
    for options in [options(), overwriting()] {
        let refused = fixture.decrypt(&fixture.at("planted"), &options).unwrap_err();
        assert!(refused.to_string().contains("a symbolic link to what is not there"), "{refused}");
        assert!(!fixture.at("elsewhere").exists());
    }
}

#[test]
fn nothing_is_made_at_the_end_of_a_dangling_link() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.at("tree")).unwrap();
    symlink("nowhere", fixture.at("link")).unwrap();
    for source in ["plain", "tree"] {
        for dry_run in [true, false] {
            let options = overwriting().with(|it| it.tree.dry_run = dry_run);
            let (source, link) = (fixture.at(source), fixture.at("link"));
            let made = process(Operation::Encrypt, &cobblestone(), &source, Some(&link), &options);
            let refused = made.unwrap_err().to_string();
            assert!(refused.contains("a symbolic link to what is not there"), "{refused}");
            assert!(!fixture.at("nowhere").exists());
        }
    }
}

#[test]
fn in_a_tree_whatever_is_no_file_stays() {
    let fixture = Fixture::new();
    let (plain, sealed) = (fixture.at("tree"), fixture.at("sealed-tree"));
    fs::create_dir_all(&plain).unwrap();
    fs::create_dir_all(&sealed).unwrap();
    for name in ["fifo", "file", "link"] {
        fs::write(plain.join(name), name).unwrap();
    }
    // Longer than a buffer.
    fs::write(plain.join("long"), bytes(2_000_000)).unwrap();
    fs::write(fixture.at("precious"), "precious").unwrap();
    fixture.fifo("sealed-tree/fifo.enc");
    fs::write(sealed.join("file.enc"), "old").unwrap();
    for name in ["link.enc", "long.enc"] {
        symlink("../precious", sealed.join(name)).unwrap();
    }
    for tmpfile in [true, false] {
        let flags = Flags { overwrite: true, ..Flags::default() };
        let operation = Operation::Encrypt;
        let errand = Errand { operation, keys: "tink", source: &plain, target: &sealed, flags };
        let mut command = errand.command();
        if !tmpfile {
            command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NO_TMPFILE", "1");
        }
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("`fifo.enc` is a FIFO, which is not replaced"), "{errors}");
        assert!(errors.contains("`link.enc` is a symbolic link, which is not"), "{errors}");
        assert!(errors.contains("`long.enc` is a symbolic link, which is not"), "{errors}");
        assert!(fs::symlink_metadata(sealed.join("fifo.enc")).unwrap().file_type().is_fifo());
        assert!(fs::symlink_metadata(sealed.join("link.enc")).unwrap().is_symlink());
        assert_eq!(fs::read(fixture.at("precious")).unwrap(), b"precious");
        assert!(fs::metadata(sealed.join("file.enc")).unwrap().len() > 3);
        assert_eq!(fs::read_dir(&sealed).unwrap().count(), 4);
    }
}

/// Gives a command a filesystem without hard links and without renaming to a free name.
fn without_links(command: &mut Command, tmpfile: bool) -> &mut Command {
    command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NO_LINKS", "1");
    if !tmpfile {
        command.env("EVENER_FAULT_NO_TMPFILE", "1");
    }
    command
}

#[test]
fn without_links_outputs_get_their_names_all_the_same() {
    for operation in [Operation::Encrypt, Operation::Decrypt] {
        for tmpfile in [true, false] {
            for (overwrite, remove_source) in [(false, false), (true, false), (false, true)] {
                let flags = Flags { overwrite, remove_source, ..Flags::default() };
                let what = format!("{operation:?}, tmpfile {tmpfile}, {flags:?}");
                let fill = |root: &Path, age| {
                    fill_small(root, age);
                    // Further names can't be made there, and each would be reported.
                    fs::remove_file(root.join("sub/same")).unwrap();
                };
                let scene = Scene::new(operation, "cobblestone-256", flags, fill);
                scene.reset();
                let output = without_links(&mut scene.command(), tmpfile).output().unwrap();
                let errors = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(0), "{what}: {errors}");
                let told = errors.matches("checked just before it was given").count();
                assert_eq!(told, usize::from(!overwrite), "{what}: {errors}");
                scene.assert_whole(&what);
                scene.assert_no_leftovers(&what);
                assert_eq!(scene.count_new(&what), 5, "{what}");
                if !overwrite && !remove_source {
                    let again = without_links(&mut scene.command(), tmpfile).output().unwrap();
                    let errors = String::from_utf8_lossy(&again.stderr);
                    assert_eq!(again.status.code(), Some(1), "{what}: {errors}");
                    assert_eq!(
                        errors.lines().filter(|line| line.ends_with("` exists")).count(),
                        6,
                        "{errors}"
                    );
                }
                scene.assert_resumes(&what);
            }
        }
    }
}

#[test]
fn without_links_keys_can_be_made_and_are_not_replaced() {
    let home = home();
    let path = home.path().join("key");
    let make = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture", "--quiet"]).env(KEY, &path);
        let output = without_links(&mut command, true).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let told = make();
    assert!(told.contains("checked just before it was given"), "{told}");
    assert_eq!(fs::read(&path).unwrap(), b"a key");
    fs::write(&path, "precious").unwrap();
    let told = make();
    assert!(told.contains("not overwriting"), "{told}");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}
