//! OpenSSL without the CPU's AES instructions, in a child process.
//!
//! libcrypto examines the CPU once, when it is loaded, and an environment variable can mask what it
//! finds (`OPENSSL_ia32cap(3)`). So the program starts itself with that variable set, and the child
//! measures one figure. The article made the same comparison with and without `-evp`, the way to
//! AES-NI in its day.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use evener_core::{Cipher, Direction, Engine, shown_error};
use serde::Deserialize;

use super::case::Case;
use super::row::Row;
use super::sys;

/// An engine in a process that finds no AES instructions.
pub(super) struct Masked {
    program: PathBuf,
    engine: Arc<dyn Engine>,
    /// As [`SpeedOptions::messages`](super::SpeedOptions).
    messages: bool,
}

impl Masked {
    /// The engine without AES instructions, run by `program`, which has
    /// [`speed::Command`](super::Command) as its command `speed`; `None` if that makes no
    /// difference.
    pub(super) fn new(program: &Path, engine: &Arc<dyn Engine>, messages: bool) -> Option<Masked> {
        let has_effect = is_openssls(engine.as_ref()) && MASK.is_some() && openssl_has_aes();
        let (program, engine) = (program.to_owned(), engine.clone());
        has_effect.then_some(Masked { program, engine, messages })
    }

    /// Returns whether the mask affects this cipher.
    pub(super) fn concerns(&self, cipher: Cipher, direction: Direction) -> bool {
        is_aes(cipher) && self.engine.offer(cipher, direction).is_some()
    }

    /// As [`Contender::measure`](super::contender::Contender::measure).
    pub(super) fn measure(
        &self,
        case: &Case,
        threads: usize,
        time: Duration,
    ) -> Result<f64, String> {
        let (variable, value) = MASK.ok_or("this CPU's AES instructions can't be masked")?;
        let mut child = Command::new(&self.program);
        child.args(["speed", case.cipher.name(), "--as-is", "--json", "--rounds=1"]);
        child.arg(format!("--engine={}", self.engine.description().name));
        child.arg(format!("--bytes={}", case.bytes));
        child.arg(format!("--direction={}", case.direction));
        child.arg(format!("--threads={threads}"));
        child.arg(format!("--seconds={}", time.as_secs_f64().max(0.001)));
        child.args(self.messages.then_some("--messages"));
        let output = child.env(variable, value).stdin(Stdio::null()).output().map_err(|error| {
            format!("can't start {}: {}", evener_core::shown(&self.program), shown_error(&error))
        })?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(message.trim().lines().last().unwrap_or("it said nothing").to_owned());
        }
        read(&output.stdout)
    }
}

/// The one figure in a child's report.
fn read(json: &[u8]) -> Result<f64, String> {
    #[derive(Deserialize)]
    struct Report {
        rows: Vec<Row>,
    }
    let report: Report = serde_json::from_slice(json)
        .map_err(|error| format!("its report can't be understood: {error}"))?;
    match &report.rows[..] {
        [row] if row.kb_per_s <= 0.0 => Err("it has done nothing".to_owned()),
        [row] if !row.aes_instructions => Ok(row.kb_per_s),
        [_] => Err("the AES instructions could not be masked".to_owned()),
        rows => Err(format!("{} figures were measured, not one", rows.len())),
    }
}

/// Returns whether the linked OpenSSL finds AES instructions in this process.
pub(super) fn openssl_has_aes() -> bool {
    sys::cpu_settings().is_some_and(|settings| has_aes(&settings))
}

/// Returns whether the engine is a part of the linked OpenSSL.
pub(super) fn is_openssls(engine: &dyn Engine) -> bool {
    let name = &engine.description().name;
    name == "openssl" || name.starts_with("openssl:")
}

/// Returns whether the cipher can use the CPU's AES instructions.
pub(super) fn is_aes(cipher: Cipher) -> bool {
    cipher.name().starts_with("aes-")
}

/// Reads `OPENSSL_ia32cap=0x…:…` or `OPENSSL_armcap=0x…`.
fn has_aes(settings: &str) -> bool {
    let has = |name: &str, bit: u32| {
        let (_, value) = settings.split_once(name)?;
        let digits = value.split(|digit: char| !digit.is_ascii_hexdigit()).next()?;
        u64::from_str_radix(digits, 16).ok().map(|bits| bits >> bit & 1 == 1)
    };
    has("OPENSSL_ia32cap=0x", 57).or_else(|| has("OPENSSL_armcap=0x", 2)).unwrap_or(false)
}

/// Masks AES-NI and PCLMULQDQ in the first word and VAES and VPCLMULQDQ in the second on x86;
/// everything but NEON on ARM.
const MASK: Option<(&str, &str)> = if cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
    Some(("OPENSSL_ia32cap", "~0x200000200000000:~0x60000000000"))
} else if cfg!(any(target_arch = "arm", target_arch = "aarch64")) {
    Some(("OPENSSL_armcap", "0x1"))
} else {
    None
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_tell_of_aes() {
        assert!(has_aes("OPENSSL_ia32cap=0xfffa3203078bffff:0x405fc6f1bf07ab"));
        assert!(!has_aes("OPENSSL_ia32cap=0xfdfa3201078bffff:0x1 env:~0x200000200000000"));
        assert!(has_aes("OPENSSL_armcap=0x7d") && !has_aes("OPENSSL_armcap=0x1"));
        assert!(!has_aes("") && !has_aes("N/A"));
    }

    #[test]
    fn a_childs_report_has_one_figure_without_the_instructions() {
        let row = |aes| {
            format!(
                r#"{{"engine": "openssl", "cipher": "aes-256-cbc", "direction": "encrypt",
                "aes_instructions": {aes}, "threads": 1, "bytes": 16, "kb_per_s": 1.5}}"#
            )
        };
        let report = |rows: &str| read(format!(r#"{{"rows": [{rows}]}}"#).as_bytes());
        assert_eq!(report(&row(false)), Ok(1.5));
        assert!(report(&row(true)).is_err());
        assert!(report("").is_err() && read(b"oops").is_err());
    }
}
