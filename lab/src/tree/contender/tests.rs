use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::super::place::Place;
use super::super::walk::first_difference;
use super::super::workload::Workload;
use super::*;

/// A program with Evener's command line that only copies. It is a file in the source tree, because
/// a program written here could not be executed while another thread's child has it open for
/// writing.
pub(in crate::tree) fn stand_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tree/contender/stand-in.sh")
}

#[test]
fn every_installed_contender_restores_a_tree() {
    let place = Place::below(&std::env::temp_dir()).unwrap();
    let program = stand_in();
    let secrets = place.path("secrets");
    fs::create_dir(&secrets).unwrap();
    let source = place.path("source");
    let files = Workload::Files { count: 7, length: 20_000, per_directory: 3 };
    files.build(&place, &source).unwrap();

    for &name in ContenderName::value_variants() {
        let contender = match set_up(name, Some(&program), &secrets) {
            Ok(contender) => contender,
            Err(LabError::Unavailable(reason)) => {
                evener_core::skipped!("{reason}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let encrypted = place.path(&format!("{name:?} encrypted"));
        let decrypted = place.path(&format!("{name:?} decrypted"));
        contender.encrypt(&source, &encrypted).unwrap();
        contender.decrypt(&encrypted, &decrypted).unwrap();
        assert_eq!(first_difference(&source, &decrypted).unwrap(), None, "{name:?}");
        // Evener's stand-in only copies.
        if name != ContenderName::Evener && !name.is_choice() {
            assert!(first_difference(&source, &encrypted).unwrap().is_some(), "{name:?}");
        }
    }
}

#[test]
fn secrets_are_private() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("password");
    secret::write(&path, &secret::password().unwrap()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read(&path).unwrap().len(), 32);
    assert!(secret::write(&path, "another").is_err());
}

#[test]
fn a_missing_program_is_told() {
    let error = version(Path::new("no-such-rival"), "version").unwrap_err();
    assert_eq!(error.to_string(), "no-such-rival is not installed");
}

#[test]
fn failures_of_the_program_are_told() {
    let place = Place::below(&std::env::temp_dir()).unwrap();
    let evener =
        evener::Evener::set_up(evener::DEFAULT, Some(&stand_in()), &place.path("")).unwrap();
    let error = evener.encrypt(&place.path("missing"), &place.path("out")).unwrap_err();
    assert!(error.to_string().contains("No such file"), "{error}");
}
