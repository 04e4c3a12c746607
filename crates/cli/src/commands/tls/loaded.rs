//! The part of a configuration that concerns Evener.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::base::Base;
use super::configuration::Configuration;
use super::provider;
use crate::trouble::{Trouble, shown};

/// The provider that a configuration loads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Loaded {
    /// The library.
    pub(super) module: PathBuf,
    /// The line `counters`.
    pub(super) counters: Option<PathBuf>,
}

impl Loaded {
    /// Reads a configuration.
    ///
    /// # Errors
    /// When it can't be read or doesn't load Evener; the error says why.
    pub(super) fn by(path: &Path) -> Result<Loaded, String> {
        let configuration = Configuration::read(path)?;
        let at = |reason| format!("{}: {reason}", shown(path));
        let base = Base::of(&configuration).map_err(at)?;
        let providers = base.providers.as_deref().unwrap_or_default().as_bytes();
        let is_evener = |name: &&[u8]| {
            let dot = name.iter().position(|&byte| byte == b'.');
            &name[dot.map_or(0, |dot| dot + 1)..] == b"evener"
        };
        let none = || at("it doesn't load Evener".to_owned());
        let name = configuration.names(providers).find(is_evener).ok_or_else(none)?;
        let name = str::from_utf8(name).map_err(|error| at(error.to_string()))?;
        let section = configuration.value(providers, name).map_err(at)?.unwrap_or_default();
        let value = |name| configuration.value(section, name).map_err(at);
        let path = |value| PathBuf::from(OsStr::from_bytes(value));
        let module = value("module")?.map(path).ok_or_else(none)?;
        Ok(Loaded { module, counters: value("counters")?.map(path) })
    }

    /// The reason why OpenSSL can't load the library, as far as its file shows it.
    pub(super) fn unfit(&self) -> Option<String> {
        let shown = shown(&self.module);
        provider::unfit(&self.module)
            .map(|reason| format!("{shown}: OpenSSL can't load it: {reason}"))
    }
}

/// Tests whether the system's OpenSSL loads Evener with a configuration; `None` if the program
/// `openssl` isn't there to test it.
pub(super) fn try_out(path: &Path) -> Result<Option<bool>, Trouble> {
    let program = Path::new("openssl");
    let tried = Command::new(program)
        .args(["list", "-providers"])
        .env("OPENSSL_CONF", path)
        .stderr(std::process::Stdio::inherit())
        .output();
    match tried {
        Ok(tried) => {
            let mut lines = tried.stdout.split(|&byte| byte == b'\n');
            Ok(Some(lines.any(|line| line.trim_ascii() == b"name: Evener provider")))
        }
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Trouble::File { action: "run", path: program.into(), cause }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_configuration_names_what_it_loads_or_why_it_doesnt() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("openssl.cnf");
        let by = |text: &str| {
            fs::write(&path, text).unwrap();
            Loaded::by(&path)
        };
        let base = "openssl_conf = i\n[i]\nproviders = p\n[p]\ndefault = d\n[d]\n";
        let evener = format!("{base}[p]\n1.evener = e\n[e]\nmodule = /lib/evener.so\n");
        let loaded = |counters: Option<&str>| {
            Ok(Loaded { module: "/lib/evener.so".into(), counters: counters.map(PathBuf::from) })
        };
        assert_eq!(by(&evener), loaded(None));
        assert_eq!(by(&format!("{evener}counters = on\n")), loaded(Some("on")));
        for without in ["", base, "[p]\nevener = e\n[e]\nmodule = /m.so\n"] {
            assert!(by(without).unwrap_err().ends_with(": it doesn't load Evener"), "{without}");
        }
        assert!(by("a\n").unwrap_err().contains("no `=`"));
        assert!(by(&evener).unwrap().unfit().unwrap().contains("can't load it: can't read it"));
    }
}
