//! Nothing is skipped without a line in the list.

use std::fs;
use std::path::Path;

#[test]
fn tests_skip_by_the_macros_only() {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for sources in [lab, &lab.with_file_name("crates")] {
        look(sources, &mut found);
    }
    assert!(found.is_empty(), "use evener_core::skipped! or lacking!: {found:#?}");
}

fn look(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        // Reports of benchmarks say what they left out.
        if path.ends_with("core/src/skips.rs") || path.ends_with("lab/src/threads/run.rs") {
            continue;
        }
        if path.is_dir() {
            look(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let lines = text.lines().enumerate();
            let silent = lines.filter(|(_, line)| line.contains(concat!("println!(\"", "skipped")));
            found.extend(silent.map(|(line, _)| format!("{}:{}", path.display(), line + 1)));
        }
    }
}
