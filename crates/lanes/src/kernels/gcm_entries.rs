//! The entry points of GCM, as `entries.rs` has them for the other modes.

use evener_core::{Cipher, Direction, Job, wipe_stack};

use super::gcm_stream::Material;
use super::schedule::SharedKeys;
use super::vector::Block;
use super::{Code, Room, State, gcm, gcm_stream, vector};
use crate::stream::{End, Piece};

/// Defines a module with the entries of one instruction set that has carry-less products of whole
/// registers. Without them, a library written for the purpose computes GCM faster.
///
/// If the compiler runs out of registers, it puts round keys and powers of the subkey on the stack.
/// An entry overwrites them before it returns: up to `$text` bytes after a text, and
/// [`LEFT_BY_KEY`] after a key. Both are one and a half times the largest frame in a release build,
/// and `tests/tls/wiped.c` searches for remains. The other functions need no stack for such values.
macro_rules! gcm_entries {
    ($module:ident, $vector:ty, $features:literal, $text:literal) => {
        pub(super) mod $module {
            use super::*;

            pub(in crate::kernels) fn code(cipher: Cipher, direction: Direction) -> Option<Code> {
                Some(match (cipher, direction) {
                    (Cipher::Aes128Gcm, Direction::Encrypt) => code_for::<true, 10>(),
                    (Cipher::Aes128Gcm, Direction::Decrypt) => code_for::<false, 10>(),
                    (Cipher::Aes192Gcm, Direction::Encrypt) => code_for::<true, 12>(),
                    (Cipher::Aes192Gcm, Direction::Decrypt) => code_for::<false, 12>(),
                    (Cipher::Aes256Gcm, Direction::Encrypt) => code_for::<true, 14>(),
                    (Cipher::Aes256Gcm, Direction::Decrypt) => code_for::<false, 14>(),
                    _ => return None,
                })
            }

            fn code_for<const ENCRYPT: bool, const ROUNDS: usize>() -> Code {
                Code {
                    expand,
                    process: in_groups::<ENCRYPT, ROUNDS>,
                    in_place: None,
                    records: None,
                    pieces: None,
                }
            }

            pub(in crate::kernels) fn stream(key_length: usize) -> Option<gcm_stream::Code> {
                Some(match key_length {
                    16 => stream_for::<10>(),
                    24 => stream_for::<12>(),
                    32 => stream_for::<14>(),
                    _ => return None,
                })
            }

            fn stream_for<const ROUNDS: usize>() -> gcm_stream::Code {
                gcm_stream::Code {
                    expand: set_key_and_wipe::<ROUNDS>,
                    hash,
                    encrypt: transform_and_wipe::<true, ROUNDS>,
                    decrypt: transform_and_wipe::<false, ROUNDS>,
                    registers: <$vector as vector::Vector>::BLOCKS * vector::BLOCK,
                    finish: finish::<ROUNDS>,
                }
            }

            /// # Safety
            /// As for [`set_key`].
            unsafe fn set_key_and_wipe<const ROUNDS: usize>(material: &mut Material, key: &[u8]) {
                // SAFETY: the caller's promise.
                unsafe { set_key::<ROUNDS>(material, key) }
                wipe_stack::<LEFT_BY_KEY>();
            }

            /// # Safety
            /// As for [`transform`].
            unsafe fn transform_and_wipe<const ENCRYPT: bool, const ROUNDS: usize>(
                material: &mut Material,
                piece: &mut Piece<'_>,
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    transform::<ENCRYPT, ROUNDS>(material, piece);
                    wipe_text();
                }
            }

            /// The same as [`wipe_stack`], with the widest registers.
            ///
            /// # Safety
            /// The CPU has the features.
            #[target_feature(enable = $features)]
            #[inline(never)]
            unsafe fn wipe_text() {
                let room = [0_u8; $text];
                zeroize::optimization_barrier(&room);
            }

            /// # Safety
            /// The CPU has the features. `ROUNDS` is that of the key's length.
            #[target_feature(enable = $features)]
            unsafe fn set_key<const ROUNDS: usize>(material: &mut Material, key: &[u8]) {
                // SAFETY: the caller's promise.
                unsafe { gcm_stream::expand::<$vector, ROUNDS>(material, key) }
            }

            /// # Safety
            /// The CPU has the features.
            #[target_feature(enable = $features)]
            unsafe fn hash(material: &mut Material, so_far: &mut Block, data: &[u8]) {
                // SAFETY: the caller's promise.
                unsafe { gcm_stream::hash::<$vector>(material, so_far, data) }
            }

            /// # Safety
            /// The CPU has the features. `ROUNDS` is that of the key.
            #[target_feature(enable = $features)]
            unsafe fn transform<const ENCRYPT: bool, const ROUNDS: usize>(
                material: &mut Material,
                piece: &mut Piece<'_>,
            ) {
                // SAFETY: the caller's promise.
                unsafe { gcm_stream::transform::<$vector, ENCRYPT, ROUNDS>(material, piece) }
            }

            /// # Safety
            /// The CPU has the features. `ROUNDS` is that of the key.
            #[target_feature(enable = $features)]
            unsafe fn finish<const ROUNDS: usize>(material: &mut Material, end: &End<'_>) -> Block {
                // SAFETY: the caller's promise.
                unsafe { gcm_stream::finish::<$vector, ROUNDS>(material, end) }
            }

            /// # Safety
            /// The CPU has the features. The key has 16, 24 or 32 bytes.
            #[target_feature(enable = $features)]
            unsafe fn expand(keys: &mut SharedKeys, key: &[u8]) {
                // SAFETY: the caller's promise.
                unsafe { keys.expand_shared::<$vector>(key) }
            }

            /// # Safety
            /// The CPU has the features.
            #[target_feature(enable = $features)]
            unsafe fn in_groups<const ENCRYPT: bool, const ROUNDS: usize>(
                state: &mut State,
                batch: &mut [Job<'_>],
            ) {
                let Room::Gcm(room) = &mut state.own else { return };
                let mut work =
                    gcm::Work { cipher: state.cipher, shared: state.shared.as_deref(), room };
                // SAFETY: the caller's promise.
                unsafe { gcm::process::<$vector, ENCRYPT, ROUNDS>(&mut work, batch) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
gcm_entries!(
    vaes_avx512_gcm,
    vector::VaesAvx512,
    "avx512f,avx512vl,avx512bw,vaes,aes,avx2,vpclmulqdq,pclmulqdq",
    384
);
#[cfg(target_arch = "x86_64")]
gcm_entries!(vaes_avx2_gcm, vector::VaesAvx2, "avx2,vaes,aes,vpclmulqdq,pclmulqdq", 1536);
#[cfg(target_arch = "aarch64")]
gcm_entries!(neon_sha3_gcm, vector::Neon<true>, "neon,aes,sha3", 1440);
#[cfg(target_arch = "aarch64")]
gcm_entries!(neon_gcm, vector::Neon<false>, "neon,aes", 1440);

/// The number of bytes of the stack on which setting a key may leave values derived from it.
const LEFT_BY_KEY: usize = 1280;
