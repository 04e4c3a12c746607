//! Spends a given time busy or asleep.

use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{ClockId as SleepClock, clock_nanosleep_relative, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The calling thread's CPU time.
pub(crate) fn thread_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Asks the kernel to wake the calling thread on time. By default the kernel may add 50 µs to wake
/// several threads together.
pub(super) fn wake_on_time() {
    // If the kernel refuses, the calibration includes the delay.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// The overhead of a sleep and of reading the clock on this machine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sleep {
    /// Delay after the end of a sleep on an idle core.
    late: Duration,
    /// CPU time of going to sleep and waking up.
    pub(super) cost: Duration,
    /// CPU time of reading the CPU clock once.
    pub(super) look: Duration,
}

impl Sleep {
    /// Measures the overhead, within some milliseconds.
    pub(super) fn calibrate() -> Sleep {
        // A separate thread, because the calibration changes its thread's timer slack.
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

    /// The shortest time that is worth a sleep.
    pub(super) fn shortest(&self) -> Duration {
        2 * self.late.max(self.cost)
    }

    /// Sleeps so that the thread continues at `until`, or soon after if its core is busy. The
    /// thread never continues earlier: it busy-waits for the rest of the time.
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

/// Keeps the thread busy until its CPU clock reaches `until`.
pub(crate) fn burn(until: Duration) {
    while thread_time() < until {
        std::hint::spin_loop();
    }
}

fn nap(time: Duration) {
    let request = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    // A signal may end the sleep early, which only costs accuracy.
    let _ = clock_nanosleep_relative(SleepClock::Monotonic, &request);
}

const NAPS: usize = 31;
const LOOKS: u32 = 1000;
const NAP: Duration = Duration::from_micros(100);
