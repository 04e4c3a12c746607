//! Random messages, and the `openssl` engine's results for them.

use std::sync::{Arc, LazyLock};

use evener_core::{
    Cipher, Direction, Engine, Iv, Job, Key, Mode, Outcome, Padding, SessionRequest, padding,
};

use crate::lanes::probe;

/// One engine for each kernel.
pub(super) fn engines() -> Vec<Arc<dyn Engine>> {
    let kernels = evener_lanes::available();
    if kernels.is_empty() {
        evener_core::skipped!("this CPU can run no kernel");
    }
    let probe = |name| probe(name).expect("the kernel can run here").remove(0);
    kernels.into_iter().map(|kernel| probe(kernel.name())).collect()
}

/// The ciphers that the engine offers, with their directions.
pub(super) fn offers(engine: &dyn Engine) -> Vec<(Cipher, Direction)> {
    let both = |&cipher| [(cipher, Direction::Encrypt), (cipher, Direction::Decrypt)];
    let all = Cipher::ALL.iter().flat_map(both);
    all.filter(|&(cipher, direction)| engine.offer(cipher, direction).is_some()).collect()
}

/// One message and its result.
pub(super) struct Message {
    pub(super) iv: Iv,
    pub(super) key: Option<Key>,
    pub(super) padding: Padding,
    pub(super) aad: Vec<u8>,
    pub(super) input: Vec<u8>,
    pub(super) expected: Vec<u8>,
    pub(super) outcome: Outcome,
}

impl Message {
    /// A message of `length` bytes or, where the cipher requires whole blocks, a little less. To
    /// decrypt, its input is one that `openssl` encrypted.
    pub(super) fn random(
        random: &mut Random,
        cipher: Cipher,
        direction: Direction,
        session_key: &Key,
        own_key: bool,
        length: usize,
    ) -> Message {
        let takes_padding = matches!(cipher.mode(), Mode::Ecb | Mode::Cbc);
        let padding =
            if takes_padding && random.below(2) == 0 { Padding::Pkcs7 } else { Padding::None };
        let length = match padding {
            Padding::None => length - length % cipher.block_length(),
            Padding::Pkcs7 => length,
        };
        let mut iv = random.bytes(cipher.iv_length());
        if cipher.mode() == Mode::Ctr && random.below(4) == 0 {
            // Counters that are about to carry into their high half, or to wrap.
            iv[random.below(9)..15].fill(0xFF);
        }
        // Mostly a header, and now and then more than is hashed at once.
        let longest = if random.below(4) == 0 { 300 } else { 40 };
        let aad_length = if cipher.is_authenticated() { random.below(longest) } else { 0 };
        let mut message = Message {
            iv: Iv::new(&iv).unwrap(),
            key: own_key.then(|| Key::new(&random.bytes(cipher.key_length())).unwrap()),
            padding,
            aad: random.bytes(aad_length),
            input: random.bytes(length),
            expected: Vec::new(),
            outcome: Outcome::Pending,
        };
        message.ask_openssl(cipher, Direction::Encrypt, session_key);
        if direction == Direction::Decrypt {
            message.input = std::mem::take(&mut message.expected);
            if random.below(8) == 0
                && let Some(last) = message.input.last_mut()
            {
                // Mostly malformed padding, or a forgery.
                *last ^= 1;
            }
            message.ask_openssl(cipher, direction, session_key);
        }
        message
    }

    /// A job for this message.
    pub(super) fn job<'a>(&'a self, input: &'a [u8], output: &'a mut [u8]) -> Job<'a> {
        let job = Job::new(self.iv, input, output);
        Job { key: self.key.as_ref(), padding: self.padding, aad: &self.aad, ..job }
    }

    /// The length that the output must have.
    pub(super) fn output_length(&self, cipher: Cipher, direction: Direction) -> usize {
        let length = self.input.len();
        match (direction, self.padding) {
            (Direction::Encrypt, Padding::Pkcs7) => {
                padding::padded_length(length, cipher.block_length())
            }
            (Direction::Encrypt, Padding::None) => length + cipher.tag_length(),
            (Direction::Decrypt, _) => length.saturating_sub(cipher.tag_length()),
        }
    }

    fn ask_openssl(&mut self, cipher: Cipher, direction: Direction, session_key: &Key) {
        let mut output = vec![0; self.output_length(cipher, direction)];
        let request = SessionRequest { cipher, direction, key: Some(session_key) };
        let mut session = OPENSSL.open(&request).unwrap();
        let mut batch = [self.job(&self.input, &mut output)];
        session.process(&mut batch).unwrap();
        self.outcome = batch[0].outcome;
        if let Outcome::Done { written } = self.outcome {
            output.truncate(written);
            self.expected = output;
        }
    }
}

static OPENSSL: LazyLock<Arc<dyn Engine>> = LazyLock::new(|| crate::find("openssl").unwrap());

/// Numbers that are the same in every run (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}
