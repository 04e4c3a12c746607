//! `pkcs11:` URIs (RFC 7512).

use std::path::PathBuf;

use cryptoki_sys::CK_SLOT_ID;

/// The content of a URI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Uri {
    pub(super) library: Library,
    pub(super) token: TokenPattern,
    /// The key in the token to use; `None` if jobs have their own keys.
    pub(super) object: Option<ObjectPattern>,
    /// The file that holds the PIN.
    pub(super) pin_file: Option<PathBuf>,
}

/// The location of the PKCS #11 module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Library {
    /// The system's default module.
    #[default]
    Default,
    /// `module-path`.
    Path(PathBuf),
    /// `module-name`: the library's file name without a leading `lib` and the suffix.
    Name(String),
}

/// The required names of a token, its slot and its library; `None` matches any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TokenPattern {
    pub(super) label: Option<String>,
    pub(super) manufacturer: Option<String>,
    pub(super) model: Option<String>,
    pub(super) serial: Option<String>,
    pub(super) slot_id: Option<CK_SLOT_ID>,
    pub(super) slot_description: Option<String>,
    pub(super) slot_manufacturer: Option<String>,
    pub(super) library_description: Option<String>,
    pub(super) library_manufacturer: Option<String>,
    /// As `MAJOR.MINOR`.
    pub(super) library_version: Option<String>,
}

/// The required names of a key object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectPattern {
    pub(super) label: Option<String>,
    pub(super) id: Option<Vec<u8>>,
}

/// The reason why a URI can't be used. Names attributes only: a value might be a PIN.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UriError {
    #[error(
        "a PIN in the URI can be read by every process of this machine; put it in a file and \
         name that as pin-source=file:PATH"
    )]
    PinValue,
    // The text may be a PIN, or end in one.
    #[error("attribute number {0} {1} the `?` of the URI is not NAME=VALUE")]
    NoValue(usize, &'static str),
    #[error("the attribute `{0}` is given twice")]
    Duplicate(String),
    #[error("there is no attribute `{0}` {1} the `?` of a PKCS #11 URI")]
    Unknown(String, &'static str),
    #[error("the value of `{0}` must have {1:?} written as %{number:02X}", number = *.1 as u32)]
    Character(String, char),
    #[error("the value of `{0}` has a `%` that two hexadecimal digits do not follow")]
    Escape(String),
    #[error("the value of `{0}` is not UTF-8")]
    Text(String),
    #[error("`slot-id` is not a decimal number")]
    SlotId,
    #[error("`library-version` is not MAJOR or MAJOR.MINOR")]
    LibraryVersion,
    #[error("`type` is {0}, but only a secret-key encrypts in bulk")]
    Type(String),
    #[error("`pin-source` must be an absolute path, or file: and an absolute path")]
    PinSource,
    #[error("`module-path` must be an absolute path")]
    ModulePath,
}

impl Uri {
    /// Parses the text after `pkcs11:`.
    ///
    /// Stricter than RFC 7512 requires of a consumer: an unknown attribute is an error, because it
    /// is probably misspelt.
    pub(super) fn parse(text: &str) -> Result<Uri, UriError> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let mut uri = Uri::default();
        for (name, value) in attributes(path, ';', "before")? {
            uri.set_path_attribute(name, value)?;
        }
        let query = attributes(query, '&', "behind")?;
        if query.iter().any(|(name, _)| *name == "pin-value") {
            return Err(UriError::PinValue);
        }
        for (name, value) in query {
            uri.set_query_attribute(name, value)?;
        }
        Ok(uri)
    }

    fn set_path_attribute(&mut self, name: &str, value: &str) -> Result<(), UriError> {
        let octets = || decode(name, value, PATH_CHARACTERS);
        let text = || text(name, octets()?);
        let token = &mut self.token;
        let place = match name {
            "token" => &mut token.label,
            "manufacturer" => &mut token.manufacturer,
            "model" => &mut token.model,
            "serial" => &mut token.serial,
            "slot-description" => &mut token.slot_description,
            "slot-manufacturer" => &mut token.slot_manufacturer,
            "library-description" => &mut token.library_description,
            "library-manufacturer" => &mut token.library_manufacturer,
            "library-version" => {
                token.library_version = Some(version(&text()?)?);
                return Ok(());
            }
            "slot-id" => {
                token.slot_id = Some(number(&text()?).ok_or(UriError::SlotId)?);
                return Ok(());
            }
            "object" => &mut self.object.get_or_insert_default().label,
            "id" => {
                self.object.get_or_insert_default().id = Some(octets()?);
                return Ok(());
            }
            "type" => {
                return match text()?.as_str() {
                    "secret-key" => Ok(()),
                    other => Err(UriError::Type(other.to_owned())),
                };
            }
            _ => return Err(UriError::Unknown(name.to_owned(), "before")),
        };
        *place = Some(text()?);
        Ok(())
    }

    fn set_query_attribute(&mut self, name: &str, value: &str) -> Result<(), UriError> {
        let text = || text(name, decode(name, value, QUERY_CHARACTERS)?);
        match name {
            "pin-source" => self.pin_file = Some(pin_file(&text()?)?),
            "module-path" => {
                let path = PathBuf::from(text()?);
                if !path.is_absolute() {
                    return Err(UriError::ModulePath);
                }
                self.library = Library::Path(path);
            }
            // The path is more exact than the name.
            "module-name" if self.library == Library::Default => {
                self.library = Library::Name(text()?);
            }
            "module-name" => {}
            _ => return Err(UriError::Unknown(name.to_owned(), "behind")),
        }
        Ok(())
    }
}

fn attributes<'t>(
    text: &'t str,
    separator: char,
    place: &'static str,
) -> Result<Vec<(&'t str, &'t str)>, UriError> {
    let mut attributes: Vec<(&str, &str)> = Vec::new();
    for part in text.split(separator).filter(|_| !text.is_empty()) {
        let number = attributes.len() + 1;
        let (name, value) = part.split_once('=').ok_or(UriError::NoValue(number, place))?;
        if attributes.iter().any(|(known, _)| *known == name) {
            return Err(UriError::Duplicate(name.to_owned()));
        }
        attributes.push((name, value));
    }
    Ok(attributes)
}

/// Resolves `%XX`. Every other character must be allowed unescaped.
fn decode(name: &str, value: &str, allowed: &str) -> Result<Vec<u8>, UriError> {
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        if character == '%' {
            let octet =
                rest.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
            let octet = octet.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            decoded.push(octet.ok_or_else(|| UriError::Escape(name.to_owned()))?);
            rest = &rest[2..];
        } else if character.is_ascii_alphanumeric() || allowed.contains(character) {
            decoded.push(character as u8);
        } else {
            return Err(UriError::Character(name.to_owned(), character));
        }
    }
    Ok(decoded)
}

fn text(name: &str, value: Vec<u8>) -> Result<String, UriError> {
    String::from_utf8(value).map_err(|_| UriError::Text(name.to_owned()))
}

fn number(digits: &str) -> Option<CK_SLOT_ID> {
    let decimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| decimal)
}

fn version(value: &str) -> Result<String, UriError> {
    let (major, minor) = value.split_once('.').unwrap_or((value, "0"));
    let part = |digits| number(digits).filter(|&number| number <= 255);
    match (part(major), part(minor)) {
        (Some(major), Some(minor)) => Ok(format!("{major}.{minor}")),
        _ => Err(UriError::LibraryVersion),
    }
}

/// A path, or a `file:` URI (RFC 8089) of this host, in which a path may be escaped again.
fn pin_file(source: &str) -> Result<PathBuf, UriError> {
    let Some(rest) = source.strip_prefix("file:") else {
        return if source.starts_with('/') { Ok(source.into()) } else { Err(UriError::PinSource) };
    };
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
    };
    let path = decode("pin-source", path, FILE_CHARACTERS)?;
    if path.first() != Some(&b'/') {
        return Err(UriError::PinSource);
    }
    Ok(text("pin-source", path)?.into())
}

/// Characters allowed unescaped before the `?`, besides letters and digits: `unreserved` and
/// `pk11-res-avail` of RFC 7512, and `&`.
const PATH_CHARACTERS: &str = "-._~:[]@!$'()*+,=&";

/// The same after the `?`.
const QUERY_CHARACTERS: &str = "-._~:[]@!$'()*+,=/?|";

/// The outer URI was decoded already, so any byte may occur.
const FILE_CHARACTERS: &str = "-._~:[]@!$'()*+,=/?|&; #\"<>\\^`{}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_uri_is_read() {
        let uri = Uri::parse(
            "token=The%20Software%20PKCS%2311%20Softtoken;manufacturer=Snake%20Oil,%20Inc.;\
             model=1.0;serial=4fe;slot-id=18446744;object=my-key;id=%00%fF.;type=secret-key;\
             library-version=3;library-manufacturer=Z%C3%BCrich;slot-description=a&b\
             ?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:///run/a%2520pin",
        )
        .unwrap();
        assert_eq!(uri.token.label.as_deref(), Some("The Software PKCS#11 Softtoken"));
        assert_eq!(uri.token.manufacturer.as_deref(), Some("Snake Oil, Inc."));
        assert_eq!(uri.token.library_manufacturer.as_deref(), Some("Zürich"));
        assert_eq!(uri.token.library_version.as_deref(), Some("3.0"));
        assert_eq!(uri.token.slot_description.as_deref(), Some("a&b"));
        assert_eq!(uri.token.slot_id, Some(18446744));
        let object = uri.object.unwrap();
        assert_eq!(object.label.as_deref(), Some("my-key"));
        assert_eq!(object.id.as_deref(), Some(&[0, 0xFF, b'.'][..]));
        assert_eq!(uri.library, Library::Path("/usr/lib/softhsm/libsofthsm2.so".into()));
        assert_eq!(uri.pin_file, Some("/run/a pin".into()));
        assert_eq!(Uri::parse("").unwrap(), Uri::default());
    }

    #[test]
    fn a_token_alone_is_not_a_key() {
        assert_eq!(Uri::parse("token=a?module-name=softhsm2").unwrap().object, None);
    }

    #[test]
    fn malformed_uris_are_refused() {
        let refused = |text: &str| Uri::parse(text).unwrap_err();
        assert_eq!(refused("token"), UriError::NoValue(1, "before"));
        assert_eq!(refused("token=a;"), UriError::NoValue(2, "before"));
        assert_eq!(refused("token=a;token=b"), UriError::Duplicate("token".into()));
        assert_eq!(refused("tokn=a"), UriError::Unknown("tokn".into(), "before"));
        assert_eq!(refused("module-path=/a"), UriError::Unknown("module-path".into(), "before"));
        assert_eq!(refused("?token=a"), UriError::Unknown("token".into(), "behind"));
        assert_eq!(refused("token=a b"), UriError::Character("token".into(), ' '));
        assert_eq!(refused("token=a/b"), UriError::Character("token".into(), '/'));
        assert_eq!(refused("token=ü"), UriError::Character("token".into(), 'ü'));
        assert_eq!(refused("?module-path=/ü"), UriError::Character("module-path".into(), 'ü'));
        for escape in ["%", "%2", "%2g", "%+1", "%€"] {
            assert_eq!(refused(&format!("token={escape}")), UriError::Escape("token".into()));
        }
        assert_eq!(refused("token=%FF"), UriError::Text("token".into()));
        assert_eq!(refused("slot-id=0x1"), UriError::SlotId);
        assert_eq!(refused("slot-id=+1"), UriError::SlotId);
        assert_eq!(refused("library-version=3.256"), UriError::LibraryVersion);
        assert_eq!(refused("type=private"), UriError::Type("private".into()));
        assert_eq!(refused("?module-path=lib/a.so"), UriError::ModulePath);
        for source in ["pin", "file:pin", "file://host/pin", "%7Ccat%20pin", "https:/pin"] {
            assert_eq!(refused(&format!("?pin-source={source}")), UriError::PinSource);
        }
    }

    #[test]
    fn a_pin_on_the_command_line_is_refused_and_not_repeated() {
        for text in ["?pin-value=1234", "token=a?pin-value=%zz&module-path=1234"] {
            let error = Uri::parse(text).unwrap_err();
            assert_eq!(error, UriError::PinValue);
            assert!(!error.to_string().contains("1234"));
        }
        for text in ["?1234", "token=a;1234", "?pin-value:1234"] {
            let error = Uri::parse(text).unwrap_err();
            assert!(!error.to_string().contains("1234"), "{error}");
        }
        let error = Uri::parse("?pin-value=12&pin-value=1234").unwrap_err();
        assert!(!error.to_string().contains("12"), "{error}");
    }
}
