//! The SIMD kernels of `lanes`, compared with `openssl`.

use std::sync::{Arc, LazyLock};

use arbitrary::{Result, Unstructured};
use evener_core::{
    Cipher, Direction, Engine, Iv, Job, Key, Mode, Outcome, Padding, RecordLayout, Records,
    SessionRequest,
};

use crate::readers::ENGINE as REFERENCE;

/// A batch of messages of mixed lengths, keys, additional data and padding.
pub fn lanes_jobs(data: &[u8]) {
    // With too few bytes there is no batch.
    let _ = compare_jobs(&mut Unstructured::new(data));
}

/// Messages of one length at equal distances.
pub fn lanes_records(data: &[u8]) {
    let _ = compare_records(&mut Unstructured::new(data));
}

/// A message of a batch, from the script.
struct Message {
    key: Option<Key>,
    iv: Iv,
    aad: Vec<u8>,
    padding: Padding,
    input: Vec<u8>,
    room: usize,
}

fn compare_jobs(script: &mut Unstructured<'_>) -> Result<()> {
    let Some(&(ref lanes, cipher, direction)) = what(script)? else { return Ok(()) };
    let session_key = key_of(cipher, SESSION_SEED);
    let count = 1 + usize::from(script.arbitrary::<u8>()?) % 70;
    let messages: Vec<_> = (0..count).map(|_| message(script, cipher, direction)).collect();
    let run = |engine: &dyn Engine, outputs: &mut [Vec<u8>]| -> Vec<Outcome> {
        let request = SessionRequest { cipher, direction, key: Some(&session_key) };
        let mut session = engine.open(&request).expect("a session");
        let mut jobs: Vec<Job<'_>> = messages
            .iter()
            .zip(outputs)
            .map(|(message, output)| Job {
                key: message.key.as_ref(),
                aad: &message.aad,
                padding: message.padding,
                ..Job::new(message.iv, &message.input, output)
            })
            .collect();
        session.process(&mut jobs).expect("engines on the processor do not fail");
        jobs.iter().map(|job| job.outcome).collect()
    };
    let room = || -> Vec<Vec<u8>> {
        messages.iter().map(|message| vec![CANARY; message.room + SPARE]).collect()
    };
    let (mut expected_outputs, mut outputs) = (room(), room());
    let expected = run(&**REFERENCE, &mut expected_outputs);
    let outcomes = run(&**lanes, &mut outputs);
    for (index, message) in messages.iter().enumerate() {
        let kernel = &lanes.description().name;
        let place = format!("{kernel}: {direction} {cipher}, message {index} of {count}");
        assert_eq!(outcomes[index], expected[index], "{place}");
        let (output, wanted) = (&outputs[index], &expected_outputs[index]);
        match outcomes[index] {
            Outcome::Done { written } => {
                assert!(output[..written] == wanted[..written], "{place}: the bytes differ");
            }
            _ => assert!(
                output[..message.room].iter().all(|&byte| byte == CANARY || byte == 0),
                "{place}: something is left of what was rejected"
            ),
        }
        let behind = &output[message.room..];
        assert!(behind.iter().all(|&byte| byte == CANARY), "{place}: it wrote too far");
    }
    Ok(())
}

fn message(script: &mut Unstructured<'_>, cipher: Cipher, direction: Direction) -> Message {
    // Messages for which no bytes are left are empty.
    let [shape, low, high, seed] = script.arbitrary::<[u8; 4]>().unwrap_or_default();
    // Most messages are short; every fourth has up to 4 KiB.
    let length = match shape & 3 {
        0 => usize::from(low) | usize::from(high & 15) << 8,
        _ => usize::from(low),
    };
    let padding = match shape & 4 {
        4 if matches!(cipher.mode(), Mode::Ecb | Mode::Cbc) => Padding::Pkcs7,
        _ => Padding::None,
    };
    let key = if shape & 8 == 8 { Some(key_of(cipher, seed)) } else { None };
    let aad = match cipher.is_authenticated() {
        true => bytes(usize::from(high >> 3), seed ^ 1),
        false => Vec::new(),
    };
    let iv = Iv::new(&bytes(cipher.iv_length(), seed.wrapping_add(low))).expect("a length");
    let block = cipher.block_length();
    // Sometimes an invalid length.
    let fits = shape & 0x30 == 0x30 || padding == Padding::Pkcs7 && direction == Direction::Encrypt;
    let length = if fits { length } else { length - length % block };
    let mut input = bytes(length, seed);
    if direction == Direction::Decrypt && shape & 0x40 == 0 {
        // A message that opens, sealed by the reference engine.
        let session_key = key.clone().unwrap_or_else(|| key_of(cipher, SESSION_SEED));
        input = sealed(cipher, &session_key, iv, &aad, padding, &input).unwrap_or(input);
        if shape & 0x80 != 0
            && let Some(byte) = input.last_mut()
        {
            *byte ^= seed | 1;
        }
    }
    let room = Job { padding, ..Job::new(iv, &input, &mut []) }.output_length(cipher, direction);
    Message { key, iv, aad, padding, input, room }
}

fn compare_records(script: &mut Unstructured<'_>) -> Result<()> {
    let Some(&(ref lanes, cipher, direction)) = what(script)? else { return Ok(()) };
    let key = key_of(cipher, SESSION_SEED);
    let [count, length, longer, gaps, seed] = script.arbitrary::<[u8; 5]>()?;
    let pads = seed & 1 == 1 && matches!(cipher.mode(), Mode::Ecb | Mode::Cbc);
    let padding = if pads { Padding::Pkcs7 } else { Padding::None };
    let mut length = usize::from(length) | usize::from(longer & 3) << 8;
    if !pads {
        length -= length % cipher.block_length();
    }
    let mut layout = RecordLayout::packed(cipher, direction, padding, count.into(), length);
    layout.input_stride += usize::from(gaps & 15);
    layout.output_stride += usize::from(gaps >> 4);
    let ivs = bytes(layout.count * cipher.iv_length(), seed);
    let mut input = bytes(layout.count * layout.input_stride, seed ^ 0x55);
    if direction == Direction::Decrypt {
        // Most records open.
        for record in (0..layout.count).filter(|record| record % 7 != 3) {
            let iv = &ivs[record * cipher.iv_length()..][..cipher.iv_length()];
            let iv = Iv::new(iv).expect("a length");
            let place = &mut input[record * layout.input_stride..];
            let message = place[..length].to_vec();
            if let Some(sealed) = sealed(cipher, &key, iv, &[], padding, &message) {
                place[..sealed.len()].copy_from_slice(&sealed);
            }
        }
    }
    let run = |engine: &dyn Engine| {
        let mut output = vec![CANARY; layout.count * layout.output_stride + SPARE];
        let request = SessionRequest { cipher, direction, key: Some(&key) };
        let mut session = engine.open(&request).expect("a session");
        let mut records = Records::new(cipher, direction, layout, &ivs, &input, &mut output)
            .expect("lengths that fit together");
        session.process_records(&mut records).expect("engines on the processor do not fail");
        assert_eq!(records.done(), layout.count);
        let rejected: Vec<usize> = records.rejected().iter().map(|&(record, _)| record).collect();
        (rejected, output)
    };
    let (expected_rejections, expected) = run(&**REFERENCE);
    let (rejected, output) = run(&**lanes);
    let place = format!("{}: {direction} {cipher}, {layout:?}", lanes.description().name);
    assert_eq!(rejected, expected_rejections, "{place}");
    let room = layout.output_length(cipher, direction);
    let written = if direction == Direction::Decrypt { length } else { room };
    for record in 0..layout.count {
        let at = record * layout.output_stride;
        let (result, gap) = output[at..at + layout.output_stride].split_at(room);
        assert!(gap.iter().all(|&byte| byte == CANARY), "{place}: it wrote into a gap");
        let wanted = &expected[at..at + written];
        let is_rejected = rejected.contains(&record);
        assert!(is_rejected || result[..written] == *wanted, "{place}: record {record} differs");
        assert!(
            !is_rejected || result.iter().all(|&byte| byte == CANARY || byte == 0),
            "{place}: something is left of record {record}, which was rejected"
        );
    }
    assert!(output[output.len() - SPARE..].iter().all(|&byte| byte == CANARY), "{place}");
    Ok(())
}

/// A kernel, and a cipher and direction that it supports, chosen by a byte; `None` if the processor
/// has no AES instructions.
fn what(script: &mut Unstructured<'_>) -> Result<Option<&'static Offered>> {
    let choice = usize::from(script.arbitrary::<u8>()?);
    Ok(OFFERS.get(choice % OFFERS.len().max(1)))
}

fn key_of(cipher: Cipher, seed: u8) -> Key {
    Key::new(&bytes(cipher.key_length(), seed)).expect("a key's length")
}

fn sealed(
    cipher: Cipher,
    key: &Key,
    iv: Iv,
    aad: &[u8],
    padding: Padding,
    message: &[u8],
) -> Option<Vec<u8>> {
    let (direction, key) = (Direction::Encrypt, Some(key));
    let mut session = REFERENCE.open(&SessionRequest { cipher, direction, key }).ok()?;
    let mut output = vec![0; message.len() + 32];
    let mut jobs = [Job { aad, padding, ..Job::new(iv, message, &mut output) }];
    session.process(&mut jobs).ok()?;
    let Outcome::Done { written } = jobs[0].outcome else { return None };
    output.truncate(written);
    Some(output)
}

/// Bytes that differ by their seed.
fn bytes(length: usize, seed: u8) -> Vec<u8> {
    let mut state = u32::from(seed).wrapping_mul(0x9E37_79B9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 9) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A kernel as an engine, and a cipher and direction that it supports.
type Offered = (Arc<dyn Engine>, Cipher, Direction);

/// Everything that each kernel supports which this processor can run.
static OFFERS: LazyLock<Vec<Offered>> = LazyLock::new(|| {
    let mut offers = Vec::new();
    for kernel in evener_lanes::available() {
        let engine = evener_engines::find(&format!("lanes:{}", kernel.name())).expect("a kernel");
        for &cipher in Cipher::ALL {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                if engine.offer(cipher, direction).is_some() {
                    offers.push((Arc::clone(&engine), cipher, direction));
                }
            }
        }
    }
    offers
});

const SESSION_SEED: u8 = 201;
const CANARY: u8 = 0xA5;

/// The number of bytes after an output that must not change.
const SPARE: usize = 64;
