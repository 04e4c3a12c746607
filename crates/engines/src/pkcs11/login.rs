//! Logging in to a token and finding a key in it, as often as it takes.
//!
//! A login lasts as long as the process has any session with the token, so one is opened for
//! nothing else: the anchor of a [`Stay`]. Where sessions are scarce a stay ends with the last
//! session at work and another begins with the next, so that a process that waits for its turn
//! keeps none. The PIN is kept for that; a person at a PIN pad is not asked twice, so there the
//! first stay goes on.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use cryptoki_sys as ck;
use cryptoki_sys::{CK_KEY_TYPE, CK_OBJECT_HANDLE, CK_SLOT_ID, CK_TOKEN_INFO};
use evener_core::{Cipher, Direction};
use zeroize::Zeroizing;

use super::mechanism::takes_key;
use super::sys::{Channel, Failure, Module, current_user, has};
use super::uri::ObjectPattern;
use super::words::refused;
use crate::probing::{Waiter, close_within};

/// What it takes to log in to a token.
pub(super) struct Login {
    module: Arc<Module>,
    slot: CK_SLOT_ID,
    /// `None` where nobody has to log in.
    pin: Option<Pin>,
    /// The key to work with, if one was named.
    key: Option<ObjectPattern>,
    current: Mutex<Current>,
    /// A stay that lasts as long as this.
    kept: Option<Arc<Stay>>,
}

enum Current {
    Stay(Weak<Stay>),
    /// The token refused to let the user in again. Another try might lock the PIN.
    Refused(String),
}

/// Being logged in, if the token wants that, with the key that was named, if one was.
pub(super) struct Stay {
    pub(super) held: Option<HeldKey>,
    /// `None` only while it is dropped.
    anchor: Option<Channel>,
}

impl Drop for Stay {
    /// The module may hang in this as in any call, and here nobody else waits with a deadline.
    fn drop(&mut self) {
        if let Some(anchor) = self.anchor.take() {
            close_within(LONGEST_CLOSING, anchor);
        }
    }
}

impl Login {
    pub(super) fn new(
        module: &Arc<Module>,
        slot: CK_SLOT_ID,
        pin: Option<Pin>,
        key: Option<ObjectPattern>,
    ) -> Login {
        let current = Mutex::new(Current::Stay(Weak::new()));
        Login { module: Arc::clone(module), slot, pin, key, current, kept: None }
    }

    /// Logs in for the first time. The stay goes on unless sessions are `scarce`.
    pub(super) fn try_out(
        &mut self,
        info: &CK_TOKEN_INFO,
        scarce: bool,
    ) -> Result<Arc<Stay>, String> {
        let anchor = self.open_between_others().map_err(|failure| refused(&failure))?;
        let stay = Arc::new(self.begin(anchor).map_err(|error| match error {
            Refusal::Login(failure) => {
                let last = failure.code == ck::CKR_PIN_INCORRECT
                    && has(info.flags, ck::CKF_USER_PIN_FINAL_TRY);
                let warning = if last { "; that was the last try, it is locked now" } else { "" };
                format!("{}{warning}", refused(&failure))
            }
            Refusal::Other(words) => words,
        })?);
        self.current = Mutex::new(Current::Stay(Arc::downgrade(&stay)));
        if !scarce || matches!(self.pin, Some(Pin::Pad)) {
            self.kept = Some(Arc::clone(&stay));
        }
        Ok(stay)
    }

    /// The stay that others are in, or a new one.
    pub(super) fn stay(&self) -> Result<Arc<Stay>, String> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Current::Stay(stay) => {
                if let Some(stay) = stay.upgrade() {
                    return Ok(stay);
                }
            }
            Current::Refused(words) => return Err(words.clone()),
        }
        let anchor = Channel::open(&self.module, self.slot).map_err(|failure| refused(&failure))?;
        match self.begin(anchor) {
            Ok(stay) => {
                let stay = Arc::new(stay);
                *current = Current::Stay(Arc::downgrade(&stay));
                Ok(stay)
            }
            Err(Refusal::Login(failure)) => {
                let words = refused(&failure);
                *current = Current::Refused(words.clone());
                Err(words)
            }
            Err(Refusal::Other(words)) => Err(words),
        }
    }

    /// Whether the user logs in, and may have private objects.
    pub(super) fn is_private(&self) -> bool {
        self.pin.is_some()
    }

    /// Whether a key in the token was named.
    pub(super) fn names_key(&self) -> bool {
        self.key.is_some()
    }

    fn begin(&self, mut anchor: Channel) -> Result<Stay, Refusal> {
        if let Some(pin) = &self.pin {
            match anchor.log_in(pin.bytes()) {
                Ok(()) => {}
                Err(failure) if failure.code == ck::CKR_USER_ALREADY_LOGGED_IN => {}
                Err(failure) => return Err(Refusal::Login(failure)),
            }
        }
        let find = |pattern| find_key(&mut anchor, pattern);
        let held = self.key.as_ref().map(find).transpose().map_err(Refusal::Other)?;
        Ok(Stay { held, anchor: Some(anchor) })
    }

    /// Opens a session; while other processes look at the token too, and so have its last
    /// sessions for a moment, it tries again.
    fn open_between_others(&self) -> Result<Channel, Failure> {
        let start = Instant::now();
        loop {
            match Channel::open(&self.module, self.slot) {
                Err(failure)
                    if failure.code == ck::CKR_SESSION_COUNT && start.elapsed() < LONGEST_LOOK =>
                {
                    thread::sleep(BETWEEN_LOOKS);
                }
                opened => return opened,
            }
        }
    }
}

enum Refusal {
    Login(Failure),
    Other(String),
}

/// How a user shows who they are.
pub(super) enum Pin {
    Typed(Zeroizing<Vec<u8>>),
    /// At the token itself.
    Pad,
}

impl Pin {
    /// The token's PIN, from its file or from somebody who is asked; `token` names it for people.
    pub(super) fn find(
        info: &CK_TOKEN_INFO,
        token: &str,
        file: Option<&Path>,
        waiter: &Waiter,
    ) -> Result<Pin, String> {
        // Trying would count as one more wrong PIN with some tokens.
        if has(info.flags, ck::CKF_USER_PIN_LOCKED) {
            return Err(refused(&Failure { function: "C_GetTokenInfo", code: ck::CKR_PIN_LOCKED }));
        }
        if let Some(path) = file {
            let pin = read_pin(path).map_err(|error| {
                format!("the PIN file {} can't be read: {error}", evener_core::shown(path))
            })?;
            return Ok(Pin::Typed(pin));
        }
        if has(info.flags, ck::CKF_PROTECTED_AUTHENTICATION_PATH) {
            waiter.expect(LONGEST_TYPING);
            return Ok(Pin::Pad);
        }
        waiter.ask(token).map(Pin::Typed).ok_or_else(|| {
            "the token asks for a PIN; put it in a file and name that as pin-source=file:PATH"
                .to_owned()
        })
    }

    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Pin::Typed(pin) => Some(pin),
            Pin::Pad => None,
        }
    }
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

impl HeldKey {
    pub(super) fn serves(&self, cipher: Cipher, direction: Direction) -> bool {
        let allowed = match direction {
            Direction::Encrypt => self.encrypts,
            Direction::Decrypt => self.decrypts,
        };
        allowed && takes_key(cipher, self.kind, self.length)
    }
}

/// The first line of a file that is its owner's alone, without its end.
fn read_pin(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    // Room from the start, so that growing leaves no copy behind.
    let mut pin = Zeroizing::new(Vec::with_capacity(LONGEST_PIN + 2));
    let file = File::open(path)?;
    check_private(&file.metadata()?).map_err(io::Error::other)?;
    file.take(LONGEST_PIN as u64 + 2).read_to_end(&mut pin)?;
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

/// Refuses a file that others can read, or could have written, by the rules for key files. A pipe
/// or a device is whoever opened it for this process.
fn check_private(metadata: &Metadata) -> Result<(), String> {
    let mode = metadata.mode() & 0o7777;
    if !metadata.is_file() {
        return Ok(());
    }
    if mode & 0o077 != 0 {
        return Err(format!(
            "its mode {mode:o} lets others use it; make it its owner's alone (chmod 600)"
        ));
    }
    let user = current_user();
    if ![0, metadata.uid()].contains(&user) && metadata.uid() != 0 {
        return Err(format!(
            "it belongs to the user {}, and this program runs as {user}",
            metadata.uid()
        ));
    }
    Ok(())
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

/// In bytes. Tokens take much shorter ones.
const LONGEST_PIN: usize = 1_024;

/// At a token's PIN pad, by a person who was not warned.
const LONGEST_TYPING: Duration = Duration::from_secs(300);

/// A session that takes longer to close is left to itself.
const LONGEST_CLOSING: Duration = Duration::from_secs(2);

/// Whoever looks at a token has a session for some milliseconds.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_pin_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pin");
        fs::write(&path, "1234\n").unwrap();
        for mode in [0o644, 0o640, 0o604, 0o620, 0o660] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let words = read_pin(&path).unwrap_err().to_string();
            assert!(words.contains(&format!("{mode:o}")) && words.contains("chmod 600"), "{words}");
            assert!(!words.contains("1234"));
        }
        for mode in [0o600, 0o400] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(read_pin(&path).is_ok());
        }
    }

    #[test]
    fn a_pin_is_the_first_line_of_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pin");
        let read = |content: &[u8]| {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            read_pin(&path).map(|pin| pin.to_vec()).ok()
        };
        assert_eq!(read(b"1234"), Some(b"1234".to_vec()));
        assert_eq!(read(b"12 34\r\nnote\n"), Some(b"12 34".to_vec()));
        assert_eq!(read(b"\n1234"), None);
        assert_eq!(read(&[b'1'; LONGEST_PIN + 1]), None);
        assert!(read_pin(directory.path()).is_err());
    }
}
