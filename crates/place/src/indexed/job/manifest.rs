//! The manifest of a job, and the files that it names.

use evener_core::Key;
use evener_format::index::{
    AttemptId, Border, EntryPath, JobFile, JobId, JobKeys, Padding, TreeId,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::depot::{Created, Depot, name, no_key, refused};
use super::super::state::hexadecimal;
use super::rows::{Row, RowReader};
use crate::place::{Kind, MOST_LISTED, Store, too_many};
use crate::{Fault, FileError, RunSettings};

/// The plan of a job. Only a holder of the job's key can have made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) version: u32,
    /// The place of the job, in the planner's words: another job is not to take it.
    pub(super) place: String,
    pub(super) source: String,
    pub(super) target: String,
    /// The tree that the target is, in hexadecimal.
    pub(super) tree: String,
    /// The generation at which the workers aim.
    pub(super) generation: u64,
    /// The newest generation that the planner saw, and the SHA-256 of its root, in hexadecimal.
    pub(super) base: Option<(u64, String)>,
    /// Where blocks begin, in hexadecimal.
    pub(super) border: String,
    pub(super) padding: Option<u64>,
    /// True if the generation is signed, so that entries have hashes.
    pub(super) is_signed: bool,
    /// The recipients for whom each attempt wraps a key of its own; empty if the job's key seals.
    pub(super) recipients: Vec<String>,
    /// The name of the planner's file in `writers/`.
    pub(super) writer: String,
    pub(super) entries: u64,
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// The shards, the one with the most bytes first.
    pub(super) shards: Vec<Shard>,
}

/// A part of a job: a range of the index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shard {
    /// Its place in the order of the index, which is also the name of its file.
    pub(super) place: u64,
    /// The SHA-256 of its file, in hexadecimal.
    pub(super) digest: String,
    /// The length of its file in bytes.
    pub(super) length: u64,
    pub(super) entries: u64,
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// The path of its first entry, in hexadecimal.
    pub(super) first: String,
}

impl Shard {
    pub(super) fn first(&self) -> Option<EntryPath> {
        from_hexadecimal(&self.first).map(|path| EntryPath::of(&path))
    }
}

/// An open job.
pub(super) struct Job<'a> {
    pub(super) depot: Depot<'a>,
    pub(super) keys: JobKeys,
    pub(super) key: Key,
    pub(super) manifest: Manifest,
    /// The SHA-256 of the manifest's file.
    pub(super) digest: [u8; 32],
}

impl<'a> Job<'a> {
    /// Opens the job in a place. Its manifest has this SHA-256, if one is given.
    pub(super) fn open(
        store: &'a dyn Store,
        run: &'a RunSettings,
        key: &Key,
        expected: Option<[u8; 32]>,
    ) -> Result<Job<'a>, FileError> {
        let depot = Depot::of(store, run)?;
        let keys = JobKeys::new(key, marker(&depot)?)?;
        let Some(file) = depot.read(MANIFEST, MOST_MANIFEST)? else {
            return Err(refused(
                "its plan has not ended, or was stopped: `evener job clean --abandon` removes what is \
                 left of it",
            ));
        };
        let plain = depot.open(keys.recipe(JobFile::Manifest, &[0; 32])?, &file);
        let plain = plain.map_err(|error| match error {
            error if is_key_error(&error) => no_key(
                "the key is not that of the job, or the job's marker or manifest was exchanged",
            ),
            error => error,
        })?;
        let manifest: Manifest = serde_json::from_slice(&plain)
            .map_err(|error| refused(format!("the manifest is malformed: {error}")))?;
        if manifest.version != VERSION {
            return Err(refused("the job needs another version of the program"));
        }
        let mut places: Vec<u64> = manifest.shards.iter().map(|shard| shard.place).collect();
        places.sort_unstable();
        if !places.into_iter().eq(0..manifest.shards.len() as u64) {
            return Err(malformed());
        }
        let digest = Sha256::digest(&file).into();
        if expected.is_some_and(|expected| expected != digest) {
            return Err(refused("its manifest was exchanged while it was read"));
        }
        Ok(Job { depot, keys, key: key.clone(), manifest, digest })
    }

    pub(super) fn shard(&self, number: u64) -> Result<&Shard, FileError> {
        let shards = self.manifest.shards.len();
        let shard = usize::try_from(number).ok().and_then(|at| self.manifest.shards.get(at));
        shard.ok_or_else(|| {
            refused(format!("there is no shard {number}: the job has {shards}, numbered from 0"))
        })
    }

    /// The rows of a shard.
    pub(super) fn rows(&self, shard: &Shard) -> Result<Vec<Row>, FileError> {
        let path = shard_path(shard.place);
        let file = self.depot.read(&path, shard.length)?;
        let file = file.ok_or_else(|| refused(format!("`{path}` is missing")))?;
        if hexadecimal(&Sha256::digest(&file)) != shard.digest {
            return Err(refused(format!("`{path}` is not the one of the manifest")));
        }
        let recipe = self.keys.recipe(JobFile::Shard(shard.place), &[0; 32])?;
        let plain = self.depot.open(recipe, &file)?;
        let (mut reader, mut rows) = (RowReader::new(&plain[..]), Vec::new());
        while let Some(row) = reader.next()? {
            rows.push(row);
        }
        match rows.len() as u64 == shard.entries {
            true => Ok(rows),
            false => Err(refused(format!("`{path}` has another number of rows"))),
        }
    }

    pub(super) fn tree(&self) -> Result<TreeId, FileError> {
        TreeId::from_text(&self.manifest.tree).ok_or_else(malformed)
    }

    pub(super) fn border(&self) -> Result<Border, FileError> {
        let border = from_hexadecimal(&self.manifest.border);
        let border = border.and_then(|border| <[u8; 16]>::try_from(border).ok());
        border.map(Border).ok_or_else(malformed)
    }

    pub(super) fn padding(&self) -> Option<Padding> {
        self.manifest.padding.map(|floor| Padding { floor })
    }

    /// Returns whether every attempt makes files of its own, of which none serves another attempt:
    /// it has a key of its own, or their hashes would have to be computed by reading them.
    pub(super) fn has_own_files(&self) -> bool {
        self.manifest.is_signed || !self.manifest.recipients.is_empty()
    }

    /// The shards that have receipts, by their numbers.
    pub(super) fn done(&self) -> Result<Vec<bool>, FileError> {
        let shards = &self.manifest.shards;
        let (mut places, mut others) = (vec![false; shards.len()], 0);
        let receipts = name(RECEIPTS)?;
        self.depot.origin.list_each(&receipts, &mut |entry| {
            let file = entry.name.path().file_name().and_then(|file| file.to_str());
            let place = file.and_then(|file| file.parse::<usize>().ok());
            let is_receipt = place.is_some_and(|place| {
                entry.kind == Kind::Object
                    && file == receipt_path(place as u64).get(RECEIPTS.len() + 1..)
            });
            match place.filter(|_| is_receipt).and_then(|place| places.get_mut(place)) {
                Some(place) => *place = true,
                None if others < MOST_LISTED => others += 1,
                None => return Err(too_many(&receipts, places.len() + MOST_LISTED)),
            }
            Ok(())
        })?;
        Ok(shards.iter().map(|shard| places[shard.place as usize]).collect())
    }

    /// Returns whether an attempt at a shard has begun.
    pub(super) fn has_attempts(&self, shard: &Shard) -> Result<bool, FileError> {
        let mut has_any = false;
        let listed = self.depot.origin.list_each(&name(&attempts_of(shard.place))?, &mut |_| {
            has_any = true;
            // Ends the listing.
            Err(Fault::Changed)
        });
        if !has_any {
            listed?;
        }
        Ok(has_any)
    }
}

/// The identity of the job in a place.
pub(super) fn marker(depot: &Depot<'_>) -> Result<JobId, FileError> {
    let Some(bytes) = depot.read(MARKER, 4096)? else {
        return Err(refused("it is no job: it has no marker; `evener job plan` makes one"));
    };
    let text = std::str::from_utf8(&bytes).ok();
    let id = text.and_then(|text| text.strip_prefix("evener-job-v1 ")?.strip_suffix('\n'));
    id.and_then(JobId::from_text).ok_or_else(|| refused("its marker is damaged"))
}

/// Makes a place a job.
pub(super) fn create_marker(depot: &Depot<'_>, job: JobId) -> Result<(), FileError> {
    match depot.create(MARKER, format!("evener-job-v1 {job}\n").as_bytes())? {
        Created::Ours => Ok(()),
        Created::Taken => Err(refused("it is a job already; plan in another place")),
    }
}

/// True if nothing but the key can be wrong.
fn is_key_error(error: &FileError) -> bool {
    matches!(error, FileError::Format(evener_format::FormatError::WrongKey))
}

fn malformed() -> FileError {
    refused("the manifest is malformed")
}

/// The bytes of hexadecimal digits.
pub(super) fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks_exact(2);
    let is_whole = pairs.remainder().is_empty();
    let bytes = pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect();
    if is_whole { bytes } else { None }
}

pub(super) fn shard_path(place: u64) -> String {
    format!("shards/{place:09}")
}

pub(super) fn receipt_path(place: u64) -> String {
    format!("{RECEIPTS}/{place:09}")
}

pub(super) fn attempt_path(place: u64, attempt: AttemptId) -> String {
    format!("{}/{attempt}", attempts_of(place))
}

/// The directory of the marks of attempts at a shard.
pub(super) fn attempts_of(place: u64) -> String {
    format!("attempts/{place:09}")
}

pub(super) const VERSION: u32 = 1;
pub(super) const MARKER: &str = "job";
pub(super) const MANIFEST: &str = "manifest";
pub(super) const FINISHED: &str = "finished";
pub(super) const RECEIPTS: &str = "receipts";

/// The most bytes of the manifest: of millions of shards.
pub(super) const MOST_MANIFEST: u64 = 256 << 20;
