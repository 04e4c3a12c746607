//! What the provider's section of OpenSSL's configuration says.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where records are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// Nowhere.
    Off,
    /// In the user's file.
    On,
    /// In this file.
    At(PathBuf),
}

impl Counting {
    /// The value of `counters`, if the section has that line. Where it can't be understood, the
    /// answer is what to say of it.
    pub(crate) fn parse(value: Option<&CStr>) -> Result<Counting, String> {
        match value.map(CStr::to_bytes) {
            None | Some(b"off" | b"no" | b"0") => Ok(Counting::Off),
            Some(b"on" | b"yes" | b"1") => Ok(Counting::On),
            Some(path) if path.starts_with(b"/") => {
                Ok(Counting::At(Path::new(OsStr::from_bytes(path)).to_path_buf()))
            }
            Some(other) => Err(format!(
                "`counters = {}` is neither on, off nor an absolute path; nothing is counted",
                other.escape_ascii()
            )),
        }
    }
}

/// The names of the section's lines.
pub(crate) const COUNTERS: &CStr = c"counters";

/// Says something on standard error: that is where a program's log begins.
pub(crate) fn warn(text: &dyn std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "evener: provider: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        assert_eq!(Counting::parse(None), Ok(Counting::Off));
        assert_eq!(Counting::parse(Some(c"on")), Ok(Counting::On));
        assert_eq!(Counting::parse(Some(c"/run/x")), Ok(Counting::At("/run/x".into())));
        for wrong in [c"", c"maybe", c"run/x", c"\xFF\n"] {
            let text = Counting::parse(Some(wrong)).unwrap_err();
            assert!(text.contains("neither on, off nor") && !text.contains('\n'), "{text}");
        }
    }
}
