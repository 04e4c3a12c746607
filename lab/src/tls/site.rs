//! The served files, in a temporary folder.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::certificate::Certificate;
use crate::LabError;

/// A folder with a certificate and with files of random bytes, each named by its length. Dropping
/// it removes it.
pub(super) struct Site {
    folder: TempDir,
    /// The longest file's content; the other files are prefixes of it.
    content: Vec<u8>,
}

impl Site {
    /// Makes a site with files of these lengths, and an empty file.
    ///
    /// # Errors
    /// When a file can't be written, or there are no random bytes or no certificate.
    pub(super) fn new(lengths: &[u64]) -> Result<Site, LabError> {
        let parent = std::env::temp_dir();
        let folder = tempfile::Builder::new()
            .prefix("evener-bench-")
            .tempdir_in(&parent)
            .map_err(LabError::file("create a directory in", &parent))?;
        // If root runs this, nginx's workers are another user, who must enter the folder and read
        // the files.
        allow(folder.path(), 0o711)?;
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let unfit = |_| LabError::Unavailable(format!("{longest} bytes do not fit into memory"));
        let mut content = vec![0; usize::try_from(longest).map_err(unfit)?];
        getrandom::fill(&mut content).map_err(|error| {
            LabError::Unavailable(format!("the system has no random bytes: {error}"))
        })?;
        let site = Site { folder, content };
        let Certificate { certificate, key } = Certificate::new()
            .map_err(|error| LabError::Unavailable(format!("can't make a certificate: {error}")))?;
        write(&site.certificate(), &certificate, 0o644)?;
        write(&site.path(KEY), &key, 0o600)?;
        site.directory(ROOT, 0o711)?;
        write(&site.file(0), &[], 0o644)?;
        for &length in lengths {
            write(&site.file(length), site.content(length), 0o644)?;
        }
        Ok(site)
    }

    /// Makes a directory in the folder.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn directory(&self, name: &str, mode: u32) -> Result<PathBuf, LabError> {
        let path = self.path(name);
        fs::DirBuilder::new().mode(mode).create(&path).map_err(LabError::file("create", &path))?;
        allow(&path, mode)?;
        Ok(path)
    }

    /// A path in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.path(CERTIFICATE)
    }

    /// The content of a file of this length.
    pub(super) fn content(&self, length: u64) -> &[u8] {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        &self.content[..length.min(self.content.len())]
    }

    fn file(&self, length: u64) -> PathBuf {
        self.path(ROOT).join(length.to_string())
    }
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), LabError> {
    let failed = || LabError::file("write", path);
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)
        .map_err(failed())?;
    file.write_all(bytes).map_err(failed())?;
    allow(path, mode)
}

/// Sets these permissions even if the umask removed some.
fn allow(path: &Path, mode: u32) -> Result<(), LabError> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(LabError::file("change the rights of", path))
}

/// The names in the folder.
pub(super) const CERTIFICATE: &str = "certificate.pem";
pub(super) const KEY: &str = "key.pem";
/// The directory of the files.
pub(super) const ROOT: &str = "www";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_there_until_dropped_for_others_too_and_the_key_is_private() {
        let site = Site::new(&[5, 3000, 5]).unwrap();
        for length in [0, 5, 3000] {
            assert_eq!(fs::read(site.file(length)).unwrap(), site.content(length));
            assert_eq!(site.content(length).len() as u64, length);
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&site.path(KEY)), 0o600);
        assert_eq!((mode(&site.path("")), mode(&site.path(ROOT))), (0o711, 0o711));
        let folder = site.path("");
        drop(site);
        assert!(!folder.exists());
    }
}
