//! Sealed trees on a full or read-only disk.

mod common;

use std::thread::sleep;
use std::time::Duration;

use common::Fixture;

/// Runs shell commands with a file system of 2 MiB in memory at `disk`, which no other process
/// sees.
fn on_small_disk(lines: &str) -> Option<String> {
    let fixture = Fixture::new();
    sleep(Duration::from_millis(60));
    let mount = "mkdir -p disk && mount -t tmpfs -o size=2M none disk";
    if fixture.shell(&format!("unshare -rm sh -c '{mount}'")).status != Some(0) {
        evener_core::skipped!("a full disk: no file system can be mounted here");
        return None;
    }
    let ended = fixture.shell(&format!("unshare -rm sh -ec '{mount}; exec 1>&2; {lines}'"));
    assert_eq!(ended.status, Some(0), "{ended:?}");
    Some(ended.messages)
}

/// Makes a tree of two generations on a disk without a free byte. The first generation has files of
/// its own, and all files are old.
const FULL: &str = "seal=\"$evener encrypt -q --sealed -k my.key tree disk/sealed\"; $seal; \
                    head -c 300000 /dev/urandom >tree/one; sleep 0.1; $seal; rm tree/one; sleep 0.1; $seal; \
                    find disk/sealed/data -type f -exec touch -d \"3 days ago\" {} +; \
                    head -c 3M /dev/zero >disk/filler || :; ";

#[test]
fn cleaning_a_full_disk_says_what_it_needs() {
    let lines = "$evener clean --keep 1 -k my.key disk/sealed && exit 1; \
                 for number in 1 2 3; do $evener verify -q -k my.key --generation $number disk/sealed; done; \
                 truncate -s -16K disk/filler; \
                 $evener clean --keep 1 -k my.key disk/sealed; $evener verify -q -k my.key disk/sealed";
    let Some(told) = on_small_disk(&format!("{FULL}{lines}")) else { return };
    assert!(told.contains("No space left on device; cleaning writes a new root before"), "{told}");
    assert!(told.contains("make 16 KiB of room on this disk"), "{told}");
    assert!(told.contains("removed 2 generations"), "{told}");
}

#[test]
fn a_disk_that_takes_nothing_is_told_in_a_line() {
    let lines = "for number in $(seq 50); do head -c 5000 /dev/urandom >tree/$number; done; \
                 $seal && exit 1; truncate -s 0 disk/filler; $seal; \
                 $evener verify -q -k my.key disk/sealed";
    let Some(told) = on_small_disk(&format!("{FULL}{lines}")) else { return };
    let lines: Vec<_> = told.lines().filter(|line| line.starts_with("evener:")).collect();
    assert_eq!(lines.len(), 1, "{told}");
    assert!(lines[0].contains("No space left on device"), "{told}");
}
