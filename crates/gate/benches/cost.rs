//! The costs of the gate: opening it, a pass, a hand-over against a bare futex wake, and a crowd
//! asleep.
//!
//! `cargo bench -p evener-gate` prints the medians of several rounds; both parties to a
//! comparison run in each round.

#[path = "../tests/processes/sys.rs"]
mod sys;

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use evener_gate::{Gate, GateOptions};
use rustix::process::Signal;
use sys::{Child, bell, fork, ring, shared_words, wait_for_bell};

fn main() {
    let directory = std::env::temp_dir().join(format!("evener-gate-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a temporary directory");
    let open = |engine: &str, permits| {
        let directory = Some(directory.clone());
        Gate::open(GateOptions { directory, ..GateOptions::new(engine, permits) }).expect("a gate")
    };
    println!("opening a gate that is there, in a new process: {:.1} us", opening() / 1000.0);
    for permits in [1, 8, 64] {
        let gate = open(&format!("pass-{permits}"), permits);
        println!("uncontended pass, {permits} permits: {:.0} ns", median(|| pass(&gate)));
    }
    let gate = open("hand-over", 1);
    let (mut bare, mut gated) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(hand_over_bare());
        gated.push(hand_over(&gate));
    }
    let (bare, gated) = (middle(&mut bare), middle(&mut gated));
    println!("bare futex wake: {:.2} us", bare / 1000.0);
    println!("hand-over to a sleeper: {:.2} us, ratio {:.2}", gated / 1000.0, gated / bare);
    for waiters in [1, 10, 100, 1000] {
        let (time, switches) = crowd(&open(&format!("crowd-{waiters}"), 1), waiters);
        println!("{waiters} asleep: {:.4} % of a core, {switches:.0} wake-ups/s", time * 100.0);
    }
    let mut delays: Vec<f64> = (0..20).map(|_| succession(&gate)).collect();
    let most = delays.iter().copied().fold(0.0, f64::max);
    println!(
        "a killed holder's permit given on: median {:.1} ms, most {most:.1} ms",
        middle(&mut delays)
    );
    std::fs::remove_dir_all(&directory).expect("a temporary directory");
}

/// Nanoseconds by which a process lives longer if it opens a gate that other processes have open,
/// passes it and closes it.
fn opening() -> f64 {
    let options = GateOptions::new(format!("opening-{}", std::process::id()), 2);
    let _first = Gate::open(options.clone()).expect("a gate");
    let life = |visits: bool| {
        let start = Instant::now();
        let process = fork(|| {
            if visits {
                drop(Gate::open(options.clone()).expect("a gate").enter().expect("a permit"));
            }
        });
        assert!(process.wait());
        start.elapsed().as_nanos() as f64
    };
    let (mut bare, mut gated): (Vec<f64>, Vec<f64>) =
        (0..OPENINGS).map(|_| (life(false), life(true))).unzip();
    evener_gate::reset(&options.engine, options.scope, None).expect("the gate is there");
    middle(&mut gated) - middle(&mut bare)
}

/// Nanoseconds for entering and leaving when no other process is there.
fn pass(gate: &Gate) -> f64 {
    const PASSES: u32 = 100_000;
    let start = Instant::now();
    for _ in 0..PASSES {
        drop(gate.enter().expect("a permit"));
    }
    start.elapsed().as_nanos() as f64 / f64::from(PASSES)
}

/// Nanoseconds from a holder's release until a sleeping process is admitted.
fn hand_over(gate: &Gate) -> f64 {
    let words = shared_words(2);
    let mut delays = Vec::new();
    for _ in 0..HAND_OVERS {
        let permit = gate.enter().expect("a permit");
        let sleeper = fork(|| {
            let _permit = gate.enter().expect("a permit");
            words[1].store(now(), SeqCst);
        });
        settle(|| !gate.snapshot().expect("a snapshot").waiters.is_empty());
        words[0].store(now(), SeqCst);
        drop(permit);
        assert!(sleeper.wait());
        delays.push((words[1].load(SeqCst) - words[0].load(SeqCst)) as f64);
    }
    middle(&mut delays)
}

/// Nanoseconds from a futex wake until the sleeping process runs.
fn hand_over_bare() -> f64 {
    let words = shared_words(4);
    let mut delays = Vec::new();
    for _ in 0..HAND_OVERS {
        let seen = bell(words, 2);
        words[3].store(0, SeqCst);
        let sleeper = fork(|| {
            words[3].store(1, SeqCst);
            wait_for_bell(words, 2, seen);
            words[1].store(now(), SeqCst);
        });
        settle(|| words[3].load(SeqCst) == 1);
        words[0].store(now(), SeqCst);
        ring(words, 2);
        assert!(sleeper.wait());
        delays.push((words[1].load(SeqCst) - words[0].load(SeqCst)) as f64);
    }
    middle(&mut delays)
}

/// The share of a core, and the voluntary context switches a second, of processes that wait.
fn crowd(gate: &Gate, waiters: usize) -> (f64, f64) {
    let permit = gate.enter().expect("a permit");
    let crowd: Vec<Child> = (0..waiters).map(|_| fork(|| drop(gate.enter()))).collect();
    while gate.snapshot().expect("a snapshot").waiters.len() < waiters {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(500));
    let before = crowd.iter().map(usage).fold((0.0, 0.0), add);
    std::thread::sleep(Duration::from_secs(2));
    let after = crowd.iter().map(usage).fold((0.0, 0.0), add);
    crowd.iter().for_each(|waiter| waiter.signal(Signal::KILL));
    drop(crowd);
    drop(permit);
    ((after.0 - before.0) / 2.0, (after.1 - before.1) / 2.0)
}

/// Milliseconds from the death of a holder until a waiter is admitted.
fn succession(gate: &Gate) -> f64 {
    let words = shared_words(1);
    let holder = fork(|| {
        let _permit = gate.enter().expect("a permit");
        words[0].store(1, SeqCst);
        std::thread::sleep(Duration::from_secs(60));
    });
    settle(|| words[0].load(SeqCst) == 1);
    let waiter = fork(|| {
        let _permit = gate.enter().expect("a permit");
        words[0].store(now(), SeqCst);
    });
    settle(|| !gate.snapshot().expect("a snapshot").waiters.is_empty());
    let killed = now();
    holder.signal(Signal::KILL);
    assert!(waiter.wait());
    (words[0].load(SeqCst) - killed) as f64 / 1e6
}

/// Waits for a condition and then long enough for the other process to fall asleep.
fn settle(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(2));
}

/// Seconds on the CPU, and voluntary context switches, of a process so far.
fn usage(child: &Child) -> (f64, f64) {
    let read = |name| std::fs::read_to_string(format!("/proc/{}/{name}", child.id()));
    let time = read("schedstat").ok().and_then(|text| text.split(' ').next()?.parse().ok());
    let status = read("status").unwrap_or_default();
    let switches = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let switches = switches.and_then(|count| count.trim().parse().ok());
    (time.unwrap_or(0.0) / 1e9, switches.unwrap_or(0.0))
}

fn add(left: (f64, f64), right: (f64, f64)) -> (f64, f64) {
    (left.0 + right.0, left.1 + right.1)
}

fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn median(measure: impl Fn() -> f64) -> f64 {
    middle(&mut (0..ROUNDS).map(|_| measure()).collect::<Vec<_>>())
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

const ROUNDS: usize = 7;
const OPENINGS: usize = 1000;
const HAND_OVERS: usize = 60;
