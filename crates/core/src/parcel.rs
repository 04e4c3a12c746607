//! Batches that own their data.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::{
    EngineError, Iv, Job, Key, Outcome, Padding, Session, Verification, WipedBuffer, emptied,
};

/// A batch of jobs together with their buffers.
///
/// [`Session::process`] borrows its jobs. Nobody can cancel a call that hangs in a driver, so a
/// guard must copy borrowed jobs for a thread that it may abandon. A parcel goes to that thread and
/// back without a copy: both share the inputs, since no engine writes to them, and the outputs
/// change hands. An abandoned thread keeps its outputs, and the parcel gets new ones.
///
/// The caller first pushes jobs, then adds their buffers: an input and an output. It [takes them
/// out](Parcel::drain) when the batch is done. The lists keep their memory for the next batch.
///
/// ```
/// # extern crate evener_core as evener;
/// use evener::{Iv, Parcel, PlacedJob, WipedBuffer};
///
/// let mut parcel = Parcel::default();
/// for half in [0..16, 16..32] {
///     parcel.push(PlacedJob::new(Iv::NONE, half.clone(), half));
/// }
/// parcel.add(WipedBuffer::zeros(32), WipedBuffer::zeros(32));
/// // session.process_parcel(&mut parcel)?;
/// assert_eq!((parcel.outcomes().len(), parcel.drain().count()), (2, 1));
/// ```
#[derive(Default)]
pub struct Parcel {
    shared: Arc<Shared>,
    /// One for each input.
    outputs: Vec<WipedBuffer>,
    /// One for each job.
    outcomes: Vec<Outcome>,
    /// One for each job.
    verifications: Vec<Verification>,
    /// An empty list that lends its memory to the list of jobs.
    list: Vec<Job<'static>>,
}

/// The part that nobody writes to while an engine processes the jobs. If an abandoned thread still
/// shares it, the parcel makes a copy before it changes it.
#[derive(Clone, Default)]
struct Shared {
    pairs: Vec<Pair>,
    jobs: Vec<PlacedJob>,
    #[allow(clippy::vec_box, reason = "no copy of a key is left behind when the list grows")]
    keys: Vec<Box<Key>>,
}

struct Pair {
    input: WipedBuffer,
    output_length: usize,
    /// The number of jobs up to and including the last in this pair.
    jobs: usize,
}

/// A job of a [`Parcel`]: like [`Job`], with ranges of a pair's buffers instead of slices.
#[derive(Clone, Debug)]
pub struct PlacedJob {
    /// As [`Job::iv`].
    pub iv: Iv,
    /// As [`Job::key`].
    pub key: Option<KeyNumber>,
    /// As [`Job::padding`].
    pub padding: Padding,
    /// The range of the additional data in the input buffer.
    pub aad: Range<usize>,
    /// The range of the message in the input buffer.
    pub input: Range<usize>,
    /// The range of the result in the output buffer, after the results of earlier jobs.
    pub output: Range<usize>,
}

/// A key of a [`Parcel`].
#[derive(Clone, Copy, Debug)]
pub struct KeyNumber(usize);

impl PlacedJob {
    /// A job without padding, additional data or a key of its own.
    pub fn new(iv: Iv, input: Range<usize>, output: Range<usize>) -> PlacedJob {
        PlacedJob { iv, key: None, padding: Padding::None, aad: 0..0, input, output }
    }
}

impl Parcel {
    /// Adds a copy of a key for jobs that are pushed later. Emptying the parcel wipes it.
    pub fn add_key(&mut self, key: &Key) -> KeyNumber {
        let keys = &mut Arc::make_mut(&mut self.shared).keys;
        keys.push(Box::new(key.clone()));
        KeyNumber(keys.len() - 1)
    }

    /// Adds a job. Its buffers are added later.
    pub fn push(&mut self, job: PlacedJob) {
        Arc::make_mut(&mut self.shared).jobs.push(job);
        self.outcomes.push(Outcome::Pending);
        self.verifications.push(Verification::ByChance);
    }

    /// Adds the pair of buffers for the jobs pushed since the previous pair.
    pub fn add(&mut self, input: WipedBuffer, output: WipedBuffer) {
        let output_length = output.len();
        let shared = Arc::make_mut(&mut self.shared);
        let jobs = shared.jobs.len();
        shared.pairs.push(Pair { input, output_length, jobs });
        self.outputs.push(output);
    }

    /// The output of a pair, by its number.
    pub fn output(&self, pair: usize) -> &[u8] {
        self.outputs.get(pair).map_or(&[], |output| output)
    }

    /// The jobs, in the order in which they were pushed.
    pub fn jobs(&self) -> &[PlacedJob] {
        &self.shared.jobs
    }

    /// Each job's [outcome](Job::outcome).
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Each job's [outcome](Job::outcome), mutable.
    pub fn outcomes_mut(&mut self) -> &mut [Outcome] {
        &mut self.outcomes
    }

    /// Each job's outcome and [verification](Job::verification), mutable.
    pub fn marks_mut(&mut self) -> impl Iterator<Item = (&mut Outcome, &mut Verification)> {
        self.outcomes.iter_mut().zip(&mut self.verifications)
    }

    /// Each job's [verification](Job::verification).
    pub fn verifications(&self) -> &[Verification] {
        &self.verifications
    }

    /// Each job's [verification](Job::verification), mutable.
    pub fn verifications_mut(&mut self) -> &mut [Verification] {
        &mut self.verifications
    }

    /// Removes jobs and keys, and takes the buffers out in the order in which they were added.
    /// Inputs are unchanged; inputs that an abandoned thread still shares are copies.
    pub fn drain(&mut self) -> impl Iterator<Item = (WipedBuffer, WipedBuffer)> {
        self.outcomes.clear();
        self.verifications.clear();
        let shared = Arc::make_mut(&mut self.shared);
        shared.jobs.clear();
        shared.keys.clear();
        shared.pairs.drain(..).map(|pair| pair.input).zip(self.outputs.drain(..))
    }

    /// Calls a function with the jobs, and keeps its changes to their outcomes and verifications.
    ///
    /// # Panics
    /// When a job's ranges do not fit its pair of buffers, or outputs overlap.
    pub fn with_jobs<R>(&mut self, act: impl FnOnce(&mut [Job<'_>]) -> R) -> R {
        let Shared { pairs, jobs, keys } = &*self.shared;
        let mut list = emptied(std::mem::take(&mut self.list));
        let results = self.outcomes.iter().zip(&self.verifications);
        let mut placed = jobs.iter().zip(results);
        let mut before = 0;
        for (pair, output) in pairs.iter().zip(&mut self.outputs) {
            let (mut rest, mut at) = (&mut output[..], 0);
            for (job, (&outcome, &verification)) in placed.by_ref().take(pair.jobs - before) {
                let (_, unused) = rest.split_at_mut(job.output.start - at);
                let (output, behind) = unused.split_at_mut(job.output.len());
                (rest, at) = (behind, job.output.end);
                list.push(Job {
                    key: job.key.map(|key| &*keys[key.0]),
                    aad: &pair.input[job.aad.clone()],
                    padding: job.padding,
                    outcome,
                    verification,
                    ..Job::new(job.iv, &pair.input[job.input.clone()], output)
                });
            }
            before = pair.jobs;
        }
        let result = act(&mut list);
        for (at, job) in list.iter().enumerate() {
            (self.outcomes[at], self.verifications[at]) = (job.outcome, job.verification);
        }
        self.list = emptied(list);
        result
    }

    /// Processes the jobs with a session that borrows them.
    ///
    /// # Errors
    /// Those of [`Session::process`].
    pub fn through_jobs<S: Session + ?Sized>(
        &mut self,
        session: &mut S,
    ) -> Result<(), EngineError> {
        self.with_jobs(|jobs| session.process(jobs))
    }

    /// The parcel as it goes to another thread: with the outputs, and a share of the rest. Until it
    /// [comes back](Parcel::take_back) or is [left behind](Parcel::leave_behind), this parcel has
    /// no outputs.
    pub fn hand_over(&mut self) -> Parcel {
        Parcel {
            shared: Arc::clone(&self.shared),
            outputs: std::mem::take(&mut self.outputs),
            outcomes: self.outcomes.clone(),
            verifications: vec![Verification::ByChance; self.verifications.len()],
            list: std::mem::take(&mut self.list),
        }
    }

    /// Takes back a parcel that was handed over, with its outputs and outcomes. Verifications stay
    /// as they are.
    pub fn take_back(&mut self, handed: Parcel) {
        let Parcel { shared, outputs, outcomes, list, .. } = handed;
        drop(shared);
        (self.outputs, self.outcomes, self.list) = (outputs, outcomes, list);
    }

    /// Abandons a parcel that was handed over, which its thread may still write to: the outputs are
    /// new and hold zeros, so results of jobs that were already settled are lost. Everything else
    /// is unchanged, and another session can process the parcel.
    pub fn leave_behind(&mut self) {
        let new = |pair: &Pair| WipedBuffer::zeros(pair.output_length);
        self.outputs = self.shared.pairs.iter().map(new).collect();
    }
}

impl Clone for Pair {
    fn clone(&self) -> Pair {
        let mut input = WipedBuffer::zeros(self.input.len());
        input.copy_from_slice(&self.input);
        Pair { input, ..*self }
    }
}

impl fmt::Debug for Parcel {
    /// Prints where the data is, not the data itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parcel")
            .field("jobs", &self.shared.jobs)
            .field("outcomes", &self.outcomes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use crate::Rejection;

    use super::*;

    /// Inverts every byte, and rejects empty messages.
    struct Toy;

    impl Session for Toy {
        fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
            for job in batch.iter_mut().filter(|job| job.outcome == Outcome::Pending) {
                let key = job.key.map_or(0, |key| key.bytes()[0]);
                let turned = job.input.iter().map(|byte| !byte ^ key);
                job.output.iter_mut().zip(turned).for_each(|(to, from)| *to = from);
                job.outcome = match job.input.len() {
                    0 => Outcome::Rejected(Rejection::Tag),
                    written => Outcome::Done { written },
                };
            }
            Ok(())
        }
    }

    fn buffer(bytes: &[u8]) -> WipedBuffer {
        let mut buffer = WipedBuffer::zeros(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Four jobs in the first pair, none in the second, and one in the third.
    fn parcel() -> Parcel {
        let mut parcel = Parcel::default();
        let key = Some(parcel.add_key(&Key::new(&[0x0F]).unwrap()));
        let job = |input, output| PlacedJob::new(Iv::NONE, input, output);
        parcel.push(job(1..3, 0..2));
        parcel.push(job(2..2, 2..2));
        parcel.push(PlacedJob { key, ..job(0..2, 3..5) });
        parcel.push(job(0..1, 5..6));
        parcel.outcomes_mut()[3] = Outcome::Done { written: 1 };
        parcel.add(buffer(&[1, 2, 3]), buffer(&[9; 7]));
        parcel.add(buffer(&[5]), buffer(&[5]));
        parcel.push(job(0..1, 0..1));
        parcel.add(buffer(&[4]), buffer(&[8; 2]));
        parcel
    }

    const OUTPUTS: [&[u8]; 3] = [&[!2, !3, 9, !1 ^ 15, !2 ^ 15, 9, 9], &[5], &[!4, 8]];
    const OUTCOMES: [Outcome; 5] = [
        Outcome::Done { written: 2 },
        Outcome::Rejected(Rejection::Tag),
        Outcome::Done { written: 2 },
        Outcome::Done { written: 1 },
        Outcome::Done { written: 1 },
    ];

    fn check(mut parcel: Parcel) {
        assert_eq!(parcel.outcomes(), OUTCOMES);
        let buffers: Vec<_> = parcel.drain().collect();
        let (inputs, outputs): (Vec<_>, Vec<_>) =
            buffers.iter().map(|(input, output)| (&input[..], &output[..])).unzip();
        assert_eq!(inputs, [&[1, 2, 3][..], &[5], &[4]]);
        assert_eq!(outputs, OUTPUTS);
        assert!(parcel.outcomes().is_empty() && parcel.jobs().is_empty());
        assert!(parcel.shared.keys.is_empty());
        assert_eq!(parcel.drain().count(), 0);
    }

    #[test]
    fn jobs_lie_where_they_were_placed() {
        let mut parcel = parcel();
        parcel.through_jobs(&mut Toy).unwrap();
        check(parcel);
    }

    #[test]
    fn a_parcel_goes_to_a_thread_and_back_without_a_copy() {
        let mut parcel = parcel();
        let addresses = |parcel: &Parcel| {
            let pairs = parcel.shared.pairs.iter().zip(&parcel.outputs);
            pairs.map(|(pair, output)| (pair.input.as_ptr(), output.as_ptr())).collect::<Vec<_>>()
        };
        let before = addresses(&parcel);
        let mut handed = parcel.hand_over();
        let worker = thread::spawn(move || {
            handed.through_jobs(&mut Toy).unwrap();
            handed
        });
        parcel.take_back(worker.join().unwrap());
        assert_eq!(addresses(&parcel), before);
        check(parcel);
    }

    #[test]
    fn a_parcel_that_was_left_behind_is_as_before_and_no_longer_written_to() {
        let mut parcel = parcel();
        let mut handed = parcel.hand_over();
        parcel.leave_behind();
        handed.through_jobs(&mut Toy).unwrap();
        let pending = parcel.outcomes().iter().filter(|&&outcome| outcome == Outcome::Pending);
        assert_eq!(pending.count(), 4);
        assert_eq!((parcel.output(0), parcel.output(2)), (&[0; 7][..], &[0; 2][..]));
        // Another session processes it, and the inputs come back while the thread still has them.
        parcel.verifications_mut()[4] = Verification::Wanted;
        parcel.through_jobs(&mut Toy).unwrap();
        assert_eq!(parcel.outcomes(), OUTCOMES);
        assert_eq!(parcel.verifications()[4], Verification::Wanted);
        assert_eq!(parcel.output(2), [!4, 0]);
        let inputs: Vec<_> = parcel.drain().map(|(input, _)| input.to_vec()).collect();
        assert_eq!(inputs, [&[1, 2, 3][..], &[5], &[4]]);
        check(handed);
    }

    #[test]
    fn neither_text_nor_key_is_printed() {
        let printed = format!("{:?}", parcel());
        assert!(!printed.contains("[1, 2, 3]") && !printed.contains("15"), "{printed}");
    }
}
