//! Syncs outputs to the device, and detects when that fails.
//!
//! One `syncfs` costs a disk about as much as one `fdatasync`, for any number of files. But it
//! reports write errors only since Linux 5.8, and only for filesystems with their own device: with
//! an overlay, FUSE or a network filesystem, the error goes to another filesystem. In all other
//! cases each file is synced separately, which is slower.

use std::os::fd::AsFd;

use rustix::fs::{fdatasync, fstatfs, syncfs};
use rustix::io::{Errno, retry_on_intr};

/// Syncs files of one filesystem to the device, with everything else that it has to write.
/// `witness` was opened on it before any of them, so that it receives every error since.
pub(super) fn sync<F: AsFd>(
    witness: impl AsFd,
    mut files: impl Iterator<Item = F>,
) -> Result<(), Errno> {
    if !syncfs_reports_failures(&witness) {
        files.try_for_each(|file| retry_on_intr(|| fdatasync(&file)))?;
    }
    // Syncs the names too.
    syncfs(&witness)
}

fn syncfs_reports_failures(file: impl AsFd) -> bool {
    let kernel = rustix::system::uname();
    let is_new = kernel.release().to_str().is_ok_and(|release| is_since(release, (5, 8)));
    is_new && fstatfs(file).is_ok_and(|status| KNOWN.contains(&(status.f_type as u32)))
}

/// Returns whether a kernel's release, such as `5.10.0-8-amd64`, is at least a version.
fn is_since(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|digits| digits.parse().ok());
    number().zip(number()).is_some_and(|found: (u32, u32)| found >= version)
}

/// ext2 to ext4, XFS, Btrfs, F2FS and tmpfs, by the numbers of `statfs`.
const KNOWN: [u32; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        for (release, is_enough) in [
            ("5.8.0", true),
            ("5.10.0-8-amd64", true),
            ("6.1-rc3", true),
            ("5.7.19", false),
            ("4.18.0-553.el8", false),
            ("", false),
            ("unknown", false),
        ] {
            assert_eq!(is_since(release, (5, 8)), is_enough, "{release}");
        }
    }
}
