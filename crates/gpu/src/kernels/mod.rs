//! The kernels' source, and their PTX.

use super::device::Properties;

/// The source for a device, in OpenCL C 1.2.
pub(super) fn source(properties: &Properties) -> String {
    let count = if takes_wide_tables(properties) { FILES.len() } else { FILES.len() - WIDE };
    FILES[..count].concat()
}

/// Returns whether a device has room for AES's tables in the layout of `wide.cl`.
pub(super) fn takes_wide_tables(properties: &Properties) -> bool {
    properties.shared_memory >= WIDE_TABLES as usize
        && properties.largest_group >= WIDE_GROUP as usize
}

/// The same, compiled for the CUDA driver by `scripts/gpu-ptx`.
pub(super) const PTX: &str = include_str!("evener.ptx");

/// The part of a PTX text that a driver needs for one kernel: what precedes all kernels, and the
/// kernel. No kernel calls functions that are not part of it.
pub(super) fn ptx_of(text: &str, kernel: &str) -> Option<String> {
    let starts = text.match_indices(ENTRY).map(|(at, _)| at);
    let mut starts: Vec<_> =
        starts.map(|at| text[..at].rfind('\n').map_or(0, |end| end + 1)).collect();
    starts.push(text.len());
    let is_meant = |part: &&[usize]| {
        let named = text[part[0]..part[1]].split_once(ENTRY).map(|(_, named)| named);
        named.is_some_and(|named| named.split('(').next() == Some(kernel))
    };
    let part = starts.windows(2).find(is_meant)?;
    Some([&text[..starts[0]], &text[part[0]..part[1]]].concat())
}

/// The parameters for starting a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) name: &'static str,
    /// Threads of a group.
    pub(super) group_size: u32,
    /// Shared memory that the kernel does not declare itself, in bytes.
    pub(super) dynamic_shared: u32,
    /// The most groups for a multiprocessor or compute unit.
    pub(super) groups: u32,
}

impl Form {
    /// Units that a thread processes in a tile, on a device with this many multiprocessors or
    /// compute units: more than one only if there is enough work for all threads.
    pub(super) fn each(self, device_units: u32, units: u64) -> u32 {
        let full = u64::from(device_units * self.groups) * u64::from(self.group_size);
        (units / full).clamp(1, MOST_EACH) as u32
    }

    /// Groups for this many units of work.
    pub(super) fn groups_for(self, device_units: u32, units: u64, each: u32) -> u32 {
        let tiles = units.div_ceil(u64::from(each) * u64::from(self.group_size));
        tiles.min(u64::from(device_units * self.groups)) as u32
    }
}

/// A kernel's form: `takes_wide` is whether the device [takes wide tables](takes_wide_tables).
pub(super) fn form(kernel: &'static str, takes_wide: bool) -> Form {
    match wide(kernel) {
        Some(name) if takes_wide => {
            Form { name, group_size: WIDE_GROUP, dynamic_shared: WIDE_TABLES, groups: 1 }
        }
        _ => Form { name: kernel, group_size: GROUP_SIZE, dynamic_shared: 0, groups: GROUPS },
    }
}

/// The same kernel with wide tables, which those of `texts.cl` have.
fn wide(kernel: &str) -> Option<&'static str> {
    Some(match kernel {
        "aes_ecb_encrypt" => "aes_ecb_encrypt_wide",
        "aes_ecb_decrypt" => "aes_ecb_decrypt_wide",
        "aes_cbc_decrypt" => "aes_cbc_decrypt_wide",
        "aes_ctr" => "aes_ctr_wide",
        "gcm_crypt" => "gcm_crypt_wide",
        "gcm_crypt_in_place" => "gcm_crypt_in_place_wide",
        "xts_encrypt" => "xts_encrypt_wide",
        "xts_decrypt" => "xts_decrypt_wide",
        _ => return None,
    })
}

/// The passes that fold the stripes of messages: for each the power of two of the stripes between two
/// values, and the number of threads. `most` is the number of stripes of the longest message.
pub(super) fn folds(messages: u64, stripes: u64, most: u64) -> impl Iterator<Item = (u32, u64)> {
    let has_many = move |shift: &u32| {
        let before = shift.saturating_sub(FOLDED_SHIFT);
        most > 0 && ((most - 1) >> before) + 1 > JOINED_STRIPES
    };
    let shifts = (0..u64::BITS - FOLDED_SHIFT).step_by(FOLDED_SHIFT as usize);
    shifts
        .take_while(has_many)
        .map(move |shift| (shift, (stripes >> (shift + FOLDED_SHIFT)) + messages))
}

/// Threads of a group (`GROUP_SIZE` in `common.cl`).
const GROUP_SIZE: u32 = 256;
/// This many groups fit an NVIDIA multiprocessor of compute capability 9.0 by their threads.
const GROUPS: u32 = 8;
/// Bytes of a block of AES, GHASH and Poly1305, and of the grid on which texts begin.
pub(super) const BLOCK: usize = 16;
/// Bytes of a block of ChaCha20.
pub(super) const CHACHA_BLOCK: usize = 64;
/// Bytes of an entry of the messages' table (`Message` in `common.cl`).
pub(super) const MESSAGE: usize = 96;
/// Bytes of a verdict: a word that is 0 for a right tag.
pub(super) const VERDICT: usize = 4;
/// Blocks that one thread hashes (`STRIPE` in `hash.cl`).
pub(super) const STRIPE: usize = 16;
/// Stripes that one thread joins (`JOINED_STRIPES` in `hash.cl`); more of them are folded first.
pub(super) const JOINED_STRIPES: u64 = 32;
/// The power of two of the values that a thread folds to one (`FOLDED_SHIFT` in `hash.cl`).
const FOLDED_SHIFT: u32 = 4;
/// Bytes of scratch for a message (`MESSAGE_WORDS` in `hash.cl`).
pub(super) const MESSAGE_SCRATCH: usize = 96;
/// Bytes of scratch for a stripe (`STRIPE_WORDS` in `hash.cl`).
pub(super) const STRIPE_SCRATCH: usize = 32;
/// The most units of a thread in a tile.
const MOST_EACH: u64 = 8;
/// Threads of a group that has wide tables (`LAYOUT_GROUP` in `wide.cl`).
const WIDE_GROUP: u32 = 1024;
/// Bytes of the wide tables. One group uses a whole multiprocessor's shared memory.
const WIDE_TABLES: u32 = 128 << 10;

/// Begins a kernel in PTX.
const ENTRY: &str = ".entry ";

/// The files in order. `scripts/gpu-ptx` joins the same files. The last [`WIDE`] are for the wide
/// tables.
const FILES: &[&str] = &[
    include_str!("common.cl"),
    include_str!("aes.cl"),
    include_str!("narrow.cl"),
    include_str!("rounds.cl"),
    include_str!("chains.cl"),
    include_str!("hash.cl"),
    include_str!("gcm.cl"),
    include_str!("xts.cl"),
    include_str!("texts.cl"),
    include_str!("chacha.cl"),
    include_str!("des.cl"),
    include_str!("des_sliced.cl"),
    include_str!("camellia.cl"),
    include_str!("shared.cl"),
    include_str!("wide.cl"),
    include_str!("rounds.cl"),
    include_str!("texts.cl"),
];

const WIDE: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_is_a_text_of_its_own() {
        let text = ptx_of(PTX, "aes_ctr_wide").unwrap();
        assert!(text.starts_with("//") && text.contains(".version") && text.contains("AES_SBOX"));
        assert_eq!(text.matches(ENTRY).count(), 1);
        assert!(text.contains(".entry aes_ctr_wide(") && text.len() < PTX.len() / 5);
        assert_eq!(ptx_of(PTX, "aes_ctr_wid"), None);
        assert!(!PTX.contains(".func"), "functions would be in no kernel's text");
    }
}
