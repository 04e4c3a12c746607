//! The base on which a generation is built.

use evener_format::index::{Body, Border, Claim, KeyId, MOST_SKIPPED, Padding, SignerKeys};

use super::depot::{damaged, refused};
use super::index_writer::IndexDone;
use super::keys::Keys;
use super::known::Known;
use super::own::Own;
use super::roots::{Generation, Pin, RootDigest, Roots, Step, root_path};
use super::state::{State, StateReader, Written};
use super::succession::{NewRoot, Signing, now};
use super::trust::missing;
use super::writer::Writer;
use crate::{Fault, FileError};

/// The base on which a generation is built.
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
    /// The commitment to the key of this machine's last generation, in hexadecimal.
    pub(super) key: Option<String>,
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

    /// Returns whether this is the generation with a root.
    pub(super) fn is_on(&self, root: RootDigest) -> bool {
        self.claim.as_ref().is_some_and(|(_, digest)| *digest == root)
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
        let mut known = Known::of(state, &roots, &self.sealed.trust)?;
        let is_published = |pin: &Pin| {
            let step = roots.step(pin.number);
            let is_it = step.as_ref().is_ok_and(|step| step.digest == pin.digest);
            Ok(is_valid(step)? && is_it)
        };
        let reader = state.map(|state| state.entries(is_published)).transpose()?.flatten();
        let reader =
            reader.filter(|reader| reader.pin().is_some_and(|pin| pin.tree == keys.tree()));
        if let Some(own) = reader.as_ref().and_then(StateReader::pin)
            && known.seen.iter().any(|pin| pin.number < own.number)
        {
            known.seen.push(own.clone());
        }
        let numbers = roots.numbers()?;
        if numbers.is_empty() {
            return match known.last() {
                Some(pin) => Err(refused(format!(
                    "generation {}, which this machine has seen, is gone; if nothing of the tree is \
                     left, remove the rest, and --allow-rollback begins a new one",
                    pin.number
                ))),
                None if !known.seen.is_empty() => Ok(self.first()?),
                None if self.sealed.dry_run || self.began.get() => Ok(self.first()?),
                None => Err(refused(
                    "it has a marker of a sealed tree and no generation, and this machine did not \
                     begin it; another machine may be making the first one: wait for it, or choose \
                     another place",
                )),
            };
        }
        let is_replaced = known.replaced.is_some();
        let key = reader.as_ref().map(|reader| reader.begun.key.clone());
        let with_key = |base| Base { key, ..base };
        match self.newest(&roots, &numbers, &known, state, reader) {
            Err(error) if self.sealed.trust.rollback && !says_nothing(&error) => {
                let base = self.newest(&roots, &numbers, &known.without_seen(), None, None)?;
                self.go_back(base, &known, state)
            }
            Ok(base) if is_replaced => self.go_back(base, &known, state),
            base => base.map(with_key),
        }
    }

    /// Takes an older generation, or another tree, than this machine has seen.
    fn go_back(&self, base: Base, known: &Known, state: Option<&State>) -> Result<Base, FileError> {
        let newest = base.opened.as_ref().ok_or_else(|| refused(CAN_NOT_READ))?;
        let pin = known.taken_back(newest)?;
        known.tell(self.sealed, newest);
        if let Some(state) = state.filter(|_| !self.sealed.dry_run) {
            state.keep_pin(&pin, true)?;
        }
        Ok(Base { signers: pin.signers, revoked: pin.revoked, ..base })
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
            key: None,
        })
    }

    /// The newest generation, passing over files that are no roots.
    fn newest(
        &self,
        roots: &Roots<'_>,
        numbers: &[u64],
        known: &Known,
        machine: Option<&State>,
        state: Option<StateReader>,
    ) -> Result<Base, FileError> {
        let from = known.last().map_or(1, |pin| pin.number);
        let last = roots.last(numbers, from).ok_or_else(|| missing(from, known))?;
        let (mut skipped, mut number) = (Vec::new(), last);
        let newest = loop {
            match roots.step(number) {
                Err(error) if says_nothing(&error) => return Err(error),
                Ok(step) if self.may_be_root(roots, &step, known.last())? => break step,
                _ if number > from => {
                    skipped.push((number, roots.digest(number)?));
                    number -= 1;
                }
                Ok(_) if self.sealed.wrap.is_some() => return Err(refused(CAN_NOT_READ)),
                Ok(_) => return Err(roots.open(number).err().unwrap_or_else(|| no_root(number))),
                Err(_) => return Err(no_root(number)),
            }
        };
        if skipped.len() > MOST_SKIPPED {
            return Err(refused(format!(
                "{} files after `{}` are no valid roots, and a generation can pass over {MOST_SKIPPED}: \
                 the store has added them; remove `{}` and those after it",
                skipped.len(),
                root_path(number),
                root_path(number + 1)
            )));
        }
        skipped.reverse();
        let noted = state.as_ref().and_then(StateReader::pin);
        let same = machine.map(|it| it.same(newest.digest)).transpose()?.flatten();
        let is_own =
            noted.is_some_and(|noted| noted.digest == newest.digest || same == Some(noted.digest));
        let reads = self.sealed.wrap.is_none() || !is_own && roots.open(number).is_ok();
        if reads {
            let opened = roots.trusted(number, known, &self.sealed.trust)?;
            roots.refuse_gap_after(&opened, numbers, last, &self.sealed.trust)?;
            // Cleaning, or a change of signers, leaves the index as it is.
            let is_own = is_own || noted.is_some_and(|noted| has_index_of(roots, noted, &opened));
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
                key: None,
            });
        }
        let Some((state, written)) =
            state.and_then(|it| it.written.clone().map(|written| (it, written)))
        else {
            return Err(refused(CAN_NOT_READ));
        };
        let Written { pin: noted, border, padding } = &written;
        // This machine may itself have made roots since, which change who signs.
        let pin = known.last().filter(|pin| pin.number > noted.number).unwrap_or(noted);
        let is_own = self.continues(roots, &newest, pin)? && *pin == *noted || is_own;
        roots.refuse_gap(numbers, last, &self.sealed.trust, |number| {
            let chain = roots.step(number).ok().and_then(|step| step.chain);
            chain.is_some_and(|chain| pin.signers.iter().any(|signer| signer.chain == chain))
        })?;
        let kept = newest.claim.kept.as_ref();
        let is_whole = is_own || kept.is_none_or(|kept| kept.contains(noted.number));
        // Content under a key that was replaced since is sealed anew.
        let key = roots.step(noted.number)?.claim.key;
        let is_whole = is_whole && !newest.claim.retired.contains(&key);
        Ok(Base {
            retired: newest.claim.retired.clone(),
            key: None,
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

    /// Checks that the newest root follows the one that this writer made, all without a key. Returns
    /// whether it has the same index: its signers say that only cleaning came between.
    fn continues(&self, roots: &Roots<'_>, newest: &Step, pin: &Pin) -> Result<bool, FileError> {
        let (mut at, mut is_same) = (newest.clone(), true);
        loop {
            if at.claim.number == pin.number {
                return match at.digest == pin.digest {
                    true => Ok(is_same),
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
            is_same &= at.claim.kept.is_some_and(|kept| kept.until == at.claim.number);
            at = before;
        }
    }
}

/// Returns whether a generation has the index of one that this machine has made.
fn has_index_of(roots: &Roots<'_>, noted: &Pin, opened: &Generation) -> bool {
    let made = roots.open(noted.number);
    made.is_ok_and(|it| it.digest == noted.digest && it.body.nodes == opened.body.nodes)
}

/// Returns whether a root could be read; false if its content is wrong.
///
/// # Errors
/// When it could not be read, which says nothing about its content.
pub(super) fn is_valid<T>(read: Result<T, FileError>) -> Result<bool, FileError> {
    match read {
        Ok(_) => Ok(true),
        Err(error) if says_nothing(&error) => Err(error),
        Err(_) => Ok(false),
    }
}

/// Returns whether an error comes from elsewhere than the content of what was read.
pub(super) fn says_nothing(error: &FileError) -> bool {
    use FileError::{Engine, Interrupted, Memory, NoEngine, Place, System};
    matches!(
        error,
        Interrupted
            | System { .. }
            | Engine(_)
            | NoEngine { .. }
            | Memory { .. }
            | Place(Fault::Failed(_) | Fault::Closed(_) | Fault::Changed)
    )
}

fn no_root(number: u64) -> FileError {
    let path = root_path(number);
    damaged(&path, format!("`{path}` is no valid root"))
}

const CAN_NOT_READ: &str = "this machine has no state of the tree and can't read it: give what opens it \
                            (--identity or --key); a tree that is signed also takes a key that may sign \
                            it; or seal the whole source into a new place";
