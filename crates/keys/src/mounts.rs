//! File systems that choose modes and owners themselves: FAT, exFAT, NTFS and many in user space take
//! no mode, and the options of the mount decide.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, Stat, fstat, fstatfs, major, minor, stat, statfs};
use rustix::process::geteuid;

/// Returns whether the file system with this device number is in user space and admits only the
/// user of this process, who has mounted it, whatever modes it shows.
pub fn is_private_mount(device: u64) -> bool {
    let own = format!("user_id={}", geteuid().as_raw());
    mount_of(device).is_some_and(|mount| {
        let mut options = mount.options.split(',');
        mount.kind.starts_with("fuse")
            && options.clone().any(|option| option == own)
            && options.all(|option| option != "allow_other")
    })
}

/// Returns whether the mode of an open file that is not a program is known to be the mount's, so
/// that it can't be changed: on FAT, exFAT and NTFS. In user space these make every file executable
/// by others, or are on a device.
pub fn has_mode_of_mount(file: impl AsFd) -> bool {
    fstatfs(&file).is_ok_and(|about| {
        fstat(&file).is_ok_and(|status| is_mode_of_mount(about.f_type as u32, &status))
    })
}

/// Returns whether a source is where modes are the mount's. A file's own mode may not show that, so
/// its directory is examined.
pub fn lies_without_modes(source: &Path) -> bool {
    let parent = source.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = if source.is_dir() { source } else { parent.unwrap_or(Path::new(".")) };
    statfs(directory).is_ok_and(|about| {
        stat(directory).is_ok_and(|status| is_mode_of_mount(about.f_type as u32, &status))
    })
}

/// The device number of a file's file system.
#[allow(clippy::unnecessary_cast, reason = "the field's type differs between architectures")]
pub fn device(status: &Stat) -> u64 {
    status.st_dev as u64
}

fn is_mode_of_mount(kind: u32, status: &Stat) -> bool {
    if kind != FUSE {
        return WITHOUT_MODES.contains(&kind);
    }
    let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    let is_program = Mode::from_raw_mode(status.st_mode).intersects(Mode::XGRP | Mode::XOTH);
    is_file && is_program || mount_of(device(status)).is_some_and(|mount| mount.kind == "fuseblk")
}

/// A line of `/proc/self/mountinfo`.
struct Mount {
    kind: String,
    /// The file system's own options.
    options: String,
}

/// The mount of the file system with this device number.
fn mount_of(device: u64) -> Option<Mount> {
    let number = format!("{}:{}", major(device), minor(device));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    find_mount(&mounts, &number)
}

fn find_mount(mounts: &str, number: &str) -> Option<Mount> {
    mounts.lines().find_map(|line| {
        let (mount, of_file_system) = line.split_once(" - ")?;
        (mount.split(' ').nth(2) == Some(number)).then_some(())?;
        let mut fields = of_file_system.split(' ');
        let (kind, options) = (fields.next()?, fields.next_back()?);
        Some(Mount { kind: kind.to_owned(), options: options.to_owned() })
    })
}

/// A file system in user space, by the numbers of `statfs`.
const FUSE: u32 = 0x6573_5546;

/// FAT, exFAT, and NTFS by both of the kernel's drivers.
const WITHOUT_MODES: [u32; 4] = [0x4d44, 0x2011_BAB0, 0x5346_544E, 0x7366_746E];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_by_its_number() {
        let mounts = "22 27 0:21 / /proc rw,nosuid - proc proc rw\n\
                      42 27 7:0 / /media/a\\040b rw,relatime shared:3 - fuseblk /dev/loop0 rw,user_id=0\n\
                      43 27 0:40 / /media/c rw - fuse.rclone :local:/c rw,user_id=1000,group_id=1000\n";
        let kind_of = |number| find_mount(mounts, number).map(|mount| mount.kind);
        assert_eq!(kind_of("7:0").as_deref(), Some("fuseblk"));
        assert_eq!(find_mount(mounts, "0:40").unwrap().options, "rw,user_id=1000,group_id=1000");
        assert_eq!(kind_of("0:4"), None);
    }
}
