//! The entry points of ECB, CBC and CTR: for each instruction set one function for each mode,
//! direction and key length, compiled with that set's target features.

use evener_core::{Cipher, Direction, Iv, Job, Mode, Records};

use super::schedule::{SharedKeys, SingleKeys};
use super::{
    Code, Room, State, cbc_encrypt, cbc_records, cbc_serial, mode_key, parallel, records, texts,
    vector,
};

/// Registers of one block, for blocks that are processed one after another.
#[cfg(target_arch = "x86_64")]
type Single = vector::AesNi;
#[cfg(target_arch = "aarch64")]
type Single = vector::Neon<false>;

/// Defines a module with the entries of one instruction set.
macro_rules! entries {
    ($module:ident, $vector:ty, $features:literal) => {
        pub(super) mod $module {
            use super::*;

            pub(in crate::kernels) fn code(cipher: Cipher, direction: Direction) -> Option<Code> {
                match cipher {
                    Cipher::Aes128Ecb | Cipher::Aes128Cbc | Cipher::Aes128Ctr => {
                        code_for::<4, 10>(cipher.mode(), direction)
                    }
                    Cipher::Aes192Ecb | Cipher::Aes192Cbc | Cipher::Aes192Ctr => {
                        code_for::<6, 12>(cipher.mode(), direction)
                    }
                    Cipher::Aes256Ecb | Cipher::Aes256Cbc | Cipher::Aes256Ctr => {
                        code_for::<8, 14>(cipher.mode(), direction)
                    }
                    _ => None,
                }
            }

            fn code_for<const WORDS: usize, const ROUNDS: usize>(
                mode: Mode,
                direction: Direction,
            ) -> Option<Code> {
                use parallel::{CbcDecrypt, Ctr, EcbDecrypt, EcbEncrypt};
                Some(match (mode, direction) {
                    (Mode::Ecb, Direction::Encrypt) => parallel_code::<EcbEncrypt, ROUNDS>(),
                    (Mode::Ecb, Direction::Decrypt) => parallel_code::<EcbDecrypt, ROUNDS>(),
                    (Mode::Cbc, Direction::Decrypt) => parallel_code::<CbcDecrypt, ROUNDS>(),
                    (Mode::Ctr, _) => parallel_code::<Ctr, ROUNDS>(),
                    (Mode::Cbc, Direction::Encrypt) => Code {
                        expand,
                        process: encrypt_cbc::<WORDS, ROUNDS>,
                        in_place: None,
                        records: Some(encrypt_cbc_records::<ROUNDS>),
                        pieces: Some(mode_key::Code {
                            expand: expand_one,
                            transform: encrypt_chain::<ROUNDS>,
                        }),
                    },
                    _ => return None,
                })
            }

            fn parallel_code<M: parallel::Mode, const ROUNDS: usize>() -> Code {
                let pieces = mode_key::Code {
                    expand: if M::INVERSE { expand_one_inverse::<ROUNDS> } else { expand_one },
                    transform: transform::<M, ROUNDS>,
                };
                Code {
                    expand: if M::INVERSE { expand_inverse::<ROUNDS> } else { expand },
                    process: in_parallel::<M, ROUNDS>,
                    in_place: Some(transform_in_place::<M, ROUNDS>),
                    records: Some(transform_records::<M, ROUNDS>),
                    pieces: Some(pieces),
                }
            }

            /// # Safety
            /// The CPU has the features. The key has 16, 24 or 32 bytes.
            #[target_feature(enable = $features)]
            unsafe fn expand(keys: &mut SharedKeys, key: &[u8]) {
                // SAFETY: the caller's promise.
                unsafe { keys.expand_shared::<$vector>(key) }
            }

            /// # Safety
            /// The CPU has the features. The key has 16, 24 or 32 bytes.
            #[target_feature(enable = $features)]
            unsafe fn expand_inverse<const ROUNDS: usize>(keys: &mut SharedKeys, key: &[u8]) {
                // SAFETY: the caller's promise.
                unsafe {
                    keys.expand_shared::<$vector>(key);
                    keys.invert::<$vector>(ROUNDS);
                }
            }

            /// # Safety
            /// The CPU has the features.
            #[target_feature(enable = $features)]
            unsafe fn encrypt_cbc<const WORDS: usize, const ROUNDS: usize>(
                state: &mut State,
                batch: &mut [Job<'_>],
            ) {
                let Room::Lanes(room) = &mut state.own else { return };
                let mut work = cbc_encrypt::Work {
                    cipher: state.cipher,
                    key: state.key.as_ref(),
                    shared: state.shared.as_deref(),
                    room,
                };
                // SAFETY: the caller's promise.
                unsafe { cbc_encrypt::process::<$vector, WORDS, ROUNDS>(&mut work, batch) }
            }

            /// # Safety
            /// The CPU has the features. The message is whole blocks, except for CTR.
            #[target_feature(enable = $features)]
            unsafe fn transform_in_place<M: parallel::Mode, const ROUNDS: usize>(
                keys: &SharedKeys,
                iv: &Iv,
                data: &mut [u8],
            ) {
                // SAFETY: the caller's promise.
                unsafe { parallel::transform_in_place::<$vector, M, ROUNDS>(keys, iv, data) }
            }

            /// # Safety
            /// The CPU has the features. The key has 16, 24 or 32 bytes.
            #[target_feature(enable = $features)]
            unsafe fn expand_one(keys: &mut SingleKeys, key: &[u8]) {
                // SAFETY: the caller's promise.
                unsafe { keys.expand::<Single>(key) }
            }

            /// # Safety
            /// The CPU has the features. The key has 16, 24 or 32 bytes.
            #[target_feature(enable = $features)]
            unsafe fn expand_one_inverse<const ROUNDS: usize>(keys: &mut SingleKeys, key: &[u8]) {
                // SAFETY: the caller's promise.
                unsafe {
                    keys.expand::<Single>(key);
                    keys.invert::<Single>(ROUNDS);
                }
            }

            /// # Safety
            /// The CPU has the features. The text is valid, and whole blocks except for CTR.
            #[target_feature(enable = $features)]
            unsafe fn transform<M: parallel::Mode, const ROUNDS: usize>(
                keys: &SingleKeys,
                text: &parallel::Text,
            ) {
                // SAFETY: the caller's promise.
                unsafe { texts::transform::<$vector, M, ROUNDS>(keys, text) }
            }

            /// # Safety
            /// The CPU has the features. The text is valid, and whole blocks, at least one.
            #[target_feature(enable = $features)]
            unsafe fn encrypt_chain<const ROUNDS: usize>(keys: &SingleKeys, text: &parallel::Text) {
                // SAFETY: the caller's promise.
                unsafe { cbc_serial::encrypt::<Single, ROUNDS>(keys, text) }
            }

            /// # Safety
            /// The CPU has the features. The records are to be encrypted, in CBC mode with
            /// keys of this length.
            #[target_feature(enable = $features)]
            unsafe fn encrypt_cbc_records<const ROUNDS: usize>(
                keys: &SharedKeys,
                records: &mut Records<'_>,
                _stream: bool,
            ) -> bool {
                // SAFETY: the caller's promise.
                unsafe { cbc_records::encrypt_cbc::<$vector, ROUNDS>(keys, records) }
                true
            }

            /// # Safety
            /// The CPU has the features. The records have this mode, direction and key length.
            #[target_feature(enable = $features)]
            unsafe fn transform_records<M: parallel::Mode, const ROUNDS: usize>(
                keys: &SharedKeys,
                records: &mut Records<'_>,
                stream: bool,
            ) -> bool {
                // SAFETY: the caller's promise.
                unsafe { records::transform::<$vector, M, ROUNDS>(keys, records, stream) }
            }

            /// # Safety
            /// The CPU has the features.
            #[target_feature(enable = $features)]
            unsafe fn in_parallel<M: parallel::Mode, const ROUNDS: usize>(
                state: &mut State,
                batch: &mut [Job<'_>],
            ) {
                let Room::One(own) = &mut state.own else { return };
                let mut work = parallel::Work {
                    cipher: state.cipher,
                    direction: state.direction,
                    shared: state.shared.as_deref(),
                    own,
                    stream: state.stream,
                };
                // SAFETY: the caller's promise.
                unsafe { parallel::process::<$vector, M, ROUNDS>(&mut work, batch) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
entries!(vaes_avx512, vector::VaesAvx512, "avx512f,avx512vl,avx512bw,vaes,aes,avx2");
#[cfg(target_arch = "x86_64")]
entries!(vaes_avx2, vector::VaesAvx2, "avx2,vaes,aes");
#[cfg(target_arch = "x86_64")]
entries!(aes_ni, vector::AesNi, "aes,sse4.1,ssse3");
#[cfg(target_arch = "aarch64")]
entries!(neon_sha3, vector::Neon<true>, "neon,aes,sha3");
#[cfg(target_arch = "aarch64")]
entries!(neon, vector::Neon<false>, "neon,aes");
