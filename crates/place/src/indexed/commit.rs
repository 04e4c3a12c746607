//! Writes the root of a generation.

use super::base::Base;
use super::depot::Created;
use super::index_writer::IndexDone;
use super::keys::Keys;
use super::own::Own;
use super::roots::{Pin, root_path};
use super::state::{State, StateWriter, Written};
use super::succession::Signing;
use super::writer::{MOST_ATTEMPTS, Writer};
use crate::FileError;

impl Writer<'_> {
    /// Writes the root. Returns its number, and whether it is new; `None` if other runs have made
    /// generations meanwhile from which this one would have to begin.
    pub(super) fn commit(
        &self,
        index: Result<IndexDone, FileError>,
        mut base: Base,
        own: &Own,
        signing: Option<&Signing>,
        state: Option<&State>,
    ) -> Result<Option<(u64, bool)>, FileError> {
        let mut index = index?;
        let was = base.claim.as_ref().map(|(claim, _)| claim.number);
        let is_first_signed = signing.is_some() && base.signers.is_empty();
        // Readers refuse a file that is no root until a root passes over it.
        let is_newest = base.skipped.is_empty() && !is_first_signed;
        if let (Some(was), true, true) = (was, index.is_same, is_newest) {
            self.keep_same(index.state.take(), &base, own)?;
            return Ok(Some((was, false)));
        }
        own.publish(&self.depot)?;
        if self.options.durable {
            self.store.sync()?;
        }
        for _ in 0..MOST_ATTEMPTS {
            if let Some(number) = self.publish(&mut index, &base, own, signing, state)? {
                return Ok(Some((number, true)));
            }
            if self.new_key.is_some() {
                // The generation that was sealed anew is no longer the newest.
                return Ok(None);
            }
            let keys = Keys::new(own.keys.tree(), &self.sealed.keychain)?;
            let next = self.base(&keys, state)?;
            if next.cleaned() != base.cleaned() || next.retired != base.retired {
                return Ok(None);
            }
            base = next;
        }
        Ok(None)
    }

    /// Keeps the state of a generation that this run would make again, unless there is one.
    fn keep_same(
        &self,
        writer: Option<StateWriter>,
        base: &Base,
        own: &Own,
    ) -> Result<(), FileError> {
        let (Some(mut writer), Some((claim, digest))) = (writer, &base.claim) else {
            return Ok(());
        };
        if base.is_own {
            writer.discard();
            return Ok(());
        }
        let (signers, revoked) = (base.signers.clone(), base.revoked.clone());
        let (tree, number, digest) = (own.keys.tree(), claim.number, *digest);
        let pin = Pin { tree, number, digest, signers, revoked };
        let padding = base.padding.map(|padding| padding.floor);
        writer.end(&Written { pin: pin.clone(), border: base.border.0, padding })?;
        writer.keep(&pin)
    }

    /// Publishes a root; `None` if its number is taken.
    pub(super) fn publish(
        &self,
        index: &mut IndexDone,
        base: &Base,
        own: &Own,
        signing: Option<&Signing>,
        state: Option<&State>,
    ) -> Result<Option<u64>, FileError> {
        let root = base.root(index, own, signing);
        let (bytes, pin) = root.write(&self.depot, &own.keys, signing)?;
        if let Some(writer) = &mut index.state {
            let padding = base.padding.map(|padding| padding.floor);
            writer.end(&Written { pin: pin.clone(), border: base.border.0, padding })?;
        }
        if self.depot.create(&root_path(pin.number), &bytes)? == Created::Taken {
            return Ok(None);
        }
        if self.options.durable {
            self.store.sync()?;
        }
        match (index.state.take(), state) {
            (Some(writer), _) => writer.keep(&pin)?,
            (None, Some(state)) => state.keep_pin(&pin, false)?,
            (None, None) => {}
        }
        Ok(Some(pin.number))
    }
}
