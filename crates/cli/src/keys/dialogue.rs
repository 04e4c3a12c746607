//! Shows the messages and questions of age's plugins on the terminal.

use evener::keys::age::Dialogue;
use zeroize::Zeroizing;

use crate::signals::Signals;
use crate::trouble::complain;

/// The user at the terminal. Typed text is not shown: it may be a PIN.
pub(crate) struct AtTerminal {
    pub(crate) signals: Signals,
}

impl AtTerminal {
    /// Returns one line in answer to a question; `None` if there is no terminal.
    fn answer(&self, question: &str) -> Option<Zeroizing<String>> {
        let typed = self.signals.ask(&format!("{}: ", in_one_line(question))).ok()?;
        std::str::from_utf8(&typed).ok().map(|text| Zeroizing::new(text.to_owned()))
    }
}

impl Dialogue for AtTerminal {
    fn tell(&self, message: &str) {
        complain(&in_one_line(message));
    }

    fn ask(&self, question: &str, _is_secret: bool) -> Option<Zeroizing<String>> {
        self.answer(question)
    }

    fn confirm(&self, question: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        let no = no.unwrap_or("no");
        let answer = self.answer(&format!("{question} (y: {yes}, n: {no})"))?;
        Some(answer.trim().eq_ignore_ascii_case("y"))
    }
}

/// The age crate puts names between marks for right-to-left text, which nobody should see.
fn in_one_line(text: &str) -> String {
    let text = text.replace(|each| ('\u{2066}'..='\u{2069}').contains(&each), "");
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_direction_and_ends_of_lines_are_left_out() {
        let text = " Waiting for \u{2068}age-plugin-x\u{2069}...\n\nTouch it. \n";
        assert_eq!(in_one_line(text), "Waiting for age-plugin-x... Touch it.");
    }
}
