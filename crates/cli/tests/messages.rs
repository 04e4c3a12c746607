//! Errors name the path that is wrong, and suggest a remedy that works.

mod common;

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use common::{Fixture, RECIPIENT, has};

/// Runs `evener encrypt -k my.key` with these arguments and returns its message.
fn refused(fixture: &Fixture, arguments: &[&str]) -> String {
    let ended = fixture.run(&[&["encrypt", "-k", "my.key"], arguments].concat());
    assert_ne!(ended.status, Some(0), "{arguments:?}: {}", ended.messages);
    // Before the refusal, a dry run lists what could be done.
    let is_refusal = |line: &&str| !line.starts_with("evener: would encrypt ");
    ended.messages.lines().find(is_refusal).unwrap_or_default().to_owned()
}

/// In a log that several processes write to, lines stay whole.
#[test]
fn each_line_is_written_at_once() {
    let fixture = Fixture::new();
    // A datagram socket keeps the output of each call apart.
    let (log, ours) = UnixDatagram::pair().unwrap();
    let mut command = fixture.command(&["encrypt", "-v", "-k", "my.key", "tree", "sealed"]);
    assert!(command.stderr(OwnedFd::from(ours)).status().unwrap().success());
    log.set_nonblocking(true).unwrap();
    let (mut written, mut piece) = (Vec::new(), [0; 1 << 12]);
    while let Ok(length) = log.recv(&mut piece) {
        written.push(String::from_utf8(piece[..length].to_vec()).unwrap());
    }
    assert!(written.len() > 3, "{written:?}");
    for line in &written {
        assert!(line.ends_with('\n') && line.lines().count() == 1, "{written:?}");
    }
    assert!(
        written.iter().any(|line| line.starts_with("evener: encrypted 2 files")),
        "{written:?}"
    );
}

#[test]
fn what_is_no_directory_is_named() {
    let fixture = Fixture::new();
    fs::write(fixture.path("file"), "a file").unwrap();
    symlink("file", fixture.path("link")).unwrap();
    symlink("nowhere/at/all", fixture.path("dangling")).unwrap();
    for (target, expected) in [
        ("file/x", "evener: file/x: `file` is no directory but a file"),
        ("link/x", "evener: link/x: `link` is no directory but a file"),
        ("no/x", "evener: no/x: there is no directory `no`"),
        ("dangling/x", "evener: dangling/x: `dangling` is a symbolic link to what is not there"),
    ] {
        for source in ["tree", "tree/one", "-"] {
            assert_eq!(refused(&fixture, &[source, target]), expected, "{source}");
        }
    }
    assert_eq!(
        refused(&fixture, &["tree", "file"]),
        "evener: file: `file` is no directory but a file"
    );

    // An entry with the name of an output directory.
    let _ = fs::create_dir(fixture.path("sealed"));
    for (make, kind) in [(true, "a symbolic link"), (false, "a file")] {
        let there = fixture.path("sealed/deep");
        let _ = fs::remove_file(&there);
        match make {
            true => symlink("elsewhere", &there).unwrap(),
            false => fs::write(&there, "").unwrap(),
        }
        for dry in [&["-n"][..], &[]] {
            let told = refused(&fixture, &[dry, &["--overwrite", "tree", "sealed"]].concat());
            let expected = format!(
                "evener: tree/deep: its output directory `deep` is there already and is {kind}; \
                 remove that first"
            );
            assert_eq!(told, expected);
        }
    }
}

#[test]
fn options_are_named_only_where_they_help() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("sealed/one.enc")).unwrap();
    for source in ["tree", "tree/one"] {
        for option in ["-q", "--overwrite", "-n"] {
            let told = refused(&fixture, &[option, source, "sealed"]);
            let expected = "evener: tree/one: the output `one.enc` is a directory, which is not \
                            replaced by a file; remove it first";
            assert_eq!(told, expected, "{source} {option}");
            let _ = fs::remove_dir_all(fixture.path("sealed/deep"));
        }
    }
    let told = refused(&fixture, &["-", "sealed"]);
    assert_eq!(told, "evener: sealed: is a directory; name a file in it");
    fs::write(fixture.path("there"), "").unwrap();
    let told = refused(&fixture, &["-", "there"]);
    assert_eq!(told, "evener: there: the output `there` exists; --overwrite replaces it");
    let told = refused(&fixture, &["tree/one", "there"]);
    assert!(told.ends_with("; --overwrite replaces it, --resume skips what is complete"), "{told}");

    // A link is neither complete nor incomplete.
    symlink("one", fixture.path("tree/link")).unwrap();
    fs::create_dir(fixture.path("other")).unwrap();
    symlink("two", fixture.path("other/link")).unwrap();
    for option in ["-q", "--resume"] {
        let told = refused(&fixture, &[option, "tree", "other"]);
        let expected = "evener: tree/link: the output `link` exists; --overwrite replaces it";
        assert_eq!(told, expected);
        fixture.shell("rm -r other/one.enc other/deep");
    }
}

#[test]
fn names_that_leave_no_name_are_left_out() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "sealed"]);
    for name in [".enc", "..enc", "...enc"] {
        fs::copy(fixture.path("sealed/one.enc"), fixture.path("sealed").join(name)).unwrap();
    }
    let ended = fixture.expect(0, &["decrypt", "-k", "my.key", "sealed", "back"]);
    let told = "without `.enc` its name is none that a file can have; skipped";
    assert_eq!(ended.messages.matches(told).count(), 3, "{}", ended.messages);
    fixture.assert_same_tree("tree", "back");
    let ended = fixture.expect(2, &["decrypt", "-k", "my.key", "sealed/..enc", "back"]);
    assert!(ended.messages.contains(told), "{}", ended.messages);
    fixture.expect(0, &["decrypt", "-k", "my.key", "sealed/..enc", "back/named"]);
}

#[test]
fn data_that_ends_too_soon_is_said_to() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree/deep/two", "two.enc"]);
    for cut in [
        "head -c 200000 two.enc >cut; $evener decrypt -k my.key cut out",
        "head -c 200000 two.enc | $evener decrypt -k my.key - out",
        "head -c 200000 two.enc | $evener verify -k my.key -",
    ] {
        let ended = fixture.shell(cut);
        assert_eq!(ended.status, Some(1), "{cut}: {}", ended.messages);
        assert!(ended.messages.contains("cut short"), "{cut}: {}", ended.messages);
        // The header has shown that the key is right.
        assert!(!ended.messages.contains("key is wrong"), "{cut}: {}", ended.messages);
    }
    // This changes a chunk that others follow, not the end.
    let mut sealed = fs::read(fixture.path("two.enc")).unwrap();
    sealed[100] ^= 1;
    fs::write(fixture.path("changed"), sealed).unwrap();
    let ended = fixture.expect(1, &["verify", "-k", "my.key", "changed"]);
    assert!(ended.messages.contains("the data was changed or the key is wrong"), "{ended:?}");
}

#[test]
fn standard_output_has_its_name() {
    let fixture = Fixture::new();
    let ended = fixture.shell("cat tree/one | $evener encrypt -q -k my.key - - > /dev/full");
    let expected = "evener: -: can't write to standard output: No space left on device\n";
    assert_eq!((ended.status, &*ended.messages), (Some(1), expected));
    let ended = fixture.shell("$evener encrypt -q -k my.key - out < tree");
    let expected = "evener: -: can't read standard input: Is a directory\n";
    assert_eq!((ended.status, &*ended.messages), (Some(1), expected));
}

#[test]
fn a_file_without_recipients_is_said_to_have_none() {
    let fixture = Fixture::new();
    let ended = fixture.expect(2, &["encrypt", "-R", "/dev/null", "tree", "sealed"]);
    assert!(ended.messages.contains("the file holds no recipients"), "{}", ended.messages);
    assert!(!fixture.path("sealed").exists());
    // Recipients are no secret, so a pipe is as good as a file.
    let line = format!("echo {} | $evener encrypt -R /dev/stdin tree sealed", common::RECIPIENT);
    assert_eq!(fixture.shell(&line).status, Some(0));
    fixture.expect(0, &["verify", "-i", "identity", "sealed"]);
}

#[test]
fn a_gate_for_anothers_group_leaves_nothing_behind() {
    if !has("setpriv") || !rustix::process::geteuid().is_root() {
        evener_core::skipped!("only root can be another user, with setpriv");
        return;
    }
    const GROUP: &str = "54322";
    let fixture = Fixture::new();
    let program = fixture.path("evener");
    fs::hard_link(env!("CARGO_BIN_EXE_evener"), &program)
        .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_evener"), &program).map(drop))
        .unwrap();
    fs::set_permissions(fixture.path("."), fs::Permissions::from_mode(0o777)).unwrap();
    fixture.shell("chown 61234 my.key tree/one");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=61234", "--regid=61234", "--clear-groups", "./evener", "encrypt"]);
    command.args(["-k", "my.key", "--engine", "openssl", "--permits", "1", "--gate-group", GROUP]);
    command.args(["tree/one", "out"]).current_dir(fixture.path(".")).env("HOME", ".");
    let ended = common::Ended::of(&mut command);
    let told = format!("no gate for group {GROUP} can be made");
    assert!(ended.messages.contains(&told), "{}", ended.messages);
    assert!(!fs::exists(format!("/dev/shm/evener-group-{GROUP}")).unwrap());
}

#[test]
fn globs_that_match_nothing_are_told() {
    let fixture = Fixture::new();
    let encrypt = ["encrypt", "-k", "my.key"];
    let rest = ["--exclude", "./deep", "--exclude", "./none", "--include", "on*", "tree", "sealed"];
    let ended = fixture.expect(0, &[&encrypt[..], &rest].concat());
    let notice = "evener: tree: the glob to exclude, `./none`, matches nothing here\n";
    assert!(ended.messages.starts_with(notice), "{}", ended.messages);
    assert_eq!(ended.messages.matches("matches nothing").count(), 1, "{}", ended.messages);
    assert_eq!(fixture.names("sealed"), ["one.enc"]);
    let ended = fixture.expect(2, &[&encrypt[..], &["--exclude", "", "tree", "sealed"]].concat());
    assert_eq!(ended.messages, "evener: malformed glob ``: it is empty\n");
}

#[test]
fn nothing_done_is_told_of_what_links_lead_to() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("links")).unwrap();
    symlink("../tree", fixture.path("links/tree")).unwrap();
    symlink("../links", fixture.path("links/circle")).unwrap();
    // Links are not files.
    fixture.expect(0, &["verify", "-k", "my.key", "links"]);
    fs::remove_file(fixture.path("links/circle")).unwrap();
    let ended = fixture.expect(1, &["verify", "--follow-symlinks", "-k", "my.key", "links"]);
    assert!(ended.messages.contains("nothing was verified"), "{}", ended.messages);
}

#[test]
fn iterations_that_openssl_cannot_count_are_refused() {
    let fixture = Fixture::new();
    fixture.secret("passphrase", "correct horse\n");
    for number in ["2147483648", "4294967295", "4294967296", "0"] {
        for command in ["encrypt", "decrypt"] {
            let options = [command, "--format", "openssl", "--cipher", "aes-256-cbc"];
            let rest = ["--passphrase-file", "passphrase", "--iterations", number, "tree/one", "o"];
            let ended = fixture.expect(2, &[&options[..], &rest].concat());
            let bounds = "not a number from 1 to 2147483647";
            assert!(ended.messages.contains(bounds), "{}", ended.messages);
        }
    }
}

#[test]
fn a_profile_that_was_named_must_be_one() {
    let fixture = Fixture::new();
    fs::write(fixture.path("old"), r#"{"version": 1, "profiles": []}"#).unwrap();
    fs::write(fixture.path("torn"), "{").unwrap();
    let measure = ["--engine", "openssl", "--bytes", "16", "--time", "1", "--rounds", "1", "-o"];
    let measure = [&["engines", "--measure"], &measure[..]].concat();
    for _ in 0..2 {
        fixture.expect(0, &[&measure[..], &["whole"]].concat());
    }
    let key = fs::read(fixture.path("my.key")).unwrap();
    let ended = fixture.expect(2, &[&measure[..], &["my.key"]].concat());
    let told = "my.key: it is there already and is no profile; remove it, or name another file";
    assert!(ended.messages.contains(told), "{}", ended.messages);
    assert!(fs::read(fixture.path("my.key")).unwrap() == key);
    for (profile, why) in [
        ("none", "No such file or directory"),
        ("tree", "it is not a regular file"),
        ("torn", "EOF while parsing"),
        ("old", "measure the engines again"),
    ] {
        for policy in ["pull", "adaptive"] {
            let options = ["--policy", policy, "--profile", profile, "tree/one", "one.enc"];
            let ended = fixture.expect(2, &[&["encrypt", "-k", "my.key"], &options[..]].concat());
            let told = format!("evener: {profile}: can't read it: ");
            assert!(ended.messages.starts_with(&told), "{}", ended.messages);
            assert!(ended.messages.contains(why), "{}", ended.messages);
            assert!(!fixture.path("one.enc").exists());
        }
    }
    let options = ["--profile", "whole", "tree/one", "one.enc"];
    fixture.expect(0, &[&["encrypt", "-k", "my.key"], &options[..]].concat());
    // No option names the default profile.
    let line = "mkdir cache cache/evener; cp old cache/evener/profile.json; \
                XDG_CACHE_HOME=$PWD/cache $evener encrypt -k my.key --policy adaptive tree/one two";
    let ended = fixture.shell(line);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    assert!(ended.messages.contains("this profile of the engines is not used"));
    assert!(ended.messages.contains("measure the engines again"), "{}", ended.messages);
}

#[test]
fn a_name_that_only_a_directory_has_makes_no_file() {
    let fixture = Fixture::new();
    fs::write(fixture.path("file"), "a file").unwrap();
    let missing = "there is no such directory; make it first, or give the name of a file";
    let is_file = "it is a file, and the name is one of a directory";
    for (target, rest) in [("new/.", missing), ("file/", is_file)] {
        for dry in [&["-n"][..], &[], &["--overwrite"]] {
            let told = refused(&fixture, &[dry, &["tree/one", target]].concat());
            assert_eq!(told, format!("evener: {target}: {rest}"));
        }
    }
    for (target, rest) in
        [("new/", missing), ("new/.", missing), ("new//", missing), ("file/", is_file)]
    {
        let told = refused(&fixture, &["-", target]);
        assert!(told.contains(rest), "{told}");
        assert!(!fixture.path("new").exists());
    }
    assert_eq!(fs::read(fixture.path("file")).unwrap(), b"a file");
    fs::create_dir(fixture.path("there")).unwrap();
    for (source, target) in [("tree/one", "there/"), ("tree", "new/")] {
        fixture.expect(0, &["encrypt", "-q", "-k", "my.key", source, target]);
    }
    assert!(fixture.path("there/one.enc").is_file() && fixture.path("new/one.enc").is_file());
}

#[test]
fn what_is_no_regular_file_is_said_to_be_none() {
    let fixture = Fixture::new();
    fixture.shell("mkfifo pipe");
    for options in [["-k", "pipe"], ["-i", "pipe"], ["-k", "/dev/stdin"]] {
        let ended = fixture.run(&[&["encrypt"], &options[..], &["tree/one", "out"]].concat());
        let told = "it is a directory, a device or a named pipe; give a regular file, or a pipe as \
                    standard input";
        assert_eq!(ended.status, Some(2));
        assert!(ended.messages.contains(told), "{options:?}: {}", ended.messages);
    }
    for source in ["pipe", "/dev/null", "-"] {
        for json in [&[][..], &["--json"]] {
            let ended = fixture.expect(2, &[&["list"], json, &[source]].concat());
            let told = format!("evener: {source}: is a pipe or a device, and list shows files");
            assert!(ended.messages.starts_with(&told), "{}", ended.messages);
            assert_eq!(ended.output.is_empty(), json.is_empty());
        }
    }
}

#[test]
fn a_place_that_keeps_no_calibration_is_named() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("cache")).unwrap();
    fs::write(fixture.path("cache/evener"), "a file").unwrap();
    let ended = fixture.shell("XDG_CACHE_HOME=$PWD/cache $evener engines --calibrate");
    let told = "cache/evener: can't keep the calibration in it: File exists";
    assert_eq!(ended.status, Some(2));
    assert!(ended.messages.contains(told), "{}", ended.messages);
}

#[test]
fn a_key_for_another_format_is_wrong_usage() {
    let fixture = Fixture::new();
    fixture.expect(0, &["keygen", "--format", "tink", "-o", "tink.key"]);
    // One salt in 256 begins with the byte that such a stream begins with.
    loop {
        fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "--overwrite", "tree/one", "one.enc"]);
        if fs::read(fixture.path("one.enc")).unwrap()[0] != 40 {
            break;
        }
    }
    let told = fixture.expect(2, &["decrypt", "-k", "tink.key", "one.enc", "out"]).messages;
    let expected = "one.enc: not a file of the format tink: it does not begin as a Tink stream under \
                    this key does; give the key of its own format";
    assert!(told.contains(expected), "{told}");
    fixture.secret("passphrase", "correct horse\n");
    let options = "--format openssl --cipher aes256 --iterations 1 --passphrase-file passphrase";
    let options: Vec<_> = options.split(' ').collect();
    let told = fixture.expect(2, &[&["decrypt"], &options[..], &["one.enc", "out"]].concat());
    let expected = "not a file of the format openssl enc: it does not begin with `Salted__`";
    assert!(told.messages.contains(expected), "{}", told.messages);
    assert!(!fixture.path("out").exists());
}

#[test]
fn empty_names_and_directories_for_streams_are_refused() {
    let fixture = Fixture::new();
    for (ends, told) in [
        (["", "out"], "SRC is empty; name a file or a directory, or give - for a pipe"),
        (["tree", ""], "DST is empty; name a file or a directory, or give - for a pipe"),
    ] {
        assert_eq!(refused(&fixture, &ends), format!("evener: {told}"));
    }
    for target in ["tree", "tree/", "tree/.", "tree/deep/.."] {
        let told = refused(&fixture, &["-", target]);
        assert_eq!(told, format!("evener: {target}: is a directory; name a file in it"));
    }
}

#[test]
fn a_document_has_the_error_and_no_other_command_s_fields() {
    let fixture = Fixture::new();
    let report = ["operation", "failures"];
    let list = ["directories", "failures", "files", "left_out", "notices"];
    for (arguments, status, fields) in [
        (&["encrypt", "--json", "--no-such"][..], 2, &report[..]),
        (&["verify", "--json", "-k", "my.key", "no-such"], 2, &report),
        (&["list", "--json", "--no-such"], 2, &list[..]),
        (&["list", "--json", "no-such"], 2, &list),
        (&["engines", "--json", "--no-such"], 2, &["engines", "failures"]),
        (&["gate", "--json", "--group", "no such group"], 2, &["failures", "gates"]),
        (
            &["speed", "--json", "--engine", "pkcs11:token=no-such"],
            2,
            &["failures", "left_out", "rows"],
        ),
        (&["tls", "status", "--json", "no-such"], 2, &["failures", "processes"]),
        (&["--json"], 2, &["failures"]),
    ] {
        let ended = fixture.expect(status, arguments);
        let document = ended.document();
        let document = document.as_object().unwrap();
        let names = document.keys().map(String::as_str);
        match fields == report {
            true => assert_eq!(document["operation"], arguments[0]),
            false => assert!(names.eq(fields.iter().copied()), "{arguments:?}: {document:?}"),
        }
        let cause = document["failures"][0]["cause"].as_str().unwrap();
        // Standard error has the same words, in more lines or with the path before them.
        let first = cause.split(" [possible").next().unwrap();
        assert!(ended.messages.contains(first), "{arguments:?}: {cause}: {}", ended.messages);
    }
}

#[test]
fn options_of_measuring_are_refused_without_it() {
    let fixture = Fixture::new();
    let (engine, output) = (["--engine", "openssl"], ["-o", "profile"]);
    for what in ["--json", "--calibrate"] {
        for option in [&engine[..], &output, &["--bytes", "16"], &["--keep"]] {
            let ended = fixture.expect(2, &[&["engines", what], option].concat());
            assert!(ended.messages.contains("goes with --measure"), "{}", ended.messages);
        }
    }
    assert!(!fixture.path("profile").exists());
}

#[test]
fn a_profile_that_cant_be_written_leaves_the_one_that_is_there() {
    let fixture = Fixture::new();
    fs::write(fixture.path("profile"), "an old one").unwrap();
    let line = "ulimit -f 0; \"$evener\" engines --measure --engine openssl --bytes 16 --time 1 \
                --rounds 1 -o profile";
    assert_eq!(fixture.shell(line).status, Some(2));
    assert_eq!(fs::read_to_string(fixture.path("profile")).unwrap(), "an old one");
}

#[test]
fn an_option_that_could_do_nothing_is_refused() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "sealed"]);
    for (arguments, told) in [
        ("encrypt --include *.txt tree/one out", "--include chooses among the files of a tree"),
        ("encrypt --exclude one tree/one out", "--exclude chooses among the files of a tree"),
        ("encrypt --include a - out", "--include chooses among the files of a tree"),
        ("decrypt --exclude one sealed/one.enc out", "--exclude chooses among the files of a tree"),
        ("verify --include one sealed/one.enc", "--include chooses among the files of a tree"),
        ("list --include one sealed/one.enc", "--include chooses among the files of a tree"),
        ("encrypt --sparse tree out", "--sparse writes holes when decrypting"),
        ("encrypt --follow-symlinks tree/one out", "--follow-symlinks is for the links in a tree"),
        ("encrypt --suffix .x tree/one out", "--suffix is for the files of a tree"),
        ("decrypt --suffix .x sealed/one.enc out", "--suffix is for the files of a tree"),
        ("verify --suffix .x sealed/one.enc", "--suffix is for the files of a tree"),
        ("list --suffix .x sealed/one.enc", "--suffix is for the files of a tree"),
        ("encrypt --durable tree/one -", "--durable syncs files"),
        ("decrypt --force sealed out", "--force shows plaintext on a terminal"),
        ("encrypt --delete tree out", "--delete is a part of --update"),
        ("encrypt --ignore-ctime tree out", "--ignore-ctime says how --update finds"),
        ("encrypt --yes tree out", "--yes answers the question of --delete"),
        ("encrypt --skip-changing - out", "--skip-changing skips files that change"),
        ("encrypt --overwrite tree/one -", "--overwrite replaces files"),
    ] {
        let (command, rest) = arguments.split_once(' ').unwrap();
        let rest: Vec<_> = rest.split(' ').collect();
        let ended = fixture.expect(2, &[&[command, "-k", "my.key"], &rest[..]].concat());
        let told = format!("evener: {told}");
        assert!(ended.messages.starts_with(&told), "{arguments}: {}", ended.messages);
        assert!(!fixture.path("out").exists(), "{arguments}");
    }
    // In a directory, Evener names the file.
    let suffix = ["-k", "my.key", "--suffix", ".x"];
    fixture.expect(0, &[&["encrypt"], &suffix[..], &["tree/one", "new/"]].concat());
    assert!(fixture.path("new/one.x").exists());
    fixture.expect(0, &[&["decrypt"], &suffix[..], &["new/one.x", "new/"]].concat());
    assert!(fixture.path("new/one").exists());
    // A file beside a tree is always taken.
    let several = ["--exclude", "*", "tree", "my.key", "both/"];
    let ended = fixture.run(&[&["encrypt", "--key", "my.key"], &several[..]].concat());
    assert!(!ended.messages.contains("chooses among"), "{}", ended.messages);
}

#[test]
fn an_engine_for_which_no_worker_is_left_is_named() {
    let fixture = Fixture::new();
    // The cipher is one that `lanes` has on every processor.
    fixture.secret("passphrase", "open sesame");
    let format = ["--format", "openssl", "--cipher", "aes-128-ctr", "--iterations", "1"];
    let engines = ["--engine", "openssl", "--engine", "lanes", "tree"];
    for (jobs, output, is_told) in [("1", "one", true), ("2", "two", false)] {
        let options = ["encrypt", "--passphrase-file", "passphrase", "-j", jobs];
        let ended = fixture.expect(0, &[&options[..], &format, &engines, &[output]].concat());
        let told = "warning: engine lanes is left out: --jobs allows fewer workers than";
        assert_eq!(ended.messages.contains(told), is_told, "{jobs}: {}", ended.messages);
    }
}

#[test]
fn a_tree_of_which_nothing_is_taken_leaves_no_directory() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "sealed"]);
    for (command, source) in [("encrypt", "tree"), ("decrypt", "sealed")] {
        let options = ["-k", "my.key", "--include", "absent", source, "out"];
        let ended = fixture.expect(1, &[&[command], &options[..]].concat());
        assert!(ended.messages.contains("--include"), "{}", ended.messages);
        assert!(!fixture.path("out").exists(), "{command}");
        fs::create_dir(fixture.path("out")).unwrap();
        fixture.expect(1, &[&[command], &options[..]].concat());
        fs::remove_dir_all(fixture.path("out")).expect("one that was there stays");
    }
}

#[test]
fn a_document_names_the_key_that_is_wrong() {
    let fixture = Fixture::new();
    for (option, path) in [("-k", "absent"), ("-i", "absent"), ("-k", "tree/one")] {
        let ended = fixture.expect(2, &["encrypt", "--json", option, path, "tree", "out"]);
        let failures = ended.document()["failures"].clone();
        assert_eq!(failures[0]["path"], path, "{failures}");
    }
}

#[test]
fn a_word_that_is_not_text_is_named() {
    let fixture = Fixture::new();
    let ended = fixture.shell(r#"$evener encrypt -k my.key --include "$(printf '\377')" tree out"#);
    assert_eq!(ended.status, Some(2));
    let told = "evener: \"\\xff\" is not UTF-8; only the names of files may be something else\n";
    assert_eq!(ended.messages, told);
}

#[test]
fn a_file_of_another_kind_is_told_by_its_beginning() {
    let fixture = Fixture::new();
    fixture.secret("words", "open sesame");
    let made = fixture.shell(
        "$evener encrypt -q --passphrase-file words tree/one - > pipe && \
         $evener encrypt -q --format openssl --cipher aes256 --passphrase-file words tree/one enc && \
         $evener encrypt -q --format openssl --cipher aes256 --passphrase-file words --base64 tree/one b64",
    );
    assert_eq!(made.status, Some(0), "{}", made.messages);
    for (name, told) in [
        ("pipe", "it begins with a wrapped key (-i or --passphrase opens it)"),
        ("enc", "it begins as files of `openssl enc` do (--format openssl)"),
        ("b64", "it begins as base64 of `openssl enc` does (--format openssl --base64)"),
    ] {
        let ended = fixture.run(&["decrypt", "-k", "my.key", name, "out"]);
        assert!([Some(1), Some(2)].contains(&ended.status));
        assert!(ended.messages.contains(told), "{name}: {}", ended.messages);
    }
    fixture.expect(0, &["decrypt", "-q", "--passphrase-file", "words", "pipe", "out"]);
    // An option that is there already is no advice.
    let cut = fs::read(fixture.path("enc")).unwrap();
    fs::write(fixture.path("cut"), &cut[..cut.len() - 1]).unwrap();
    let options = "decrypt --format openssl --cipher aes256 --iterations 1 --passphrase-file words";
    for (name, told) in
        [("b64", Some("it begins as base64 of `openssl enc` does (--base64)")), ("cut", None)]
    {
        let arguments: Vec<_> = options.split(' ').chain([name, "out2"]).collect();
        let messages = fixture.run(&arguments).messages;
        assert!(told.is_none_or(|told| messages.contains(told)), "{name}: {messages}");
        assert!(!messages.contains("--format openssl"), "{name}: {messages}");
        assert!(messages.contains(name), "{messages}");
    }
}

#[test]
fn mistakes_are_told_in_plain_words() {
    let fixture = Fixture::new();
    fixture
        .shell("cp tree/one plain; echo '{\"a\": 1}' > profile; echo 1 > one.enc; chmod 644 plain");
    fs::write(fixture.path("id.pub"), RECIPIENT).unwrap();
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "sealed"]);
    let encrypt = ["encrypt", "-k", "my.key", "tree", "out"];
    let decrypt = ["decrypt", "-k", "my.key"];
    for (status, command, options, told) in [
        (1, &decrypt[..], &["one.enc", "out"][..], "or was never encrypted"),
        (2, &["decrypt", "-i", "id.pub"], &["sealed", "out"], "this is a public key"),
        (2, &encrypt, &["--max-cpu", "x"], "not a whole number"),
        (2, &encrypt, &["--max-cpu", "-1"], "-1 is not from 1 to 100"),
        (2, &encrypt, &["--verify-engine", "x"], "not a whole number"),
        (2, &encrypt, &["--memory", "-1"], "not a size such as"),
        (2, &encrypt, &["--jobs", "-1"], "not a number from 1"),
        (2, &encrypt, &["--profile", "profile"], "it holds no profile"),
        (
            1,
            &decrypt,
            &["--only", "*", "sealed", "out"],
            "--only takes no patterns: --include does",
        ),
        (2, &decrypt, &["--only", "deep/../deep", "sealed", "out"], "write the path without it"),
    ] {
        let ended = fixture.expect(status, &[command, options].concat());
        assert!(ended.messages.contains(told), "{options:?}: {}", ended.messages);
        let _ = fs::remove_dir_all(fixture.path("out"));
    }
    fixture.shell("touch -d 2001-02-03T04:05:06Z tree/one");
    let ended = fixture.expect(1, &["encrypt", "--resume", "-k", "my.key", "tree", "sealed"]);
    assert!(ended.messages.contains("its source on 2001-02-03 04:05:06.000000000 (UTC)"));

    let ended = fixture.expect(0, &[&encrypt[..], &["-v", "--json-progress"]].concat());
    let is_known = |line: &str| line.starts_with("evener:") || line.starts_with('{');
    assert!(ended.messages.lines().all(is_known), "{}", ended.messages);
}

#[test]
fn a_file_system_without_names_is_not_said_to_be_full() {
    let fixture = Fixture::new();
    let mount = "mkdir -p full && mount -t tmpfs -o nr_inodes=1 none full";
    if fixture.shell(&format!("unshare -rm sh -c '{mount}'")).status != Some(0) {
        evener_core::skipped!("a file system without inodes: none can be mounted here");
        return;
    }
    let encrypt = "$evener encrypt -k my.key tree/one full/one";
    let ended = fixture.shell(&format!("unshare -rm sh -c '{mount} && {encrypt}'"));
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(ended.messages.contains("(or no names: `df -i` shows"), "{ended:?}");
}
