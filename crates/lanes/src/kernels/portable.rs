//! GCM and CBC without instructions for them, in a time that depends only on lengths: AES by the
//! crate `aes`, bitsliced if the CPU has no instructions for AES, and the hash by multiplications
//! of integers with holes, as in Thomas Pornin's BearSSL (`ghash_ctmul64`).

use std::marker::PhantomData;
use std::{ptr, slice};

use aes::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256};
use evener_core::Direction;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::vector::{BLOCK, Block};
use crate::stream::{End, Pad, Piece, Text};

/// An AES key with the subkey of the hash.
#[derive(Clone)]
pub(crate) struct Keyed {
    cipher: Cipher,
    subkey: Subkey,
    key_length: usize,
}

/// An AES key.
#[derive(Clone)]
pub(super) enum Cipher {
    Aes128(Aes128),
    Aes192(Aes192),
    Aes256(Aes256),
}

impl Keyed {
    pub(crate) fn new(key: &[u8]) -> Option<Keyed> {
        let cipher = Cipher::new(key)?;
        let mut subkey = [aes::Block::default()];
        cipher.encrypt(&mut subkey);
        let keyed = Keyed { cipher, subkey: Subkey::new(&subkey[0].into()), key_length: key.len() };
        wipe(&mut subkey);
        Some(keyed)
    }

    pub(crate) fn key_length(&self) -> usize {
        self.key_length
    }

    #[inline(never)]
    pub(crate) fn hash(&mut self, hash: &mut Block, data: &[u8]) {
        for part in data.chunks(BLOCK) {
            let mut block = Block::default();
            block[..part.len()].copy_from_slice(part);
            *hash = self.subkey.add(hash, &block);
        }
    }

    #[inline(never)]
    pub(crate) fn transform(&mut self, direction: Direction, piece: &mut Piece<'_>) {
        if let Some(prefix) = piece.prefix {
            *piece.hash = self.subkey.add(piece.hash, prefix);
        }
        if let Some(first) = piece.first {
            *piece.tag_pad = self.pad(first);
        }
        let mut counter = piece.counter;
        let mut done = 0;
        let mut pads = [aes::Block::default(); TOGETHER];
        while done < piece.length {
            for pad in &mut pads {
                *pad = block(counter).into();
                // The lower half of the lower number does not wrap within the piece.
                counter.1 = counter.1.wrapping_add(1);
            }
            self.cipher.encrypt(&mut pads);
            for pad in &pads {
                let count = BLOCK.min(piece.length - done);
                if count == 0 {
                    break;
                }
                let mut before = Block::default();
                // SAFETY: this many bytes are left in the input, which may be read, and in the
                // output, which may be written to and has no other reference; each slice ends
                // before the next one begins, since the two may be the same bytes.
                unsafe {
                    before[..count]
                        .copy_from_slice(slice::from_raw_parts(piece.input.add(done), count));
                }
                let mut after = Block::default();
                for ((after, before), pad) in after.iter_mut().zip(before).zip(pad).take(count) {
                    *after = before ^ pad;
                }
                // SAFETY: as above.
                unsafe {
                    slice::from_raw_parts_mut(piece.output.add(done), count)
                        .copy_from_slice(&after[..count]);
                }
                let ciphertext = match direction {
                    Direction::Encrypt => after,
                    Direction::Decrypt => before,
                };
                if count == BLOCK {
                    *piece.hash = self.subkey.add(piece.hash, &ciphertext);
                } else {
                    piece.rest.ciphertext[..BLOCK].copy_from_slice(&ciphertext);
                    piece.rest.pad[..BLOCK].copy_from_slice(pad);
                }
                done += count;
            }
        }
        wipe(&mut pads);
    }

    #[inline(never)]
    pub(crate) fn finish(&mut self, end: &End<'_>) -> Block {
        let mut hash = *end.hash;
        for block in end.rest.into_iter().chain([&block(end.lengths)]) {
            hash = self.subkey.add(&hash, block);
        }
        let pad = match end.pad {
            Pad::Made(pad) => *pad,
            Pad::Of(counter) => self.pad(counter),
            Pad::None => return hash,
        };
        (u128::from_ne_bytes(hash) ^ u128::from_ne_bytes(pad)).to_ne_bytes()
    }

    /// The cipher of a counter block.
    fn pad(&self, counter: (u64, u64)) -> Block {
        let mut pad = [block(counter).into()];
        self.cipher.encrypt(&mut pad);
        pad[0].into()
    }
}

impl Cipher {
    /// `None` if it is no AES key.
    pub(super) fn new(key: &[u8]) -> Option<Cipher> {
        Some(match key.len() {
            16 => Cipher::Aes128(Aes128::new_from_slice(key).ok()?),
            24 => Cipher::Aes192(Aes192::new_from_slice(key).ok()?),
            32 => Cipher::Aes256(Aes256::new_from_slice(key).ok()?),
            _ => return None,
        })
    }

    /// Encrypts or decrypts whole blocks in CBC.
    pub(super) fn chain(&self, direction: Direction, iv: Block, text: &mut Chained<'_>) {
        let mut before = iv.into();
        let mut blocks = [aes::Block::default(); TOGETHER];
        let together = match direction {
            // Each block waits for the one before.
            Direction::Encrypt => 1,
            Direction::Decrypt => TOGETHER,
        };
        let mut done = 0;
        while done < text.blocks() {
            let blocks = &mut blocks[..together.min(text.blocks() - done)];
            for (place, block) in blocks.iter_mut().enumerate() {
                *block = text.read(done + place).into();
            }
            match direction {
                Direction::Encrypt => {
                    add(&mut blocks[0], &before);
                    self.encrypt(blocks);
                    before = blocks[0];
                }
                Direction::Decrypt => {
                    let mut ciphertexts = [aes::Block::default(); TOGETHER];
                    ciphertexts[..blocks.len()].copy_from_slice(blocks);
                    self.decrypt(blocks);
                    for (block, ciphertext) in blocks.iter_mut().zip(ciphertexts) {
                        add(block, &before);
                        before = ciphertext;
                    }
                }
            }
            for (place, block) in blocks.iter().enumerate() {
                text.write(done + place, &(*block).into());
            }
            done += blocks.len();
        }
        wipe(&mut blocks);
    }

    fn decrypt(&self, blocks: &mut [aes::Block]) {
        match self {
            Cipher::Aes128(cipher) => cipher.decrypt_blocks(blocks),
            Cipher::Aes192(cipher) => cipher.decrypt_blocks(blocks),
            Cipher::Aes256(cipher) => cipher.decrypt_blocks(blocks),
        }
    }

    fn encrypt(&self, blocks: &mut [aes::Block]) {
        match self {
            Cipher::Aes128(cipher) => cipher.encrypt_blocks(blocks),
            Cipher::Aes192(cipher) => cipher.encrypt_blocks(blocks),
            Cipher::Aes256(cipher) => cipher.encrypt_blocks(blocks),
        }
    }
}

/// Blocks of a text, and the places of their results, which are apart from them or not after them.
pub(super) struct Chained<'t> {
    input: *const u8,
    output: *mut u8,
    /// Length in bytes.
    length: usize,
    text: PhantomData<&'t mut [u8]>,
}

impl<'t> Chained<'t> {
    /// The `length` bytes of a text from `start` on, which must exist: whole blocks.
    pub(super) fn of(text: &'t mut Text<'_>, start: usize, length: usize) -> Chained<'t> {
        let (input, output) = text.places(start, length);
        Chained { input, output, length, text: PhantomData }
    }

    fn blocks(&self) -> usize {
        self.length / BLOCK
    }

    fn read(&self, index: usize) -> Block {
        assert!(index < self.blocks());
        let mut block = Block::default();
        // SAFETY: this many blocks may be read there, as `Text::places` promised `of`.
        unsafe {
            ptr::copy_nonoverlapping(self.input.add(index * BLOCK), block.as_mut_ptr(), BLOCK)
        }
        block
    }

    fn write(&mut self, index: usize, block: &Block) {
        assert!(index < self.blocks());
        // SAFETY: this many blocks may be written there, as in `read`.
        unsafe { ptr::copy_nonoverlapping(block.as_ptr(), self.output.add(index * BLOCK), BLOCK) }
    }
}

fn add(block: &mut aes::Block, other: &aes::Block) {
    for (byte, other) in block.iter_mut().zip(other) {
        *byte ^= other;
    }
}

fn wipe(blocks: &mut [aes::Block]) {
    for block in blocks {
        block.as_mut_slice().zeroize();
    }
}

fn block((high, low): (u64, u64)) -> Block {
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

/// The key of the hash: its upper half, lower half and their sum, and the same with bits reversed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct Subkey {
    straight: [u64; 3],
    reversed: [u64; 3],
}

impl Subkey {
    fn new(block: &Block) -> Subkey {
        let straight = halves(block);
        Subkey { straight, reversed: straight.map(u64::reverse_bits) }
    }

    /// Returns the hash with one more block.
    fn add(&self, hash: &Block, block: &Block) -> Block {
        let sum = u128::from_ne_bytes(*hash) ^ u128::from_ne_bytes(*block);
        let sum = halves(&sum.to_ne_bytes());
        let (mut low, mut high) = ([0; 3], [0; 3]);
        for part in 0..3 {
            low[part] = carryless(sum[part], self.straight[part]);
            high[part] = carryless(sum[part].reverse_bits(), self.reversed[part]);
        }
        // The third products are those of sums (Karatsuba and Ofman's method).
        low[2] ^= low[0] ^ low[1];
        high[2] ^= high[0] ^ high[1];
        let high = high.map(|part| part.reverse_bits() >> 1);
        let [v0, v1, v2, v3] = [low[1], high[1] ^ low[2], low[0] ^ high[2], high[0]];
        // The product of reversed numbers must be shifted by one.
        let v3 = v3 << 1 | v2 >> 63;
        let v2 = v2 << 1 | v1 >> 63;
        let v1 = v1 << 1 | v0 >> 63;
        let v0 = v0 << 1;
        let v2 = v2 ^ v0 ^ v0 >> 1 ^ v0 >> 2 ^ v0 >> 7;
        let v1 = v1 ^ v0 << 63 ^ v0 << 62 ^ v0 << 57;
        let v3 = v3 ^ v1 ^ v1 >> 1 ^ v1 >> 2 ^ v1 >> 7;
        let v2 = v2 ^ v1 << 63 ^ v1 << 62 ^ v1 << 57;
        (u128::from(v3) << 64 | u128::from(v2)).to_be_bytes()
    }
}

/// The upper and the lower half, and their sum.
fn halves(block: &Block) -> [u64; 3] {
    let number = u128::from_be_bytes(*block);
    let (high, low) = ((number >> 64) as u64, number as u64);
    [high, low, high ^ low]
}

/// The lower half of the carryless product. Only every fourth bit is multiplied at once, so that
/// carries end in the bits between.
fn carryless(one: u64, other: u64) -> u64 {
    let part = |number: u64, place: usize| number & EVERY_FOURTH << place;
    (0..4).fold(0, |product, place| {
        let sum = (0..4).fold(0, |sum, first| {
            let second = (place + 4 - first) % 4;
            sum ^ part(one, first).wrapping_mul(part(other, second))
        });
        product | part(sum, place)
    })
}

const EVERY_FOURTH: u64 = 0x1111_1111_1111_1111;

/// Blocks that are encrypted together: the crate encrypts 4 at once in 64-bit words, and 8 with
/// instructions.
const TOGETHER: usize = 8;

/// The length in bytes of the blocks in which a piece's rest is kept.
pub(super) const REGISTERS: usize = BLOCK;

/// The most stack that making a key takes, in bytes.
pub(super) const STACK: usize = 8 << 10;
