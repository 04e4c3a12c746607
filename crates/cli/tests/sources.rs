//! Several sources, and directories that are made for them.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use common::{Fixture, RECIPIENT};

#[test]
fn a_slash_makes_a_directory() {
    let fixture = Fixture::new();
    for target in ["new/", "newer//"] {
        let planned = fixture.expect(0, &["encrypt", "-n", "-k", "my.key", "tree/one", target]);
        let listed = "evener: would encrypt tree/one\nevener: would encrypt 1 file, 14 B\n";
        assert_eq!(planned.messages, listed);
        assert!(!fixture.path(target).exists());
        fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree/one", target]);
        assert_eq!(fixture.names(target), ["one.enc"]);
    }
    let ended = fixture.expect(2, &["encrypt", "-k", "my.key", "tree/one", "no/new/"]);
    assert_eq!(ended.messages, "evener: no/new/: can't make it: No such file or directory\n");
    let planned = fixture.expect(2, &["encrypt", "-n", "-k", "my.key", "tree/one", "no/new/"]);
    assert_eq!(planned.messages, ended.messages);
    // A wrapped key is beside the file.
    fixture.expect(0, &["encrypt", "-q", "-r", RECIPIENT, "tree/one", "sealed/"]);
    assert_eq!(fixture.names("sealed"), ["one.enc", "one.enc.evener-key.age"]);
    fixture.expect(0, &["decrypt", "-q", "-i", "identity", "sealed/one.enc", "back/"]);
    assert_eq!(fs::read(fixture.path("back/one")).unwrap(), b"the first file");
    // If nothing was done, nothing was made.
    fs::write(fixture.path("broken.enc"), "not encrypted").unwrap();
    fixture.expect(1, &["decrypt", "-q", "-k", "my.key", "broken.enc", "nothing/"]);
    assert!(!fixture.path("nothing").exists());
}

#[test]
fn several_sources_go_to_one_directory_under_their_names() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("other")).unwrap();
    fs::write(fixture.path("other/three"), "3").unwrap();
    let sources = ["tree", "other/", "tree/one"];
    let encrypt = |dry: &[&str], target| {
        let head = [&["encrypt", "--json"], dry, &["-k", "my.key"]].concat();
        fixture.expect(0, &[&head[..], &sources[..], &[target]].concat()).document()
    };
    let planned = encrypt(&["-n"], "all/");
    assert!(!fixture.path("all").exists());
    let done = encrypt(&[], "all/");
    for document in [&planned, &done] {
        assert_eq!((&document["files"], &document["directories"]), (&4.into(), &3.into()));
        assert_eq!(document["operation"], "encrypt");
        assert_eq!(document["cipher"], "aes-256-gcm");
    }
    assert_eq!(fixture.names("all"), ["one.enc", "other", "tree"]);
    let mode = fs::metadata(fixture.path("all")).unwrap().permissions().mode() & 0o700;
    assert_eq!(mode, 0o700);
    // Options may stand anywhere.
    fixture.expect(0, &["encrypt", "tree", "-k", "my.key", "other", "-q", "mixed/"]);
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "-q", "single"]);
    assert_eq!(fixture.names("mixed"), ["other", "tree"]);
    assert_eq!(fixture.names("single"), ["deep", "one.enc"]);
    // An existing directory needs no slash if the line can't be read in another way.
    fs::create_dir(fixture.path("there")).unwrap();
    encrypt(&[], "there");
    assert_eq!(fixture.names("there"), fixture.names("all"));

    let sealed = ["all/tree", "all/other", "all/one.enc", "back/"];
    let ended = fixture.expect(0, &[&["decrypt", "-k", "my.key"], &sealed[..]].concat());
    assert!(ended.messages.contains("decrypted 4 files"), "{}", ended.messages);
    fixture.assert_same_tree("tree", "back/tree");
    fixture.assert_same_tree("other", "back/other");
    assert_eq!(fs::read(fixture.path("back/one")).unwrap(), b"the first file");
}

#[test]
fn several_sources_have_one_wrapped_key() {
    let fixture = Fixture::new();
    fs::write(fixture.path("note"), "a note").unwrap();
    fixture.expect(0, &["encrypt", "-q", "-r", RECIPIENT, "tree", "note", "all/"]);
    assert_eq!(fixture.names("all"), ["evener-key.age", "note.enc", "tree"]);
    fixture.expect(0, &["verify", "-q", "-i", "identity", "all"]);
    fixture.expect(0, &["decrypt", "-q", "-i", "identity", "all", "back"]);
    fixture.assert_same_tree("tree", "back/tree");
    // The key is among the names if a shell lists them.
    fixture.expect(0, &["encrypt", "-q", "-r", RECIPIENT, "tree/one", "note", "flat/"]);
    let ended = fixture.shell("$evener decrypt -i identity flat/* files/");
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    assert_eq!(fixture.names("files"), ["note", "one"]);
}

#[test]
fn what_is_not_clear_is_refused_before_anything_is_written() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("more/deep")).unwrap();
    fs::write(fixture.path("more/one"), "another").unwrap();
    fs::write(fixture.path("deep"), "a file").unwrap();
    fs::write(fixture.path("file"), "a file").unwrap();
    fs::create_dir_all(fixture.path("there")).unwrap();
    let two = "another source has this name";
    let clear =
        "write `there/`; to decrypt only there of tree into more, write `tree more --only there`";
    for (arguments, told) in [
        (
            &["encrypt", "tree"][..],
            "tree is alone, and both SRC and DST are needed: write `evener encrypt SRC",
        ),
        (&["encrypt", "tree/one", "more/one", "all/"], two),
        (&["encrypt", "tree/one", "tree/one", "all/"], two),
        // Decrypting `all` would find both.
        (&["encrypt", "deep", "tree/deep", "all/"], two),
        (&["encrypt", "tree", "more", "all"], "write `all/` to have it made"),
        (&["encrypt", "tree", "more", "file"], "and this is none"),
        (&["encrypt", "tree", "more", "file/"], "and this is none"),
        (&["encrypt", "tree", "more", "-"], "several sources go to a directory, not to a pipe"),
        (&["encrypt", "tree", "-", "all/"], "a pipe has no name to keep"),
        (&["encrypt", "tree", "..", "all/"], "has no name that it could keep"),
        (&["encrypt", "tree", "none", "all/"], "none: can't open it"),
        (&["encrypt", "more", "tree", "tree/all/"], "lies inside the source `tree`"),
        (&["decrypt", "tree", "more", "there"], clear),
        (&["decrypt", "tree", "more", "--only", "one", "all/"], "--only chooses a part of a tree"),
        (&["decrypt", "deep", "--only", "one", "all"], "--only chooses a part of a tree"),
        (
            &["decrypt", "tree", "--only", "../one", "all"],
            "`..` has no place in a path below the source",
        ),
    ] {
        let ended = fixture.expect(2, &[arguments, &["-k", "my.key"]].concat());
        assert!(ended.messages.contains(told), "{arguments:?}: {}", ended.messages);
        assert!(!fixture.path("all").exists() && !fixture.path("tree/all").exists());
        assert_eq!(fixture.names("there"), Vec::<String>::new());
    }
}

#[test]
fn one_source_that_fails_does_not_stop_the_others() {
    let fixture = Fixture::new();
    for name in ["one", "two"] {
        fs::write(fixture.path(name), name).unwrap();
        fixture.expect(0, &["encrypt", "-q", "-k", "my.key", name, "sealed/"]);
    }
    fs::write(fixture.path("sealed/broken.enc"), "not encrypted").unwrap();
    fs::write(fixture.path("sealed/readme"), "not encrypted").unwrap();
    let sealed = ["sealed/one.enc", "sealed/broken.enc", "sealed/readme", "sealed/two.enc"];
    let arguments = [&["decrypt", "--json", "-k", "my.key"], &sealed[..], &["back/"]].concat();
    let document = fixture.expect(1, &arguments).document();
    assert_eq!(document["files"], 2);
    assert_eq!(document["failures"][0]["path"], "sealed/broken.enc");
    assert_eq!(document["failures"][1]["path"], "sealed/readme");
    assert_eq!(fixture.names("back"), ["one", "two"]);
}

#[test]
fn a_link_in_the_shared_directory_leads_nothing_elsewhere() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("more")).unwrap();
    fs::write(fixture.path("more/three"), "3").unwrap();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "more", "elsewhere"]);
    fs::set_permissions(fixture.path("elsewhere"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::create_dir(fixture.path("store")).unwrap();
    symlink("../elsewhere", fixture.path("store/tree")).unwrap();
    for options in [&[][..], &["-n"], &["--overwrite"], &["--update", "--delete", "--yes"]] {
        let arguments = [&["encrypt", "-k", "my.key"], options, &["tree", "more", "store/"]];
        let ended = fixture.expect(1, &arguments.concat());
        assert!(ended.messages.contains("store/tree"), "{}", ended.messages);
        assert!(ended.messages.contains("is a symbolic link"), "{}", ended.messages);
        assert_eq!(fixture.names("elsewhere"), ["three.enc"]);
        let _ = fs::remove_dir_all(fixture.path("store/more"));
    }
    // The same holds for files that were restored into one before.
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "sealed"]);
    fs::create_dir(fixture.path("back")).unwrap();
    symlink("../elsewhere", fixture.path("back/sealed")).unwrap();
    let decrypt = ["decrypt", "-k", "my.key", "--overwrite", "sealed", "elsewhere", "back/"];
    let ended = fixture.expect(1, &decrypt);
    assert!(ended.messages.contains("is a symbolic link"), "{}", ended.messages);
    assert_eq!(fixture.names("elsewhere"), ["three.enc"]);
    assert_eq!(fixture.names("back/elsewhere"), ["three"]);
    // The directory that the user named may be a link.
    symlink("store", fixture.path("named")).unwrap();
    fs::remove_file(fixture.path("store/tree")).unwrap();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "more", "named/"]);
    assert_eq!(fixture.names("store"), ["more", "tree"]);
}

#[test]
fn no_output_replaces_a_source_of_the_run() {
    let fixture = Fixture::new();
    let made = fixture.shell(
        "mkdir -p w/m T/sub d/T/sub out && cd w && echo one >a && echo precious >a.enc && \
         echo two >b && ln a.enc m/hard && ln -s a.enc soft && cd .. && \
         echo new >T/sub/x && echo precious >d/T/sub/x.enc && echo plain >z && \
         for i in 1 2; do $evener encrypt -qk my.key --overwrite z out/z.enc; done && \
         $evener encrypt -qk my.key out/z.enc z.enc.enc",
    );
    assert_eq!(made.status, Some(0), "{}", made.messages);
    let replaced = "would replace a source of this run";
    let around = "so an output could replace a source";
    for (line, told) in [
        ("encrypt a a.enc ./", replaced),
        ("encrypt a.enc a ./", replaced),
        ("encrypt a ../w/./a.enc ../w", replaced),
        ("encrypt a soft ./", replaced),
        ("encrypt a m/hard ./", replaced),
        ("encrypt --remove-source a* ./", replaced),
        ("encrypt ../T ../d/T/sub ../d/", around),
        ("encrypt --remove-source ../d/T/sub ../T ../d/", around),
        ("encrypt ../T ../d/T/sub/x.enc ../d/", around),
        ("decrypt ../z.enc.enc ../out/z.enc ../out/", replaced),
    ] {
        for how in ["", "--overwrite", "--resume", "--update", "--overwrite -n", "--update -n"] {
            if how.starts_with("--update") && line.contains("remove-source") {
                continue;
            }
            let (operation, rest) = line.split_once(' ').unwrap();
            let line = format!("cd w && $evener {operation} -k ../my.key {how} {rest}");
            let ended = fixture.shell(&line);
            assert_eq!(ended.status, Some(2), "{line}: {}", ended.messages);
            assert!(ended.messages.contains(told), "{line}: {}", ended.messages);
        }
    }
    assert_eq!(fixture.names("w"), ["a", "a.enc", "b", "m", "soft"]);
    assert_eq!(fixture.names("out"), ["z.enc"]);
    for kept in ["w/a.enc", "d/T/sub/x.enc"] {
        assert_eq!(fs::read_to_string(fixture.path(kept)).unwrap(), "precious\n");
    }
    // A tree's output can have the place of a source that lies elsewhere too.
    let line = "ln d/T/sub/x.enc hard && $evener encrypt -k my.key --overwrite T hard d/";
    let ended = fixture.shell(line);
    assert_eq!(ended.status, Some(1), "{}", ended.messages);
    assert!(ended.messages.contains(replaced), "{}", ended.messages);
    assert_eq!(fs::read_to_string(fixture.path("d/T/sub/x.enc")).unwrap(), "precious\n");
    // Other files are replaced as ever.
    fixture.expect(0, &["encrypt", "-qk", "my.key", "w/a", "w/b", "all/"]);
    fixture.expect(0, &["encrypt", "-qk", "my.key", "--overwrite", "w/a", "w/b", "all/"]);
}
