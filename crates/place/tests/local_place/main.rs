//! Tests local trees as places: transfers between them, memory and stores of objects alone.

#[path = "../common/mod.rs"]
mod common;
mod in_a_process;

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use common::slow::Slow;
use common::{Options, assert_same_tree, bytes, cobblestone, home, options, process, snapshot};
use evener_place::{
    Abilities, Blob, Draft, Entry, Fault, Kind, Local, Memory, Name, NewObject, Origin, Store,
    transfer,
};
use evener_place::{
    Failure, FileError, Operation, OperationError, Protected, Report, Selection, TransferOptions,
    TreeOptions,
};

fn name(path: impl AsRef<Path>) -> Name {
    Name::new(path).unwrap()
}

fn local(path: &Path) -> Local {
    Local::new(path, &TreeOptions::default())
}

fn perform(
    operation: Operation,
    origin: &dyn Origin,
    store: Option<&dyn Store>,
    options: &Options,
) -> Report {
    transfer(operation, &cobblestone(), origin, store, &options.run, &options.transfer)
        .or_else(OperationError::into_report)
        .unwrap_or_else(|failure| panic!("{failure}"))
}

#[track_caller]
fn succeed(operation: Operation, origin: &dyn Origin, store: Option<&dyn Store>) -> Report {
    let report = perform(operation, origin, store, &options());
    assert!(report.is_success(), "{operation:?}: {:?}", report.failures);
    report
}

fn encrypt(origin: &dyn Origin, store: &dyn Store) -> Report {
    succeed(Operation::Encrypt, origin, Some(store))
}

fn decrypt(origin: &dyn Origin, store: &dyn Store) -> Report {
    succeed(Operation::Decrypt, origin, Some(store))
}

/// Paths below a test's home, and a tree with everything that a tree has at the first.
fn scene() -> (tempfile::TempDir, [PathBuf; 3]) {
    let home = home();
    let paths = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fill(&paths[0]);
    (home, paths)
}

fn fill(plain: &Path) {
    let at = |path: &str| plain.join(path);
    fs::create_dir_all(at("deep/down/below")).unwrap();
    fs::create_dir_all(at("empty/inner")).unwrap();
    for (number, length) in [0, 1, 16_384, 16_385, 300_000, 3_000_001].into_iter().enumerate() {
        fs::write(at(&format!("deep/{number}")), bytes(length)).unwrap();
    }
    fs::write(at("deep/down/below/leaf"), bytes(70)).unwrap();
    fs::write(plain.join(OsStr::from_bytes(b"not \xFF UTF-8\n")), bytes(9)).unwrap();
    fs::hard_link(at("deep/3"), at("deep/down/same")).unwrap();
    fs::hard_link(at("deep/3"), at("again")).unwrap();
    symlink("deep/1", at("link")).unwrap();
    symlink(OsStr::from_bytes(b"no\xFFwhere"), at("deep/dangling")).unwrap();
    symlink("..", at("deep/down/up")).unwrap();
    for (path, mode) in
        [("deep/0", 0o400), ("deep/1", 0o755), ("deep/2", 0o640), ("deep/4", 0o1600)]
    {
        fs::set_permissions(at(path), Permissions::from_mode(mode)).unwrap();
    }
    let early = SystemTime::UNIX_EPOCH - Duration::from_nanos(1_500_000_001);
    for (path, time) in [
        ("deep/0", SystemTime::UNIX_EPOCH + Duration::from_secs(1)),
        ("deep/1", early),
        ("deep/down", SystemTime::UNIX_EPOCH + Duration::from_nanos(7)),
        ("empty", early),
        ("", SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)),
    ] {
        set_time(&at(path), time);
    }
    for (path, mode) in [("deep/down/below", 0o555), ("empty/inner", 0o700), ("empty", 0o511)] {
        fs::set_permissions(at(path), Permissions::from_mode(mode)).unwrap();
    }
}

fn set_time(path: &Path, time: SystemTime) {
    File::open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

#[track_caller]
fn assert_linked(tree: &Path, suffix: &str) {
    let inode = |path: &str| fs::metadata(tree.join(format!("{path}{suffix}"))).unwrap().ino();
    assert_eq!(inode("deep/3"), inode("again"));
    assert_eq!(inode("deep/3"), inode("deep/down/same"));
}

fn reasons(report: &Report) -> Vec<String> {
    report.failures.iter().map(Failure::to_string).collect()
}

#[test]
fn a_tree_goes_to_a_tree_and_back() {
    let (_home, [plain, sealed, back]) = scene();
    let report = encrypt(&local(&plain), &local(&sealed));
    assert_eq!(
        (report.files, report.hard_links, report.symlinks, report.directories),
        (8, 2, 3, 6)
    );
    assert!(report.notices.is_empty(), "{:?}", report.notices);
    assert_linked(&sealed, ".enc");
    let report = succeed(Operation::Verify, &local(&sealed), None);
    assert_eq!((report.files, report.hard_links), (8, 2));
    decrypt(&local(&sealed), &local(&back));
    assert_same_tree(&plain, &back);
    assert_linked(&back, "");
}

#[test]
fn a_tree_goes_to_memory_and_back() {
    let (_home, [plain, _, back]) = scene();
    let (sealed, copy) = (Memory::new(), Memory::new());
    let report = encrypt(&local(&plain), &sealed);
    assert_eq!(
        (report.files, report.hard_links, report.symlinks, report.directories),
        (8, 2, 3, 6)
    );
    decrypt(&sealed, &copy);
    let kind = |path: &str| copy.look(&name(path)).unwrap().unwrap().kind;
    assert_eq!(kind("empty/inner"), Kind::Directory);
    assert_eq!(kind("deep/down/up"), Kind::SymbolicLink("..".into()));
    let further = copy.walk().filter(|it| matches!(it.as_ref().unwrap().kind, Kind::HardLink(_)));
    assert_eq!(further.count(), 2);
    decrypt(&sealed, &local(&back));
    assert_same_tree(&plain, &back);
    assert_linked(&back, "");
}

#[test]
fn outputs_are_those_of_the_operation_on_trees() {
    let (home, [plain, sealed, back]) = scene();
    let other = home.path().join("other");
    encrypt(&local(&plain), &local(&sealed));
    let report = process(Operation::Encrypt, &cobblestone(), &plain, Some(&other), &options());
    assert!(report.unwrap().is_success());
    let names = |tree: &Path| {
        let told = |entry: common::Entry| (entry.kind, entry.mode, entry.modified);
        snapshot(tree).into_iter().map(|(path, it)| (path, told(it))).collect::<Vec<_>>()
    };
    assert_eq!(names(&sealed), names(&other));
    let report = process(Operation::Decrypt, &cobblestone(), &sealed, Some(&back), &options());
    assert!(report.unwrap().is_success());
    assert_same_tree(&plain, &back);
    let copy = home.path().join("copy");
    decrypt(&local(&other), &local(&copy));
    assert_same_tree(&plain, &copy);
}

#[test]
fn a_store_of_objects_alone_loses_nothing_in_silence() {
    let (_home, [plain, _, back]) = scene();
    let far = Slow::new(Memory::new(), Duration::ZERO, 100_000);
    let report = perform(Operation::Encrypt, &local(&plain), Some(&far), &options());
    assert_eq!((report.files, report.hard_links), (10, 0));
    let told = reasons(&report);
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(
        told.iter().any(|it| it.contains("empty/inner: it is empty, and the place")),
        "{told:?}"
    );
    let symlinks = told.iter().filter(|it| it.contains("has no symbolic links")).count();
    assert_eq!(symlinks, 3);
    let notices: Vec<_> = report.notices.iter().map(|notice| notice.reason.as_str()).collect();
    assert_eq!(
        notices,
        [
            "2 hard links are stored as files of their own, since the outputs can't be linked: the \
             place has no hard links",
            "the place keeps no modes, times and owners, so none were stored",
        ]
    );
    decrypt(&far, &local(&back));
    assert_eq!(fs::read(back.join("deep/5")).unwrap(), fs::read(plain.join("deep/5")).unwrap());
    assert_eq!(fs::read(back.join("again")).unwrap(), fs::read(plain.join("again")).unwrap());
}

#[test]
fn plaintext_without_a_mode_is_its_owners_alone() {
    let (home, memory, sealed) = (home(), Memory::new(), Memory::new());
    memory.insert(name("deep/down/file"), b"content");
    encrypt(&memory, &sealed);
    let back = home.path().join("back");
    decrypt(&sealed, &local(&back));
    for (path, mode) in [("", 0o700), ("deep", 0o700), ("deep/down/file", 0o600)] {
        assert_eq!(fs::metadata(back.join(path)).unwrap().mode() & 0o7777, mode, "{path}");
    }
    assert_eq!(fs::read(back.join("deep/down/file")).unwrap(), b"content");
}

#[test]
fn existing_outputs_are_refused_resumed_or_replaced() {
    let (_home, [plain, sealed, back]) = scene();
    let encrypt = |change: fn(&mut TransferOptions)| {
        let options = options().with(|it| change(&mut it.transfer));
        perform(Operation::Encrypt, &local(&plain), Some(&local(&sealed)), &options)
    };
    assert!(encrypt(|_| {}).is_success());
    let before = snapshot(&sealed);
    let report = encrypt(|_| {});
    assert_eq!((report.files, report.failures.len()), (0, 13), "{:?}", reasons(&report));
    assert!(before == snapshot(&sealed));

    fs::remove_file(sealed.join("deep/4.enc")).unwrap();
    fs::remove_file(sealed.join("again.enc")).unwrap();
    fs::remove_file(sealed.join("link")).unwrap();
    let report = encrypt(|it| it.resume = true);
    assert!(report.is_success(), "{:?}", reasons(&report));
    assert_eq!(report.files + report.files_skipped + report.hard_links, 10);
    assert_eq!(report.symlinks, 3);
    assert_linked(&sealed, ".enc");

    fs::write(plain.join("deep/1"), b"B").unwrap();
    let report = encrypt(|it| it.resume = true);
    assert_eq!(report.failures.len(), 1, "{:?}", reasons(&report));
    assert!(matches!(report.failures[0].error, FileError::Differs { .. }));

    let report = encrypt(|it| it.overwrite = true);
    // The outputs of an earlier run are read-only directories that nothing but root can change.
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(report.is_success(), is_root, "{:?}", reasons(&report));
    if is_root {
        assert_linked(&sealed, ".enc");
        decrypt(&local(&sealed), &local(&back));
        let content = |tree: &Path| {
            snapshot(tree).into_iter().map(|(path, it)| (path, it.content)).collect::<Vec<_>>()
        };
        assert!(content(&plain) == content(&back));
    }
}

/// A local store in which somebody else is quicker with every object.
struct Late(Local, PathBuf);

impl Store for Late {
    fn abilities(&self) -> Abilities {
        Store::abilities(&self.0)
    }

    fn look(&self, name: &Name) -> Result<Option<Entry>, Fault> {
        self.0.look(name)
    }

    fn begin(&self, object: &NewObject<'_>) -> Result<Box<dyn Draft>, Fault> {
        let path = self.1.join(object.name.path());
        // This makes the directory.
        drop(self.0.begin(object)?);
        fs::write(path, b"another's").unwrap();
        self.0.begin(object)
    }

    fn origin(&self) -> Option<&dyn Origin> {
        None
    }

    fn sync(&self) -> Result<(), Fault> {
        Ok(())
    }
}

#[test]
fn no_object_replaces_one_that_appears_in_a_new_directory() {
    let (memory, home) = (Memory::new(), home());
    for length in [0, 3, 70_000, 3_000_000] {
        memory.insert(name(format!("data/{length}")), &bytes(length));
    }
    let sealed = home.path().join("sealed");
    let late = Late(local(&sealed), sealed.clone());
    let report = perform(Operation::Encrypt, &memory, Some(&late), &options());
    assert_eq!((report.files, report.failures.len()), (0, 4), "{:?}", reasons(&report));
    for Failure { error, .. } in &report.failures {
        assert!(matches!(error, FileError::Place(Fault::Exists(_))), "{error}");
    }
    for length in ["0", "3", "70000", "3000000"] {
        assert_eq!(fs::read(sealed.join(format!("data/{length}.enc"))).unwrap(), b"another's");
    }
    assert_eq!(fs::read_dir(sealed.join("data")).unwrap().count(), 4);
}

#[test]
fn nothing_replaces_an_entry_of_another_kind() {
    let (_home, [plain, sealed, _]) = scene();
    fs::create_dir_all(sealed.join("link")).unwrap();
    fs::create_dir_all(sealed.join("again.enc")).unwrap();
    fs::create_dir_all(sealed.join("deep")).unwrap();
    symlink("/etc/passwd", sealed.join("deep/5.enc")).unwrap();
    fs::write(sealed.join("empty"), b"a file").unwrap();
    let overwrite = options().with(|it| it.transfer.overwrite = true);
    let store = local(&sealed);
    let report = perform(Operation::Encrypt, &local(&plain), Some(&store), &overwrite);
    let told = reasons(&report);
    for part in ["again", "deep/5", "/link: ", "/empty: ", "/empty/inner: "] {
        assert!(told.iter().any(|it| it.contains(part)), "{part}: {told:?}");
    }
    assert_eq!(fs::read(sealed.join("empty")).unwrap(), b"a file");
    assert_eq!(fs::read_link(sealed.join("deep/5.enc")).unwrap(), Path::new("/etc/passwd"));
}

#[test]
fn no_symbolic_link_below_the_root_is_followed() {
    let (home, [plain, sealed, _]) = scene();
    let outside = home.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), b"secret").unwrap();
    fs::create_dir(&sealed).unwrap();
    symlink(&outside, sealed.join("deep")).unwrap();
    let report = perform(Operation::Encrypt, &local(&plain), Some(&local(&sealed)), &options());
    assert!(!report.is_success());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    let place = local(&sealed);
    assert!(Origin::open(&place, &name("deep/secret"), &mut []).is_err());
    assert!(place.look(&name("deep/secret")).map_or(true, |there| there.is_none()));
    assert!(place.remove(&name("deep/secret")).is_err());
    assert!(outside.join("secret").exists());
    // The root itself may be one.
    let (link, back) = (home.path().join("root"), home.path().join("to"));
    fs::create_dir(&back).unwrap();
    symlink(&back, &link).unwrap();
    let memory = Memory::new();
    memory.insert(name("a/b"), b"content");
    encrypt(&memory, &local(&link));
    assert!(back.join("a/b.enc").exists());
}

#[test]
fn places_that_overlap_are_refused() {
    let (_home, [plain, ..]) = scene();
    for target in [plain.clone(), plain.join("empty/inner"), plain.join("new")] {
        let refused = transfer(
            Operation::Encrypt,
            &cobblestone(),
            &local(&plain),
            Some(&local(&target)),
            &options().run,
            &options().transfer,
        );
        assert!(matches!(refused, Err(OperationError::NotBegun(_))), "{target:?}");
    }
}

#[test]
fn selections_leave_out_directories_with_their_contents() {
    let (_home, [plain, ..]) = scene();
    let taken = |include: &[&str], exclude: &[&str]| {
        let selection = Selection::new(include, exclude).unwrap();
        let sealed = Memory::new();
        let options = options().with(|it| it.transfer.selection = selection);
        let report = perform(Operation::Encrypt, &local(&plain), Some(&sealed), &options);
        assert!(report.is_success(), "{:?}", report.failures);
        sealed.names().iter().map(|it| it.path().to_owned()).collect::<Vec<_>>()
    };
    let below = |names: &[PathBuf]| names.iter().filter(|it| it.starts_with("deep/down")).count();
    assert_eq!(below(&taken(&[], &[])), 2);
    assert_eq!(below(&taken(&[], &["down"])), 0);
    // The first name of the links may be left out.
    assert_eq!(taken(&["same"], &[]), [Path::new("deep/down/same.enc")]);
    assert_eq!(taken(&["same", "again"], &[]).len(), 2);
}

#[test]
fn keys_and_special_files_are_left_out() {
    let (_home, [plain, ..]) = scene();
    fs::write(plain.join("key"), b"key").unwrap();
    let mut protected = Protected::default();
    protected.add(&plain.join("key"));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        plain.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    fs::write(plain.join(".evener-0123456789abcdef.part"), b"unfinished").unwrap();
    let tree = TreeOptions { protected, ..TreeOptions::default() };
    let (origin, sealed) = (Local::new(&plain, &tree), Memory::new());
    let report = perform(Operation::Encrypt, &origin, Some(&sealed), &options());
    assert!(report.is_success(), "{:?}", report.failures);
    assert_eq!((report.files, report.left_out), (8, 3));
    assert!(matches!(Origin::open(&origin, &name("key"), &mut []), Err(Fault::Refused(_))));
}

#[test]
fn extended_attributes_are_kept_if_they_are_asked_for() {
    let (_home, [plain, sealed, back]) = scene();
    let flags = rustix::fs::XattrFlags::empty();
    for path in ["deep/1", "deep", ""] {
        let path = plain.join(path);
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        if rustix::fs::setxattr(&path, "user.colour", b"red", flags).is_err() {
            evener_core::skipped!("no extended attributes here");
            return;
        }
        set_time(&path, time);
    }
    let tree = TreeOptions { xattrs: true, ..TreeOptions::default() };
    let place = |path| Local::new(path, &tree);
    let memory = Memory::new();
    for (operation, from, to) in [
        (Operation::Encrypt, &place(&plain) as &dyn Origin, &memory as &dyn Store),
        (Operation::Decrypt, &memory, &place(&back)),
        (Operation::Encrypt, &place(&plain), &place(&sealed)),
    ] {
        let report = perform(operation, from, Some(to), &options());
        assert!(report.is_success(), "{:?}", report.failures);
    }
    for path in [back.join("deep/1"), back.join("deep"), back.clone(), sealed.join("deep/1.enc")] {
        let mut value = [0; 8];
        let length = rustix::fs::getxattr(&path, "user.colour", &mut value).unwrap();
        assert_eq!(&value[..length], b"red", "{path:?}");
    }
    assert_same_tree(&plain, &back);
}

/// A tree in which a file is written to each time it is opened.
struct Written(Local, PathBuf);

impl Origin for Written {
    fn abilities(&self) -> Abilities {
        Origin::abilities(&self.0)
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        self.0.walk()
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        let opened = self.0.open(name, first);
        if name.path() == Path::new("deep/4") {
            fs::write(&self.1, bytes(300_001)).unwrap();
        }
        opened
    }
}

#[test]
fn a_file_that_changes_under_the_run_is_not_stored() {
    let (_home, [plain, sealed, _]) = scene();
    let origin = Written(local(&plain), plain.join("deep/4"));
    let report = perform(Operation::Encrypt, &origin, Some(&local(&sealed)), &options());
    assert_eq!(report.files, 7);
    assert_eq!(report.failures.len(), 1, "{:?}", report.failures);
    assert_eq!(report.failures[0].error, FileError::Place(Fault::Changed));
    assert!(!sealed.join("deep/4.enc").exists());
}

#[test]
fn nothing_unauthenticated_gets_a_name() {
    let (_home, [plain, sealed, back]) = scene();
    encrypt(&local(&plain), &local(&sealed));
    for (number, at) in [(2, 200), (3, 77), (5, 2_999_999)] {
        let path = sealed.join(format!("deep/{number}.enc"));
        let (mut content, metadata) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap());
        content[at] ^= 1;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, content).unwrap();
        set_time(&path, metadata.modified().unwrap());
    }
    let report = perform(Operation::Decrypt, &local(&sealed), Some(&local(&back)), &options());
    let told = reasons(&report);
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!(told.iter().filter(|it| it.contains("is a hard link to `")).count(), 2);
    for path in ["deep/2", "deep/3", "deep/5", "again", "deep/down/same"] {
        assert!(!back.join(path).exists(), "{path}");
    }
    assert!(back.join("deep/4").exists());
}

#[test]
fn a_full_target_gets_no_partial_file() {
    let (home, [plain, ..]) = scene();
    let small = home.path().join("small");
    fs::create_dir(&small).unwrap();
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=400k", "none"]).arg(&small).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        evener_core::skipped!("no filesystem can be mounted here");
        return;
    }
    let _mounted = Mounted(small.clone());
    let sealed = small.join("sealed");
    let report = perform(Operation::Encrypt, &local(&plain), Some(&local(&sealed)), &options());
    let told = reasons(&report);
    assert!(!told.is_empty() && told.iter().all(|it| it.contains("No space left")), "{told:?}");
    let memory = Memory::new();
    succeed(Operation::Decrypt, &local(&sealed), Some(&memory));
    assert_eq!(memory.names().len() as u64, report.files + report.hard_links);
}

/// A mounted filesystem, unmounted on drop.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn entries_are_removed_but_no_keys_and_no_full_directories() {
    let (_home, [plain, ..]) = scene();
    let mut protected = Protected::default();
    protected.add(&plain.join("deep/1"));
    let place = Local::new(&plain, &TreeOptions { protected, ..TreeOptions::default() });
    for path in ["deep/2", "link", "again", "deep/dangling"] {
        place.remove(&name(path)).unwrap();
        assert!(plain.join(path).symlink_metadata().is_err(), "{path}");
    }
    assert!(matches!(place.remove(&name("deep/2")), Err(Fault::Missing(_))));
    assert!(matches!(place.remove(&name("none/at/all")), Err(Fault::Missing(_))));
    for path in ["deep", "deep/1"] {
        assert!(place.remove(&name(path)).is_err());
        assert!(plain.join(path).exists());
    }
    assert!(place.remove(&Name::root()).is_err());

    let memory = Memory::new();
    encrypt(&local(&plain), &memory);
    assert!(matches!(memory.remove(&name("deep")), Err(Fault::Refused(_))));
    memory.remove(&name("empty/inner")).unwrap();
    memory.remove(&name("empty")).unwrap();
    assert!(matches!(memory.remove(&name("empty")), Err(Fault::Missing(_))));
    let late = Late(place, plain.clone());
    assert!(matches!(late.remove(&name("deep/1")), Err(Fault::Refused(_))));
}

/// A run was killed when it had made a link, before it set its time.
#[test]
fn a_link_that_lacks_its_time_gets_it() {
    let (_home, [plain, sealed, _]) = scene();
    encrypt(&local(&plain), &local(&sealed));
    let time = |tree: &Path| {
        let link = fs::symlink_metadata(tree.join("deep/down/up")).unwrap();
        (link.mtime(), link.mtime_nsec(), link.ino())
    };
    let resuming = options().with(|it| it.transfer.resume = true);
    let resume = || {
        let (origin, store) = (local(&plain), local(&sealed));
        let report = perform(Operation::Encrypt, &origin, Some(&store), &resuming);
        assert!(report.is_success(), "{:?}", report.failures);
        time(&sealed)
    };
    let (finished, source) = (time(&sealed), time(&plain));
    assert_eq!(resume(), finished);
    fs::remove_file(sealed.join("deep/down/up")).unwrap();
    symlink("..", sealed.join("deep/down/up")).unwrap();
    assert_ne!(time(&sealed).1, source.1);
    let (seconds, nanoseconds, _) = resume();
    assert_eq!((seconds, nanoseconds), (source.0, source.1));
}
