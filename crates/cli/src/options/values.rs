//! Values of options.

use std::fs;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use evener::keys::KeyFormat;

/// A file format, as `--format` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// C2SP chunked encryption with AES-256-GCM
    #[value(name = "cobblestone-256")]
    Cobblestone256,
    /// C2SP chunked encryption with AES-128-GCM
    #[value(name = "cobblestone-128")]
    Cobblestone128,
    /// Tink streaming AEAD (AES-GCM-HKDF)
    Tink,
    /// age's own format, which age and rage open
    Age,
    /// Files of `openssl enc`, which are not authenticated
    Openssl,
}

impl Format {
    /// The corresponding format of keys; `None` for `age` and `openssl`, which have no key
    /// files.
    pub(crate) fn of_keys(self) -> Option<KeyFormat> {
        match self {
            Format::Cobblestone256 => Some(KeyFormat::Cobblestone256),
            Format::Cobblestone128 => Some(KeyFormat::Cobblestone128),
            Format::Tink => Some(KeyFormat::Tink),
            Format::Age | Format::Openssl => None,
        }
    }
}

/// A number of requests at once.
pub(crate) fn requests(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST_REQUESTS).contains(number));
    number.ok_or_else(|| format!("not a number from 1 to {MOST_REQUESTS}"))
}

/// A number of bytes a second.
pub(crate) fn rate(text: &str) -> Result<NonZeroU64, String> {
    NonZeroU64::new(bytes(text)?).ok_or_else(|| "nothing would move; leave it out".to_owned())
}

const MOST_REQUESTS: usize = 1024;

/// A way of `openssl enc` to derive a key from a passphrase, as `--kdf` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KdfName {
    /// `openssl enc -pbkdf2`
    Pbkdf2,
    /// `openssl enc` without -pbkdf2; passphrases are quick to guess
    Legacy,
}

/// The iterations of PBKDF2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Iterations(pub(crate) u32);

impl FromStr for Iterations {
    type Err = String;

    fn from_str(text: &str) -> Result<Iterations, String> {
        let number = text.parse().ok().filter(|number| (1..=MOST_ITERATIONS).contains(number));
        number.map(Iterations).ok_or_else(|| format!("not a number from 1 to {MOST_ITERATIONS}"))
    }
}

/// An amount of memory, in the form that [`bytes`] reads.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    match usize::try_from(bytes(text)?) {
        Ok(size) if size < SMALLEST_MEMORY => Err("too small: it takes at least 1M".to_owned()),
        Ok(size) => Ok(size),
        Err(_) => Err("too large".to_owned()),
    }
}

/// A number of bytes: `65536`, `64K`, `64M`, `1G`, with or without `iB` at the end.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "not a size such as 65536, 64M or 1G".to_owned();
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KIB" => 10,
        "M" | "MIB" => 20,
        "G" | "GIB" => 30,
        "T" | "TIB" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

/// A length of time: `500ms`, `30s` or `30`, `5m`, `2h`, `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let milliseconds = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1000),
        "m" | "min" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let length = number
        .parse()
        .ok()
        .zip(milliseconds)
        .and_then(|(number, unit): (u64, u64)| number.checked_mul(unit))
        .ok_or_else(|| "not a time such as 500ms, 30s, 5m, 12h or 7d".to_owned())?;
    match length {
        0 => Err("a time of 0 is too short".to_owned()),
        length => Ok(Duration::from_millis(length)),
    }
}

/// A group by its number or by its name in /etc/group.
pub(crate) fn group(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let groups =
        fs::read_to_string("/etc/group").map_err(|error| format!("/etc/group: {error}"))?;
    group_in(&groups, text).ok_or_else(|| "no such group in /etc/group".to_owned())
}

/// The number of a group in text in the format of group(5).
fn group_in(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// OpenSSL counts them in a C `int`.
const MOST_ITERATIONS: u32 = i32::MAX as u32;

const SMALLEST_MEMORY: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_units() {
        for (text, expected) in [
            ("1048576", Some(1 << 20)),
            ("64M", Some(64 << 20)),
            ("64MiB", Some(64 << 20)),
            ("1g", Some(1 << 30)),
            ("2048k", Some(2 << 20)),
            ("1K", None),
            ("", None),
            ("M", None),
            ("-1M", None),
            ("1.5G", None),
            ("64MB", None),
            ("99999999999999999999", None),
            ("99999999999T", None),
        ] {
            assert_eq!(size(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn no_size_is_longer_than_an_address() {
        for (text, bytes) in [("4G", 1_u64 << 32), ("1T", 1 << 40), ("5000000T", 5_000_000 << 40)] {
            assert_eq!(size(text).ok(), usize::try_from(bytes).ok(), "{text}");
        }
        assert!(size("99999999T").is_err());
    }

    #[test]
    fn times_take_units() {
        for (text, expected) in [
            ("500ms", Some(500)),
            ("30", Some(30_000)),
            ("30s", Some(30_000)),
            ("5m", Some(300_000)),
            ("2h", Some(7_200_000)),
            ("7d", Some(604_800_000)),
            ("0", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("99999999999999999999h", None),
            ("9999999999999999h", None),
        ] {
            let expected = expected.map(Duration::from_millis);
            assert_eq!(duration(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn groups_have_numbers_and_names() {
        assert_eq!(group("1234").unwrap(), 1234);
        let groups = "root:x:0:\nbroken\ncrypto:x:107:ann,bob\nno number:x:y:\n";
        assert_eq!(group_in(groups, "crypto"), Some(107));
        for name in ["broken", "no number", "x", ""] {
            assert_eq!(group_in(groups, name), None, "{name}");
        }
    }

    #[test]
    fn iterations_are_what_openssl_can_count() {
        for text in ["0", "2147483648", "4294967295", "4294967296", "-1", ""] {
            assert!(text.parse::<Iterations>().is_err(), "{text}");
        }
        for number in [1, 600_000, 2_147_483_647] {
            assert_eq!(number.to_string().parse::<Iterations>().unwrap().0, number);
        }
    }
}
