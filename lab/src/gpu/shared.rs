//! Look-ups in the device's shared memory, and the ceiling of AES that they imply.

use evener_core::EngineError;
use evener_gpu::ceilings::Bare;

use super::report::{Ceiling, SharedMemory};

/// Measures `rounds` rounds of look-ups.
pub(super) fn measure(bare: &Bare, rounds: usize) -> Result<SharedMemory, EngineError> {
    let measured = bare.lookups(rounds)?;
    let facts = bare.facts();
    let per_clock = (facts.units * facts.clock_mhz) as f64 * 1e6;
    let computed = Some(per_clock * BANKS).filter(|words| *words > 0.0);
    let ceiling = |&(cipher, words): &(&'static str, u32)| {
        let rate = |of_all: f64| of_all / f64::from(words) * BLOCK / 1e9;
        Ceiling {
            cipher,
            words_of_a_block: words,
            gb_per_second: rate(measured.words_per_second),
            computed_gb_per_second: computed.map(rate),
        }
    };
    Ok(SharedMemory {
        words_per_second: measured.words_per_second,
        words_per_clock: measured.words_per_clock,
        computed_words_per_second: computed,
        ceilings: WORDS.iter().map(ceiling).collect(),
    })
}

/// Words per block: 16 a round; for counters 27 fewer, which a whole stretch shares.
const WORDS: &[(&str, u32)] = &[
    ("aes-128", 160),
    ("aes-192", 192),
    ("aes-256", 224),
    ("aes-128-ctr", 133),
    ("aes-192-ctr", 165),
    ("aes-256-ctr", 197),
];

/// Words that a unit reads per clock cycle: one from each bank.
const BANKS: f64 = 32.0;

/// Bytes of a block.
const BLOCK: f64 = 16.0;
