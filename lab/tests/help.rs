//! Help, suggestions, the manual and completions, as a user meets them.

use std::path::Path;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evener-lab")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn help_is_asked_for_in_two_ways() {
    for path in [&["bench", "tree"][..], &["speed"], &["man"], &[]] {
        let named = run(&[&["help"], path].concat());
        let asked = run(&[path, &["--help"]].concat());
        assert!(
            named.status.success() && text(&named.stdout).contains("\nExamples:\n"),
            "{path:?}"
        );
        assert_eq!(named.stdout, asked.stdout, "{path:?}");
    }
}

#[test]
fn near_misses_are_answered_with_what_was_meant() {
    for (typed, meant) in [
        (&["bensh"][..], "'bench'"),
        (&["speed", "--engine", "lane"], "mean `lanes`?"),
        (&["speed", "aes-128-gc"], "'aes-128-gcm'"),
        (&["simulate", "machine.json", "--policy", "round-robi"], "'round-robin'"),
        (&["man", "bench-tre"], "'bench-tree'"),
    ] {
        let ended = run(typed);
        let messages = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{typed:?}: {messages}");
        assert!(messages.contains(meant), "{typed:?}: {messages}");
        assert!(messages.starts_with("evener-lab: "), "{typed:?}: {messages}");
    }
}

#[test]
fn every_line_of_an_error_of_a_benchmark_has_the_prefix() {
    let options = ["--processes", "1", "--rounds", "1", "--engine", "opnssl"];
    let ended = run(&[&["bench", "processes"], &options[..]].concat());
    let messages = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{messages}");
    assert!(messages.contains("mean `openssl`?"), "{messages}");
    assert!(messages.lines().all(|line| line.starts_with("evener-lab: ")), "{messages}");
}

#[test]
fn the_manual_has_examples() {
    for name in ["speed", "bench-tree", "chart"] {
        let page = text(&run(&["man", name]).stdout);
        assert!(page.contains("\n.SH EXAMPLES\n"), "{name}: {page}");
    }
    let whole = text(&run(&["man"]).stdout);
    assert!(whole.contains(".SH \"EXIT STATUS\"\n"), "{whole}");
}

#[test]
fn the_shell_completes_names() {
    if !Path::new("/bin/bash").exists() {
        evener_core::lacking!("completions: there is no bash");
        return;
    }
    for (words, begun, name) in [
        ("evener-lab bench policies --policy", "round", "round-robin"),
        ("evener-lab bench policies --module", "mod", "model"),
        ("evener-lab speed --engine", "lan", "lanes"),
        ("evener-lab man", "bench-t", "bench-tree"),
    ] {
        let line = format!(
            "source <(\"$0\" completions bash)
            COMP_WORDS=({words} {begun}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            _evener_lab evener-lab {begun} \"${{COMP_WORDS[COMP_CWORD - 1]}}\"
            printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let program = env!("CARGO_BIN_EXE_evener-lab");
        let ended = Command::new("bash").args(["-c", &line, program]).output().unwrap();
        let offered = text(&ended.stdout);
        let messages = text(&ended.stderr);
        assert!(offered.lines().any(|word| word == name), "{words} {begun}: {offered}{messages}");
    }
}

#[test]
fn a_profile_is_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let drawing = directory.path().join("costs.svg");
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/reference/am3358-profile-aes128.json");
    let ended = run(&["chart", profile, "-o", drawing.to_str().unwrap()]);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert!(std::fs::read_to_string(drawing).unwrap().starts_with("<svg "));
    let ended = run(&["chart", "absent.json", "-o", "costs.svg"]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(text(&ended.stderr).starts_with("evener-lab: can't read absent.json: "));
}
