//! The contenders: configurations of OpenSSL, and the counters of their providers.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::options::DEFAULT;
use super::site::Site;
use super::{Named, TlsOptions};
use crate::LabError;
use crate::process::{evener, run};

/// A configuration of OpenSSL.
pub(super) struct Contender {
    pub(super) name: String,
    /// The configuration, and the counters of its provider; OpenSSL's own has neither.
    evener: Option<Counted>,
}

struct Counted {
    configuration: PathBuf,
    counters: PathBuf,
    /// The program that reads the counters.
    program: PathBuf,
}

impl Contender {
    /// All contenders, `default` first.
    ///
    /// # Errors
    /// When a configuration can't be made or read, or has no counters.
    pub(super) fn all(options: &TlsOptions, site: &Site) -> Result<Vec<Contender>, LabError> {
        let mut all = vec![Contender { name: DEFAULT.to_owned(), evener: None }];
        let program = evener(options.evener.as_deref())?;
        for Named { name, configuration } in &options.contenders {
            if all.iter().any(|other| other.name == *name) {
                return Err(LabError::Unavailable(format!("there are two contenders `{name}`")));
            }
            let configuration = match configuration {
                Some(path) => path.canonicalize().map_err(LabError::file("find", path))?,
                None => configure(&program, options.provider.as_deref(), site)?,
            };
            let counters = counters(&configuration)?;
            let program = program.clone();
            let evener = Some(Counted { configuration, counters, program });
            all.push(Contender { name: name.clone(), evener });
        }
        Ok(all)
    }

    /// A command with the contender's configuration, not with this program's.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        match &self.evener {
            Some(evener) => command.env("OPENSSL_CONF", &evener.configuration),
            None => command.env_remove("OPENSSL_CONF"),
        };
        command
    }

    /// The number of bytes that the provider has encrypted so far; `None` for OpenSSL's own.
    ///
    /// # Errors
    /// When its counters can't be read.
    pub(super) fn encrypted(&self) -> Result<Option<u64>, LabError> {
        let Some(Counted { counters, program, .. }) = &self.evener else { return Ok(None) };
        // The first process that loads the provider creates the file.
        if !counters.exists() {
            return Ok(Some(0));
        }
        let failed = |source| LabError::Start { program: program.clone(), source };
        let mut command = Command::new(program);
        command.args(["tls", "status", "--json"]).arg(counters).stdin(Stdio::null());
        let output = command.output().map_err(failed)?;
        if !output.status.success() {
            return Err(LabError::Failed {
                program: "evener tls status".to_owned(),
                status: output.status,
                message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        let status: Status = serde_json::from_slice(&output.stdout)
            .map_err(io::Error::from)
            .map_err(LabError::file("read", counters))?;
        Ok(Some(status.encrypted()))
    }

    /// Compares the provider's count with the bytes that nginx sent meanwhile.
    ///
    /// # Errors
    /// When the provider did not encrypt them.
    pub(super) fn check(&self, before: Option<u64>, sent: u64) -> Result<(), LabError> {
        let (Some(before), Some(now)) = (before, self.encrypted()?) else { return Ok(()) };
        let did = now.saturating_sub(before);
        if did >= sent {
            return Ok(());
        }
        let name = &self.name;
        Err(LabError::Unavailable(format!(
            "{name}: the provider encrypted {did} of the {sent} bytes that nginx sent, so it is not \
             what is measured; see with `evener tls check` whether programs use it here"
        )))
    }
}

/// Makes `evener` write its configuration.
fn configure(program: &Path, provider: Option<&Path>, site: &Site) -> Result<PathBuf, LabError> {
    // Nobody else may write there: the counters have to be this user's.
    let directory = site.directory("evener-tls", 0o700)?;
    let configuration = directory.join("openssl.cnf");
    let mut command = Command::new(program);
    command.args(["tls", "config", "--counters"]).arg(directory.join("counters"));
    command.arg("-o").arg(&configuration);
    if let Some(provider) = provider {
        command.arg("--module").arg(provider);
    }
    run(&mut command)?;
    Ok(configuration)
}

/// The file that a configuration's line `counters = FILE` names.
fn counters(configuration: &Path) -> Result<PathBuf, LabError> {
    let text = fs::read_to_string(configuration).map_err(LabError::file("read", configuration))?;
    let value = |line: &str| {
        let line = line.split('#').next().unwrap_or_default();
        let (name, value) = line.split_once('=')?;
        (name.trim() == "counters").then(|| PathBuf::from(value.trim()))
    };
    text.lines().filter_map(value).next_back().filter(|path| path.is_absolute()).ok_or_else(|| {
        LabError::Unavailable(format!(
            "{} does not say where its provider counts; write it with `evener tls config --counters \
             FILE`",
            evener_core::shown(configuration)
        ))
    })
}

/// The output of `evener tls status --json`.
#[derive(Deserialize)]
struct Status {
    processes: Vec<Process>,
}

#[derive(Deserialize)]
struct Process {
    encrypted_bytes: u64,
}

impl Status {
    fn encrypted(&self) -> u64 {
        self.processes.iter().map(|process| process.encrypted_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_says_where_it_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("openssl.cnf");
        for (text, counts) in [
            ("[m]\nactivate = 1\ncounters = /run/x # here\n", Some("/run/x")),
            ("counters=/a\n[other]\ncounters = /b\n", Some("/b")),
            ("# counters = /run/x\n", None),
            ("counters = on\n", None),
            ("", None),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(counters(&path).ok().as_deref(), counts.map(Path::new), "{text}");
        }
        let error = counters(&path).unwrap_err().to_string();
        assert!(error.contains("evener tls config --counters"), "{error}");
    }

    #[test]
    fn who_does_not_count_is_not_measured() {
        let own = Contender { name: DEFAULT.to_owned(), evener: None };
        assert_eq!(own.encrypted().unwrap(), None);
        own.check(None, 1000).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let counters = directory.path().join("counters");
        let (configuration, program) = ("/absent.cnf".into(), "/absent/evener".into());
        let evener = Some(Counted { configuration, counters, program });
        let contender = Contender { name: "evener".to_owned(), evener };
        let error = contender.check(Some(0), 1).unwrap_err().to_string();
        assert!(error.starts_with("evener: the provider encrypted 0 of the 1 bytes"), "{error}");
        fs::write(directory.path().join("counters"), "").unwrap();
        assert!(matches!(contender.encrypted(), Err(LabError::Start { .. })));
    }

    #[test]
    fn the_status_is_added_up() {
        let json = r#"{"processes":[{"process":1,"encrypted_bytes":70},{"encrypted_bytes":30}]}"#;
        assert_eq!(serde_json::from_str::<Status>(json).unwrap().encrypted(), 100);
    }
}
