//! A limit of the CPU time of a run.

use std::thread;
use std::time::{Duration, Instant};

use crate::clock::process_cpu_time;
use crate::hidden::Meter;

/// Lets workers wait while the process has used more CPU time than its limit.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// The limit, in cores.
    cores: f64,
    started: Instant,
    used_before: Duration,
}

impl Throttle {
    /// Limits the process to `percent` of the CPU time of all `cores`.
    pub(crate) fn new(percent: u8, cores: usize) -> Throttle {
        let cores = cores as f64 * f64::from(percent.clamp(1, 100)) / 100.0;
        Throttle { cores, started: Instant::now(), used_before: process_cpu_time() }
    }

    /// Sleeps until the process is within its limit again. The time of session openings does not
    /// count: except for a moment, they use the cores' idle time.
    pub(crate) fn wait(&self, meter: Option<&Meter>) {
        loop {
            let openings = meter.map(Meter::of_openings).unwrap_or_default();
            let used = process_cpu_time().saturating_sub(self.used_before + openings);
            match pause(self.cores, self.started.elapsed(), used) {
                Some(pause) => thread::sleep(pause),
                None => return,
            }
        }
    }
}

/// Length of the pause after this CPU time in this wall time, if one is needed.
fn pause(cores: f64, elapsed: Duration, used: Duration) -> Option<Duration> {
    let over = used.as_secs_f64() - elapsed.as_secs_f64() * cores;
    (over > BURST.as_secs_f64())
        .then(|| Duration::from_secs_f64(over / cores).clamp(SHORTEST, LONGEST))
}

/// CPU time beyond the limit that causes no pause yet, because a pause costs a context switch.
const BURST: Duration = Duration::from_millis(2);
const SHORTEST: Duration = Duration::from_micros(200);
/// The longest pause, because other threads may use less CPU time meanwhile.
const LONGEST: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_over_pauses_until_it_no_longer_is() {
        let (second, ms) = (Duration::from_secs(1), Duration::from_millis);
        assert_eq!(pause(0.5, second, ms(500)), None);
        assert_eq!(pause(0.5, second, ms(501)), None);
        assert_eq!(pause(0.5, second, ms(510)), Some(ms(20)));
        assert_eq!(pause(0.5, second, ms(900)), Some(LONGEST));
    }
}
