//! Passes every file of the corpus to its target's function. They are real files of each kind and
//! inputs found by fuzzing: if a target panics, the message names the file.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use evener_fuzz::TARGETS;

#[test]
fn the_corpus_is_survived() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in TARGETS {
        target(b"");
        let mut files: Vec<_> = fs::read_dir(corpus.join(name))
            .unwrap_or_else(|error| panic!("no corpus of {name}: {error}"))
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "the corpus of {name} is empty");
        for file in &files {
            let bytes = fs::read(file).unwrap();
            assert!(catch_unwind(|| target(&bytes)).is_ok(), "{name}: {}", file.display());
        }
        println!("{name}: {} files", files.len());
    }
}

#[test]
fn every_target_has_a_program() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    let mut found: Vec<_> = fs::read_dir(programs)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort();
    let known: Vec<_> = TARGETS.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(found, known);
}
