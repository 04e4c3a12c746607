//! The cipher, key and IVs of one file.

use evener_core::{Cipher, Direction, Iv, Key, Mode, Padding};

use super::geometry::{Chunk, Geometry};

/// All that is needed for any chunk of one file: cipher, key, IVs, padding. Jobs carry no
/// additional data in any format.
///
/// It is a few hundred bytes without allocation, and can be shared between workers. The key
/// is zeroised on drop.
#[derive(Clone, Debug)]
pub struct FileCipher {
    cipher: Cipher,
    key: Key,
    geometry: Geometry,
    ivs: Ivs,
}

/// How a chunk's IV comes about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ivs {
    /// Cobblestone: the base nonce XOR the chunk's number, big-endian, at its end.
    Counter { base: [u8; 12] },
    /// Tink: the prefix, the chunk's number as u32, big-endian, and 1 in the last chunk.
    Prefix { prefix: [u8; 7] },
    /// CBC, CFB, OFB, CTR and ChaCha20 (and ECB, which has none): one IV for the file as if it were a single message.
    Single { iv: Iv },
}

/// A chunk's IV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkIv {
    /// This one.
    Known(Iv),
    /// The last ciphertext block of the chunk before, in both directions: the
    /// [`Cipher::iv_length`] bytes before `chunk.sealed.start` in the file (CBC, CFB); in OFB the
    /// last block of the key stream before.
    PreviousBlock,
}

impl FileCipher {
    pub(super) fn new(cipher: Cipher, key: Key, geometry: Geometry, ivs: Ivs) -> FileCipher {
        FileCipher { cipher, key, geometry, ivs }
    }

    /// The cipher.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The key of this file alone; for [`OpensslSecret::Raw`](super::OpensslSecret::Raw) the
    /// key of all.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// How the file is cut into chunks.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The IV of a chunk of this file.
    pub fn iv(&self, chunk: &Chunk) -> ChunkIv {
        let iv = match self.ivs {
            Ivs::Counter { mut base } => {
                for (byte, counter) in base[4..].iter_mut().zip(chunk.index.to_be_bytes()) {
                    *byte ^= counter;
                }
                Iv::new(&base).ok()
            }
            Ivs::Prefix { prefix } => {
                let mut nonce = [0; 12];
                nonce[..7].copy_from_slice(&prefix);
                // The geometry ends every file before the number outgrows its four bytes.
                nonce[7..11].copy_from_slice(&(chunk.index as u32).to_be_bytes());
                nonce[11] = u8::from(chunk.last);
                Iv::new(&nonce).ok()
            }
            Ivs::Single { iv } if self.cipher.mode() == Mode::Ctr => {
                Some(iv.advanced(chunk.plain.start / Iv::MAX_LENGTH as u64))
            }
            Ivs::Single { .. } if self.cipher.mode() == Mode::Ecb => Some(Iv::NONE),
            Ivs::Single { iv } if self.cipher.mode() == Mode::Stream => {
                counted_on(iv, chunk.plain.start / STREAM_BLOCK)
            }
            Ivs::Single { iv } => (chunk.index == 0).then_some(iv),
        };
        iv.map_or(ChunkIv::PreviousBlock, ChunkIv::Known)
    }

    /// Whether the file's header shows that this is its key: it commits to it.
    pub fn is_committed(&self) -> bool {
        matches!(self.ivs, Ivs::Counter { .. })
    }

    /// The padding of the last chunk's job, or of another's.
    pub fn padding(&self, last: bool) -> Padding {
        match self.cipher.mode() {
            Mode::Cbc | Mode::Ecb if last => Padding::Pkcs7,
            _ => Padding::None,
        }
    }

    /// Whether each chunk needs the output of the one before, so that chunks can't be processed
    /// side by side: CBC and CFB encryption, of which decryption needs only the ciphertext before,
    /// and OFB, whose key stream is a chain.
    pub fn is_chained(&self, direction: Direction) -> bool {
        match self.cipher.mode() {
            Mode::Cbc | Mode::Cfb => direction == Direction::Encrypt,
            Mode::Ofb => true,
            _ => false,
        }
    }
}

/// The IV of ChaCha20 so many blocks further on: as OpenSSL has it, the first eight bytes count, from
/// the least significant one.
fn counted_on(iv: Iv, blocks: u64) -> Option<Iv> {
    let (counter, nonce) = iv.bytes().split_first_chunk()?;
    let counter = u64::from_le_bytes(*counter).wrapping_add(blocks);
    Iv::new(&[&counter.to_le_bytes(), nonce].concat()).ok()
}

/// A block of ChaCha20, in bytes.
const STREAM_BLOCK: u64 = 64;
