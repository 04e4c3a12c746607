//! The files and keys that generations need of a tree.

use std::collections::HashSet;

use evener_format::index::{KeyId, Kind, StorageName};

use super::depot::Depot;
use super::keys::Keys;
use super::roots::Generation;
use super::snapshot::{Damage, Part, Snapshot};
use super::wanted::Wanted;
use crate::FileError;

/// The files and keys that generations name.
#[derive(Default)]
pub(super) struct Needs {
    pub(super) files: HashSet<StorageName>,
    pub(super) keys: HashSet<KeyId>,
}

impl Needs {
    /// Reads the index of each generation. `damaged` is told of parts that can't be read; it may end
    /// the search with an error.
    pub(super) fn of(
        depot: Depot<'_>,
        keys: Keys<'_>,
        generations: &[Generation],
        mut damaged: impl FnMut(u64, Damage) -> Result<(), FileError>,
    ) -> Result<Needs, FileError> {
        let mut needs = Needs::default();
        let Some(first) = generations.first() else { return Ok(needs) };
        let mut snapshot = Snapshot { depot, keys, generation: first.clone() };
        let mut seen: HashSet<[u8; 32]> = HashSet::new();
        for generation in generations {
            snapshot.generation = generation.clone();
            needs.keys.insert(generation.claim.key);
            let nodes = &generation.body.nodes;
            needs.files.extend(nodes.iter().map(|node| node.name));
            needs.keys.extend(nodes.iter().map(|node| node.key.id()));
            let mut blocks = HashSet::new();
            for part in snapshot.parts(Wanted::default()).without(&seen) {
                let (reference, block) = match part {
                    Ok(Part::Block(reference, _, block)) => (reference, block),
                    Ok(Part::Node(..)) => continue,
                    Err(damage) => {
                        damaged(generation.claim.number, damage)?;
                        continue;
                    }
                };
                needs.files.insert(reference.name);
                needs.keys.insert(reference.key.id());
                needs.keys.extend(block.keys.iter().map(|key| key.id()));
                for (_, entry) in &block.entries {
                    if let Kind::File(content) = &entry.kind {
                        needs.files.insert(content.name);
                    }
                }
                blocks.insert(reference.digest);
            }
            // Blocks that were passed over are named by generations that were read before.
            seen.extend(blocks);
        }
        Ok(needs)
    }
}
