//! ECB, CBC and CTR of messages in pieces, for every kernel on this CPU.

mod common;

use common::sys::Guarded;
use common::{Random, encrypt};
use evener_core::{Cipher, Direction, Key, Mode, Padding};
use evener_lanes::stream::{Chain, Confidential, Text};
use evener_lanes::{Kernel, available};

const BOTH: [Direction; 2] = [Direction::Encrypt, Direction::Decrypt];
const MODES: [Mode; 3] = [Mode::Ecb, Mode::Cbc, Mode::Ctr];

#[test]
fn pieces_of_any_length_give_what_the_standard_says() {
    let mut random = Random(41);
    for (kernel, modes) in kernels() {
        for round in 0..600 {
            let cipher = cipher(modes[round % modes.len()], [16, 24, 32][round / 3 % 3]);
            let key = random.bytes(cipher.key_length());
            let longest = [20, 100, 600, 3000, 20_000][random.below(5)];
            let mut length = random.below(longest);
            if cipher.mode() != Mode::Ctr {
                length -= length % 16;
            }
            let plain = random.bytes(length);
            judge(kernel, cipher, &key, &random.bytes(16), &plain, &mut random);
        }
    }
}

/// The counter has 128 bits.
#[test]
fn counters_wrap_as_the_standard_says() {
    let mut random = Random(42);
    for kernel in available() {
        for bits in [32, 64, 128] {
            for before in [0, 1, 2, 31, 33, 100] {
                let first = u128::MAX.checked_shr(128 - bits).unwrap() - before;
                let plain = random.bytes(3333);
                let (cipher, key) = (cipher(Mode::Ctr, 16), random.bytes(16));
                judge(kernel, cipher, &key, &first.to_be_bytes(), &plain, &mut random);
            }
        }
    }
}

#[test]
fn the_direction_and_the_key_can_be_changed() {
    let mut random = Random(43);
    for (kernel, modes) in kernels() {
        for &mode in modes {
            let cipher = cipher(mode, 32);
            let (key, iv, plain) = (random.bytes(32), random.bytes(16), random.bytes(800));
            let sealed = reference(cipher, &key, &iv, &plain);
            let other = random.bytes(32);
            let mut confidential =
                Confidential::new(kernel, mode, Direction::Decrypt, &other).unwrap();
            assert!(confidential.set_key(Direction::Decrypt, &key[..16]).is_none());
            confidential.set_key(Direction::Encrypt, &key).unwrap();
            for (direction, from, to) in
                [(Direction::Encrypt, &plain, &sealed), (Direction::Decrypt, &sealed, &plain)]
            {
                confidential.set_direction(direction).unwrap();
                let clone = confidential.try_clone().unwrap();
                let mut text = from.clone();
                clone.transform(&mut chain(&iv), Text::InPlace(&mut text)).unwrap();
                assert!(text == *to, "{} {mode:?} {direction}", kernel.name());
            }
        }
    }
}

#[test]
fn a_part_of_a_block_and_a_lack_of_room_are_refused() {
    for (kernel, modes) in kernels() {
        for &mode in modes {
            let cipher = Confidential::new(kernel, mode, Direction::Encrypt, &[1; 16]).unwrap();
            let mut text = [7; 40];
            let mut chain = chain(&[2; 16]);
            if mode != Mode::Ctr {
                assert!(cipher.transform(&mut chain, Text::InPlace(&mut text[..33])).is_none());
            }
            let apart = Text::Apart(&[0; 32], &mut text[..31]);
            assert!(cipher.transform(&mut chain, apart).is_none());
            assert!(cipher.transform(&mut chain, Text::Down(&mut text, 41)).is_none());
            assert_eq!((text, chain.block), ([7; 40], [2; 16]));
            assert!(Confidential::new(kernel, mode, Direction::Encrypt, &[1; 17]).is_none());
        }
        assert!(Confidential::new(kernel, Mode::Gcm, Direction::Encrypt, &[1; 16]).is_none());
    }
}

/// Texts begin or end at the border of mapped memory.
#[test]
fn nothing_outside_the_text_is_touched() {
    let mut places: Vec<_> = (0..2).map(|_| Guarded::new(20_000)).collect();
    let [input, output] = &mut places[..] else { unreachable!() };
    for (kernel, modes) in kernels() {
        for (mode, direction) in modes.iter().flat_map(|&mode| BOTH.map(|way| (mode, way))) {
            let cipher = Confidential::new(kernel, mode, direction, &[3; 16]).unwrap();
            for length in (0..140).chain([511, 512, 528, 1024, 1100, 4096, 5008, 16_383]) {
                if mode != Mode::Ctr && length % 16 > 0 {
                    continue;
                }
                for at_end in [false, true] {
                    let input = edge(input, length, at_end);
                    let output = edge(output, length, at_end);
                    let mut first = chain(&[1; 16]);
                    let mut second = first.clone();
                    cipher.transform(&mut first, Text::Apart(input, output)).unwrap();
                    cipher.transform(&mut second, Text::InPlace(input)).unwrap();
                    assert!(input == output && first.block == second.block);
                }
            }
        }
    }
}

/// All kernels, with their modes.
fn kernels() -> Vec<(Kernel, &'static [Mode])> {
    let mut kernels: Vec<_> = available().into_iter().map(|kernel| (kernel, &MODES[..])).collect();
    kernels.push((Kernel::portable(), &[Mode::Cbc]));
    kernels
}

fn edge(place: &mut Guarded, length: usize, at_end: bool) -> &mut [u8] {
    let bytes = place.bytes();
    let start = if at_end { bytes.len() - length } else { 0 };
    &mut bytes[start..start + length]
}

/// Encrypts and decrypts a message in pieces, in place, apart and further down.
fn judge(kernel: Kernel, cipher: Cipher, key: &[u8], iv: &[u8], plain: &[u8], random: &mut Random) {
    let sealed = reference(cipher, key, iv, plain);
    let unit = if cipher.mode() == Mode::Ctr { 1 } else { 16 };
    for (direction, from, to) in
        [(Direction::Encrypt, plain, &sealed[..]), (Direction::Decrypt, &sealed, plain)]
    {
        let confidential = Confidential::new(kernel, cipher.mode(), direction, key).unwrap();
        let (way, by) = (random.below(3), random.below(700));
        let mut chain = chain(iv);
        let mut result = if way == 2 { vec![0; by] } else { Vec::new() };
        result.extend(from);
        let longest = [from.len(), 1 + from.len() / 2, 40, 700][random.below(4)].max(1);
        let mut done = 0;
        while done < from.len() {
            let count = (1 + random.below(longest)).next_multiple_of(unit);
            let end = from.len().min(done + count);
            let text = match way {
                0 => Text::InPlace(&mut result[done..end]),
                1 => Text::Apart(&from[done..end], &mut result[done..end]),
                _ => Text::Down(&mut result[done..end + by], by),
            };
            confidential.transform(&mut chain, text).unwrap();
            done = end;
        }
        let place = format!("{} {cipher} {direction} {way} {by} {}", kernel.name(), from.len());
        assert!(&result[..from.len()] == to, "{place}");
    }
}

fn cipher(mode: Mode, key_length: usize) -> Cipher {
    let is_it = |cipher: &&Cipher| cipher.mode() == mode && cipher.key_length() == key_length;
    *Cipher::ALL.iter().find(is_it).unwrap()
}

fn chain(iv: &[u8]) -> Chain {
    Chain::new(iv.try_into().unwrap())
}

fn reference(cipher: Cipher, key: &[u8], iv: &[u8], plain: &[u8]) -> Vec<u8> {
    encrypt(cipher, &Key::new(key).unwrap(), iv, Padding::None, plain)
}
