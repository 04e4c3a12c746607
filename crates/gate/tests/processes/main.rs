//! The gate with real processes: forks, kills, stops, and a storm of them.
//!
//! A program of its own without the test harness, so that it has one thread and may fork.

mod sys;

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use evener_gate::{Condition, Discipline, Gate, GateError, GateOptions, Scope};
use rustix::fs::FlockOperation;
use rustix::process::Signal;
use sys::{Child, fork, shared_words};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = arguments.first().filter(|name| !name.starts_with('-'));
    // The syntax of cargo's own harness: `--skip NAME`.
    let skipped: Vec<&String> =
        arguments.windows(2).filter(|pair| pair[0] == "--skip").map(|pair| &pair[1]).collect();
    let directory = std::env::temp_dir().join(format!("evener-gate-{}", std::process::id()));
    for (name, test) in TESTS {
        if wanted.is_some_and(|wanted| !name.contains(wanted.as_str()))
            || skipped.iter().any(|skipped| name.contains(skipped.as_str()))
        {
            continue;
        }
        let start = Instant::now();
        std::fs::create_dir_all(&directory).expect("a temporary directory");
        test(&directory);
        std::fs::remove_dir_all(&directory).expect("a temporary directory");
        println!("{name}: ok ({:.1?})", start.elapsed());
    }
}

type Test = fn(&Path);

const TESTS: &[(&str, Test)] = &[
    ("a_killed_holder_is_succeeded", a_killed_holder_is_succeeded),
    ("killed_waiters_are_passed_over", killed_waiters_are_passed_over),
    ("a_killed_crowd_is_succeeded", a_killed_crowd_is_succeeded),
    ("who_does_not_wait_finds_a_dead_holder", who_does_not_wait_finds_a_dead_holder),
    ("a_stopped_holder_loses_its_lease", a_stopped_holder_loses_its_lease),
    ("a_stopped_holder_without_lease_keeps_its_permit", a_stopped_holder_keeps_its_permit),
    ("a_child_has_no_part_in_its_parents_permit", a_child_has_no_part_in_its_parents_permit),
    ("lists_keep_processes_apart", lists_keep_processes_apart),
    ("waiters_follow_a_reset", waiters_follow_a_reset),
    ("a_file_of_the_dead_is_replaced", a_file_of_the_dead_is_replaced),
    ("a_crowd_changes_the_settings", a_crowd_changes_the_settings),
    ("resets_at_once_leave_one_gate", resets_at_once_leave_one_gate),
    ("another_users_directory_is_refused", another_users_directory_is_refused),
    ("admissions_follow_arrivals", admissions_follow_arrivals),
    ("a_storm_of_kills_wedges_nothing", a_storm_of_kills_wedges_nothing),
];

fn a_killed_holder_is_succeeded(directory: &Path) {
    let gate = open(directory, 1);
    let holder = fork_holder(&gate);
    let waiter = fork(|| drop(gate.enter().unwrap()));
    wait_for_waiters(&gate, 1);
    let killed = kill(holder);
    assert!(waiter.wait());
    println!("  given on after {:.1?}", killed.elapsed());
    // If no process waits, the next arrival notices the death.
    let holder = fork_holder(&gate);
    let killed = kill(holder);
    drop(gate.enter().unwrap());
    println!("  to one who came later after {:.1?}", killed.elapsed());
}

fn killed_waiters_are_passed_over(directory: &Path) {
    let gate = open(directory, 1);
    let permit = gate.enter().unwrap();
    let waiters: Vec<Child> = (1..=6)
        .map(|count| {
            let waiter = fork(|| drop(gate.enter().unwrap()));
            wait_for_waiters(&gate, count);
            waiter
        })
        .collect();
    let mut waiters = waiters.into_iter();
    // The first is stopped when its turn comes, and then killed: a death at the last moment.
    let first = waiters.next().unwrap();
    first.signal(Signal::STOP);
    waiters.next().unwrap().signal(Signal::KILL);
    waiters.nth(1).unwrap().signal(Signal::KILL);
    drop(permit);
    std::thread::sleep(Duration::from_millis(20));
    let killed = kill(first);
    for waiter in waiters {
        assert!(waiter.wait());
    }
    println!("  given on after {:.1?}", killed.elapsed());
    drop(gate.enter().unwrap());
}

/// The holder and the last two waiters, which watch the gate, die at the same time.
fn a_killed_crowd_is_succeeded(directory: &Path) {
    let gate = open(directory, 1);
    let holder = fork_holder(&gate);
    let mut waiters: Vec<Child> = (1..=8)
        .map(|count| {
            let waiter = fork(|| drop(gate.enter().unwrap()));
            wait_for_waiters(&gate, count);
            waiter
        })
        .collect();
    let last = waiters.split_off(6);
    last.iter().for_each(|waiter| waiter.signal(Signal::KILL));
    let killed = kill(holder);
    assert!(waiters.into_iter().all(Child::wait));
    println!("  given on to six after {:.1?}", killed.elapsed());
}

fn a_stopped_holder_loses_its_lease(directory: &Path) {
    let lease = Some(Duration::from_millis(100));
    let gate = Gate::open(GateOptions { lease, ..options(directory, 1) }).unwrap();
    let told = shared_words(2);
    let holder = fork(|| {
        let permit = gate.enter().unwrap();
        told[0].store(1, SeqCst);
        while permit.is_held() {
            std::thread::sleep(Duration::from_millis(1));
        }
        told[1].store(1, SeqCst);
    });
    wait_until(|| told[0].load(SeqCst) == 1);
    holder.signal(Signal::STOP);
    let stopped = Instant::now();
    let permit = gate.enter().unwrap();
    println!("  given on after {:.1?}", stopped.elapsed());
    assert!(stopped.elapsed() >= Duration::from_millis(90), "not before the lease is up");
    assert_eq!(told[1].load(SeqCst), 0);
    holder.signal(Signal::CONT);
    assert!(holder.wait(), "it learns that its permit is gone, and giving it back is harmless");
    assert!(permit.is_held());
    assert!(gate.try_enter().unwrap().is_none());
    // A process that is stopped while it is the next in line is passed over, too.
    let waiter = fork(|| drop(gate.enter().unwrap()));
    wait_for_waiters(&gate, 1);
    waiter.signal(Signal::STOP);
    let next = fork(|| drop(gate.enter().unwrap()));
    wait_for_waiters(&gate, 2);
    drop(permit);
    assert!(next.wait());
    waiter.signal(Signal::CONT);
    assert!(waiter.wait(), "and has its turn later");
}

fn who_does_not_wait_finds_a_dead_holder(directory: &Path) {
    let gate = open(directory, 1);
    let holder = fork_holder(&gate);
    assert!(gate.try_enter().unwrap().is_none());
    kill(holder);
    assert!(gate.try_enter().unwrap().is_some());
}

fn a_stopped_holder_keeps_its_permit(directory: &Path) {
    let gate = open(directory, 1);
    let holder = fork_holder(&gate);
    holder.signal(Signal::STOP);
    wait_until(|| gate.snapshot().unwrap().holders[0].condition == Condition::Stopped);
    let waiter = fork(|| drop(gate.enter().unwrap()));
    wait_for_waiters(&gate, 1);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(gate.snapshot().unwrap().waiters.len(), 1);
    kill(holder);
    assert!(waiter.wait());
}

fn a_child_has_no_part_in_its_parents_permit(directory: &Path) {
    let gate = open(directory, 1);
    let permit = RefCell::new(Some(gate.enter().unwrap()));
    let child = fork(|| {
        assert!(!permit.borrow().as_ref().unwrap().is_held());
        assert!(gate.try_enter().unwrap().is_none());
        // The child drops its copy of the parent's permit.
        permit.take();
    });
    assert!(child.wait());
    let snapshot = gate.snapshot().unwrap();
    assert_eq!(snapshot.holders.len(), 1);
    assert_eq!(snapshot.holders[0].process, std::process::id());
    // The gate itself serves the child under its own name.
    let gate = open(directory, 2);
    let child = fork(|| {
        let permit = gate.enter().unwrap();
        let holders = gate.snapshot().unwrap().holders;
        assert!(holders.iter().any(|holder| holder.process == std::process::id()));
        drop(permit);
    });
    assert!(child.wait());
}

fn lists_keep_processes_apart(directory: &Path) {
    let discipline = Discipline::Lists;
    // There is a permit for each list.
    let gate = Gate::open(GateOptions { discipline, ..options(directory, 64) }).unwrap();
    // Each holds the permit of its own list; 65 processes need one list twice.
    let mut children: Vec<Child> = Vec::new();
    let mut lists = [0; 64];
    while children.len() < 65 {
        let child = fork(|| {
            let _permit = gate.enter().unwrap();
            std::thread::sleep(Duration::from_secs(60));
        });
        lists[child.id() as usize % 64] += 1;
        children.push(child);
    }
    let occupied = lists.iter().filter(|&&count| count > 0).count();
    wait_until(|| gate.snapshot().unwrap().holders.len() == occupied);
    wait_for_waiters(&gate, 65 - occupied);
    let snapshot = gate.snapshot().unwrap();
    for who in snapshot.holders.iter().chain(&snapshot.waiters) {
        assert_eq!(who.queue, who.process as usize % 64);
    }
    // When all holders die, the waiters are admitted.
    for holder in &snapshot.holders {
        children.retain(|child| child.id() != holder.process);
    }
    wait_until(|| {
        let holders = gate.snapshot().unwrap().holders;
        children.iter().all(|child| holders.iter().any(|holder| holder.process == child.id()))
    });
}

fn waiters_follow_a_reset(directory: &Path) {
    let gate = open(directory, 1);
    let permit = gate.enter().unwrap();
    let waiters: Vec<Child> = (0..5).map(|_| fork(|| drop(gate.enter().unwrap()))).collect();
    wait_for_waiters(&gate, 5);
    assert!(evener_gate::reset("module", Scope::User, Some(directory)).unwrap());
    assert!(waiters.into_iter().all(Child::wait), "they pass the new gate");
    assert!(!permit.is_held());
    drop(permit);
    drop(gate.enter().unwrap());
}

fn a_file_of_the_dead_is_replaced(directory: &Path) {
    let path = gate_path(directory);
    for damage in [0, 8, 16, 48, 64] {
        // While a process uses the damaged file, opening it fails with a clear error. After its
        // death the file is replaced.
        let told = shared_words(1);
        let user = fork(|| {
            let _gate = open(directory, 1);
            told[0].store(1, SeqCst);
            std::thread::sleep(Duration::from_secs(60));
        });
        wait_until(|| told[0].load(SeqCst) == 1);
        let file = File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[0xEE; 8], damage).unwrap();
        drop(file);
        let error = Gate::open(options(directory, 1)).unwrap_err();
        assert!(matches!(error, GateError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("evener gate reset"), "{error}");
        let seen = || evener_gate::snapshot("module", Scope::User, Some(directory));
        assert!(matches!(seen(), Err(GateError::Damaged { .. })));
        kill(user);
        assert!(seen().unwrap().is_none());
        drop(open(directory, 1).enter().unwrap());
    }
    // The same for another shape.
    let user = fork_holder(&open(directory, 1));
    let error = Gate::open(options(directory, 2)).unwrap_err();
    assert!(matches!(error, GateError::Differs { .. }), "{error}");
    kill(user);
    drop(open(directory, 2).enter().unwrap());
}

/// 16 processes come at once with one discipline, then 16 with the other: while no process uses
/// the gate, none fails.
fn a_crowd_changes_the_settings(directory: &Path) {
    let start = shared_words(1);
    for round in 0..40 {
        let discipline = if round % 2 == 0 { Discipline::Fifo } else { Discipline::Lists };
        let wanted = GateOptions { discipline, ..options(directory, 2) };
        let come = || {
            wait_until(|| start[0].load(SeqCst) > round);
            drop(Gate::open(wanted.clone()).unwrap().enter().unwrap());
        };
        let crowd: Vec<Child> = (0..16).map(|_| fork(come)).collect();
        start[0].fetch_add(1, SeqCst);
        let done = crowd.into_iter().map(Child::wait).filter(|&well| well).count();
        assert_eq!(done, 16, "in round {round}");
    }
}

/// Only retiring a gate removes its name: otherwise the holder of the old gate and that of the new
/// one would hold the same permit.
fn resets_at_once_leave_one_gate(directory: &Path) {
    let [rounds] = shared_words(1) else { unreachable!() };
    let reset = || {
        while rounds.load(SeqCst) < 1000 {
            evener_gate::reset("module", Scope::User, Some(directory)).unwrap();
        }
    };
    let resetters = [(); 3].map(|()| fork(reset));
    while rounds.fetch_add(1, SeqCst) < 1000 {
        let permit = open(directory, 1).enter().unwrap();
        if open(directory, 1).try_enter().unwrap().is_some() {
            wait_until(|| !permit.is_held());
        }
    }
    assert!(resetters.into_iter().all(Child::wait));
}

fn another_users_directory_is_refused(directory: &Path) {
    if !rustix::process::geteuid().is_root() {
        evener_core::skipped!(
            "another user's directory: only root can give a file to another user"
        );
        return;
    }
    let gate = open(directory, 1);
    let path = gate_path(directory);
    chown(&path, Some(12345), None).unwrap();
    let error = Gate::open(options(directory, 1)).unwrap_err();
    assert!(matches!(error, GateError::Untrusted { .. }), "{error}");
    chown(&path, Some(0), None).unwrap();
    drop(gate);
    let parent = path.parent().unwrap();
    chown(parent, Some(12345), None).unwrap();
    let error = Gate::open(options(directory, 1)).unwrap_err();
    assert!(matches!(error, GateError::Untrusted { .. }), "{error}");
}

/// 100,000 admissions of 50 processes, in the order in which they arrived.
fn admissions_follow_arrivals(directory: &Path) {
    const ADMISSIONS: usize = 100_000;
    let gate = open(directory, 1);
    let log = shared_words(1 + ADMISSIONS);
    let life = || {
        loop {
            let permit = gate.enter().unwrap();
            let count = log[0].load(SeqCst) as usize;
            if count == ADMISSIONS {
                return;
            }
            log[1 + count].store(permit.arrival() + 1, SeqCst);
            log[0].store(count as u64 + 1, SeqCst);
        }
    };
    let children: Vec<Child> = (0..50).map(|_| fork(life)).collect();
    assert!(children.into_iter().all(Child::wait));
    let order: Vec<u64> = log[1..].iter().map(|entry| entry.load(SeqCst)).collect();
    assert!(order.iter().copied().eq(1..=ADMISSIONS as u64), "each in its turn");
}

/// 200 processes take turns while some are killed, stopped and continued at random. An
/// admitted process must find the device free; the kernel says whether it is, not the gate.
fn a_storm_of_kills_wedges_nothing(directory: &Path) {
    let seed = std::process::id();
    println!("  seed {seed}");
    for permits in [1, 3] {
        storm(&directory.join(permits.to_string()), permits, seed);
    }
}

fn storm(directory: &Path, permits: usize, seed: u32) {
    std::fs::create_dir(directory).unwrap();
    let gate = open(directory, permits);
    let contexts: Vec<PathBuf> =
        (0..permits).map(|context| directory.join(format!("context-{context}"))).collect();
    let [admissions, order] = shared_words(2) else { unreachable!() };
    let life = || {
        let contexts: Vec<File> = contexts.iter().map(|path| File::create(path).unwrap()).collect();
        loop {
            let permit = gate.enter().unwrap();
            let context = use_context(&contexts);
            if permits == 1 {
                assert!(order.swap(permit.arrival() + 1, SeqCst) <= permit.arrival());
            }
            admissions.fetch_add(1, SeqCst);
            rustix::fs::flock(context.as_fd(), FlockOperation::Unlock).unwrap();
        }
    };
    let mut children: Vec<Child> = (0..200).map(|_| fork(life)).collect();
    let mut random = Random(seed.into());
    let end = Instant::now() + Duration::from_secs(4);
    let (mut kills, mut longest) = (0, Duration::ZERO);
    let (mut before, mut progress) = (0, Instant::now());
    while Instant::now() < end {
        let victim = random.below(children.len());
        children[victim].signal(Signal::STOP);
        std::thread::sleep(Duration::from_micros(random.below(2000) as u64));
        if random.below(4) > 0 {
            children.push(fork(life));
            let killed = children.swap_remove(victim);
            killed.signal(Signal::KILL);
            assert!(!killed.wait());
            kills += 1;
        } else {
            children[victim].signal(Signal::CONT);
        }
        let now = admissions.load(SeqCst);
        if now != before {
            longest = longest.max(progress.elapsed());
            (before, progress) = (now, Instant::now());
        }
        assert!(progress.elapsed() < Duration::from_secs(20), "the gate is wedged");
    }
    println!(
        "  {permits} permits: {before} admissions, {kills} kills, longest pause {longest:.1?}"
    );
    drop(children);
    let permits: Vec<_> = (0..permits).map(|_| gate.enter().unwrap()).collect();
    assert!(permits.iter().all(evener_gate::Permit::is_held));
    assert!(gate.try_enter().unwrap().is_none());
}

/// Locks a context of the device. As many as there are permits may be in use, so one is free;
/// which one may change while they are tried.
fn use_context(contexts: &[File]) -> &File {
    for _ in 0..1000 {
        for context in contexts {
            if rustix::fs::flock(context, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return context;
            }
            assert!(contexts.len() > 1, "two were admitted to one context");
        }
    }
    panic!("more were admitted than there are contexts");
}

fn options(directory: &Path, permits: usize) -> GateOptions {
    GateOptions { directory: Some(directory.to_owned()), ..GateOptions::new("module", permits) }
}

fn open(directory: &Path, permits: usize) -> Gate {
    let engine = if permits == 1 { "module".to_owned() } else { format!("module-{permits}") };
    Gate::open(GateOptions { engine, ..options(directory, permits) }).unwrap()
}

fn gate_path(directory: &Path) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    directory.join(format!("evener-{user}")).join("module.gate")
}

/// A process that holds a permit until it is killed.
fn fork_holder(gate: &Gate) -> Child {
    let before = gate.snapshot().unwrap().holders.len();
    let holder = fork(|| {
        let _permit = gate.enter().unwrap();
        std::thread::sleep(Duration::from_secs(60));
    });
    wait_until(|| gate.snapshot().unwrap().holders.len() > before);
    holder
}

fn kill(child: Child) -> Instant {
    child.signal(Signal::KILL);
    let killed = Instant::now();
    assert!(!child.wait());
    killed
}

fn wait_for_waiters(gate: &Gate, count: usize) {
    wait_until(|| gate.snapshot().unwrap().waiters.len() >= count);
}

fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "it never comes about");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A small generator of random numbers (xorshift, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}
