//! Parts of a sealed tree's first generation, in its format. The fuzzing target for trees includes
//! this file.

use evener_format::index::{
    Body, Border, Claim, Content, EntryPath, Purpose, Reference, StorageName, TreeKeys,
    commitment_of,
};
use evener_place::{KeyRing, RunSettings, buffer};
use sha2::{Digest, Sha256};

pub fn seal(
    keys: &TreeKeys,
    (purpose, generation): (Purpose, u64),
    plain: &[u8],
    run: &RunSettings,
) -> Vec<u8> {
    let ring = KeyRing::new(keys.recipe(purpose, generation).expect("a recipe"));
    let length = buffer::sealed_length(&ring, plain.len() as u64).expect("it is short");
    let mut sealed = vec![0; length as usize];
    buffer::seal(&ring, plain, &mut sealed, run).expect("it is sealed");
    sealed
}

/// A reference to a file with these bytes.
pub fn reference(keys: &TreeKeys, first: &[u8], name: StorageName, sealed: &[u8]) -> Reference {
    Reference {
        first: EntryPath::of(first),
        name,
        length: sealed.len() as u64,
        digest: Sha256::digest(sealed).into(),
        key: keys.commitment(),
        generation: 1,
    }
}

/// The content entry of a file with these bytes.
pub fn content(keys: &TreeKeys, size: u64, name: StorageName, sealed: &[u8]) -> Content {
    Content {
        size,
        name,
        offset: 0,
        length: sealed.len() as u64,
        commitment: commitment_of(sealed).expect("it has a header"),
        tag: *sealed.last_chunk().expect("it has a tag"),
        key: keys.commitment(),
        generation: 1,
        hash: None,
    }
}

/// The body of an unsigned root.
pub fn body(keys: &TreeKeys, nodes: Vec<Reference>, (entries, bytes): (u64, u64)) -> Body {
    Body {
        tree: keys.tree(),
        claim: [0; 32],
        time: 0,
        signers: Vec::new(),
        revoked: Vec::new(),
        border: Border([0; 16]),
        padding: None,
        entries,
        bytes,
        nodes,
    }
}

/// The claim of a root after one with this SHA-256.
pub fn claim(keys: &TreeKeys, number: u64, before: Option<[u8; 32]>) -> Claim {
    Claim {
        key: keys.commitment().id(),
        number,
        before,
        skipped: Vec::new(),
        cutoff: 0,
        kept: None,
        retired: Vec::new(),
        policy: [0; 32],
    }
}
