//! A bound to the CPU time that a run takes.

use std::thread;
use std::time::{Duration, Instant};

use crate::clock::process_cpu_time;

/// Holds workers back while the process has used more CPU time than its part.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// How many cores the process may keep busy.
    cores: f64,
    started: Instant,
    used_before: Duration,
}

impl Throttle {
    /// Lets the process use `percent` of what all `cores` could do.
    pub(crate) fn new(percent: u8, cores: usize) -> Throttle {
        let cores = cores as f64 * f64::from(percent.clamp(1, 100)) / 100.0;
        Throttle { cores, started: Instant::now(), used_before: process_cpu_time() }
    }

    /// Sleeps until the process is within its part again.
    pub(crate) fn wait(&self) {
        loop {
            let used = process_cpu_time().saturating_sub(self.used_before);
            match pause(self.cores, self.started.elapsed(), used) {
                Some(pause) => thread::sleep(pause),
                None => return,
            }
        }
    }
}

/// How long to pause when so much CPU time has been used after so long, if at all.
fn pause(cores: f64, elapsed: Duration, used: Duration) -> Option<Duration> {
    let over = used.as_secs_f64() - elapsed.as_secs_f64() * cores;
    (over > BURST.as_secs_f64())
        .then(|| Duration::from_secs_f64(over / cores).clamp(SHORTEST, LONGEST))
}

/// How much may be used beyond the part for a moment: a pause costs a change of threads.
const BURST: Duration = Duration::from_millis(2);
const SHORTEST: Duration = Duration::from_micros(200);
/// Other threads may have taken less meanwhile.
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
