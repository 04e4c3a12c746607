//! Tests files of keys, identities and recipients as editors, other systems and mail programs leave
//! them: each is read, or refused with the cause as text.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use evener_keys::age::{Identity, Recipient};
use evener_keys::{KeyError, KeyFormat, KeyMaterial, NoUnlock, age, load};

/// A change to a text.
type Change = fn(&str) -> Vec<u8>;

/// Changes that leave every text readable.
const HARMLESS: [(&str, Change); 7] = [
    ("a byte-order mark", |text| format!("\u{feff}{text}").into_bytes()),
    ("CRLF", |text| text.replace('\n', "\r\n").into_bytes()),
    ("lone carriage returns", |text| text.replace('\n', "\r").into_bytes()),
    ("blanks around", |text| text.replace('\n', " \t\n  ").into_bytes()),
    ("empty lines around", |text| format!("\n\r\n{text}\n\n").into_bytes()),
    ("no last newline", |text| text.trim_end().into()),
    ("all of that", |text| {
        format!("\u{feff}\r\n {}\r\n\r\n", text.replace('\n', " \r\n ")).into_bytes()
    }),
];

/// Changes that make every text unreadable, and a word of the cause.
const HARMFUL: [(&str, Change, &str); 3] = [
    ("UTF-16", |text| utf_16(text, u16::to_le_bytes), "UTF-16"),
    ("UTF-16, big endian", |text| utf_16(text, u16::to_be_bytes), "UTF-16"),
    ("a zero byte at the end", |text| format!("{text}\0").into_bytes(), "zero byte"),
];

fn utf_16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    format!("\u{feff}{text}").encode_utf16().flat_map(bytes).collect()
}

/// Breaks the longest line.
fn wrapped(text: &str) -> Vec<u8> {
    let longest = text.lines().max_by_key(|line| line.len()).unwrap();
    let (first, second) = longest.split_at(longest.len() - 9);
    text.replace(longest, &format!("{first}\n{second}")).into_bytes()
}

/// The result of reading a wrapped text.
#[derive(Clone, Copy)]
enum Wrapped {
    Read,
    Refused(&'static str),
}

/// Reads a text after each change.
fn check<T: PartialEq + std::fmt::Debug>(
    kind: &str,
    text: &str,
    when_wrapped: Wrapped,
    read: impl Fn(&Path) -> Result<T, KeyError>,
) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    let read = |contents: &[u8]| {
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        read(&path).map_err(|error| error.to_string())
    };
    let plain = read(text.as_bytes()).unwrap();
    let mut harmless = HARMLESS.to_vec();
    let refused = |what: &str, contents: &[u8], cause: &str| {
        let words = read(contents).unwrap_err();
        assert!(words.contains(cause), "{kind}, {what}: {words}");
        let quoted = &text.trim_end()[text.trim_end().len() - 8..];
        assert!(!words.contains('\n') && !words.contains(quoted), "{words}");
    };
    match when_wrapped {
        Wrapped::Read => harmless.push(("wrapped", wrapped)),
        Wrapped::Refused(cause) => refused("wrapped", &wrapped(text), cause),
    }
    for (what, change) in harmless {
        assert_eq!(read(&change(text)).as_ref(), Ok(&plain), "{kind}, {what}");
    }
    for (what, change, cause) in HARMFUL {
        refused(what, &change(text), cause);
    }
}

fn text_of_key(path: &Path) -> Result<String, KeyError> {
    load(path, &NoUnlock).map(|key| key.to_text().to_string())
}

#[test]
fn key_files_are_read_or_the_cause_is_named() {
    for &format in KeyFormat::ALL {
        let key = KeyMaterial::generate(format).unwrap().to_text();
        check(format.name(), &key, Wrapped::Read, text_of_key);
    }
}

#[test]
fn recipients_are_read_or_the_cause_is_named() {
    let recipients = [Identity::generate(), Identity::generate()]
        .map(|identity| identity.recipient().unwrap().to_string());
    let read = |path: &Path| Recipient::read_file(path, &NoUnlock);
    for comment in ["the team", &"the whole team ".repeat(9)] {
        let text = format!("# {comment}\n{}\n\n{}\n", recipients[0], recipients[1]);
        check("recipients", &text, Wrapped::Refused("broken"), read);
    }
    let pasted: Recipient = format!(" {}\r\n", recipients[0]).parse().unwrap();
    assert_eq!(pasted.to_string(), recipients[0]);
}

/// A program's standard output; `None`, with a line that says so, if there is no such program.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(_) => {
            evener_core::lacking!("there is no program `{program}`");
            None
        }
    }
}

fn recipients_of(path: &Path) -> Result<Vec<Recipient>, KeyError> {
    let identities = Identity::read_file(path, &NoUnlock)?;
    Ok(identities.iter().filter_map(Identity::recipient).collect())
}

#[test]
fn identities_of_age_are_read_or_the_cause_is_named() {
    let Some(text) = output_of("age-keygen", &[]) else { return };
    check("an identity", &text, Wrapped::Refused("broken"), recipients_of);
}

#[test]
fn ssh_keys_are_read_or_the_cause_is_named() {
    let directory = tempfile::tempdir().unwrap();
    for (kind, options) in [("ed25519", &[][..]), ("rsa", &["-m", "PEM", "-b", "2048"])] {
        let path = directory.path().join(kind);
        let arguments = ["-q", "-t", kind, "-N", "", "-C", "ann", "-f", path.to_str().unwrap()];
        let Some(_) = output_of("ssh-keygen", &[&arguments, options].concat()) else { return };
        let text = fs::read_to_string(&path).unwrap();
        check(kind, &text, Wrapped::Read, recipients_of);
        let public = fs::read_to_string(path.with_extension("pub")).unwrap();
        let read = |path: &Path| Recipient::read_file(path, &NoUnlock);
        check(kind, &public, Wrapped::Refused("broken"), read);
    }
}

#[test]
fn armoured_keys_are_read_or_the_cause_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity::generate();
    let key = KeyMaterial::generate(KeyFormat::default()).unwrap().to_text();
    let path = directory.path().join("key");
    fs::write(&path, &*key).unwrap();
    let recipient = identity.recipient().unwrap().to_string();
    let arguments = ["-a", "-r", &recipient, path.to_str().unwrap()];
    let Some(text) = output_of("age", &arguments) else { return };
    let identities = vec![identity];
    let open = |path: &Path| load(path, &identities).map(|key| key.to_text().to_string());
    fs::write(&path, &text).unwrap();
    assert_eq!(open(&path).unwrap(), *key);
    for (what, change) in HARMLESS {
        let changed = change(&text);
        assert!(age::is_encrypted(&changed), "{what}");
        fs::write(&path, changed).unwrap();
        assert_eq!(open(&path).unwrap(), *key, "{what}");
    }
    let zero = format!("{text}\0").into_bytes();
    for (contents, cause) in [
        (wrapped(&text), "a line was wrapped or cut"),
        (zero, "ASCII armour"),
        (utf_16(&text, u16::to_le_bytes), "UTF-16"),
    ] {
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let words = open(&path).unwrap_err().to_string();
        assert!(words.contains(cause), "{words}");
    }
}

#[test]
fn what_is_none_of_these_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity::generate();
    let recipients = [identity.recipient().unwrap()];
    let path = directory.path().join("some.age");
    for content in [&b"a letter"[..], b"\0\x01\x02", b""] {
        fs::write(&path, age::wrap(content, &recipients).unwrap()).unwrap();
        let words = load(&path, &vec![identity.clone()]).unwrap_err().to_string();
        let is_named = words.contains("the age file holds no key") || content.is_empty();
        assert!(is_named && words.contains("some.age"), "{words}");
    }
    let words = Identity::read_file(&path, &NoUnlock).unwrap_err().to_string();
    assert!(words.contains("age encrypted it for a recipient"), "{words}");
}
