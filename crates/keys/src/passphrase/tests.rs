//! Tests what is a passphrase, for what exists and for what is new.

use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;

fn from_text(text: &[u8]) -> Result<Passphrase, KeyError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text).unwrap();
    Passphrase::from_file(file.path())
}

#[test]
fn the_first_line_counts() {
    assert_eq!(from_text(b"correct horse\nbattery\n").unwrap().bytes(), b"correct horse");
    // As `openssl -pass file:` reads it.
    assert_eq!(from_text(b" kept \r\n").unwrap().bytes(), b" kept \r");
    assert_eq!(from_text(b"no newline").unwrap().text(), Some("no newline"));
    let latin = from_text(b"caf\xE9\n").unwrap();
    assert_eq!((latin.bytes(), latin.text()), (b"caf\xE9".as_slice(), None));
    assert_eq!(from_text(&[b'x'; 1023]).unwrap().bytes().len(), 1023);
}

#[test]
fn what_openssl_would_cut_is_no_new_passphrase() {
    for text in [b"".as_slice(), b"\nsecond", &[b'x'; 1024], &[b'x'; 5000]] {
        let existing = from_text(text).unwrap();
        assert_eq!(existing.bytes(), text.split(|&byte| byte == b'\n').next().unwrap());
        for error in [existing.check_new().unwrap_err(), existing.for_new().unwrap_err()] {
            assert!(matches!(error, KeyError::Passphrase { .. }), "{error}");
        }
    }
    assert!(from_text(b"").unwrap().for_existing().is_err());
    assert!(from_text(&[b'x'; 1023]).unwrap().check_new().is_ok());
}

#[test]
fn what_no_passphrase_holds_is_refused() {
    for text in [b"a\0b".as_slice(), &[b'x'; Passphrase::MAX_LENGTH + 1]] {
        let error = from_text(text).unwrap_err();
        assert!(matches!(error, KeyError::Passphrase { .. }), "{error}");
    }
    assert!(Passphrase::new(b"two\nlines", "a test").is_err());
    assert!(Passphrase::new(b"", "a test").is_err());
    assert!(from_text(&[b'x'; Passphrase::MAX_LENGTH]).is_ok());
}

#[test]
fn what_nobody_types_is_left_out_of_a_new_passphrase_and_tried_on_an_old_one() {
    use Oddity::{Blanks, ByteOrderMark, CarriageReturn, FurtherLines};
    let cases: [(&str, &str, &[&str], &[Oddity]); 11] = [
        ("plain\n", "plain", &["plain"], &[]),
        ("plain", "plain", &["plain"], &[]),
        ("plain\n\n \r\n", "plain", &["plain"], &[]),
        ("two words\n", "two words", &["two words"], &[]),
        ("crlf\r\n", "crlf", &["crlf\r", "crlf"], &[CarriageReturn]),
        ("cr\r", "cr", &["cr\r", "cr"], &[CarriageReturn]),
        ("blank \n", "blank", &["blank ", "blank"], &[Blanks]),
        ("\tblank\u{a0}\n", "blank", &["\tblank\u{a0}", "blank"], &[Blanks]),
        ("\u{feff}mark\n", "mark", &["\u{feff}mark", "mark"], &[ByteOrderMark]),
        ("first\nsecond\n", "first", &["first"], &[FurtherLines]),
        (
            "\u{feff} all \r\nmore",
            "all",
            &["\u{feff} all \r", " all ", "all"],
            &[ByteOrderMark, CarriageReturn, Blanks, FurtherLines],
        ),
    ];
    for (text, new, existing, oddities) in cases {
        let passphrase = from_text(text.as_bytes()).unwrap();
        assert_eq!(passphrase.for_new().unwrap(), new, "{text:?}");
        assert_eq!(passphrase.for_existing().unwrap(), existing, "{text:?}");
        assert_eq!(passphrase.oddities(), oddities, "{text:?}");
    }
    // A passphrase that a user chose.
    let chosen = Passphrase::new(b" chosen ", "a test").unwrap();
    assert_eq!(chosen.for_new().unwrap(), " chosen ");
    assert_eq!(chosen.for_existing().unwrap(), [" chosen ", "chosen"]);
}

#[test]
fn what_makes_no_passphrase_is_named() {
    let of_new = |text: &[u8]| match from_text(text) {
        Ok(passphrase) => passphrase.for_new().unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    for (text, words) in [
        (b"\n\xEF\xBB\xBF".as_slice(), "its first line is empty"),
        (b" \t\n", "its first line is blank"),
        (b"\xEF\xBB\xBF\r\n", "its first line is blank"),
        (b"one\rtwo\r", "a carriage return within"),
        (b"caf\xE9\n", "it is not UTF-8"),
        (b"\xFF\xFEp\0\n\0", "it is text in UTF-16"),
        (b"\xFE\xFF\0p\0\n", "it is text in UTF-16"),
        (b"\xFF\xFE\x4e\x4e", "it is text in UTF-16"),
        (b"p\0a\0\n\0", "it holds a zero byte"),
        (b"pass\0\n", "it holds a zero byte"),
    ] {
        let message = of_new(text);
        assert!(message.contains(words), "{text:?}: {message}");
        assert!(message.starts_with("can't use the passphrase from `/"), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
    let old = from_text(b"one\rtwo\r").unwrap();
    assert_eq!(old.for_existing().unwrap(), ["one\rtwo\r", "one"]);
}

#[test]
fn a_file_open_to_others_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
    let error = Passphrase::from_file(file.path()).unwrap_err();
    assert!(matches!(error, KeyError::OpenToOthers { mode: 0o644, .. }), "{error}");
}

#[test]
fn a_descriptor_gives_one_line_and_keeps_the_rest() {
    let (mut reader, mut writer) = io::pipe().unwrap();
    writer.write_all(b"secret\nfor somebody else").unwrap();
    drop(writer);
    let passphrase = Passphrase::from_descriptor(reader.as_raw_fd()).unwrap();
    assert_eq!(passphrase.bytes(), b"secret");
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "for somebody else");

    let message = Passphrase::from_descriptor(99_999).unwrap_err().to_string();
    assert!(message.contains("file descriptor 99999"), "{message}");
}

#[test]
fn debug_shows_no_bytes() {
    let passphrase = Passphrase::new(b"secret", "a test").unwrap();
    assert_eq!(format!("{passphrase:?}"), "Passphrase(redacted)");
}

proptest! {
    #[test]
    fn a_passphrase_is_its_line(text in prop::collection::vec(any::<u8>(), 0..1100)) {
        let line = text.split(|&byte| byte == b'\n').next().unwrap();
        match from_text(&text) {
            Ok(passphrase) => {
                prop_assert_eq!(passphrase.bytes(), line);
                let is_new = (1..=Passphrase::MAX_NEW_LENGTH).contains(&line.len());
                prop_assert_eq!(passphrase.check_new().is_ok(), is_new);
            }
            Err(_) => prop_assert!(line.contains(&0)),
        }
    }
}
