//! Finding a token and a key in it, and logging in.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use cryptoki_sys as ck;
use cryptoki_sys::{CK_KEY_TYPE, CK_OBJECT_HANDLE, CK_SLOT_ID, CK_TOKEN_INFO};
use evener_core::{Cipher, Direction};
use zeroize::Zeroizing;

use super::PinPrompt;
use super::mechanism::{includes_length, mechanism, takes_key};
use super::sys::{Channel, Failure, Module, has};
use super::uri::{Library, ObjectPattern, TokenPattern, Uri};
use super::words::refused;

/// A token with a user logged in, if it wants one, and the key that was named, if one was.
pub(super) struct Token {
    pub(super) module: Arc<Module>,
    pub(super) slot: CK_SLOT_ID,
    /// For people: label, model, serial number, library.
    pub(super) detail: String,
    /// How many further sessions the token has; `None` when it does not say or has no bound.
    pub(super) sessions: Option<usize>,
    /// How many sessions all processes together can have; `None` as above.
    pub(super) session_limit: Option<usize>,
    pub(super) is_logged_in: bool,
    pub(super) held: Option<HeldKey>,
    able: Vec<(Cipher, Direction)>,
    /// A login lasts as long as any session is open; this one is.
    _anchor: Channel,
}

/// A key object in the token.
#[derive(Clone, Copy)]
pub(super) struct HeldKey {
    pub(super) handle: CK_OBJECT_HANDLE,
    kind: CK_KEY_TYPE,
    /// In bytes, where the type has several lengths.
    length: Option<usize>,
    encrypts: bool,
    decrypts: bool,
}

impl Token {
    /// Finds the one token that the URI means. An error says in words why there is none.
    pub(super) fn find(uri: &Uri, prompt: &PinPrompt<'_>) -> Result<Token, String> {
        let module = Arc::new(load(&uri.library)?);
        let (slot, info) = find_slot(&module, &uri.token)?;
        let in_words = |failure: Failure| refused(&failure);
        let mut anchor = Channel::open(&module, slot).map_err(in_words)?;
        let is_logged_in = has(info.flags, ck::CKF_LOGIN_REQUIRED);
        if is_logged_in {
            log_in(&mut anchor, &info, uri.pin_file.as_deref(), prompt)?;
        }
        let held = uri.object.as_ref().map(|pattern| find_key(&mut anchor, pattern)).transpose()?;
        let mut able = able(&module, slot).map_err(in_words)?;
        if let Some(held) = held {
            able.retain(|&(cipher, direction)| held.serves(cipher, direction));
            if able.is_empty() {
                return Err("the key is for no cipher that both the token and Evener have, or \
                            may not be used to encrypt or decrypt"
                    .to_owned());
            }
        }
        let info = module.token_info(slot).map_err(in_words)?;
        let session_limit = match info.ulMaxSessionCount {
            ck::CK_EFFECTIVELY_INFINITE | ck::CK_UNAVAILABLE_INFORMATION => None,
            most => Some(most as usize),
        };
        let used = match info.ulSessionCount {
            ck::CK_UNAVAILABLE_INFORMATION => 1,
            used => used as usize,
        };
        let sessions = session_limit.map(|most| most.saturating_sub(used));
        if sessions == Some(0) {
            return Err(format!(
                "all of the token's {} sessions are in use, one of them by this engine itself",
                info.ulMaxSessionCount
            ));
        }
        let library = module.info().map_err(in_words)?;
        let library = trimmed(&library.libraryDescription);
        let detail = format!("{} ({library})", describe(&info));
        Ok(Token {
            module,
            slot,
            detail,
            session_limit,
            sessions,
            is_logged_in,
            held,
            able,
            _anchor: anchor,
        })
    }

    /// Whether the token does the cipher, with the held key if there is one.
    pub(super) fn performs(&self, cipher: Cipher, direction: Direction) -> bool {
        self.able.contains(&(cipher, direction))
    }
}

impl HeldKey {
    fn serves(&self, cipher: Cipher, direction: Direction) -> bool {
        let allowed = match direction {
            Direction::Encrypt => self.encrypts,
            Direction::Decrypt => self.decrypts,
        };
        allowed && takes_key(cipher, self.kind, self.length)
    }
}

fn load(library: &Library) -> Result<Module, String> {
    let names = match library {
        Library::Path(path) => vec![path.display().to_string()],
        Library::Name(name) => vec![format!("lib{name}.so"), format!("{name}.so")],
        Library::Default => vec![DEFAULT_LIBRARY.to_owned()],
    };
    let mut reason = String::new();
    for name in &names {
        match Module::load(Path::new(name)) {
            Ok(module) => return Ok(module),
            Err(error) => reason = error.to_string(),
        }
    }
    Err(match library {
        Library::Path(path) => format!("the module {} can't be used: {reason}", path.display()),
        Library::Name(name) => format!(
            "the module `{name}` is not where libraries are looked for ({reason}); give its \
             place with module-path="
        ),
        Library::Default => format!(
            "no module was named, and the system has no default one ({reason}); name it, as in \
             ?module-path=/usr/lib/softhsm/libsofthsm2.so"
        ),
    })
}

fn find_slot(
    module: &Module,
    pattern: &TokenPattern,
) -> Result<(CK_SLOT_ID, CK_TOKEN_INFO), String> {
    let in_words = |failure: Failure| refused(&failure);
    let library = module.info().map_err(in_words)?;
    let version = library.libraryVersion;
    let version = format!("{}.{}", version.major, version.minor);
    let library_fits = fits(&pattern.library_description, &library.libraryDescription)
        && fits(&pattern.library_manufacturer, &library.manufacturerID)
        && pattern.library_version.as_ref().is_none_or(|wanted| *wanted == version);
    if !library_fits {
        let name = trimmed(&library.libraryDescription);
        return Err(format!("the module is `{name}` {version}, which the URI does not mean"));
    }
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for slot in module.slots().map_err(in_words)? {
        // A token may be taken out while its neighbours are asked.
        let Ok(info) = module.token_info(slot) else { continue };
        if !has(info.flags, ck::CKF_TOKEN_INITIALIZED) {
            continue;
        }
        let token_fits = fits(&pattern.label, &info.label)
            && fits(&pattern.manufacturer, &info.manufacturerID)
            && fits(&pattern.model, &info.model)
            && fits(&pattern.serial, &info.serialNumber)
            && pattern.slot_id.is_none_or(|wanted| wanted == slot);
        if token_fits && slot_fits(module, slot, pattern) {
            found.push((slot, info));
        } else {
            others.push(describe(&info));
        }
    }
    match found.as_slice() {
        [one] => Ok(*one),
        [] if others.is_empty() => Err("the module has no initialised token".to_owned()),
        [] => Err(format!("no token is the one named; there are: {}", others.join(", "))),
        several => {
            let names: Vec<_> = several.iter().map(|(_, info)| describe(info)).collect();
            Err(format!(
                "several tokens are meant: {}; name one with token= or serial=",
                names.join(", ")
            ))
        }
    }
}

fn slot_fits(module: &Module, slot: CK_SLOT_ID, pattern: &TokenPattern) -> bool {
    if pattern.slot_description.is_none() && pattern.slot_manufacturer.is_none() {
        return true;
    }
    module.slot_info(slot).is_ok_and(|info| {
        fits(&pattern.slot_description, &info.slotDescription)
            && fits(&pattern.slot_manufacturer, &info.manufacturerID)
    })
}

fn log_in(
    anchor: &mut Channel,
    info: &CK_TOKEN_INFO,
    pin_file: Option<&Path>,
    prompt: &PinPrompt<'_>,
) -> Result<(), String> {
    let flagged = |flag| has(info.flags, flag);
    // Trying would count as one more wrong PIN with some tokens.
    if flagged(ck::CKF_USER_PIN_LOCKED) {
        return Err(refused(&Failure { function: "C_GetTokenInfo", code: ck::CKR_PIN_LOCKED }));
    }
    let pin =
        if let Some(path) = pin_file {
            Some(read_pin(path).map_err(|error| {
                format!("the PIN file {} can't be read: {error}", path.display())
            })?)
        } else if flagged(ck::CKF_PROTECTED_AUTHENTICATION_PATH) {
            None
        } else {
            Some(prompt(&describe(info)).ok_or(
                "the token asks for a PIN; put it in a file and name that as pin-source=file:PATH",
            )?)
        };
    match anchor.log_in(pin.as_ref().map(|pin| pin.as_slice())) {
        Ok(()) => Ok(()),
        Err(failure) if failure.code == ck::CKR_USER_ALREADY_LOGGED_IN => Ok(()),
        Err(failure) => {
            let last = failure.code == ck::CKR_PIN_INCORRECT && flagged(ck::CKF_USER_PIN_FINAL_TRY);
            let warning = if last { "; that was the last try, it is locked now" } else { "" };
            Err(format!("{}{warning}", refused(&failure)))
        }
    }
}

/// The first line of a file, without its end.
fn read_pin(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    // Room from the start, so that growing leaves no copy behind.
    let mut pin = Zeroizing::new(Vec::with_capacity(LONGEST_PIN + 2));
    File::open(path)?.take(LONGEST_PIN as u64 + 2).read_to_end(&mut pin)?;
    let end = pin.iter().position(|&byte| byte == b'\n').unwrap_or(pin.len());
    pin.truncate(end);
    if pin.last() == Some(&b'\r') {
        pin.pop();
    }
    if pin.is_empty() || pin.len() > LONGEST_PIN {
        return Err(io::Error::other("its first line is empty or too long to be a PIN"));
    }
    Ok(pin)
}

fn find_key(anchor: &mut Channel, pattern: &ObjectPattern) -> Result<HeldKey, String> {
    let handles = anchor
        .find_keys(pattern.label.as_deref(), pattern.id.as_deref())
        .map_err(|failure| refused(&failure))?;
    let handle = match handles.as_slice() {
        [one] => *one,
        [] => return Err("the token has no secret key of this name that it shows".to_owned()),
        _ => return Err("several keys are meant; name one with object= and id=".to_owned()),
    };
    let kind = anchor.number(handle, ck::CKA_KEY_TYPE).ok_or("the token hides the key's type")?;
    let length = anchor.number(handle, ck::CKA_VALUE_LEN).map(|length| length as usize);
    if kind == ck::CKK_AES && length.is_none() {
        return Err("the token hides the key's length".to_owned());
    }
    let encrypts = anchor.is_set(handle, ck::CKA_ENCRYPT);
    let decrypts = anchor.is_set(handle, ck::CKA_DECRYPT);
    Ok(HeldKey { handle, kind, length, encrypts, decrypts })
}

/// The ciphers of the token's mechanism list.
fn able(module: &Module, slot: CK_SLOT_ID) -> Result<Vec<(Cipher, Direction)>, Failure> {
    let present = module.mechanisms(slot)?;
    let mut able = Vec::new();
    for &cipher in Cipher::ALL {
        let Some((kind, _)) = mechanism(cipher).filter(|(kind, _)| present.contains(kind)) else {
            continue;
        };
        let info = module.mechanism_info(slot, kind)?;
        if !includes_length(cipher, info.ulMinKeySize as usize, info.ulMaxKeySize as usize) {
            continue;
        }
        for (direction, flag) in
            [(Direction::Encrypt, ck::CKF_ENCRYPT), (Direction::Decrypt, ck::CKF_DECRYPT)]
        {
            if has(info.flags, flag) {
                able.push((cipher, direction));
            }
        }
    }
    Ok(able)
}

fn describe(info: &CK_TOKEN_INFO) -> String {
    let (label, model) = (trimmed(&info.label), trimmed(&info.model));
    format!("token `{label}`, {model}, serial {}", trimmed(&info.serialNumber))
}

fn fits(wanted: &Option<String>, field: &[u8]) -> bool {
    wanted.as_ref().is_none_or(|wanted| *wanted == trimmed(field))
}

/// A field that is padded with spaces, as the standard has it, or with zeros.
fn trimmed(field: &[u8]) -> String {
    String::from_utf8_lossy(field).trim_end_matches([' ', '\0']).to_owned()
}

/// In bytes. Tokens take much shorter ones.
const LONGEST_PIN: usize = 1_024;

/// p11-kit's module, which holds those that the system is configured with.
const DEFAULT_LIBRARY: &str = "p11-kit-proxy.so";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_pin_is_the_first_line_of_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pin");
        let read = |content: &[u8]| {
            fs::write(&path, content).unwrap();
            read_pin(&path).map(|pin| pin.to_vec()).ok()
        };
        assert_eq!(read(b"1234"), Some(b"1234".to_vec()));
        assert_eq!(read(b"12 34\r\nnote\n"), Some(b"12 34".to_vec()));
        assert_eq!(read(b"\n1234"), None);
        assert_eq!(read(&[b'1'; LONGEST_PIN + 1]), None);
        assert!(read_pin(directory.path()).is_err());
    }
}
