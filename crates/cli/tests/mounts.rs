//! Disks below a source, mounted and unmounted.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use common::{Ended, Fixture};

/// A tree with a directory `disk`, and another directory that can be mounted on it.
struct Disk {
    fixture: Fixture,
    unshare: &'static str,
}

impl Disk {
    /// Returns `None`, with a message, if nothing can be mounted.
    fn new() -> Option<Disk> {
        let fixture = Fixture::new();
        for directory in ["tree/disk", "disk/sub"] {
            fs::create_dir_all(fixture.path(directory)).unwrap();
        }
        for file in ["a", "sub/b"] {
            fs::write(fixture.path("disk").join(file), file).unwrap();
        }
        // An ordinary user can mount in a namespace of their own.
        let mut disk = Disk { fixture, unshare: "unshare -m" };
        for unshare in ["unshare -m", "unshare -rm"] {
            disk.unshare = unshare;
            if disk.mounted("test -e tree/disk/a").status == Some(0) {
                return Some(disk);
            }
        }
        evener_core::skipped!("nothing can be mounted here");
        None
    }

    /// Runs a shell command line while the disk is mounted; no other process sees the mount.
    fn mounted(&self, line: &str) -> Ended {
        self.with("mount --bind disk tree/disk", line)
    }

    fn with(&self, mount: &str, line: &str) -> Ended {
        self.fixture.shell(&format!("{} sh -ec '{mount}; {line}'", self.unshare))
    }

    /// Checks the status of a run, the number of deleted outputs, and its message.
    fn expect(&self, ended: &Ended, status: i32, deleted: u64, told: &str) {
        let Ended { messages, .. } = ended;
        assert_eq!(ended.status, Some(status), "{messages}");
        assert!(messages.contains(told), "{messages}");
        let summary = messages.lines().last().unwrap_or_default();
        let mut parts = summary.split("; ").filter_map(|part| part.strip_suffix(" deleted"));
        assert_eq!(parts.next().unwrap_or("0"), deleted.to_string(), "{messages}");
    }

    fn has_outputs(&self, of: &str) -> bool {
        ["a.enc", "sub/b.enc"].iter().all(|it| self.fixture.path(of).join(it).exists())
    }

    fn list(&self, of: &str) -> Vec<u8> {
        fs::read(self.fixture.path(of).join(".evener-mounts")).unwrap_or_default()
    }
}

const UPDATE: &str = "$evener encrypt -k my.key --update --delete -y tree sealed";
const UNMOUNTED: &str = "was a mount point at an earlier run and is none now";

#[test]
fn below_a_disk_that_is_not_mounted_nothing_is_deleted() {
    let Some(disk) = Disk::new() else { return };
    let fixture = &disk.fixture;
    let ended = disk.mounted("$evener encrypt -k my.key tree sealed");
    disk.expect(&ended, 0, 0, "encrypted 4 files");
    assert_eq!(disk.list("sealed"), b"evener-mounts:v1:part\ndisk\0");
    for dry in ["", "-n "] {
        let ended = fixture.shell(&UPDATE.replace("tree", &format!("{dry}tree")));
        disk.expect(&ended, 1, 0, &format!("tree/disk: {UNMOUNTED}"));
        assert!(ended.messages.contains("--delete-unmounted"), "{}", ended.messages);
    }
    // Then the source does not count as completely stored either.
    let ended = fixture.shell("$evener encrypt -k my.key --update tree sealed");
    disk.expect(&ended, 1, 0, &format!("tree/disk: {UNMOUNTED}"));
    // Something else is in its place, or nothing is.
    fs::write(fixture.path("tree/disk/stray"), "stray").unwrap();
    fs::remove_file(fixture.path("tree/one")).unwrap();
    let ended = fixture.shell(UPDATE);
    disk.expect(&ended, 1, 0, &format!("sealed/disk: {UNMOUNTED}"));
    assert!(disk.has_outputs("sealed/disk") && fixture.path("sealed/one.enc").exists());
    fs::remove_dir_all(fixture.path("tree/disk")).unwrap();
    disk.expect(&fixture.shell(UPDATE), 1, 0, &format!("sealed/disk: {UNMOUNTED}"));
    assert!(disk.has_outputs("sealed/disk"));
    // Mounted again, it behaves as before.
    fs::create_dir(fixture.path("tree/disk")).unwrap();
    fs::remove_file(fixture.path("disk/a")).unwrap();
    disk.expect(&disk.mounted(UPDATE), 0, 3, "");
    assert!(!disk.has_outputs("sealed/disk") && fixture.path("sealed/disk/sub/b.enc").exists());
    assert_eq!(disk.list("sealed"), b"evener-mounts:v1:whole\ndisk\0");
    let ended = fixture.shell(UPDATE);
    disk.expect(&ended, 1, 0, &format!("tree/disk: {UNMOUNTED}"));
    // Readers of the outputs get no message about the list.
    for line in ["verify -k my.key sealed", "decrypt -k my.key sealed back"] {
        let ended = fixture.shell(&format!("$evener {line} --json"));
        let document = ended.document();
        assert_eq!((ended.status, &document["left_out"]), (Some(0), &0.into()), "{document}");
        assert_eq!(document["notices"].as_array().map(Vec::len), Some(0));
    }
    assert_eq!(fixture.names("back"), ["deep", "disk"]);
    let ended = fixture.shell("$evener list sealed");
    let listed = String::from_utf8(ended.output).unwrap();
    assert!(listed.contains("mount-points     sealed/.evener-mounts"), "{listed}");
    // An option overrides this.
    let told = UPDATE.replace("-y", "-y --delete-unmounted");
    disk.expect(&fixture.shell(&told), 0, 1, "");
    assert_eq!(fs::read_dir(fixture.path("sealed/disk")).unwrap().count(), 0);
    assert_eq!(disk.list("sealed"), b"evener-mounts:v1:whole\n");
    disk.expect(&fixture.shell(UPDATE), 0, 0, "");
}

#[test]
fn a_directory_that_took_over_from_a_disk_is_none_of_its_any_more() {
    let Some(disk) = Disk::new() else { return };
    let fixture = &disk.fixture;
    assert_eq!(disk.mounted(UPDATE).status, Some(0));
    fixture.shell("cp -a disk/. tree/disk");
    disk.expect(&fixture.shell(UPDATE), 0, 0, "");
    assert_eq!(disk.list("sealed"), b"evener-mounts:v1:whole\n");
    fixture.shell("rm -r tree/disk/*");
    disk.expect(&fixture.shell(UPDATE), 0, 2, "");
}

#[test]
fn the_source_itself_and_each_of_several_may_be_a_disk() {
    let Some(disk) = Disk::new() else { return };
    let fixture = &disk.fixture;
    let several = "$evener encrypt -k my.key --update --delete -y disk tree all/";
    assert_eq!(disk.mounted(several).status, Some(0));
    assert_eq!(disk.list("all/tree"), b"evener-mounts:v1:whole\ndisk\0");
    assert_eq!(disk.list("all/disk"), b"evener-mounts:v1:whole\n");
    disk.expect(&fixture.shell(several), 1, 0, UNMOUNTED);
    assert!(disk.has_outputs("all/tree/disk"));

    let root = "$evener encrypt -k my.key --update --delete -y tree/disk root";
    assert_eq!(disk.mounted(root).status, Some(0));
    assert_eq!(disk.list("root"), b"evener-mounts:v1:whole\n\0");
    for keep in ["true", "cp -p disk/a tree/disk"] {
        fixture.shell(keep);
        disk.expect(&fixture.shell(root), 1, 0, UNMOUNTED);
        assert!(disk.has_outputs("root"));
    }
}

#[test]
fn below_an_empty_directory_nothing_is_deleted_before_it_is_known_to_be_no_disk() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "sealed"]);
    assert_eq!(fixture.names("sealed"), ["deep", "one.enc"]);
    fs::write(fixture.path("tree/new"), "new").unwrap();
    fs::remove_file(fixture.path("tree/deep/two")).unwrap();
    for _ in 0..2 {
        let ended = fixture.shell(UPDATE);
        assert_eq!(ended.status, Some(1), "{}", ended.messages);
        let told = "sealed/deep: its source is empty, which could mean";
        assert!(ended.messages.contains(told), "{}", ended.messages);
        assert!(fixture.path("sealed/deep/two.enc").exists());
    }
    // Once the option was given, the state is known.
    for line in [&UPDATE.replace("-y", "-y --delete-unmounted"), UPDATE, UPDATE] {
        let ended = fixture.shell(line);
        assert_eq!(ended.status, Some(0), "{}", ended.messages);
        assert!(!fixture.path("sealed/deep/two.enc").exists());
        fs::write(fixture.path("tree/deep/two"), "again").unwrap();
        assert_eq!(fixture.shell(UPDATE).status, Some(0));
        fs::remove_file(fixture.path("tree/deep/two")).unwrap();
    }
    let ended = fixture.shell("$evener encrypt -k my.key --update --delete-unmounted tree sealed");
    assert_eq!(ended.status, Some(2), "{}", ended.messages);
}

#[test]
fn one_file_system_is_taken_if_asked_for() {
    let Some(disk) = Disk::new() else { return };
    let fixture = &disk.fixture;
    let mount = "mount -t tmpfs none tree/disk; mkdir -p tree/disk/sub; echo a >tree/disk/a; \
                 echo b >tree/disk/sub/b";
    let ended = disk.with(mount, "$evener encrypt --json -k my.key --one-file-system tree sealed");
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    let document = ended.document();
    assert_eq!((&document["files"], &document["left_out"]), (&2.into(), &1.into()), "{document}");
    let told = "tree/disk: directory on another file system skipped";
    assert!(ended.messages.contains(told), "{}", ended.messages);
    assert_eq!(fixture.names("sealed/disk"), Vec::<String>::new());
    // Outputs that came from there earlier stay.
    assert_eq!(disk.with(mount, UPDATE).status, Some(0));
    assert!(disk.has_outputs("sealed/disk"));
    let again = UPDATE.replace("-y", "-y --one-file-system");
    disk.expect(&disk.with(mount, &again), 0, 0, told);
    assert!(disk.has_outputs("sealed/disk"));
    // The same file system, mounted a second time, is not another one.
    let ended = disk.mounted("$evener encrypt -k my.key --one-file-system tree same");
    disk.expect(&ended, 0, 0, "encrypted 4 files");
    // This holds for every command that walks a tree.
    let mount = "mount -t tmpfs none sealed/deep; echo c >sealed/deep/c.enc";
    for line in ["verify -k my.key sealed", "decrypt -k my.key sealed back", "list sealed"] {
        let ended = disk.with(mount, &format!("$evener {line} --json --one-file-system"));
        assert_eq!(ended.status, Some(0), "{line}: {}", ended.messages);
        assert_eq!(ended.document()["left_out"], 1, "{line}");
        let told = "sealed/deep: directory on another file system skipped";
        assert!(ended.messages.contains(told), "{line}: {}", ended.messages);
    }
    let ended = fixture.run(&["verify", "-k", "my.key", "--one-file-system", "sealed/one.enc"]);
    assert_eq!(ended.status, Some(2), "{}", ended.messages);
}

#[test]
fn what_has_the_name_of_the_list_does_no_harm() {
    let Some(disk) = Disk::new() else { return };
    let fixture = &disk.fixture;
    assert_eq!(disk.mounted("$evener encrypt -k my.key tree sealed").status, Some(0));
    let place = fixture.path("sealed/.evener-mounts");
    for kind in ["fifo", "link", "directory", "text", "later"] {
        let _ = fs::remove_file(&place);
        match kind {
            "fifo" => assert!(Command::new("mkfifo").arg(&place).status().unwrap().success()),
            "link" => symlink("../my.key", &place).unwrap(),
            "directory" => fs::create_dir(&place).unwrap(),
            "text" => fs::write(&place, "something else").unwrap(),
            _ => fs::write(&place, "evener-mounts:v1:later\nx").unwrap(),
        }
        let before = fs::symlink_metadata(&place).unwrap();
        let key = fs::read(fixture.path("my.key")).unwrap();
        let ended = disk.mounted("timeout 60 $evener encrypt -k my.key --update tree sealed");
        disk.expect(&ended, 0, 0, "the source\u{27}s mount points are not remembered here");
        let after = fs::symlink_metadata(&place).unwrap();
        assert_eq!((before.file_type(), before.len()), (after.file_type(), after.len()), "{kind}");
        assert_eq!(fs::read(fixture.path("my.key")).unwrap(), key);
        let ended = fixture.shell(UPDATE);
        disk.expect(&ended, 1, 0, "sealed/disk: its source is empty");
        assert!(disk.has_outputs("sealed/disk"), "{kind}");
        let _ = fs::remove_dir(&place);
    }
}

#[test]
fn a_source_on_a_disk_that_is_not_mounted_is_not_taken_for_one_whose_files_have_gone() {
    let Some(disk) = Disk::new() else { return };
    let fixture = &disk.fixture;
    let update = UPDATE.replace("tree", "tree/disk/sub");
    for has_deleted_before in [true, false] {
        let _ = fs::remove_dir_all(fixture.path("sealed"));
        let _ = fs::remove_dir_all(fixture.path("tree/disk/sub"));
        let ended = disk.mounted("$evener encrypt -k my.key tree/disk/sub sealed");
        disk.expect(&ended, 0, 0, "encrypted 1 file");
        if has_deleted_before {
            disk.expect(&disk.mounted(&update), 0, 0, "");
        }
        // Some program makes the path again, and the first run stores what it finds there.
        fs::create_dir(fixture.path("tree/disk/sub")).unwrap();
        fs::write(fixture.path("tree/disk/sub/stray"), "stray").unwrap();
        for _ in 0..3 {
            disk.expect(&fixture.shell(&update), 1, 0, "nothing was deleted");
            assert!(fixture.path("sealed/b.enc").exists());
        }
        let ended = fixture.shell(&update.replace("-y", "-y --delete-unmounted"));
        disk.expect(&ended, 0, 1, "");
    }
}

#[test]
fn below_a_link_into_a_disk_that_is_not_mounted_nothing_is_deleted() {
    let Some(disk) = Disk::new() else { return };
    let fixture = &disk.fixture;
    fs::create_dir(fixture.path("other")).unwrap();
    symlink("../other/sub", fixture.path("tree/link")).unwrap();
    let update = UPDATE.replace("tree", "--follow-symlinks tree");
    let mount = "mount -t tmpfs none other && mkdir other/sub && echo 1 >other/sub/1";
    disk.expect(&disk.with(mount, &update), 0, 0, "");
    assert!(fixture.path("sealed/link/1.enc").exists());
    fs::create_dir(fixture.path("other/sub")).unwrap();
    fs::write(fixture.path("other/sub/stray"), "stray").unwrap();
    for _ in 0..2 {
        disk.expect(&fixture.shell(&update), 1, 0, UNMOUNTED);
        assert!(fixture.path("sealed/link/1.enc").exists());
    }
}
