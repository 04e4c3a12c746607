//! The engines as a grid: a row for each cipher, a column for each engine.

use evener::Cipher;
use evener::program::shown_text;

use super::{Ability, Found, PASSED};

/// Returns the grid, then the engines that failed, then the absent ones with the reason: `width`
/// characters wide, as far as words and columns allow.
pub(super) fn text(engines: &[Found], width: usize) -> String {
    let columns: Vec<_> = engines.iter().filter_map(Column::of).collect();
    let headings = headings(&columns, width);
    let mut text = String::new();
    if !columns.is_empty() {
        table(&columns, &headings, &mut text);
    }
    notes(&columns, &headings, engines, width, &mut text);
    text
}

/// An engine that is present.
struct Column<'e> {
    name: &'e str,
    detail: &'e str,
    ciphers: &'e [Ability],
}

impl<'e> Column<'e> {
    fn of(found: &'e Found) -> Option<Column<'e>> {
        match found {
            Found::Present { name, detail, ciphers, .. } => Some(Column { name, detail, ciphers }),
            Found::Absent { .. } => None,
        }
    }

    /// Describes the engine's support for a cipher in one word.
    fn cell(&self, cipher: &str) -> &'static str {
        let offered: Vec<_> =
            self.ciphers.iter().filter(|ability| ability.cipher == cipher).collect();
        match offered[..] {
            [] => ABSENT,
            _ if offered.iter().any(|ability| ability.self_test != PASSED) => "FAILED",
            [one] if one.direction == "encrypt" => "encrypt",
            [one] if one.direction == "decrypt" => "decrypt",
            _ => "✓",
        }
    }

    /// The width of its heading or its longest cell, whichever is greater, in characters.
    fn width(&self, heading: &str) -> usize {
        let cells = Cipher::ALL.iter().map(|cipher| self.cell(cipher.name()));
        let widths = cells.map(|cell| cell.chars().count());
        widths.max().unwrap_or(0).max(heading.chars().count())
    }
}

fn table(columns: &[Column<'_>], headings: &[String], text: &mut String) {
    let widths: Vec<_> =
        columns.iter().zip(headings).map(|(column, heading)| column.width(heading)).collect();
    let mut row = |cipher: &str, cells: &[&str]| {
        let mut line = format!("{cipher:CIPHER$}");
        for (cell, width) in cells.iter().zip(&widths) {
            line.push_str(&format!("  {cell:^width$}"));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    row("cipher", &headings.iter().map(String::as_str).collect::<Vec<_>>());
    for cipher in Cipher::ALL.iter().map(|cipher| cipher.name()) {
        let cells: Vec<_> = columns.iter().map(|column| column.cell(cipher)).collect();
        if cells.iter().any(|cell| *cell != ABSENT) {
            row(cipher, &cells);
        }
    }
}

/// The engines' names, or numbers if the names make the table too wide.
fn headings(columns: &[Column<'_>], width: usize) -> Vec<String> {
    let of_column = |column: &Column<'_>| 2 + column.width(&shown_text(column.name));
    match CIPHER + columns.iter().map(of_column).sum::<usize>() <= width {
        true => columns.iter().map(|column| shown_text(column.name)).collect(),
        false => (1..=columns.len()).map(|number| format!("[{number}]")).collect(),
    }
}

fn notes(
    columns: &[Column<'_>],
    headings: &[String],
    engines: &[Found],
    width: usize,
    text: &mut String,
) {
    let mut first = true;
    let mut paragraph = |name: &str, rest: &str| {
        if std::mem::take(&mut first) && !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&wrapped(&format!("{name}: {rest}"), width));
    };
    let lacks = |cipher: &Cipher| {
        let mut cells = columns.iter().map(|column| column.cell(cipher.name()));
        cells.clone().any(|cell| cell != ABSENT) && cells.any(|cell| cell == ABSENT)
    };
    if Cipher::ALL.iter().any(lacks) {
        paragraph(ABSENT, "the engine does not offer the cipher");
    }
    for (column, heading) in columns.iter().zip(headings) {
        if *heading != shown_text(column.name) {
            paragraph(heading, &format!("{}, {}", column.name, column.detail));
        }
        let failed = |ability: &&Ability| ability.self_test != PASSED;
        let failed: Vec<_> = column.ciphers.iter().filter(failed).collect();
        // A result that several ciphers share is printed once.
        for alike in failed.chunk_by(|one, other| one.self_test == other.self_test) {
            let what = match alike {
                [Ability { cipher, direction, .. }] => format!("{direction} {cipher}"),
                [_, .., Ability { cipher, direction, .. }] => {
                    let Ability { cipher: first, direction: from, .. } = alike[0];
                    format!("{from} {first} to {direction} {cipher}")
                }
                [] => continue,
            };
            paragraph(column.name, &format!("{what} {}", alike[0].self_test));
        }
    }
    for engine in engines {
        if let (Found::Absent { name, .. }, Some(reason)) = (engine, engine.reason()) {
            paragraph(name, &format!("absent: {reason}"));
        }
    }
}

/// Breaks a paragraph into lines of at most `width` characters, as far as its words allow. All but
/// the first are indented.
pub(super) fn wrapped(paragraph: &str, width: usize) -> String {
    let mut text = String::new();
    let mut length = 0;
    for word in shown_text(paragraph).split_whitespace() {
        let more = word.chars().count();
        if length > 0 && length + 1 + more > width {
            text.push_str("\n  ");
            length = 2;
        } else if length > 0 {
            text.push(' ');
            length += 1;
        }
        text.push_str(word);
        length += more;
    }
    text.push('\n');
    text
}

/// The cell of a cipher that an engine lacks.
const ABSENT: &str = "-";

/// The greatest width, in characters.
pub(super) const WIDTH: usize = 80;

/// The width of the longest cipher's name.
const CIPHER: usize = 17;

#[cfg(test)]
mod tests {
    use super::*;

    fn present(name: &str, ciphers: &[(&'static str, &str, &str)]) -> Found {
        let ability = |&(cipher, direction, self_test): &(&'static str, &str, &str)| Ability {
            cipher,
            direction: direction.to_owned(),
            depth: 1,
            batch: 1,
            self_test: self_test.to_owned(),
        };
        Found::Present {
            name: name.to_owned(),
            kind: "module",
            detail: "a device".to_owned(),
            ciphers: ciphers.iter().map(ability).collect(),
        }
    }

    fn both(name: &str) -> Found {
        let cipher = "aes-128-cbc";
        present(name, &[(cipher, "encrypt", PASSED), (cipher, "decrypt", PASSED)])
    }

    #[test]
    fn a_cell_says_what_an_engine_can_do() {
        let engines = [
            both("cpu"),
            present("lanes", &[("aes-128-cbc", "decrypt", PASSED)]),
            present(
                "dev",
                &[
                    ("aes-128-cbc", "encrypt", "failed: wrong result"),
                    ("aes-128-cbc", "decrypt", PASSED),
                    ("bf-cbc", "encrypt", PASSED),
                ],
            ),
            Found::Absent {
                name: "cryptodev",
                absent: "engine `cryptodev` is not available: no /dev/crypto".to_owned(),
            },
        ];
        let expected = "\
cipher             cpu   lanes     dev
aes-128-cbc         ✓   decrypt  FAILED
bf-cbc              -      -     encrypt

-: the engine does not offer the cipher
dev: encrypt aes-128-cbc failed: wrong result
cryptodev: absent: no /dev/crypto
";
        assert_eq!(text(&engines, WIDTH), expected);
    }

    #[test]
    fn a_failure_of_many_ciphers_is_said_once() {
        let hung = "failed: it hung";
        let (one, skipped) = ("aes-128-cbc", "failed: not tested");
        let tests = [
            (one, "encrypt", hung),
            (one, "decrypt", skipped),
            ("bf-cbc", "encrypt", skipped),
            ("bf-cbc", "decrypt", skipped),
        ];
        let expected = "\
cipher              dev
aes-128-cbc        FAILED
bf-cbc             FAILED

dev: encrypt aes-128-cbc failed: it hung
dev: decrypt aes-128-cbc to decrypt bf-cbc failed: not tested
";
        assert_eq!(text(&[present("dev", &tests)], WIDTH), expected);
    }

    #[test]
    fn columns_stand_below_their_headings() {
        let text = text(&[both("cpu"), both("openssl"), both("cryptodev")], WIDTH);
        let expected = "\
cipher             cpu  openssl  cryptodev
aes-128-cbc         ✓      ✓         ✓
";
        assert_eq!(text, expected);
    }

    #[test]
    fn many_engines_and_long_reasons_fit_a_terminal() {
        let mut engines: Vec<_> =
            (0..12).map(|number| both(&format!("af_alg:driver-{number}"))).collect();
        engines.push(Found::Absent { name: "pkcs11", absent: "no module is named ".repeat(20) });
        let text = text(&engines, WIDTH);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("[12]: af_alg:driver-11, a device"), "{text}");
        assert!(text.contains("pkcs11: absent: no module"), "{text}");
        let text = super::text(&engines[..4], 40);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn the_ciphers_names_fit_their_column() {
        assert!(Cipher::ALL.iter().all(|cipher| cipher.name().len() <= CIPHER));
    }

    #[test]
    fn all_engines_of_the_registry_fit_a_terminal_by_name() {
        let engines: Vec<_> = evener::engines::names().map(both).collect();
        let columns: Vec<_> = engines.iter().filter_map(Column::of).collect();
        assert_eq!(headings(&columns, WIDTH), evener::engines::names().collect::<Vec<_>>());
    }
}
