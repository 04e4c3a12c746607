//! What a generation is built on.

use evener_format::index::{Body, Border, Claim, KeyId, Padding, SignerKeys};
use sha2::{Digest, Sha256};

use super::depot::refused;
use super::index_writer::IndexDone;
use super::keys::Keys;
use super::roots::{Generation, Pin, RootDigest, Roots, Step, root_path, step};
use super::state::{State, StateReader, Written};
use super::succession::{NewRoot, Signing, now};
use super::writer::{Own, Writer};
use crate::{Fault, FileError};

/// What a generation is built on.
pub(super) struct Base {
    pub(super) claim: Option<(Claim, RootDigest)>,
    pub(super) skipped: Vec<(u64, [u8; 32])>,
    pub(super) signers: Vec<SignerKeys>,
    pub(super) revoked: Vec<(Vec<u8>, u64)>,
    pub(super) border: Border,
    pub(super) padding: Option<Padding>,
    /// The index, where it can be read.
    pub(super) opened: Option<Generation>,
    /// The writer's own state.
    pub(super) state: Option<StateReader>,
    /// True if that is the state of the newest generation.
    pub(super) is_own: bool,
    /// Keys that seal no later generation.
    pub(super) retired: Vec<KeyId>,
}

impl Base {
    /// The cutoff of the last cleaning.
    pub(super) fn cutoff(&self) -> i64 {
        self.claim.as_ref().map_or(0, |(claim, _)| claim.cutoff)
    }

    /// The generation that the last cleaning made. Files of one that came before may be gone.
    pub(super) fn cleaned(&self) -> Option<u64> {
        self.claim.as_ref()?.0.kept.as_ref().map(|kept| kept.until)
    }

    /// The root that follows.
    pub(super) fn root(&self, index: &IndexDone, own: &Own, signing: Option<&Signing>) -> NewRoot {
        let signers = match signing.filter(|_| self.signers.is_empty()) {
            Some(signing) => vec![signing.keys()],
            None => self.signers.clone(),
        };
        let body = Body {
            tree: own.keys.tree(),
            claim: [0; 32],
            time: now(),
            signers,
            revoked: self.revoked.clone(),
            border: self.border,
            padding: self.padding,
            entries: index.entries,
            bytes: index.bytes,
            nodes: index.nodes.clone(),
        };
        let before = self.claim.as_ref();
        let claim = Claim {
            key: own.keys.commitment().id(),
            number: self.next(),
            before: before.map(|(_, digest)| digest.0),
            skipped: self.skipped.clone(),
            cutoff: self.cutoff(),
            kept: before.and_then(|(claim, _)| claim.kept.clone()),
            retired: self.retired.clone(),
            policy: [0; 32],
        };
        NewRoot { claim, body }
    }

    /// The number of the next generation.
    pub(super) fn next(&self) -> u64 {
        let number = self.claim.as_ref().map_or(0, |(claim, _)| claim.number);
        number + self.skipped.len() as u64 + 1
    }
}

impl Writer<'_> {
    /// What the next generation is built on.
    pub(super) fn base(&self, keys: &Keys<'_>, state: Option<&State>) -> Result<Base, FileError> {
        let roots = Roots { depot: &self.depot, keys };
        let pin = state.map(State::pin).transpose()?.flatten();
        let pin = pin.filter(|pin| pin.tree == keys.tree() || !self.sealed.trust.rollback);
        if let Some(pin) = pin.as_ref().filter(|pin| pin.tree != keys.tree()) {
            return Err(refused(format!(
                "it is the tree {}, and this machine has seen the tree {} there; \
                 --allow-rollback accepts it once",
                keys.tree(),
                pin.tree
            )));
        }
        let is_published = |pin: &Pin| {
            let step = roots.step(pin.number);
            Ok(step.is_ok_and(|step| step.digest == pin.digest))
        };
        let reader = state.map(|state| state.entries(is_published)).transpose()?.flatten();
        let reader =
            reader.filter(|reader| reader.pin().is_some_and(|pin| pin.tree == keys.tree()));
        let known = reader.as_ref().and_then(StateReader::pin);
        let pin = match (pin, known) {
            (Some(pin), Some(known)) if known.number > pin.number => Some(known.clone()),
            (pin, _) => pin,
        };
        let numbers = roots.numbers()?;
        if numbers.is_empty() {
            return match &pin {
                Some(pin) if pin.number == 0 => Ok(self.first()?),
                Some(pin) => Err(refused(format!(
                    "generation {}, which this machine has seen, is gone",
                    pin.number
                ))),
                None if self.sealed.dry_run || self.began.get() => Ok(self.first()?),
                None => Err(refused(
                    "it has a marker of a sealed tree and no generation, and this machine did not \
                     begin it; remove it, or choose another place",
                )),
            };
        }
        let pin = pin.filter(|pin| pin.number > 0);
        self.newest(&roots, &numbers, pin.as_ref(), reader)
    }

    fn first(&self) -> Result<Base, FileError> {
        if self.sealed.padding.is_some_and(|floor| floor > Padding::MOST_FLOOR) {
            return Err(refused("files of a sealed tree are padded to at most 64 MiB"));
        }
        let mut border = Border([0; 16]);
        getrandom::fill(&mut border.0).map_err(|error| refused(error.to_string()))?;
        Ok(Base {
            claim: None,
            skipped: Vec::new(),
            signers: Vec::new(),
            revoked: Vec::new(),
            border,
            padding: self.sealed.padding.map(|floor| Padding { floor }),
            opened: None,
            state: None,
            is_own: false,
            retired: Vec::new(),
        })
    }

    /// The newest generation, passing over files that are no roots.
    fn newest(
        &self,
        roots: &Roots<'_>,
        numbers: &[u64],
        pin: Option<&Pin>,
        state: Option<StateReader>,
    ) -> Result<Base, FileError> {
        let from = pin.map_or(1, |pin| pin.number);
        let last = roots.last(numbers, from).ok_or_else(|| {
            refused(format!("the root of generation {from} is missing: the tree was rolled back"))
        })?;
        let mut skipped = Vec::new();
        let mut number = last;
        let newest = loop {
            let bytes = roots.bytes(number)?;
            match step(&bytes, number) {
                Ok(step) if self.may_be_root(roots, &step, pin)? => break step,
                _ if number > from => {
                    skipped.insert(0, (number, Sha256::digest(&bytes).into()));
                    number -= 1;
                }
                Ok(_) if self.sealed.wrap.is_some() => return Err(refused(CAN_NOT_READ)),
                Ok(_) => return Err(roots.open(number).err().unwrap_or_else(|| no_root(number))),
                Err(_) => return Err(no_root(number)),
            }
        };
        let is_own = state
            .as_ref()
            .and_then(StateReader::pin)
            .is_some_and(|pin| pin.digest == newest.digest);
        let reads = self.sealed.wrap.is_none() || !is_own && roots.open(number).is_ok();
        if reads {
            let opened = roots.trusted(number, pin, &self.sealed.trust)?;
            return Ok(Base {
                claim: Some((opened.claim.clone(), opened.digest)),
                skipped,
                signers: opened.body.signers.clone(),
                revoked: opened.body.revoked.clone(),
                border: opened.body.border,
                padding: opened.body.padding,
                opened: Some(opened),
                state: state.filter(|_| is_own),
                is_own,
                retired: newest.claim.retired,
            });
        }
        let Some((state, written)) =
            state.and_then(|it| it.written.clone().map(|written| (it, written)))
        else {
            return Err(refused(CAN_NOT_READ));
        };
        let Written { pin, border, padding } = &written;
        self.continues(roots, &newest, pin)?;
        let is_whole = newest.claim.kept.as_ref().is_none_or(|kept| kept.contains(pin.number));
        Ok(Base {
            retired: newest.claim.retired.clone(),
            claim: Some((newest.claim, newest.digest)),
            skipped,
            signers: pin.signers.clone(),
            revoked: pin.revoked.clone(),
            border: Border(*border),
            padding: padding.map(|floor| Padding { floor }),
            opened: None,
            state: Some(state).filter(|_| is_whole),
            is_own,
        })
    }

    /// Returns whether a file in `tree/` may be the root of a generation, as far as that shows
    /// without reading it. What is not is passed over.
    fn may_be_root(
        &self,
        roots: &Roots<'_>,
        step: &Step,
        pin: Option<&Pin>,
    ) -> Result<bool, FileError> {
        if pin.is_some_and(|pin| pin.number == step.claim.number) {
            return Ok(true);
        }
        if step.claim.number > 1 && !is_valid(roots.predecessor(step))? {
            return Ok(false);
        }
        match (pin, &step.chain) {
            (Some(pin), Some(chain)) if !pin.signers.is_empty() => {
                // Somebody whom a later root admitted is told from a stranger by the root alone.
                let is_known = pin.signers.iter().any(|signer| signer.chain == *chain);
                Ok(is_known || is_valid(roots.open(step.claim.number))?)
            }
            (Some(pin), None) if !pin.signers.is_empty() => Ok(false),
            _ => is_valid(roots.open(step.claim.number)),
        }
    }

    /// Checks that the newest root follows the one that this writer made, all without a key.
    fn continues(&self, roots: &Roots<'_>, newest: &Step, pin: &Pin) -> Result<(), FileError> {
        let mut at = newest.clone();
        loop {
            if at.claim.number == pin.number {
                return match at.digest == pin.digest {
                    true => Ok(()),
                    false => Err(refused(format!(
                        "the root of generation {} is another than this machine made",
                        pin.number
                    ))),
                };
            }
            let is_known =
                at.chain.is_some_and(|chain| pin.signers.iter().any(|it| it.chain == chain));
            let before = roots.predecessor(&at)?;
            if !is_known || at.claim.policy != before.claim.policy || at.claim.number < pin.number {
                return Err(refused(format!(
                    "others have changed who signs the tree (generation {}), and this machine can't \
                     read that: give what opens it once (--identity)",
                    at.claim.number
                )));
            }
            at = before;
        }
    }
}

/// Returns whether a root could be read; false if its content is wrong.
///
/// # Errors
/// When it could not be read, which says nothing about its content.
fn is_valid<T>(read: Result<T, FileError>) -> Result<bool, FileError> {
    use FileError::{Engine, Interrupted, NoEngine, Place, System};
    match read {
        Ok(_) => Ok(true),
        Err(
            error @ (Interrupted
            | System { .. }
            | Engine(_)
            | NoEngine { .. }
            | Place(Fault::Failed(_) | Fault::Changed)),
        ) => Err(error),
        Err(_) => Ok(false),
    }
}

fn no_root(number: u64) -> FileError {
    refused(format!("`{}` is no valid root", root_path(number)))
}

const CAN_NOT_READ: &str = "this machine has no state of the tree and can't read it: give what opens it \
                            (--identity or --key), or seal the whole source into a new place";
