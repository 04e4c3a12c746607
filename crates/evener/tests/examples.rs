//! The examples run, and do what they say.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::{env, fs};

/// Runs an example, which cargo has built beside this test, with arguments and standard input.
fn run(name: &str, arguments: &[&str], input: &[u8]) -> Output {
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
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    output
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
}

#[test]
fn a_pipe() {
    let home = tempfile::tempdir().unwrap();
    let key = home.path().join("my.key").into_os_string().into_string().unwrap();
    let sealed = run("pipe", &["encrypt", &key], b"from a pipe").stdout;
    assert_eq!(sealed.len(), 56 + 11 + 16);
    assert_eq!(run("pipe", &["decrypt", &key], &sealed).stdout, b"from a pipe");
}

#[test]
fn messages_and_an_engine() {
    let said = run("messages", &[], b"").stdout;
    assert!(String::from_utf8(said).unwrap().contains("1000 messages"));
    let said = run("own_engine", &[], b"").stdout;
    assert!(String::from_utf8(said).unwrap().contains("two-at-a-time: "));
}
