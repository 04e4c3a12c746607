//! What the servers serve, in a temporary folder.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::certificate::Certificate;
use crate::LabError;

/// A folder with a certificate and with files of random bytes, each with its length as its name.
/// Dropping it removes it.
pub(super) struct Site {
    folder: TempDir,
    /// The longest file's content; the others are its beginning.
    content: Vec<u8>,
}

impl Site {
    /// One with files of these lengths, and an empty one.
    ///
    /// # Errors
    /// When a file can't be written, or there are no random bytes or no certificate.
    pub(super) fn new(lengths: &[u64]) -> Result<Site, LabError> {
        let parent = std::env::temp_dir();
        // Where root runs this, nginx's workers are another user: they pass, and read the files.
        let folder = tempfile::Builder::new()
            .prefix("evener-bench-")
            .permissions(Permissions::from_mode(0o711))
            .tempdir_in(&parent)
            .map_err(LabError::file("create a directory in", &parent))?;
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let unfit = |_| LabError::Unavailable(format!("{longest} bytes do not fit into memory"));
        let mut content = vec![0; usize::try_from(longest).map_err(unfit)?];
        getrandom::fill(&mut content).map_err(|error| {
            LabError::Unavailable(format!("the system has no random bytes: {error}"))
        })?;
        let site = Site { folder, content };
        let Certificate { certificate, key } = Certificate::new().map_err(|error| {
            LabError::Unavailable(format!("cannot make a certificate: {error}"))
        })?;
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
        // As wanted also where the umask takes something away.
        fs::set_permissions(&path, Permissions::from_mode(mode))
            .map_err(LabError::file("create", &path))?;
        Ok(path)
    }

    /// A path in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.path(CERTIFICATE)
    }

    /// What a file of this length contains.
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
    file.set_permissions(Permissions::from_mode(mode)).map_err(failed())
}

/// The names in the folder.
pub(super) const CERTIFICATE: &str = "certificate.pem";
pub(super) const KEY: &str = "key.pem";
/// Where the files are.
pub(super) const ROOT: &str = "www";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_there_until_dropped_and_the_key_is_private() {
        let site = Site::new(&[5, 3000, 5]).unwrap();
        for length in [0, 5, 3000] {
            assert_eq!(fs::read(site.file(length)).unwrap(), site.content(length));
            assert_eq!(site.content(length).len() as u64, length);
        }
        assert_eq!(fs::metadata(site.path(KEY)).unwrap().permissions().mode() & 0o777, 0o600);
        let folder = site.path("");
        drop(site);
        assert!(!folder.exists());
    }
}
