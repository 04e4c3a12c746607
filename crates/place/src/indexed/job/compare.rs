//! Compares the receipts of a job with its manifest and its target.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::thread;

use evener_core::IgnorePoison;
use evener_format::index::StorageName;

use super::super::depot::{Depot, name, refused};
use super::super::state::hexadecimal;
use super::manifest::{Job, Shard};
use super::receipt::{Made, Receipt};
use crate::{Fault, FileError};

impl Job<'_> {
    /// The receipt of a shard, as far as it agrees with the manifest.
    pub(super) fn agreed(&self, shard: &Shard) -> Result<Receipt, FileError> {
        let wrong = |reason: &str| {
            refused(format!("the receipt of the shard in place {} {reason}", shard.place))
        };
        let receipt = self.receipt(shard)?.ok_or_else(|| wrong("is gone"))?;
        let gone = receipt.gone.len() as u64;
        if receipt.entries + gone != shard.entries || receipt.objects + gone != shard.objects {
            return Err(wrong("counts other entries than the manifest"));
        }
        if receipt.changed.is_empty() && gone == 0 && receipt.bytes != shard.bytes {
            return Err(wrong("counts other bytes than the manifest"));
        }
        // Its blocks are among its files, so that the listing is compared with them too.
        let mut names: Vec<_> = receipt.files.iter().map(|made| made.name).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(wrong("names a file twice"));
        }
        let directory = evener_format::index::directory(shard.place);
        if names.iter().any(|name| name.bytes()[0] != directory) {
            return Err(wrong("names a file of another shard's directory"));
        }
        if receipt.files.len() != receipt.blocks.len() + self.files_in(&receipt, shard) {
            return Err(wrong("names other files than the manifest has objects"));
        }
        Ok(receipt)
    }

    /// The number of files that a shard's objects have.
    fn files_in(&self, receipt: &Receipt, shard: &Shard) -> usize {
        (shard.objects as usize).saturating_sub(receipt.gone.len())
    }

    /// Has each receipt taken, in the order of the shards. Several are read at once.
    pub(super) fn each_receipt(
        &self,
        shards: &[&Shard],
        mut take: impl FnMut(&Shard, Receipt) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        for shards in shards.chunks(self.at_once(MOST_RECEIPTS)) {
            if self.depot.run.control.is_stopped() {
                return Err(FileError::Interrupted);
            }
            let receipts: Vec<_> = thread::scope(|scope| {
                let readers: Vec<_> =
                    shards.iter().map(|shard| scope.spawn(|| self.agreed(shard))).collect();
                readers.into_iter().map(|reader| reader.join()).collect()
            });
            for (shard, receipt) in shards.iter().zip(receipts) {
                take(shard, receipt.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)?;
            }
        }
        Ok(())
    }

    /// The number of requests to make at once, which is at most `most`.
    fn at_once(&self, most: usize) -> usize {
        self.depot.origin.abilities().requests().clamp(1, most)
    }

    /// Compares the receipts with a listing of the target, by directory.
    pub(super) fn compare(&self, target: &Depot<'_>) -> Result<(), FileError> {
        let mut by_directory: Vec<Vec<&Shard>> = vec![Vec::new(); 256];
        for shard in &self.manifest.shards {
            let directory = evener_format::index::directory(shard.place);
            by_directory[usize::from(directory)].push(shard);
        }
        let left = Mutex::new(by_directory.iter().enumerate());
        let failure = Mutex::new(None);
        thread::scope(|scope| {
            for _ in 0..self.at_once(MOST_DIRECTORIES) {
                scope.spawn(|| {
                    let next = || left.lock().ignore_poison().next();
                    while let Some((directory, shards)) = next() {
                        let compared = match shards.is_empty() {
                            true => Ok(()),
                            false => self.compare_directory(directory, shards, target),
                        };
                        if let Err(error) = compared {
                            failure.lock().ignore_poison().get_or_insert(error);
                            return;
                        }
                    }
                });
            }
        });
        failure.into_inner().ignore_poison().map_or(Ok(()), Err)
    }

    fn compare_directory(
        &self,
        directory: usize,
        shards: &[&Shard],
        target: &Depot<'_>,
    ) -> Result<(), FileError> {
        let mut expected = Expected::default();
        self.each_receipt(shards, |_, receipt| {
            receipt.files.iter().try_for_each(|made| expected.add(made))
        })?;
        let directory = format!("{directory:02x}");
        let path = name(&format!("data/{directory}"))?;
        let mut wrong = None;
        let listed = target.origin.list_each(&path, &mut |entry| {
            let file = entry.name.path().file_name().and_then(|file| file.to_str());
            let Some(name) = file.and_then(|file| StorageName::from_text(&directory, file)) else {
                return Ok(());
            };
            expected.find(name, entry.length, entry.version.as_deref()).map_err(|error| {
                wrong = Some(error);
                Fault::Changed
            })
        });
        match wrong {
            Some(error) => Err(error),
            None => Ok(listed?),
        }?;
        expected.end(&directory)
    }
}

/// The files of one directory that receipts name, without those that were found.
#[derive(Default)]
struct Expected {
    /// The length of each, and a hash of its version, by the end of its name. There may be millions.
    files: HashMap<[u8; 16], (u64, Option<u64>)>,
    hasher: RandomState,
}

impl Expected {
    fn add(&mut self, made: &Made) -> Result<(), FileError> {
        let version = made.version.as_deref().map(|version| self.hasher.hash_one(version));
        match self.files.insert(end_of(made.name), (made.length, version)) {
            None => Ok(()),
            Some(_) => Err(refused(format!("two receipts name the file `{}`", made.name))),
        }
    }

    /// Compares a file of the listing with its receipt. Others' files have none.
    fn find(
        &mut self,
        name: StorageName,
        length: Option<u64>,
        version: Option<&str>,
    ) -> Result<(), FileError> {
        let Some((expected, made)) = self.files.remove(&end_of(name)) else { return Ok(()) };
        if let Some(length) = length.filter(|length| *length != expected) {
            return Err(refused(format!(
                "`{name}` has {length} bytes, not {expected} as its receipt says"
            )));
        }
        let there = version.map(|version| self.hasher.hash_one(version));
        match (there, made) {
            (Some(there), Some(made)) if there != made => Err(refused(format!(
                "`{name}` was replaced: its version is not that of its receipt"
            ))),
            _ => Ok(()),
        }
    }

    fn end(self, directory: &str) -> Result<(), FileError> {
        let Some(missing) = self.files.into_keys().next() else { return Ok(()) };
        Err(refused(format!(
            "`data/{directory}/{}` is missing, which a receipt names: plan the job again in another \
             place",
            hexadecimal(&missing)
        )))
    }
}

/// The part of a name that its directory does not have.
fn end_of(name: StorageName) -> [u8; 16] {
    let mut end = [0; 16];
    end.copy_from_slice(&name.bytes()[1..]);
    end
}

/// The most receipts that are read at once.
const MOST_RECEIPTS: usize = 8;

/// The most directories that are compared at once: each takes memory for the files in it.
const MOST_DIRECTORIES: usize = 8;
