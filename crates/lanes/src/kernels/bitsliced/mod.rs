//! AES on ARMv7 with NEON, which has no instructions for AES: bitsliced, eight blocks at a time, so
//! that it takes the same time for all keys and texts of a length. Table look-ups, such as
//! OpenSSL's for CBC encryption there, leave traces of keys in the cache.
//!
//! | file | holds |
//! |---|---|
//! | `neon.s` | the cipher and its inverse |
//! | `circuits.s` | SubBytes and its inverse |
//! | `sys.rs` | its functions |
//! | `keys.rs` | round keys, as bits |
//! | `texts.rs` | ECB, CTR and CBC decryption |
//! | `chains.rs` | CBC encryption of eight messages |
//!
//! It has no GCM: without PMULL its hash would take longer than the cipher.

mod chains;
mod keys;
mod sys;
mod texts;

use evener_core::{Cipher, Direction, Job, Mode};

use super::vector::Block;
use super::{Code, Room, State, mode_key, parallel, records};
pub(super) use chains::LanesRoom;
pub(super) use keys::Keys;
use parallel::{CbcDecrypt, Ctr, EcbDecrypt, EcbEncrypt, Text};
use texts::Bitsliced;

/// Blocks processed at once, one for each bit of a byte.
pub(super) const LANES: usize = 8;

/// Eight blocks.
type Eight = [Block; LANES];

/// Returns whether the CPU has NEON according to Linux (`AT_HWCAP`; the bit is from `asm/hwcap.h`).
pub(super) fn can_run() -> bool {
    has_neon(rustix::param::linux_hwcap().0)
}

fn has_neon(capabilities: usize) -> bool {
    const NEON: u32 = 12;
    capabilities >> NEON & 1 == 1
}

pub(super) fn code(cipher: Cipher, direction: Direction) -> Option<Code> {
    let is_aes = matches!(
        cipher,
        Cipher::Aes128Ecb
            | Cipher::Aes192Ecb
            | Cipher::Aes256Ecb
            | Cipher::Aes128Cbc
            | Cipher::Aes192Cbc
            | Cipher::Aes256Cbc
            | Cipher::Aes128Ctr
            | Cipher::Aes192Ctr
            | Cipher::Aes256Ctr
    );
    if !is_aes {
        return None;
    }
    Some(match (cipher.mode(), direction) {
        (Mode::Ecb, Direction::Encrypt) => parallel_code::<EcbEncrypt>(),
        (Mode::Ecb, Direction::Decrypt) => parallel_code::<EcbDecrypt>(),
        (Mode::Cbc, Direction::Decrypt) => parallel_code::<CbcDecrypt>(),
        (Mode::Ctr, _) => parallel_code::<Ctr>(),
        (Mode::Cbc, Direction::Encrypt) => Code {
            expand,
            process: chains::encrypt_jobs,
            in_place: None,
            records: Some(chains::encrypt_records),
            pieces: Some(mode_key::Code { expand, transform: chains::encrypt_text }),
        },
        _ => return None,
    })
}

fn parallel_code<M: parallel::Mode>() -> Code {
    Code {
        expand,
        process: in_parallel::<M>,
        in_place: Some(parallel::transform_in_place::<Bitsliced, M, ANY>),
        records: Some(records::transform::<Bitsliced, M, ANY>),
        pieces: Some(mode_key::Code { expand, transform: transform::<M> }),
    }
}

/// # Safety
/// The CPU has NEON. The key has 16, 24 or 32 bytes.
unsafe fn expand(keys: &mut Keys, key: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { keys.expand(&[key]) }
}

/// # Safety
/// The CPU has NEON. The text is valid, and whole blocks except for CTR.
unsafe fn transform<M: parallel::Mode>(keys: &Keys, text: &Text) {
    // SAFETY: the caller's promise.
    unsafe { texts::transform(M::KIND, keys, text) }
}

/// # Safety
/// The CPU has NEON.
unsafe fn in_parallel<M: parallel::Mode>(state: &mut State, batch: &mut [Job<'_>]) {
    let Room::One(own) = &mut state.own else { return };
    let mut work = parallel::Work {
        cipher: state.cipher,
        direction: state.direction,
        shared: state.shared.as_deref(),
        own,
        stream: state.stream,
    };
    // SAFETY: the caller's promise.
    unsafe { parallel::process::<Bitsliced, M, ANY>(&mut work, batch) }
}

/// The keys count their rounds.
const ANY: usize = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_processor_with_neon_runs_it() {
        // A BeagleBone's.
        assert!(has_neon(0xB0D7));
        assert!(!has_neon(0) && !has_neon(0xB0D7 & !0x1000) && !has_neon(!0x1000));
    }
}
