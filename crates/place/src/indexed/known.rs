//! A machine's knowledge of a tree before it reads it.

use evener_format::index::TreeId;

use super::base::says_nothing;
use super::depot::refused;
use super::roots::{Generation, Pin, RootDigest, Roots, same};
use super::state::State;
use super::trust::{Trust, check_signer};
use super::writer::SealedOptions;
use crate::FileError;

/// The roots that are known of a tree: later ones follow from all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// The pins of this machine.
    pub(super) seen: Vec<Pin>,
    /// The root that the user names.
    given: Option<Pin>,
    /// The tree that was in its place.
    pub(super) replaced: Option<TreeId>,
}

impl Known {
    /// The pins of the state and of the user. Another tree than this machine has seen is
    /// refused.
    pub(super) fn of(
        state: Option<&State>,
        roots: &Roots<'_>,
        trust: &Trust,
    ) -> Result<Known, FileError> {
        let tree = roots.keys.tree();
        let seen = state.map(State::pins).transpose()?.unwrap_or_default();
        let (seen, others): (Vec<_>, Vec<_>) = seen.into_iter().partition(|pin| pin.tree == tree);
        let replaced = others.first().map(|pin| pin.tree);
        match replaced {
            Some(other) if !trust.rollback => Err(refused(format!(
                "it is the tree {tree}, and this machine has seen the tree {other} there; \
                 --allow-rollback accepts it"
            ))),
            _ => Ok(Known {
                seen,
                given: trust.pin.map(|pin| given(roots, pin)).transpose()?,
                replaced,
            }),
        }
    }

    /// Nothing but what the user says.
    pub(super) fn without_seen(&self) -> Known {
        Known { seen: Vec::new(), ..self.clone() }
    }

    /// Roots that are known.
    pub(super) fn pins(&self) -> impl Iterator<Item = &Pin> {
        self.seen.iter().filter(|pin| pin.number > 0).chain(&self.given)
    }

    /// Returns whether this machine has seen no root.
    pub(super) fn is_first(&self) -> bool {
        self.seen.iter().all(|pin| pin.number == 0)
    }

    /// The newest of them.
    pub(super) fn last(&self) -> Option<&Pin> {
        self.pins().max_by_key(|pin| pin.number)
    }

    /// Returns whether a generation that is not the next one may take the place of what this machine
    /// has seen, and what is known of the tree from now on: nobody may sign who might not before.
    pub(super) fn taken_back(&self, to: &Generation) -> Result<Pin, FileError> {
        let mut pin = to.pin();
        for seen in self.seen.iter().filter(|pin| !pin.signers.is_empty()) {
            check_signer(to, &seen.signers, &seen.revoked)?;
            pin.signers.retain(|it| seen.signers.iter().any(|known| known.key == it.key));
            let is_new = |it: &&(Vec<u8>, u64)| !pin.revoked.contains(it);
            let revoked: Vec<_> = seen.revoked.iter().filter(is_new).cloned().collect();
            pin.revoked.extend(revoked);
        }
        Ok(pin)
    }

    /// Says what was accepted in place of what.
    pub(super) fn tell(&self, sealed: &SealedOptions, accepted: &Generation) {
        let signed = match &accepted.signer {
            Some(signer) => format!("signed by {}", signer.fingerprint()),
            None => "which nobody has signed".to_owned(),
        };
        let number = accepted.claim.number;
        let last = self.seen.iter().max_by_key(|pin| pin.number);
        sealed.tell(&match (self.replaced, last) {
            (Some(other), _) => format!(
                "accepted the tree {}, {signed}, in place of the tree {other}, which this machine has \
                 seen",
                accepted.body.tree
            ),
            (None, Some(last)) => format!(
                "accepted generation {number}, {signed}, in place of generation {} with the root {}, \
                 which this machine has seen",
                last.number, last.digest
            ),
            (None, None) => return,
        });
    }
}

/// The root that the user names, with those who may sign the next one.
fn given(roots: &Roots<'_>, (number, digest): (u64, RootDigest)) -> Result<Pin, FileError> {
    let newest = roots.numbers()?.last().copied().unwrap_or(0);
    if newest < number {
        return Err(refused(format!(
            "the newest generation is {newest}, older than --pin {number}"
        )));
    }
    let there = roots.step(number)?.digest;
    same(number, there, digest)?;
    let generation = roots.open(number).map_err(|error| match says_nothing(&error) {
        true => error,
        false => refused(format!(
            "the root of generation {number}, which --pin names, can't be opened: {error}"
        )),
    })?;
    same(number, generation.digest, digest)?;
    Ok(generation.pin())
}

impl SealedOptions {
    /// The state of the place.
    pub(super) fn place_state(&self) -> Option<State> {
        let (all, place) = self.state.as_ref()?;
        let state = State::of(all, place);
        Some(match self.alias.as_ref().filter(|alias| *alias != place) {
            Some(alias) => state.with_alias(State::of(all, alias)),
            None => state,
        })
    }

    /// The tree that this machine has seen in a place that has no marker now. It is refused unless
    /// that is accepted.
    pub(super) fn gone(&self, state: Option<&State>) -> Result<Option<TreeId>, FileError> {
        let seen = state.map(State::pins).transpose()?.unwrap_or_default();
        match seen.into_iter().find(|pin| pin.number > 0).map(|pin| pin.tree) {
            Some(tree) if !self.trust.rollback => Err(refused(format!(
                "this machine has seen the sealed tree {tree} here, and it is gone: somebody removed \
                 or replaced it, or its disk is not mounted; --allow-rollback accepts what is here \
                 now"
            ))),
            tree => Ok(tree),
        }
    }

    pub(super) fn tell(&self, accepted: &str) {
        if let Some(hears) = &self.on_accepted {
            hears(accepted);
        }
    }
}

/// Refuses a place that is no sealed tree, if this machine has seen one there. With
/// [`Trust::rollback`], it is forgotten, and the result is true. Of the options, the state, the alias
/// and the trust count.
///
/// # Errors
/// When a tree was seen there, or the state can't be read.
pub fn refuse_gone(sealed: &SealedOptions) -> Result<bool, FileError> {
    let state = sealed.place_state();
    let Some(tree) = sealed.gone(state.as_ref())? else { return Ok(false) };
    state.as_ref().map_or(Ok(()), State::forget)?;
    sealed.tell(&format!(
        "accepted that the sealed tree {tree}, which this machine has seen, is gone"
    ));
    Ok(true)
}
