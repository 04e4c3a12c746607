//! Read-only directories, such as those of Go's module cache, as an ordinary user has them.

mod common;

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Ended, has};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::process::{Pid, geteuid, kill_process};

/// A directory in which an ordinary user has the program, a key and a tree.
struct Home {
    directory: tempfile::TempDir,
    program: PathBuf,
    _programs: tempfile::TempDir,
}

impl Home {
    /// Returns `None` if the tests run as root and can't switch to another user.
    fn new() -> Option<Home> {
        if geteuid().is_root() && !has("setpriv") {
            evener_core::lacking!("setpriv is not there");
            return None;
        }
        // Making many files is quick in memory, but programs may not run there.
        let programs = tempfile::tempdir().unwrap();
        fs::set_permissions(programs.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (built, program) = (env!("CARGO_BIN_EXE_evener"), programs.path().join("evener"));
        fs::hard_link(built, &program).or_else(|_| fs::copy(built, &program).map(drop)).unwrap();
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let home = Home { directory: directory.unwrap(), program, _programs: programs };
        home.make("plain/module/one", "first");
        home.make("plain/module/deep/two", "second");
        home.give(home.directory.path());
        home.expect(0, "keygen -o key");
        home.close("plain");
        home.expect(0, "encrypt -k key plain sealed");
        assert_eq!(home.modes("sealed"), home.modes("plain"));
        Some(home)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn make(&self, name: &str, content: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), content).unwrap();
    }

    /// Gives everything below a directory to the ordinary user.
    fn give(&self, at: &Path) {
        if geteuid().is_root() {
            for path in [vec![at.to_owned()], below(at)].concat() {
                lchown(path, Some(USER), Some(USER)).unwrap();
            }
        }
    }

    /// Makes all directories of a tree read-only.
    fn close(&self, tree: &str) {
        self.give(&self.path(tree));
        self.set_modes(tree, 0o555);
    }

    fn open(&self, tree: &str) {
        self.set_modes(tree, 0o755);
    }

    fn set_modes(&self, tree: &str, mode: u32) {
        for path in [vec![self.path(tree)], below(&self.path(tree))].concat() {
            if path.symlink_metadata().unwrap().is_dir() {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    }

    /// The directories of a tree with their modes.
    fn modes(&self, tree: &str) -> Vec<(String, u32)> {
        let root = self.path(tree);
        let all = [vec![root.clone()], below(&root)].concat().into_iter();
        let directories = all.filter(|path| path.symlink_metadata().unwrap().is_dir());
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
        let named = directories.map(|path| {
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            (name, mode(&path))
        });
        named.collect()
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = match geteuid().is_root() {
            true => {
                let mut command = Command::new("setpriv");
                let user = [format!("--reuid={USER}"), format!("--regid={USER}")];
                command.args(user).arg("--clear-groups").arg(&self.program);
                command
            }
            false => Command::new(&self.program),
        };
        command.args(arguments.split(' ')).current_dir(self.directory.path()).stdin(Stdio::null());
        command.env_remove("EVENER_KEY_FILE").env("HOME", self.directory.path());
        command
            .env("XDG_CACHE_HOME", self.directory.path())
            .env("XDG_STATE_HOME", self.directory.path());
        command
    }

    fn expect(&self, status: i32, arguments: &str) -> Ended {
        let ended = Ended::of(&mut self.command(arguments));
        assert_eq!(ended.status, Some(status), "{arguments}: {}", ended.messages);
        ended
    }

    /// Decrypts the sealed tree and compares it with the plain one.
    fn assert_whole(&self) {
        assert_eq!(self.modes("sealed"), self.modes("plain"));
        self.expect(0, "decrypt -k key sealed back");
        assert_eq!(self.modes("back"), self.modes("plain"));
        let mut same = Command::new("diff");
        same.args(["-r", "--no-dereference", "plain", "back"]).current_dir(self.directory.path());
        assert!(same.status().unwrap().success());
        self.remove("back");
    }

    fn remove(&self, tree: &str) {
        self.open(tree);
        fs::remove_dir_all(self.path(tree)).unwrap();
    }

    /// Starts to encrypt many new files of a read-only directory, and returns when one is done.
    /// Only some can be done, because nobody reads the messages about them.
    fn begin_many(&self, options: &str) -> Child {
        self.open("plain");
        for number in 0..150 {
            self.make(&format!("plain/module/{options}{number:050}"), "new");
        }
        self.close("plain");
        let mut command = self.command(&format!("encrypt -v -k key {options} plain sealed"));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let told = child.stderr.as_mut().unwrap();
        rustix::pipe::fcntl_setpipe_size(&*told, 4096).unwrap();
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !String::from_utf8_lossy(&line).contains(&format!("module/{options}000")) {
            told.read_exact(&mut byte).unwrap();
            match byte {
                [b'\n'] => line.clear(),
                [byte] => line.push(byte),
            }
        }
        child
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Root could do without this; others can't.
        self.open(".");
    }
}

/// Everything below a directory, each directory before its content.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut entries: Vec<_> =
        fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let is_directory = path.symlink_metadata().unwrap().is_dir();
        all.push(path.clone());
        if is_directory {
            all.extend(below(&path));
        }
    }
    all
}

#[test]
fn outputs_are_added_replaced_and_deleted_in_read_only_directories() {
    let Some(home) = Home::new() else { return };
    for options in ["--update", "--overwrite", "--update --delete -y"] {
        home.open("plain");
        home.make("plain/top", options);
        home.make("plain/module/one", options);
        home.make(&format!("plain/module/{}/new", options.len()), "new");
        fs::hard_link(home.path("plain/top"), home.path(&format!("plain/module/{options}")))
            .unwrap();
        symlink(options, home.path(&format!("plain/module/deep/link{options}"))).unwrap();
        home.close("plain");
        let run = format!("encrypt -k key {options}");
        if options != "--overwrite" {
            let before = home.modes("sealed");
            home.expect(0, &format!("{run} --dry-run plain sealed"));
            assert_eq!(home.modes("sealed"), before);
        }
        home.expect(0, &format!("{run} plain sealed"));
        home.assert_whole();
    }
    home.open("plain");
    for name in ["plain/module/one", "plain/module/20/new"] {
        fs::remove_file(home.path(name)).unwrap();
    }
    fs::remove_dir(home.path("plain/module/20")).unwrap();
    home.close("plain");
    home.expect(0, "encrypt -k key --update --delete -y plain sealed");
    home.assert_whole();
}

#[test]
fn an_interrupted_run_goes_on_in_read_only_directories() {
    let Some(home) = Home::new() else { return };
    home.open("sealed");
    fs::remove_file(home.path("sealed/module/deep/two.enc")).unwrap();
    home.close("sealed");
    home.expect(0, "encrypt -k key --resume plain sealed");
    home.assert_whole();
    for options in ["--resume", "--update", "--overwrite"] {
        home.expect(0, "decrypt -k key sealed back");
        home.open("back");
        fs::remove_file(home.path("back/module/one")).unwrap();
        home.close("back");
        home.expect(0, &format!("decrypt -k key {options} sealed back"));
        assert_eq!(home.modes("back"), home.modes("plain"));
        assert!(home.path("back/module/one").exists());
        home.remove("back");
    }
}

#[test]
fn a_directory_that_its_user_has_closed_stays_closed() {
    let Some(home) = Home::new() else { return };
    home.open("plain");
    home.make("plain/module/new", "new");
    home.make("plain/top", "new");
    home.give(&home.path("plain"));
    let closed = fs::Permissions::from_mode(0o555);
    fs::set_permissions(home.path("sealed/module"), closed).unwrap();
    for options in ["--overwrite", "--resume", "--update"] {
        let ended = home.expect(1, &format!("encrypt -k key {options} plain sealed"));
        let told = "module/new: can't create its output: Permission denied";
        assert!(ended.messages.contains(told), "{options}: {}", ended.messages);
        // An update finally gives it the mode of the source.
        if options != "--update" {
            assert_eq!(home.modes("sealed")[1], ("module".to_owned(), 0o555));
        }
    }
    // Likewise, the directory of a single file is not the counterpart of another directory.
    fs::create_dir(home.path("kept")).unwrap();
    home.close("kept");
    home.close("plain");
    let ended = home.expect(1, "encrypt -k key plain/top kept/");
    assert!(ended.messages.contains("Permission denied"), "{}", ended.messages);
    assert_eq!(home.modes("kept"), [(String::new(), 0o555)]);
}

#[test]
fn a_signal_leaves_read_only_directories_as_they_were() {
    let Some(home) = Home::new() else { return };
    let before = home.modes("sealed");
    for signal in common::gentle_signals() {
        let mut child = home.begin_many("--update");
        assert_ne!(home.modes("sealed"), before, "it is not writable yet");
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.stderr.as_mut().unwrap().read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal:?}");
        assert_eq!(home.modes("sealed"), before, "{signal:?}");
    }
}

#[test]
fn what_a_killed_run_has_left_writable_is_read_only_after_the_next() {
    let Some(home) = Home::new() else { return };
    let before = home.modes("sealed");
    for options in ["--update", "--resume", "--overwrite"] {
        let mut child = home.begin_many(options);
        child.kill().unwrap();
        child.wait().unwrap();
        let mark = getxattr(home.path("sealed/module"), MARK, &mut [0; 9][..]);
        if let (Err(errno), "--overwrite") = (mark, options) {
            evener_core::skipped!("extended attributes: {errno}");
            return;
        }
        assert_ne!(home.modes("sealed"), before, "{options}");
        home.expect(0, &format!("encrypt -k key {options} plain sealed"));
        assert_eq!(home.modes("sealed"), before, "{options}");
        let mark = getxattr(home.path("sealed/module"), MARK, &mut [0; 9][..]);
        assert!(mark.is_err(), "{options}");
    }
}

#[test]
fn extended_attributes_are_kept_of_what_is_read_only() {
    let Some(home) = Home::new() else { return };
    let (file, directory) = (home.path("plain/module/one"), home.path("plain/module"));
    for (value, options) in [("1", ""), ("2", " --update"), ("3", " --owner --overwrite")] {
        home.open("plain");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        for path in [&file, &directory] {
            if let Err(errno) = setxattr(path, "user.note", value.as_bytes(), XattrFlags::empty()) {
                evener_core::skipped!("extended attributes: {errno}");
                return;
            }
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        home.close("plain");
        if options != " --update" {
            home.remove("sealed");
        }
        home.expect(0, &format!("encrypt -k key --xattrs{options} plain sealed"));
        assert_eq!(home.modes("sealed"), home.modes("plain"));
        for name in ["sealed/module/one.enc", "sealed/module"] {
            let mut buffer = [0; 2];
            let length = getxattr(home.path(name), "user.note", &mut buffer[..]).unwrap();
            assert_eq!(&buffer[..length], value.as_bytes(), "{name}{options}");
            assert!(getxattr(home.path(name), MARK, &mut buffer[..]).is_err(), "{name}{options}");
        }
    }
}

const MARK: &str = "user.evener.unfinished";
const USER: u32 = 61234;
