//! Help, examples, suggestions and completions, as a user sees them.

mod common;

use std::fs;

use common::{Fixture, RECIPIENT, has};

#[test]
fn examples_of_file_commands_work_as_they_stand() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.path("my.key")).unwrap();
    fs::rename(fixture.path("tree"), fixture.path("photos")).unwrap();
    fs::rename(fixture.path("identity"), fixture.path("identity.txt")).unwrap();
    fs::write(fixture.path("recipients.txt"), RECIPIENT).unwrap();
    fs::write(fixture.path("notes.txt"), "a note").unwrap();
    fs::create_dir(fixture.path("photos/2026")).unwrap();
    fs::write(fixture.path("photos/2026/beach.jpg"), "a beach").unwrap();
    let mut ran = 0;
    let commands = ["keygen", "encrypt", "verify", "cat", "list", "decrypt", "completions", "man"];
    for command in commands {
        for line in examples(&fixture, command) {
            // No user is there to type a passphrase, nothing to page, and there may be no module.
            let needs = ["--passphrase", "man -l", "~/", "--engine af_alg", "--engine cryptodev"];
            if needs.iter().any(|need| line.contains(need)) {
                continue;
            }
            let line = line.replace("<(evener completions bash)", "/dev/null");
            let ended = fixture.shell(&format!("evener() {{ \"$evener\" \"$@\"; }}; {line}"));
            let is_source = line.starts_with("source ");
            assert!(is_source || ended.status == Some(0), "{line}: {}", ended.messages);
            ran += 1;
        }
    }
    assert!(ran >= 12, "{ran} examples ran");
    fixture.assert_same_tree("photos", "restored");
    fixture.assert_same_tree("photos", "opened");
    fixture.assert_same_tree("photos/2026", "part/2026");
    assert_eq!(fs::read(fixture.path("copy.txt")).unwrap(), b"a note");
}

/// The lines under `Examples:` in the help of a command.
fn examples(fixture: &Fixture, command: &str) -> Vec<String> {
    let help = fixture.expect(0, &[command, "--help-all"]);
    let help = String::from_utf8(help.output).unwrap();
    let (_, examples) = help.split_once("\nExamples:\n").expect("a heading");
    let examples = examples.replace(" \\\n        ", " ");
    let lines = examples.lines().filter_map(|line| line.strip_prefix("    "));
    let lines: Vec<_> = lines.map(str::to_owned).collect();
    assert!(!lines.is_empty(), "{help}");
    lines
}

#[test]
fn help_is_asked_for_in_two_ways() {
    let fixture = Fixture::new();
    for path in [&["encrypt"][..], &["gate", "reset"], &["man"]] {
        let named = fixture.expect(0, &[&["help"], path].concat());
        let asked = fixture.expect(0, &[path, &["--help"]].concat());
        assert!(!named.output.is_empty());
        assert_eq!(named.output, asked.output, "{path:?}");
        assert_eq!(named.output, fixture.expect(0, &[path, &["-h"]].concat()).output, "{path:?}");
    }
    let plain = fixture.expect(0, &["help"]);
    assert_eq!(plain.output, fixture.expect(0, &["--help"]).output);
    let ended = fixture.expect(2, &["help", "encrpt"]);
    assert!(ended.messages.contains("'encrypt'"), "{}", ended.messages);
}

#[test]
fn near_misses_are_answered_with_what_was_meant() {
    let fixture = Fixture::new();
    for (typed, meant) in [
        (&["encrpt"][..], "'encrypt'"),
        (&["encrypt", "--resum", "tree", "out"], "similar argument exists: '--resume'"),
        (&["encrypt", "--policy", "adaptve", "tree", "out"], "'adaptive'"),
        (&["encrypt", "--gate", "fif", "tree", "out"], "'fifo'"),
        (&["encrypt", "--format", "openss", "tree", "out"], "'openssl'"),
        (&["encrypt", "--cipher", "aes-256-cb", "tree", "out"], "'aes-256-cbc'"),
        (&["encrypt", "-k", "my.key", "--engine", "opnssl", "tree", "out"], "mean `openssl`?"),
        (&["speed", "--engine", "lane"], "mean `lanes`?"),
        (&["engines", "--measure", "--cipher", "aes-128-gc"], "'aes-128-gcm'"),
        (&["man", "encryp"], "'encrypt'"),
    ] {
        let ended = fixture.expect(2, typed);
        assert!(ended.messages.contains(meant), "{typed:?}: {}", ended.messages);
        assert!(ended.messages.starts_with("evener: "), "{typed:?}: {}", ended.messages);
        assert!(!ended.messages.contains("error: "), "{typed:?}: {}", ended.messages);
    }
}

#[test]
fn benchmarks_are_in_another_program() {
    let fixture = Fixture::new();
    for command in ["bench", "simulate"] {
        fixture.expect(2, &[command]);
    }
    // The engine that models another machine's engine.
    let model = ["--engine", "model:machine.json#cpu"];
    let ended =
        fixture.expect(2, &[&["encrypt", "-k", "my.key"], &model[..], &["tree", "out"]].concat());
    assert!(ended.messages.contains("there is no engine of this name"), "{}", ended.messages);
}

#[test]
fn usage_errors_steer_no_terminal() {
    let fixture = Fixture::new();
    let ended = fixture.expect(2, &["encrypt", "--\u{1b}[31m"]);
    assert!(ended.messages.starts_with("evener: "), "{}", ended.messages);
    assert!(!ended.messages.contains('\u{1b}'), "{:?}", ended.messages);
}

#[test]
fn help_fits_on_a_screen() {
    let fixture = Fixture::new();
    for command in
        ["keygen", "encrypt", "decrypt", "verify", "cat", "list", "engines", "speed", "gate"]
    {
        let help = String::from_utf8(fixture.expect(0, &[command, "--help"]).output).unwrap();
        assert!(help.lines().count() <= 45, "{help}");
    }
}

#[test]
fn options_outside_short_help_are_accepted_and_explained() {
    let fixture = Fixture::new();
    let page = |option| String::from_utf8(fixture.expect(0, &["encrypt", option]).output).unwrap();
    assert!(!page("--help").contains("--permits <"));
    let all = page("--help-all");
    assert!(all.contains("--engine <") && all.contains("--permits <"), "{all}");
    assert!(all.contains("--engine cryptodev --permits 2"), "{all}");
    let options = ["--engine", "openssl", "--policy", "pull", "--gate", "none"];
    fixture.expect(0, &[&["encrypt", "-k", "my.key"], &options[..], &["tree", "out"]].concat());
}

#[test]
fn the_manual_has_headings_and_examples() {
    let fixture = Fixture::new();
    let page = |name| String::from_utf8(fixture.expect(0, &["man", name]).output).unwrap();
    let encrypt = page("encrypt");
    for heading in ["OPTIONS", "ENGINES", "POLICIES", "GATE", "EXAMPLES"] {
        assert!(encrypt.contains(&format!("\n.SH {heading}\n")), "{heading}: {encrypt}");
    }
    assert!(encrypt.contains("photos backup\n"), "{encrypt}");
    assert!(!encrypt.contains("\n\n.TP\n"), "an option has no text: {encrypt}");
    assert!(page("gate-reset").contains("\n.SH EXAMPLES\n"));
    let whole = String::from_utf8(fixture.expect(0, &["man"]).output).unwrap();
    assert!(whole.contains(".SH \"EXIT STATUS\"\n"), "{whole}");
}

#[test]
fn the_shell_completes_names() {
    if !has("bash") {
        evener_core::lacking!("completions: there is no bash");
        return;
    }
    let fixture = Fixture::new();
    for (words, begun, name) in [
        ("evener encrypt --cipher", "camellia-256-ct", "camellia-256-ctr"),
        ("evener encrypt --engine", "crypt", "cryptodev"),
        ("evener encrypt --policy", "adap", "adaptive"),
        ("evener encrypt --format", "cobblestone-1", "cobblestone-128"),
        ("evener encrypt --gate", "li", "lists"),
        ("evener keygen --format", "ti", "tink"),
        ("evener speed --engine", "lan", "lanes"),
        ("evener man", "gate-r", "gate-reset"),
    ] {
        let line = format!(
            "$evener completions bash > script && bash -c '
                . ./script
                COMP_WORDS=({words} {begun}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
                _evener evener {begun} \"${{COMP_WORDS[COMP_CWORD - 1]}}\"
                printf \"%s\\n\" \"${{COMPREPLY[@]}}\"'"
        );
        let ended = fixture.shell(&line);
        let offered = String::from_utf8(ended.output).unwrap();
        assert!(
            offered.lines().any(|word| word == name),
            "{words} {begun}: {offered}{}",
            ended.messages
        );
    }
}
