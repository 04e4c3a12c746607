//! The test of a session before its first job.

use evener_core::{
    Direction, Engine, EngineError, Iv, Job, Key, Outcome, Padding, Rejection, Session,
    SessionRequest,
};

/// Tests a new session with messages whose results the reference engine knows: short and long,
/// padded and of odd lengths where the cipher allows it, and a forged one for authenticated
/// ciphers. Returns whether all results are right.
///
/// A session that has a key is tested with it: to change keys, some devices end a session and start
/// another, and others may take its place meanwhile. The fixed IVs do no harm, because the engine
/// has the key and the results are discarded.
///
/// # Errors
/// As [`Session::process`].
pub(super) fn are_right(
    session: &mut dyn Session,
    reference: &dyn Engine,
    request: &SessionRequest<'_>,
) -> Result<bool, EngineError> {
    let Ok(mut questions) = questions(reference, request) else { return Ok(true) };
    let mut batch: Vec<_> = questions.iter_mut().map(Question::job).collect();
    session.process(&mut batch)?;
    let outcomes: Vec<_> = batch.iter().map(|job| job.outcome).collect();
    let is_right = |(question, outcome): (&Question, Outcome)| question.is_answered_by(outcome);
    Ok(questions.iter().zip(outcomes).all(is_right))
}

struct Question {
    key: Option<Key>,
    iv: Iv,
    aad: Vec<u8>,
    padding: Padding,
    input: Vec<u8>,
    output: Vec<u8>,
    /// `None` when the input must be rejected.
    answer: Option<Vec<u8>>,
}

impl Question {
    fn job(&mut self) -> Job<'_> {
        Job {
            key: self.key.as_ref(),
            aad: &self.aad,
            padding: self.padding,
            ..Job::new(self.iv, &self.input, &mut self.output)
        }
    }

    fn is_answered_by(&self, outcome: Outcome) -> bool {
        match (&self.answer, outcome) {
            (Some(answer), Outcome::Done { written }) => self.output.get(..written) == Some(answer),
            (None, Outcome::Rejected(rejection)) => rejection == Rejection::Tag,
            _ => false,
        }
    }
}

fn questions(
    reference: &dyn Engine,
    request: &SessionRequest<'_>,
) -> Result<Vec<Question>, EngineError> {
    let &SessionRequest { cipher, direction, key } = request;
    let mut encryptor =
        reference.open(&SessionRequest { direction: Direction::Encrypt, ..*request })?;
    let mut questions = Vec::new();
    for (index, &length) in LENGTHS.iter().enumerate() {
        let seed = index as u8;
        let is_ragged = length % LONGEST_BLOCK != 0;
        let takes_padding = cipher.block_length() > 1;
        let mut plain = Question {
            key: match key {
                Some(_) => None,
                None => Key::new(&bytes(seed, cipher.key_length())).ok(),
            },
            iv: Iv::new(&bytes(!seed, cipher.iv_length())).unwrap_or(Iv::NONE),
            aad: bytes(seed, if cipher.is_authenticated() { length % 50 } else { 0 }),
            padding: if is_ragged && takes_padding { Padding::Pkcs7 } else { Padding::None },
            input: bytes(seed, length),
            output: vec![0; length + LONGEST_BLOCK],
            answer: None,
        };
        let mut batch = [plain.job()];
        encryptor.process(&mut batch)?;
        let Outcome::Done { written } = batch[0].outcome else { continue };
        let sealed = plain.output[..written].to_vec();
        questions.push(match direction {
            Direction::Encrypt => Question { answer: Some(sealed), ..plain },
            Direction::Decrypt => Question { answer: Some(plain.input), input: sealed, ..plain },
        });
    }
    if direction == Direction::Decrypt && cipher.is_authenticated() {
        questions.extend(questions.last().map(forged));
    }
    Ok(questions)
}

fn forged(question: &Question) -> Question {
    let mut input = question.input.clone();
    input.last_mut().into_iter().for_each(|byte| *byte ^= 0x10);
    Question {
        key: question.key.clone(),
        iv: question.iv,
        aad: question.aad.clone(),
        padding: question.padding,
        output: vec![0; input.len()],
        input,
        answer: None,
    }
}

/// Bytes of every value, so that the parts of XTS and triple-DES keys differ.
fn bytes(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index as u8).wrapping_mul(73) ^ seed.wrapping_mul(29)).collect()
}

/// One block, several blocks, a Cobblestone chunk, and a length that is no whole number of blocks.
const LENGTHS: [usize; 4] = [16, 1_024, 16_384, 1_001];

/// The longest block of all ciphers, and the length of a tag, in bytes.
const LONGEST_BLOCK: usize = 16;
