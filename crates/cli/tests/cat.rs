//! `evener cat`.

mod common;

use std::fs;
use std::io::Read;
use std::process::Stdio;

use common::{Ended, Fixture, RECIPIENT, has};

/// A fixture with `tree` encrypted to `keyed`, `wrapped` and `aged`.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fs::write(fixture.path("tree/deep/long"), long()).unwrap();
    let age = ["--format", "age", "-r", RECIPIENT];
    for (how, target) in
        [(&["-k", "my.key"][..], "keyed"), (&["-r", RECIPIENT], "wrapped"), (&age, "aged")]
    {
        fixture.expect(0, &[&["encrypt", "-q"], how, &["tree", target]].concat());
    }
    fixture
}

/// More than a segment of any format has, and no two chunks alike.
fn long() -> Vec<u8> {
    (0..300_000_u32).flat_map(u32::to_le_bytes).collect()
}

/// The options that open each tree, and the suffix of its files.
const TREES: [(&str, [&str; 2], &str); 3] = [
    ("keyed", ["-k", "my.key"], ".enc"),
    ("wrapped", ["-i", "identity"], ".enc"),
    ("aged", ["-i", "identity"], ".age"),
];

fn cat(fixture: &Fixture, status: i32, opening: [&str; 2], more: &[&str]) -> Ended {
    fixture.expect(status, &[&["cat"], &opening[..], more].concat())
}

#[test]
fn files_are_printed_in_the_order_given() {
    let fixture = fixture();
    for (tree, opening, suffix) in TREES {
        let long = long();
        let one = format!("{tree}/one{suffix}");
        let two = format!("{tree}/deep/two{suffix}");
        let printed = cat(&fixture, 0, opening, &[&one]);
        assert_eq!((&*printed.output, &*printed.messages), (&b"the first file"[..], ""), "{tree}");
        let printed = cat(&fixture, 0, opening, &[tree, "deep/long", "./one", "/one"]);
        assert!(printed.output == [&long[..], b"the first file", b"the first file"].concat());
        if tree != "wrapped" {
            let printed = cat(&fixture, 0, opening, &[&two, &one]);
            assert!(printed.output == [&[7; 300_000][..], b"the first file"].concat());
        }
        let line = format!("cat {one} | $evener cat {} - ", opening.join(" "));
        let printed = fixture.shell(&line);
        assert_eq!(printed.status.unwrap() == 0, tree != "wrapped", "{}", printed.messages);
    }
    // With another suffix, and from what was sent through a pipe.
    let sealed = ["encrypt", "-q", "-k", "my.key", "--suffix", ".x", "tree", "other"];
    fixture.expect(0, &sealed);
    let printed = cat(&fixture, 0, ["-k", "my.key"], &["--suffix", ".x", "other", "one"]);
    assert_eq!(printed.output, b"the first file");
    let pipe = format!("$evener encrypt -q -r {RECIPIENT} - - < tree/one > piped");
    assert_eq!(fixture.shell(&pipe).status, Some(0));
    assert_eq!(cat(&fixture, 0, ["-i", "identity"], &["piped"]).output, b"the first file");
}

#[test]
fn a_part_of_a_file_is_read_alone() {
    let fixture = fixture();
    for (tree, opening, suffix) in TREES {
        let long = long();
        let file = format!("{tree}/deep/long{suffix}");
        let part = |offset: &str, count: &str| {
            let range = ["--offset", offset, "--count", count, tree, "deep/long"];
            cat(&fixture, 0, opening, &range).output
        };
        assert!(part("0", "10") == long[..10]);
        assert!(part("65530", "300K") == long[65_530..][..300 << 10]);
        assert!(part("1199990", "99") == long[1_199_990..]);
        assert!(part("1200000", "1").is_empty() && part("1T", "1").is_empty());
        assert!(part("7", "0").is_empty());
        let printed = cat(&fixture, 0, opening, &["--offset", "1M", tree, "deep/long"]);
        assert!(printed.output == long[1 << 20..]);
        let printed = cat(&fixture, 0, opening, &["--count", "5", tree, "deep/long"]);
        assert!(printed.output == long[..5]);

        // A file that was cut gives out nothing, and one that was changed nothing of that chunk.
        let mut sealed = fs::read(fixture.path(&file)).unwrap();
        sealed[700_000] ^= 1;
        fs::write(fixture.path(&file), &sealed).unwrap();
        assert!(part("0", "10") == long[..10]);
        let range = ["--offset", "500000", tree, "deep/long"];
        let ended = cat(&fixture, 1, opening, &range);
        assert!(ended.messages.contains("authentication failed"), "{}", ended.messages);
        assert!(long[500_000..].starts_with(&ended.output) && ended.output.len() < 200_000);
        fs::write(fixture.path(&file), &sealed[..700_000]).unwrap();
        let ended = cat(&fixture, 1, opening, &["--count", "10", tree, "deep/long"]);
        assert!(ended.output.is_empty() && ended.messages.contains("cut short"), "{ended:?}");
    }
    let mine = ["-k", "my.key"];
    for (more, told) in [
        (&["--offset", "1", "keyed", "one", "one"][..], "are for one file"),
        (&["--count", "1", "-"], "only be read from their beginning"),
        (&["--count", "-1", "keyed", "one"], "not a size"),
        (&["--offset", "x", "keyed", "one"], "not a size"),
    ] {
        let ended = cat(&fixture, 2, mine, more);
        assert!(ended.messages.contains(told), "{more:?}: {}", ended.messages);
    }
    fixture.expect(0, &["keygen", "-o", "other.key"]);
    cat(&fixture, 2, ["-k", "other.key"], &["--count", "1", "keyed", "one"]);
    assert_eq!(
        fixture.shell("$evener cat -k my.key --count 3 keyed one > /dev/full").status,
        Some(1)
    );
}

#[test]
fn a_wrong_name_is_refused_before_anything_is_printed() {
    let fixture = fixture();
    std::os::unix::fs::symlink("one.enc", fixture.path("keyed/link")).unwrap();
    for (more, told) in [
        (&["keyed", "one", "two"][..], "keyed/two: nothing of this name was found in the source\n"),
        (&["keyed", "one.enc"], "before, without `.enc`\n"),
        (&["keyed", "one", "deep"], "keyed/deep: is a directory; name the files in it\n"),
        (&["keyed", "link"], "keyed/link: is a symbolic link; name the file itself\n"),
        (&["keyed", "one", "../my.key"], "`..` has no place in a path below the source"),
        (&["keyed", ""], "it names the source itself\n"),
        (&["keyed"], "keyed is a tree; name files in it too: `evener cat keyed PATH...`\n"),
        (&["keyed/one.enc", "keyed"], "keyed is a tree; name it first, and then the files in it\n"),
        (&["keyed/one.enc", "none"], "none: can't open it: No such file or directory\n"),
        (&["aged", "one"], "aged/one: nothing of this name was found in the source\n"),
    ] {
        let ended = cat(&fixture, 2, ["-k", "my.key"], more);
        assert!(ended.messages.contains(told), "{more:?}: {}", ended.messages);
        assert!(ended.output.is_empty(), "{more:?}");
    }
    let ended = fixture.expect(2, &["cat", "keyed", "one"]);
    assert!(ended.messages.contains("no key: give --key"), "{}", ended.messages);
}

#[test]
fn nothing_follows_a_file_that_failed() {
    let fixture = fixture();
    for (tree, opening, suffix) in TREES {
        let file = fixture.path(tree).join(format!("deep/long{suffix}"));
        let mut sealed = fs::read(&file).unwrap();
        sealed[700_000] ^= 1;
        fs::write(&file, sealed).unwrap();
        let ended = cat(&fixture, 1, opening, &[tree, "one", "deep/long", "one"]);
        let told = format!("evener: {tree}/deep/long{suffix}: chunk ");
        assert!(ended.messages.starts_with(&told), "{}", ended.messages);
        let right = [b"the first file", &long()[..]].concat();
        assert!(right.starts_with(&ended.output) && ended.output.len() < 700_000, "{tree}");
    }
    fixture.expect(0, &["keygen", "-o", "other.key"]);
    let ended = cat(&fixture, 2, ["-k", "other.key"], &["keyed", "one"]);
    assert!(ended.output.is_empty() && ended.messages.contains("wrong key"), "{ended:?}");
    assert_eq!(fixture.shell("$evener cat -k my.key keyed one > /dev/full").status, Some(1));
}

#[test]
fn a_reader_that_has_enough_ends_it_quietly() {
    let fixture = fixture();
    for more in [&[][..], &["--offset", "0"]] {
        let mut arguments = [&["cat", "-k", "my.key"], more, &["keyed", "deep/long"]].concat();
        arguments.extend(["deep/long"; 3].iter().filter(|_| more.is_empty()));
        let mut command = fixture.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), None, "{more:?}: a signal ends it, as it does `cat`");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{more:?}");
    }
}

#[test]
fn a_terminal_gets_only_text() {
    if !has("python3") {
        evener_core::skipped!("there is no python3 for a terminal");
        return;
    }
    let fixture = fixture();
    for more in ["", "--count 100"] {
        let shown = |more: &str, name: &str| {
            let line = format!("$evener cat -k my.key {more} keyed {name}");
            let ended = fixture.at_terminal("no prompt", "", &line);
            (ended.status, String::from_utf8_lossy(&ended.output).into_owned())
        };
        assert_eq!(shown(more, "one"), (Some(0), "the first file".to_owned()));
        let (status, told) = shown(more, "deep/two");
        assert_eq!(status, Some(1), "{told}");
        assert!(told.contains("would garble the terminal"), "{told}");
        assert_eq!(shown(&format!("--force {more}"), "deep/two").0, Some(0));
    }
}
