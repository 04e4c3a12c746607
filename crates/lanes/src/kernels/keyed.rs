//! A key for GCM of messages that come in pieces, with the kernel that uses it.

use evener_core::{Direction, wipe_stack};

use super::portable;
use super::vector::Block;
use super::{Kernel, Set};
use crate::boxed::boxed;
use crate::stream::{End, Piece};

/// A key, in the form that a kernel needs. Wiped on drop.
pub(crate) enum Keyed {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Wide(here::Keyed),
    Portable(Box<portable::Keyed>),
}

impl Keyed {
    /// Sets a key; `None` if the kernel does not support GCM, it is no AES key, or there is no
    /// memory.
    pub(crate) fn new(kernel: Kernel, key: &[u8]) -> Option<Keyed> {
        match kernel.0 {
            Set::Portable => {
                let keyed = of_portable(key);
                // The key was moved to its box.
                wipe_stack::<{ portable::STACK }>();
                Some(Keyed::Portable(keyed?))
            }
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            _ => Some(Keyed::Wide(here::Keyed::new(kernel, key)?)),
            #[cfg(target_arch = "arm")]
            Set::Bitsliced => None,
        }
    }

    /// A copy of the key; `None` if there is no memory for it.
    pub(crate) fn try_clone(&self) -> Option<Keyed> {
        Some(match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Keyed::Wide(keyed) => Keyed::Wide(keyed.try_clone()?),
            Keyed::Portable(keyed) => Keyed::Portable(boxed((**keyed).clone())?),
        })
    }

    /// Makes room for the tables that a piece of this many bytes needs; `None` if there is no
    /// memory.
    #[cfg_attr(
        target_arch = "arm",
        allow(unused_variables, reason = "the portable code takes none")
    )]
    pub(crate) fn make_room(&mut self, length: usize) -> Option<()> {
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Keyed::Wide(keyed) => keyed.make_room(length),
            Keyed::Portable(_) => Some(()),
        }
    }

    /// Replaces the key by one of the same length; `None` if the length differs, or there is no
    /// memory.
    pub(crate) fn set(&mut self, key: &[u8]) -> Option<()> {
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Keyed::Wide(keyed) => keyed.set(key),
            Keyed::Portable(keyed) => {
                *keyed = of_portable(key).filter(|_| key.len() == keyed.key_length())?;
                wipe_stack::<{ portable::STACK }>();
                Some(())
            }
        }
    }

    /// Adds data to a hash, padded with zeros to whole blocks.
    pub(crate) fn hash(&mut self, hash: &mut Block, data: &[u8]) {
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Keyed::Wide(keyed) => keyed.hash(hash, data),
            Keyed::Portable(keyed) => {
                keyed.hash(hash, data);
                wipe_stack::<{ portable::STACK }>();
            }
        }
    }

    /// Encrypts or decrypts a piece.
    #[inline]
    pub(crate) fn transform(&mut self, direction: Direction, piece: &mut Piece<'_>) {
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Keyed::Wide(keyed) => keyed.transform(direction, piece),
            Keyed::Portable(keyed) => {
                keyed.transform(direction, piece);
                wipe_stack::<{ portable::STACK }>();
            }
        }
    }

    /// Length of the kernel's registers in bytes.
    pub(crate) fn registers(&self) -> usize {
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Keyed::Wide(keyed) => keyed.registers(),
            Keyed::Portable(_) => portable::REGISTERS,
        }
    }

    /// Makes the tag.
    pub(crate) fn finish(&mut self, end: &End<'_>) -> Block {
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Keyed::Wide(keyed) => keyed.finish(end),
            Keyed::Portable(keyed) => {
                let tag = keyed.finish(end);
                wipe_stack::<{ portable::STACK }>();
                tag
            }
        }
    }
}

/// A separate function, so that its variables are where the stack is wiped.
#[cold]
#[inline(never)]
fn of_portable(key: &[u8]) -> Option<Box<portable::Keyed>> {
    portable::Keyed::new(key).and_then(boxed)
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod here {
    use evener_core::Direction;

    use crate::boxed::Aligned;
    use crate::kernels::Kernel;
    use crate::kernels::gcm_stream::{Code, Material};
    use crate::kernels::vector::{BLOCK, Block};
    use crate::stream::{End, Piece};

    /// A key for the kernels of this architecture.
    pub(crate) struct Keyed {
        code: Code,
        key_length: usize,
        material: Aligned<Material>,
    }

    impl Keyed {
        /// Sets a key; `None` as for [`super::Keyed::new`].
        pub(crate) fn new(kernel: Kernel, key: &[u8]) -> Option<Keyed> {
            let code = kernel.stream(key.len())?;
            let material = Material::zeroed()?;
            let mut keyed = Keyed { code, key_length: key.len(), material };
            keyed.set(key)?;
            Some(keyed)
        }

        /// A copy of the key; `None` if there is no memory for it.
        pub(crate) fn try_clone(&self) -> Option<Keyed> {
            Some(Keyed { material: self.material.try_clone()?, ..*self })
        }

        /// The same as [`super::Keyed::make_room`].
        pub(crate) fn make_room(&mut self, length: usize) -> Option<()> {
            self.material.make_room(length, self.code.registers / BLOCK)
        }

        /// Replaces the key by one of the same length; `None` if the length differs.
        pub(crate) fn set(&mut self, key: &[u8]) -> Option<()> {
            if key.len() != self.key_length {
                return None;
            }
            // SAFETY: the code is a kernel's that this CPU can run, for keys of this length.
            unsafe { (self.code.expand)(&mut self.material, key) }
            Some(())
        }

        /// Adds data to a hash, padded with zeros to whole blocks.
        pub(crate) fn hash(&mut self, hash: &mut Block, data: &[u8]) {
            // SAFETY: as in `set`; a value has a key.
            unsafe { (self.code.hash)(&mut self.material, hash, data) }
        }

        /// Encrypts or decrypts a piece.
        pub(crate) fn transform(&mut self, direction: Direction, piece: &mut Piece<'_>) {
            let transform = match direction {
                Direction::Encrypt => self.code.encrypt,
                Direction::Decrypt => self.code.decrypt,
            };
            // SAFETY: as in `hash`. A piece's input and output are valid, as its type guarantees.
            unsafe { transform(&mut self.material, piece) }
        }

        /// Length of the kernel's registers in bytes.
        pub(crate) fn registers(&self) -> usize {
            self.code.registers
        }

        /// Makes the tag.
        pub(crate) fn finish(&mut self, end: &End<'_>) -> Block {
            // SAFETY: as in `hash`.
            unsafe { (self.code.finish)(&mut self.material, end) }
        }
    }
}
