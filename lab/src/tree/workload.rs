//! The trees to encrypt.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use super::walk::Listing;
use super::{TreeOptions, place::Place};
use crate::LabError;
use crate::process::run;

/// The names of the trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TreeName {
    /// Many files of 16 KiB, 50 to a directory
    Small,
    /// The same files in one directory
    Flat,
    /// One large file
    Large,
    /// A copy of a real directory
    Mixed,
}

/// A tree that can be built anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Files of one length, with pseudo-random bytes.
    Files {
        /// The number of files.
        count: u64,
        /// The length of each file, in bytes.
        length: u64,
        /// The number of files in each directory.
        per_directory: u64,
    },
    /// A copy of a real directory, with its links, modes and times.
    Copy(PathBuf),
}

impl Workload {
    /// The tree of this name, with the size from the options.
    pub fn named(name: TreeName, options: &TreeOptions) -> Workload {
        let count = options.files;
        match name {
            TreeName::Small => Workload::Files { count, length: 16 << 10, per_directory: 50 },
            TreeName::Flat => Workload::Files { count, length: 16 << 10, per_directory: u64::MAX },
            TreeName::Large => {
                Workload::Files { count: 1, length: options.large << 20, per_directory: u64::MAX }
            }
            TreeName::Mixed => Workload::Copy(options.mixed.clone()),
        }
    }

    /// Builds the tree as `root`, which must not exist, if there is space for it and two copies.
    pub(crate) fn build(&self, place: &Place, root: &Path) -> Result<Listing, LabError> {
        place.check_room(COPIES * self.room()?)?;
        match self {
            Workload::Files { count, length, per_directory } => {
                build_files(root, *count, *length, *per_directory)?;
            }
            Workload::Copy(source) => {
                run(Command::new("cp").arg("-a").arg("--").arg(source).arg(root))?;
            }
        }
        Listing::of(root)
    }

    /// Space for one copy of the tree, in bytes, rounded up generously.
    fn room(&self) -> Result<u64, LabError> {
        let (files, bytes) = match self {
            Workload::Files { count, length, .. } => (*count, count.saturating_mul(*length)),
            Workload::Copy(source) => {
                let listing = Listing::of(source)?;
                ((listing.files.len() + listing.directories.len()) as u64, listing.bytes)
            }
        };
        // Each file's last page, and the overhead of the formats.
        Ok(bytes.saturating_add(files.saturating_mul(8 << 10)).saturating_add(bytes / 100))
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Files { count: 1, length, .. } => {
                write!(f, "one file of {}", Size(*length))
            }
            Workload::Files { count, length, per_directory } if per_directory < count => {
                write!(f, "{count} files of {}, {per_directory} to a directory", Size(*length))
            }
            Workload::Files { count, length, .. } => {
                write!(f, "{count} files of {} in one directory", Size(*length))
            }
            Workload::Copy(source) => write!(f, "a copy of {}", evener_core::shown(source)),
        }
    }
}

impl fmt::Display for TreeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TreeName::Small => "small",
            TreeName::Flat => "flat",
            TreeName::Large => "large",
            TreeName::Mixed => "mixed",
        })
    }
}

/// A number of bytes, shown in the largest unit that divides it.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(shift, _): &&(u32, &str)| self.0.trailing_zeros() >= *shift;
        match [(30, "GiB"), (20, "MiB"), (10, "KiB")].iter().find(whole) {
            Some((shift, unit)) if self.0 > 0 => write!(f, "{} {unit}", self.0 >> shift),
            _ => write!(f, "{} bytes", self.0),
        }
    }
}

fn build_files(root: &Path, count: u64, length: u64, per_directory: u64) -> Result<(), LabError> {
    let mut noise = Noise(0x9E37_79B9_7F4A_7C15);
    let mut directory = root.to_owned();
    fs::create_dir(root).map_err(LabError::file("create", root))?;
    for number in 0..count {
        if per_directory < count && number.is_multiple_of(per_directory) {
            let group = number / per_directory;
            directory = root.join(format!("shelf{:02}/box{:04}", group % SHELVES, group));
            fs::create_dir_all(&directory).map_err(LabError::file("create", &directory))?;
        }
        let path = directory.join(format!("item-{number:06}.dat"));
        write_noise(&path, length, &mut noise).map_err(LabError::file("write", &path))?;
    }
    Ok(())
}

fn write_noise(path: &Path, length: u64, noise: &mut Noise) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    let mut buffer = [0; 64 << 10];
    let mut left = length;
    while left > 0 {
        let part = &mut buffer[..left.min(64 << 10) as usize];
        noise.fill(part);
        file.write_all(part)?;
        left -= part.len() as u64;
    }
    Ok(())
}

/// Bytes that no file system can compress: Marsaglia's xorshift64.
struct Noise(u64);

impl Noise {
    fn fill(&mut self, buffer: &mut [u8]) {
        for word in buffer.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_le_bytes()[..word.len()]);
        }
    }
}

/// The number of directories at the top of a tree.
const SHELVES: u64 = 16;

/// The source, the ciphertext and the decrypted tree exist at once.
const COPIES: u64 = 3;

#[cfg(test)]
mod tests {
    use super::super::walk::first_difference;
    use super::*;

    #[test]
    fn trees_have_their_shape() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let deep = Workload::Files { count: 120, length: 1_001, per_directory: 50 };
        let listing = deep.build(&place, &place.path("deep")).unwrap();
        assert_eq!((listing.files.len(), listing.bytes), (120, 120 * 1_001));
        assert_eq!(listing.directories.len(), 1 + 3 + 3);

        let flat = Workload::Files { count: 5, length: 70_000, per_directory: u64::MAX };
        let listing = flat.build(&place, &place.path("flat")).unwrap();
        assert_eq!((listing.files.len(), listing.directories.len()), (5, 1));
    }

    #[test]
    fn trees_say_what_they_are() {
        let files = |count, length, per_directory| {
            Workload::Files { count, length, per_directory }.to_string()
        };
        assert_eq!(files(1, 1 << 30, u64::MAX), "one file of 1 GiB");
        assert_eq!(files(4_000, 16 << 10, 50), "4000 files of 16 KiB, 50 to a directory");
        assert_eq!(files(2, 1_025, 9), "2 files of 1025 bytes in one directory");
        assert_eq!(Workload::Copy("/usr/lib".into()).to_string(), "a copy of /usr/lib");
    }

    #[test]
    fn a_copy_is_a_copy() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let original = place.path("original");
        let files = Workload::Files { count: 3, length: 10, per_directory: 2 };
        files.build(&place, &original).unwrap();
        let copy = place.path("copy");
        Workload::Copy(original.clone()).build(&place, &copy).unwrap();
        assert_eq!(first_difference(&original, &copy).unwrap(), None);
    }

    #[test]
    fn what_does_not_fit_is_not_begun() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let huge = Workload::Files { count: 1, length: 1 << 60, per_directory: 1 };
        let root = place.path("huge");
        let error = huge.build(&place, &root).unwrap_err();
        assert!(matches!(error, LabError::Space { .. }), "{error}");
        assert!(!root.exists());
    }
}
