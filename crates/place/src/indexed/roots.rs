//! Roots, their files and their chain.

use std::fmt;

use evener_format::index::{Body, Claim, MOST_FILE, Purpose, Root, RootFile, SignerKeys, TreeId};
use evener_keys::signing::{self, PublicKey};
use sha2::{Digest, Sha256};

use super::depot::{Depot, refused};
use super::keys::Keys;
use crate::FileError;

/// The SHA-256 of a root's file, shown as hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RootDigest(pub [u8; 32]);

impl fmt::Display for RootDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RootDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl RootDigest {
    /// Reads 64 hexadecimal digits.
    pub fn from_text(text: &str) -> Option<RootDigest> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(RootDigest(bytes))
    }
}

/// A machine's knowledge of a tree: the last root that it has read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pin {
    pub(super) tree: TreeId,
    pub(super) number: u64,
    pub(super) digest: RootDigest,
    /// Who may sign the next root; nobody if the tree is not signed.
    pub(super) signers: Vec<SignerKeys>,
    pub(super) revoked: Vec<(Vec<u8>, u64)>,
}

/// Numbers of files that are no roots, with their SHA-256.
pub(super) type Skipped = Vec<(u64, [u8; 32])>;

/// A root's file as far as it takes no key.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) digest: RootDigest,
    pub(super) claim: Claim,
    /// The key that signs the chain, if it does.
    pub(super) chain: Option<[u8; 32]>,
}

impl Step {
    pub(super) fn of(generation: &Generation) -> Step {
        Step { digest: generation.digest, claim: generation.claim.clone(), chain: None }
    }
}

/// A root that was opened, and whose signature fits.
#[derive(Clone, Debug)]
pub(super) struct Generation {
    pub(super) digest: RootDigest,
    pub(super) claim: Claim,
    pub(super) body: Body,
    /// Who has signed it.
    pub(super) signer: Option<PublicKey>,
}

impl Generation {
    pub(super) fn pin(&self) -> Pin {
        Pin {
            tree: self.body.tree,
            number: self.claim.number,
            digest: self.digest,
            signers: self.body.signers.clone(),
            revoked: self.body.revoked.clone(),
        }
    }
}

/// The roots of a tree.
pub(super) struct Roots<'a> {
    pub(super) depot: &'a Depot<'a>,
    pub(super) keys: &'a Keys<'a>,
}

impl Roots<'_> {
    /// The numbers of the files in `tree/`, in ascending order.
    pub(super) fn numbers(&self) -> Result<Vec<u64>, FileError> {
        let entries = self.depot.list("tree")?;
        let number = |entry: &crate::place::Entry| {
            let name = entry.name.path().file_name()?.to_str()?;
            let number = name.parse().ok()?;
            (root_path(number).strip_prefix("tree/") == Some(name)).then_some(number)
        };
        let mut numbers: Vec<u64> = entries.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The last number that follows one without a gap.
    pub(super) fn last(&self, numbers: &[u64], from: u64) -> Option<u64> {
        let start = numbers.binary_search(&from).ok()?;
        let run = numbers[start..].iter().zip(from..).take_while(|(one, other)| *one == other);
        run.last().map(|(number, _)| *number)
    }

    /// The file of a root.
    pub(super) fn bytes(&self, number: u64) -> Result<Vec<u8>, FileError> {
        let path = root_path(number);
        let bytes = self.depot.read(&path, MOST_FILE)?;
        bytes.ok_or_else(|| refused(format!("`{path}` is missing")))
    }

    /// The SHA-256 of a file in `tree/`, which need not be a root and may have any length.
    pub(super) fn digest(&self, number: u64) -> Result<[u8; 32], FileError> {
        let path = root_path(number);
        self.depot.digest(&path)?.ok_or_else(|| refused(format!("`{path}` is missing")))
    }

    /// The facts about a root that take no key. If its chain is signed, the signature fits.
    pub(super) fn step(&self, number: u64) -> Result<Step, FileError> {
        step(&self.bytes(number)?, number)
    }

    /// Opens a root. Its signature fits, but nothing has said that its signer is believed.
    pub(super) fn open(&self, number: u64) -> Result<Generation, FileError> {
        let bytes = self.bytes(number)?;
        let Step { digest, claim, chain } = step(&bytes, number)?;
        let file = RootFile::parse(&bytes, number).map_err(|it| refused(it.to_string()))?;
        let key = self.keys.get(self.depot, claim.key)?;
        let plain = self.depot.open(key.recipe(Purpose::Root, number)?, file.sealed)?;
        let Root { body_bytes, body, signatures } =
            Root::parse(&plain).map_err(|it| refused(it.to_string()))?;
        let claim_digest: [u8; 32] = Sha256::digest(&file.claim_bytes).into();
        if body.tree != self.keys.tree() || body.claim != claim_digest {
            return Err(refused("its outer part was exchanged"));
        }
        if body.policy() != claim.policy {
            return Err(refused("its signers are not those that it shows"));
        }
        let signer = match signatures.first() {
            None => None,
            Some(signature) => Some(
                signing::verify(signature, &body_bytes).map_err(|it| refused(it.to_string()))?,
            ),
        };
        if signer.is_some() != chain.is_some() || signer.is_some() == body.signers.is_empty() {
            return Err(refused("it is signed in part"));
        }
        if let Some(signer) = &signer {
            let keys = body.signers.iter().find(|keys| keys.key == signer.wire());
            if keys.is_none_or(|keys| Some(keys.chain) != chain) {
                return Err(refused("its chain was not signed by its signer"));
            }
        }
        Ok(Generation { digest, claim, body, signer })
    }

    /// The root before another, as that one names it.
    pub(super) fn predecessor(&self, step: &Step) -> Result<Step, FileError> {
        let Claim { number, before, skipped, .. } = &step.claim;
        let mut at = number - 1;
        for (skipped, digest) in skipped.iter().rev() {
            if *skipped != at {
                return Err(refused(format!("generation {number} skips none of {at}")));
            }
            let there = RootDigest(self.digest(at)?);
            same(at, there, RootDigest(*digest))?;
            at -= 1;
        }
        let (Some(before), true) = (before, at > 0) else {
            return Err(refused(format!("generation {number} follows no other")));
        };
        let found = self.step(at)?;
        same(at, found.digest, RootDigest(*before))?;
        Ok(found)
    }
}

/// Reads a root's file as far as that takes no key.
pub(super) fn step(bytes: &[u8], number: u64) -> Result<Step, FileError> {
    let file = RootFile::parse(bytes, number).map_err(|it| refused(it.to_string()))?;
    if let Some((key, signature)) = &file.chain {
        let signed = Claim::signed(&file.claim_bytes, file.sealed);
        if !signing::verify_chain(key, &signed, signature) {
            return Err(refused("the signature of its chain is wrong"));
        }
    }
    Ok(Step {
        digest: RootDigest(Sha256::digest(bytes).into()),
        claim: file.claim,
        chain: file.chain.map(|(key, _)| key),
    })
}

pub(super) fn same(number: u64, there: RootDigest, expected: RootDigest) -> Result<(), FileError> {
    match there == expected {
        true => Ok(()),
        false => Err(refused(format!(
            "the root of generation {number} is {there}, not {expected}: it was exchanged, or the \
             tree was forked"
        ))),
    }
}

/// The path of a root.
pub(super) fn root_path(number: u64) -> String {
    format!("tree/{number:019}")
}
