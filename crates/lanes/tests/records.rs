//! Records of every shape, for every kernel that this CPU can run.

mod common;

use std::env;

use common::sys::Guarded;
use common::{Random, encrypt, offers};
use evener_core::{Cipher, Direction, Key, Mode, Padding, RecordLayout, Records, Rejection};
use evener_lanes::{Kernel, Prepared, available};

/// `EVENER_LANES_MESSAGES` sets the approximate number of records; 20,000 by default.
#[test]
fn random_records_give_what_the_standard_says() {
    let wanted = env::var("EVENER_LANES_MESSAGES").ok().and_then(|number| number.parse().ok());
    let wanted: usize = wanted.unwrap_or(20_000);
    let mut random = Random(21);
    let mut count = 0;
    if available().is_empty() {
        evener_core::skipped!("this CPU can run no kernel");
        return;
    }
    while count < wanted {
        for kernel in available() {
            for (cipher, direction) in offers(kernel) {
                let case = Case::random(&mut random, cipher, direction);
                case.run(kernel, &mut random);
                count += case.layout.count;
            }
        }
    }
    println!("{count} records");
}

/// Outputs of this size are written past the caches, if they are aligned and the kernel can; the
/// ARMv8 kernel can't.
#[cfg(target_arch = "x86_64")]
#[test]
fn large_records_give_what_the_standard_says() {
    let mut random = Random(22);
    let cipher = Cipher::Aes128Cbc;
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let layout = RecordLayout::packed(cipher, direction, Padding::None, 66, 128 * 1024);
        let case = Case::of(&mut random, cipher, direction, layout);
        for kernel in available() {
            let mut output = vec![CANARY; case.output_bytes + 64];
            let start = output.as_ptr().align_offset(64);
            let output = &mut output[start..start + case.output_bytes];
            case.judge(kernel, &case.ivs, &case.input, output, 0);
        }
    }
}

/// Inputs, IVs and outputs begin or end at the border of mapped memory.
#[test]
fn nothing_outside_the_buffers_is_touched() {
    let mut random = Random(23);
    let mut places: Vec<_> = (0..3).map(|_| Guarded::new(300_000)).collect();
    let [ivs, input, output] = &mut places[..] else { unreachable!() };
    for kernel in available() {
        for (cipher, direction) in offers(kernel) {
            for _ in 0..20 {
                let case = Case::random(&mut random, cipher, direction);
                for at_end in [false, true] {
                    let ivs = edge(ivs, case.ivs.len(), at_end);
                    ivs.copy_from_slice(&case.ivs);
                    let input = edge(input, case.input.len(), at_end);
                    input.copy_from_slice(&case.input);
                    let output = edge(output, case.output_bytes, at_end);
                    output.fill(CANARY);
                    case.judge(kernel, ivs, input, output, 0);
                }
            }
        }
    }
}

#[test]
fn records_of_another_cipher_are_left_alone() {
    for kernel in available() {
        let mut random = Random(24);
        let (cipher, direction) = (Cipher::Aes128Cbc, Direction::Encrypt);
        let layout = RecordLayout::packed(cipher, direction, Padding::None, 40, 64);
        let case = Case::of(&mut random, cipher, direction, layout);
        let mut output = vec![CANARY; case.output_bytes];
        let others = [(Cipher::Aes256Cbc, direction), (cipher, Direction::Decrypt)];
        for (cipher, direction) in others {
            let key = Key::new(&random.bytes(cipher.key_length())).unwrap();
            let mut prepared = kernel.prepare(cipher, direction, Some(&key)).unwrap();
            let mut records = case.records(&case.ivs, &case.input, &mut output);
            assert_eq!(prepared.process_records(&mut records), None);
            assert_eq!(records.done(), 0);
        }
        let mut without_key: Prepared = kernel.prepare(cipher, direction, None).unwrap();
        let mut records = case.records(&case.ivs, &case.input, &mut output);
        assert_eq!(without_key.process_records(&mut records), None);
        assert!(output.iter().all(|&byte| byte == CANARY));
    }
}

/// Records and their expected results.
struct Case {
    cipher: Cipher,
    direction: Direction,
    key: Key,
    layout: RecordLayout,
    ivs: Vec<u8>,
    input: Vec<u8>,
    output_bytes: usize,
    /// Each record's result, or `None` if it must be rejected.
    expected: Vec<Option<Vec<u8>>>,
}

impl Case {
    fn random(random: &mut Random, cipher: Cipher, direction: Direction) -> Case {
        let pads = cipher.mode() != Mode::Ctr && random.below(2) == 0;
        let padding = if pads { Padding::Pkcs7 } else { Padding::None };
        let longest = [17, 17, 65, 300, 1500][random.below(5)];
        let mut length = random.below(longest);
        match random.below(3) {
            // Whole lines and blocks use separate code.
            0 if !pads => length = length.next_multiple_of(64),
            _ if !pads => length -= length % cipher.block_length(),
            _ => {}
        }
        let most = [3, 33, 140][random.below(3)];
        let count = random.below(most);
        let mut layout = RecordLayout::packed(cipher, direction, padding, count, length);
        if random.below(2) == 0 {
            layout.input_stride += [1, 16, 64, 100][random.below(4)];
        }
        if random.below(2) == 0 {
            layout.output_stride += [1, 16, 64, 100][random.below(4)];
        }
        Case::of(random, cipher, direction, layout)
    }

    fn of(random: &mut Random, cipher: Cipher, direction: Direction, layout: RecordLayout) -> Case {
        let RecordLayout { count, length, padding, input_stride, output_stride } = layout;
        let key = Key::new(&random.bytes(cipher.key_length())).unwrap();
        let ivs = random.bytes(count * cipher.iv_length());
        let size = layout.input_length(cipher, direction);
        let mut input = random.bytes(reach(count, input_stride, size));
        let mut expected = Vec::new();
        for record in 0..count {
            let iv = &ivs[record * cipher.iv_length()..][..cipher.iv_length()];
            let place = &mut input[record * input_stride..][..size];
            if direction == Direction::Encrypt {
                expected.push(Some(encrypt(cipher, &key, iv, padding, place)));
                continue;
            }
            // Sometimes valid padding for a length that is not the record's.
            let is_forged = padding == Padding::Pkcs7 && length % 16 != 0 && random.below(8) == 0;
            let text = random.bytes(length - usize::from(is_forged));
            place.copy_from_slice(&encrypt(cipher, &key, iv, padding, &text));
            expected.push((!is_forged).then_some(text));
        }
        let output_bytes = reach(count, output_stride, layout.output_length(cipher, direction));
        Case { cipher, direction, key, layout, ivs, input, output_bytes, expected }
    }

    fn run(&self, kernel: Kernel, random: &mut Random) {
        let (before, after) = (random.below(64), random.below(64));
        let mut output = vec![CANARY; before + self.output_bytes + after];
        let done = random.below(self.layout.count + 1) * random.below(2);
        let place = &mut output[before..before + self.output_bytes];
        self.judge(kernel, &self.ivs, &self.input, place, done);
        let outside = output[..before].iter().chain(&output[before + self.output_bytes..]);
        assert!(outside.copied().all(|byte| byte == CANARY));
    }

    /// Processes the records except the first `done`, and checks every byte of the output.
    fn judge(&self, kernel: Kernel, ivs: &[u8], input: &[u8], output: &mut [u8], done: usize) {
        let &Case { cipher, direction, ref layout, .. } = self;
        let place = format!("{} {direction} {cipher} from {done}, {layout:?}", kernel.name());
        let mut prepared = kernel.prepare(cipher, direction, Some(&self.key)).unwrap();
        let mut records = self.records(ivs, input, output);
        records.advance(done);
        let pads = layout.padding == Padding::Pkcs7;
        if prepared.process_records(&mut records).is_none() {
            assert!(pads && (cipher.mode(), direction) == (Mode::Ecb, Direction::Encrypt));
            return;
        }
        assert_eq!(records.done(), layout.count, "{place}");
        let rejected = (done..layout.count).filter(|&record| self.expected[record].is_none());
        let rejected: Vec<_> = rejected.map(|record| (record, Rejection::Padding)).collect();
        assert_eq!(records.rejected(), rejected, "{place}");
        let room = layout.output_length(cipher, direction);
        for (record, output) in output.chunks(layout.output_stride.max(1)).enumerate() {
            if record >= layout.count {
                break;
            }
            let (result, gap) = output.split_at(room);
            assert!(gap.iter().all(|&byte| byte == CANARY), "{place}");
            match &self.expected[record] {
                _ if record < done => assert!(result.iter().all(|&byte| byte == CANARY)),
                Some(expected) => {
                    assert!(result[..expected.len()] == *expected, "{place}, {record}");
                }
                None => assert!(result.iter().all(|&byte| byte == 0), "{place}, {record}"),
            }
        }
    }

    fn records<'a>(&self, ivs: &'a [u8], input: &'a [u8], output: &'a mut [u8]) -> Records<'a> {
        Records::new(self.cipher, self.direction, self.layout, ivs, input, output).unwrap()
    }
}

/// The end of the last of this many records.
fn reach(count: usize, stride: usize, length: usize) -> usize {
    if count == 0 { 0 } else { (count - 1) * stride + length }
}

fn edge(place: &mut Guarded, length: usize, at_end: bool) -> &mut [u8] {
    let bytes = place.bytes();
    let start = if at_end { bytes.len() - length } else { 0 };
    &mut bytes[start..start + length]
}

const CANARY: u8 = 0xA5;
