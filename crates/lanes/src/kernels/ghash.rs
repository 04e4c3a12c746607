//! GHASH (NIST SP 800-38D, section 6.4) by carry-less multiplication.
//!
//! A message's blocks are multiplied by falling powers of the hash subkey and added up, and only
//! the sum is reduced. Blocks are stored as numbers. GHASH also counts bits in
//! reverse, so a product is shifted by one bit; the powers compensate for this in advance.

use super::vector::{BLOCK, Block, Carryless, MAX_BLOCKS, wipe};
#[cfg(target_arch = "x86_64")]
use crate::boxed::{Aligned, zeros};

/// The highest stored power; a multiple of the lanes of every vector.
pub(super) const MAX_POWER: usize = 68;

/// The highest power that a short message needs; even.
pub(super) const MAX_SHORT_POWER: usize = 40;

/// Registers of a chunk of a long message. Two chunks are reduced at once.
pub(super) const STRIDES: usize = 8;

/// Powers of a hash subkey, zeroised on drop. They are computed at first use, because a key
/// for one short message needs few of them.
#[repr(C, align(64))]
pub(super) struct Powers {
    /// From the highest to the first; then zeros, for vectors that extend past the first.
    falling: [Block; MAX_POWER + MAX_BLOCKS],
    /// The same, folded as by [`fold_halves`].
    folded: [Block; MAX_POWER + MAX_BLOCKS],
    /// Only for keys that have had a long message.
    #[cfg(target_arch = "x86_64")]
    strides: Option<Aligned<Strides>>,
    /// Powers for two chunks' registers, which have one block each, in pairs.
    #[cfg(target_arch = "aarch64")]
    pairs: [Pair; STRIDES],
    /// The highest computed power; 0 without a subkey.
    highest: usize,
    /// The highest power computed for any subkey so far.
    most: usize,
    /// True if the powers for a long message are computed too.
    is_complete: bool,
}

/// Powers for two chunks' registers, each in every lane, and the same folded. Wiped on drop.
#[cfg(target_arch = "x86_64")]
#[repr(C, align(64))]
pub(super) struct Strides {
    whole: [[Block; MAX_BLOCKS]; 2 * STRIDES],
    folded: [[Block; MAX_BLOCKS]; 2 * STRIDES],
}

impl Powers {
    /// No powers yet.
    pub(super) fn new() -> Powers {
        let none = [[0; BLOCK]; MAX_POWER + MAX_BLOCKS];
        Powers {
            falling: none,
            folded: none,
            highest: 0,
            most: 0,
            #[cfg(target_arch = "x86_64")]
            strides: None,
            #[cfg(target_arch = "aarch64")]
            pairs: [[[0; BLOCK]; 3]; STRIDES],
            is_complete: false,
        }
    }

    /// Returns whether there is a subkey.
    pub(super) fn is_set(&self) -> bool {
        self.highest > 0
    }

    /// Returns whether the powers for a long message are computed; they suffice for a short one.
    pub(super) fn are_complete(&self) -> bool {
        self.is_complete
    }

    /// Sets the subkey: the cipher of a block of zeros.
    pub(super) fn set<V: Carryless>(&mut self, subkey: &Block) {
        let subkey = u128::from_be_bytes(*subkey);
        // Multiplied by x, without a branch on the carry.
        let carry = (subkey >> 127).wrapping_neg();
        let shifted = subkey << 1 ^ carry & POLYNOMIAL;
        let shifted = if V::HIGH_FIRST { shifted.rotate_left(64) } else { shifted };
        self.falling[MAX_POWER - 1] = shifted.to_le_bytes();
        self.folded[MAX_POWER - 1] = (shifted ^ shifted.rotate_left(64)).to_le_bytes();
        self.highest = 1;
        self.most = self.most.max(1);
        self.is_complete = false;
    }

    /// Makes room for the powers for a long message; `None` if there is no memory for them.
    pub(super) fn make_room(&mut self) -> Option<()> {
        #[cfg(target_arch = "x86_64")]
        if self.strides.is_none() {
            self.strides = Some(Strides::zeroed()?);
        }
        Some(())
    }

    /// Computes the powers for a long message.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn complete<V: Carryless>(&mut self) {
        if self.is_complete {
            return;
        }
        // SAFETY: the caller's promise; a row has as many blocks as any vector.
        unsafe {
            self.reach::<V>(MAX_SHORT_POWER.max((2 * STRIDES + 1) * V::BLOCKS));
            #[cfg(target_arch = "aarch64")]
            for pair in 0..STRIDES {
                let first = 2 * (STRIDES - pair);
                let (one, other): (Power<V>, Power<V>) = (self.splat(first), self.splat(first - 1));
                let folded = one.whole.fold_two(other.whole);
                self.pairs[pair] = [one.whole.block(), other.whole.block(), folded.block()];
            }
            #[cfg(target_arch = "x86_64")]
            {
                let none = || Strides::zeroed().expect("there is memory");
                let mut strides = self.strides.take().unwrap_or_else(none);
                for step in 0..2 * STRIDES {
                    let power: Power<V> = self.splat((2 * STRIDES - step) * V::BLOCKS);
                    power.whole.store(strides.whole[step].as_mut_ptr().cast());
                    power.folded.store(strides.folded[step].as_mut_ptr().cast());
                }
                self.strides = Some(strides);
            }
        }
        self.is_complete = true;
    }

    /// The powers for a chunk of a long message whose first register has this index in the two
    /// chunks.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub(super) fn pairs(&self, stride: usize) -> &[Pair] {
        &self.pairs[stride / 2..][..STRIDES / 2]
    }

    /// The powers for the registers of a long message, which must be [complete](Powers::complete).
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn strides(&self) -> &Strides {
        self.strides.as_deref().expect("powers for a long message are complete")
    }

    /// Computes the powers up to `power` (at most [`MAX_POWER`]).
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn reach<V: Carryless>(&mut self, power: usize) {
        // SAFETY: the caller's promise; a power at most `MAX_POWER` has its place.
        unsafe {
            while self.highest < power {
                // Most of these products don't depend on the previous one.
                let factor = 1 << self.highest.ilog2();
                let count = V::BLOCKS.min(factor);
                let lower: Power<V> = self.load(self.highest - factor + count);
                let next = Sum::product(lower.whole, self.splat(factor)).reduced();
                self.highest += count;
                let place = MAX_POWER - self.highest;
                let whole = self.falling[place..].as_mut_ptr().cast();
                let folded = self.folded[place..].as_mut_ptr().cast();
                self.most = self.most.max(self.highest);
                if count == V::BLOCKS {
                    next.store(whole);
                    fold_halves(next).store(folded);
                } else {
                    next.store_bytes(whole, count * BLOCK);
                    fold_halves(next).store_bytes(folded, count * BLOCK);
                }
            }
        }
    }

    /// The powers from `power` (which has been [reached](Powers::reach)) down, one a lane; lanes
    /// past the first power are zero.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn load<V: Carryless>(&self, power: usize) -> Power<V> {
        let place = MAX_POWER - power;
        let whole: &[Block] = &self.falling[place..][..V::BLOCKS];
        let folded: &[Block] = &self.folded[place..][..V::BLOCKS];
        // SAFETY: the slices have as many blocks as the vector.
        unsafe {
            let whole = V::load(whole.as_ptr().cast());
            Power { whole, folded: V::load(folded.as_ptr().cast()) }
        }
    }

    /// The same power, which has been [reached](Powers::reach), in every lane.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn splat<V: Carryless>(&self, power: usize) -> Power<V> {
        let place = MAX_POWER - power;
        // SAFETY: the caller's promise.
        unsafe {
            Power { whole: V::splat(&self.falling[place]), folded: V::splat(&self.folded[place]) }
        }
    }
}

impl Clone for Powers {
    /// Omits the powers that only a long message needs; the copy recomputes them.
    fn clone(&self) -> Powers {
        Powers {
            #[cfg(target_arch = "x86_64")]
            strides: None,
            is_complete: false,
            ..*self
        }
    }
}

impl Drop for Powers {
    fn drop(&mut self) {
        let computed = MAX_POWER - self.most..MAX_POWER;
        wipe(&mut self.falling[computed.clone()]);
        wipe(&mut self.folded[computed]);
        #[cfg(target_arch = "aarch64")]
        wipe(self.pairs.as_flattened_mut());
    }
}

#[cfg(target_arch = "x86_64")]
impl Strides {
    /// No powers yet; `None` if there is no memory for them.
    fn zeroed() -> Option<Aligned<Strides>> {
        // SAFETY: the fields are arrays of numbers.
        unsafe { zeros() }
    }

    /// The power for a register, in every lane.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn power<V: Carryless>(&self, step: usize) -> Power<V> {
        let whole: &[Block] = &self.whole[step][..V::BLOCKS];
        let folded: &[Block] = &self.folded[step][..V::BLOCKS];
        // SAFETY: the slices have as many blocks as the vector.
        unsafe {
            let whole = V::load(whole.as_ptr().cast());
            Power { whole, folded: V::load(folded.as_ptr().cast()) }
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for Strides {
    fn drop(&mut self) {
        wipe(self.whole.as_flattened_mut());
        wipe(self.folded.as_flattened_mut());
    }
}

/// Two powers, and the sums of their halves from [`Carryless::fold_two`].
#[cfg(target_arch = "aarch64")]
pub(super) type Pair = [Block; 3];

/// The factors of blocks, one per lane.
#[derive(Clone, Copy)]
pub(super) struct Power<V> {
    whole: V,
    folded: V,
}

/// A sum of 256-bit products in every lane, not reduced yet.
#[derive(Clone, Copy)]
pub(super) struct Sum<V> {
    low: V,
    /// The sum of the products of folded factors, as in Karatsuba's method: with `low` and `high`
    /// added it is the part between them.
    middle: V,
    high: V,
}

impl<V: Carryless> Sum<V> {
    /// The sum zero, from a vector of zeros.
    #[inline(always)]
    pub(super) fn of(zero: V) -> Sum<V> {
        Sum { low: zero, middle: zero, high: zero }
    }

    /// The product of one pair of blocks in every lane.
    #[inline(always)]
    pub(super) fn product(block: V, power: Power<V>) -> Sum<V> {
        Sum {
            low: block.multiply_low(power.whole),
            middle: fold_halves(block).multiply_low(power.folded),
            high: block.multiply_high(power.whole),
        }
    }

    /// Adds a sum, lane by lane.
    #[inline(always)]
    pub(super) fn add(&mut self, other: Sum<V>) {
        self.low = self.low.xor(other.low);
        self.middle = self.middle.xor(other.middle);
        self.high = self.high.xor(other.high);
    }

    /// Adds the products of two blocks, with instructions for both if possible.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, which has registers of one block.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub(super) unsafe fn add_two(&mut self, one: V, other: V, powers: &Pair) {
        // SAFETY: the caller's promise.
        let [first, second, folded]: [V; 3] = unsafe {
            [V::load_block(&powers[0]), V::load_block(&powers[1]), V::load_block(&powers[2])]
        };
        let sums = one.fold_two(other);
        self.low = self.low.plus(one.multiply_low(first), other.multiply_low(second));
        self.middle = self.middle.plus(sums.multiply_low(folded), sums.multiply_high(folded));
        self.high = self.high.plus(one.multiply_high(first), other.multiply_high(second));
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

    /// The sum of all lanes, reduced, in the first lane; the rest are zero.
    #[inline(always)]
    pub(super) fn total(self) -> V {
        let none = Sum::of(self.low.xor(self.low));
        Sum::across(&[self, none, none, none]).reduced()
    }

    /// Reduces every lane to 128 bits: two Montgomery steps of 64 bits, from below.
    #[inline(always)]
    pub(super) fn reduced(self) -> V {
        // SAFETY: a value proves the instructions.
        let polynomial = unsafe { V::splat(&POLYNOMIAL.to_le_bytes()) };
        let between = self.middle.xor(self.low).xor(self.high);
        let middle = between.xor(fold(self.low, polynomial));
        self.high.xor(fold(middle, polynomial)).to_number()
    }
}

/// The sum of the halves of each lane, in both halves.
#[inline(always)]
fn fold_halves<V: Carryless>(block: V) -> V {
    block.xor(block.swap_halves())
}

/// Adds a multiple of the polynomial that clears the lower half, and moves up by that half.
#[inline(always)]
fn fold<V: Carryless>(sum: V, polynomial: V) -> V {
    sum.swap_halves().xor(sum.multiply_low_by_high(polynomial))
}

/// GHASH's polynomial, its bits reversed, without its highest term.
const POLYNOMIAL: u128 = 0xC200_0000_0000_0000_0000_0000_0000_0001;
