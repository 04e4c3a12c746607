//! Names, keys and trees that an attacker has planted.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;

use common::{Fixture, PROVIDER, RECIPIENT};

#[test]
fn no_name_steers_the_terminal() {
    let fixture = Fixture::new();
    let names: [&[u8]; 5] =
        [b"a\x1b[2Jb", b"new\nline", b"\xff\xfe", "c\u{202e}txt.exe".as_bytes(), b"\xc2\x9b31m"];
    fs::create_dir(fixture.path("odd")).unwrap();
    for name in names {
        fs::write(fixture.path("odd").join(OsStr::from_bytes(name)), "content").unwrap();
        let link = [name, b"-link"].concat();
        symlink("nowhere", fixture.path("odd").join(OsStr::from_bytes(&link))).unwrap();
    }
    fixture.expect(0, &["encrypt", "-k", "my.key", "odd", "sealed"]);
    let mut said = Vec::new();
    // Existing outputs, different outputs, a wrong name, and damage.
    said.push(fixture.expect(1, &["encrypt", "-k", "my.key", "odd", "sealed"]));
    for name in names {
        let sealed = [name, b".enc"].concat();
        fs::write(fixture.path("sealed").join(OsStr::from_bytes(&sealed)), "damaged").unwrap();
    }
    said.push(fixture.expect(1, &["encrypt", "--resume", "-k", "my.key", "odd", "sealed"]));
    said.push(fixture.expect(1, &["verify", "-k", "my.key", "sealed"]));
    said.push(fixture.expect(1, &["verify", "-k", "my.key", "odd"]));
    let list = fixture.expect(0, &["list", "sealed"]);
    assert!(list.output.windows(7).any(|text| text == b"\\u{1b}["), "{list:?}");
    said.push(list);
    for ended in said {
        for text in [&ended.messages, &String::from_utf8(ended.output).unwrap()] {
            let steers =
                |c: char| c.is_control() && c != '\n' || c == '\u{202e}' || c == '\u{fffd}';
            assert!(!text.contains(steers), "{text:?}");
            // Each file has a line: a name can't begin a line of its own.
            assert!(!text.lines().any(|line| line.starts_with("line")), "{text:?}");
        }
    }
}

/// Names are shown to people through `shown` alone.
#[test]
fn no_source_shows_a_name_in_another_way() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for name in [
        "core", "seal", "place", "object", "evener", "cli", "pipeline", "engines", "gpu", "gate",
        "../lab",
    ] {
        look_through(&crates.join(name).join("src"), &mut found);
    }
    assert!(found.is_empty(), "use `evener_core::shown`:\n{}", found.join("\n"));
}

/// Text in these files contains no names, only words of devices, programs and the kernel.
const TEXTS: [&str; 15] = [
    // JSON, which gives a name's bytes as well.
    "cli/src/progress/lines.rs",
    "cli/src/commands/tls/config.rs",
    "cli/src/commands/tls/counters.rs",
    "cli/src/program/completions.rs",
    "gpu/src/device.rs",
    "engines/src/pkcs11/probe.rs",
    "lab/src/machine.rs",
    "lab/src/messages/ipsec/",
    "lab/src/module/device.rs",
    "lab/src/processes/report.rs",
    "lab/src/speed/masked.rs",
    "lab/src/speed/sys.rs",
    "lab/src/threads/build.rs",
    "lab/src/tls/",
    "lab/src/tree/contender/",
];

fn look_through(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("tests") || path.ends_with("tests.rs") {
            continue;
        }
        if path.is_dir() {
            look_through(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let is_text = TEXTS.iter().any(|place| path.to_str().unwrap().contains(place));
            let lossy = ["to_string_lossy", "from_utf8_lossy"].iter().any(|way| line.contains(way));
            // The text that `thiserror` shows for a path by itself.
            let in_error = path.ends_with("error.rs") && line.contains("{path}");
            let is_other = line.contains(".display()") || in_error || lossy && !is_text;
            if is_other && !line.contains("serialize") {
                found.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
}

#[test]
fn the_key_is_no_source() {
    let fixture = Fixture::new();
    fixture.expect(0, &["keygen", "-o", "tree/own.key"]);
    fs::hard_link(fixture.path("tree/own.key"), fixture.path("tree/deep/alias")).unwrap();
    fs::copy(fixture.path("identity"), fixture.path("tree/identity")).unwrap();
    let ended = fixture.expect(
        0,
        &[
            "encrypt",
            "--remove-source",
            "-k",
            "tree/own.key",
            "-i",
            "tree/identity",
            "tree",
            "sealed",
        ],
    );
    assert_eq!(ended.messages.matches("left alone").count(), 3, "{}", ended.messages);
    assert_eq!(fixture.names("tree"), ["deep", "identity", "own.key"]);
    assert_eq!(fixture.names("tree/deep"), ["alias"]);
    fixture.expect(0, &["decrypt", "-k", "tree/own.key", "sealed", "back"]);
    assert_eq!(fixture.names("back"), ["deep", "one"]);
}

#[test]
fn the_key_is_no_source_nor_replaced_if_it_comes_through_a_descriptor() {
    for (keys, kept) in [
        ("-k - <tree/own", "own"),
        ("-k /dev/fd/3 3<tree/own", "own"),
        ("-r {RECIPIENT} -i - <tree/own", "own"),
        (
            "--format openssl --cipher aes-128-cbc --iterations 1 --passphrase-fd 3 3<tree/own",
            "own",
        ),
    ] {
        let fixture = Fixture::new();
        let keys = keys.replace("{RECIPIENT}", RECIPIENT);
        let secret = if keys.contains("-i") { "identity" } else { "my.key" };
        fs::copy(fixture.path(secret), fixture.path("tree/own")).unwrap();
        let line = format!("$evener encrypt --remove-source tree sealed {keys}");
        let ended = fixture.shell(&line);
        assert_eq!(ended.status, Some(0), "{keys}: {}", ended.messages);
        assert!(fixture.names("tree").contains(&kept.to_owned()), "{keys}");
        fixture.shell("cp tree/own before");
        let ended = fixture.shell(&format!("$evener encrypt --overwrite before tree/own {keys}"));
        assert_eq!(ended.status, Some(1), "{keys}: {}", ended.messages);
        assert_eq!(fixture.shell("cmp before tree/own").status, Some(0), "{keys}");
    }
}

#[test]
fn a_socket_is_called_one() {
    let fixture = Fixture::new();
    let _socket = std::os::unix::net::UnixListener::bind(fixture.path("socket")).unwrap();
    let ended = fixture.expect(2, &["encrypt", "-k", "my.key", "socket", "out"]);
    assert!(ended.messages.contains("socket: is a socket"), "{}", ended.messages);
}

#[test]
fn the_file_of_progress_is_no_source() {
    let fixture = Fixture::new();
    let line =
        "$evener encrypt -k my.key --remove-source --json-progress=tree/progress tree sealed";
    let ended = fixture.shell(line);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    assert!(fixture.names("tree").contains(&"progress".to_owned()));
    assert!(!fixture.names("sealed").contains(&"progress.enc".to_owned()));
    let end = fs::read_to_string(fixture.path("tree/progress")).unwrap();
    assert!(end.lines().last().unwrap().contains("\"end\""), "{end}");
}

#[test]
fn a_source_is_not_appended_to() {
    let fixture = Fixture::new();
    let before = fs::read(fixture.path("tree/one")).unwrap();
    for line in [
        "$evener encrypt -k my.key tree/one - >>tree/one",
        "$evener encrypt -k my.key - - <tree/one >>tree/one",
    ] {
        let ended = fixture.shell(line);
        assert_eq!(ended.status, Some(2), "{}", ended.messages);
        assert!(ended.messages.contains("is the source itself"), "{}", ended.messages);
        assert_eq!(fs::read(fixture.path("tree/one")).unwrap(), before);
    }
}

#[test]
fn links_are_not_followed_to_remove_what_they_lead_to() {
    let fixture = Fixture::new();
    symlink(fixture.path("my.key"), fixture.path("tree/link")).unwrap();
    let both = ["--follow-symlinks", "--remove-source"];
    let refused =
        fixture.expect(2, &["encrypt", both[0], both[1], "-k", "my.key", "tree", "sealed"]);
    assert!(refused.messages.contains("does not go with"), "{}", refused.messages);
    assert_eq!(fixture.names("tree"), ["deep", "link", "one"]);
}

#[test]
fn keys_are_sought_no_further_up_than_src() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "sealed"]);
    fixture.expect(0, &["verify", "-i", "identity", "sealed"]);
    fixture.expect(0, &["verify", "-i", "identity", "sealed/one.enc"]);
    let above = fixture.expect(2, &["verify", "-i", "identity", "sealed/deep"]);
    assert!(above.messages.contains("name the key with --key"), "{}", above.messages);
    let named = ["verify", "-i", "identity", "-k", "sealed/evener-key.age", "sealed/deep"];
    fixture.expect(0, &named);
}

#[test]
fn planted_keys_cost_little() {
    let fixture = Fixture::new();
    fixture.secret("right", "open sesame");
    fixture.secret("wrong", "something else");
    fixture.expect(0, &["encrypt", "--passphrase-file", "wrong", "tree", "sealed"]);
    let genuine = fs::read(fixture.path("sealed/evener-key.age")).unwrap();
    let plant = |number: usize, content: &[u8]| {
        fs::write(fixture.path(&format!("sealed/evener-key-{number}.age")), content).unwrap();
    };
    // Copies count once.
    (2..40).for_each(|number| plant(number, &genuine));
    let refused = fixture.expect(2, &["verify", "--passphrase-file", "right", "sealed"]);
    assert!(refused.messages.contains("does not open"), "{}", refused.messages);
    assert!(!refused.messages.contains("keys"), "{}", refused.messages);
    // A wrapped key that was changed opens nothing, and takes as long.
    let changed = |number: usize| {
        let mut content = genuine.clone();
        *content.last_mut().unwrap() ^= number as u8;
        content
    };
    (2..40).for_each(|number| plant(number, &changed(number)));
    let begun = std::time::Instant::now();
    let opened = fixture.expect(0, &["verify", "--passphrase-file", "wrong", "sealed"]);
    println!("{:?}", begun.elapsed());
    assert!(opened.messages.contains("was tried on 4 keys"), "{}", opened.messages);
}

#[test]
fn no_output_replaces_a_key() {
    let fixture = Fixture::new();
    fs::write(fixture.path("a"), "text").unwrap();
    fs::create_dir_all(fixture.path("home")).unwrap();
    fs::create_dir_all(fixture.path("other")).unwrap();
    fs::write(fixture.path("other/my"), "text").unwrap();
    fs::copy(fixture.path("my.key"), fixture.path("home/my.key")).unwrap();
    fixture.expect(0, &["encrypt", "-q", "-r", RECIPIENT, "tree", "sealed"]);
    let key = fs::read(fixture.path("my.key")).unwrap();
    let wrapped = fs::read(fixture.path("sealed/evener-key.age")).unwrap();
    let overwriting: [&[&str]; 6] = [
        &["encrypt", "-k", "my.key", "--overwrite", "a", "my.key"],
        &["encrypt", "-n", "-k", "my.key", "--overwrite", "a", "my.key"],
        &["encrypt", "-k", "my.key", "--overwrite", "/dev/null", "my.key"],
        &["encrypt", "-k", "home/my.key", "--suffix", ".key", "--overwrite", "other", "home"],
        &["encrypt", "-r", RECIPIENT, "-i", "identity", "--overwrite", "a", "identity"],
        &["decrypt", "-i", "identity", "--overwrite", "sealed/one.enc", "sealed/evener-key.age"],
    ];
    for arguments in overwriting {
        let ended = fixture.run(arguments);
        assert!(matches!(ended.status, Some(1 | 2)), "{arguments:?}: {ended:?}");
        assert!(ended.messages.contains("would replace a key"), "{arguments:?}: {ended:?}");
        assert_eq!(fs::read(fixture.path("my.key")).unwrap(), key, "{arguments:?}");
        assert_eq!(fs::read(fixture.path("home/my.key")).unwrap(), key, "{arguments:?}");
        assert_eq!(fs::read(fixture.path("sealed/evener-key.age")).unwrap(), wrapped);
        assert_eq!(fs::read_to_string(fixture.path("identity")).unwrap(), common::IDENTITY);
    }
}

#[test]
fn no_lines_go_where_a_stranger_leads_them() {
    let fixture = Fixture::new();
    if !rustix::process::geteuid().is_root() {
        evener_core::skipped!("only root can make links of other users");
        return;
    }
    let common = fixture.path("common");
    fs::create_dir(&common).unwrap();
    fs::set_permissions(&common, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(fixture.path("victim"), "").unwrap();
    symlink(fixture.path("victim"), common.join("link")).unwrap();
    fs::write(common.join("file"), "").unwrap();
    let mut owner = Some(12_345);
    for is_refused in [true, false] {
        for name in ["link", "file"] {
            lchown(common.join(name), owner, None).unwrap();
            let option = format!("--json-progress=common/{name}");
            let output = format!("out-{name}-{is_refused}");
            let ended = fixture.run(&["encrypt", "-k", "my.key", &option, "tree", &output]);
            let told = ended.messages.contains("which another user has put");
            assert_eq!((ended.status, told), (Some(2 * i32::from(is_refused)), is_refused));
        }
        assert_eq!(fs::read(fixture.path("victim")).unwrap().is_empty(), is_refused);
        owner = Some(0);
    }
}

#[test]
fn no_profile_goes_where_a_stranger_leads_it() {
    let fixture = Fixture::new();
    if !rustix::process::geteuid().is_root() {
        evener_core::skipped!("only root can make links of other users");
        return;
    }
    let measured = "engines --measure --engine openssl --bytes 16 --time 1 --rounds 1 -o";
    fixture.shell(&format!("$evener {measured} victim --machine precious"));
    fixture.shell("mkdir common; chmod 1777 common; cp victim common/file");
    fixture.shell("ln -s ../victim common/link; mkfifo -m 666 common/fifo");
    for is_refused in [true, false] {
        for name in ["link", "file", "fifo"] {
            let owner = if is_refused { 12_345 } else { 0 };
            lchown(fixture.path("common").join(name), Some(owner), None).unwrap();
            let ended = fixture.shell(&format!(
                "timeout 60 $evener {measured} common/{name} 5<>common/fifo >/dev/null"
            ));
            let told = ended.messages.contains("which another user has put");
            assert_eq!((ended.status, told), (Some(2 * i32::from(is_refused)), is_refused));
        }
        for name in ["victim", "common/file"] {
            let text = fs::read_to_string(fixture.path(name)).unwrap();
            assert_eq!(text.contains("precious"), is_refused, "{name}");
        }
    }
    lchown(fixture.path("common/link"), Some(12_345), None).unwrap();
    let made = fixture.expect(2, &["tls", "config", "--module", PROVIDER, "-o", "common/link"]);
    assert!(made.messages.contains("which another user has put"), "{}", made.messages);
}
