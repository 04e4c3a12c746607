//! Tests round trips of random trees, in every format, with random options.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use common::{Options, assert_same_tree, bytes, every_key_ring, home, options, process};
use evener_place::{FileError, Operation, Report};
use proptest::collection::vec;
use proptest::prelude::*;

/// An entry at a random place in the tree.
#[derive(Clone, Debug)]
enum Thing {
    File {
        length: usize,
        mode: u32,
        zeros: bool,
    },
    Directory {
        mode: u32,
    },
    Symlink {
        text: String,
    },
    /// Another name of the file made this many entries before.
    HardLink {
        back: usize,
    },
}

/// The lengths at which formats and buffers change their behaviour, and some between them.
fn length() -> impl Strategy<Value = usize> {
    const EDGES: &[usize] = &[16, 4096, 4096 - 16 - 40, 16_384, 65_536, 70_000, 131_072, 270_336];
    prop_oneof![
        2 => 0..300usize,
        1 => 0..300_000usize,
        3 => (prop::sample::select(EDGES), 0..5usize).prop_map(|(edge, by)| edge + by - 2),
    ]
}

fn thing() -> impl Strategy<Value = Thing> {
    let mode = 0..0o1000u32;
    prop_oneof![
        6 => (length(), mode.clone(), any::<bool>())
            .prop_map(|(length, mode, zeros)| Thing::File { length, mode, zeros }),
        2 => mode.prop_map(|mode| Thing::Directory { mode }),
        1 => "[a-c/.]{1,5}".prop_map(|text| Thing::Symlink { text }),
        1 => (1..4usize).prop_map(|back| Thing::HardLink { back }),
    ]
}

/// A path in the tree, in a few directories, some of them deep.
fn place() -> impl Strategy<Value = String> {
    "([a-c]/){0,3}[a-zäß .]{1,6}[a-z]"
}

/// The options that should not affect the result.
#[derive(Clone, Debug)]
struct Choice {
    seats: usize,
    memory: usize,
    sparse: bool,
    durable: bool,
    measure_total: bool,
}

fn choice() -> impl Strategy<Value = Choice> {
    // From far too little to plenty for every format here.
    let memory = prop_oneof![0..500_000usize, 500_000..8_000_000usize];
    (1..5usize, memory, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(seats, memory, sparse, durable, measure_total)| Choice {
            seats,
            memory,
            sparse,
            durable,
            measure_total,
        },
    )
}

impl Choice {
    fn options(&self) -> Options {
        let engine = evener_engines::find("openssl").unwrap();
        let &Choice { seats, memory, sparse, durable, measure_total } = self;
        let seats = vec![engine; seats];
        options().with(|it| {
            it.run.seats = seats;
            it.run.memory = memory;
            it.tree.sparse = sparse;
            it.tree.durable = durable;
            it.tree.measure_total = measure_total;
        })
    }
}

/// Creates the entries that can be created; two may want one name, and names may obstruct each
/// other.
fn make(root: &Path, things: &[(String, Thing)]) {
    fs::create_dir(root).unwrap();
    let mut modes = Vec::new();
    for (index, (place, thing)) in things.iter().enumerate() {
        let path = root.join(place);
        if fs::create_dir_all(path.parent().unwrap()).is_err() || path.symlink_metadata().is_ok() {
            continue;
        }
        match thing {
            Thing::File { length, mode, zeros } => {
                let content = if *zeros { vec![0; *length] } else { bytes(*length) };
                fs::write(&path, content).unwrap();
                modes.push((path, *mode));
            }
            Thing::Directory { mode } => {
                fs::create_dir(&path).unwrap();
                modes.push((path, *mode));
            }
            Thing::Symlink { text } => symlink(text, &path).unwrap(),
            Thing::HardLink { back } => {
                let Some((other, Thing::File { .. })) =
                    index.checked_sub(*back).map(|at| &things[at])
                else {
                    continue;
                };
                let other = root.join(other);
                if other.symlink_metadata().is_ok_and(|status| status.is_file()) {
                    fs::hard_link(other, &path).unwrap();
                }
            }
        }
    }
    // A user other than root must be able to read and remove everything.
    for (path, mode) in modes {
        let needed = if path.is_dir() { 0o700 } else { 0o400 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode | needed)).unwrap();
    }
}

/// Returns whether everything was done. The only accepted reason for a failure is lack of memory.
fn was_done(what: &str, report: &Report) -> bool {
    for failure in &report.failures {
        let expected =
            matches!(failure.error, FileError::Memory { .. } | FileError::LinkedToFailed(_));
        assert!(expected, "{what}: {failure:?}");
    }
    report.is_success()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_tree_comes_back(
        things in vec((place(), thing()), 0..25),
        ring in 0..7usize,
        there in choice(),
        checking in choice(),
        back in choice(),
    ) {
        let home = home();
        let [plain, sealed, opened] =
            ["plain", "sealed", "opened"].map(|name| home.path().join(name));
        make(&plain, &things);
        let (name, keys) = every_key_ring().swap_remove(ring);
        let run = |operation, from: &Path, to: Option<&Path>, choice: &Choice| {
            let report = process(operation, &keys, from, to, &choice.options()).unwrap();
            was_done(&format!("{name}: {operation:?}"), &report)
        };
        let encrypted = run(Operation::Encrypt, &plain, Some(&sealed), &there);
        run(Operation::Verify, &sealed, None, &checking);
        let decrypted = run(Operation::Decrypt, &sealed, Some(&opened), &back);
        if encrypted && decrypted {
            assert_same_tree(&plain, &opened);
        }
    }
}
