//! Tests of whole formats.

mod geometry;

/// The next number of a linear congruential generator (Knuth's MMIX).
fn scramble(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}
