//! A key for ECB, CBC or CTR of messages that come in pieces, with the kernel that uses it.

use evener_core::{Direction, Mode, wipe_stack};

use super::portable::{Chained, Cipher, STACK as PORTABLE_STACK};
use super::vector::Block;
use super::{Set, SingleKeys, parallel};
use crate::boxed::boxed;
use crate::kernels::Kernel;
use crate::stream::Text;

/// The functions of one kernel for one mode, direction and key length. They may be called only on a
/// CPU with the kernel's instructions.
#[derive(Clone, Copy)]
pub(super) struct Code {
    /// Sets the key, which has the length that the functions are for.
    pub(super) expand: unsafe fn(&mut SingleKeys, &[u8]),
    /// Encrypts or decrypts a valid text: for all modes but CTR whole blocks, at least one.
    pub(super) transform: unsafe fn(&SingleKeys, &parallel::Text),
}

/// A key, in the form that a kernel needs. Wiped on drop.
pub(crate) struct ModeKey(Kind);

#[allow(clippy::large_enum_variant, reason = "the large one is the usual one")]
enum Kind {
    /// With the functions of a kernel with instructions for AES.
    Expanded(Code, SingleKeys),
    /// For CBC in one direction.
    Portable(Direction, Box<Cipher>),
}

impl ModeKey {
    /// Room for a key of this many bytes, to be [set](ModeKey::set); `None` if the kernel does not
    /// support the mode, AES has no key of that length, or there is no memory.
    pub(crate) fn empty(
        kernel: Kernel,
        mode: Mode,
        direction: Direction,
        key_length: usize,
    ) -> Option<ModeKey> {
        if kernel.0 == Set::Portable {
            let key = [0; LONGEST_KEY];
            let cipher = portable(key.get(..key_length)?).filter(|_| mode == Mode::Cbc)?;
            return Some(ModeKey(Kind::Portable(direction, cipher)));
        }
        let code = kernel.pieces(mode, direction, key_length)?;
        Some(ModeKey(Kind::Expanded(code, SingleKeys::new())))
    }

    /// A copy of the key; `None` if there is no memory for it.
    pub(crate) fn try_clone(&self) -> Option<ModeKey> {
        Some(ModeKey(match &self.0 {
            Kind::Expanded(code, keys) => Kind::Expanded(*code, keys.clone()),
            Kind::Portable(direction, cipher) => {
                Kind::Portable(*direction, boxed((**cipher).clone())?)
            }
        }))
    }

    /// Sets a key of the same length, in the same place; `None` as in [`ModeKey::empty`].
    pub(crate) fn set(
        &mut self,
        kernel: Kernel,
        mode: Mode,
        direction: Direction,
        key: &[u8],
    ) -> Option<()> {
        match &mut self.0 {
            Kind::Expanded(code, keys) => {
                *code = kernel.pieces(mode, direction, key.len())?;
                // SAFETY: the code is a kernel's that this CPU can run, for keys of this length.
                unsafe { (code.expand)(keys, key) }
            }
            Kind::Portable(kept, cipher) => {
                *cipher = portable(key)?;
                // The key was moved to its box.
                wipe_stack::<PORTABLE_STACK>();
                *kept = direction;
            }
        }
        Some(())
    }

    /// Encrypts or decrypts `length` bytes of a text from `start` on, which must exist: whole
    /// blocks, at least one.
    pub(crate) fn transform(&self, iv: Block, text: &mut Text<'_>, start: usize, length: usize) {
        match &self.0 {
            Kind::Expanded(code, keys) => {
                let (input, output) = text.places(start, length);
                let text = parallel::Text { iv, input, output, length, stream: false };
                // SAFETY: as in `set`. There are round keys, zeros if none was set. The places are
                // borrowed, and have that length.
                unsafe { (code.transform)(keys, &text) }
            }
            Kind::Portable(direction, cipher) => {
                cipher.chain(*direction, iv, &mut Chained::of(text, start, length));
            }
        }
    }
}

/// A separate function, so that its variables are where the stack is wiped.
#[cold]
#[inline(never)]
fn portable(key: &[u8]) -> Option<Box<Cipher>> {
    Cipher::new(key).and_then(boxed)
}

/// Length of AES's longest key in bytes.
const LONGEST_KEY: usize = 32;
