//! The kernels for this CPU, and the entry points to them.
//!
//! The kernels are generic functions that are always inlined. Each entry here is one function for
//! one instruction set, mode and key length, compiled with that set's target features
//! (`entries.rs`, `gcm_entries.rs`). ARMv7 has no instructions for AES; its kernel is separate
//! (`bitsliced/`).

#![allow(clippy::needless_range_loop, reason = "a lane's number selects in several arrays")]

#[cfg(target_arch = "arm")]
mod bitsliced;
#[cfg(not(target_arch = "arm"))]
mod cbc_encrypt;
#[cfg(not(target_arch = "arm"))]
mod cbc_lanes;
#[cfg(not(target_arch = "arm"))]
mod cbc_records;
#[cfg(not(target_arch = "arm"))]
mod cbc_rows;
#[cfg(not(target_arch = "arm"))]
mod cbc_serial;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod entries;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod first_rounds;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod gcm;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod gcm_entries;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod gcm_long;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod gcm_message;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod gcm_stream;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod ghash;
mod jobs;
mod keyed;
mod mode_key;
mod parallel;
mod portable;
mod records;
#[cfg(not(target_arch = "arm"))]
mod rounds;
mod rows;
#[cfg(not(target_arch = "arm"))]
mod schedule;
#[cfg(not(target_arch = "arm"))]
mod texts;
mod vector;

use evener_core::{Cipher, Direction, Iv, Job, Key, Mode, Records};

#[cfg(target_arch = "arm")]
use bitsliced::{Keys as SharedKeys, Keys as SingleKeys, LanesRoom};
#[cfg(not(target_arch = "arm"))]
use cbc_encrypt::Room as LanesRoom;
#[cfg(target_arch = "x86_64")]
use entries::{aes_ni, vaes_avx2, vaes_avx512};
#[cfg(target_arch = "aarch64")]
use entries::{neon, neon_sha3};
#[cfg(target_arch = "aarch64")]
use gcm_entries::{neon_gcm, neon_sha3_gcm};
#[cfg(target_arch = "x86_64")]
use gcm_entries::{vaes_avx2_gcm, vaes_avx512_gcm};
pub(crate) use keyed::Keyed;
pub(crate) use mode_key::ModeKey;
#[cfg(not(target_arch = "arm"))]
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
    NeonSha3,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "arm")]
    Bitsliced,
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
    use std::arch::is_aarch64_feature_detected as has;
    // Linux reports each separately (AT_HWCAP), though every CPU with AES has PMULL.
    let neon = has!("aes") && has!("pmull");
    let sets = [(neon && has!("sha3"), Set::NeonSha3), (neon, Set::Neon)];
    sets.into_iter().filter_map(|(can_run, set)| can_run.then_some(Kernel(set))).collect()
}

/// The kernels that this CPU can run.
#[cfg(target_arch = "arm")]
pub fn available() -> Vec<Kernel> {
    bitsliced::can_run().then_some(Kernel(Set::Bitsliced)).into_iter().collect()
}

/// There are no kernels for this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
pub fn available() -> Vec<Kernel> {
    Vec::new()
}

impl Kernel {
    /// A kernel for every CPU, which supports only GCM and CBC of one message in pieces
    /// ([`stream`](crate::stream)). It takes the same time for all keys and texts of a length, so it
    /// is slow on a CPU without AES instructions. It is not among the [`available`] ones.
    pub fn portable() -> Kernel {
        Kernel(Set::Portable)
    }

    /// The name that selects it.
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

    /// Returns whether it supports a cipher and direction: only those for which lanes help.
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
            (Mode::Cbc, Direction::Encrypt) => Room::Lanes(Box::new(LanesRoom::new())),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            (Mode::Gcm, _) => Room::Gcm(Box::new(gcm::Room::new())),
            _ => Room::One(Box::new(SharedKeys::new())),
        };
        let state = State { cipher, direction, key: key.cloned(), shared, own, stream: false };
        Some(Prepared { code, state })
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
            Set::NeonSha3 => Facts::of::<vector::Neon<true>>("armv8-sha3", "ARMv8 AES and SHA3"),
            #[cfg(target_arch = "aarch64")]
            Set::Neon => Facts::of::<vector::Neon<false>>("armv8-aes", "ARMv8 AES"),
            #[cfg(target_arch = "arm")]
            Set::Bitsliced => {
                Facts { name: "armv7-neon", title: "NEON, bitsliced", lanes: bitsliced::LANES }
            }
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
            Set::NeonSha3 => neon_sha3::code(cipher, direction)
                .or_else(|| neon_sha3_gcm::code(cipher, direction)),
            #[cfg(target_arch = "aarch64")]
            Set::Neon => {
                neon::code(cipher, direction).or_else(|| neon_gcm::code(cipher, direction))
            }
            #[cfg(target_arch = "arm")]
            Set::Bitsliced => bitsliced::code(cipher, direction),
            Set::Portable => None,
        }
    }

    /// Its code for GCM of messages in pieces, with keys of this many bytes.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn stream(self, key_length: usize) -> Option<gcm_stream::Code> {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::VaesAvx512 => vaes_avx512_gcm::stream(key_length),
            #[cfg(target_arch = "x86_64")]
            Set::VaesAvx2 => vaes_avx2_gcm::stream(key_length),
            #[cfg(target_arch = "x86_64")]
            Set::AesNi => None,
            #[cfg(target_arch = "aarch64")]
            Set::NeonSha3 => neon_sha3_gcm::stream(key_length),
            #[cfg(target_arch = "aarch64")]
            Set::Neon => neon_gcm::stream(key_length),
            Set::Portable => None,
        }
    }

    /// Its code for ECB, CBC and CTR of messages in pieces, with keys of this many bytes.
    fn pieces(self, mode: Mode, direction: Direction, key_length: usize) -> Option<mode_key::Code> {
        let has = |cipher: &Cipher| cipher.mode() == mode && cipher.key_length() == key_length;
        let codes = Cipher::ALL.iter().copied().filter(has);
        codes.filter_map(|cipher| self.code(cipher, direction)).find_map(|code| code.pieces)
    }
}

struct Facts {
    name: &'static str,
    title: &'static str,
    lanes: usize,
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl Facts {
    fn of<V: vector::Vector>(name: &'static str, title: &'static str) -> Facts {
        Facts { name, title, lanes: cbc_lanes::GROUPS * V::BLOCKS }
    }
}

/// A kernel prepared for one cipher, direction and session key.
pub struct Prepared {
    code: Code,
    state: State,
}

impl Prepared {
    /// Processes every pending job and sets its outcome. A job stays pending only if neither it nor
    /// the session has a key.
    pub fn process(&mut self, batch: &mut [Job<'_>]) {
        // SAFETY: the function is one of a kernel that this CPU can run.
        unsafe { (self.code.process)(&mut self.state, batch) }
    }

    /// Transforms a message in place with the session's key. Except for CTR, the message is whole
    /// blocks. Returns `None` and leaves it untouched when the kernel can't, there is no such key,
    /// or the cipher does not accept the length of the IV or of the message.
    pub fn transform_in_place(&mut self, iv: &Iv, data: &mut [u8]) -> Option<()> {
        let (in_place, keys) = (self.code.in_place?, self.state.shared.as_deref()?);
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

    /// Processes records with the session's key. Returns `None` and leaves them untouched when the
    /// kernel can't, there is no such key, or they are for another cipher or direction.
    pub fn process_records(&mut self, records: &mut Records<'_>) -> Option<()> {
        let &State { cipher, direction, stream, .. } = &self.state;
        let (process, keys) = (self.code.records?, self.state.shared.as_deref()?);
        let is_for_this = records.cipher() == cipher && records.direction() == direction;
        // SAFETY: the function is one of a kernel that this CPU can run, for this cipher.
        let is_done = is_for_this && unsafe { process(keys, records, stream) };
        is_done.then_some(())
    }

    /// Announces the number of bytes of output: output that exceeds the caches is written past
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
    /// True if the output is expected to exceed the caches.
    stream: bool,
}

/// Buffers for the jobs' own keys, by kind of kernel.
enum Room {
    /// One message after another.
    One(Box<SharedKeys>),
    /// Many at once.
    Lanes(Box<LanesRoom>),
    /// For GCM, with the tables of its hash.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Gcm(Box<gcm::Room>),
}

/// The functions of one kernel for one cipher and direction. They may be called only on a CPU
/// with the kernel's instructions.
#[derive(Clone, Copy)]
struct Code {
    /// Expands a session's key, which has the cipher's length.
    expand: unsafe fn(&mut SharedKeys, &[u8]),
    process: unsafe fn(&mut State, &mut [Job<'_>]),
    in_place: Option<InPlace>,
    records: Option<InRecords>,
    /// Code for messages in pieces.
    pieces: Option<mode_key::Code>,
}

/// Transforms a message in place. It may be called only on a CPU with the kernel's instructions,
/// and with a message of whole blocks except for CTR.
type InPlace = unsafe fn(&SharedKeys, &Iv, &mut [u8]);

/// Processes records, or returns false if it can't. It may be called only on a CPU with the
/// kernel's instructions, and with records of its cipher and direction.
type InRecords = unsafe fn(&SharedKeys, &mut Records<'_>, bool) -> bool;
