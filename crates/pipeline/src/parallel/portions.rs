//! Cuts work into portions that threads claim.

use evener_core::{
    Cipher, Direction, EngineError, InPlaceJob, Job, Mode, Outcome, Padding, Session,
};

/// A part of the work that one thread claims and does.
pub(super) trait Portion: Send {
    /// Processes the portion, or the rest of it. If the session fails, another session can
    /// continue.
    ///
    /// # Errors
    /// The session failed.
    fn perform(&mut self, session: &mut dyn Session) -> Result<(), EngineError>;

    /// Its outcome.
    fn outcome(&self) -> Outcome;
}

/// Returns whether a message can be cut into portions that do not wait for each other.
pub(super) fn can_be_cut(cipher: Cipher, direction: Direction) -> bool {
    match cipher.mode() {
        Mode::Ecb | Mode::Ctr => true,
        Mode::Cbc => direction == Direction::Decrypt,
        _ => false,
    }
}

impl Portion for Job<'_> {
    fn perform(&mut self, session: &mut dyn Session) -> Result<(), EngineError> {
        session.process(std::slice::from_mut(self))
    }

    fn outcome(&self) -> Outcome {
        self.outcome
    }
}

impl Portion for InPlaceJob<'_> {
    fn perform(&mut self, session: &mut dyn Session) -> Result<(), EngineError> {
        session.process_in_place(self)
    }

    fn outcome(&self) -> Outcome {
        self.outcome
    }
}

/// Some jobs of a batch. Their owner checks their outcomes.
impl<'a> Portion for &mut [Job<'a>] {
    fn perform(&mut self, session: &mut dyn Session) -> Result<(), EngineError> {
        session.process(self)
    }

    fn outcome(&self) -> Outcome {
        Outcome::Done { written: 0 }
    }
}

/// The portions of a job whose cipher [can be cut](can_be_cut), of `length` bytes except the last.
/// The job's shape has been checked, and `length` is whole blocks.
pub(super) fn portions<'a>(
    cipher: Cipher,
    length: usize,
    job: &'a mut Job<'_>,
) -> impl Iterator<Item = Job<'a>> + Send {
    let Job { mut iv, key, aad, padding, mut input, .. } = *job;
    let mut output = Some(&mut *job.output);
    // A padded message has a portion even if it is empty.
    let mut is_over = input.is_empty() && padding == Padding::None;
    std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let rest = output.take()?;
        let (first, later) = input.split_at(length.min(input.len()));
        is_over = later.is_empty();
        let mut portion = Job { key, aad, ..Job::new(iv, first, &mut []) };
        if is_over {
            portion.output = rest;
            portion.padding = padding;
        } else {
            let (own, rest) = rest.split_at_mut(first.len());
            portion.output = own;
            output = Some(rest);
            iv = iv.following(cipher, first).unwrap_or(iv);
        }
        input = later;
        Some(portion)
    })
}

/// Like [`portions`], for a job in place.
pub(super) fn portions_in_place<'a>(
    length: usize,
    job: &'a mut InPlaceJob<'_>,
) -> impl Iterator<Item = InPlaceJob<'a>> + Send {
    let InPlaceJob { cipher, direction, mut iv, done, .. } = *job;
    let mut data = &mut job.data[done..];
    std::iter::from_fn(move || {
        if data.is_empty() {
            return None;
        }
        let end = length.min(data.len());
        let (own, rest) = std::mem::take(&mut data).split_at_mut(end);
        // The next IV is computed before the portion is handed out, while CBC's ciphertext is still
        // there. Nothing follows the last portion, which need not be whole blocks.
        let own_iv = iv;
        iv = iv.following(cipher, own).unwrap_or(iv);
        data = rest;
        Some(InPlaceJob::new(cipher, direction, own_iv, own))
    })
}

/// Runs of a batch's jobs with at least `length` bytes each, except the last.
pub(super) fn runs<'b, 'a>(
    length: usize,
    batch: &'b mut [Job<'a>],
) -> impl Iterator<Item = &'b mut [Job<'a>]> + Send {
    let mut batch = batch;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let reaches = |job: &Job<'_>| {
            bytes += job.input.len();
            bytes >= length
        };
        let end = batch.iter().position(reaches).map_or(batch.len(), |last| last + 1);
        let (run, rest) = std::mem::take(&mut batch).split_at_mut(end);
        batch = rest;
        (!run.is_empty()).then_some(run)
    })
}

#[cfg(test)]
mod tests {
    use evener_core::Iv;

    use super::*;

    #[test]
    fn messages_are_cut_where_their_ivs_go_on() {
        let cipher = Cipher::Aes128Cbc;
        let iv = Iv::new(&[9; 16]).unwrap();
        let input: Vec<u8> = (0..80).collect();
        let mut output = [0; 80];
        let mut job = Job { padding: Padding::Pkcs7, ..Job::new(iv, &input, &mut output) };
        let cut: Vec<_> = portions(cipher, 32, &mut job)
            .map(|portion| (portion.iv, portion.input.len(), portion.output.len(), portion.padding))
            .collect();
        let at = |start: usize| Iv::new(&input[start..start + 16]).unwrap();
        let (none, pkcs7) = (Padding::None, Padding::Pkcs7);
        assert_eq!(cut, [(iv, 32, 32, none), (at(16), 32, 32, none), (at(48), 16, 16, pkcs7)]);

        let mut data = input.clone();
        let mut job = InPlaceJob::new(cipher, Direction::Decrypt, iv, &mut data);
        let mut ivs = Vec::new();
        for portion in portions_in_place(32, &mut job) {
            ivs.push(portion.iv);
            // As its worker would, before the next portion is claimed.
            portion.data.fill(0);
        }
        assert_eq!(ivs, [iv, at(16), at(48)]);
    }

    #[test]
    fn batches_are_cut_between_messages() {
        let input = [0; 50];
        let mut outputs = [[0; 50]; 7];
        let iv = Iv::new(&[0; 16]).unwrap();
        let mut batch: Vec<_> =
            outputs.iter_mut().map(|output| Job::new(iv, &input, output)).collect();
        let lengths: Vec<_> = runs(120, &mut batch).map(|run| run.len()).collect();
        assert_eq!(lengths, [3, 3, 1]);
        assert_eq!(runs(120, &mut []).count(), 0);
    }
}
