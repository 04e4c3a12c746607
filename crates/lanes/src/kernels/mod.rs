//! The kernels for this CPU, and the entry points to them.
//!
//! The kernels are generic functions that are always inlined. Each entry here is one function
//! for one instruction set, mode and key length, compiled with that set's target features.

#![allow(clippy::needless_range_loop, reason = "a lane's number selects in several arrays")]

mod cbc_encrypt;
mod cbc_lanes;
mod cbc_rows;
mod cbc_serial;
#[cfg(target_arch = "x86_64")]
mod first_rounds;
#[cfg(target_arch = "x86_64")]
mod gcm;
#[cfg(target_arch = "x86_64")]
mod gcm_long;
#[cfg(target_arch = "x86_64")]
mod gcm_stream;
#[cfg(target_arch = "x86_64")]
mod ghash;
mod jobs;
mod keyed;
mod mode_key;
mod parallel;
mod portable;
mod records;
mod rows;
mod schedule;
mod vector;

use evener_core::{Cipher, Direction, Iv, Job, Key, Mode, Records};

pub(crate) use keyed::Keyed;
pub(crate) use mode_key::ModeKey;
use schedule::{SharedKeys, SingleKeys};

/// A kernel that this CPU can run. Only [`available`] and [`Kernel::portable`] make values, so a
/// value is proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(Set);

/// An instruction set for which there are kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    #[cfg(target_arch = "x86_64")]
    VaesAvx512,
    #[cfg(target_arch = "x86_64")]
    VaesAvx2,
    #[cfg(target_arch = "x86_64")]
    AesNi,
    #[cfg(target_arch = "aarch64")]
    Neon,
    Portable,
}

/// The kernels that this CPU can run, fastest first.
#[cfg(target_arch = "x86_64")]
pub fn available() -> Vec<Kernel> {
    use std::arch::is_x86_feature_detected as has;
    let aes_ni = has!("aes") && has!("sse4.1") && has!("ssse3");
    let vaes_avx2 = aes_ni && has!("vaes") && has!("vpclmulqdq") && has!("avx2");
    let vaes_avx512 = vaes_avx2 && has!("avx512f") && has!("avx512vl") && has!("avx512bw");
    let sets = [(vaes_avx512, Set::VaesAvx512), (vaes_avx2, Set::VaesAvx2), (aes_ni, Set::AesNi)];
    sets.into_iter().filter_map(|(can_run, set)| can_run.then_some(Kernel(set))).collect()
}

/// The kernels that this CPU can run, fastest first.
#[cfg(target_arch = "aarch64")]
pub fn available() -> Vec<Kernel> {
    let has_aes = std::arch::is_aarch64_feature_detected!("aes");
    has_aes.then_some(Kernel(Set::Neon)).into_iter().collect()
}

/// There are no kernels for this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn available() -> Vec<Kernel> {
    Vec::new()
}

impl Kernel {
    /// A kernel for every CPU, which does GCM of one message in pieces ([`stream`](crate::stream))
    /// and nothing else. It takes the same time for all keys and texts of a length, so it is slow
    /// on a CPU without AES instructions. It is not among the [`available`] ones.
    pub fn portable() -> Kernel {
        Kernel(Set::Portable)
    }

    /// The name by which it is selected.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Its description, for people.
    pub fn title(self) -> &'static str {
        self.facts().title
    }

    /// Number of messages that it encrypts side by side in CBC mode.
    pub fn lanes(self) -> usize {
        self.facts().lanes
    }

    /// Whether it has a cipher and direction: only those for which lanes help.
    pub fn does(self, cipher: Cipher, direction: Direction) -> bool {
        self.code(cipher, direction).is_some()
    }

    /// Prepares for batches; `None` if it lacks the cipher, or the key has the wrong length.
    pub fn prepare(
        self,
        cipher: Cipher,
        direction: Direction,
        key: Option<&Key>,
    ) -> Option<Prepared> {
        let code = self.code(cipher, direction)?;
        let mut shared = None;
        if let Some(key) = key {
            if key.len() != cipher.key_length() {
                return None;
            }
            let mut keys = Box::new(SharedKeys::new());
            // SAFETY: the kernel can run, and the key has the length of an AES key.
            unsafe { (code.expand)(&mut keys, key.bytes()) }
            shared = Some(keys);
        }
        let own = match (cipher.mode(), direction) {
            (Mode::Cbc, Direction::Encrypt) => Room::Lanes(Box::new(cbc_encrypt::Room::new())),
            #[cfg(target_arch = "x86_64")]
            (Mode::Gcm, _) => Room::Gcm(Box::new(gcm::Room::new())),
            _ => Room::One(Box::new(SharedKeys::new())),
        };
        let in_place = self.in_place(cipher, direction);
        let records = self.records(cipher, direction);
        let state = State { cipher, direction, key: key.cloned(), shared, own, stream: false };
        Some(Prepared { process: code.process, in_place, records, state })
    }

    fn facts(self) -> Facts {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::VaesAvx512 => Facts::of::<vector::VaesAvx512>("vaes-avx512", "VAES on AVX-512"),
            #[cfg(target_arch = "x86_64")]
            Set::VaesAvx2 => Facts::of::<vector::VaesAvx2>("vaes-avx2", "VAES on AVX2"),
            #[cfg(target_arch = "x86_64")]
            Set::AesNi => Facts::of::<vector::AesNi>("aes-ni", "AES-NI"),
            #[cfg(target_arch = "aarch64")]
            Set::Neon => Facts::of::<vector::Neon>("armv8-aes", "ARMv8 AES"),
            Set::Portable => Facts { name: "portable", title: "portable code", lanes: 1 },
        }
    }

    fn code(self, cipher: Cipher, direction: Direction) -> Option<Code> {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::VaesAvx512 => vaes_avx512::code(cipher, direction)
                .or_else(|| vaes_avx512_gcm::code(cipher, direction)),
            #[cfg(target_arch = "x86_64")]
            Set::VaesAvx2 => vaes_avx2::code(cipher, direction)
                .or_else(|| vaes_avx2_gcm::code(cipher, direction)),
            #[cfg(target_arch = "x86_64")]
            Set::AesNi => aes_ni::code(cipher, direction),
            #[cfg(target_arch = "aarch64")]
            Set::Neon => neon::code(cipher, direction),
            Set::Portable => None,
        }
    }

    /// Its code for GCM of messages that come in pieces, with keys of so many bytes.
    #[cfg(target_arch = "x86_64")]
    fn stream(self, key_length: usize) -> Option<gcm_stream::Code> {
        match self.0 {
            Set::VaesAvx512 => vaes_avx512_gcm::stream(key_length),
            Set::VaesAvx2 => vaes_avx2_gcm::stream(key_length),
            Set::AesNi | Set::Portable => None,
        }
    }

    /// Its code for ECB, CBC and CTR of messages that come in pieces, with keys of so many bytes.
    fn confidential(
        self,
        mode: Mode,
        direction: Direction,
        key_length: usize,
    ) -> Option<mode_key::Code> {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::VaesAvx512 => vaes_avx512::confidential(mode, direction, key_length),
            #[cfg(target_arch = "x86_64")]
            Set::VaesAvx2 => vaes_avx2::confidential(mode, direction, key_length),
            #[cfg(target_arch = "x86_64")]
            Set::AesNi => aes_ni::confidential(mode, direction, key_length),
            #[cfg(target_arch = "aarch64")]
            Set::Neon => neon::confidential(mode, direction, key_length),
            Set::Portable => None,
        }
    }

    fn in_place(self, cipher: Cipher, direction: Direction) -> Option<InPlace> {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::VaesAvx512 => vaes_avx512::in_place(cipher, direction),
            #[cfg(target_arch = "x86_64")]
            Set::VaesAvx2 => vaes_avx2::in_place(cipher, direction),
            #[cfg(target_arch = "x86_64")]
            Set::AesNi => aes_ni::in_place(cipher, direction),
            #[cfg(target_arch = "aarch64")]
            Set::Neon => neon::in_place(cipher, direction),
            Set::Portable => None,
        }
    }

    fn records(self, cipher: Cipher, direction: Direction) -> Option<InRecords> {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::VaesAvx512 => vaes_avx512::records(cipher, direction),
            #[cfg(target_arch = "x86_64")]
            Set::VaesAvx2 => vaes_avx2::records(cipher, direction),
            #[cfg(target_arch = "x86_64")]
            Set::AesNi => aes_ni::records(cipher, direction),
            #[cfg(target_arch = "aarch64")]
            Set::Neon => neon::records(cipher, direction),
            Set::Portable => None,
        }
    }
}

struct Facts {
    name: &'static str,
    title: &'static str,
    lanes: usize,
}

impl Facts {
    fn of<V: vector::Vector>(name: &'static str, title: &'static str) -> Facts {
        Facts { name, title, lanes: cbc_lanes::GROUPS * V::BLOCKS }
    }
}

/// A kernel prepared for one cipher, direction and session key.
pub struct Prepared {
    process: unsafe fn(&mut State, &mut [Job<'_>]),
    in_place: Option<InPlace>,
    records: Option<InRecords>,
    state: State,
}

impl Prepared {
    /// Processes every pending job and sets its outcome. A job stays pending only if neither it nor
    /// the session has a key.
    pub fn process(&mut self, batch: &mut [Job<'_>]) {
        // SAFETY: the function is one of a kernel that this CPU can run.
        unsafe { (self.process)(&mut self.state, batch) }
    }

    /// Transforms a message in place, of whole blocks except for CTR, with the session's key;
    /// `None` without touching it when the kernel can't, there is no such key, or the length of the
    /// IV or of the message is not one that the cipher takes.
    pub fn transform_in_place(&mut self, iv: &Iv, data: &mut [u8]) -> Option<()> {
        let (in_place, keys) = (self.in_place?, self.state.shared.as_deref()?);
        let cipher = self.state.cipher;
        let is_whole = data.len().is_multiple_of(cipher.block_length());
        if iv.bytes().len() != cipher.iv_length() || !is_whole {
            return None;
        }
        // SAFETY: the function is one of a kernel that this CPU can run, and the message is
        // whole blocks, as was checked just now.
        unsafe { in_place(keys, iv, data) }
        Some(())
    }

    /// Processes records with the session's key; `None` without touching them when the kernel
    /// can't, there is no such key, or they are for another cipher or direction.
    pub fn process_records(&mut self, records: &mut Records<'_>) -> Option<()> {
        let &State { cipher, direction, stream, .. } = &self.state;
        let (process, keys) = (self.records?, self.state.shared.as_deref()?);
        let is_for_this = records.cipher() == cipher && records.direction() == direction;
        // SAFETY: the function is one of a kernel that this CPU can run, for this cipher.
        let is_done = is_for_this && unsafe { process(keys, records, stream) };
        is_done.then_some(())
    }

    /// Announces the number of bytes of output: if they exceed the caches, they are written past
    /// them.
    pub fn expect_output(&mut self, bytes: usize) {
        self.state.stream = bytes >= jobs::LARGE;
    }
}

/// The state of a kernel's functions. Keys are wiped on drop.
struct State {
    cipher: Cipher,
    direction: Direction,
    /// The session's key, raw and expanded.
    key: Option<Key>,
    shared: Option<Box<SharedKeys>>,
    /// Buffers for the jobs' own keys.
    own: Room,
    /// Whether the output is expected to exceed the caches.
    stream: bool,
}

/// Buffers for the jobs' own keys, by kind of kernel.
enum Room {
    /// One message after another.
    One(Box<SharedKeys>),
    /// Many at once.
    Lanes(Box<cbc_encrypt::Room>),
    /// For GCM, with the tables of its hash.
    #[cfg(target_arch = "x86_64")]
    Gcm(Box<gcm::Room>),
}

/// The functions of one kernel for one cipher and direction. They may be called only on a CPU
/// with the kernel's instructions.
#[derive(Clone, Copy)]
struct Code {
    /// Expands a session's key, which has the cipher's length.
    expand: unsafe fn(&mut SharedKeys, &[u8]),
    process: unsafe fn(&mut State, &mut [Job<'_>]),
}

/// Transforms a message in its place. It may be called only on a CPU with the kernel's
/// instructions, and with a message of whole blocks except for CTR.
type InPlace = unsafe fn(&SharedKeys, &Iv, &mut [u8]);

/// Processes records, or says that it can't. It may be called only on a CPU with the kernel's
/// instructions, and with records of the cipher and the direction that it is for.
type InRecords = unsafe fn(&SharedKeys, &mut Records<'_>, bool) -> bool;

/// Registers of one block, where blocks are done one after another.
#[cfg(target_arch = "x86_64")]
type Single = vector::AesNi;
#[cfg(target_arch = "aarch64")]
type Single = vector::Neon;

/// Defines a module with the entries of one instruction set.
macro_rules! entries {
    ($module:ident, $vector:ty, $features:literal) => {
        mod $module {
            use super::*;

            pub(super) fn code(cipher: Cipher, direction: Direction) -> Option<Code> {
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
                    (Mode::Cbc, Direction::Encrypt) => {
                        Code { expand, process: encrypt_cbc::<WORDS, ROUNDS> }
                    }
                    _ => return None,
                })
            }

            /// What `code` gives for the modes whose blocks are independent, in place.
            pub(super) fn in_place(cipher: Cipher, direction: Direction) -> Option<InPlace> {
                match cipher.key_length() {
                    _ if code(cipher, direction).is_none() => None,
                    16 => in_place_for::<10>(cipher.mode(), direction),
                    24 => in_place_for::<12>(cipher.mode(), direction),
                    _ => in_place_for::<14>(cipher.mode(), direction),
                }
            }

            fn in_place_for<const ROUNDS: usize>(
                mode: Mode,
                direction: Direction,
            ) -> Option<InPlace> {
                use parallel::{CbcDecrypt, Ctr, EcbDecrypt, EcbEncrypt};
                match (mode, direction) {
                    (Mode::Ecb, Direction::Encrypt) => {
                        Some(transform_in_place::<EcbEncrypt, ROUNDS>)
                    }
                    (Mode::Ecb, Direction::Decrypt) => {
                        Some(transform_in_place::<EcbDecrypt, ROUNDS>)
                    }
                    (Mode::Cbc, Direction::Decrypt) => {
                        Some(transform_in_place::<CbcDecrypt, ROUNDS>)
                    }
                    (Mode::Ctr, _) => Some(transform_in_place::<Ctr, ROUNDS>),
                    _ => None,
                }
            }

            /// What `code` gives, for records.
            pub(super) fn records(cipher: Cipher, direction: Direction) -> Option<InRecords> {
                match cipher.key_length() {
                    _ if code(cipher, direction).is_none() => None,
                    16 => records_for::<10>(cipher.mode(), direction),
                    24 => records_for::<12>(cipher.mode(), direction),
                    _ => records_for::<14>(cipher.mode(), direction),
                }
            }

            fn records_for<const ROUNDS: usize>(
                mode: Mode,
                direction: Direction,
            ) -> Option<InRecords> {
                use parallel::{CbcDecrypt, Ctr, EcbDecrypt, EcbEncrypt};
                match (mode, direction) {
                    (Mode::Ecb, Direction::Encrypt) => {
                        Some(transform_records::<EcbEncrypt, ROUNDS>)
                    }
                    (Mode::Ecb, Direction::Decrypt) => {
                        Some(transform_records::<EcbDecrypt, ROUNDS>)
                    }
                    (Mode::Cbc, Direction::Encrypt) => Some(encrypt_cbc_records::<ROUNDS>),
                    (Mode::Cbc, Direction::Decrypt) => {
                        Some(transform_records::<CbcDecrypt, ROUNDS>)
                    }
                    (Mode::Ctr, _) => Some(transform_records::<Ctr, ROUNDS>),
                    _ => None,
                }
            }

            /// What does a mode of messages that come in pieces.
            pub(super) fn confidential(
                mode: Mode,
                direction: Direction,
                key_length: usize,
            ) -> Option<mode_key::Code> {
                match key_length {
                    16 => confidential_for::<10>(mode, direction),
                    24 => confidential_for::<12>(mode, direction),
                    32 => confidential_for::<14>(mode, direction),
                    _ => None,
                }
            }

            fn confidential_for<const ROUNDS: usize>(
                mode: Mode,
                direction: Direction,
            ) -> Option<mode_key::Code> {
                use parallel::{CbcDecrypt, Ctr, EcbDecrypt, EcbEncrypt};
                Some(match (mode, direction) {
                    (Mode::Ecb, Direction::Encrypt) => confidential_code::<EcbEncrypt, ROUNDS>(),
                    (Mode::Ecb, Direction::Decrypt) => confidential_code::<EcbDecrypt, ROUNDS>(),
                    (Mode::Cbc, Direction::Encrypt) => {
                        mode_key::Code { expand: expand_one, transform: encrypt_chain::<ROUNDS> }
                    }
                    (Mode::Cbc, Direction::Decrypt) => confidential_code::<CbcDecrypt, ROUNDS>(),
                    (Mode::Ctr, _) => confidential_code::<Ctr, ROUNDS>(),
                    _ => return None,
                })
            }

            fn confidential_code<M: parallel::Mode, const ROUNDS: usize>() -> mode_key::Code {
                let expand = if M::INVERSE { expand_one_inverse::<ROUNDS> } else { expand_one };
                mode_key::Code { expand, transform: transform::<M, ROUNDS> }
            }

            fn parallel_code<M: parallel::Mode, const ROUNDS: usize>() -> Code {
                let expand = if M::INVERSE { expand_inverse::<ROUNDS> } else { expand };
                Code { expand, process: in_parallel::<M, ROUNDS> }
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
            /// The CPU has the features. The text is there, and whole blocks except for CTR.
            #[target_feature(enable = $features)]
            unsafe fn transform<M: parallel::Mode, const ROUNDS: usize>(
                keys: &SingleKeys,
                text: &parallel::Text,
            ) {
                // SAFETY: the caller's promise.
                unsafe { M::transform::<$vector, ROUNDS>(keys, text) }
            }

            /// # Safety
            /// The CPU has the features. The text is there, and whole blocks, one at least.
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
                unsafe { records::encrypt_cbc::<$vector, ROUNDS>(keys, records) }
                true
            }

            /// # Safety
            /// The CPU has the features. The records are of the mode, the direction and the
            /// length of keys.
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
entries!(neon, vector::Neon, "neon,aes");

/// Defines a module with the entries of one instruction set that has carry-less products of
/// whole registers. Without them, a library that is written for the purpose does GCM better.
#[cfg(target_arch = "x86_64")]
macro_rules! gcm_entries {
    ($module:ident, $vector:ty, $features:literal) => {
        mod $module {
            use super::gcm_stream::Material;
            use super::vector::Block;
            use super::*;
            use crate::stream::{End, Piece};

            pub(super) fn code(cipher: Cipher, direction: Direction) -> Option<Code> {
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
                Code { expand, process: in_groups::<ENCRYPT, ROUNDS> }
            }

            pub(super) fn stream(key_length: usize) -> Option<gcm_stream::Code> {
                Some(match key_length {
                    16 => stream_for::<10>(),
                    24 => stream_for::<12>(),
                    32 => stream_for::<14>(),
                    _ => return None,
                })
            }

            fn stream_for<const ROUNDS: usize>() -> gcm_stream::Code {
                gcm_stream::Code {
                    expand: set_key::<ROUNDS>,
                    hash,
                    encrypt: transform::<true, ROUNDS>,
                    decrypt: transform::<false, ROUNDS>,
                    registers: <$vector as vector::Vector>::BLOCKS * vector::BLOCK,
                    finish: finish::<ROUNDS>,
                }
            }

            /// # Safety
            /// The CPU has the features. The key has the length that `ROUNDS` are for.
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
            unsafe fn finish<const ROUNDS: usize>(material: &mut Material, end: &End) -> Block {
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
    "avx512f,avx512vl,avx512bw,vaes,aes,avx2,vpclmulqdq,pclmulqdq"
);
#[cfg(target_arch = "x86_64")]
gcm_entries!(vaes_avx2_gcm, vector::VaesAvx2, "avx2,vaes,aes,vpclmulqdq,pclmulqdq");
