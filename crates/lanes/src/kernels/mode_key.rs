//! A key for ECB, CBC or CTR of messages that come in pieces, with the kernel that uses it.

use evener_core::{Direction, Mode};

use super::portable::{Chained, Cipher};
use super::vector::Block;
use super::{Set, SingleKeys, parallel};
use crate::kernels::Kernel;
use crate::stream::Text;

/// The functions of one kernel for one mode, direction and length of keys. They may be called only
/// on a CPU with the kernel's instructions.
#[derive(Clone, Copy)]
pub(super) struct Code {
    /// Sets the key, which has the length that the functions are for.
    pub(super) expand: unsafe fn(&mut SingleKeys, &[u8]),
    /// Encrypts or decrypts a text, which is there, and for all but CTR whole blocks, one at least.
    pub(super) transform: unsafe fn(&SingleKeys, &parallel::Text),
}

/// A key, as a kernel needs it. Wiped when it drops.
#[derive(Clone)]
pub(crate) struct ModeKey(Kind);

#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "the large one is the usual one")]
enum Kind {
    /// With the functions of a kernel with instructions for AES.
    Expanded(Code, SingleKeys),
    /// For CBC in a direction.
    Portable(Direction, Box<Cipher>),
}

impl ModeKey {
    /// Sets a key; `None` where the kernel can't do the mode, or it is no key of AES.
    pub(crate) fn new(
        kernel: Kernel,
        mode: Mode,
        direction: Direction,
        key: &[u8],
    ) -> Option<ModeKey> {
        if kernel.0 == Set::Portable {
            let cipher = Cipher::new(key).filter(|_| mode == Mode::Cbc)?;
            return Some(ModeKey(Kind::Portable(direction, Box::new(cipher))));
        }
        let code = kernel.pieces(mode, direction, key.len())?;
        let mut keys = SingleKeys::new();
        // SAFETY: the code is a kernel's that this CPU can run, for keys of this length.
        unsafe { (code.expand)(&mut keys, key) }
        Some(ModeKey(Kind::Expanded(code, keys)))
    }

    /// Replaces the key; `None` as in [`ModeKey::new`].
    pub(crate) fn set(
        &mut self,
        kernel: Kernel,
        mode: Mode,
        direction: Direction,
        key: &[u8],
    ) -> Option<()> {
        let Kind::Expanded(code, keys) = &mut self.0 else {
            *self = ModeKey::new(kernel, mode, direction, key)?;
            return Some(());
        };
        *code = kernel.pieces(mode, direction, key.len())?;
        // SAFETY: as in `new`.
        unsafe { (code.expand)(keys, key) }
        Some(())
    }

    /// Encrypts or decrypts `length` bytes of a text from `start` on, which are there: whole
    /// blocks, one at least.
    pub(crate) fn transform(&self, iv: Block, text: &mut Text<'_>, start: usize, length: usize) {
        match &self.0 {
            Kind::Expanded(code, keys) => {
                let (input, output) = text.places(start, length);
                let text = parallel::Text { iv, input, output, length, stream: false };
                // SAFETY: as in `new`; a value has a key. The places are borrowed, and have that
                // length.
                unsafe { (code.transform)(keys, &text) }
            }
            Kind::Portable(direction, cipher) => {
                cipher.chain(*direction, iv, &mut Chained::of(text, start, length));
            }
        }
    }
}
