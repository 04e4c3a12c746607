//! Public keys of OpenSSH.

use std::fmt;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use sha2::{Digest as _, Sha256};
use ssh_key::public::{EcdsaPublicKey, Ed25519PublicKey, KeyData};

use super::PublicKeyFault;
use super::wire::Fields;

/// A public key of OpenSSH whose signatures [`verify`](super::verify) can check: Ed25519 or ECDSA
/// with P-256, of a file or of a security key (FIDO). Keys are equal if their wire forms are, and
/// ordered by them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey {
    wire: Vec<u8>,
}

impl PublicKey {
    /// Reads the wire form ([RFC 4253, section 6.6]), which a public key line holds in base64.
    ///
    /// # Errors
    /// Says why such a key can't verify signatures.
    ///
    /// [RFC 4253, section 6.6]: https://www.rfc-editor.org/rfc/rfc4253#section-6.6
    pub fn from_wire(wire: &[u8]) -> Result<PublicKey, PublicKeyFault> {
        data_of(wire).map(|_| PublicKey { wire: wire.to_owned() })
    }

    /// Reads a line `ssh-ed25519 AAAA… COMMENT` and returns its comment too, which may be empty.
    /// In a file of allowed signers, a principal with `@` precedes that, and stands in for a comment
    /// that is missing; a line with options is refused.
    ///
    /// # Errors
    /// Says why such a key can't verify signatures.
    pub fn from_line(line: &str) -> Result<(PublicKey, String), PublicKeyFault> {
        let line = line.trim();
        let (principal, (wire, comment)) = match (key_in(line), split_word(line)) {
            (Some(key), _) => ("", key),
            (None, (principal, rest)) if is_principal(principal) => {
                (principal, key_in(rest).ok_or(PublicKeyFault::Malformed)?)
            }
            _ => return Err(PublicKeyFault::Malformed),
        };
        let comment = if comment.is_empty() { principal } else { comment };
        Ok((PublicKey::from_wire(&wire)?, comment.to_owned()))
    }

    /// Reads a line of a file of allowed signers, as `ssh-keygen` takes it: principals, which do not
    /// matter here, perhaps options, and a key; or a key alone. Returns `None` if the key is for other
    /// [namespaces](super::NAMESPACE) alone.
    ///
    /// # Errors
    /// Says why such a key can't verify signatures, or which option is unknown.
    pub fn from_allowed(line: &str) -> Result<Option<PublicKey>, PublicKeyFault> {
        let line = line.trim();
        let (first, rest) = split_quoted(line);
        let (options, key) = match (key_in(line), key_in(rest)) {
            (Some(key), _) => ("", key),
            (None, Some(key)) if is_option(first) => (first, key),
            (None, Some(key)) => ("", key),
            (None, None) => {
                let (options, rest) = split_quoted(rest);
                (options, key_in(rest).ok_or(PublicKeyFault::Malformed)?)
            }
        };
        let mut counts = true;
        for option in split_unquoted(options, ',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name.eq_ignore_ascii_case(NAMESPACES) {
                true => counts &= matches_list(value.trim_matches('"'), super::NAMESPACE),
                false => return Err(PublicKeyFault::Option(name.to_owned())),
            }
        }
        let key = PublicKey::from_wire(&key.0)?;
        Ok(counts.then_some(key))
    }

    /// The wire form: at most 1 KiB.
    pub fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// The kind as OpenSSH names it, such as `ssh-ed25519`.
    pub fn kind(&self) -> &str {
        kind_of(&self.wire).expect("it was read")
    }

    /// The fingerprint as OpenSSH shows it: `SHA256:` and 43 characters of base64.
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", BASE64_STANDARD_NO_PAD.encode(Sha256::digest(&self.wire)))
    }

    /// Returns whether a security key holds the private key.
    pub(super) fn is_of_security_key(&self) -> bool {
        self.kind().starts_with("sk-")
    }

    pub(super) fn data(&self) -> KeyData {
        data_of(&self.wire).expect("it was read")
    }
}

/// Shows the line of a public key file, without a comment.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), BASE64_STANDARD.encode(&self.wire))
    }
}

/// The wire form and the comment in `KIND BASE64 COMMENT`.
fn key_in(text: &str) -> Option<(Vec<u8>, &str)> {
    let (kind, rest) = split_word(text);
    let (encoded, comment) = split_word(rest);
    let wire = BASE64_STANDARD.decode(encoded).ok()?;
    (kind_of(&wire)? == kind).then_some((wire, comment))
}

fn split_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    (word, rest.trim_start())
}

/// Splits off a word, in which quotes may keep spaces.
fn split_quoted(text: &str) -> (&str, &str) {
    let word = split_unquoted(text, ' ').next().unwrap_or(text);
    let word = split_unquoted(word, '\t').next().unwrap_or(word);
    (word, text[word.len()..].trim_start())
}

/// The parts of a text between separators outside quotes.
fn split_unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |letter| {
        is_quoted ^= letter == '"';
        letter == separator && !is_quoted
    })
}

/// Returns whether the first word of a line is no principal but an option.
fn is_option(word: &str) -> bool {
    word.contains('=') || word.eq_ignore_ascii_case("cert-authority")
}

/// Returns whether a name matches a pattern-list of `ssh_config`.
fn matches_list(patterns: &str, name: &str) -> bool {
    let matching = patterns.split(',').map(|pattern| match pattern.strip_prefix('!') {
        Some(pattern) => (matches(pattern.as_bytes(), name.as_bytes()), false),
        None => (matches(pattern.as_bytes(), name.as_bytes()), true),
    });
    let matching: Vec<bool> = matching.filter(|(is_it, _)| *is_it).map(|(_, is)| is).collect();
    !matching.is_empty() && !matching.contains(&false)
}

/// Returns whether a name matches a pattern with `*` and `?`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|at| matches(rest, &name[at..])),
        Some((letter, rest)) => name
            .split_first()
            .is_some_and(|(first, name)| [b'?', *first].contains(letter) && matches(rest, name)),
    }
}

/// Returns whether a word is a name of allowed signers, and no option of authorized keys.
fn is_principal(word: &str) -> bool {
    word.contains('@') && !word.contains(['"', '='])
}

fn data_of(wire: &[u8]) -> Result<KeyData, PublicKeyFault> {
    let kind = kind_of(wire).ok_or(PublicKeyFault::Malformed)?;
    if !KINDS.contains(&kind) {
        return Err(PublicKeyFault::Kind(kind.to_owned()));
    }
    if wire.len() > LONGEST {
        return Err(PublicKeyFault::Malformed);
    }
    let key = ssh_key::PublicKey::from_bytes(wire).map_err(|_| PublicKeyFault::Malformed)?;
    // Lengths within that are too large are passed over in reading.
    if key.to_bytes().map_err(|_| PublicKeyFault::Malformed)? != wire {
        return Err(PublicKeyFault::Malformed);
    }
    match key.key_data() {
        KeyData::Ed25519(point) => check_point(point)?,
        KeyData::SkEd25519(key) => check_point(key.public_key())?,
        KeyData::Ecdsa(EcdsaPublicKey::NistP256(point)) if point.len() == UNCOMPRESSED => {}
        KeyData::SkEcdsaSha2NistP256(key) if key.ec_point().len() == UNCOMPRESSED => {}
        _ => return Err(PublicKeyFault::Malformed),
    }
    Ok(key.into())
}

fn check_point(point: &Ed25519PublicKey) -> Result<(), PublicKeyFault> {
    match ed25519_dalek::VerifyingKey::from_bytes(&point.0) {
        Ok(key) if key.is_weak() => Err(PublicKeyFault::LowOrder),
        Ok(_) => Ok(()),
        Err(_) => Err(PublicKeyFault::Malformed),
    }
}

/// The name at the beginning of a wire form; `None` if none can be there.
fn kind_of(wire: &[u8]) -> Option<&str> {
    let kind = Fields(wire).string().filter(|kind| (1..=64).contains(&kind.len()))?;
    std::str::from_utf8(kind).ok().filter(|kind| kind.bytes().all(|byte| byte.is_ascii_graphic()))
}

const KINDS: [&str; 4] = [
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// The option that names what signatures a key may make.
const NAMESPACES: &str = "namespaces";

/// The maximum length of a wire form. That of a security key names an application.
const LONGEST: usize = 1 << 10;

/// The length of a point of P-256 as OpenSSH writes it.
const UNCOMPRESSED: usize = 65;

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

    #[test]
    fn a_line_has_a_comment_or_a_principal() {
        let (key, comment) = PublicKey::from_line(LINE).unwrap();
        assert_eq!((key.to_string(), key.kind(), &*comment), (LINE.to_owned(), &LINE[..11], ""));
        // What `ssh-keygen -l` shows.
        assert_eq!(key.fingerprint(), "SHA256:UCUiLr7Pjs9wFFJMDByLgc3NrtdU344OgUM45wZPcIQ");
        for (line, comment) in [
            (format!(" {LINE}\t ann at home \r\n"), "ann at home"),
            (format!("ann@example.com {LINE}"), "ann@example.com"),
            (format!("ann@example.com,bob@example.com  {LINE} ann"), "ann"),
        ] {
            let read = PublicKey::from_line(&line).unwrap();
            assert_eq!(read, (key.clone(), comment.to_owned()), "{line:?}");
        }
        assert_eq!(PublicKey::from_wire(key.wire()), Ok(key));
    }

    #[test]
    fn allowed_signers_are_read_as_ssh_keygen_reads_them() {
        let key = PublicKey::from_line(LINE).unwrap().0;
        for (line, counts) in [
            (LINE.to_owned(), true),
            (format!("me {LINE} comment"), true),
            (format!("*\t{LINE}"), true),
            (format!("\"me and you\",*@example.com {LINE}"), true),
            (format!("me namespaces=\"git,evener-tree-v1\" {LINE}"), true),
            (format!("me Namespaces=\"*,!git\" {LINE}"), true),
            (format!("namespaces=\"evener-tree-v?\" {LINE}"), true),
            (format!("me namespaces=git {LINE}"), false),
            (format!("namespaces=\"git, file\" {LINE}"), false),
            (format!("me namespaces=\"*,!evener-*\" {LINE}"), false),
        ] {
            let expected = counts.then(|| key.clone());
            assert_eq!(PublicKey::from_allowed(&line), Ok(expected), "{line:?}");
        }
        for (line, option) in [
            (format!("me cert-authority {LINE}"), "cert-authority"),
            (format!("cert-authority {LINE}"), "cert-authority"),
            (format!("me namespaces=\"*\",valid-after=\"20200101\" {LINE}"), "valid-after"),
        ] {
            let fault = PublicKeyFault::Option(option.to_owned());
            assert_eq!(PublicKey::from_allowed(&line), Err(fault), "{line:?}");
        }
        for line in ["", "me", "me you and ssh-ed25519", &LINE[..70], &format!("a b c {LINE}")] {
            assert_eq!(PublicKey::from_allowed(line), Err(PublicKeyFault::Malformed), "{line:?}");
        }
    }

    #[test]
    fn other_lines_are_refused() {
        let changed = LINE.replace("ssh-ed25519", "sk-ssh-ed25519@openssh.com");
        for line in [
            "",
            "ssh-ed25519",
            &LINE[12..],
            &LINE[..70],
            &changed,
            &format!("# {LINE}"),
            &format!("cert-authority {LINE}"),
            &format!("from=\"ann@example.com\" {LINE}"),
            &format!("ann@example.com namespaces=\"git\" {LINE}"),
        ] {
            assert_eq!(PublicKey::from_line(line), Err(PublicKeyFault::Malformed), "{line:?}");
        }
    }

    #[test]
    fn lengths_are_exact_and_points_strong() {
        let key = PublicKey::from_line(LINE).unwrap().0;
        for bit in 0..19 * 8 {
            let mut wire = key.wire().to_owned();
            wire[bit / 8] ^= 1 << (bit % 8);
            assert!(PublicKey::from_wire(&wire).is_err(), "bit {bit}");
        }
        let mut wire = key.wire().to_owned();
        wire[19..].fill(0);
        assert_eq!(PublicKey::from_wire(&wire), Err(PublicKeyFault::LowOrder));
        wire.push(0);
        assert_eq!(PublicKey::from_wire(&wire), Err(PublicKeyFault::Malformed));
    }
}
