//! The gate's file in shared memory, to which other processes write.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use evener_gate::{Discipline, Gate, GateOptions, Scope, list_gates, reset, snapshot};

/// The first byte decides the gate's discipline, and whether the rest is the whole file, or words
/// to write into a sound one: two bytes for the place, eight for the word. Whatever the content, no
/// call panics or runs for ever.
pub fn gate_file(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a home");
    let lists = choice & 2 != 0;
    let options = GateOptions {
        discipline: if lists { Discipline::Lists } else { Discipline::Fifo },
        permits: 2,
        places: 4,
        directory: Some(home.path().to_owned()),
        ..GateOptions::new(ENGINE, 2)
    };
    let gate = Gate::open(options.clone()).expect("a new gate");
    let permit = gate.try_enter().expect("a sound gate");
    let path = gate.snapshot().expect("a sound gate").path;
    if choice & 1 == 0 {
        // The whole file is checked only when it is opened.
        drop((permit, gate));
        fs::write(&path, rest).expect("to write to it");
        visit(&options, home.path());
        return;
    }
    overwrite(&path, rest);
    let _ = gate.snapshot();
    let _ = gate.try_enter();
    drop(permit);
    let _ = gate.try_enter();
    visit(&options, home.path());
    drop(gate);
    visit(&options, home.path());
}

/// All calls of a program that uses the gate.
fn visit(options: &GateOptions, home: &Path) {
    let _ = list_gates(Scope::User, Some(home));
    let _ = snapshot(ENGINE, Scope::User, Some(home));
    if let Ok(gate) = Gate::open(options.clone()) {
        let _ = gate.try_enter();
    }
    let _ = reset(ENGINE, Scope::User, Some(home));
    assert!(Gate::open(options.clone()).is_ok(), "no gate after a reset");
}

fn overwrite(path: &Path, script: &[u8]) {
    let mut file = fs::read(path).expect("the gate's file");
    for step in script.chunks_exact(10) {
        let words = file.len() / 8;
        let at = usize::from(u16::from_le_bytes([step[0], step[1]])) % words * 8;
        file[at..at + 8].copy_from_slice(&step[2..]);
    }
    assert_eq!(fs::metadata(path).expect("the gate's file").permissions().mode() & 0o777, 0o600);
    fs::write(path, file).expect("to write to it");
}

const ENGINE: &str = "fuzz";
