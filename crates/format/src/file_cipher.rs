//! The cipher, key and IVs of one file.

use evener_core::{Cipher, Direction, Iv, Key, Mode, Padding};

use super::geometry::{Chunk, Geometry};

/// Everything that any chunk of one file needs: cipher, key, IVs, padding. Jobs carry no additional
/// data in any format.
///
/// It is a few hundred bytes without allocation, and workers can share it. The key is zeroised on
/// drop.
#[derive(Clone, Debug)]
pub struct FileCipher {
    cipher: Cipher,
    key: Key,
    geometry: Geometry,
    ivs: Ivs,
}

/// The source of a chunk's IV.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ivs {
    /// Cobblestone: the base nonce XOR the chunk's number, big-endian, at its end.
    Counter { base: [u8; 12] },
    /// Tink: the prefix, the chunk's number as u32, big-endian, and 1 in the last chunk.
    Prefix { prefix: [u8; 7] },
    /// age: the chunk's number in 11 bytes, big-endian, and 1 in the last chunk.
    Stream,
    /// CBC, CFB, OFB, CTR and ChaCha20 (and ECB, which has none): one IV for the file, as if it
    /// were a single message.
    Single { iv: Iv },
}

/// A chunk's IV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkIv {
    /// This IV.
    Known(Iv),
    /// The last ciphertext block of the previous chunk, in both directions: the
    /// [`Cipher::iv_length`] bytes before `chunk.sealed.start` in the file (CBC, CFB); in OFB, the
    /// last block of the key stream before it.
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

    /// The key of this file only; for [`OpensslSecret::Raw`](super::OpensslSecret::Raw), the key of
    /// all files.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The division of the file into chunks.
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
                // The geometry ends every file before the number exceeds its four bytes.
                nonce[7..11].copy_from_slice(&(chunk.index as u32).to_be_bytes());
                nonce[11] = u8::from(chunk.last);
                Iv::new(&nonce).ok()
            }
            Ivs::Stream => {
                let mut nonce = [0; 12];
                nonce[3..11].copy_from_slice(&chunk.index.to_be_bytes());
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

    /// Returns whether the file's header commits to the key, which proves that this is its key.
    pub fn is_committed(&self) -> bool {
        matches!(self.ivs, Ivs::Counter { .. } | Ivs::Stream)
    }

    /// The padding of the last chunk's job, or of any other chunk's.
    pub fn padding(&self, last: bool) -> Padding {
        match self.cipher.mode() {
            Mode::Cbc | Mode::Ecb if last => Padding::Pkcs7,
            _ => Padding::None,
        }
    }

    /// Returns whether each chunk needs the output of the previous one, so that chunks can't be
    /// processed in parallel: CBC and CFB encryption (decryption needs only the previous
    /// ciphertext), and OFB, whose key stream is a chain.
    pub fn is_chained(&self, direction: Direction) -> bool {
        match self.cipher.mode() {
            Mode::Cbc | Mode::Cfb => direction == Direction::Encrypt,
            Mode::Ofb => true,
            _ => false,
        }
    }
}

/// ChaCha20's IV `blocks` blocks later: in OpenSSL, the first eight bytes are the counter, least
/// significant byte first.
fn counted_on(iv: Iv, blocks: u64) -> Option<Iv> {
    let (counter, nonce) = iv.bytes().split_first_chunk()?;
    let counter = u64::from_le_bytes(*counter).wrapping_add(blocks);
    Iv::new(&[&counter.to_le_bytes(), nonce].concat()).ok()
}

/// A block of ChaCha20, in bytes.
const STREAM_BLOCK: u64 = 64;
