//! The gate inside one process, and the files that it meets.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use evener_gate::{Condition, Discipline, Gate, GateError, GateOptions, Recall, Scope};

#[test]
fn threads_take_turns_and_may_hold_several_permits() {
    let directory = Scratch::new("threads");
    let gate = Gate::open(options(&directory, 2)).unwrap();
    let first = gate.enter().unwrap();
    let second = gate.enter().unwrap();
    assert!(gate.try_enter().unwrap().is_none());
    std::thread::scope(|scope| {
        let waiters: Vec<_> =
            (0..4).map(|_| scope.spawn(|| gate.enter().unwrap().arrival())).collect();
        while gate.snapshot().unwrap().waiters.len() < 4 {
            std::thread::yield_now();
        }
        let snapshot = gate.snapshot().unwrap();
        assert_eq!((snapshot.permits, snapshot.holders.len()), (2, 2));
        let me = std::process::id();
        assert!(snapshot.waiters.iter().all(|waiter| waiter.process == me));
        assert!(snapshot.waiters.iter().all(|waiter| waiter.condition == Condition::Running));
        assert!(snapshot.waiters.iter().all(|waiter| waiter.thread != snapshot.holders[0].thread));
        drop((first, second));
        let mut arrivals: Vec<u64> =
            waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        arrivals.sort_unstable();
        arrivals.dedup();
        assert_eq!(arrivals.len(), 4);
    });
    assert!(gate.snapshot().unwrap().holders.is_empty());
}

#[test]
fn waiters_are_told_of_their_wait_and_called_away() {
    let directory = Scratch::new("recall");
    let gate = Gate::open(options(&directory, 1)).unwrap();
    let (recall, other) = (Recall::default(), Recall::default());
    let permit = gate.enter().unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gate.enter_unless(&other, &mut |_| {}).unwrap().is_some());
        while gate.snapshot().unwrap().waiters.is_empty() {
            std::thread::yield_now();
        }
        let called = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut told = Vec::new();
                let tell = &mut |wait: &evener_gate::Wait| {
                    told.push(wait.clone());
                    recall.call();
                };
                assert!(gate.enter_unless(&recall, tell).unwrap().is_none());
                told
            })
        });
        let told: Vec<_> = called.into_iter().flat_map(|waiter| waiter.join().unwrap()).collect();
        assert!(!told.is_empty());
        for wait in told {
            assert!(wait.ahead >= 1 && wait.time >= Duration::from_secs(1), "{wait:?}");
            assert_eq!(wait.engine, "module");
        }
        // A waiter with another recall, or with none, still waits; the recalled waiters have left.
        assert_eq!(gate.snapshot().unwrap().waiters.len(), 1);
        drop(permit);
        assert!(first.join().unwrap());
    });
    assert!(gate.enter_unless(&recall, &mut |_| {}).unwrap().is_none(), "it is still called");
    assert!(gate.enter_unless(&other, &mut |_| {}).unwrap().is_some());
}

#[test]
fn two_gates_of_one_process_are_one() {
    let directory = Scratch::new("two");
    let gate = Gate::open(options(&directory, 1)).unwrap();
    let again = Gate::open(options(&directory, 1)).unwrap();
    let other = GateOptions { engine: "other".into(), ..options(&directory, 1) };
    let other = Gate::open(other).unwrap();
    let permit = gate.enter().unwrap();
    assert!(again.try_enter().unwrap().is_none());
    assert!(other.try_enter().unwrap().is_some());
    drop(permit);
    assert!(again.try_enter().unwrap().is_some());
    let gates = evener_gate::list_gates(Scope::User, Some(&directory.0)).unwrap();
    assert_eq!(gates, ["module", "other"]);
}

#[test]
fn a_gate_that_is_off_touches_nothing() {
    let directory = Scratch::new("off");
    let off = GateOptions { discipline: Discipline::None, ..options(&directory, 1) };
    let gate = Gate::open(off).unwrap();
    let permits = [gate.enter().unwrap(), gate.enter().unwrap()];
    assert!(permits.iter().all(evener_gate::Permit::is_held));
    assert!(gate.snapshot().unwrap().holders.is_empty());
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0);
}

#[test]
fn a_full_queue_is_a_clear_error() {
    let directory = Scratch::new("full");
    let gate = Gate::open(GateOptions { places: 2, ..options(&directory, 1) }).unwrap();
    let permit = gate.enter().unwrap();
    std::thread::scope(|scope| {
        let waiters = [(); 2].map(|()| scope.spawn(|| drop(gate.enter().unwrap())));
        while gate.snapshot().unwrap().waiters.len() < 2 {
            std::thread::yield_now();
        }
        let error = gate.enter().unwrap_err();
        assert!(matches!(error, GateError::Full { places: 2, .. }), "{error}");
        drop(permit);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
    drop(gate.enter().unwrap());
}

#[test]
fn a_missing_directory_is_a_clear_error() {
    let directory = PathBuf::from("/nonexistent/evener");
    let missing =
        GateOptions { directory: Some(directory.clone()), ..GateOptions::new("module", 1) };
    let error = Gate::open(missing).unwrap_err();
    assert!(matches!(&error, GateError::Directory { path, .. } if *path == directory), "{error}");
    assert!(error.to_string().contains("`none`"), "{error}");
}

#[test]
fn a_read_only_directory_is_a_clear_error() {
    // Root may write to any directory, but nobody may write to /proc.
    let directory = PathBuf::from("/proc/sys");
    let read_only = GateOptions { directory: Some(directory), ..GateOptions::new("module", 1) };
    let error = Gate::open(read_only).unwrap_err();
    assert!(matches!(error, GateError::Directory { .. }), "{error}");
}

#[test]
fn what_is_not_ours_alone_is_refused() {
    let directory = Scratch::new("foreign");
    drop(Gate::open(options(&directory, 1)).unwrap());
    let file = directory.gate();
    let parent = file.parent().unwrap();
    let refused = |why: &str| {
        let error = Gate::open(options(&directory, 1)).unwrap_err();
        assert!(matches!(error, GateError::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    };
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&file, 0o644);
    refused("its mode is 644, not 600");
    mode(&file, 0o600);
    mode(parent, 0o755);
    refused("its mode is 755, not 700");
    mode(parent, 0o700);
    let second = parent.join("second");
    fs::hard_link(&file, &second).unwrap();
    refused("second name");
    fs::rename(&second, parent.join("elsewhere")).unwrap();
    fs::remove_file(&file).unwrap();
    symlink("elsewhere", &file).unwrap();
    refused("symbolic link");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    refused("no file");
    fs::remove_dir(&file).unwrap();
    drop(Gate::open(options(&directory, 1)).unwrap());
}

#[test]
fn a_damaged_file_that_nobody_uses_is_replaced() {
    let directory = Scratch::new("damaged");
    drop(Gate::open(options(&directory, 1)).unwrap());
    let sound = fs::read(directory.gate()).unwrap();
    for length in [0, 1, 8, 127, 128, 4096, sound.len() - 1, sound.len() + 8] {
        let mut damaged = sound.clone();
        damaged.resize(length, 0);
        fs::write(directory.gate(), damaged).unwrap();
        let seen = evener_gate::snapshot("module", Scope::User, Some(&directory.0)).unwrap();
        assert!(seen.is_none(), "{seen:?}");
        drop(Gate::open(options(&directory, 1)).unwrap().enter().unwrap());
        assert_eq!(fs::read(directory.gate()).unwrap().len(), sound.len());
    }
    for word in 0..9 {
        let mut damaged = sound.clone();
        damaged[word * 8..][..8].copy_from_slice(&u64::MAX.to_ne_bytes());
        fs::write(directory.gate(), damaged).unwrap();
        drop(Gate::open(options(&directory, 1)).unwrap().enter().unwrap());
    }
}

#[test]
fn a_file_that_says_it_was_reset_and_is_still_there_is_an_error() {
    let directory = Scratch::new("retired");
    let gate = Gate::open(options(&directory, 1)).unwrap();
    let mut words = fs::read(directory.gate()).unwrap();
    words[9 * 8] = 1;
    fs::write(directory.gate(), words).unwrap();
    let error = gate.enter().unwrap_err();
    assert!(error.to_string().contains("evener gate reset"), "{error}");
    evener_gate::reset("module", Scope::User, Some(&directory.0)).unwrap();
    drop(gate.enter().unwrap());
}

#[test]
fn settings_may_change_when_nobody_uses_the_gate() {
    let directory = Scratch::new("settings");
    let lease = Some(Duration::MAX);
    let gate = Gate::open(GateOptions { lease, ..options(&directory, 3) }).unwrap();
    drop(Gate::open(GateOptions { lease, ..options(&directory, 3) }).unwrap());
    let error = Gate::open(options(&directory, 4)).unwrap_err();
    assert!(error.to_string().contains("3 permits"), "{error}");
    assert!(error.to_string().contains("evener gate reset"), "{error}");
    drop(gate);
    let lists = GateOptions { discipline: Discipline::Lists, ..options(&directory, 4) };
    let gate = Gate::open(lists).unwrap();
    assert_eq!(gate.snapshot().unwrap().discipline, Discipline::Lists);
}

#[test]
fn a_reset_removes_what_there_is() {
    let directory = Scratch::new("reset");
    let reset = || evener_gate::reset("module", Scope::User, Some(&directory.0)).unwrap();
    assert!(!reset());
    let gate = Gate::open(options(&directory, 1)).unwrap();
    let permit = gate.enter().unwrap();
    assert!(reset());
    assert!(!permit.is_held());
    let other = gate.enter().unwrap();
    assert!(other.is_held());
    drop(permit);
    assert!(other.is_held());
    fs::write(directory.gate(), "damaged").unwrap();
    assert!(reset());
    assert!(!reset());
    fs::write(directory.gate(), "left by nobody").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(directory.gate(), mode).unwrap();
    assert!(reset());
    assert!(!reset());

    // A file that can no longer be trusted with a gate still belongs to the user.
    let gate = Gate::open(options(&directory, 1)).unwrap();
    let permit = gate.enter().unwrap();
    fs::set_permissions(directory.gate(), fs::Permissions::from_mode(0o644)).unwrap();
    let error = Gate::open(options(&directory, 1)).unwrap_err().to_string();
    assert!(error.contains("evener gate reset"), "{error}");
    assert!(reset());
    assert!(!permit.is_held());
    assert!(gate.enter().unwrap().is_held());
    assert!(reset());
    for make in [
        |gate: &Path| symlink("nowhere", gate).unwrap(),
        |gate: &Path| {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                gate,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR,
                0,
            )
            .unwrap()
        },
    ] {
        make(&directory.gate());
        assert!(reset());
        assert!(!reset());
    }
    fs::create_dir(directory.gate()).unwrap();
    assert!(evener_gate::reset("module", Scope::User, Some(&directory.0)).is_err());
}

#[test]
fn a_group_shares_a_gate() {
    let directory = Scratch::new("group");
    let group = rustix::process::getegid().as_raw();
    let scope = Scope::Group(group);
    let gate = Gate::open(GateOptions { scope, ..options(&directory, 1) }).unwrap();
    let permit = gate.enter().unwrap();
    assert!(permit.is_held());
    let path = gate.snapshot().unwrap().path;
    assert!(path.starts_with(directory.0.join(format!("evener-group-{group}"))));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
}

fn options(directory: &Scratch, permits: usize) -> GateOptions {
    let directory = Some(directory.0.clone());
    GateOptions { directory, places: 64, ..GateOptions::new("module", permits) }
}

/// A directory of its own for each test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let name = format!("evener-gate-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn gate(&self) -> PathBuf {
        let user = rustix::process::geteuid().as_raw();
        self.0.join(format!("evener-{user}")).join("module.gate")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
