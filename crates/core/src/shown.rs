//! Names and texts, made safe to print.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Shows a name or a path to people, on a terminal or in a log. This is the only way in which
/// Evener shows one.
///
/// A file's name may hold any byte but a slash and zero: control characters, which steer the
/// terminal; Unicode's format characters, which reorder or hide parts of the name; bytes that are
/// not UTF-8. Such a name is shown in quotes with these escaped, as `"a\u{1b}b"` or `"\xff"`. Other
/// names are shown unchanged, but for a secret that was given in place of a name: see
/// [`shown_text`].
pub fn shown<N: AsRef<OsStr> + ?Sized>(name: &N) -> Shown<'_> {
    Shown(name.as_ref().as_bytes())
}

/// Shows text that may contain names or a device's messages. Escapes the same characters, adds no
/// quotes, and keeps line breaks. An age identity or a key line keeps only its beginning: a user may
/// have typed it where a file's name belongs.
pub fn shown_text(text: &str) -> String {
    let text = &masked(text);
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => shown.push('\n'),
            harmless if is_harmless(harmless) => shown.push(harmless),
            other => shown.extend(other.escape_unicode()),
        }
    }
    shown
}

/// The system's text for an error, as `strerror` gives it, without the number that Rust appends.
pub fn shown_error(error: &io::Error) -> String {
    let text = shown_text(&error.to_string());
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Shows a JSON document with the same characters escaped as JSON escapes (RFC 8259, section 7), so
/// that its strings keep their values, apart from secrets. Outside strings there are no such
/// characters.
pub fn shown_json(document: &str) -> String {
    let document = &masked(document);
    let mut shown = String::with_capacity(document.len());
    for character in document.chars() {
        match character {
            '\n' => shown.push('\n'),
            harmless if is_harmless(harmless) => shown.push(harmless),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    shown.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    shown
}

/// A name that prints safely; [`shown`] makes it.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'n>(&'n [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(text) = std::str::from_utf8(self.0)
            // A name that begins with a quote could look like a quoted name.
            && !text.starts_with('"')
            && text.chars().all(is_harmless)
        {
            return f.write_str(&masked(text));
        }
        f.write_char('"')?;
        for chunk in self.0.utf8_chunks() {
            for character in masked(chunk.valid()).chars() {
                match character {
                    '"' | '\\' => write!(f, "\\{character}")?,
                    harmless if is_harmless(harmless) => f.write_char(harmless)?,
                    other => write!(f, "{}", other.escape_unicode())?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        f.write_char('"')
    }
}

/// Replaces the secret part of identities and keys in a text by an ellipsis.
fn masked(text: &str) -> Cow<'_, str> {
    let mut masked = Cow::Borrowed(text);
    let mut rest = text;
    while let Some((start, end)) = find_secret(rest) {
        let done = text.len() - rest.len();
        if let Cow::Borrowed(_) = masked {
            masked = Cow::Owned(String::new());
        }
        masked.to_mut().push_str(&text[done..done + start]);
        masked.to_mut().push('…');
        rest = &rest[end..];
    }
    if let Cow::Owned(masked) = &mut masked {
        masked.push_str(rest);
    }
    masked
}

/// The first identity or key in a text: where its secret part starts and ends.
fn find_secret(text: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let is_of_secret = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_:=".contains(byte);
    (0..bytes.len()).find_map(|at| {
        let begins = |prefix: &&str| {
            let there = bytes.get(at..at + prefix.len());
            there.is_some_and(|there| there.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        let start = at + SECRETS.iter().find(|prefix| begins(prefix))?.len();
        let length = bytes[start..].iter().take_while(|byte| is_of_secret(byte)).count();
        (length >= SHORTEST_SECRET).then_some((start, start + length))
    })
}

/// The beginnings of texts that are secret, in small letters or capitals.
const SECRETS: [&str; 3] = ["AGE-SECRET-KEY-", "AGE-PLUGIN-", "evener-key:"];

/// Fewer letters after such a beginning are no secret: `age-plugin-yubikey` is a program's name.
const SHORTEST_SECRET: usize = 16;

/// Returns whether a character is visible and does not steer the terminal.
fn is_harmless(character: char) -> bool {
    !character.is_control() && !is_format_character(character)
}

/// Unicode's format characters (category Cf: directional marks, joiners, tags), its line and
/// paragraph separators, and the reserved code points among them.
#[rustfmt::skip]
fn is_format_character(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_shown_without_a_number_and_without_control_characters() {
        assert_eq!(shown_error(&io::Error::from_raw_os_error(2)), "No such file or directory");
        assert_eq!(shown_error(&io::Error::other("a\u{1b}b")), "a\\u{1b}b");
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        for (name, expected) in [
            (&b"a b/\xc3\xbc"[..], "a b/ü"),
            // Letters with combining marks, as some systems write them.
            ("u\u{308}".as_bytes(), "u\u{308}"),
            (b"it's a \\ \"quote\"", "it's a \\ \"quote\""),
            (b"\"quoted\"", "\"\\\"quoted\\\"\""),
            (b"a\x1b[2Jb", "\"a\\u{1b}[2Jb\""),
            (b"a\nb\\", "\"a\\u{a}b\\\\\""),
            (b"\xff\xfe.txt", "\"\\xff\\xfe.txt\""),
            ("\u{9b}31m".as_bytes(), "\"\\u{9b}31m\""),
            ("a\u{202e}txt.exe".as_bytes(), "\"a\\u{202e}txt.exe\""),
            ("a\u{200b}".as_bytes(), "\"a\\u{200b}\""),
        ] {
            assert_eq!(shown(OsStr::from_bytes(name)).to_string(), expected);
        }
    }

    #[test]
    fn secrets_in_place_of_names_are_not_shown() {
        let secret = "1QQQQQQQQQQQQQQQQQQQ";
        for start in ["AGE-SECRET-KEY-", "age-secret-key-", "AGE-PLUGIN-YUBIKEY-", "evener-key:v1:"]
        {
            let name = format!("keys/{start}{secret}/ü {start}{secret}");
            let shown = [
                shown(&name).to_string(),
                super::shown(&format!("{name}\n")).to_string(),
                shown_text(&name),
                shown_json(&serde_json::to_string(&[&name]).unwrap()),
            ];
            for text in shown {
                assert!(!text.contains("QQQQ") && text.contains("…/ü "), "{text}");
            }
        }
        for name in
            ["age-plugin-yubikey", "evener-key:v1:NAME", "AGE-SECRET-KEY-1…", "evener-key.age"]
        {
            assert_eq!(shown(name).to_string(), name);
        }
    }

    #[test]
    fn a_json_document_shows_the_same_texts() {
        let text = "ü \u{7f}\u{9b}31m \u{202e}\u{e0001} \u{1b}";
        let document = serde_json::to_string_pretty(&[text]).unwrap();
        let shown = shown_json(&document);
        assert_eq!(shown, "[\n  \"ü \\u007f\\u009b31m \\u202e\\udb40\\udc01 \\u001b\"\n]");
        assert_eq!(serde_json::from_str::<[String; 1]>(&shown).unwrap(), [text]);
    }

    #[test]
    fn text_keeps_its_lines_and_nothing_else() {
        assert_eq!(shown_text("one\ntwo\r\x1b[2K\u{202e}ü"), "one\ntwo\\u{d}\\u{1b}[2K\\u{202e}ü");
    }
}
