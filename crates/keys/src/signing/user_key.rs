//! Keys of the user, with which `ssh-keygen` signs.

use std::env;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ssh_key::private::PrivateKey;

use super::{Dialogue, NAMESPACE, PublicKey, PublicKeyFault, SignatureError, SigningError, verify};
use crate::KeyError;
use crate::key_file::{LONGEST, read};
use crate::text::plain_text;

/// A key of the user's: a private key file of OpenSSH, or a public key file whose private key
/// ssh-agent or a security key holds. It keeps the public key alone.
#[derive(Clone, Debug)]
pub struct UserKey {
    path: PathBuf,
    public: PublicKey,
    comment: String,
}

impl UserKey {
    /// Takes a key by the path that `ssh-keygen -f` takes. The public key is read from `PATH.pub`,
    /// and without that file from `path`, which may also be a public key, or a private key in
    /// OpenSSH's own format, which shows its public key even if it has a passphrase.
    ///
    /// # Errors
    /// Says why the public key can't be read or can't sign.
    pub fn new(path: &Path) -> Result<UserKey, SigningError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".pub");
        let (source, contents) = match read(Path::new(&beside), ACTION) {
            Err(KeyError::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
                (path, read(path, ACTION)?)
            }
            contents => (Path::new(&beside), contents?),
        };
        let (public, comment) = public_key(&contents.bytes)
            .map_err(|fault| SigningError::PublicKey { path: source.to_owned(), fault })?;
        Ok(UserKey { path: path.to_owned(), public, comment })
    }

    /// The public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The comment of the public key, often the user's name; empty if there is none.
    pub fn comment(&self) -> &str {
        &self.comment
    }

    /// Has `ssh-keygen` sign a message in [`NAMESPACE`]; returns a binary SSHSIG of
    /// [`UserKey::public`], verified. OpenSSH asks for a passphrase or a PIN itself: on the terminal,
    /// without one with the program in `SSH_ASKPASS`, or as `SSH_ASKPASS_REQUIRE` says. `dialogue`
    /// shows the request to touch a security key.
    ///
    /// # Errors
    /// Says why there is no such signature and what to do next.
    pub fn sign(&self, message: &[u8], dialogue: &dyn Dialogue) -> Result<Vec<u8>, SigningError> {
        self.sign_with(message, dialogue, |command, talk| {
            talk(&mut command.spawn()?);
            Ok(())
        })
    }

    /// As [`UserKey::sign`], for programs that handle signals: `start` spawns the command and passes
    /// the child to the other function, which returns when that has ended.
    ///
    /// # Errors
    /// Those of [`UserKey::sign`].
    pub fn sign_with(
        &self,
        message: &[u8],
        dialogue: &dyn Dialogue,
        start: impl FnOnce(&mut Command, &mut dyn FnMut(&mut Child)) -> io::Result<()>,
    ) -> Result<Vec<u8>, SigningError> {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-Y", "sign", "-n", NAMESPACE, "-f"]).arg(&self.path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if env::var_os(ASKPASS_REQUIRE).is_none() {
            command.env(ASKPASS_REQUIRE, if has_terminal() { "never" } else { "force" });
        }
        let mut ended = None;
        start(&mut command, &mut |child| ended = Some(talk(child, message, dialogue)))
            .map_err(|cause| self.not_started(cause))?;
        let ended = ended.unwrap_or_else(|| Err(io::ErrorKind::Interrupted.into()));
        self.signature(message, ended.map_err(|cause| self.failed(cause))?)
    }

    fn not_started(&self, cause: io::Error) -> SigningError {
        match cause.kind() {
            io::ErrorKind::NotFound => SigningError::Missing { path: self.path.clone() },
            _ => self.failed(cause),
        }
    }

    fn failed(&self, cause: io::Error) -> SigningError {
        SigningError::Io { path: self.path.clone(), cause }
    }

    fn signature(&self, message: &[u8], ended: Ended) -> Result<Vec<u8>, SigningError> {
        let path = self.path.clone();
        if !ended.status.success() {
            let message = match ended.last_line.is_empty() {
                true => ended.status.to_string(),
                false => ended.last_line,
            };
            return Err(SigningError::Failed { path, message });
        }
        let made = unarmoured(&ended.output).ok_or(SignatureError::Malformed);
        match made.and_then(|made| verify(&made, message).map(|key| (made, key))) {
            Ok((made, key)) if key == self.public => Ok(made),
            Ok(_) => Err(SigningError::OtherKey { path }),
            Err(cause) => Err(SigningError::Unusable { path, cause }),
        }
    }
}

/// The end of `ssh-keygen`.
struct Ended {
    status: ExitStatus,
    output: Vec<u8>,
    /// Of its standard error, without blanks around it.
    last_line: String,
}

/// Passes the message to `ssh-keygen`, and waits for its end.
fn talk(child: &mut Child, message: &[u8], dialogue: &dyn Dialogue) -> io::Result<Ended> {
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(message));
    let mut last_line = String::new();
    let said = child.stderr.take().map(|said| BufReader::new(said.take(LONGEST as u64)));
    for line in said.into_iter().flat_map(|said| said.split(b'\n')) {
        let line = String::from_utf8_lossy(&line?).trim().to_owned();
        if line.starts_with(REQUEST) {
            dialogue.tell(&line);
        }
        if !line.is_empty() {
            last_line = line;
        }
    }
    let mut output = Vec::new();
    if let Some(made) = child.stdout.take() {
        made.take(LONGEST as u64).read_to_end(&mut output)?;
    }
    let status = child.wait()?;
    // A program that failed said why, and need not have read the message.
    if status.success() {
        written?;
    }
    Ok(Ended { status, output, last_line })
}

fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// The public key of a file, and its comment.
fn public_key(contents: &[u8]) -> Result<(PublicKey, String), PublicKeyFault> {
    let text = plain_text(contents).map_err(|_| PublicKeyFault::Malformed)?;
    if text.trim_ascii_start().starts_with(b"-----BEGIN ") {
        let key = PrivateKey::from_openssh(text).map_err(|_| PublicKeyFault::Malformed)?;
        let wire = key.public_key().to_bytes().map_err(|_| PublicKeyFault::Malformed)?;
        return Ok((PublicKey::from_wire(&wire)?, key.comment().to_owned()));
    }
    let text = std::str::from_utf8(text).map_err(|_| PublicKeyFault::Malformed)?;
    let is_key = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let line = text.lines().map(str::trim).find(is_key).ok_or(PublicKeyFault::Malformed)?;
    PublicKey::from_line(line)
}

/// The bytes of an armoured signature.
fn unarmoured(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let text = text.strip_prefix("-----BEGIN SSH SIGNATURE-----")?;
    let text = text.strip_suffix("-----END SSH SIGNATURE-----")?;
    let encoded: String = text.split_ascii_whitespace().collect();
    BASE64_STANDARD.decode(encoded).ok()
}

/// Decides where OpenSSH asks. Unset, and with a pipe as standard input, it would not ask on the
/// terminal where there is a display too, and would take the message for the passphrase where there
/// is neither.
const ASKPASS_REQUIRE: &str = "SSH_ASKPASS_REQUIRE";

const ACTION: &str = "read the public key";

/// The beginning of the message that asks to touch a security key.
const REQUEST: &str = "Confirm user presence";
