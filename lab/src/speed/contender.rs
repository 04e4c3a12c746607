//! The contenders.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{Cipher, Description, Direction, Engine, Kind, shown_error};
use rustix::time::{ClockId, clock_gettime};

use super::case::{Case, Prepared};
use super::masked::Masked;
use super::messages::Messages;
use super::stream::Library;

/// An engine with one way of using it.
pub(super) struct Contender {
    /// The engine's description.
    pub(super) description: Description,
    /// True if the engine may use the CPU's AES instructions.
    pub(super) aes_instructions: bool,
    pub(super) work: Work,
}

/// The way in which a contender works.
pub(super) enum Work {
    /// As `openssl speed` does.
    Stream {
        library: Library,
        /// The same library as an engine, for its offers.
        engine: Arc<dyn Engine>,
    },
    /// Through its session.
    Messages {
        engine: Arc<dyn Engine>,
        /// The reference engine.
        reference: Option<Arc<dyn Engine>>,
    },
    /// In a child process without AES instructions.
    Masked(Masked),
}

impl Contender {
    /// Returns whether the contender takes part for this cipher and direction.
    pub(super) fn offers(&self, cipher: Cipher, direction: Direction) -> bool {
        match &self.work {
            Work::Stream { engine, .. } | Work::Messages { engine, .. } => {
                engine.offer(cipher, direction).is_some()
            }
            Work::Masked(masked) => masked.concerns(cipher, direction),
        }
    }

    /// The engine's name, with the difference from another contender of the same name.
    pub(super) fn title(&self) -> String {
        let without =
            if matches!(self.work, Work::Masked(_)) { ", no AES instructions" } else { "" };
        format!("{}{without}", self.description.name)
    }

    /// Describes how the engine is used for these ciphers and directions.
    pub(super) fn method(&self, ciphers: &[Cipher], directions: &[Direction]) -> String {
        match &self.work {
            Work::Stream { .. } => {
                "one buffer in place, as `openssl speed -evp` does it".to_owned()
            }
            Work::Masked(_) => "the same in a process that finds no AES instructions".to_owned(),
            Work::Messages { engine, .. } => {
                let both = |&cipher| directions.iter().map(move |&direction| (cipher, direction));
                let offers = ciphers.iter().flat_map(both);
                let batches = offers.filter_map(|(cipher, direction)| {
                    engine.offer(cipher, direction).map(|offer| offer.batch)
                });
                let (least, most) = (batches.clone().min(), batches.max());
                let at_once = match (least, most) {
                    (_, None | Some(1)) => "one message at a time".to_owned(),
                    (Some(least), Some(most)) if least < most => {
                        format!("{least} to {most} messages at once")
                    }
                    (_, Some(most)) => format!("{most} messages at once"),
                };
                at_once + ", each with its own IV"
            }
        }
    }

    /// Measures for about this time; returns the total of all threads in thousands of bytes per
    /// second.
    ///
    /// # Errors
    /// The reason, as text.
    pub(super) fn measure(
        &self,
        case: &Case,
        threads: usize,
        time: Duration,
    ) -> Result<f64, String> {
        if let Work::Masked(masked) = &self.work {
            return masked.measure(case, threads, time);
        }
        // Held until every thread is ready or has failed: by then all have dropped their end of the
        // channel.
        let start = RwLock::new(());
        let held = start.write();
        let (ready, all_ready) = mpsc::channel::<Infallible>();
        let rates: Vec<Result<f64, String>> = thread::scope(|scope| {
            let spawn = |_| {
                let (ready, start) = (ready.clone(), &start);
                let work = move || {
                    let prepared = self.prepare(case).and_then(|mut prepared| {
                        prepared.work(time / 20)?;
                        Ok(prepared)
                    });
                    drop(ready);
                    drop(start.read());
                    let mut prepared = prepared?;
                    let clock = Clock::start();
                    let done = prepared.work(time)?;
                    let share = if self.is_timed_on_core(threads) { clock.share() } else { 1.0 };
                    Ok(done.kb_per_s() / share)
                };
                thread::Builder::new().spawn_scoped(scope, work)
            };
            let threads: Vec<_> = (0..threads).map(spawn).collect();
            drop(ready);
            let _ = all_ready.recv();
            drop(held);
            let join = |thread: io::Result<thread::ScopedJoinHandle<'_, _>>| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|_| Err("a thread stopped".to_owned())),
                Err(error) => Err(format!("a thread can't be started: {}", shown_error(&error))),
            };
            threads.into_iter().map(join).collect()
        });
        rates.into_iter().sum()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Prepared>, String> {
        match &self.work {
            Work::Stream { library, .. } => match library.prepare(case) {
                Ok(stream) => Ok(Box::new(stream)),
                Err(error) => Err(error.to_string()),
            },
            Work::Messages { engine, reference } => {
                Ok(Box::new(Messages::prepare(&**engine, reference.as_deref(), case)?))
            }
            Work::Masked(_) => Err("it works in another process".to_owned()),
        }
    }

    /// Returns whether the figure uses the thread's CPU time, as in `openssl speed`, so that other
    /// load does not affect it. Several threads may share a core, and a thread that waits for a
    /// device uses no CPU time, so these are timed by the wall clock.
    fn is_timed_on_core(&self, threads: usize) -> bool {
        threads == 1 && self.description.kind == Kind::Cpu
    }
}

/// The wall clock and the calling thread's CPU clock, together.
struct Clock {
    wall: Instant,
    on_core: Duration,
}

impl Clock {
    fn start() -> Clock {
        Clock { wall: Instant::now(), on_core: on_core() }
    }

    /// The thread's share of CPU time since the start.
    fn share(&self) -> f64 {
        let on_core = on_core().saturating_sub(self.on_core).as_secs_f64();
        let share = on_core / self.wall.elapsed().as_secs_f64();
        // Clocks are inaccurate over short times.
        if share > 0.0 { share.min(1.0) } else { 1.0 }
    }
}

/// The calling thread's CPU time.
fn on_core() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
