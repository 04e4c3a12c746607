//! Processes messages in unusual buffers and checks the results.

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Outcome, Padding, Rejection, Session,
    SessionRequest, Verification,
};

/// The failure as text, if any.
pub(super) type Verdict = Result<(), String>;

/// The engine under test, for one cipher and direction.
pub(super) struct Subject<'a> {
    pub(super) engine: &'a dyn Engine,
    /// Computes the expected results where no vector exists.
    pub(super) reference: Option<&'a dyn Engine>,
    pub(super) cipher: Cipher,
    pub(super) direction: Direction,
}

/// A job that owns its data.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) key: Option<Key>,
    pub(super) iv: Iv,
    pub(super) aad: Vec<u8>,
    pub(super) padding: Padding,
    pub(super) input: Vec<u8>,
    /// Makes the output shorter than needed by this many bytes.
    pub(super) missing_output: usize,
    pub(super) outcome: Outcome,
}

/// A message and its expected outcome.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) message: Message,
    pub(super) expected: Expected,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Output(Vec<u8>),
    /// Rejected for its tag or padding, with no plaintext in the output.
    Forged,
    /// Rejected for its lengths, with nothing in the output.
    Malformed,
    /// Not touched.
    Unchanged,
}

/// The outcome of a message.
pub(super) struct Answer {
    pub(super) outcome: Outcome,
    /// The whole output, of the greatest length that the message may need.
    pub(super) output: Vec<u8>,
}

impl Subject<'_> {
    pub(super) fn open(&self, key: Option<&Key>) -> Result<Box<dyn Session>, String> {
        open(self.engine, self.cipher, self.direction, key).map_err(|error| error.to_string())
    }

    /// Processes the cases in one batch of a new session and checks every result.
    pub(super) fn expect(&self, session_key: Option<&Key>, cases: &[Case]) -> Verdict {
        self.expect_in(&mut *self.open(session_key)?, cases)
    }

    /// Processes the cases in one batch and checks every result.
    pub(super) fn expect_in(&self, session: &mut dyn Session, cases: &[Case]) -> Verdict {
        let messages: Vec<_> = cases.iter().map(|case| case.message.clone()).collect();
        let (result, answers) = self.process(session, &messages)?;
        result.map_err(|error| format!("process failed: {error}"))?;
        for (index, (case, answer)) in cases.iter().zip(&answers).enumerate() {
            answer.judge(case).map_err(|complaint| {
                format!("job {index} of {}: {complaint}", describe(&case.message, cases.len()))
            })?;
        }
        Ok(())
    }

    /// Processes the messages in one batch, in buffers of every alignment, and checks that
    /// nothing but the outputs was written to.
    pub(super) fn process(
        &self,
        session: &mut dyn Session,
        messages: &[Message],
    ) -> Result<(Result<(), EngineError>, Vec<Answer>), String> {
        let mut buffers: Vec<Buffers> = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            buffers.push(Buffers::new(self, message, index));
        }
        let mut batch = Vec::new();
        for (message, buffers) in messages.iter().zip(&mut buffers) {
            batch.push(buffers.job(message));
        }
        let result = session.process(&mut batch);
        let outcomes: Vec<_> = batch.iter().map(|job| job.outcome).collect();
        let mut answers = Vec::new();
        for ((buffers, message), outcome) in buffers.iter().zip(messages).zip(outcomes) {
            let index = answers.len();
            let complain = |text| format!("job {index}: {text}");
            answers.push(buffers.answer(message, outcome).map_err(complain)?);
        }
        Ok((result, answers))
    }

    /// A message with its own key and its expected result. The seed determines all of its bytes.
    pub(super) fn case(&self, seed: u64, length: usize, padding: Padding) -> Result<Case, String> {
        self.case_from(self.plain(seed, length, padding))
    }

    /// A plaintext message with its own key.
    pub(super) fn plain(&self, seed: u64, length: usize, padding: Padding) -> Message {
        let aad_length = if self.cipher.is_authenticated() { seed as usize % 40 } else { 0 };
        Message {
            key: Key::new(&bytes(seed, self.cipher.key_length())).ok(),
            iv: Iv::new(&bytes(!seed, self.cipher.iv_length())).unwrap_or(Iv::NONE),
            aad: bytes(seed ^ 0xAAD, aad_length),
            padding,
            input: bytes(seed.rotate_left(32), length),
            missing_output: 0,
            outcome: Outcome::Pending,
        }
    }

    /// The case of a plaintext message.
    pub(super) fn case_from(&self, plain: Message) -> Result<Case, String> {
        let ciphertext = self.encrypt(&plain)?;
        Ok(match self.direction {
            Direction::Encrypt => Case { message: plain, expected: Expected::Output(ciphertext) },
            Direction::Decrypt => Case {
                expected: Expected::Output(plain.input.clone()),
                message: Message { input: ciphertext, ..plain },
            },
        })
    }

    /// The reference engine's result for a single message.
    pub(super) fn encrypt(&self, message: &Message) -> Result<Vec<u8>, String> {
        let offers = |engine: &&dyn Engine| engine.offer(self.cipher, Direction::Encrypt).is_some();
        let engine = [self.reference, Some(self.engine)].into_iter().flatten().find(offers);
        let engine = engine.ok_or("nothing here encrypts with it, so it can't be judged")?;
        let encryptor = Subject { engine, direction: Direction::Encrypt, ..*self };
        let mut session = encryptor.open(None)?;
        let (result, answers) = encryptor.process(&mut *session, std::slice::from_ref(message))?;
        result.map_err(|error| error.to_string())?;
        match answers[0].outcome {
            Outcome::Done { written } => Ok(answers[0].output[..written].to_vec()),
            other => Err(format!("the reference made of it: {other:?}")),
        }
    }

    /// The paddings that the cipher accepts.
    pub(super) fn paddings(&self) -> &'static [Padding] {
        if self.cipher.block_length() > 1 {
            &[Padding::None, Padding::Pkcs7]
        } else {
            &[Padding::None]
        }
    }

    /// The shortest message length from `length` on that the cipher accepts.
    pub(super) fn fit(&self, length: usize, padding: Padding) -> usize {
        match padding {
            Padding::Pkcs7 => length,
            Padding::None if self.cipher.mode() == evener_core::Mode::Xts => length.max(16),
            Padding::None => length.next_multiple_of(self.cipher.block_length()),
        }
    }
}

impl Message {
    /// The output's greatest length, in bytes.
    pub(super) fn output_length(&self, subject: &Subject<'_>) -> usize {
        let job = Job { padding: self.padding, ..Job::new(self.iv, &self.input, &mut []) };
        job.output_length(subject.cipher, subject.direction)
    }
}

impl Answer {
    pub(super) fn judge(&self, case: &Case) -> Verdict {
        let fine = match (&case.expected, self.outcome) {
            (Expected::Output(expected), Outcome::Done { written }) => {
                if self.output.get(..written) != Some(expected) {
                    return Err(format!("wrong output of {written} bytes"));
                }
                true
            }
            (Expected::Forged, Outcome::Rejected(Rejection::Tag | Rejection::Padding)) => true,
            (Expected::Malformed, Outcome::Rejected(Rejection::Malformed(_))) => true,
            (Expected::Unchanged, outcome) => outcome == case.message.outcome,
            _ => false,
        };
        if !fine {
            return Err(format!("came back as {:?}", self.outcome));
        }
        let is_clean = self.output.iter().all(|byte| [FILL, 0].contains(byte));
        match case.expected {
            Expected::Output(_) => Ok(()),
            _ if is_clean => Ok(()),
            _ => Err("left something in the output".to_owned()),
        }
    }
}

/// An input and an output at odd addresses, with bytes around them that must not change.
struct Buffers {
    offset: usize,
    input: Vec<u8>,
    output: Vec<u8>,
    output_length: usize,
    /// Length of the part of `output` that the engine gets.
    visible: usize,
}

impl Buffers {
    fn new(subject: &Subject<'_>, message: &Message, index: usize) -> Buffers {
        let offset = index % 17;
        let mut input = vec![FILL; offset];
        input.extend(&message.input);
        let mut buffers =
            Buffers { offset, input, output: Vec::new(), output_length: 0, visible: 0 };
        buffers.output_length =
            message.output_length(subject).saturating_sub(message.missing_output);
        buffers.output = vec![FILL; offset + buffers.output_length + GUARD];
        // Half of the outputs are longer than needed.
        let spare = if message.missing_output == 0 && index % 2 == 1 { GUARD } else { 0 };
        buffers.visible = buffers.output_length + spare;
        buffers
    }

    fn job<'a>(&'a mut self, message: &'a Message) -> Job<'a> {
        Job {
            iv: message.iv,
            key: message.key.as_ref(),
            aad: &message.aad,
            padding: message.padding,
            input: &self.input[self.offset..],
            output: self
                .output
                .get_mut(self.offset..self.offset + self.visible)
                .unwrap_or_default(),
            outcome: message.outcome,
            verification: Verification::ByChance,
        }
    }

    fn answer(&self, message: &Message, outcome: Outcome) -> Result<Answer, String> {
        if self.input[self.offset..] != message.input {
            return Err("the input was written to".to_owned());
        }
        let (before, rest) = self.output.split_at(self.offset);
        let (output, after) = rest.split_at(self.output_length);
        if before.iter().chain(after).any(|&byte| byte != FILL) {
            return Err("bytes outside of the output were written to".to_owned());
        }
        Ok(Answer { outcome, output: output.to_vec() })
    }
}

pub(super) fn open(
    engine: &dyn Engine,
    cipher: Cipher,
    direction: Direction,
    key: Option<&Key>,
) -> Result<Box<dyn Session>, EngineError> {
    engine.open(&SessionRequest { cipher, direction, key })
}

/// Pseudo-random bytes, the same in every run.
pub(super) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    // SplitMix64 (Steele, Lea and Flood, 2014).
    let word = |index: u64| {
        let mut word = seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    };
    let mut bytes = Vec::with_capacity(length + 8);
    for index in 1..=length.div_ceil(8) as u64 {
        bytes.extend_from_slice(&word(index).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn describe(message: &Message, batch: usize) -> String {
    format!(
        "{batch} ({} bytes in, {} of additional data, padding {:?}, {})",
        message.input.len(),
        message.aad.len(),
        message.padding,
        if message.key.is_some() { "own key" } else { "session key" }
    )
}

/// The byte that fills outputs and their surroundings beforehand.
pub(super) const FILL: u8 = 0xA5;

/// Length of the guard bytes after an output.
const GUARD: usize = 67;
