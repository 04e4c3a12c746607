//! Which roots a reader believes.

use evener_format::index::{Body, KeyId, MOST_SKIPPED, SignerKeys};
use evener_keys::signing::PublicKey;

use super::base::says_nothing;
use super::depot::{damaged, no_key, refused};
use super::known::Known;
use super::roots::{Generation, Pin, RootDigest, Roots, Step, root_path, same};
use crate::FileError;

/// Whom a reader believes.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Only these sign; `None` for those whom the tree had at first use.
    pub signers: Option<Vec<PublicKey>>,
    /// Accept a tree that nobody has signed, though a wrapped key opens it.
    pub unsigned: bool,
    /// A root that the reader knows, and its digest: what follows must follow from it.
    pub pin: Option<(u64, RootDigest)>,
    /// Accept an older root, or another tree, than this machine has seen before, and record it. Of
    /// the same tree, those who might sign before must have signed it.
    pub rollback: bool,
}

impl Roots<'_> {
    /// The newest generation, to which all that is known leads.
    pub(super) fn newest(&self, known: &Known, trust: &Trust) -> Result<Generation, FileError> {
        let numbers = self.numbers()?;
        let from = known.last().map_or(1, |pin| pin.number);
        let is_begun = numbers.is_empty() && known.last().is_none();
        let last = match self.last(&numbers, from) {
            Some(last) => last,
            None if is_begun => return Err(refused(NO_GENERATION)),
            None => return Err(missing(from, known)),
        };
        self.trusted(last, known, trust)
    }

    /// Opens a root and checks the chain from what is known to it.
    pub(super) fn trusted(
        &self,
        number: u64,
        known: &Known,
        trust: &Trust,
    ) -> Result<Generation, FileError> {
        let generation = self.open(number).map_err(|error| self.unopened(number, error))?;
        known.pins().try_for_each(|pin| self.check_chain(&generation, pin))?;
        if known.last().is_none() {
            self.check_first(&generation)?;
        }
        match (&trust.signers, &generation.signer) {
            (Some(allowed), Some(signer)) if !allowed.contains(signer) => {
                return Err(refused(format!(
                    "generation {number} was signed by {}, whom --signers does not name",
                    signer.fingerprint()
                )));
            }
            (Some(_), None) => {
                return Err(refused("nobody has signed the tree, and --signers asks for it"));
            }
            (None, None) if !trust.unsigned && !self.keys.is_given(generation.claim.key) => {
                return Err(refused(
                    "nobody has signed the tree, and its key is wrapped, so whoever knows the \
                     recipients can have made it; --unsigned accepts it",
                ));
            }
            _ => {}
        }
        Ok(generation)
    }

    /// The reason why a root can't be opened.
    fn unopened(&self, number: u64, error: FileError) -> FileError {
        if error == FileError::Interrupted {
            return error;
        }
        let (path, step) = (root_path(number), self.step(number));
        if step.is_ok_and(|step| self.keys.get(self.depot, step.claim.key).is_err()) {
            let hint = match number {
                1 => "",
                _ => "; an earlier generation that it opens can be read with --generation N",
            };
            let reason = format!("`{path}` can't be opened: {error}{hint}");
            return if says_nothing(&error) { refused(reason) } else { no_key(reason) };
        }
        let hint = self.valid_before(number).map_or_else(String::new, |before| {
            format!("; --generation {before} reads the one before")
        });
        let reason = format!("`{path}` is no valid root: {error}{hint}");
        if says_nothing(&error) { refused(reason) } else { damaged(&path, reason) }
    }

    /// Opens a root before the one that is known, to which that one leads. It takes no other key.
    pub(super) fn known(
        &self,
        number: u64,
        pin: &Pin,
        trust: &Trust,
    ) -> Result<Generation, FileError> {
        let top = self.step(pin.number)?;
        same(pin.number, top.digest, pin.digest)?;
        if top.claim.kept.as_ref().is_some_and(|kept| !kept.contains(number)) {
            return Err(refused(format!("generation {number} was removed")));
        }
        let mut step = top;
        while step.claim.number > number {
            step = self.predecessor(&step)?;
        }
        let generation = self.trusted(number, &Known::default(), trust)?;
        same(number, generation.digest, step.digest)?;
        Ok(generation)
    }

    /// Returns whether those who may sign have made a later generation that does not follow this one.
    pub(super) fn is_passed(&self, number: u64, known: &Known) -> Result<bool, FileError> {
        let Some(pin) = known.last() else { return Ok(false) };
        let Some(last) = self.last(&self.numbers()?, number) else { return Ok(false) };
        let is_theirs = |later: &Generation| match pin.signers.is_empty() {
            true => self.keys.is_given(later.claim.key),
            false => check_signer(later, &pin.signers, &pin.revoked).is_ok(),
        };
        let there = self.step(number).map(|step| step.digest).ok();
        let follows = |later: &Generation| {
            let mut step = Step::of(later);
            while step.claim.number > number {
                let Ok(before) = self.predecessor(&step) else { return false };
                step = before;
            }
            Some(step.digest) == there
        };
        let passes = |later: Generation| is_theirs(&later) && !follows(&later);
        Ok((number + 1..=last).any(|later| self.open(later).is_ok_and(passes)))
    }

    /// Refuses a gap after the `last` root without one: a root beyond it belongs to the tree, as
    /// `belongs` tells. Other files there say nothing.
    ///
    /// # Errors
    /// Names both roots, unless [`Trust::rollback`] accepts the gap.
    pub(super) fn refuse_gap(
        &self,
        numbers: &[u64],
        last: u64,
        trust: &Trust,
        belongs: impl Fn(u64) -> bool,
    ) -> Result<(), FileError> {
        let beyond = numbers.iter().copied().filter(|it| *it > last).take(MOST_BEYOND);
        let Some(found) = beyond.filter(|_| !trust.rollback).find(|it| belongs(*it)) else {
            return Ok(());
        };
        // A run may have made the next root after `numbers` were listed.
        match self.numbers()?.contains(&(last + 1)) {
            true => Ok(()),
            false => Err(refused(format!(
                "generation {found} is there, and the root of generation {} is missing: try again \
                 later, or restore `{}`; --allow-rollback accepts generation {last}",
                last + 1,
                root_path(last + 1)
            ))),
        }
    }

    /// As [`Roots::refuse_gap`]. What those have signed who sign the `newest` root belongs to the
    /// tree; if nobody has, what a key that was given opens.
    pub(super) fn refuse_gap_after(
        &self,
        newest: &Generation,
        numbers: &[u64],
        last: u64,
        trust: &Trust,
    ) -> Result<(), FileError> {
        let Generation { claim, body, .. } = newest;
        self.refuse_gap(numbers, last, trust, |number| {
            let Ok(found) = self.open(number) else { return false };
            let key = found.claim.key;
            let is_believed = match body.signers.is_empty() {
                true => self.keys.is_given(key),
                false => check_signer(&found, &body.signers, &body.revoked).is_ok(),
            };
            is_believed && !claim.retired.contains(&key)
        })
    }

    /// The newest root before another that can be opened.
    fn valid_before(&self, number: u64) -> Option<u64> {
        (1..number).rev().take(1 + MOST_SKIPPED).find(|it| self.open(*it).is_ok())
    }

    /// Checks what a reader sees for the first time: each change of those who sign, as far back as
    /// keys open it.
    fn check_first(&self, top: &Generation) -> Result<(), FileError> {
        let mut at = Step::of(top);
        let mut changes = Vec::new();
        while at.claim.number > 1 {
            let before = self.predecessor(&at)?;
            check_key(&at, &before)?;
            if before.claim.policy != at.claim.policy {
                changes.push((at.claim.number, at.digest));
            }
            at = before;
        }
        changes.push((at.claim.number, at.digest));
        let (mut opened, mut changes) = (Vec::new(), changes.into_iter());
        for (number, digest) in changes.by_ref().filter(|(number, _)| *number != top.claim.number) {
            match self.open(number) {
                Ok(generation) => {
                    same(number, generation.digest, digest)?;
                    opened.push(generation);
                }
                Err(error) if says_nothing(&error) => return Err(error),
                Err(_) => break,
            }
        }
        let first = opened.last().unwrap_or(top);
        check_signer(first, &first.body.signers, &first.body.revoked)?;
        let mut lead = Lead::of(first);
        for next in opened.iter().rev().skip(1).chain([top]) {
            self.check_heir(next, &lead)?;
            lead = Lead::of(next);
        }
        check_signer(top, &top.body.signers, &top.body.revoked)
    }

    /// Checks that a root follows the one that is known.
    fn check_chain(&self, top: &Generation, pin: &Pin) -> Result<(), FileError> {
        let number = top.claim.number;
        if number == pin.number {
            return same(number, top.digest, pin.digest);
        }
        let mut changes = Vec::new();
        let mut at = Step::of(top);
        while at.claim.number > pin.number {
            let before = self.predecessor(&at)?;
            check_key(&at, &before)?;
            if before.claim.policy != at.claim.policy {
                changes.push((at.claim.number, at.digest));
            }
            at = before;
        }
        match at.claim.number == pin.number {
            true => same(pin.number, at.digest, pin.digest)?,
            false => return Err(self.passed_over(top, pin)),
        }
        let (signers, revoked) = (pin.signers.clone(), pin.revoked.clone());
        let mut lead = Lead { number: pin.number, signers, revoked, key: at.claim.key };
        for (change, digest) in changes.into_iter().rev().filter(|(change, _)| *change != number) {
            let generation = self.open(change)?;
            same(change, generation.digest, digest)?;
            self.check_heir(&generation, &lead)?;
            lead = Lead::of(&generation);
        }
        self.check_heir(top, &lead)
    }

    /// Checks that a root was made by one who may make it, after what is known.
    fn check_heir(&self, heir: &Generation, lead: &Lead) -> Result<(), FileError> {
        let Lead { number, signers, revoked, key } = lead;
        if !signers.is_empty() {
            return check_signer(heir, signers, revoked);
        }
        // The tree was unsigned: its key vouches for what follows, and for the first signer. Another
        // key was given, and its holder knows what only the tree's readers know.
        let vouches = heir.claim.key == *key
            || self.keys.is_given(heir.claim.key)
                && (!self.keys.is_given(*key) || {
                    let before = self.open(*number)?;
                    before.claim.key == *key && before.body.border.0 == heir.body.border.0
                });
        match vouches {
            true => Ok(()),
            false => Err(refused(format!(
                "generation {} is not sealed with the key of the unsigned tree so far, so others may \
                 have made it; if the key was replaced, give the new one alone (--key)",
                heir.claim.number
            ))),
        }
    }

    /// The chain leads past the root that is known: another run took its place, or its signer was
    /// revoked.
    fn passed_over(&self, top: &Generation, pin: &Pin) -> FileError {
        let number = pin.number;
        refused(format!(
            "generation {} does not follow from generation {number} with the root {}, which this \
             machine has seen: the tree was forked, or its signer was revoked; --allow-rollback \
             accepts it",
            top.claim.number, pin.digest
        ))
    }
}

/// Those who may make the next root.
struct Lead {
    number: u64,
    signers: Vec<SignerKeys>,
    revoked: Vec<(Vec<u8>, u64)>,
    /// The key of the last root.
    key: KeyId,
}

impl Lead {
    fn of(generation: &Generation) -> Lead {
        let Body { signers, revoked, .. } = generation.body.clone();
        Lead { number: generation.claim.number, signers, revoked, key: generation.claim.key }
    }
}

/// The error for a root that should be there.
pub(super) fn missing(number: u64, known: &Known) -> FileError {
    refused(match known.last() {
        Some(_) => format!(
            "the root of generation {number} is missing, which this machine has seen: the tree was \
             rolled back; --allow-rollback accepts the newest one that is there"
        ),
        None => format!("the root of generation {number} is missing, with which every tree begins"),
    })
}

/// Checks that a root is not sealed with a key that was retired before it.
fn check_key(step: &Step, before: &Step) -> Result<(), FileError> {
    match before.claim.retired.contains(&step.claim.key) {
        false => Ok(()),
        true => Err(refused(format!(
            "generation {} was made with a key that had been replaced before",
            step.claim.number
        ))),
    }
}

/// Checks the signature of a root against those who may sign it.
pub(super) fn check_signer(
    generation: &Generation,
    signers: &[SignerKeys],
    revoked: &[(Vec<u8>, u64)],
) -> Result<(), FileError> {
    let number = generation.claim.number;
    let Some(signer) = &generation.signer else {
        return match signers.is_empty() {
            true => Ok(()),
            false => Err(refused(format!("nobody has signed generation {number}"))),
        };
    };
    let is_revoked = revoked.iter().any(|(key, last)| key == signer.wire() && number > *last);
    let may_sign = signers.iter().any(|known| known.key == signer.wire());
    match (may_sign, is_revoked) {
        (true, false) => Ok(()),
        (_, true) => Err(refused(format!(
            "generation {number} was signed by {}, whose key was revoked",
            signer.fingerprint()
        ))),
        (false, false) => Err(refused(format!(
            "generation {number} was signed by {}, who may not sign this tree",
            signer.fingerprint()
        ))),
    }
}

/// The number of files after a gap that are looked at: the store can hide a root as well as it can
/// plant others.
const MOST_BEYOND: usize = 16;

const NO_GENERATION: &str = "the tree has no generation: the run that began it has not ended";
