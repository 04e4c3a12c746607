//! Pauses workers while threads of other programs wait for a core.
//!
//! `SCHED_IDLE` orders threads only within one scheduling group. Between groups (sessions under
//! autogroup, control groups with a CPU share) a group of idle threads has the same weight as any
//! other, and takes half of a core from a busy group. A scheduling class also does not limit a
//! module's driver, which uses cores in kernel threads and interrupts. The kernel's pressure-stall
//! information (the kernel's `Documentation/accounting/psi.rst`) shows both: the file
//! `/proc/pressure/cpu` counts the time in which some thread of the machine was ready and had no
//! core. (The file of a control group counts only the waits of that group's threads.)
//!
//! The figure includes the threads of this process. The rest, without them, decides when CPU
//! workers pause (`computing.rs`) and when workers of modules pause (`modules.rs`).
//!
//! Two threads that wait for one core at the same time count once in that file. For modules the
//! sum over all threads is needed, because their workers and drivers take turns on a core. The
//! kernel has the sum in `/proc/schedstat` (`Documentation/scheduler/sched-stats.rst`), if it was
//! built with it.

mod computing;
mod modules;

use std::fmt;
use std::fs::{self, File};
use std::ops::Sub;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{IgnorePoison, Kind};

use crate::clock::{process_cpu_time, thread_cpu_time};

/// The pressure on the machine's cores, shared by the workers of a run.
#[derive(Debug)]
pub(crate) struct Pressure {
    kernel: Kernel,
    /// For CPU workers.
    computing: Mutex<computing::Watcher>,
    /// For workers of modules.
    modules: Mutex<modules::Watcher>,
}

impl Pressure {
    /// `None` if the kernel has no pressure-stall information.
    pub(crate) fn watch() -> Option<Pressure> {
        let kernel = Kernel::open()?;
        let waited = kernel.waited(true)?;
        Some(Pressure {
            kernel,
            computing: Mutex::new(computing::Watcher::new(waited)),
            modules: Mutex::new(modules::Watcher::new(waited)),
        })
    }
}

/// Decides when workers pause. It has no clock and reads no files; all times are since the run
/// began.
trait Watch: fmt::Debug + Send {
    /// A worker begins a batch.
    fn begin(&mut self, now: Duration);

    /// A worker has finished a batch, and used this much CPU time.
    fn end(&mut self, now: Duration, used: Duration);

    /// Returns whether to read the kernel's figures now.
    fn is_due(&self, now: Duration) -> bool;

    /// Returns whether it needs the sum over all threads.
    fn wants_threads(&self) -> bool;

    /// Takes the kernel's current figures, and decides whether to pause.
    fn look(&mut self, waited: Waited);

    /// The end of the current pause.
    fn paused_until(&self) -> Duration;
}

/// A worker's view of the pressure, on its own thread.
#[derive(Debug)]
pub(crate) struct Way<'run> {
    pressure: &'run Pressure,
    watcher: &'run Mutex<dyn Watch>,
    /// The thread's CPU time when its batch began.
    began: Duration,
}

impl<'run> Way<'run> {
    /// For a worker with an engine of this kind.
    pub(crate) fn new(pressure: &'run Pressure, kind: Kind) -> Way<'run> {
        let watcher: &Mutex<dyn Watch> = match kind {
            Kind::Cpu => &pressure.computing,
            _ => &pressure.modules,
        };
        Way { pressure, watcher, began: Duration::ZERO }
    }

    /// Before a batch: pauses if threads of other programs wait for the cores.
    pub(crate) fn give(&mut self) {
        loop {
            let now = self.pressure.kernel.now();
            let mut watcher = self.watcher();
            if watcher.is_due(now)
                && let Some(waited) = self.pressure.kernel.waited(watcher.wants_threads())
            {
                watcher.look(waited);
            }
            let pause = watcher.paused_until().saturating_sub(now);
            if pause.is_zero() {
                watcher.begin(now);
                break;
            }
            drop(watcher);
            thread::sleep(pause);
        }
        self.began = thread_cpu_time();
    }

    /// Records the end of the batch.
    pub(crate) fn done(&mut self) {
        let used = thread_cpu_time().saturating_sub(self.began);
        let now = self.pressure.kernel.now();
        self.watcher().end(now, used);
    }

    fn watcher(&self) -> MutexGuard<'run, dyn Watch + 'static> {
        self.watcher.lock().ignore_poison()
    }
}

/// The time that threads were ready and had no core, as counted by the kernel.
#[derive(Clone, Copy, Debug)]
struct Waited {
    /// The time, since the run began.
    at: Duration,
    /// Number of cores.
    cores: u32,
    /// The time in which some thread of the machine waited for a core: an average over the cores,
    /// weighted by the time in which each was not idle.
    average: Duration,
    /// Idle time, summed over the cores.
    idle: Duration,
    /// The times of all threads of the machine, if the kernel counts them.
    threads: Option<Threads>,
    /// The times of the threads of this process.
    own: Threads,
}

/// The time that threads ran, and were ready without a core, summed over the threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Threads {
    ran: Duration,
    waited: Duration,
}

impl Sub for Threads {
    type Output = Threads;

    fn sub(self, other: Threads) -> Threads {
        Threads {
            ran: self.ran.saturating_sub(other.ran),
            waited: self.waited.saturating_sub(other.waited),
        }
    }
}

impl Waited {
    /// The time since `before` in which some thread waited for a core, summed over the cores.
    fn anybody_since(&self, before: &Waited) -> Duration {
        let average = self.average.saturating_sub(before.average);
        let idle = self.idle.saturating_sub(before.idle).saturating_sub(IDLE_UNIT);
        let elapsed = self.at.saturating_sub(before.at).as_secs_f64();
        let busy_cores = f64::from(self.cores) - idle.as_secs_f64() / elapsed.max(1e-9);
        average.mul_f64(busy_cores.max(1.0))
    }

    /// The waits of other processes since `before`: summed over their threads, or, if the kernel
    /// does not count that, the time in which at least one of them waited, summed over the cores.
    fn others_since(&self, before: &Waited) -> Threads {
        let idle = self.idle.saturating_sub(before.idle) + IDLE_UNIT;
        let ran = (self.cores * self.at.saturating_sub(before.at)).saturating_sub(idle);
        let known = self.threads.zip(before.threads).map(|(now, then)| now - then);
        let all = match known {
            // The kernel counts the run time of a thread only when another thread gets its core.
            Some(known) => Threads { ran: known.ran.max(ran), ..known },
            None => Threads { ran, waited: self.anybody_since(before) },
        };
        all - (self.own - before.own)
    }

    /// All figures 0.
    #[cfg(test)]
    fn at_first(cores: u32) -> Waited {
        let none = Duration::ZERO;
        Waited {
            at: none,
            cores,
            average: none,
            idle: none,
            threads: None,
            own: Threads::default(),
        }
    }
}

/// The kernel's files with the figures.
#[derive(Debug)]
struct Kernel {
    pressure: File,
    uptime: File,
    cores: u32,
    started: Instant,
}

impl Kernel {
    fn open() -> Option<Kernel> {
        Some(Kernel {
            pressure: File::open("/proc/pressure/cpu").ok()?,
            uptime: File::open("/proc/uptime").ok()?,
            cores: cores(&fs::read_to_string("/proc/stat").ok()?)?,
            started: Instant::now(),
        })
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn waited(&self, with_threads: bool) -> Option<Waited> {
        let mut text = [0; 256];
        let all = || threads(&fs::read_to_string("/proc/schedstat").ok()?);
        Some(Waited {
            average: some_pressure(read(&self.pressure, &mut text)?)?,
            idle: idle_time(read(&self.uptime, &mut text)?)?,
            threads: with_threads.then(all).flatten(),
            own: Threads { ran: process_cpu_time(), waited: own_waiting() },
            cores: self.cores,
            at: self.now(),
        })
    }
}

/// The content of a short file.
fn read<'text>(file: &File, text: &'text mut [u8]) -> Option<&'text str> {
    let length = file.read_at(text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()
}

/// The sum over all threads of this process: `schedstat` has the nanoseconds on a core,
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
fn some_pressure(text: &str) -> Option<Duration> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let total = line.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

/// Reads the seconds that the machine is up and those that its cores were idle, `12.34 56.78`.
fn idle_time(text: &str) -> Option<Duration> {
    let seconds: f64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Sums the lines of /proc/schedstat for the cores: `cpu0` and nine numbers. The seventh and the
/// eighth are the times that threads ran and waited there, in nanoseconds.
fn threads(text: &str) -> Option<Threads> {
    let version = text.lines().next()?.strip_prefix("version ")?;
    if !VERSIONS.contains(&version) {
        return None;
    }
    let of_core = |line: &str| {
        let mut fields = line.split_whitespace().skip(7);
        let mut time = || fields.next()?.parse().ok().map(Duration::from_nanos);
        Some(Threads { ran: time()?, waited: time()? })
    };
    text.lines().filter(|line| line.starts_with("cpu")).try_fold(Threads::default(), |sum, line| {
        let Threads { ran, waited } = of_core(line)?;
        Some(Threads { ran: sum.ran + ran, waited: sum.waited + waited })
    })
}

/// The number of cores with a line in /proc/stat, `cpu0` and so on.
fn cores(stat: &str) -> Option<u32> {
    let is_core = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    u32::try_from(stat.lines().filter(is_core).count()).ok().filter(|&cores| cores > 0)
}

/// The versions of /proc/schedstat with this format.
const VERSIONS: [&str; 3] = ["15", "16", "17"];

/// The unit of the idle time that the kernel reports.
const IDLE_UNIT: Duration = Duration::from_millis(10);

/// The time that workers work between two readings: long enough for several of a scheduler's
/// slices, and to make the cost of a reading, some 50 µs, negligible.
const SPAN: Duration = Duration::from_millis(20);

/// The shortest pause.
const SHORTEST: Duration = Duration::from_millis(20);

/// The longest pause: cores and modules may be idle for this long after another program's end.
const LONGEST: Duration = Duration::from_millis(640);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_of_busy_cores_is_no_average_of_all() {
        let (second, before) = (Duration::from_secs(1), Waited::at_first(64));
        // Two cores are busy, and on each a thread waits for half of the time.
        let idle = 62 * second + IDLE_UNIT;
        let now = Waited { at: second, average: second / 2, idle, ..before };
        assert_eq!(now.anybody_since(&before), second);
        // Half of what the two cores did and of the waiting was this process's own.
        let own = Threads { ran: second, waited: second / 4 };
        let others = Waited { own, ..now }.others_since(&before);
        assert_eq!(others, Threads { ran: second - 2 * IDLE_UNIT, waited: second * 3 / 4 });
        // Two threads that wait for one core both count, if the kernel reports that.
        let told = |at, ran, waited| Waited { threads: Some(Threads { ran, waited }), ..at };
        let now = told(Waited { own, ..now }, 7 * second, 2 * second);
        let others = now.others_since(&told(before, 5 * second, second / 4));
        assert_eq!(others, Threads { ran: second, waited: second * 3 / 2 });
        // No core is known to be idle.
        let now = Waited { idle: IDLE_UNIT, ..now };
        assert_eq!(now.anybody_since(&before), 32 * second);
    }

    #[test]
    fn the_kernels_files_are_read() {
        let text = "some avg10=34.54 avg60=55.17 avg300=31.21 total=10413309447\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(some_pressure(text), Some(Duration::from_micros(10_413_309_447)));
        for broken in ["", "some", "some total=", "some total=-1", "full total=7", "some avg10=1"] {
            assert_eq!(some_pressure(broken), None, "{broken}");
        }
        let text = "version 15\ntimestamp 1\ncpu0 0 0 0 0 0 0 5 1000 3\ndomain0 3 0 0\n\
                    cpu1 0 0 0 0 0 0 6 234 3\n";
        let nanos = Duration::from_nanos;
        assert_eq!(threads(text), Some(Threads { ran: nanos(11), waited: nanos(1234) }));
        for broken in ["", "version 14\ncpu0 0 0 0 0 0 0 5 1 3\n", "version 15\ncpu0 0 0 0\n"] {
            assert_eq!(threads(broken), None, "{broken}");
        }
        let stat = "cpu  1 2 3\ncpu0 1 2\ncpu1 3 4\nintr 5\ncpufreq 1\n";
        assert_eq!((cores(stat), cores("intr 5\n")), (Some(2), None));
        assert_eq!(idle_time("33.25 61.50\n"), Some(Duration::from_millis(61_500)));
        for broken in ["", "33.25", "1.0 x", "1.0 -1", "1.0 nan", "1.0 1e99"] {
            assert_eq!(idle_time(broken), None, "{broken}");
        }
        match Pressure::watch() {
            Some(pressure) => {
                for kind in [Kind::Cpu, Kind::Module] {
                    let mut way = Way::new(&pressure, kind);
                    way.give();
                    way.done();
                }
            }
            None => evener_core::skipped!("this kernel tells of no pressure"),
        }
    }
}
