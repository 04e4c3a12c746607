//! The messages of one thread.

use std::iter;

use evener_core::{
    Cipher, Direction, EngineError, Iv, Job, Key, Mode, Padding, RecordLayout, Records, Rejection,
    SessionRequest,
};
use evener_engines::lanes::Arena;

use super::{Lengths, Spacing};

/// The messages of one thread, and the buffers for their results.
pub(super) struct Load {
    pub(super) cipher: Cipher,
    pub(super) direction: Direction,
    pub(super) key: Key,
    pub(super) padding: Padding,
    pub(super) iv: Iv,
    inputs: Arena,
    outputs: Arena,
    spacing: Spacing,
    /// The length of every message in bytes, if they are equal.
    equal: Option<usize>,
    input_lengths: Vec<usize>,
    output_lengths: Vec<usize>,
}

/// A message and the buffer for its result.
pub(super) struct Message<'a, I = &'a [u8]> {
    pub(super) input: I,
    pub(super) output: &'a mut [u8],
}

impl Load {
    /// Makes messages of pseudo-random bytes; for decryption, OpenSSL encrypts them first.
    ///
    /// # Errors
    /// When OpenSSL does not support the cipher.
    pub(super) fn new(
        cipher: Cipher,
        direction: Direction,
        lengths: Lengths,
        spacing: Spacing,
        count: usize,
    ) -> Result<Load, EngineError> {
        let mut random = Random(1);
        let texts: Vec<usize> = (0..count)
            .map(|_| match lengths {
                Lengths::Equal(bytes) => bytes,
                Lengths::Mixed(most) => 1 + random.next() as usize % most.max(1),
            })
            .collect();
        let whole = texts.iter().all(|length| length.is_multiple_of(cipher.block_length()));
        let mut load = Load {
            cipher,
            direction: Direction::Encrypt,
            key: key(&mut random, cipher),
            padding: if whole { Padding::None } else { Padding::Pkcs7 },
            iv: iv(&mut random, cipher),
            inputs: Arena::new(),
            outputs: Arena::new(),
            spacing,
            equal: match lengths {
                Lengths::Equal(bytes) => Some(bytes),
                Lengths::Mixed(_) => None,
            },
            input_lengths: texts,
            output_lengths: Vec::new(),
        };
        load.set_output_lengths();
        // Touches every page before the first turn.
        for Message { input, output } in load.places() {
            input.fill_with(|| random.next() as u8);
            output.fill(1);
        }
        if direction == Direction::Decrypt {
            load.turn_round()?;
        }
        Ok(load)
    }

    /// Bytes of all messages before encryption.
    pub(super) fn bytes(&self) -> usize {
        match self.direction {
            Direction::Encrypt => self.input_lengths.iter().sum(),
            Direction::Decrypt => self.output_lengths.iter().sum(),
        }
    }

    /// All messages, in order.
    pub(super) fn messages(&mut self) -> impl Iterator<Item = Message<'_>> {
        self.places().map(|Message { input, output }| Message { input: &*input, output })
    }

    /// All messages as records, each with an IV made by [`Load::ivs`].
    ///
    /// # Errors
    /// When the messages differ in length.
    pub(super) fn records<'a>(&'a mut self, ivs: &'a [u8]) -> Result<Records<'a>, Rejection> {
        let unequal = Rejection::Malformed("records are messages of one length");
        let (count, length) = (self.input_lengths.len(), self.equal.ok_or(unequal)?);
        let &mut Load { cipher, direction, padding, spacing, .. } = self;
        let mut layout = RecordLayout { count, length, padding, input_stride: 0, output_stride: 0 };
        layout.input_stride = spacing.stride(layout.input_length(cipher, direction));
        layout.output_stride = spacing.stride(layout.output_length(cipher, direction));
        let input = whole(&mut self.inputs, count * layout.input_stride);
        let output = whole(&mut self.outputs, count * layout.output_stride);
        Records::new(cipher, direction, layout, ivs, input, output)
    }

    /// The IV, repeated for every message.
    pub(super) fn ivs(&self) -> Vec<u8> {
        self.iv.bytes().repeat(self.input_lengths.len())
    }

    fn places(&mut self) -> impl Iterator<Item = Message<'_, &mut [u8]>> {
        let inputs = spread(&mut self.inputs, &self.input_lengths, self.spacing, self.equal);
        let outputs = spread(&mut self.outputs, &self.output_lengths, self.spacing, self.equal);
        inputs.into_iter().zip(outputs).map(|(input, output)| Message { input, output })
    }

    /// All messages as jobs.
    pub(super) fn jobs(&mut self) -> Vec<Job<'_>> {
        let (iv, padding) = (self.iv, self.padding);
        self.messages()
            .map(|Message { input, output }| Job { padding, ..Job::new(iv, input, output) })
            .collect()
    }

    /// A number that depends on every byte of the result, except the bytes after a message whose
    /// padding was removed.
    pub(super) fn fingerprint(&mut self) -> u64 {
        let padded_away = self.padding == Padding::Pkcs7 && self.direction == Direction::Decrypt;
        let mut fingerprint = 0xCBF2_9CE4_8422_2325_u64;
        for Message { output, .. } in self.messages() {
            let result = match output.last() {
                Some(&padding) if padded_away => {
                    &output[..output.len().saturating_sub(padding.into())]
                }
                _ => &*output,
            };
            for &byte in result {
                fingerprint = (fingerprint ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
        fingerprint
    }

    /// Overwrites the results, so that the next fingerprint depends on the next contender alone.
    pub(super) fn clear(&mut self) {
        for Message { output, .. } in self.messages() {
            output.fill(0);
        }
    }

    /// Encrypts the messages and makes the results the input.
    fn turn_round(&mut self) -> Result<(), EngineError> {
        let (cipher, direction) = (self.cipher, Direction::Encrypt);
        let key = self.key.clone();
        let request = SessionRequest { cipher, direction, key: Some(&key) };
        crate::find("openssl")?.open(&request)?.process(&mut self.jobs())?;
        self.direction = Direction::Decrypt;
        std::mem::swap(&mut self.inputs, &mut self.outputs);
        self.input_lengths = std::mem::take(&mut self.output_lengths);
        self.set_output_lengths();
        Ok(())
    }

    fn set_output_lengths(&mut self) {
        let tag = self.cipher.tag_length();
        let block = self.cipher.block_length();
        let longer = |&length: &usize| match (self.direction, self.padding) {
            (Direction::Encrypt, Padding::Pkcs7) => length - length % block + block,
            (Direction::Encrypt, Padding::None) => length + tag,
            (Direction::Decrypt, _) => length - tag,
        };
        self.output_lengths = self.input_lengths.iter().map(longer).collect();
    }
}

/// Buffers of these lengths, at equal distances if they have one length.
fn spread<'a>(
    arena: &'a mut Arena,
    lengths: &'a [usize],
    spacing: Spacing,
    equal: Option<usize>,
) -> Vec<&'a mut [u8]> {
    let Some(&length) = lengths.first().filter(|_| equal.is_some()) else {
        return arena.buffers(lengths.iter().copied()).collect();
    };
    let stride = spacing.stride(length);
    let places = whole(arena, lengths.len() * stride).chunks_mut(stride.max(1));
    places.map(|place| &mut place[..length]).collect()
}

/// A buffer of this many bytes, aligned to a cache line.
fn whole(arena: &mut Arena, bytes: usize) -> &mut [u8] {
    arena.buffers(iter::once(bytes)).next().unwrap_or_default()
}

fn key(random: &mut Random, cipher: Cipher) -> Key {
    let bytes: Vec<u8> = (0..cipher.key_length()).map(|_| random.next() as u8).collect();
    Key::new(&bytes).expect("every cipher's key fits")
}

fn iv(random: &mut Random, cipher: Cipher) -> Iv {
    let mut bytes: Vec<u8> = (0..cipher.iv_length()).map(|_| random.next() as u8).collect();
    if cipher.mode() == Mode::Ctr {
        // The bytes look like a nonce followed by a counter from 1.
        bytes[8..].copy_from_slice(&1_u64.to_be_bytes());
    }
    Iv::new(&bytes).expect("every cipher's IV fits")
}

/// Numbers that are the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
