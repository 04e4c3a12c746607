//! The keys of a job: of the files by which several workers make one generation of a sealed tree.

use std::fmt;

use evener_core::Key;
use hkdf::Hkdf;
use hkdf::hmac::{Hmac, Mac as _};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::StorageName;
use super::keys::{from_hexadecimal, hexadecimal};
use crate::header::random;
use crate::{CobblestoneSuite, FormatError, Recipe};

/// The identity of a job: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub [u8; 16]);

/// The identity of one attempt at a shard: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub [u8; 16]);

/// The purpose of a file of a job. Each has a subkey of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobFile {
    /// The manifest, which names all shards.
    Manifest,
    /// The rows of a shard.
    Shard(u64),
    /// The receipt of an attempt at a shard.
    Receipt(u64, AttemptId),
    /// The note that the generation is made.
    Finished,
}

impl JobFile {
    fn purpose(self) -> &'static str {
        match self {
            JobFile::Manifest => "manifest",
            JobFile::Shard(_) => "shard",
            JobFile::Receipt(..) => "receipt",
            JobFile::Finished => "finished",
        }
    }
}

/// The keys of a job, which come from one key of its workers.
#[derive(Clone)]
pub struct JobKeys {
    key: Key,
    job: JobId,
}

impl JobKeys {
    /// Takes a uniformly random key of 32 bytes.
    ///
    /// # Errors
    /// [`FormatError::Length`] for another length.
    pub fn new(key: &Key, job: JobId) -> Result<JobKeys, FormatError> {
        let suite = CobblestoneSuite::Aes256Gcm;
        let (expected, actual) = (suite.key_length(), key.len());
        if actual != expected {
            let cipher = suite.cipher();
            return Err(FormatError::Length { cipher, what: "a key", expected, actual });
        }
        Ok(JobKeys { key: key.clone(), job })
    }

    /// The job.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// The recipe that encrypts and decrypts a file of the job. `manifest` is the SHA-256 of the manifest's
    /// file; zeros for that file itself and for the shards that it names by their digests.
    ///
    /// # Errors
    /// [`FormatError::Derivation`].
    pub fn recipe(&self, file: JobFile, manifest: &[u8; 32]) -> Result<Recipe, FormatError> {
        let subkey = self.subkey(file.purpose())?;
        let subkey = Key::new(&*subkey).map_err(|it| FormatError::Derivation(it.to_string()))?;
        let (shard, attempt) = match file {
            JobFile::Manifest | JobFile::Finished => (0, [0; 16]),
            JobFile::Shard(shard) => (shard, [0; 16]),
            JobFile::Receipt(shard, attempt) => (shard, attempt.0),
        };
        let mut context = Sha256::new();
        context.update(file.purpose());
        context.update([0]);
        context.update(manifest);
        context.update(shard.to_be_bytes());
        context.update(attempt);
        let context: [u8; 32] = context.finalize().into();
        Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &subkey, &context)
    }

    /// The names of the files that the workers of a shard write. All have the shard's directory.
    ///
    /// # Errors
    /// [`FormatError::Derivation`].
    pub fn names(&self, shard: u64) -> Result<JobNames, FormatError> {
        Ok(JobNames { subkey: self.subkey("name")?, directory: directory(shard), shard })
    }

    /// `HKDF-Expand-SHA-256(key, "evener/v1/" ‖ purpose ‖ 0 ‖ job)`.
    fn subkey(&self, purpose: &str) -> Result<Zeroizing<[u8; 32]>, FormatError> {
        let failed = |reason: &str| FormatError::Derivation(reason.to_owned());
        let hkdf = Hkdf::<Sha256>::from_prk(self.key.bytes());
        let hkdf = hkdf.map_err(|_| failed("the key is too short"))?;
        let info = [b"evener/v1/", purpose.as_bytes(), &[0], &self.job.0].concat();
        let mut subkey = Zeroizing::new([0; 32]);
        hkdf.expand(&info, &mut *subkey).map_err(|_| failed("the output is too long"))?;
        Ok(subkey)
    }
}

impl fmt::Debug for JobKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobKeys").field("job", &self.job).finish_non_exhaustive()
    }
}

/// The directory in `data/` of a shard's files: 256 of them share the requests.
pub fn directory(shard: u64) -> u8 {
    shard.to_le_bytes()[0]
}

/// The names of the files of one shard.
pub struct JobNames {
    subkey: Zeroizing<[u8; 32]>,
    directory: u8,
    shard: u64,
}

impl JobNames {
    /// The name of the file with the content of an object: a keyed hash of the shard, the object's
    /// path and its version. So a repeated attempt finds the file of an earlier one.
    ///
    /// # Errors
    /// [`FormatError::Derivation`].
    pub fn name(&self, path: &[u8], version: &[u8]) -> Result<StorageName, FormatError> {
        let failed = |_| FormatError::Derivation("the key is too short".to_owned());
        let mut hash = Hmac::<Sha256>::new_from_slice(&*self.subkey).map_err(failed)?;
        hash.update(&self.shard.to_be_bytes());
        hash.update(&(path.len() as u64).to_be_bytes());
        hash.update(path);
        hash.update(version);
        let hash = hash.finalize().into_bytes();
        Ok(self.of(&hash[..16]))
    }

    /// An unused name, for a file that every attempt makes anew.
    ///
    /// # Errors
    /// [`FormatError::Random`].
    pub fn unused(&self) -> Result<StorageName, FormatError> {
        random::<16>().map(|random| self.of(&random))
    }

    fn of(&self, random: &[u8]) -> StorageName {
        let mut name = [self.directory; StorageName::LENGTH];
        name[1..].copy_from_slice(random);
        StorageName::new(name)
    }
}

impl fmt::Debug for JobNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobNames").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl JobId {
    /// A new job.
    ///
    /// # Errors
    /// [`FormatError::Random`].
    pub fn random() -> Result<JobId, FormatError> {
        random().map(JobId)
    }

    /// Reads 32 hexadecimal digits.
    pub fn from_text(text: &str) -> Option<JobId> {
        from_hexadecimal(text).map(JobId)
    }
}

impl AttemptId {
    /// A new attempt.
    ///
    /// # Errors
    /// [`FormatError::Random`].
    pub fn random() -> Result<AttemptId, FormatError> {
        random().map(AttemptId)
    }

    /// Reads 32 hexadecimal digits.
    pub fn from_text(text: &str) -> Option<AttemptId> {
        from_hexadecimal(text).map(AttemptId)
    }
}

hexadecimal!(JobId, AttemptId);

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(key: u8, job: u8) -> JobKeys {
        JobKeys::new(&Key::new(&[key; 32]).unwrap(), JobId([job; 16])).unwrap()
    }

    #[test]
    fn names_depend_on_everything() {
        let name = |key, job, shard, path: &[u8], version: &[u8]| {
            keys(key, job).names(shard).unwrap().name(path, version).unwrap()
        };
        let usual = name(1, 2, 3, b"path", b"version");
        assert_eq!(name(1, 2, 3, b"path", b"version"), usual);
        for other in [
            name(9, 2, 3, b"path", b"version"),
            name(1, 9, 3, b"path", b"version"),
            name(1, 2, 259, b"path", b"version"),
            name(1, 2, 3, b"pathv", b"ersion"),
            name(1, 2, 3, b"path", b"versiom"),
        ] {
            assert_ne!(other, usual);
        }
        assert_eq!(usual.bytes()[0], 3);
        assert_eq!(name(1, 2, 259, b"path", b"version").bytes()[0], 3);
        let names = keys(1, 2).names(3).unwrap();
        assert_ne!(names.unused().unwrap(), names.unused().unwrap());
    }

    #[test]
    fn no_two_files_open_each_other() {
        let attempt = AttemptId([5; 16]);
        let (none, manifest) = ([0; 32], [7; 32]);
        let recipes = [
            keys(1, 2).recipe(JobFile::Manifest, &none),
            keys(1, 2).recipe(JobFile::Shard(3), &none),
            keys(1, 2).recipe(JobFile::Shard(4), &none),
            keys(1, 2).recipe(JobFile::Receipt(3, attempt), &manifest),
            keys(1, 2).recipe(JobFile::Receipt(4, attempt), &manifest),
            keys(1, 2).recipe(JobFile::Receipt(3, AttemptId([6; 16])), &manifest),
            keys(1, 2).recipe(JobFile::Receipt(3, attempt), &[8; 32]),
            keys(1, 9).recipe(JobFile::Receipt(3, attempt), &manifest),
            keys(9, 2).recipe(JobFile::Receipt(3, attempt), &manifest),
            keys(1, 2).recipe(JobFile::Finished, &manifest),
        ];
        let recipes: Vec<_> = recipes.into_iter().map(Result::unwrap).collect();
        for (one, made) in recipes.iter().enumerate() {
            let (_, header) = made.create().unwrap();
            for (other, opening) in recipes.iter().enumerate() {
                assert_eq!(opening.open(header.bytes()).is_ok(), one == other, "{one} {other}");
            }
        }
    }

    #[test]
    fn nothing_secret_is_shown() {
        let keys = keys(0xab, 2);
        assert!(!format!("{keys:?} {:?}", keys.names(1).unwrap()).contains("abab"));
    }
}
