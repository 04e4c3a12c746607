//! The dialogue of age's plugins with the user.

use zeroize::Zeroizing;

/// Speaks with the user for a plugin. A plugin may send any text.
pub trait Dialogue: Send + Sync {
    /// Shows a message, such as a request to touch a device.
    fn tell(&self, message: &str);

    /// Asks for a line, such as a device's PIN if it is secret; `None` when there is no user to
    /// ask.
    fn ask(&self, question: &str, is_secret: bool) -> Option<Zeroizing<String>>;

    /// Asks for confirmation, where `yes` and `no` label the answers; `None` when there is no user
    /// to ask.
    fn confirm(&self, question: &str, yes: &str, no: Option<&str>) -> Option<bool>;
}

/// A dialogue without a user.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDialogue;

impl Dialogue for NoDialogue {
    fn tell(&self, _message: &str) {}

    fn ask(&self, _question: &str, _is_secret: bool) -> Option<Zeroizing<String>> {
        None
    }

    fn confirm(&self, _question: &str, _yes: &str, _no: Option<&str>) -> Option<bool> {
        None
    }
}
