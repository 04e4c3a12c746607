//! Tests files that another process writes to while they are read.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use common::meddler::meddling;
use common::{Options, bytes, cobblestone, home, options, process};
use evener_place::{FileError, Operation, Report};

fn run(operation: Operation, from: &Path, to: &Path, options: &Options) -> Report {
    process(operation, &cobblestone(), from, Some(to), options).unwrap()
}

/// Writes to a file on the first `times` calls, with different content each time, and a time that
/// no clock gives twice.
fn writes(path: &Path, times: u32) -> impl Fn() + Send + Sync + 'static {
    let (path, count) = (path.to_owned(), AtomicU32::new(0));
    move || {
        let number = count.fetch_add(1, Ordering::SeqCst);
        if number < times {
            let mut file = File::options().write(true).open(&path).unwrap();
            file.write_all(format!("written {number}").as_bytes()).unwrap();
            let time = Duration::from_secs(1_000_000_000 + u64::from(number));
            file.set_modified(SystemTime::UNIX_EPOCH + time).unwrap();
        }
    }
}

#[test]
fn a_file_that_comes_to_rest_is_stored_as_it_is_then() {
    // A file longer than a worker's buffers is processed in many calls.
    for (length, times) in [(1000, 1), (1000, 3), (2_000_000, 1), (2_000_000, 2)] {
        let home = home();
        let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
        fs::create_dir(&plain).unwrap();
        for name in ["file", "other"] {
            fs::write(plain.join(name), bytes(length)).unwrap();
        }
        fs::hard_link(plain.join("file"), plain.join("same")).unwrap();
        let meddling = meddling(writes(&plain.join("file"), times));
        let report = run(Operation::Encrypt, &plain, &sealed, &meddling);
        assert!(report.is_success(), "{length} {times}: {:?}", report.failures);
        assert_eq!((report.files, report.hard_links), (2, 1), "{length} {times}");
        assert!(run(Operation::Decrypt, &sealed, &back, &options()).is_success());
        common::assert_same_tree(&plain, &back);
    }
}

#[test]
fn a_file_that_never_rests_is_stored_or_left_out_and_named() {
    for skip_changing in [false, true] {
        for remove_source in [false, true] {
            let home = home();
            let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
            let back = home.path().join("back");
            fs::create_dir(&plain).unwrap();
            fs::write(plain.join("file"), bytes(1000)).unwrap();
            let options = meddling(writes(&plain.join("file"), u32::MAX));
            let options = options.with(|it| {
                it.tree.skip_changing = skip_changing;
                it.tree.remove_source = remove_source;
            });
            let report = run(Operation::Encrypt, &plain, &sealed, &options);
            let is_stored = !skip_changing && !remove_source;
            let error = if is_stored { FileError::StoredChanging } else { FileError::Changed };
            assert_eq!(report.failures.len(), 1, "{:?}", report.failures);
            assert_eq!(report.failures[0].error, error);
            assert_eq!(report.failures[0].path, plain.join("file"));
            assert_eq!(report.files, u64::from(is_stored));
            assert!(plain.join("file").exists());
            assert_eq!(fs::read_dir(&sealed).unwrap().count(), usize::from(is_stored));
            assert!(run(Operation::Decrypt, &sealed, &back, &common::options()).is_success());
        }
    }
}
