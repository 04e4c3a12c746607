//! Sessions that may hang.
//!
//! A call that hangs in a driver can't be cancelled, and if it returns later it may write to its
//! buffers. So the session runs on a helper thread and uses buffers of its own: the caller copies
//! its jobs in, waits until the deadline, and copies the results out. When the deadline passes,
//! thread, session and buffers are abandoned. The caller's buffers were never used, and its jobs
//! are still pending.
//!
//! An engine that [lends memory](Engine::buffer) would gain nothing if its data was copied there.
//! So a [`Parcel`] goes to its thread uncopied. If anything goes wrong, its outputs stay there, and
//! the caller gets new ones. Copies for such an engine are in its own memory. The outputs of a
//! failed batch are freed after the session is closed, because the device may still be at work.
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Direction, Engine, EngineError, Guarded, Job, Outcome, Parcel, Recall, Session,
    SessionRequest, Shortcuts,
};

use super::helper::{
    NAME, PANICKED, Thread, have_drivers_step_back, missed, no_thread, thread_cpu_time,
};
use super::left::{Busy, begin_closing, end_closing};
use super::lending::buffer_within;
use super::packing::{pack, unpack};
use crate::foreign;
use crate::patience::{Mailbox, Missed, mailbox};

/// A session on a helper thread.
pub(super) struct HelperSession {
    engine: Arc<dyn Engine>,
    cipher: Cipher,
    direction: Direction,
    deadline: Duration,
    /// True as long as the engine provides its own memory for the parcel in time.
    lends: bool,
    /// The channels to and from the helper; `None` after it was abandoned.
    channels: Option<Channels>,
    /// The helper's thread, which steps back when it is abandoned.
    thread: Arc<Thread>,
    /// Ends all waits for the helper. With a recall, nobody waits until the session is closed.
    recall: Option<Recall>,
    /// Holds copies of jobs.
    copies: Parcel,
    cpu: Duration,
}

impl HelperSession {
    /// Runs an engine's own session on a thread, with this time limit for its calls.
    ///
    /// # Errors
    /// When no thread could be started.
    pub(super) fn start(
        engine: &Arc<dyn Engine>,
        session: Box<dyn Session>,
        request: &SessionRequest<'_>,
        deadline: Duration,
    ) -> Result<HelperSession, EngineError> {
        let &SessionRequest { cipher, direction, .. } = request;
        let recall = Recall::heeded();
        let thread: Arc<Thread> = Arc::default();
        let channels = start(Arc::clone(engine), session, Arc::clone(&thread), recall.as_ref());
        Ok(HelperSession {
            engine: Arc::clone(engine),
            cipher,
            direction,
            deadline,
            lends: engine.offer(cipher, direction).is_some_and(|offer| offer.bytes > 0),
            channels: Some(channels.map_err(|error| no_thread(&error))?),
            thread,
            recall,
            copies: Parcel::default(),
            cpu: Duration::ZERO,
        })
    }

    /// Waits for the helper's reply. Abandons the helper if none comes within the time limit, or
    /// when the recall is called.
    fn wait(&mut self, bytes: u64) -> Result<Parcel, EngineError> {
        let limit = self.deadline.saturating_add(longest_work(bytes));
        let Some((_, replies)) = &self.channels else {
            return Err(EngineError::failed("it was left behind"));
        };
        if self.recall.is_some() {
            self.step_back_if_it_computes(replies, bytes, limit);
        }
        match replies.receive(limit) {
            Ok(reply) => {
                self.cpu = reply.cpu;
                reply.result
            }
            Err(why) => {
                self.channels = None;
                self.thread.step_back();
                Err(missed("finish a batch", limit, why))
            }
        }
    }

    /// Makes a helper that computes for long yield to all other threads, while cores work too.
    fn step_back_if_it_computes(&self, replies: &Mailbox<Reply>, bytes: u64, limit: Duration) {
        let (begun, longest) =
            (Instant::now(), LONGEST_COMPUTING + Duration::from_nanos(bytes.saturating_mul(10)));
        let mut next = LONGEST_COMPUTING;
        while !replies.is_full_within(LOOK_EVERY) && begun.elapsed() < limit {
            if begun.elapsed() >= next {
                have_drivers_step_back();
                next = 4 * next;
            }
            if self.thread.cpu_time().saturating_sub(self.cpu) > longest {
                self.thread.step_back();
                return;
            }
        }
    }

    /// Passes a batch to the helper, and takes it back when the helper has processed it.
    fn process_there(&mut self, parcel: &mut Parcel) -> Result<(), EngineError> {
        let bytes = bytes(parcel);
        if let Some((requests, _)) = &self.channels {
            // If the helper has ended, the wait below reports why.
            let _ = requests.send(parcel.hand_over());
        }
        match self.wait(bytes) {
            Ok(handed) => {
                parcel.take_back(handed);
                Ok(())
            }
            Err(error) => {
                parcel.leave_behind();
                Err(error)
            }
        }
    }
}

#[deny(clippy::missing_trait_methods, reason = "what is not passed on would be lost here")]
impl Session for HelperSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let mut copies = std::mem::take(&mut self.copies);
        let (engine, lends) = (&self.engine, &mut self.lends);
        let mut lend = |bytes| {
            let lent = lends.then(|| buffer_within(engine, bytes, self.deadline))?;
            // An engine that hangs is not asked again.
            *lends = lent.is_ok();
            lent.unwrap_or_default()
        };
        pack(&mut copies, batch, self.cipher, self.direction, &mut lend);
        let result = self.process_there(&mut copies);
        unpack(&copies, batch);
        self.copies = copies;
        result
    }

    /// The data is copied at once, so there is nothing to gain.
    fn shortcuts(&mut self) -> Option<&mut dyn Shortcuts> {
        None
    }

    fn guarded(&mut self) -> Option<&mut dyn Guarded> {
        Some(self)
    }
}

impl Guarded for HelperSession {
    fn process_parcel(&mut self, parcel: &mut Parcel) -> Result<(), EngineError> {
        // Settled jobs already have results, which must not be left behind.
        let is_new = parcel.outcomes().iter().all(|outcome| *outcome == Outcome::Pending);
        if self.lends && is_new {
            return self.process_there(parcel);
        }
        parcel.through_jobs(self)
    }

    fn cpu_elsewhere(&mut self) -> Duration {
        self.cpu
    }
}

impl Drop for HelperSession {
    fn drop(&mut self) {
        // The helper closes its session when the channel closes. That may hang too; then the helper
        // is abandoned, and no data is lost.
        let Some((requests, replies)) = self.channels.take() else { return };
        begin_closing();
        drop(requests);
        if self.recall.is_none()
            && replies.receive(self.deadline.min(LONGEST_CLOSING)).err() == Some(Missed::Late)
        {
            self.thread.step_back();
        }
    }
}

/// The time that the slowest healthy module takes for a batch, in addition to the time limit. The
/// same limit for messages of 16 bytes and of a gigabyte would retire a module that is only slow.
fn longest_work(bytes: u64) -> Duration {
    Duration::from_secs(bytes / LEAST_BYTES_A_SECOND)
}

/// The length of a batch's messages and additional data, in bytes.
fn bytes(parcel: &Parcel) -> u64 {
    let length = |range: &Range<usize>| range.len() as u64;
    parcel.jobs().iter().map(|job| length(&job.aad) + length(&job.input)).sum()
}

/// A module that processes fewer bytes in a second counts as hanging.
const LEAST_BYTES_A_SECOND: u64 = 64 << 10;

/// The CPU time that a batch may take from the cores that work meanwhile, in addition to ten
/// nanoseconds for each byte (a small processor copies it twice in that), and the interval between
/// checks.
const LONGEST_COMPUTING: Duration = Duration::from_millis(4);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Time limit for closing a session.
const LONGEST_CLOSING: Duration = Duration::from_secs(2);

/// The channels to and from a helper.
type Channels = (SyncSender<Parcel>, Mailbox<Reply>);

/// A reply of the helper.
struct Reply {
    /// The batch, if it was done.
    result: Result<Parcel, EngineError>,
    /// The CPU time of its thread so far.
    cpu: Duration,
}

/// Starts a helper that works with a session. A separate function for the same reason as [`ask`].
#[inline(never)]
fn start(
    engine: Arc<dyn Engine>,
    mut session: Box<dyn Session>,
    thread: Arc<Thread>,
    recall: Option<&Recall>,
) -> io::Result<Channels> {
    let (to_helper, requests) = sync_channel::<Parcel>(1);
    let (to_caller, replies) = mailbox(recall);
    let help = move || {
        let _registered = thread.begin();
        foreign::begin();
        // Dropped after the session, because its device may write to these parcels until then.
        let mut kept = Vec::new();
        let mut is_left = false;
        while let Ok(mut parcel) = requests.recv() {
            // As jobs, because only the parcel knows which data belongs to which job.
            let done = catch_unwind(AssertUnwindSafe(|| parcel.through_jobs(&mut *session)));
            let result = match done {
                Ok(Ok(())) => Ok(parcel),
                Ok(Err(error)) => {
                    kept.push(parcel);
                    Err(error)
                }
                Err(_) => {
                    kept.push(parcel);
                    Err(EngineError::failed(PANICKED))
                }
            };
            // After the deadline the caller takes no reply, and `send` returns it.
            let reply = Reply { result, cpu: thread_cpu_time() };
            if let Err(unheard) = to_caller.send(reply) {
                kept.extend(unheard.result);
                is_left = true;
                break;
            }
        }
        let _busy = Busy::add(&engine);
        drop(session);
        drop(kept);
        if !is_left {
            end_closing();
        }
        drop(to_caller);
    };
    thread::Builder::new().name(NAME.to_owned()).spawn(help)?;
    Ok((to_helper, replies))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use evener_core::{Description, Iv, Key, Offer, PlacedJob, WipedBuffer};

    use super::*;
    use crate::guard::helper::LOWEST;
    use crate::guard::{Watch, guard};

    /// A module whose driver never returns.
    struct Hanging(Description);

    struct HangingSession;

    impl Engine for Hanging {
        fn description(&self) -> &Description {
            &self.0
        }

        fn offer(&self, _: Cipher, _: Direction) -> Option<Offer> {
            None
        }

        fn open(&self, _: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
            Ok(Box::new(HangingSession))
        }
    }

    impl Session for HangingSession {
        fn process(&mut self, _: &mut [Job<'_>]) -> Result<(), EngineError> {
            thread::sleep(Duration::MAX);
            Ok(())
        }
    }

    #[test]
    fn a_thread_that_is_left_behind_lets_others_go_first() {
        let description = Description::module("hanging");
        let engine: Arc<dyn Engine> = Arc::new(Hanging(description));
        let (cipher, direction) = (Cipher::Aes128Ctr, Direction::Encrypt);
        let request = SessionRequest { cipher, direction, key: None };
        let opened = engine.open(&request).unwrap();
        let limit = Duration::from_millis(500);
        let mut session = HelperSession::start(&engine, opened, &request, limit).unwrap();
        let (key, iv) = (Key::new(&[1; 16]).unwrap(), Iv::new(&[2; 16]).unwrap());
        let mut output = [0; 16];
        let mut jobs = [Job { key: Some(&key), ..Job::new(iv, &[3; 16], &mut output) }];
        let error = session.process(&mut jobs).unwrap_err();
        assert!(error.to_string().contains("was left behind"), "{error}");
        assert_eq!(jobs[0].outcome, Outcome::Pending);
        let thread = session.thread.lock().unwrap().as_raw_nonzero();
        let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        // Field 19 of proc(5).
        let nice = stat.rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap();
        assert_eq!(nice, LOWEST.to_string());
    }

    #[test]
    fn a_recall_ends_all_waits_and_is_no_fault() {
        let description = Description::module("hanging");
        let hanging: Arc<dyn Engine> = Arc::new(Hanging(description));
        let (cipher, direction) = (Cipher::Aes128Ctr, Direction::Encrypt);
        let request = SessionRequest { cipher, direction, key: None };
        let engine = guard(Arc::clone(&hanging), hanging, Watch::of_a_run(None));
        let recall = Recall::default();
        let _heeding = recall.heed();
        let mut session = engine.open(&request).unwrap();
        let caller = thread::spawn({
            let recall = recall.clone();
            move || {
                thread::sleep(Duration::from_millis(50));
                recall.call();
            }
        });
        let (key, iv) = (Key::new(&[1; 16]).unwrap(), Iv::new(&[2; 16]).unwrap());
        let mut output = [0; 16];
        let mut jobs = [Job { key: Some(&key), ..Job::new(iv, &[3; 16], &mut output) }];
        let error = session.process(&mut jobs).unwrap_err();
        assert!(matches!(error, EngineError::Interrupted { .. }), "{error}");
        assert_eq!(jobs[0].outcome, Outcome::Pending);
        assert_eq!(engine.account().unwrap().fault, None);
        drop(session);
        let error = engine.open(&request).err().unwrap();
        assert!(matches!(error, EngineError::Interrupted { .. }), "{error}");
        assert_eq!(engine.account().unwrap().fault, None);
        caller.join().unwrap();
    }

    #[test]
    fn a_long_message_has_more_time_than_a_short_one() {
        let parcel = |bytes: usize| {
            let mut parcel = Parcel::default();
            parcel.push(PlacedJob::new(Iv::NONE, 0..bytes, 0..bytes));
            parcel.add(WipedBuffer::zeros(bytes), WipedBuffer::zeros(bytes));
            parcel
        };
        assert_eq!(longest_work(bytes(&parcel(16))), Duration::ZERO);
        assert_eq!(longest_work(bytes(&parcel(256 << 10))), Duration::from_secs(4));
        assert_eq!(longest_work(bytes(&parcel(64 << 20))), Duration::from_secs(1024));
    }
}
