//! Operations on files that are errors, and operations that are not.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener::keys::{CobblestoneSuite, KeyMaterial};
use evener::{
    Control, Evener, Existing, FileError, Key, OperationError, Options, Report, Selection,
};

/// A tree of two files, and a place for the results.
struct Stage {
    home: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let stage = Stage { home: tempfile::tempdir().unwrap() };
        fs::create_dir(stage.at("plain")).unwrap();
        for name in ["one", "two"] {
            fs::write(stage.at("plain").join(name), name).unwrap();
        }
        stage
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn evener(&self, change: impl FnOnce(&mut Options)) -> Evener {
        let (suite, key) = (CobblestoneSuite::Aes256Gcm, Key::new(&[7; 32]).unwrap());
        let keys = KeyMaterial::Cobblestone { suite, key }.key_ring(b"").unwrap();
        Evener::builder(keys).options(change).build().unwrap()
    }

    fn encrypt(&self, change: impl FnOnce(&mut Options)) -> Result<Report, OperationError> {
        self.evener(change).encrypt(self.at("plain"), self.at("sealed"))
    }
}

fn flip_last_bit(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path, bytes).unwrap();
}

/// The report of an operation that began but returned an error.
fn incomplete(result: Result<Report, OperationError>) -> Report {
    let Err(OperationError::Incomplete(report)) = result else { panic!("{result:?}") };
    assert!(!report.is_success());
    *report
}

#[test]
fn what_is_not_done_is_an_error() {
    let stage = Stage::new();
    stage.encrypt(|_| ()).unwrap();
    flip_last_bit(&stage.at("sealed/two.enc"));
    let evener = stage.evener(|_| ());
    let verified = evener.verify(stage.at("sealed"));
    let words = verified.as_ref().unwrap_err().to_string();
    assert!(words.contains("sealed/two.enc: chunk 0") && !words.contains('\n'), "{words}");
    let printed = format!("{:?}", verified.as_ref().unwrap_err());
    assert_eq!(printed, format!("Incomplete({words})"));
    let report = incomplete(verified);
    assert_eq!((report.files, report.failures.len()), (1, 1));
    // The other file is done.
    let report = incomplete(evener.decrypt(stage.at("sealed"), stage.at("back")));
    assert_eq!(report.files, 1);
    assert!(stage.at("back/one").exists() && !stage.at("back/two").exists());

    // Outputs that exist are refused.
    let refused = incomplete(stage.encrypt(|_| ()));
    assert_eq!((refused.files, refused.failures.len()), (0, 2));
    assert!(matches!(refused.failures[0].error, FileError::Exists(_)), "{refused:?}");
    assert!(refused.shortfall().unwrap().ends_with("(and 1 other file)"));

    // The operation was stopped.
    let control = Arc::new(Control::default());
    control.stop();
    let stopped = incomplete(stage.encrypt(|options| {
        options.run.control = control;
        options.tree.existing = Existing::Overwrite;
    }));
    assert!(stopped.interrupted && stopped.failures.is_empty());
    assert_eq!(stopped.shortfall().unwrap(), "stopped after 0 files");

    // The operation could not begin.
    let absent = evener.verify(stage.at("absent"));
    assert!(matches!(absent, Err(OperationError::NotBegun(_))), "{absent:?}");
    assert!(absent.unwrap_err().report().is_none());
}

#[test]
fn what_is_left_out_is_no_error_and_in_the_report() {
    let stage = Stage::new();
    let _listener = UnixListener::bind(stage.at("plain/socket")).unwrap();
    let report = stage.encrypt(|_| ()).unwrap();
    assert_eq!((report.files, report.notices.len()), (2, 1), "{report:?}");
    assert!(report.shortfall().is_none());

    // Complete outputs are skipped.
    let report = stage.encrypt(|options| options.tree.existing = Existing::resume()).unwrap();
    assert_eq!((report.files, report.files_skipped), (0, 2));

    // A name without the suffix.
    fs::rename(stage.at("sealed/two.enc"), stage.at("sealed/two")).unwrap();
    let report = stage.evener(|_| ()).verify(stage.at("sealed")).unwrap();
    assert_eq!((report.files, report.notices.len()), (1, 1));
    assert!(report.notices[0].path.ends_with("two"), "{report:?}");

    // Files that the caller did not select have no notice.
    let select = |options: &mut Options| {
        options.tree.selection = Selection::new(&["one"], &[] as &[&str]).unwrap();
    };
    let report = stage.evener(select).decrypt(stage.at("sealed"), stage.at("back")).unwrap();
    assert_eq!(report.files, 1);

    // No file at all.
    fs::create_dir(stage.at("empty")).unwrap();
    assert_eq!(stage.evener(|_| ()).verify(stage.at("empty")).unwrap().files, 0);
}
