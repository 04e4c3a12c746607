//! Passphrases: their sources, what they open, and how they are written.

mod common;

use std::fs;
use std::io::Write;

use age::secrecy::SecretString;
use common::{Ended, Fixture, IDENTITY, has};

fn run(fixture: &Fixture, status: i32, line: &str) -> Ended {
    let ended = fixture.shell(line);
    assert_eq!(ended.status, Some(status), "{line}: {}", ended.messages);
    ended
}

/// Encrypts text as age does with a passphrase, with so few rounds that trying one takes no time.
fn locked(text: &[u8], passphrase: &str) -> Vec<u8> {
    let mut recipient = age::scrypt::Recipient::new(SecretString::from(passphrase));
    recipient.set_work_factor(2);
    let recipients = std::iter::once(&recipient as &dyn age::Recipient);
    let mut sealed = Vec::new();
    let encryptor = age::Encryptor::with_recipients(recipients).unwrap();
    let mut writer = encryptor.wrap_output(&mut sealed).unwrap();
    writer.write_all(text).unwrap();
    writer.finish().unwrap();
    sealed
}

/// A fixture with a `passphrase` and what it opens: the key `locked.key`, the tree `locked-tree`
/// with that key in it, the pipe `piped` with it at its head, an SSH key `id` and the file of
/// identities `locked-identity`, each with a tree and a key of its own, and `enc` of `openssl enc`.
fn fixture() -> Option<Fixture> {
    if !has("ssh-keygen") || !has("python3") {
        evener_core::lacking!("there is no ssh-keygen (openssh-client), or no python3");
        return None;
    }
    let fixture = Fixture::new();
    fixture.secret("passphrase", "open sesame\n");
    let key = fs::read(fixture.path("my.key")).unwrap();
    let locked_key = locked(&key, "open sesame");
    fs::write(fixture.path("locked.key"), &locked_key).unwrap();
    run(&fixture, 0, "$evener encrypt -q -k my.key tree locked-tree");
    fs::write(fixture.path("locked-tree/evener-key.age"), &locked_key).unwrap();
    run(&fixture, 0, "$evener encrypt -q -k my.key - rest < tree/one");
    let head = format!("evener-pipe:v1:{}\n", locked_key.len());
    let rest = fs::read(fixture.path("rest")).unwrap();
    fs::write(fixture.path("piped"), [head.as_bytes(), &locked_key, &rest].concat()).unwrap();
    run(&fixture, 0, "ssh-keygen -q -t ed25519 -a 1 -N 'open sesame' -C ann -f id");
    run(&fixture, 0, "$evener encrypt -q -r \"$(cat id.pub)\" tree ssh-tree");
    let text = format!("# an identity\n{IDENTITY}\n");
    fs::write(fixture.path("locked-identity"), locked(text.as_bytes(), "open sesame")).unwrap();
    run(&fixture, 0, &format!("$evener encrypt -q -r {} tree age-tree", common::RECIPIENT));
    let openssl = "--passphrase-file passphrase --iterations 10";
    run(&fixture, 0, &format!("$evener encrypt -q {OPENSSL} {openssl} tree/one enc"));
    Some(fixture)
}

const OPENSSL: &str = "--format openssl --cipher aes-256-cbc";

#[test]
fn every_source_of_a_passphrase_serves_every_secret() {
    let Some(fixture) = fixture() else { return };
    let openssl = format!("verify {OPENSSL} --iterations 10 enc");
    let secrets = [
        "verify -k locked.key locked-tree",
        "verify --key-command 'cat locked.key' locked-tree",
        "encrypt -k locked.key tree out",
        "verify locked-tree",
        "list locked-tree",
        "verify piped",
        "verify - < piped",
        "verify -i id ssh-tree",
        "verify -k ssh-tree/evener-key.age -i id ssh-tree",
        "decrypt -i id ssh-tree out",
        "list -i id ssh-tree",
        "encrypt --update -i id tree ssh-tree",
        "encrypt --update -r \"$(cat id.pub)\" -i id tree ssh-tree",
        "verify -i locked-identity age-tree",
        "encrypt --update -i locked-identity tree age-tree",
        // Several files with the same passphrase.
        "verify -i id -i locked-identity age-tree",
        "verify -k locked.key -i id locked-tree",
        &openssl,
    ];
    for secret in secrets {
        let (command, rest) = secret.split_once(' ').unwrap();
        let line = |source: &str| format!("rm -rf out; $evener {command} {source} {rest}");
        run(&fixture, 0, &line("--passphrase-file passphrase"));
        // A pipe is read only once.
        let piped = line("--passphrase-fd 3 3<&0 </dev/null");
        run(&fixture, 0, &format!("cat passphrase | {{ {piped}; }}"));
        let typed = fixture.at_terminal("Passphrase for ", "open sesame", &line("--passphrase"));
        let shown = String::from_utf8_lossy(&typed.output).into_owned();
        assert_eq!(typed.status, Some(0), "{secret}: {shown}");
        assert!(!shown.contains("sesame"), "{shown}");
    }
}

#[test]
fn a_passphrase_that_opens_an_identity_wraps_no_key() {
    let Some(fixture) = fixture() else { return };
    let options = "--passphrase-file passphrase -i id";
    let told = run(&fixture, 2, &format!("$evener encrypt {options} tree new"));
    assert!(told.messages.contains("give --recipient for a fresh one"), "{}", told.messages);
    // A passphrase that opens nothing is refused as before.
    let told =
        run(&fixture, 2, "$evener verify -k my.key --passphrase-file passphrase locked-tree");
    assert!(told.messages.contains("not both"), "{}", told.messages);
    // A wrong passphrase is named, and the program asks for no other.
    fixture.secret("other", "open barley\n");
    for (identity, tree) in [("id", "ssh-tree"), ("locked-identity", "age-tree")] {
        let line = format!("$evener verify --passphrase-file other -i {identity} {tree}");
        let told = run(&fixture, 2, &line);
        let expected = format!("evener: the passphrase does not open `{identity}`; ");
        assert!(told.messages.starts_with(&expected), "{}", told.messages);
        let told = run(&fixture, 2, &format!("setsid -w $evener verify -i {identity} {tree}"));
        assert!(told.messages.contains("--passphrase-file"), "{}", told.messages);
        let line = format!("setsid -w $evener verify --passphrase -i {identity} {tree}");
        let told = run(&fixture, 2, &line);
        assert!(told.messages.contains("the terminal: there is none to ask"), "{}", told.messages);
    }
}

/// Ways in which an editor or system may have written `open sesame`.
const ODD: [(&str, &str); 5] = [
    ("\u{feff}open sesame\n", "a byte-order mark at its beginning"),
    ("open sesame\r\n", "the carriage return of CRLF at its end"),
    ("open sesame\r", "the carriage return of CRLF at its end"),
    (" open sesame \n", "blanks around it"),
    ("open sesame\nnot this\n", "further lines after it"),
];

#[test]
fn an_odd_passphrase_file_opens_with_and_without_what_is_odd() {
    let Some(fixture) = fixture() else { return };
    let key = fs::read(fixture.path("my.key")).unwrap();
    for (text, _) in ODD {
        fixture.secret("odd", text);
        let verify = "$evener verify --passphrase-file odd";
        run(&fixture, 0, &format!("{verify} locked-tree"));
        run(&fixture, 0, &format!("{verify} -i id ssh-tree"));
        run(&fixture, 0, &format!("{verify} -i locked-identity age-tree"));
        // Earlier versions took the whole line.
        let line = text.split('\n').next().unwrap();
        fs::write(fixture.path("old.key"), locked(&key, line)).unwrap();
        run(&fixture, 0, &format!("{verify} -k old.key locked-tree"));
    }
}

#[test]
fn a_new_key_has_the_passphrase_that_a_person_types() {
    let Some(fixture) = fixture() else { return };
    // Each new key takes a second, so one file has all oddities.
    fixture.secret("all", "\u{feff} open sesame \r\nnot this\n");
    let made = run(&fixture, 0, "$evener keygen --passphrase-file all -o new.key");
    for (_, oddity) in ODD {
        let warning = format!("evener: warning: the passphrase from `all` has {oddity} (");
        assert!(made.messages.contains(&warning), "{oddity}: {}", made.messages);
    }
    assert_eq!(made.messages.lines().count(), 4, "{}", made.messages);
    run(&fixture, 0, "$evener encrypt -q -k new.key --passphrase-file passphrase tree/one one");
}

#[test]
fn openssl_has_its_own_rule() {
    let Some(fixture) = fixture() else { return };
    if !has("openssl") {
        evener_core::lacking!("there is no program `openssl`");
        return;
    }
    let ours = format!("{OPENSSL} --passphrase-file odd --iterations 10");
    let theirs = "openssl enc -aes-256-cbc -pbkdf2 -iter 10 -pass file:odd";
    for (text, oddity) in ODD {
        fixture.secret("odd", text);
        let told = run(&fixture, 0, &format!("$evener encrypt --overwrite {ours} tree/one a"));
        let warning = format!("evener: warning: the passphrase from `odd` has {oddity} (");
        assert!(told.messages.contains(&warning), "{}", told.messages);
        run(&fixture, 0, &format!("{theirs} -d -in a | cmp - tree/one"));
        let line =
            format!("{theirs} -in tree/one | $evener decrypt -q {ours} - - | cmp - tree/one");
        run(&fixture, 0, &line);
    }
    // The file was made before oddities were warned of.
    let old = b"Salted__\x23\xe8\x18\x32\xbf\x06\x3a\x03\x09\x63\x63\x8b";
    fs::write(fixture.path("old"), old).unwrap();
    fixture.secret("odd", "\u{feff} correct horse \t\r\n");
    let line = "$evener decrypt -q --format openssl --cipher aes-128-ctr --iterations 10";
    let text = run(&fixture, 0, &format!("{line} --passphrase-file odd old -"));
    assert_eq!(text.output, b"text");
}

#[test]
fn what_is_no_passphrase_is_refused_in_one_sentence() {
    let Some(fixture) = fixture() else { return };
    for (bytes, words) in [
        (&b"caf\xE9\n"[..], "it is not UTF-8"),
        (b"\xFF\xFEo\0p\0\n\0", "it is text in UTF-16; convert it to UTF-8"),
        (b"\xFE\xFF\0o\0p\0\n", "it is text in UTF-16; convert it to UTF-8"),
        (b"open sesame\0\n", "it holds a zero byte"),
        (b"\nopen sesame\n", "its first line is empty"),
    ] {
        fixture.secret("none", "");
        fs::write(fixture.path("none"), bytes).unwrap();
        for arguments in [
            &["keygen", "-o", "new.key"][..],
            &["verify", "locked-tree"],
            &["verify", "-i", "id", "ssh-tree"],
        ] {
            let all = [arguments, &["--passphrase-file", "none"]].concat();
            let told = fixture.expect(2, &all).messages;
            let expected = format!("evener: can't use the passphrase from `none`: {words}");
            assert!(told.starts_with(&expected) && told.lines().count() == 1, "{told}");
        }
    }
    assert!(!fixture.path("new.key").exists());
    // OpenSSL takes any bytes except these.
    fs::write(fixture.path("none"), b"caf\xE9\n").unwrap();
    let options = format!("{OPENSSL} --iterations 10 --passphrase-file none");
    run(&fixture, 0, &format!("$evener encrypt -q {options} tree/one latin"));
}
