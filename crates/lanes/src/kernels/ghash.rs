//! GHASH (NIST SP 800-38D, section 6.4) by carry-less multiplication.
//!
//! A message's blocks are multiplied by falling powers of the hash subkey and added up, and
//! only the sum is reduced. Blocks are kept with their bytes reversed; since GHASH also counts
//! bits the other way round, a product comes out shifted by one bit, for which the powers are
//! made up in advance.

use zeroize::Zeroize;

use super::vector::{BLOCK, Block, Carryless, MAX_BLOCKS};

/// The highest power that is kept; a multiple of the lanes of every vector.
pub(super) const MAX_POWER: usize = 40;

/// Powers of a hash subkey, zeroised on drop. They are made when they are first needed, since
/// a key that serves one short message needs few of them.
#[repr(C, align(64))]
pub(super) struct Powers {
    /// From the highest to the first; then zeros, for the lanes of a vector that goes past it.
    falling: [Block; MAX_POWER + MAX_BLOCKS],
    /// The highest that is there; 0 without a subkey.
    highest: usize,
}

impl Powers {
    /// No powers yet.
    pub(super) fn new() -> Powers {
        Powers { falling: [[0; BLOCK]; MAX_POWER + MAX_BLOCKS], highest: 0 }
    }

    /// Whether there is a subkey.
    pub(super) fn is_set(&self) -> bool {
        self.highest > 0
    }

    /// Whether all powers are there.
    pub(super) fn are_complete(&self) -> bool {
        self.highest == MAX_POWER
    }

    /// Sets the subkey: the cipher of a block of zeros.
    pub(super) fn set(&mut self, subkey: &Block) {
        let subkey = u128::from_be_bytes(*subkey);
        // Multiplied by x, without a branch on the bit that falls out.
        let carry = (subkey >> 127).wrapping_neg();
        let shifted = subkey << 1 ^ carry & POLYNOMIAL;
        self.falling[MAX_POWER - 1] = shifted.to_le_bytes();
        self.highest = 1;
    }

    /// Makes the powers up to `power` (at most [`MAX_POWER`]).
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn reach<V: Carryless>(&mut self, power: usize) {
        // SAFETY: the caller's promise; a power at most `MAX_POWER` has its place, and as many
        // blocks as a vector has follow it.
        unsafe {
            while self.highest < power {
                // The first vector is filled lane by lane, the others are whole.
                let (step, bytes) = match self.highest {
                    highest if highest < V::BLOCKS => (1, BLOCK),
                    _ => (V::BLOCKS, V::BLOCKS * BLOCK),
                };
                let factor = V::splat(&self.falling[MAX_POWER - step]);
                let next = Sum::product(self.load(self.highest), factor).reduced();
                self.highest += step;
                let place = self.falling[MAX_POWER - self.highest..].as_mut_ptr();
                next.store_bytes(place.cast(), bytes);
            }
        }
    }

    /// The powers from `power` (which has been [reached](Powers::reach)) down, one a lane;
    /// lanes past the first power are zero.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn load<V: Carryless>(&self, power: usize) -> V {
        let powers: &[Block] = &self.falling[MAX_POWER - power..][..V::BLOCKS];
        // SAFETY: the slice has as many blocks as the vector.
        unsafe { V::load(powers.as_ptr().cast()) }
    }

    /// The first power in every lane.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn first<V: Carryless>(&self) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::splat(&self.falling[MAX_POWER - 1]) }
    }
}

impl Drop for Powers {
    fn drop(&mut self) {
        self.falling.as_flattened_mut().zeroize();
    }
}

/// A sum of products in every lane, of 256 bits each, not reduced yet.
#[derive(Clone, Copy)]
pub(super) struct Sum<V> {
    low: V,
    middle: V,
    high: V,
}

impl<V: Carryless> Sum<V> {
    /// Nothing, given a vector of zeros.
    #[inline(always)]
    pub(super) fn of(zero: V) -> Sum<V> {
        Sum { low: zero, middle: zero, high: zero }
    }

    /// The product of one pair of blocks in every lane.
    #[inline(always)]
    pub(super) fn product(a: V, b: V) -> Sum<V> {
        Sum {
            low: a.multiply_low(b),
            middle: a.multiply_low_by_high(b).xor(b.multiply_low_by_high(a)),
            high: a.multiply_high(b),
        }
    }

    /// Adds a sum, lane by lane.
    #[inline(always)]
    pub(super) fn add(&mut self, other: Sum<V>) {
        self.low = self.low.xor(other.low);
        self.middle = self.middle.xor(other.middle);
        self.high = self.high.xor(other.high);
    }

    /// Adds up the lanes of every sum: those of `sums[i]` go into lane `i`.
    #[inline(always)]
    pub(super) fn across(sums: &[Sum<V>; MAX_BLOCKS]) -> Sum<V> {
        let [a, b, c, d] = *sums;
        Sum {
            low: V::sum_lanes([a.low, b.low, c.low, d.low]),
            middle: V::sum_lanes([a.middle, b.middle, c.middle, d.middle]),
            high: V::sum_lanes([a.high, b.high, c.high, d.high]),
        }
    }

    /// Reduces every lane to 128 bits: two Montgomery steps of 64 bits, from below.
    #[inline(always)]
    pub(super) fn reduced(self) -> V {
        // SAFETY: a value proves the instructions.
        let polynomial = unsafe { V::splat(&POLYNOMIAL.to_le_bytes()) };
        let middle = self.middle.xor(fold(self.low, polynomial));
        self.high.xor(fold(middle, polynomial))
    }
}

/// Adds a multiple of the polynomial that clears the lower half, and moves up by that half.
#[inline(always)]
fn fold<V: Carryless>(sum: V, polynomial: V) -> V {
    sum.swap_halves().xor(sum.multiply_low_by_high(polynomial))
}

/// GHASH's polynomial, its bits reversed, without its highest term.
const POLYNOMIAL: u128 = 0xC200_0000_0000_0000_0000_0000_0000_0001;
