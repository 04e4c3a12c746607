//! The examples run and do what they say. Those that work on files stop if a file was changed.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

use evener::keys::{KeyFormat, KeyMaterial};
use evener::{Evener, KeyRing};

/// Runs an example that succeeds.
fn run(name: &str, arguments: &[&str], input: &[u8]) -> Output {
    let output = start(name, arguments, input);
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Runs an example that fails, and returns its message.
fn fail(name: &str, arguments: &[&str], input: &[u8]) -> String {
    let output = start(name, arguments, input);
    assert_eq!(output.status.code(), Some(1), "{name}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs an example, which cargo has built beside this test, with arguments and standard input.
fn start(name: &str, arguments: &[&str], input: &[u8]) -> Output {
    let mut path = env::current_exe().unwrap();
    path.pop();
    path.set_file_name("examples");
    let mut child = Command::new(path.join(name))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// Flips a file's last bit, and keeps its modification time.
fn change(path: &Path) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path, bytes).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_tree() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    let text = |path: PathBuf| path.into_os_string().into_string().unwrap();
    fs::create_dir_all(path("photos/2026")).unwrap();
    fs::write(path("photos/2026/one.jpg"), "not quite a picture").unwrap();
    let names = ["my.key", "photos", "sealed", "back"].map(|name| text(path(name)));
    run("encrypt_tree", &names.each_ref().map(String::as_str), b"");
    let back = fs::read_to_string(path("back/2026/one.jpg")).unwrap();
    assert_eq!(back, "not quite a picture");

    change(&path("sealed/2026/one.jpg.enc"));
    fs::remove_dir_all(path("back")).unwrap();
    let said = fail("encrypt_tree", &names.each_ref().map(String::as_str), b"");
    assert!(said.contains("one.jpg.enc: chunk 0"), "{said}");
    assert!(!path("back").exists());
}

#[test]
fn a_pipe() {
    let home = tempfile::tempdir().unwrap();
    let key = home.path().join("my.key").into_os_string().into_string().unwrap();
    let sealed = run("pipe", &["encrypt", &key], b"from a pipe").stdout;
    assert_eq!(sealed.len(), 56 + 11 + 16);
    assert_eq!(run("pipe", &["decrypt", &key], &sealed).stdout, b"from a pipe");

    let mut changed = sealed;
    changed[60] ^= 1;
    let said = fail("pipe", &["decrypt", &key], &changed);
    assert!(said.contains("the data was changed"), "{said}");
}

/// The code in README.md, apart from `meddle`.
#[rustfmt::skip]
fn readme(
    keys: KeyRing,
    [photos, backup, restored]: [&Path; 3],
    meddle: fn(&Path),
) -> Result<(), Box<dyn Error>> {
let evener = Evener::builder(keys).engines(&["cpu", "openssl"]).build()?;
evener.encrypt(photos, backup)?;
meddle(backup);
evener.verify(backup)?; // an error if any file was changed
evener.decrypt(backup, restored)?;
    Ok(())
}

#[test]
fn the_readme() {
    let this = include_str!("examples.rs");
    let body = this.split_once("fn readme(").and_then(|(_, rest)| rest.split_once("> {\n"));
    let (body, _) = body.and_then(|(_, rest)| rest.split_once("    Ok(())")).unwrap();
    let shown = body.replace("meddle(backup);\n", "");
    assert!(include_str!("../../../README.md").contains(&shown), "README.md does not show {shown}");

    let keys = || KeyMaterial::generate(KeyFormat::default()).unwrap().key_ring(b"").unwrap();
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    fs::create_dir(path("photos")).unwrap();
    fs::write(path("photos/one.jpg"), "not quite a picture").unwrap();
    let names = ["photos", "sealed", "restored", "changed", "never"].map(path);
    let [photos, sealed, restored, changed, never] = names.each_ref().map(PathBuf::as_path);
    readme(keys(), [photos, sealed, restored], |_| ()).unwrap();
    assert!(restored.join("one.jpg").exists());
    let meddle = |sealed: &Path| change(&sealed.join("one.jpg.enc"));
    let error = readme(keys(), [photos, changed, never], meddle).unwrap_err();
    assert!(error.to_string().contains("one.jpg.enc: chunk 0"), "{error}");
    assert!(!never.exists());
}

/// The list of places that show operations on files is complete. Each is run above, as a
/// documentation test in `lib.rs`, or by `tests/check-c`, `tests/check-java` and
/// `tests/check-python`, on changed files too.
#[test]
fn every_example_with_files_runs_on_changed_ones() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for place in [
        "README.md",
        "docs",
        "bindings/c",
        "bindings/java",
        "bindings/python",
        "crates/evener",
        "crates/format/src",
        "crates/keys/src",
        "crates/place/src",
        "crates/seal/src",
    ] {
        find_examples(&root, &root.join(place), &mut found);
    }
    found.sort();
    let known = [
        "README.md",
        "bindings/c/README.md",
        "bindings/java/README.md",
        "bindings/java/src/main/java/io/evener/FileEncryption.java",
        "bindings/python/README.md",
        "crates/evener/examples/encrypt_tree.rs",
        "crates/evener/examples/pipe.rs",
        "crates/evener/src/lib.rs",
        "docs/guide/python.md",
    ];
    assert_eq!(found, known, "run a new example on a changed file, too, and name it here");
}

/// Finds the files below `path` that show operations on files in an example: in a code block of a
/// document or a comment, or in an example program.
fn find_examples(root: &Path, path: &Path, found: &mut Vec<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            find_examples(root, &entry.unwrap().path(), found);
        }
        return;
    }
    let relative = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    let is_example = relative.contains("/examples/");
    let is_read = relative.ends_with(".md") || relative.contains("/src/main/") || is_example;
    let is_read = is_read || relative.ends_with(".rs") && relative.contains("/src/");
    let Some(text) = is_read.then(|| fs::read_to_string(path).ok()).flatten() else { return };
    let mut in_code = is_example;
    let shows = text.lines().any(|line| {
        let comment = line.trim_start();
        let line = comment.trim_start_matches(['/', '!', '*']).trim_start();
        if line.starts_with("```") || line.starts_with("{@snippet") {
            in_code = !in_code;
        } else if comment == "* }" {
            in_code = is_example;
        }
        let is_comment = relative.ends_with(".md") || is_example || line.len() < comment.len();
        in_code && is_comment && OPERATIONS.iter().any(|call| line.contains(call))
    });
    if shows {
        found.push(relative);
    }
}

const OPERATIONS: [&str; 7] = [
    "evener.encrypt(",
    "evener.decrypt(",
    "evener.verify(",
    "evener.process",
    "build()?.encrypt(",
    "encryption.verify(",
    "evener_verify_path(",
];

#[test]
fn messages_and_an_engine() {
    let said = run("messages", &[], b"").stdout;
    assert!(String::from_utf8(said).unwrap().contains("1000 messages"));
    let said = run("own_engine", &[], b"").stdout;
    assert!(String::from_utf8(said).unwrap().contains("two-at-a-time: "));
    let said = run("one_message", &[], b"").stdout;
    let nanoseconds: f64 = String::from_utf8(said).unwrap().trim().parse().unwrap();
    assert!(nanoseconds > 0.0);
}
