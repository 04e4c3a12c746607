//! Being busy and being asleep for a given time.

use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{ClockId as SleepClock, clock_nanosleep_relative, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// How long the calling thread has been on a core.
pub(super) fn thread_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Asks the kernel to wake the calling thread when it wants to be woken. By default it may take
/// 50 µs longer, to wake several threads at once.
pub(super) fn wake_on_time() {
    // Where that is not to be had, calibration has found the delay.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// What a sleep takes beside the time asked for, and what looking at the clock takes, on this
/// machine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sleep {
    /// How much later than asked a thread continues, its core being idle.
    late: Duration,
    /// CPU time of going to sleep and waking up.
    pub(super) cost: Duration,
    /// CPU time of looking once at the clock of CPU time.
    pub(super) look: Duration,
}

impl Sleep {
    /// Measures it, in some milliseconds.
    pub(super) fn calibrate() -> Sleep {
        // On a thread of its own, which must not leave the caller's with another timer slack.
        thread::spawn(|| {
            wake_on_time();
            let (mut late, mut cost) = (Vec::new(), Vec::new());
            for _ in 0..NAPS {
                let (wall, cpu) = (Instant::now(), thread_time());
                nap(NAP);
                late.push(wall.elapsed().saturating_sub(NAP));
                cost.push(thread_time().saturating_sub(cpu));
            }
            late.sort_unstable();
            cost.sort_unstable();
            let began = thread_time();
            let ended = (0..LOOKS).fold(began, |_, _| thread_time());
            let look = ended.saturating_sub(began) / LOOKS;
            Sleep { late: late[NAPS / 2], cost: cost[NAPS / 2], look }
        })
        .join()
        .unwrap_or_default()
    }

    /// The shortest time in which the thread can be asleep for the most of it.
    pub(super) fn shortest(&self) -> Duration {
        2 * self.late.max(self.cost)
    }

    /// Sleeps so that the thread continues at `until`, or soon after where its core is busy. It
    /// never continues earlier: what is left of the time it waits awake.
    pub(super) fn until(&self, until: Instant) {
        let asleep = until.saturating_duration_since(Instant::now()).saturating_sub(self.late);
        if !asleep.is_zero() {
            nap(asleep);
        }
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}

/// Keeps the thread on its core until its clock of CPU time says `until`.
pub(super) fn burn(until: Duration) {
    while thread_time() < until {
        std::hint::spin_loop();
    }
}

fn nap(time: Duration) {
    let request = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    // A signal that ends it early costs accuracy, and nothing else.
    let _ = clock_nanosleep_relative(SleepClock::Monotonic, &request);
}

const NAPS: usize = 31;
const LOOKS: u32 = 1000;
const NAP: Duration = Duration::from_micros(100);
