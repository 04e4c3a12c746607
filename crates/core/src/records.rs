//! Many messages of one length at equal distances: the rows of a table, samples, log records.

use std::fmt;

use crate::{Cipher, Direction, EngineError, Iv, Job, Outcome, Padding, Rejection, Session};

/// The layout of records in their buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLayout {
    /// Number of records.
    pub count: usize,
    /// Length of a message (a record's plaintext) in bytes.
    pub length: usize,
    /// Padding, for ECB and CBC.
    pub padding: Padding,
    /// Distance in bytes from the beginning of one input to that of the next.
    pub input_stride: usize,
    /// Distance in bytes from the beginning of one output to that of the next.
    pub output_stride: usize,
}

impl RecordLayout {
    /// Records without gaps.
    pub fn packed(
        cipher: Cipher,
        direction: Direction,
        padding: Padding,
        count: usize,
        length: usize,
    ) -> RecordLayout {
        let layout = RecordLayout { count, length, padding, input_stride: 0, output_stride: 0 };
        let input_stride = layout.input_length(cipher, direction);
        let output_stride = layout.output_length(cipher, direction);
        RecordLayout { input_stride, output_stride, ..layout }
    }

    /// Length of a record before processing, in bytes.
    pub fn input_length(&self, cipher: Cipher, direction: Direction) -> usize {
        match direction {
            Direction::Encrypt => self.length,
            Direction::Decrypt => self.sealed_length(cipher),
        }
    }

    /// The space in bytes that a record needs after processing (see [`Job::output_length`]).
    /// Removing padding needs space for the padding too.
    pub fn output_length(&self, cipher: Cipher, direction: Direction) -> usize {
        match (direction, self.padding) {
            (Direction::Decrypt, Padding::None) => self.length,
            _ => self.sealed_length(cipher),
        }
    }

    /// Length of an encrypted record in bytes.
    fn sealed_length(&self, cipher: Cipher) -> usize {
        match self.padding {
            Padding::None => self.length.saturating_add(cipher.tag_length()),
            Padding::Pkcs7 => {
                let block = cipher.block_length();
                self.length.saturating_add(block - self.length % block)
            }
        }
    }
}

/// The bytes of [`Records`].
pub struct RecordParts<'a> {
    /// All IVs.
    pub ivs: &'a [u8],
    /// All inputs.
    pub input: &'a [u8],
    /// The place for all outputs.
    pub output: &'a mut [u8],
}

/// Messages of one length in one buffer, and their IVs in another. They use the session's key.
///
/// The lengths are checked once, here, instead of for every record, and there are no pointers to
/// follow. This makes short records several times as fast as [jobs](Job).
///
/// Record *i* is the [`RecordLayout::input_length`] bytes at *i* · `input_stride`, its result goes
/// to *i* · `output_stride`, and its IV is the *i*-th of `ivs`, each of the cipher's
/// [`Cipher::iv_length`]. Bytes between the outputs of two records are not written to.
pub struct Records<'a> {
    cipher: Cipher,
    direction: Direction,
    layout: RecordLayout,
    ivs: &'a [u8],
    input: &'a [u8],
    output: &'a mut [u8],
    done: usize,
    rejected: Vec<(usize, Rejection)>,
}

impl<'a> Records<'a> {
    /// Checks that the lengths fit together.
    ///
    /// # Errors
    /// [`Rejection::Malformed`] names the wrong length.
    pub fn new(
        cipher: Cipher,
        direction: Direction,
        layout: RecordLayout,
        ivs: &'a [u8],
        input: &'a [u8],
        output: &'a mut [u8],
    ) -> Result<Records<'a>, Rejection> {
        let input_length = layout.input_length(cipher, direction);
        let output_length = layout.output_length(cipher, direction);
        // One record stands for all.
        let iv = Iv::new(&[0; Iv::MAX_LENGTH][..cipher.iv_length()]).unwrap_or(Iv::NONE);
        if layout.count > 0
            && let Some(input) = input.get(..input_length)
            && let Some(output) = output.get_mut(..output_length)
        {
            let job = Job { padding: layout.padding, ..Job::new(iv, input, output) };
            job.check(cipher, direction)?;
        }
        let wrong = if layout.count.checked_mul(cipher.iv_length()) != Some(ivs.len()) {
            "there is not one IV for each record"
        } else if layout.count > MOST_EMPTY
            && [input_length, output_length, cipher.iv_length()] == [0; 3]
        {
            "these are too many records without bytes and IVs"
        } else if layout.input_stride < input_length || layout.output_stride < output_length {
            "the records overlap"
        } else if !reaches(input.len(), layout.count, layout.input_stride, input_length) {
            "the input is too short"
        } else if !reaches(output.len(), layout.count, layout.output_stride, output_length) {
            "the output is too short"
        } else {
            let rejected = Vec::new();
            return Ok(Records {
                cipher,
                direction,
                layout,
                ivs,
                input,
                output,
                done: 0,
                rejected,
            });
        };
        Err(Rejection::Malformed(wrong))
    }

    /// The cipher of the session to be opened.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The direction of the session to be opened.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// The layout of the records.
    pub fn layout(&self) -> &RecordLayout {
        &self.layout
    }

    /// The records' bytes.
    pub fn parts(&mut self) -> RecordParts<'_> {
        RecordParts { ivs: self.ivs, input: self.input, output: self.output }
    }

    /// Number of records, from the first, that were processed or rejected.
    pub fn done(&self) -> usize {
        self.done
    }

    /// The numbers of the records that no engine can process, in ascending order, with the reason.
    /// Their outputs hold no unauthenticated plaintext.
    pub fn rejected(&self) -> &[(usize, Rejection)] {
        &self.rejected
    }

    /// Counts `count` more records as processed; for engines.
    pub fn advance(&mut self, count: usize) {
        self.done = self.layout.count.min(self.done + count);
    }

    /// Rejects a record that no engine can process; for engines, in ascending order.
    pub fn reject(&mut self, record: usize, rejection: Rejection) {
        self.rejected.push((record, rejection));
    }

    /// Processes the remaining records as jobs, in batches.
    ///
    /// # Errors
    /// Those of [`Session::process`].
    pub fn through_jobs<S: Session + ?Sized>(
        &mut self,
        session: &mut S,
    ) -> Result<(), EngineError> {
        let &mut Records { cipher, direction, layout, ivs, input, .. } = self;
        let (iv_length, first) = (cipher.iv_length(), self.done);
        let input_length = layout.input_length(cipher, direction);
        let output_length = layout.output_length(cipher, direction);
        let mut outputs = self.output.get_mut(first * layout.output_stride..).unwrap_or_default();
        let mut jobs = Vec::with_capacity(BATCH.min(layout.count - first));
        for record in first..layout.count {
            let (output, others) = if record + 1 < layout.count {
                outputs.split_at_mut(layout.output_stride)
            } else {
                (outputs, Default::default())
            };
            outputs = others;
            let iv = Iv::new(&ivs[record * iv_length..][..iv_length]).unwrap_or(Iv::NONE);
            let input = &input[record * layout.input_stride..][..input_length];
            let output = &mut output[..output_length];
            jobs.push(Job { padding: layout.padding, ..Job::new(iv, input, output) });
            if jobs.len() < BATCH && record + 1 < layout.count {
                continue;
            }
            let result = session.process(&mut jobs);
            for job in jobs.drain(..) {
                match outcome_of(job, direction, layout.length) {
                    Outcome::Pending => return result,
                    Outcome::Done { .. } => {}
                    Outcome::Rejected(rejection) => self.rejected.push((self.done, rejection)),
                }
                self.done += 1;
            }
            result?;
        }
        Ok(())
    }
}

impl fmt::Debug for Records<'_> {
    /// Prints the layout of the records, not their content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("cipher", &self.cipher)
            .field("direction", &self.direction)
            .field("layout", &self.layout)
            .field("done", &self.done)
            .field("rejected", &self.rejected)
            .finish_non_exhaustive()
    }
}

/// Returns whether a buffer of `bytes` has space for that many records.
fn reaches(bytes: usize, count: usize, stride: usize, length: usize) -> bool {
    let Some(last) = count.checked_sub(1) else { return true };
    last.checked_mul(stride)
        .and_then(|start| start.checked_add(length))
        .is_some_and(|end| end <= bytes)
}

/// The result of a record that was processed as a job. A decrypted message of the wrong length
/// means that its padding was changed.
fn outcome_of(job: Job<'_>, direction: Direction, length: usize) -> Outcome {
    match job.outcome {
        Outcome::Done { written } if direction == Direction::Decrypt && written != length => {
            job.output.fill(0);
            Outcome::Rejected(Rejection::Padding)
        }
        outcome => outcome,
    }
}

/// Jobs in one batch: as many as engines recommend, but few enough for the cache.
const BATCH: usize = 64;

/// The maximum number of records without bytes and IVs: no buffer's length limits them.
const MOST_EMPTY: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const PADDED: Padding = Padding::Pkcs7;

    fn check(
        layout: RecordLayout,
        cipher: Cipher,
        direction: Direction,
        sizes: [usize; 3],
    ) -> bool {
        let [ivs, input, output] = sizes.map(|size| vec![0; size]);
        let mut output = output;
        Records::new(cipher, direction, layout, &ivs, &input, &mut output).is_ok()
    }

    #[test]
    fn packed_records_take_what_jobs_take() {
        use Direction::{Decrypt, Encrypt};
        let cases = [
            (Cipher::Aes128Cbc, Encrypt, Padding::None, 32, (32, 32)),
            (Cipher::Aes128Cbc, Encrypt, PADDED, 8, (8, 16)),
            (Cipher::Aes128Cbc, Decrypt, PADDED, 8, (16, 16)),
            (Cipher::BfCbc, Encrypt, PADDED, 8, (8, 16)),
            (Cipher::Aes128Gcm, Encrypt, Padding::None, 5, (5, 21)),
            (Cipher::Aes128Gcm, Decrypt, Padding::None, 5, (21, 5)),
            (Cipher::Aes128Ctr, Decrypt, Padding::None, 5, (5, 5)),
        ];
        for (cipher, direction, padding, length, (input, output)) in cases {
            let layout = RecordLayout::packed(cipher, direction, padding, 3, length);
            assert_eq!((layout.input_stride, layout.output_stride), (input, output), "{cipher}");
            let sizes = [3 * cipher.iv_length(), 3 * input, 3 * output];
            assert!(check(layout, cipher, direction, sizes), "{cipher} {direction}");
            for short in 0..3 {
                let mut sizes = sizes;
                sizes[short] -= 1;
                assert!(!check(layout, cipher, direction, sizes), "{cipher} {direction}");
            }
        }
    }

    #[test]
    fn endless_records_of_nothing_are_refused() {
        let (cipher, padding) = (Cipher::Aes128Ecb, Padding::None);
        let fits = |count| {
            let layout =
                RecordLayout { count, length: 0, padding, input_stride: 0, output_stride: 0 };
            check(layout, cipher, Direction::Encrypt, [0; 3])
        };
        assert!(fits(1) && fits(MOST_EMPTY) && !fits(MOST_EMPTY + 1) && !fits(usize::MAX));
    }

    #[test]
    fn no_message_is_printed() {
        let (cipher, direction) = (Cipher::Aes128Cbc, Direction::Encrypt);
        let layout = RecordLayout::packed(cipher, direction, Padding::None, 1, 16);
        let (ivs, input, mut output) = ([0; 16], [201; 16], [0; 16]);
        let records = Records::new(cipher, direction, layout, &ivs, &input, &mut output).unwrap();
        let text = format!("{records:?}");
        assert!(text.contains("length: 16") && !text.contains("201"), "{text}");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (cipher, direction) = (Cipher::Aes128Cbc, Direction::Encrypt);
        let layout = RecordLayout::packed(cipher, direction, Padding::None, 2, 32);
        let fits = |layout| check(layout, cipher, direction, [32, 64, 64]);
        assert!(fits(layout));
        assert!(!fits(RecordLayout { length: 31, ..layout }));
        assert!(!fits(RecordLayout { padding: PADDED, ..layout }));
        assert!(!fits(RecordLayout { count: 3, ..layout }));
        assert!(!fits(RecordLayout { input_stride: 33, ..layout }));
        assert!(!fits(RecordLayout { input_stride: 31, ..layout }));
        assert!(!fits(RecordLayout { output_stride: 16, ..layout }));
        assert!(!fits(RecordLayout { input_stride: usize::MAX, ..layout }));
        assert!(!fits(RecordLayout { length: usize::MAX, ..layout }));
        assert!(!fits(RecordLayout { count: usize::MAX, ..layout }));
        let none = RecordLayout { count: 0, ..layout };
        assert!(check(none, cipher, direction, [0, 0, 0]));
    }

    /// Copies messages; rejects every message that begins with 9, and fails after some messages.
    struct Copier {
        left: usize,
    }

    impl Session for Copier {
        fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
            for job in batch {
                let gone = || EngineError::failed("gone");
                self.left = self.left.checked_sub(1).ok_or_else(gone)?;
                job.output[..job.input.len()].copy_from_slice(job.input);
                job.outcome = match job.input[0] {
                    9 => Outcome::Rejected(Rejection::Tag),
                    _ => Outcome::Done { written: job.input.len() },
                };
            }
            Ok(())
        }
    }

    #[test]
    fn another_session_goes_on_where_one_failed() {
        let (count, cipher, direction) = (200, Cipher::Aes128Cbc, Direction::Encrypt);
        let layout = RecordLayout::packed(cipher, direction, Padding::None, count, 16);
        let layout = RecordLayout { output_stride: 20, ..layout };
        let mut input: Vec<u8> = (0..count * 16).map(|byte| byte as u8 % 7).collect();
        input[70 * 16] = 9;
        let (ivs, mut output) = (vec![0; count * 16], vec![0xA5; count * 20]);
        let mut records =
            Records::new(cipher, direction, layout, &ivs, &input, &mut output).unwrap();
        assert!(records.through_jobs(&mut Copier { left: 90 }).is_err());
        assert_eq!(records.done(), 90);
        records.through_jobs(&mut Copier { left: 110 }).unwrap();
        assert_eq!(records.done(), count);
        assert_eq!(records.rejected(), [(70, Rejection::Tag)]);
        records.through_jobs(&mut Copier { left: 0 }).unwrap();
        for (input, output) in input.chunks(16).zip(output.chunks(20)) {
            assert_eq!((input, [0xA5; 4].as_slice()), output.split_at(16));
        }
    }
}
