//! The reference for the tests: the modes of NIST SP 800-38A, written as in the standard, over the
//! `aes` crate's block cipher, with no work shared between messages.

#![allow(dead_code, reason = "each test uses some of it")]

pub(crate) mod sys;

use aes::cipher::generic_array::GenericArray;
use aes::cipher::{BlockEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256};
use evener_core::{Cipher, Direction, Key, Mode, Padding};
use evener_lanes::Kernel;

/// The modes of the reference that a kernel supports.
pub(crate) fn offers(kernel: Kernel) -> Vec<(Cipher, Direction)> {
    let both = |&cipher| [(cipher, Direction::Encrypt), (cipher, Direction::Decrypt)];
    let modes = [Mode::Ecb, Mode::Cbc, Mode::Ctr];
    let all = Cipher::ALL.iter().filter(|cipher| modes.contains(&cipher.mode())).flat_map(both);
    all.filter(|&(cipher, direction)| kernel.does(cipher, direction)).collect()
}

/// Encrypts a message.
pub(crate) fn encrypt(
    cipher: Cipher,
    key: &Key,
    iv: &[u8],
    padding: Padding,
    text: &[u8],
) -> Vec<u8> {
    let mut text = text.to_vec();
    if padding == Padding::Pkcs7 {
        let added = 16 - text.len() % 16;
        text.resize(text.len() + added, added as u8);
    }
    let block_cipher = BlockCipher::new(key);
    let mut chain = [0; 16];
    chain[..iv.len()].copy_from_slice(iv);
    let mut counter = u128::from_be_bytes(chain);
    for block in text.chunks_mut(16) {
        match cipher.mode() {
            Mode::Ctr => {
                add(block, &block_cipher.encrypt(counter.to_be_bytes()));
                counter = counter.wrapping_add(1);
            }
            Mode::Cbc => {
                add(block, &chain);
                chain = block_cipher.encrypt(block.try_into().unwrap());
                block.copy_from_slice(&chain);
            }
            _ => block.copy_from_slice(&block_cipher.encrypt((&*block).try_into().unwrap())),
        }
    }
    text
}

fn add(block: &mut [u8], other: &[u8]) {
    for (byte, other) in block.iter_mut().zip(other) {
        *byte ^= other;
    }
}

pub(crate) enum BlockCipher {
    Aes128(Aes128),
    Aes192(Aes192),
    Aes256(Aes256),
}

impl BlockCipher {
    pub(crate) fn new(key: &Key) -> BlockCipher {
        let key = key.bytes();
        match key.len() {
            16 => BlockCipher::Aes128(Aes128::new_from_slice(key).unwrap()),
            24 => BlockCipher::Aes192(Aes192::new_from_slice(key).unwrap()),
            _ => BlockCipher::Aes256(Aes256::new_from_slice(key).unwrap()),
        }
    }

    pub(crate) fn encrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let mut block = GenericArray::from(block);
        match self {
            BlockCipher::Aes128(cipher) => cipher.encrypt_block(&mut block),
            BlockCipher::Aes192(cipher) => cipher.encrypt_block(&mut block),
            BlockCipher::Aes256(cipher) => cipher.encrypt_block(&mut block),
        }
        block.into()
    }
}

/// Numbers that are the same in every run (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}
