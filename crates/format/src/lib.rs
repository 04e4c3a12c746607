//! The four file formats: where each chunk is, and which key and IV encrypt it.
//!
//! | format | document | authenticated |
//! |---|---|---|
//! | [`Cobblestone`] | C2SP, <https://c2sp.org/chunked-encryption> | yes, and commits to the key |
//! | [`Tink`] | Tink, "AES-GCM-HKDF Streaming AEAD" | yes |
//! | [`Age`] | C2SP, <https://c2sp.org/age> | yes, and commits to the file key |
//! | [`OpensslEnc`] | the manual page openssl-enc(1), RFC 8018 for PBKDF2 | **no** |
//!
//! A [`Recipe`] is a format with its secret; it creates and reads any number of files. For one file
//! it returns a [`FileCipher`] with the file's key and every chunk's IV. A [`Layout`] maps the
//! bytes of the plaintext to chunks, and chunks to ranges of the file. Both are pure computations;
//! the caller reads, writes and encrypts.
//!
//! ```
//! use evener_core::Key;
//! use evener_format::{ChunkIv, Layout, Recipe, CobblestoneSuite};
//!
//! let key = Key::new(&[7; 32]).unwrap(); // use a random one
//! let recipe = Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &key, b"")?;
//!
//! let (file, header) = recipe.create()?;
//! assert_eq!(header.bytes().len(), recipe.bytes_to_open(header.bytes()));
//!
//! let layout = Layout::for_plaintext(file.geometry(), 100_000)?;
//! for index in 0..layout.chunks() {
//!     let chunk = layout.chunk(index);
//!     let ChunkIv::Known(iv) = file.iv(&chunk) else { unreachable!("only for CBC") };
//!     // Encrypt plaintext[chunk.plain] under file.key() and iv to file[chunk.sealed].
//!     # let _ = iv;
//! }
//! assert_eq!(layout.sealed_length(), 56 + 100_000 + 7 * 16);
//! # Ok::<(), evener_format::FormatError>(())
//! ```

#![forbid(unsafe_code)]

mod age;
mod cobblestone;
mod error;
mod file_cipher;
mod geometry;
mod header;
pub mod index;
mod openssl_enc;
mod recipe;
mod tink;

#[cfg(test)]
mod tests;

pub use age::{Age, AgeFileKey, AgeHeaders};
pub use cobblestone::{Cobblestone, CobblestoneSuite};
pub use error::FormatError;
pub use file_cipher::{ChunkIv, FileCipher};
pub use geometry::{Chunk, Ending, Geometry, Layout};
pub use header::Header;
pub use openssl_enc::{Digest, Kdf, OpensslEnc, OpensslSecret, UnknownDigest};
pub use recipe::Recipe;
pub use tink::{HkdfHash, Tink, TinkKey};
