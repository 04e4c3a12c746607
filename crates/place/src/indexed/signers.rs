//! Who may sign a tree.

use evener_format::index::SignerKeys;
use evener_keys::signing::PublicKey;

use super::base::is_valid;
use super::depot::{Depot, refused};
use super::marker;
use super::reader::{At, GenerationInfo, snapshot};
use super::roots::{Generation, RootDigest, Roots, Skipped, Step};
use super::snapshot::Snapshot;
use super::state::hexadecimal;
use super::succession::{NewRoot, Signing};
use super::writer::SealedOptions;
use crate::place::{Origin, Store};
use crate::{FileError, RunSettings};

/// Somebody who may sign a tree. Its text is a line of OpenSSH's public keys, with the key of its
/// chain in the comment: `ssh-ed25519 AAAA… evener-chain:…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSigner {
    /// The public key that signs.
    pub key: PublicKey,
    /// The Ed25519 key that signs chains.
    pub chain: [u8; 32],
}

impl TreeSigner {
    /// Reads a line.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn from_line(line: &str) -> Result<TreeSigner, FileError> {
        let (key, comment) =
            PublicKey::from_line(line).map_err(|error| refused(error.to_string()))?;
        let chain = comment.split_whitespace().find_map(|word| word.strip_prefix(CHAIN));
        let chain = chain.and_then(RootDigest::from_text);
        match chain {
            Some(chain) => Ok(TreeSigner { key, chain: chain.0 }),
            None => Err(refused(
                "the line has no `evener-chain:`; take the one that `evener signers --own` prints",
            )),
        }
    }

    /// The line.
    pub fn to_line(&self) -> String {
        format!("{} {CHAIN}{}", self.key, hexadecimal(&self.chain))
    }

    fn of(keys: &SignerKeys) -> Result<TreeSigner, FileError> {
        let key = PublicKey::from_wire(&keys.key).map_err(|error| refused(error.to_string()))?;
        Ok(TreeSigner { key, chain: keys.chain })
    }

    fn keys(&self) -> SignerKeys {
        SignerKeys { key: self.key.wire().to_vec(), chain: self.chain }
    }
}

/// A change of who may sign.
#[derive(Clone, Debug, Default)]
pub struct SignerChange {
    /// May sign from now on.
    pub add: Vec<TreeSigner>,
    /// May no longer sign, from the next generation on.
    pub remove: Vec<PublicKey>,
    /// Is no longer believed, and what was made after this generation is passed over.
    pub revoke: Vec<(PublicKey, u64)>,
}

/// The keys with which this machine would sign the tree of a place, which may be absent. They are
/// made at first use.
///
/// # Errors
/// When the state can't be read or written, or the tree's marker can't be read.
pub fn own_signer(origin: &dyn Origin, sealed: &SealedOptions) -> Result<TreeSigner, FileError> {
    let run = RunSettings::default();
    let tree = marker::read(&Depot { origin, store: None, run: &run })?;
    let state = sealed.place_state();
    TreeSigner::of(&Signing::of(state.as_ref(), sealed.signer.as_ref(), tree)?.keys())
}

/// Those who may sign the next generation of a tree, and those who are no longer believed, each with
/// the last good generation.
///
/// # Errors
/// When the root can't be read or is not believed.
#[allow(clippy::type_complexity, reason = "two lists and what they belong to")]
pub fn signers(
    origin: &dyn Origin,
    run: &RunSettings,
    sealed: &SealedOptions,
) -> Result<(Vec<TreeSigner>, Vec<(PublicKey, u64)>, GenerationInfo), FileError> {
    let (snapshot, info) = snapshot(origin, run, sealed)?;
    let body = &snapshot.generation.body;
    let signers = body.signers.iter().map(TreeSigner::of).collect::<Result<_, _>>()?;
    let revoked = body.revoked.iter().map(|(key, last)| {
        let key = PublicKey::from_wire(key).map_err(|error| refused(error.to_string()))?;
        Ok((key, *last))
    });
    Ok((signers, revoked.collect::<Result<_, FileError>>()?, info))
}

/// Changes who may sign a tree, in a generation of its own. An unsigned tree becomes a signed one.
/// Returns the number of the generation. Generations that are passed over need not be opened.
///
/// # Errors
/// When the root can't be read or is not believed, this machine may not sign, or nobody would be
/// left who may.
pub fn change_signers(
    store: &dyn Store,
    run: &RunSettings,
    change: &SignerChange,
    sealed: &SealedOptions,
) -> Result<u64, FileError> {
    if change.revoke.iter().any(|(_, last)| *last == 0) {
        return Err(refused(NONE_GOOD));
    }
    let depot = Depot::of(store, run)?;
    let last = change.revoke.iter().map(|(_, last)| *last).min();
    // Nothing may open what was made after the last good generation.
    let good = last.map(|last| SealedOptions { at: At::Number(last), ..sealed.clone() });
    let (snapshot, _) = match (snapshot(depot.origin, run, sealed), &good) {
        (Err(error), Some(good)) => snapshot(depot.origin, run, good).map_err(|_| error)?,
        (snapshot, _) => snapshot?,
    };
    let Snapshot { keys, generation: newest, .. } = &snapshot;
    if change.revoke.iter().any(|(_, last)| *last > newest.claim.number) {
        return Err(refused(format!(
            "the newest generation is {}, so none after it can be the last good one",
            newest.claim.number
        )));
    }
    let state = sealed.place_state();
    let roots = Roots { depot: &depot, keys };
    let (base, skipped) = match last {
        None => (newest.clone(), Vec::new()),
        Some(last) => last_good(&roots, newest, change, last)?,
    };
    let signing = Signing::of(state.as_ref(), sealed.signer.as_ref(), Some(keys.tree()))?;
    let signing = signing.among(&base.body.signers)?;
    let mut root = NewRoot::after(&base, skipped);
    let signers = &mut root.body.signers;
    if signers.is_empty() {
        signers.push(signing.keys());
    }
    let goes = |signer: &SignerKeys| {
        let revoked = change.revoke.iter().map(|(key, _)| key);
        change.remove.iter().chain(revoked).any(|key| key.wire() == signer.key)
    };
    signers.retain(|signer| !goes(signer));
    for signer in &change.add {
        signers.retain(|known| known.key != signer.key.wire());
        signers.push(signer.keys());
    }
    if !signers.iter().any(|signer| *signer == signing.keys()) {
        return Err(refused("this machine can't remove itself; have another signer do it"));
    }
    for (key, last) in &change.revoke {
        root.body.revoked.retain(|(known, _)| known != key.wire());
        root.body.revoked.push((key.wire().to_vec(), *last));
    }
    let key = keys.get(&depot, base.claim.key)?;
    Ok(root.publish(&depot, &key, Some(&signing), state.as_ref())?.number)
}

/// The newest generation that those who are revoked have not made, and the roots after it. Of the
/// generations that were read, `newest` is the newest.
fn last_good(
    roots: &Roots<'_>,
    newest: &Generation,
    change: &SignerChange,
    last: u64,
) -> Result<(Generation, Skipped), FileError> {
    let is_bad = |generation: &Generation| {
        let signer = generation.signer.as_ref();
        let number = generation.claim.number;
        change.revoke.iter().any(|(key, last)| signer == Some(key) && number > *last)
    };
    let (mut step, mut good, mut is_clean) = (Step::of(newest), newest.clone(), true);
    while step.claim.number > last {
        // One that nothing opens here counts as made by whoever is revoked.
        let is_good = roots.open(step.claim.number).map(|opened| !is_bad(&opened));
        is_clean &= is_good == Ok(true);
        is_valid(is_good)?;
        step = roots.predecessor(&step)?;
    }
    if !is_clean {
        good = roots.open(step.claim.number)?;
    }
    let numbers = roots.numbers()?;
    let end = roots.last(&numbers, good.claim.number).unwrap_or(newest.claim.number);
    let mut skipped = Vec::new();
    for number in good.claim.number + 1..=end {
        use sha2::Digest as _;
        skipped.push((number, sha2::Sha256::digest(roots.bytes(number)?).into()));
    }
    Ok((good, skipped))
}

const NONE_GOOD: &str = "the first generation is 1, so 0 can't be the last good one: if you trust none, make a \
                         new tree in another place";
const CHAIN: &str = "evener-chain:";
