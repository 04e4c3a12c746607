//! Makes the generation of a job.

use std::path::PathBuf;

use evener_core::Key;
use evener_format::index::{EntryPath, JobFile, MOST_FILE, Node, Purpose, Reference};
use serde::{Deserialize, Serialize};

use super::super::at_work;
use super::super::audience;
use super::super::base::{Base, says_nothing};
use super::super::depot::{Created, Depot, refused};
use super::super::index_writer::{IndexSettings, IndexWriter};
use super::super::keys::{Keys, wrapping};
use super::super::roots::{Generation, RootDigest, Roots, Step, root_path};
use super::super::succession::Signing;
use super::super::writer::{MOST_ATTEMPTS, SealedOptions, Writer};
use super::manifest::{FINISHED, Job, Shard, from_hexadecimal};
use super::plan::Ends;
use super::receipt::Receipt;
use crate::report::paths;
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
    #[serde(serialize_with = "paths")]
    pub changed: Vec<PathBuf>,
    /// Objects that were gone.
    #[serde(serialize_with = "paths")]
    pub gone: Vec<PathBuf>,
}

/// The note that a generation is made.
#[derive(Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) generation: u64,
    /// The SHA-256 of its root, in hexadecimal.
    root: String,
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
    let job = Job::open(ends.job, run, key, ends.manifest).map_err(of_job)?;
    let options = TransferOptions::default();
    let writer = Writer::of(ends.target, run, &options, sealed).map_err(of_target)?;
    job.check_target(&writer.depot).map_err(of_target)?;
    if let Some(note) = job.note().map_err(of_job)? {
        note.check(&writer.depot).map_err(of_target)?;
        return Ok(note.into_finished(false));
    }
    let done = job.done().map_err(of_job)?;
    let missing: Vec<_> = (0..).zip(&done).filter(|(_, done)| !**done).map(|(it, _)| it).collect();
    if !missing.is_empty() {
        return Err(of_job(refused(lacking(&missing, done.len()))));
    }
    job.compare(&writer.depot).map_err(of_target)?;
    let (note, is_new) = job.commit(&writer).map_err(of_target)?;
    // Without this file, nobody makes the generation once more.
    at_work::forget(&writer.depot, vec![job.manifest.writer.clone()]).map_err(of_target)?;
    job.keep(&note).map_err(|error| {
        let number = note.generation;
        of_job(refused(format!("generation {number} is made, but not noted here: {error}")))
    })?;
    if let Some(state) = sealed.place_state() {
        // Later runs of this machine then seal for the same recipients.
        let tree = job.tree().map_err(of_job)?;
        audience::keep(&state, tree, sealed.readers()).map_err(of_target)?;
    }
    Ok(note.into_finished(is_new))
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
    /// Checks that the target still has the generation.
    fn check(&self, target: &Depot<'_>) -> Result<(), FileError> {
        let number = self.generation;
        let there = target.digest(&root_path(number))?;
        match there.is_some_and(|there| RootDigest(there).to_string() == self.root) {
            true => Ok(()),
            false => Err(refused(format!(
                "the job has made generation {number}, and the tree has another one, or none: it was \
                 rolled back or exchanged"
            ))),
        }
    }

    fn into_finished(self, is_new: bool) -> Finished {
        let Note { generation, between, entries, objects, bytes, already, changed, gone, .. } =
            self;
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

    /// Writes the nodes and the root. Returns false if the generation was there.
    fn commit(&self, writer: &Writer<'_>) -> Result<(Note, bool), FileError> {
        let (tree, depot, sealed) = (self.tree()?, &writer.depot, writer.sealed);
        let state = sealed.place_state();
        // The manifest says that the job began the tree.
        writer.began.set(self.manifest.base.is_none());
        for _ in 0..MOST_ATTEMPTS {
            let keys = Keys::new(tree, &sealed.keychain)?;
            let mut base = writer.base(&keys, state.as_ref())?;
            let roots = Roots { depot, keys: &keys };
            self.check_base(&base, &roots)?;
            if let Some((number, digest)) = self.made(&base, &roots)? {
                return Ok((self.note_of(depot, number, digest, None)?, false));
            }
            if at_work::all(depot)?.iter().all(|it| it.name != self.manifest.writer) {
                return Err(refused(
                    "the job has made its generation already, or was given up: its file in `writers/` \
                     is gone",
                ));
            }
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
            let note = self.note_of(depot, 0, RootDigest([0; 32]), Some(&mut index))?;
            let mut index = index.finish()?;
            own.publish(depot)?;
            let published =
                writer.publish(&mut index, &base, &own, signing.as_ref(), state.as_ref())?;
            if let Some(number) = published {
                let root = RootDigest(roots.digest(number)?).to_string();
                let between = number.saturating_sub(self.manifest.generation);
                return Ok((Note { generation: number, root, between, ..note }, true));
            }
        }
        Err(refused("other runs make generations all the time; finish the job again"))
    }

    /// Checks that a generation follows the one that the planner saw.
    fn check_base(&self, base: &Base, roots: &Roots<'_>) -> Result<(), FileError> {
        let Some((number, digest)) = &self.manifest.base else { return Ok(()) };
        let rolled_back = || {
            refused(format!(
                "generation {number}, which the job was planned after, is gone or another: the tree \
                 was rolled back or exchanged"
            ))
        };
        let newest = base.claim.as_ref().filter(|(claim, _)| claim.number >= *number);
        let (claim, newest) = newest.ok_or_else(rolled_back)?;
        let mut step = Step { digest: *newest, claim: claim.clone(), chain: None };
        while step.claim.number > *number {
            step = roots.predecessor(&step)?;
        }
        match step.claim.number == *number && step.digest.to_string() == *digest {
            true => Ok(()),
            false => Err(rolled_back()),
        }
    }

    /// The generation of this job, if it was made and can be read: it has the first shard's first
    /// block, whose name no other attempt has.
    fn made(&self, base: &Base, roots: &Roots<'_>) -> Result<Option<(u64, RootDigest)>, FileError> {
        let Some((claim, digest)) = &base.claim else { return Ok(None) };
        let mut shards: Vec<&Shard> = self.manifest.shards.iter().collect();
        shards.sort_unstable_by_key(|shard| shard.place);
        let mut first = None;
        for shard in shards {
            first = self.agreed(shard)?.blocks.into_iter().next();
            if first.is_some() {
                break;
            }
        }
        let first = first.and_then(|block| block.reference(self.manifest.generation));
        let Some(first) = first else { return Ok(None) };
        let planned = self.manifest.base.as_ref().map_or(0, |(number, _)| *number);
        let mut step = Step { digest: *digest, claim: claim.clone(), chain: None };
        while step.claim.number > planned {
            let number = step.claim.number;
            let opened = match roots.open(number) {
                Err(error) if says_nothing(&error) => return Err(error),
                opened => opened.ok(),
            };
            if opened.is_some_and(|it| begins_with(roots, &it, &first)) {
                return Ok(Some((number, step.digest)));
            }
            if step.claim.before.is_none() {
                break;
            }
            step = roots.predecessor(&step)?;
        }
        Ok(None)
    }

    /// The note of a generation. If an index is given, adds the blocks of all shards to it, in its order,
    /// and publishes the keys of the attempts.
    fn note_of(
        &self,
        target: &Depot<'_>,
        generation: u64,
        root: RootDigest,
        mut index: Option<&mut IndexWriter<'_>>,
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
                if let Some(index) = &mut index {
                    index.push_block(&reference, std::mem::take(&mut counts))?;
                }
            }
            if index.is_some() {
                self.publish_key(&receipt, target)?;
            }
            entries += receipt.entries;
            objects += receipt.objects;
            bytes += receipt.bytes;
            already += receipt.already;
            changed.extend(receipt.changed);
            gone.extend(receipt.gone);
            at += 1;
            Ok(())
        })?;
        let (root, between) =
            (root.to_string(), generation.saturating_sub(self.manifest.generation));
        Ok(Note { generation, root, between, entries, objects, bytes, already, changed, gone })
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

/// Returns whether the first block of a generation is this one.
fn begins_with(roots: &Roots<'_>, generation: &Generation, first: &Reference) -> bool {
    let Some(node) = generation.body.nodes.first() else { return false };
    let read = || -> Result<Node, FileError> {
        let key = roots.keys.listed(roots.depot, node.key)?;
        let sealed = roots.depot.read(&node.name.path(), MOST_FILE)?.unwrap_or_default();
        let plain = roots.depot.open(key.recipe(Purpose::Node, node.generation)?, &sealed)?;
        Node::parse(&plain).map_err(|error| refused(error.to_string()))
    };
    read().is_ok_and(|node| node.references.first().is_some_and(|it| it.name == first.name))
}
