//! The provider's section of OpenSSL's configuration.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use evener_core::Mode;

use crate::machine;

/// The place where records are counted.
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
    /// Parses the value of `counters`, if the section has that line. The error is the message about
    /// an invalid value.
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

/// The module for records, and its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Routing {
    /// Its name, as the program `evener` takes it.
    pub(crate) engine: String,
    /// The AES modes that use it.
    pub(crate) modes: Vec<Mode>,
    /// The shortest text for the module, in bytes; `None` to measure it.
    pub(crate) crossover: Option<usize>,
    /// One result in this many is computed again.
    pub(crate) verify_every: u64,
    /// The most processes that use it at once; `None` for the module's own limit.
    pub(crate) permits: Option<usize>,
    /// The steps of the nice value by which a thread that uses it raises its priority.
    pub(crate) ahead: Option<i32>,
}

impl Routing {
    /// Parses the lines of the section. An invalid line is reported and ignored; if it is `engine`
    /// or `modes`, no module is used.
    pub(crate) fn parse<'v>(
        value: impl Fn(&'static CStr) -> Option<&'v CStr>,
        tell: &mut dyn FnMut(String),
    ) -> Option<Routing> {
        let Some(engine) = value(ENGINE).map(CStr::to_bytes) else {
            let lines = [MODES, CROSSOVER, VERIFY, PERMITS, AHEAD].into_iter();
            for line in lines.filter(|line| value(line).is_some()) {
                tell(format!("`{}` does nothing without `engine`", line.to_bytes().escape_ascii()));
            }
            return None;
        };
        let name = str::from_utf8(engine).map_err(|error| error.to_string());
        let name = match name.and_then(|name| machine::check(name).map(|()| name)) {
            Ok(name) => name,
            Err(reason) => {
                // A PIN may follow the colon, and must not get into logs.
                let kind = engine.split(|&byte| byte == b':').next().unwrap_or_default();
                let kind = kind.escape_ascii();
                tell(format!("`engine = {kind}`: {reason}; no module is used"));
                return None;
            }
        };
        let modes = value(MODES).map_or(Some(vec![Mode::Gcm]), |text| {
            let modes = modes(text.to_bytes());
            if modes.is_none() {
                let text = text.to_bytes().escape_ascii();
                tell(format!(
                    "`modes = {text}` is neither gcm nor cbc nor both; no module is used"
                ));
            }
            modes
        })?;
        let mut number = |line: &'static CStr, most: usize| {
            let text = value(line)?.to_bytes();
            let number = str::from_utf8(text).ok().and_then(|text| text.parse::<usize>().ok());
            let number = number.filter(|&number| number > 0 && number <= most);
            if number.is_none() {
                let (line, text) = (line.to_bytes().escape_ascii(), text.escape_ascii());
                let most = if most == usize::MAX { String::new() } else { format!(" to {most}") };
                tell(format!("`{line} = {text}` is no number from 1{most}; the line is left out"));
            }
            number
        };
        Some(Routing {
            engine: name.to_owned(),
            modes,
            crossover: number(CROSSOVER, usize::MAX),
            verify_every: number(VERIFY, usize::MAX).map_or(VERIFIED, |every| every as u64),
            permits: number(PERMITS, usize::MAX),
            ahead: number(AHEAD, MOST_AHEAD).map(|steps| steps as i32),
        })
    }
}

/// Parses modes with commas or blanks between them.
fn modes(text: &[u8]) -> Option<Vec<Mode>> {
    let words = text.split(|byte| b", ".contains(byte)).filter(|word| !word.is_empty());
    let mode = |word: &[u8]| match word {
        b"gcm" => Some(Mode::Gcm),
        b"cbc" => Some(Mode::Cbc),
        _ => None,
    };
    words.map(mode).collect::<Option<Vec<_>>>().filter(|modes| !modes.is_empty())
}

/// The names of the section's lines.
pub(crate) const COUNTERS: &CStr = c"counters";
const ENGINE: &CStr = c"engine";
const MODES: &CStr = c"modes";
const CROSSOVER: &CStr = c"crossover";
const VERIFY: &CStr = c"verify";
const PERMITS: &CStr = c"permits";
const AHEAD: &CStr = c"ahead";

/// One result in this many is computed again by default.
const VERIFIED: u64 = 100;

/// The steps from the usual nice value to the lowest one.
const MOST_AHEAD: usize = 20;

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

    #[test]
    fn lines_of_a_module_are_read_or_told_of() {
        let parse = |lines: &[(&'static CStr, &'static CStr)]| {
            let value =
                |line: &CStr| lines.iter().find(|(name, _)| *name == line).map(|(_, value)| *value);
            let mut told = Vec::new();
            let routing = Routing::parse(value, &mut |text| told.push(text));
            (routing, told)
        };
        let useless = "`crossover` does nothing without `engine`".to_owned();
        assert_eq!(parse(&[(c"crossover", c"1")]), (None, vec![useless]));
        let (routing, told) = parse(&[(c"engine", c"cryptodev:ctr-aes-caam"), (c"verify", c"7")]);
        let routing = routing.unwrap();
        assert_eq!((&*routing.engine, routing.verify_every), ("cryptodev:ctr-aes-caam", 7));
        assert_eq!((routing.crossover, routing.permits, told.len()), (None, None, 0));
        assert_eq!(routing.modes, [Mode::Gcm]);
        for (steps, expected) in [(c"1", Some(1)), (c"20", Some(20)), (c"21", None), (c"-5", None)]
        {
            let (routing, told) = parse(&[(c"engine", c"af_alg"), (c"ahead", steps)]);
            assert_eq!(routing.unwrap().ahead, expected);
            assert_eq!(told.is_empty(), expected.is_some(), "{told:?}");
        }
        for both in [c"gcm, cbc", c"gcm cbc", c"gcm,cbc"] {
            let (routing, told) = parse(&[(c"engine", c"af_alg"), (c"modes", both)]);
            assert_eq!((routing.unwrap().modes, told.len()), (vec![Mode::Gcm, Mode::Cbc], 0));
        }
        for wrong in [c"", c",", c"GCM", c"gcm;cbc", c"ctr", c"\xFF"] {
            let (routing, told) = parse(&[(c"engine", c"af_alg"), (c"modes", wrong)]);
            assert!(routing.is_none() && told[0].contains("neither gcm nor cbc"), "{told:?}");
        }
        for wrong in [c"", c"openssl", c"cryptodevs", c"cryptodev:", c"\xFF", c"model:am3358"] {
            let (routing, told) = parse(&[(c"engine", wrong)]);
            let is_told = told[0].contains("; no module is used") && !told[0].contains('\n');
            assert!(routing.is_none() && is_told, "{told:?}");
        }
        let token = c"pkcs11:token=a?module-path=/m.so&pin-source=/pin";
        assert!(parse(&[(c"engine", token)]).0.is_some());
        for wrong in [c"pkcs11:token=a?pin-value=648219", c"pkcs11:648219", c"648219:pkcs11"] {
            let (routing, told) = parse(&[(c"engine", wrong)]);
            let has_pin = wrong.to_bytes().starts_with(b"pkcs11") && told[0].contains("648219");
            assert!(routing.is_none() && !has_pin, "{told:?}");
        }
        for wrong in [c"", c"0", c"-1", c"1k", c"99999999999999999999", c"\xFF\n"] {
            let lines = [(c"engine", c"af_alg"), (c"crossover", wrong), (c"permits", wrong)];
            let (routing, told) = parse(&lines);
            let routing = routing.unwrap();
            assert_eq!((routing.crossover, routing.permits, told.len()), (None, None, 2));
            assert!(told.iter().all(|text| !text.contains('\n')), "{told:?}");
        }
    }
}
