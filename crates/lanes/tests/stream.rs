//! GCM of messages in pieces, for every kernel that supports it on this CPU.

mod common;

use std::fs;
use std::path::Path;

use common::sys::Guarded;
use common::{BlockCipher, Random};
use evener_core::{Direction, Key};
use evener_lanes::stream::{Gcm, Text};
use evener_lanes::{Kernel, available};

#[test]
fn published_vectors_hold() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/aes-gcm.txt");
    let text = fs::read_to_string(path).unwrap();
    for kernel in kernels() {
        let mut count = 0;
        for line in text.lines().filter(|line| line.starts_with("aes-")) {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, key, iv, aad, plain, sealed] = fields[..] else { panic!("{line}") };
            let (iv, aad, sealed) = (from_hex(iv), from_hex(aad), from_hex(sealed));
            let mut gcm = Gcm::new(kernel, &from_hex(key)).unwrap();
            // An exclamation mark means that decryption must fail.
            if plain != "!" {
                assert!(seal(&mut gcm, &iv, &aad, &from_hex(plain)) == sealed, "{line}");
            }
            let (text, tag) = sealed.split_at(sealed.len() - 16);
            gcm.start(&iv).unwrap();
            gcm.add_data(&aad).unwrap();
            let mut text = text.to_vec();
            gcm.transform(Direction::Decrypt, Text::InPlace(&mut text)).unwrap();
            assert_eq!(gcm.verify(tag), Some(plain != "!"), "{line}");
            assert!(plain == "!" || text == from_hex(plain), "{line}");
            count += 1;
        }
        assert!(count > 1000);
    }
}

#[test]
fn pieces_of_any_length_give_what_the_standard_says() {
    let mut random = Random(31);
    for kernel in kernels() {
        for round in 0..400 {
            let key = random.bytes([16, 24, 32][round % 3]);
            let longest = [20, 100, 600, 3000, 20_000][random.below(5)];
            let iv_length = [12, 12, 1 + random.below(40), 16, 128][random.below(5)];
            let case = Case {
                iv: random.bytes(iv_length),
                aad: {
                    let length = [0, 5, 13, random.below(40), random.below(400)][random.below(5)];
                    random.bytes(length)
                },
                plain: {
                    let length = random.below(longest);
                    random.bytes(length)
                },
                key,
            };
            case.judge(kernel, &mut random);
        }
    }
}

/// The lower half of the counter's lower half wraps, in a short piece and in a long one.
#[test]
fn counters_wrap_as_the_standard_says() {
    let mut random = Random(32);
    for kernel in kernels() {
        for before in [0, 1, 2, 5, 31, 33, 64, 100, 300] {
            let key = random.bytes(16);
            let first = u128::from_be_bytes(random.bytes(16).try_into().unwrap());
            let first = first & !0xFFFF_FFFF | u128::from(u32::MAX - before);
            let iv = iv_for(&Reference::new(&key), first).to_vec();
            for length in [1, 16, 33, 100, 700, 6000] {
                let (aad, plain) = (random.bytes(5), random.bytes(length));
                let case = Case { key: key.clone(), iv: iv.clone(), aad, plain };
                case.judge(kernel, &mut random);
            }
        }
    }
}

#[test]
fn a_clone_goes_on_by_itself_and_keys_can_be_replaced() {
    let mut random = Random(33);
    for kernel in kernels() {
        let (key, other) = (random.bytes(16), random.bytes(16));
        let (iv, plain) = (random.bytes(12), random.bytes(9000));
        let mut gcm = Gcm::new(kernel, &other).unwrap();
        seal(&mut gcm, &iv, &[], &plain);
        gcm.set_key(&key).unwrap();
        gcm.start(&iv).unwrap();
        let mut text = plain.clone();
        gcm.transform(Direction::Encrypt, Text::InPlace(&mut text[..5001])).unwrap();
        let mut clone = gcm.try_clone().unwrap();
        clone.transform(Direction::Encrypt, Text::InPlace(&mut random.bytes(77))).unwrap();
        assert_ne!(clone.tag(), gcm.try_clone().unwrap().tag());
        drop(clone);
        gcm.transform(Direction::Encrypt, Text::InPlace(&mut text[5001..])).unwrap();
        text.extend(gcm.tag().unwrap());
        assert!(text == Reference::new(&key).seal(&iv, &[], &plain));
    }
}

#[test]
fn wrong_tags_are_found() {
    let mut random = Random(34);
    for kernel in kernels() {
        let (iv, plain) = (random.bytes(12), random.bytes(100));
        let mut gcm = Gcm::new(kernel, &random.bytes(32)).unwrap();
        let sealed = seal(&mut gcm, &iv, b"data", &plain);
        let (text, tag) = sealed.split_at(plain.len());
        let mut verify = |text: &[u8], aad: &[u8], tag: &[u8]| {
            gcm.start(&iv).unwrap();
            gcm.add_data(aad).unwrap();
            gcm.transform(Direction::Decrypt, Text::InPlace(&mut text.to_vec())).unwrap();
            gcm.verify(tag).unwrap()
        };
        assert!(verify(text, b"data", tag) && verify(text, b"data", &tag[..4]));
        assert!(!verify(text, b"date", tag) && !verify(text, b"data", &[]));
        assert!(!verify(text, b"data", &[tag, &[0]].concat()));
        for bit in 0..128 {
            let mut tag = tag.to_vec();
            tag[bit / 8] ^= 1 << (bit % 8);
            assert!(!verify(text, b"data", &tag));
        }
        for place in 0..text.len() {
            let mut text = text.to_vec();
            text[place] ^= 0x10;
            assert!(!verify(&text, b"data", tag));
        }
    }
}

/// Texts begin or end at the border of mapped memory.
#[test]
fn nothing_outside_the_text_is_touched() {
    let mut random = Random(35);
    let mut places: Vec<_> = (0..2).map(|_| Guarded::new(20_000)).collect();
    let [input, output] = &mut places[..] else { unreachable!() };
    for kernel in kernels() {
        let mut gcm = Gcm::new(kernel, &random.bytes(16)).unwrap();
        for length in (0..140).chain([511, 512, 513, 1024, 1100, 4096, 5000, 16_383]) {
            for at_end in [false, true] {
                for direction in [Direction::Encrypt, Direction::Decrypt] {
                    let input = edge(input, length, at_end);
                    let output = edge(output, length, at_end);
                    gcm.start(&[1; 12]).unwrap();
                    gcm.add_data(&input[..length.min(13)]).unwrap();
                    gcm.transform(direction, Text::Apart(input, output)).unwrap();
                    gcm.start(&[1; 12]).unwrap();
                    gcm.transform(direction, Text::InPlace(input)).unwrap();
                    assert!(input == output);
                }
            }
        }
    }
}

fn edge(place: &mut Guarded, length: usize, at_end: bool) -> &mut [u8] {
    let bytes = place.bytes();
    let start = if at_end { bytes.len() - length } else { 0 };
    &mut bytes[start..start + length]
}

/// A message.
struct Case {
    key: Vec<u8>,
    iv: Vec<u8>,
    aad: Vec<u8>,
    plain: Vec<u8>,
}

impl Case {
    /// Encrypts and decrypts it in pieces, in place and apart.
    fn judge(&self, kernel: Kernel, random: &mut Random) {
        let Case { key, iv, aad, plain } = self;
        let place = format!("{}, {} {} {}", kernel.name(), iv.len(), aad.len(), plain.len());
        let sealed = Reference::new(key).seal(iv, aad, plain);
        let (cipher, tag) = sealed.split_at(plain.len());
        let mut gcm = Gcm::new(kernel, key).unwrap();
        for (direction, from, to) in
            [(Direction::Encrypt, &plain[..], cipher), (Direction::Decrypt, cipher, &plain[..])]
        {
            gcm.start(iv).unwrap();
            in_pieces(random, aad.len(), |start, end| gcm.add_data(&aad[start..end]).unwrap());
            let mut result = from.to_vec();
            let apart = random.below(2) == 0;
            in_pieces(random, from.len(), |start, end| {
                let output = &mut result[start..end];
                let text = match apart {
                    true => Text::Apart(&from[start..end], output),
                    false => Text::InPlace(output),
                };
                gcm.transform(direction, text).unwrap();
            });
            assert!(result == to, "{direction} {place}");
            match direction {
                Direction::Encrypt => assert_eq!(gcm.tag().unwrap(), tag, "{place}"),
                Direction::Decrypt => assert_eq!(gcm.verify(tag), Some(true), "{place}"),
            }
        }
    }
}

/// Another engine processes some of the whole blocks, in CTR.
#[test]
fn parts_of_another_engine_fit_in() {
    let mut random = Random(36);
    let mut parts = 0;
    for kernel in kernels() {
        for round in 0..300 {
            let key = random.bytes([16, 24, 32][round % 3]);
            let iv = random.bytes([12, 12, 17][round % 3]);
            let (aad_length, length) = (random.below(40), random.below(5000));
            let (aad, plain) = (random.bytes(aad_length), random.bytes(length));
            let reference = Reference::new(&key);
            let sealed = reference.seal(&iv, &aad, &plain);
            let (cipher, tag) = sealed.split_at(length);
            for (direction, from, to) in
                [(Direction::Encrypt, &plain[..], cipher), (Direction::Decrypt, cipher, &plain[..])]
            {
                let mut gcm = Gcm::new(kernel, &key).unwrap();
                assert_eq!(gcm.counter(16), None);
                gcm.start(&iv).unwrap();
                gcm.add_data(&aad).unwrap();
                let mut result = from.to_vec();
                let mut other_goes_first = random.below(2) == 0;
                in_pieces(&mut random, length, |start, end| {
                    let mut middle = start;
                    let whole = (end - start) / 16 * 16;
                    let counter = gcm.counter(whole).filter(|_| other_goes_first);
                    other_goes_first = !other_goes_first;
                    if let Some(counter) = counter {
                        middle += whole;
                        let pad = reference.cipher.encrypt(counter);
                        assert_eq!(gcm.pad(counter), pad);
                        reference.ctr(counter, &mut result[start..middle]);
                        gcm.add_ciphertext(&cipher[start..middle]).unwrap();
                        parts += 1;
                    }
                    gcm.transform(direction, Text::InPlace(&mut result[middle..end])).unwrap();
                });
                assert!(result == to, "{direction}, {length} bytes");
                assert_eq!(gcm.verify(tag), Some(true), "{direction}, {length} bytes");
            }
        }
        assert!(parts > 300);
    }
}

/// Another engine counts with all bits of the counter, and processes whole blocks.
#[test]
fn another_engine_gets_no_part_that_it_would_do_wrongly() {
    for kernel in kernels() {
        let key = [3; 16];
        let first = 5 << 64 | u128::from(u32::MAX - 4);
        let mut gcm = Gcm::new(kernel, &key).unwrap();
        gcm.start(&iv_for(&Reference::new(&key), first)).unwrap();
        // None of the 4 blocks before the counter wraps has begun.
        assert_eq!(gcm.counter(64), Some((first + 1).to_be_bytes()));
        assert!(gcm.counter(80).is_none() && gcm.counter(17).is_none());
        gcm.transform(Direction::Encrypt, Text::InPlace(&mut [0; 7])).unwrap();
        assert!(gcm.counter(16).is_none() && gcm.add_ciphertext(&[0; 16]).is_none());
    }
}

/// Cuts `length` bytes: all in one, or at random places.
fn in_pieces(random: &mut Random, length: usize, mut each: impl FnMut(usize, usize)) {
    let longest = [length, 1 + length / 2, 40, 700, 5000][random.below(5)].max(1);
    let mut done = 0;
    while done < length {
        let count = if longest == length { length } else { 1 + random.below(longest) };
        let end = length.min(done + count);
        each(done, end);
        done = end;
    }
}

fn seal(gcm: &mut Gcm, iv: &[u8], aad: &[u8], plain: &[u8]) -> Vec<u8> {
    let mut text = plain.to_vec();
    gcm.start(iv).unwrap();
    gcm.add_data(aad).unwrap();
    gcm.transform(Direction::Encrypt, Text::InPlace(&mut text)).unwrap();
    text.extend(gcm.tag().unwrap());
    text
}

fn kernels() -> Vec<Kernel> {
    let mut kernels: Vec<_> =
        available().into_iter().filter(|&kernel| Gcm::new(kernel, &[0; 16]).is_some()).collect();
    if kernels.is_empty() {
        evener_core::skipped!("no kernel of SIMD does GCM on this CPU");
    }
    kernels.push(Kernel::portable());
    kernels
}

/// GCM, bit by bit as in NIST SP 800-38D.
struct Reference {
    cipher: BlockCipher,
    subkey: u128,
}

impl Reference {
    fn new(key: &[u8]) -> Reference {
        let cipher = BlockCipher::new(&Key::new(key).unwrap());
        let subkey = u128::from_be_bytes(cipher.encrypt([0; 16]));
        Reference { cipher, subkey }
    }

    fn seal(&self, iv: &[u8], aad: &[u8], plain: &[u8]) -> Vec<u8> {
        let first = match iv.len() {
            12 => u128::from_be_bytes([iv, &[0, 0, 0, 1]].concat().try_into().unwrap()),
            _ => self.hash(&[], iv),
        };
        let mut counter = first;
        let mut text = Vec::new();
        for block in plain.chunks(16) {
            counter = counter & !0xFFFF_FFFF | u128::from((counter as u32).wrapping_add(1));
            let pad = self.cipher.encrypt(counter.to_be_bytes());
            text.extend(block.iter().zip(pad).map(|(byte, pad)| byte ^ pad));
        }
        let pad = u128::from_be_bytes(self.cipher.encrypt(first.to_be_bytes()));
        let tag = self.hash(aad, &text) ^ pad;
        text.extend(tag.to_be_bytes());
        text
    }

    /// CTR of NIST SP 800-38A.
    fn ctr(&self, counter: [u8; 16], text: &mut [u8]) {
        let mut counter = u128::from_be_bytes(counter);
        for block in text.chunks_mut(16) {
            let pad = self.cipher.encrypt(counter.to_be_bytes());
            block.iter_mut().zip(pad).for_each(|(byte, pad)| *byte ^= pad);
            counter = counter.wrapping_add(1);
        }
    }

    fn hash(&self, aad: &[u8], text: &[u8]) -> u128 {
        let mut sum = 0;
        for block in aad.chunks(16).chain(text.chunks(16)) {
            let mut filled = [0; 16];
            filled[..block.len()].copy_from_slice(block);
            sum = multiply(sum ^ u128::from_be_bytes(filled), self.subkey);
        }
        let lengths = (aad.len() as u128) << 67 | (text.len() as u128) << 3;
        multiply(sum ^ lengths, self.subkey)
    }
}

/// The product in GCM's field.
fn multiply(one: u128, mut other: u128) -> u128 {
    let mut product = 0;
    for bit in (0..128).rev() {
        if one >> bit & 1 == 1 {
            product ^= other;
        }
        other = (other >> 1) ^ ((other & 1) * (0xE1 << 120));
    }
    product
}

/// The IV of 16 bytes whose message has this first counter block.
fn iv_for(reference: &Reference, first: u128) -> [u8; 16] {
    // The inverse is the power 2¹²⁸ - 2: the product of all squares but the first.
    let mut inverse = 1 << 127;
    let mut square = reference.subkey;
    for _ in 1..128 {
        square = multiply(square, square);
        inverse = multiply(inverse, square);
    }
    multiply(multiply(first, inverse) ^ 128, inverse).to_be_bytes()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.trim_matches('-');
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}
