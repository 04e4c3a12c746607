//! Giving way to programs that wait for a core.
//!
//! `SCHED_IDLE` orders threads within one scheduling group. Between groups, such as the sessions
//! that autogroups are made of and control groups with a share of the processor, a group of idle
//! threads weighs as much as any other and takes half of a core from a busy one. The kernel's
//! pressure-stall information (the kernel's `Documentation/accounting/psi.rst`) tells: its file
//! `/proc/pressure/cpu` counts the time in which some thread of the machine was ready and had no
//! core. (A control group's own file counts the waiting of its own threads, which is no harm
//! done to others.)
//!
//! This process's own threads are in that figure too, and a run of its own makes much of it. For
//! how long they waited the kernel tells thread by thread once each has got its core, which may
//! take a starved one very long. But a worker with a batch always wants a core: either it has
//! one, or it waits. So the greater of the two is taken for the own waiting, and only what is
//! left is certain to be others' (`Watcher::harm`). Where much of the workers' time is such time,
//! they pause, work for a moment, and pause twice as long if it is still so.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::thread_cpu_time;

/// The pressure on the machine's cores, as the workers of a run watch it together.
#[derive(Debug)]
pub(crate) struct Pressure {
    file: File,
    started: Instant,
    watcher: Mutex<Watcher>,
}

impl Pressure {
    /// Watches, where the kernel tells of pressure.
    pub(crate) fn watch() -> Option<Pressure> {
        let file = File::open("/proc/pressure/cpu").ok()?;
        let waited = Waited::so_far(&file)?;
        let cores = cores(&fs::read_to_string("/proc/stat").ok()?)?;
        let watcher = Mutex::new(Watcher::new(cores, waited));
        Some(Pressure { file, started: Instant::now(), watcher })
    }
}

/// One worker's part in the watching, on its own thread.
#[derive(Debug)]
pub(crate) struct Way<'run> {
    pressure: &'run Pressure,
    /// The thread's CPU time when its batch began.
    began: Duration,
}

impl<'run> Way<'run> {
    pub(crate) fn new(pressure: &'run Pressure) -> Way<'run> {
        Way { pressure, began: Duration::ZERO }
    }

    /// Before a batch: pauses if others wait for the cores.
    pub(crate) fn give(&mut self) {
        let &mut Way { pressure, .. } = self;
        loop {
            let now = pressure.started.elapsed();
            let mut watcher = pressure.watcher.lock().unwrap_or_else(PoisonError::into_inner);
            if watcher.is_due(now)
                && let Some(waited) = Waited::so_far(&pressure.file)
            {
                watcher.look(now, waited);
            }
            let pause = watcher.paused_until.saturating_sub(now);
            if pause.is_zero() {
                watcher.begin(now);
                break;
            }
            drop(watcher);
            thread::sleep(pause);
        }
        self.began = thread_cpu_time();
    }

    /// After the batch.
    pub(crate) fn done(&mut self) {
        let used = thread_cpu_time().saturating_sub(self.began);
        let now = self.pressure.started.elapsed();
        let mut watcher = self.pressure.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        watcher.end(now, used);
    }
}

/// Decides when to pause. It has no clock and reads no files; all times are since the run began.
#[derive(Debug)]
struct Watcher {
    /// How many cores the kernel's figure is an average of.
    cores: f64,
    /// When this time span began, and what the kernel's figures were.
    since: Duration,
    waited: Waited,
    /// How many workers have a batch, and since when.
    busy: u32,
    busy_since: Duration,
    /// For how long workers had batches in this span, and for how long a core, together.
    wanted: Duration,
    used: Duration,
    /// Until when all of them pause.
    paused_until: Duration,
    /// How long the last pause was, if there was harm again after it.
    last_pause: Option<Duration>,
    /// Whether the span is a pause.
    is_pause: bool,
}

impl Watcher {
    fn new(cores: usize, waited: Waited) -> Watcher {
        Watcher {
            cores: cores as f64,
            since: Duration::ZERO,
            waited,
            busy: 0,
            busy_since: Duration::ZERO,
            wanted: Duration::ZERO,
            used: Duration::ZERO,
            paused_until: Duration::ZERO,
            last_pause: None,
            is_pause: false,
        }
    }

    /// A worker begins a batch.
    fn begin(&mut self, now: Duration) {
        self.count_busy(now);
        self.busy += 1;
    }

    /// A worker has done one, and was on its core for so long.
    fn end(&mut self, now: Duration, used: Duration) {
        self.count_busy(now);
        self.busy = self.busy.saturating_sub(1);
        self.used += used;
    }

    fn is_due(&self, now: Duration) -> bool {
        if self.is_pause { now >= self.paused_until } else { now >= self.since + SPAN }
    }

    /// Ends a span: `waited` is what the kernel says now.
    fn look(&mut self, now: Duration, waited: Waited) {
        self.count_busy(now);
        let is_harmful = !self.is_pause && self.harm(waited) > TOLERABLE;
        if is_harmful {
            let pause = self.last_pause.map_or(SHORTEST, |last| (last * 2).min(LONGEST));
            self.paused_until = now + pause;
            self.last_pause = Some(pause);
        } else if !self.is_pause {
            self.last_pause = None;
        }
        // What others do to each other in a pause says nothing about the workers.
        self.is_pause = is_harmful;
        (self.since, self.waited) = (now, waited);
        (self.wanted, self.used) = (Duration::ZERO, Duration::ZERO);
    }

    /// For how much of the time that workers worked others certainly waited for a core, from 0
    /// to 1.
    fn harm(&self, waited: Waited) -> f64 {
        let seconds = |time: Duration| time.as_secs_f64();
        let with_batches = self.wanted.saturating_sub(self.used);
        let own_waiting = with_batches.max(waited.own.saturating_sub(self.waited.own));
        let waiting = seconds(waited.anybody.saturating_sub(self.waited.anybody)) * self.cores;
        // Who got next to nothing did no harm.
        if self.used <= self.wanted.mul_f64(STARVED) {
            return 0.0;
        }
        ((waiting - seconds(own_waiting)) / seconds(self.used)).clamp(0.0, 1.0)
    }

    fn count_busy(&mut self, now: Duration) {
        self.wanted += now.saturating_sub(self.busy_since) * self.busy;
        self.busy_since = now;
    }
}

/// For how long threads were ready and had no core, altogether.
#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    /// Any thread of the machine: the time in which it was so on a core, averaged over the cores.
    anybody: Duration,
    /// The threads of this process: the sum of their times.
    own: Duration,
}

impl Waited {
    fn so_far(pressure: &File) -> Option<Waited> {
        let mut text = [0; 256];
        let length = pressure.read_at(&mut text, 0).ok()?;
        let anybody = parse(std::str::from_utf8(&text[..length]).ok()?)?;
        Some(Waited { anybody, own: own_waiting() })
    }
}

/// The sum of what the kernel says of each thread: `schedstat` has the nanoseconds on a core,
/// those without one, and a count.
fn own_waiting() -> Duration {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let waited = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Duration::from_nanos(waited.sum())
}

/// Reads `some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS`.
fn parse(text: &str) -> Option<Duration> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let total = line.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

/// How many cores /proc/stat has lines for, `cpu0` and so on.
fn cores(stat: &str) -> Option<usize> {
    let is_core = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    Some(stat.lines().filter(is_core).count()).filter(|&cores| cores > 0)
}

/// How long workers work between two looks: long enough for several of a scheduler's slices, and
/// for a look, which takes some 50 µs, to cost nothing.
const SPAN: Duration = Duration::from_millis(20);

/// Of the time that workers work, somebody may wait for so much of it.
const TOLERABLE: f64 = 0.2;

/// Of the time that workers have batches, they must work for more than this to harm anybody.
const STARVED: f64 = 0.05;

const SHORTEST: Duration = Duration::from_millis(20);
/// So long the cores may be idle after another program's end.
const LONGEST: Duration = Duration::from_millis(640);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A machine with two cores and a worker on each, on a simulated clock.
    struct Machine {
        watcher: Watcher,
        now: Duration,
        waited: Waited,
    }

    impl Machine {
        fn new() -> Machine {
            let waited = Waited::default();
            Machine { watcher: Watcher::new(2, waited), now: Duration::ZERO, waited }
        }

        /// Passes a pause, if there is one, and then a span, in which each worker has its core
        /// for a part of the time, and on each core somebody waits for a part. Returns the
        /// pause that follows.
        fn span(&mut self, works: f64, somebody_waits: f64) -> Duration {
            let pause = self.pause();
            if !pause.is_zero() {
                // The others have too few cores even for themselves.
                self.waited.anybody += pause;
                self.now += pause;
                self.watcher.look(self.now, self.waited);
                assert_eq!(self.pause(), Duration::ZERO);
            }
            (0..2).for_each(|_| self.watcher.begin(self.now));
            self.now += SPAN;
            self.waited.anybody += SPAN.mul_f64(somebody_waits);
            (0..2).for_each(|_| self.watcher.end(self.now, SPAN.mul_f64(works)));
            assert!(self.watcher.is_due(self.now));
            self.watcher.look(self.now, self.waited);
            self.pause()
        }

        fn pause(&self) -> Duration {
            self.watcher.paused_until.saturating_sub(self.now)
        }
    }

    #[test]
    fn nobody_pauses_for_nobody() {
        let mut machine = Machine::new();
        for _ in 0..100 {
            assert_eq!(machine.span(1.0, 0.0), Duration::ZERO);
            // A short wake-up now and then.
            assert_eq!(machine.span(0.9, 0.1), Duration::ZERO);
        }
    }

    #[test]
    fn the_workers_own_waiting_is_no_harm() {
        let mut machine = Machine::new();
        // Others have the cores, and the workers wait for them.
        for _ in 0..100 {
            assert_eq!(machine.span(0.02, 1.0), Duration::ZERO);
        }
        // They have half of the time, and the workers wait meanwhile.
        assert_eq!(machine.span(0.5, 0.5), Duration::ZERO);
    }

    #[test]
    fn the_other_threads_own_waiting_is_no_harm() {
        let mut machine = Machine::new();
        for _ in 0..20 {
            // A feed wants a core that a worker has, or a worker one between two batches.
            machine.waited.own += 2 * SPAN;
            assert_eq!(machine.span(1.0, 1.0), Duration::ZERO);
        }
    }

    #[test]
    fn who_takes_others_cores_pauses_ever_longer() {
        let mut machine = Machine::new();
        // Both have half of each core, and whoever has not waits.
        let pauses: Vec<_> = (0..7).map(|_| machine.span(0.5, 1.0) / 20).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 32].map(|times| MS * times));
    }

    #[test]
    fn when_the_others_are_gone_work_goes_on_at_once() {
        let mut machine = Machine::new();
        for _ in 0..4 {
            assert!(machine.span(0.5, 1.0) > Duration::ZERO);
        }
        assert_eq!(machine.span(1.0, 0.0), Duration::ZERO);
        // The next time begins with a short pause again.
        assert_eq!(machine.span(0.5, 1.0), SHORTEST);
    }

    #[test]
    fn a_worker_that_waits_in_the_middle_of_a_batch_is_not_forgotten() {
        let mut machine = Machine::new();
        machine.watcher.begin(machine.now);
        machine.now += SPAN;
        machine.watcher.look(machine.now, machine.waited);
        // One waits behind another program, and the other works on a core that nobody wants.
        for _ in 0..20 {
            machine.watcher.begin(machine.now);
            machine.now += SPAN;
            machine.waited.anybody += SPAN / 2;
            machine.watcher.end(machine.now, SPAN);
            machine.watcher.look(machine.now, machine.waited);
            assert_eq!(machine.pause(), Duration::ZERO);
        }
    }

    #[test]
    fn the_kernels_files_are_read() {
        let text = "some avg10=34.54 avg60=55.17 avg300=31.21 total=10413309447\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse(text), Some(Duration::from_micros(10_413_309_447)));
        for broken in ["", "some", "some total=", "some total=-1", "full total=7", "some avg10=1"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
        let stat = "cpu  1 2 3\ncpu0 1 2\ncpu1 3 4\nintr 5\ncpufreq 1\n";
        assert_eq!((cores(stat), cores("intr 5\n")), (Some(2), None));
        match Pressure::watch() {
            Some(pressure) => {
                let mut way = Way::new(&pressure);
                way.give();
                way.done();
            }
            None => println!("skipped: this kernel tells of no pressure"),
        }
    }
}
