//! Tokens and HSMs, through PKCS #11.
//!
//! `pkcs11:…` is the URI of a token (RFC 7512) or of a key in it. A token, for jobs with their own
//! keys: `pkcs11:token=NAME?module-path=/usr/lib/…/libsofthsm2.so&pin-source=file:PIN`. Keys are
//! made in it as session objects, which end with the session. `object=LABEL` or `id=%01%02` selects
//! a secret key that is in the token and never leaves it; the engine then processes only jobs
//! without a key (see [`Engine::holds_key`]).
//!
//! A PIN comes from the file that `pin-source` names, from the token's own PIN pad, or from the
//! caller's prompt; never from the URI, because other users can see command lines.

mod login;
mod mechanism;
mod probe;
mod refused;
mod session;
mod sys;
#[cfg(all(test, target_os = "linux", feature = "openssl"))]
mod tests;
mod uri;
mod words;

use std::sync::Arc;
use std::time::Duration;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Offer, Session, SessionRequest,
};

use crate::probing::{Found, PinPrompt};
use crate::{cores, probing};
use login::Attendance;
use probe::Token;
pub use refused::{await_logins, forget_refused_pins};
use session::Pkcs11Session;
use uri::Uri;

/// Finds the token, without a prompt for the PIN.
pub(crate) fn probe(parameters: &str) -> Found {
    Ok(vec![find(parameters, &|_| None)?])
}

/// Returns whether the parameters are the URI of a token, whose library is then loaded.
pub(crate) fn loads_foreign_code(parameters: &str) -> bool {
    read(parameters).is_ok()
}

/// Finds the token of a URI, given without `pkcs11:`.
pub(crate) fn find(
    parameters: &str,
    prompt: &PinPrompt<'_>,
) -> Result<Arc<dyn Engine>, EngineError> {
    let uri = read(parameters).map_err(malformed)?;
    let name = format!("{NAME}:{parameters}");
    find_within(probing::DEADLINE, name, uri, Attendance::Attended, prompt)
}

/// Finds the token for an unattended process, for jobs with their own keys.
pub(crate) fn probe_unattended(parameters: &str) -> Found {
    let uri = read_token(parameters).map_err(malformed)?;
    let name = format!("{NAME}:{parameters}");
    let unattended = Attendance::Unattended;
    Ok(vec![find_within(probing::DEADLINE, name, uri, unattended, &|_| None)?])
}

/// Checks the URI of a token without opening anything.
pub(crate) fn check_token(parameters: Option<&str>) -> Result<(), String> {
    read_token(parameters.unwrap_or_default()).map(drop)
}

/// Parses a URI. The error does not repeat the URI, since it may contain a PIN.
fn read(parameters: &str) -> Result<Uri, String> {
    if parameters.is_empty() {
        return Err("name a token, as in pkcs11:token=NAME".to_owned());
    }
    Uri::parse(parameters).map_err(|error| error.to_string())
}

/// Parses a URI that names no key.
fn read_token(parameters: &str) -> Result<Uri, String> {
    match read(parameters)? {
        uri if uri.object.is_some() => {
            Err("the keys are made elsewhere and not in the token; leave out object= and id="
                .to_owned())
        }
        uri => Ok(uri),
    }
}

/// Finds the token, with a time limit for each call into its module.
fn find_within(
    deadline: Duration,
    name: String,
    uri: Uri,
    attendance: Attendance,
    prompt: &PinPrompt<'_>,
) -> Result<Arc<dyn Engine>, EngineError> {
    let look = move |waiter: &probing::Waiter| -> Found {
        match Token::find(&uri, attendance, waiter) {
            Ok(token) => Ok(vec![Arc::new(Pkcs11Engine::new(name, token))]),
            Err(reason) => Err(EngineError::unavailable(reason)),
        }
    };
    let found = probing::within(deadline, prompt, look)?;
    found.into_iter().next().ok_or_else(|| EngineError::unavailable("nothing was found"))
}

/// Makes the end of the process wait for calls into tokens' libraries, and lets none begin then.
/// For callers that look for a token on a thread of its own: the process may end before that thread
/// has found it.
pub fn expect_end() {
    sys::wait_at_exit();
}

/// Parses a URI without opening anything.
#[cfg(feature = "fuzzing")]
pub(crate) fn check_uri(parameters: &str) -> Result<(), String> {
    Uri::parse(parameters).map(drop).map_err(|error| error.to_string())
}

struct Pkcs11Engine {
    description: Description,
    offer: Offer,
    token: Arc<Token>,
}

impl Pkcs11Engine {
    fn new(name: String, token: Token) -> Pkcs11Engine {
        let usual = cores::available_cores().max(LEAST_DEPTH);
        // One session belongs to the stay.
        let depth = token.session_limit.map_or(usual, |limit| usual.min(limit.max(2) - 1));
        Pkcs11Engine {
            description: Description::module(name).detail(token.detail.clone()),
            offer: Offer::new(depth)
                .holders(token.session_limit.map(|limit| holders(limit, usual))),
            token: Arc::new(token),
        }
    }
}

impl Engine for Pkcs11Engine {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.token.performs(cipher, direction).then_some(self.offer)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(Pkcs11Session::open(&self.token, request)?))
    }

    fn holds_key(&self) -> bool {
        self.token.login.names_key()
    }
}

/// Number of processes that a token with this many sessions serves. Each needs one session for its
/// login and one for every worker, and one session is left for processes that probe the token.
fn holders(session_limit: usize, workers: usize) -> usize {
    (session_limit.saturating_sub(1) / (workers + 1)).max(1)
}

/// The error of a URI, which is not repeated.
fn malformed(reason: String) -> EngineError {
    EngineError::unavailable(reason).of(NAME)
}

/// Tokens don't report how many requests they serve at once. With two workers, one prepares a
/// request while the token works for the other.
const LEAST_DEPTH: usize = 2;

pub(crate) const NAME: &str = "pkcs11";
