//! A key for GCM of messages that come in pieces, with the kernel that uses it.

#[cfg(target_arch = "x86_64")]
pub(crate) use here::Keyed;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use elsewhere::Keyed;

#[cfg(target_arch = "x86_64")]
mod here {
    use evener_core::Direction;

    use crate::kernels::Kernel;
    use crate::kernels::gcm_stream::{Code, Material};
    use crate::kernels::vector::Block;
    use crate::stream::{End, Piece};

    /// A key, as a kernel needs it. Wiped when it drops.
    #[derive(Clone)]
    pub(crate) struct Keyed {
        code: Code,
        key_length: usize,
        material: Box<Material>,
    }

    impl Keyed {
        /// Sets a key; `None` where the kernel can't do GCM, or it is no key of AES.
        pub(crate) fn new(kernel: Kernel, key: &[u8]) -> Option<Keyed> {
            let code = kernel.stream(key.len())?;
            let material = Box::new(Material::new());
            let mut keyed = Keyed { code, key_length: key.len(), material };
            keyed.set(key)?;
            Some(keyed)
        }

        /// Replaces the key by one of the same length; `None` where it has another.
        pub(crate) fn set(&mut self, key: &[u8]) -> Option<()> {
            if key.len() != self.key_length {
                return None;
            }
            // SAFETY: the code is a kernel's that this CPU can run, for keys of this length.
            unsafe { (self.code.expand)(&mut self.material, key) }
            Some(())
        }

        /// Adds data to a hash, filled up with zeros to whole blocks.
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
            // SAFETY: as in `hash`. A piece's input and output are there, as its type says.
            unsafe { transform(&mut self.material, piece) }
        }

        /// Length of the kernel's registers in bytes.
        pub(crate) fn registers(&self) -> usize {
            self.code.registers
        }

        /// Makes the tag.
        pub(crate) fn finish(&mut self, end: &End) -> Block {
            // SAFETY: as in `hash`.
            unsafe { (self.code.finish)(&mut self.material, end) }
        }
    }
}

/// No kernel for another architecture does GCM, so that there are no values.
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    use evener_core::Direction;

    use crate::kernels::Kernel;
    use crate::kernels::vector::Block;
    use crate::stream::{End, Piece};

    #[derive(Clone)]
    pub(crate) enum Keyed {}

    impl Keyed {
        pub(crate) fn new(_kernel: Kernel, _key: &[u8]) -> Option<Keyed> {
            None
        }

        pub(crate) fn set(&mut self, _key: &[u8]) -> Option<()> {
            match *self {}
        }

        pub(crate) fn hash(&mut self, _hash: &mut Block, _data: &[u8]) {
            match *self {}
        }

        pub(crate) fn transform(&mut self, _direction: Direction, _piece: &mut Piece<'_>) {
            match *self {}
        }

        pub(crate) fn registers(&self) -> usize {
            match *self {}
        }

        pub(crate) fn finish(&mut self, _end: &End) -> Block {
            match *self {}
        }
    }
}
