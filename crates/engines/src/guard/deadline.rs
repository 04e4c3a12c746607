//! Sessions that may hang.
//!
//! A call that hangs in a driver can't be cancelled, and if it returns later it may write to its
//! buffers. So the session runs on a helper thread and uses buffers of its own: the caller copies
//! its jobs in, waits until the deadline, and copies the results out. When the deadline passes,
//! thread, session and buffers are abandoned. The caller's buffers were never used, and its jobs
//! are still pending.
//!
//! An engine that [lends memory](Engine::buffer) would gain nothing if its data was copied there. So a
//! [`Parcel`] goes to its thread as it is, and its outputs stay there if anything goes wrong; the caller
//! gets new ones. Copies for such an engine lie in its own memory. What a batch that failed has written
//! to is freed after the session is closed, because the device may still be at work.
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Direction, Engine, EngineError, IgnorePoison, InPlaceJob, Job, Key, Outcome, Parcel,
    Recall, Records, Session, SessionRequest, WipedBuffer, wipe_stack,
};
use rustix::process::Pid;
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

use super::known_answers;
use super::left::{Busy, begin_closing, end_closing};
use super::packing::{pack, unpack};
#[cfg(target_os = "linux")]
use super::sys::run_when_idle;
use crate::foreign;
use crate::patience::{Mailbox, Missed, mailbox};

/// A session on a helper thread.
pub(super) struct HelperSession {
    engine: Arc<dyn Engine>,
    cipher: Cipher,
    direction: Direction,
    deadline: Duration,
    /// Whether the engine has memory of its own for the parcel, as long as it gives some in time.
    lends: bool,
    /// The channels to and from the helper; `None` after it was abandoned.
    channels: Option<Channels>,
    /// The helper's, which steps back when it is abandoned.
    thread: Arc<Thread>,
    /// Ends all waits for the helper, and has nobody wait for the session's end.
    recall: Option<Recall>,
    /// For copies of jobs.
    copies: Parcel,
    cpu: Duration,
}

impl HelperSession {
    /// Opens a session on a thread, and tests it there against `reference`, if there is one; `None` if it
    /// gave a wrong answer. A caller that heeds a recall has no work that waits for the session meanwhile,
    /// so if that takes long the thread lets all others go before it.
    pub(super) fn open(
        engine: &Arc<dyn Engine>,
        reference: Option<&Arc<dyn Engine>>,
        request: &SessionRequest<'_>,
        deadline: Duration,
        brief: &Brief,
    ) -> Result<Option<HelperSession>, EngineError> {
        let recall = Recall::heeded();
        let busy = recall.as_ref().map(|recall| Busy::enter(engine, recall, deadline));
        let busy = busy.transpose().map_err(|why| missed(engine, "open", deadline, why))?;
        let &SessionRequest { cipher, direction, key } = request;
        let opening = Opening {
            engine: Arc::clone(engine),
            reference: reference.map(Arc::clone),
            cipher,
            direction,
            key: key.map(copy),
        };
        // What is moved to a place of its own, such as a channel, is copied with what lies between its
        // fields: what was on the stack, where keys may have been.
        wipe_stack::<STACK>();
        let thread: Arc<Thread> = Arc::default();
        let opened = start_opening(opening, busy, Arc::clone(&thread), recall.as_ref());
        let opened = opened.map_err(|error| no_thread(engine, &error))?;
        if recall.is_some() && !brief.spend(|time| opened.is_full_within(time)) {
            thread.step_back();
        }
        let session = match opened.receive(deadline) {
            Ok(opened) => opened?,
            Err(why) => {
                thread.step_back();
                return Err(missed(engine, "open", deadline, why));
            }
        };
        let Some(session) = session else { return Ok(None) };
        let thread: Arc<Thread> = Arc::default();
        let channels = start(Arc::clone(engine), session, Arc::clone(&thread), recall.as_ref());
        Ok(Some(HelperSession {
            engine: Arc::clone(engine),
            cipher,
            direction,
            deadline,
            lends: engine.offer(cipher, direction).is_some_and(|offer| offer.bytes > 0),
            channels: Some(channels.map_err(|error| no_thread(engine, &error))?),
            thread,
            recall,
            copies: Parcel::default(),
            cpu: Duration::ZERO,
        }))
    }

    /// Waits for the helper's reply; abandons the helper if there is none within `limit`, or when the
    /// recall is called.
    fn wait(&mut self, action: &str, limit: Duration) -> Result<Parcel, EngineError> {
        let Some((_, replies)) = &self.channels else {
            return Err(failed(&self.engine, "it was left behind".to_owned()));
        };
        match replies.receive(limit) {
            Ok(reply) => {
                self.cpu = reply.cpu;
                reply.result
            }
            Err(why) => {
                self.channels = None;
                self.thread.step_back();
                Err(missed(&self.engine, action, limit, why))
            }
        }
    }

    /// Has the helper do a batch, and owns it again afterwards.
    fn process_there(&mut self, parcel: &mut Parcel) -> Result<(), EngineError> {
        let limit = self.deadline.saturating_add(longest_work(parcel));
        if let Some((requests, _)) = &self.channels {
            // If the helper has ended, the wait below reports why.
            let _ = requests.send(parcel.hand_over());
        }
        match self.wait("finish a batch", limit) {
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
            // One that hangs is not asked again.
            *lends = lent.is_ok();
            lent.unwrap_or_default()
        };
        pack(&mut copies, batch, (self.cipher, self.direction), &mut lend);
        let result = self.process_there(&mut copies);
        unpack(&copies, batch);
        self.copies = copies;
        result
    }

    fn process_parcel(&mut self, parcel: &mut Parcel) -> Result<(), EngineError> {
        // What is settled has a result already, which must not be left behind.
        let is_new = parcel.outcomes().iter().all(|outcome| *outcome == Outcome::Pending);
        if self.lends && is_new {
            return self.process_there(parcel);
        }
        parcel.through_jobs(self)
    }

    fn process_in_place(&mut self, job: &mut InPlaceJob<'_>) -> Result<(), EngineError> {
        job.through_scratch(self)
    }

    fn process_records(&mut self, records: &mut Records<'_>) -> Result<(), EngineError> {
        records.through_jobs(self)
    }

    /// The helper has the engine's own session, which verifies nothing.
    fn finish(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// The output is copied at once, so the hint is of no use.
    fn expect_output(&mut self, _bytes: usize) {}

    fn cpu_elsewhere(&self) -> Duration {
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

/// A buffer in an engine's own memory, which a driver gives; `None` if it has none, or if the caller heeds
/// a recall that is called.
///
/// # Errors
/// When it takes longer than the deadline to find out. Then it is abandoned with its thread.
pub(super) fn buffer_within(
    engine: &Arc<dyn Engine>,
    bytes: usize,
    deadline: Duration,
) -> Result<Option<WipedBuffer>, Late> {
    wipe_stack::<STACK>();
    let Ok(buffers) = ask(Arc::clone(engine), bytes) else { return Ok(None) };
    match buffers.receive(deadline) {
        Ok(buffer) => Ok(buffer),
        Err(Missed::Gone | Missed::Recalled) => Ok(None),
        Err(Missed::Late) => Err(Late),
    }
}

/// The deadline has passed.
pub(super) struct Late;

/// By itself, so that its variables lie where the stack was wiped.
#[inline(never)]
fn ask(engine: Arc<dyn Engine>, bytes: usize) -> io::Result<Mailbox<Option<WipedBuffer>>> {
    let (sender, buffers) = mailbox(Recall::heeded().as_ref());
    let ask = move || {
        foreign::begin();
        let unwanted = sender.send(engine.buffer(bytes));
        drop(unwanted);
    };
    thread::Builder::new().name("evener-module".to_owned()).spawn(ask)?;
    Ok(buffers)
}

/// The error of a wait that was in vain.
fn missed(engine: &Arc<dyn Engine>, action: &str, limit: Duration, why: Missed) -> EngineError {
    match why {
        Missed::Gone => failed(engine, PANICKED.to_owned()),
        Missed::Recalled => EngineError::Interrupted { engine: engine.description().name.clone() },
        Missed::Late => {
            let seconds = limit.as_secs_f64();
            failed(engine, format!("it did not {action} within {seconds} s and was left behind"))
        }
    }
}

fn failed(engine: &Arc<dyn Engine>, reason: String) -> EngineError {
    EngineError::Failed { engine: engine.description().name.clone(), reason }
}

fn no_thread(engine: &Arc<dyn Engine>, error: &io::Error) -> EngineError {
    EngineError::Unavailable {
        engine: engine.description().name.clone(),
        reason: format!("no thread could be started for it: {error}"),
    }
}

/// The time that the slowest healthy module takes for a batch, beside the time limit: the same for a
/// message of 16 bytes and for one of a gigabyte would retire a module that is only slow.
fn longest_work(parcel: &Parcel) -> Duration {
    let length = |range: &Range<usize>| range.len() as u64;
    let bytes = parcel.jobs().iter().map(|job| length(&job.aad) + length(&job.input));
    Duration::from_secs(bytes.sum::<u64>() / LEAST_BYTES_A_SECOND)
}

/// A module that does less in a second counts as one that hangs.
const LEAST_BYTES_A_SECOND: u64 = 64 << 10;

const PANICKED: &str = "its thread panicked";

/// For how long all openings of an engine may take time from the cores that work meanwhile.
pub(super) struct Brief(Mutex<Duration>);

impl Default for Brief {
    fn default() -> Brief {
        Brief(Mutex::new(Duration::from_millis(10)))
    }
}

impl Brief {
    /// Spends at most what is left on a wait.
    fn spend(&self, wait: impl FnOnce(Duration) -> bool) -> bool {
        let left = *self.0.lock().ignore_poison();
        let begun = Instant::now();
        let waited = wait(left);
        let mut left = self.0.lock().ignore_poison();
        *left = left.saturating_sub(begun.elapsed());
        waited
    }
}

/// Time limit for closing a session.
const LONGEST_CLOSING: Duration = Duration::from_secs(2);

/// To and from a helper.
type Channels = (SyncSender<Parcel>, Mailbox<Reply>);

/// A helper's thread: its number for the system, from its beginning to its end. The system may give the
/// number to another thread afterwards, so the thread takes it away under the lock before it ends.
#[derive(Default)]
struct Thread(Mutex<Option<Pid>>);

impl Thread {
    /// Registers the calling thread as the helper's until the result is dropped.
    fn begin(&self) -> Registered<'_> {
        *self.lock() = Some(gettid());
        Registered(self)
    }

    /// Lets all others go before the thread, which is left behind: a driver that computes for ever is
    /// to take no time from them. Everybody may do so.
    fn step_back(&self) {
        #[cfg(target_os = "linux")]
        if let Some(thread) = *self.lock() {
            let _ = rustix::process::setpriority_process(Some(thread), LOWEST);
            run_when_idle(thread);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.0.lock().ignore_poison()
    }
}

struct Registered<'t>(&'t Thread);

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

/// The nice value of those that all others go before.
#[cfg(target_os = "linux")]
const LOWEST: i32 = 19;

/// A reply of the helper.
struct Reply {
    /// The batch, if it was done.
    result: Result<Parcel, EngineError>,
    /// The CPU time of its thread so far.
    cpu: Duration,
}

/// A key's bytes by themselves, because what a thread is given is moved, and copies of it stay in freed
/// memory.
fn copy(key: &Key) -> WipedBuffer {
    let mut bytes = WipedBuffer::zeros(key.len());
    bytes.copy_from_slice(key.bytes());
    bytes
}

/// A session to open.
struct Opening {
    engine: Arc<dyn Engine>,
    /// The engine to test it against.
    reference: Option<Arc<dyn Engine>>,
    cipher: Cipher,
    direction: Direction,
    key: Option<WipedBuffer>,
}

/// A session that was opened, and tested if it can be; `None` if it gave a wrong answer.
type Opened = Result<Option<Box<dyn Session>>, EngineError>;

/// Starts a thread that opens a session. By itself, as [`ask`].
#[inline(never)]
fn start_opening(
    opening: Opening,
    busy: Option<Busy>,
    thread: Arc<Thread>,
    recall: Option<&Recall>,
) -> io::Result<Mailbox<Opened>> {
    let (sender, opened) = mailbox(recall);
    let open = move || {
        let busy = busy;
        let _registered = thread.begin();
        foreign::begin();
        let opened = opening.open();
        wipe_stack::<STACK>();
        // Where nobody waits any more, it is closed here.
        let unwanted = sender.send(opened);
        drop((unwanted, busy));
    };
    thread::Builder::new().name("evener-module".to_owned()).spawn(open)?;
    Ok(opened)
}

impl Opening {
    /// Opens and tests the engine's own session. By itself, as [`ask`].
    #[inline(never)]
    fn open(self) -> Opened {
        let Opening { engine, reference, cipher, direction, key } = self;
        // It was a key, so it is one.
        let key = key.and_then(|bytes| Key::new(&bytes).ok());
        let request = SessionRequest { cipher, direction, key: key.as_ref() };
        let mut session = engine.open(&request)?;
        let Some(reference) = reference else { return Ok(Some(session)) };
        match known_answers::are_right(&mut *session, &*reference, &request) {
            Ok(are_right) => Ok(are_right.then_some(session)),
            Err(error @ EngineError::Failed { .. }) => Err(error),
            Err(error) => Err(failed(&engine, error.to_string())),
        }
    }
}

/// Starts a helper, which works with a session. By itself, as [`ask`].
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
        // Dropped after the session, because its device may write to them until then.
        let mut kept = Vec::new();
        let mut is_left = false;
        while let Ok(mut parcel) = requests.recv() {
            // Through jobs, because only the parcel knows what belongs to which.
            let done = catch_unwind(AssertUnwindSafe(|| parcel.through_jobs(&mut *session)));
            let result = match done {
                Ok(Ok(())) => Ok(parcel),
                Ok(Err(error)) => {
                    kept.push(parcel);
                    Err(error)
                }
                Err(_) => {
                    kept.push(parcel);
                    Err(failed(&engine, PANICKED.to_owned()))
                }
            };
            // The caller takes no reply after the deadline. Then what it would have got comes back.
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
    thread::Builder::new().name("evener-module".to_owned()).spawn(help)?;
    Ok((to_helper, replies))
}

/// How much of the stack may hold keys, in bytes.
const STACK: usize = 16 << 10;

/// The CPU time that the calling thread has used so far, in user and kernel mode.
fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use evener_core::{Description, Iv, Kind, Offer, PlacedJob};

    use super::*;
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
        let (name, detail) = ("hanging".to_owned(), String::new());
        let description = Description { name, kind: Kind::Module, detail };
        let engine: Arc<dyn Engine> = Arc::new(Hanging(description));
        let (cipher, direction) = (Cipher::Aes128Ctr, Direction::Encrypt);
        let request = SessionRequest { cipher, direction, key: None };
        let mut session = HelperSession::open(
            &engine,
            None,
            &request,
            Duration::from_millis(500),
            &Brief::default(),
        )
        .unwrap()
        .unwrap();
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
        let (name, detail) = ("hanging".to_owned(), String::new());
        let description = Description { name, kind: Kind::Module, detail };
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
    fn an_engine_has_one_opening_at_a_time() {
        let (name, detail) = ("hanging".to_owned(), String::new());
        let description = Description { name, kind: Kind::Module, detail };
        let engine: Arc<dyn Engine> = Arc::new(Hanging(description));
        let recall = Recall::default();
        let limit = Duration::from_millis(20);
        let first = Busy::enter(&engine, &recall, limit).ok().unwrap();
        assert_eq!(Busy::enter(&engine, &recall, limit).err(), Some(Missed::Late));
        drop(first);
        let second = Busy::enter(&engine, &recall, limit).ok();
        assert!(second.is_some());
        recall.call();
        drop(second);
        assert_eq!(Busy::enter(&engine, &recall, limit).err(), Some(Missed::Recalled));
    }

    #[test]
    fn a_thread_that_has_ended_is_not_changed() {
        let thread = Thread::default();
        let registered = thread.begin();
        assert_eq!(*thread.lock(), Some(gettid()));
        drop(registered);
        // The number may be another thread's now.
        assert_eq!(*thread.lock(), None);
    }

    #[test]
    fn a_long_message_has_more_time_than_a_short_one() {
        let parcel = |bytes: usize| {
            let mut parcel = Parcel::default();
            parcel.push(PlacedJob::new(Iv::NONE, 0..bytes, 0..bytes));
            parcel.add(WipedBuffer::zeros(bytes), WipedBuffer::zeros(bytes));
            parcel
        };
        assert_eq!(longest_work(&parcel(16)), Duration::ZERO);
        assert_eq!(longest_work(&parcel(256 << 10)), Duration::from_secs(4));
        assert_eq!(longest_work(&parcel(64 << 20)), Duration::from_secs(1024));
    }
}
