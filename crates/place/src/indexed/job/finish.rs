//! Makes the generation of a job.

use std::path::PathBuf;

use evener_core::Key;
use evener_format::index::{EntryPath, JobFile};
use serde::{Deserialize, Serialize};

use super::super::at_work;
use super::super::audience;
use super::super::depot::{Created, Depot, refused};
use super::super::index_writer::{IndexSettings, IndexWriter};
use super::super::keys::{Keys, wrapping};
use super::super::succession::Signing;
use super::super::writer::{MOST_ATTEMPTS, SealedOptions, Writer};
use super::manifest::{FINISHED, Job, Shard, from_hexadecimal};
use super::plan::Ends;
use super::receipt::Receipt;
use crate::{Failure, FileError, RunSettings, TransferOptions};

/// The result of finishing a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finished {
    /// The generation.
    pub generation: u64,
    /// True if this call has made it; false where it was there.
    pub is_new: bool,
    /// Generations that others have made since the plan. The one of the job has none of their
    /// changes.
    pub between: u64,
    /// The number of entries.
    pub entries: u64,
    /// The number of objects.
    pub objects: u64,
    /// The bytes of content.
    pub bytes: u64,
    /// Objects that an earlier attempt at their shard had made.
    pub already: u64,
    /// Objects that had changed since the plan: they are in the generation as they were then.
    pub changed: Vec<PathBuf>,
    /// Objects that were gone.
    pub gone: Vec<PathBuf>,
}

/// The note that a generation is made.
#[derive(Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) generation: u64,
    #[serde(default)]
    between: u64,
    entries: u64,
    objects: u64,
    bytes: u64,
    already: u64,
    changed: Vec<String>,
    gone: Vec<String>,
}

/// Makes the generation of a job whose shards all have receipts. It reads the receipts and one
/// listing of the target, and no content.
///
/// # Errors
/// When shards have no receipt, a receipt is not what the manifest says, or the target does not have
/// exactly the files of the receipts: then no generation is made.
pub fn finish(
    ends: &Ends<'_>,
    run: &RunSettings,
    sealed: &SealedOptions,
    key: &Key,
) -> Result<Finished, Failure> {
    let of_job = |error| Failure { path: ends.job.label(), error };
    let of_target = |error| Failure { path: ends.target.label(), error };
    let job = Job::open(ends.job, run, key).map_err(of_job)?;
    if let Some(note) = job.note().map_err(of_job)? {
        return Ok(note.into_finished(false));
    }
    let done = job.done().map_err(of_job)?;
    let missing: Vec<_> = (0..).zip(&done).filter(|(_, done)| !**done).map(|(it, _)| it).collect();
    if !missing.is_empty() {
        return Err(of_job(refused(lacking(&missing, done.len()))));
    }
    let options = TransferOptions::default();
    let writer = Writer::of(ends.target, run, &options, sealed).map_err(of_target)?;
    job.check_target(&writer.depot).map_err(of_target)?;
    job.compare(&writer.depot).map_err(of_target)?;
    let note = job.commit(&writer).map_err(of_target)?;
    job.keep(&note).map_err(of_job)?;
    at_work::forget(&writer.depot, vec![job.manifest.writer.clone()]).map_err(of_target)?;
    if let Some(state) = sealed.place_state() {
        // Later runs of this machine then seal for the same recipients.
        let tree = job.tree().map_err(of_job)?;
        audience::keep(&state, tree, sealed.readers()).map_err(of_target)?;
    }
    Ok(note.into_finished(true))
}

fn lacking(missing: &[u64], shards: usize) -> String {
    let first: Vec<_> = missing.iter().take(8).map(u64::to_string).collect();
    let more = if missing.len() > first.len() { ", …" } else { "" };
    format!(
        "{} of {shards} shards have no receipt yet ({}{more}): run them, with `evener job run` and \
         --shard or --worker, then finish",
        missing.len(),
        first.join(", ")
    )
}

impl Note {
    fn into_finished(self, is_new: bool) -> Finished {
        let Note { generation, between, entries, objects, bytes, already, changed, gone } = self;
        Finished {
            generation,
            is_new,
            between,
            entries,
            objects,
            bytes,
            already,
            changed: changed.iter().filter_map(|path| path_of(path)).collect(),
            gone: gone.iter().filter_map(|path| path_of(path)).collect(),
        }
    }
}

fn path_of(hexadecimal: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    Some(std::ffi::OsString::from_vec(from_hexadecimal(hexadecimal)?).into())
}

impl Job<'_> {
    pub(super) fn note(&self) -> Result<Option<Note>, FileError> {
        let Some(sealed) = self.depot.read(FINISHED, 1 << 30)? else { return Ok(None) };
        let plain = self.depot.open(self.keys.recipe(JobFile::Finished, &self.digest)?, &sealed)?;
        serde_json::from_slice(&plain).map(Some).map_err(|error| refused(error.to_string()))
    }

    /// Keeps the note. Another run may have kept one of the same generation, or of one after it.
    fn keep(&self, note: &Note) -> Result<(), FileError> {
        let plain = serde_json::to_vec(note).map_err(|error| refused(error.to_string()))?;
        let recipe = self.keys.recipe(JobFile::Finished, &self.digest)?;
        self.depot.create(FINISHED, &self.depot.seal(recipe, &plain)?).map(drop)
    }

    /// Writes the nodes and the root.
    fn commit(&self, writer: &Writer<'_>) -> Result<Note, FileError> {
        let (tree, depot, sealed) = (self.tree()?, &writer.depot, writer.sealed);
        let state = sealed.place_state();
        // The manifest says that this job began the tree, or found its generations.
        writer.began.set(true);
        for _ in 0..MOST_ATTEMPTS {
            let keys = Keys::new(tree, &sealed.keychain)?;
            let mut base = writer.base(&keys, state.as_ref())?;
            (base.border, base.padding) = (self.border()?, self.padding());
            let own = writer.own_key(&keys, &base)?;
            let signing = match self.manifest.is_signed {
                true => Some(
                    Signing::of(state.as_ref(), sealed.signer.as_ref(), Some(tree))?
                        .among(&base.signers)?,
                ),
                false => None,
            };
            let settings = IndexSettings {
                depot: *depot,
                own: &own,
                generation: base.next(),
                border: base.border,
                padding: base.padding,
                dry_run: false,
                part: None,
            };
            let mut index = IndexWriter::new(settings, None);
            let mut note = self.add_shards(&mut index, depot)?;
            let index = index.finish();
            let committed = writer.commit(index, base, &own, signing.as_ref(), state.as_ref())?;
            if let Some((number, _)) = committed {
                note.generation = number;
                note.between = number.saturating_sub(self.manifest.generation);
                return Ok(note);
            }
        }
        Err(refused("other runs make generations all the time; finish the job again"))
    }

    /// Adds the blocks of all shards to an index, in its order.
    fn add_shards(
        &self,
        index: &mut IndexWriter<'_>,
        target: &Depot<'_>,
    ) -> Result<Note, FileError> {
        let (mut entries, mut objects, mut bytes, mut already) = (0, 0, 0, 0);
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        let mut shards: Vec<&Shard> = self.manifest.shards.iter().collect();
        shards.sort_unstable_by_key(|shard| shard.place);
        let mut last: Option<EntryPath> = None;
        let mut at = 0;
        self.each_receipt(&shards, |shard, receipt| {
            let (first, end) = (shard.first(), shards.get(at + 1).and_then(|next| next.first()));
            let mut counts = (receipt.entries, receipt.bytes);
            for block in &receipt.blocks {
                let reference = block.reference(self.manifest.generation);
                let reference = reference.ok_or_else(|| refused("a receipt is malformed"))?;
                let path = &reference.first;
                let is_inside = first.as_ref().is_some_and(|first| first <= path)
                    && end.as_ref().is_none_or(|end| path < end)
                    && last.as_ref().is_none_or(|last| last < path);
                if !is_inside {
                    return Err(refused(format!(
                        "the receipt of the shard in place {} has entries outside of its range",
                        shard.place
                    )));
                }
                last = Some(path.clone());
                index.push_block(&reference, std::mem::take(&mut counts))?;
            }
            self.publish_key(&receipt, target)?;
            entries += receipt.entries;
            objects += receipt.objects;
            bytes += receipt.bytes;
            already += receipt.already;
            changed.extend(receipt.changed);
            gone.extend(receipt.gone);
            at += 1;
            Ok(())
        })?;
        Ok(Note { generation: 0, between: 0, entries, objects, bytes, already, changed, gone })
    }

    /// Gives the tree the wrapped key of an attempt.
    fn publish_key(&self, receipt: &Receipt, target: &Depot<'_>) -> Result<(), FileError> {
        let Some(wrapped) = receipt.wrapped.as_deref().and_then(from_hexadecimal) else {
            return Ok(());
        };
        let block = receipt.blocks.first().and_then(|block| block.reference(1));
        let Some(block) = block else { return Ok(()) };
        let path = wrapping(block.key.id(), 1);
        match target.create(&path, &wrapped)? {
            Created::Ours => Ok(()),
            Created::Taken => Err(refused(format!("`{path}` is there already"))),
        }
    }
}
