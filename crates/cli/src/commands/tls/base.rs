//! The relevant settings of a configuration that Evener's is to include.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::configuration::Configuration;
use crate::trouble::shown;

/// The settings that another configuration has already.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Base {
    /// The sections for the library, its providers and its algorithms.
    pub(super) main: Option<String>,
    pub(super) providers: Option<String>,
    pub(super) algorithms: Option<String>,
    pub(super) properties: Option<String>,
    /// True if engines of OpenSSL are started.
    pub(super) has_engines: bool,
    pub(super) has_evener: bool,
    /// True if OpenSSL's usual provider is left out for the one that FIPS 140 requires.
    is_for_fips: bool,
}

impl Base {
    /// Collects the relevant settings of a configuration and all that it includes; the error says
    /// why nothing can be added to it.
    pub(super) fn of(configuration: &Configuration) -> Result<Base, String> {
        let within = |section: &Option<String>, key| match section {
            Some(section) => text_of(configuration.value(section.as_bytes(), key)?, key),
            None => Ok(None),
        };
        let section = |section: &Option<String>, key| {
            let name = within(section, key)?;
            let is_name = |name: &String| {
                let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-./".contains(char);
                !name.is_empty() && name.chars().all(is_plain)
            };
            match name {
                Some(name) if !is_name(&name) => Err(format!(
                    "its `{key}` names the section {}, to which nothing can be added",
                    shown(Path::new(&name))
                )),
                name => Ok(name),
            }
        };
        let main = section(&Some("default".to_owned()), "openssl_conf")?;
        let providers = section(&main, "providers")?;
        let algorithms = section(&main, "alg_section")?;
        let mut properties = within(&algorithms, "default_properties")?;
        // A line `default_properties` would override this one.
        if within(&algorithms, "fips_mode")?.is_some_and(|value| !is_no(&value)) {
            let others = properties.filter(|others| !others.trim().is_empty());
            properties = Some(others.map_or("fips=yes".into(), |others| others + ",fips=yes"));
        }
        let names = |section: &Option<String>| -> Vec<&[u8]> {
            let section = section.as_ref().map(String::as_bytes);
            section.into_iter().flat_map(|section| configuration.names(section)).collect()
        };
        let is_engines = |name: &[u8]| name == b"engines" || name.starts_with(b"engines.");
        let has_engines = names(&main).into_iter().any(is_engines);
        // OpenSSL treats `providers.x` as another line `providers`.
        for name in names(&main) {
            if [&b"providers."[..], b"alg_section."].iter().any(|start| name.starts_with(start)) {
                let name = shown(Path::new(OsStr::from_bytes(name)));
                return Err(format!(
                    "its line `{name}` adds to another, with which Evener's can't be joined"
                ));
            }
        }
        // Likewise, `x.fips` is a name of the provider `fips`.
        let has = |provider: &[u8]| {
            names(&providers).iter().any(|name| {
                let dot = name.iter().position(|&byte| byte == b'.');
                &name[dot.map_or(0, |dot| dot + 1)..] == provider
            })
        };
        let (has_evener, has_default) = (has(b"evener"), has(b"default"));
        let is_for_fips = has(b"fips") && !has_default;
        if !has_evener {
            let within = providers.as_deref().unwrap_or_default().as_bytes();
            for name in configuration.names(within).filter_map(|name| str::from_utf8(name).ok()) {
                // OpenSSL would silently stop there before it reaches Evener. Evener's lines
                // replace `default`.
                if name != "default"
                    && let Ok(Some(section)) = configuration.value(within, name)
                    && !configuration.has_section(section)
                {
                    return Err(format!(
                        "its provider `{}` names the section `{}`, which is not there",
                        shown(Path::new(name)),
                        shown(Path::new(OsStr::from_bytes(section)))
                    ));
                }
            }
            let is_there = |name: &&&str| configuration.has_section(name.as_bytes());
            if let Some(section) = SECTIONS.iter().find(is_there) {
                return Err(format!(
                    "it has a section `{section}`, which Evener's lines would add to"
                ));
            }
        }
        Ok(Base { main, providers, algorithms, properties, has_engines, has_evener, is_for_fips })
    }

    /// The reason why it can't be included.
    pub(super) fn unfit(&self) -> Option<&'static str> {
        let reasons = [
            (self.has_evener, "it loads Evener already"),
            (self.is_for_fips, "it has `fips` without `default`, which would be added"),
        ];
        reasons.into_iter().find(|(is_so, _)| *is_so).map(|(_, reason)| reason)
    }
}

/// The names of the sections that are written if they don't exist yet.
pub(super) const OPENSSL: &str = "evener_openssl";
pub(super) const PROVIDERS: &str = "evener_providers";
pub(super) const DEFAULT: &str = "evener_default";
pub(super) const MODULE: &str = "evener_module";
pub(super) const ALGORITHMS: &str = "evener_algorithms";
const SECTIONS: [&str; 5] = [OPENSSL, PROVIDERS, DEFAULT, MODULE, ALGORITHMS];

/// Returns a value that means the same when it is written again.
fn text_of(value: Option<&[u8]>, key: &str) -> Result<Option<String>, String> {
    let Some(value) = value else { return Ok(None) };
    let is_plain = |char: char| !char.is_control() && !"\\'\"`$#".contains(char);
    match str::from_utf8(value) {
        Ok(text) if text.chars().all(is_plain) => Ok(Some(text.to_owned())),
        _ => Err(format!("its `{key}` has quotes or characters that can't be written again")),
    }
}

/// Returns whether a query (property(7) of OpenSSL) requires or prefers something that Evener's
/// ciphers lack. Other ciphers then rank with those that Evener's line prefers, and come first.
pub(super) fn excludes_evener(query: &str) -> bool {
    query.to_ascii_lowercase().split(',').map(str::trim).any(|clause| {
        // `-` withdraws a condition.
        if let Some(name) = clause.strip_prefix('-') {
            return name.trim() == "evener.cipher";
        }
        let (clause, is_preference) = match clause.strip_prefix('?') {
            Some(clause) => (clause, true),
            None => (clause, false),
        };
        if clause.is_empty() {
            return false;
        }
        let (name, wanted) = clause.split_once('=').unwrap_or((clause, "yes"));
        let (name, is_unwanted) = match name.strip_suffix('!') {
            Some(name) => (name.trim(), true),
            None => (name.trim(), false),
        };
        let has = match name {
            "provider" => "evener",
            "evener.cipher" => "yes",
            // OpenSSL's own ciphers lack it too.
            _ if is_preference => return false,
            // The property is not defined.
            _ => "no",
        };
        (has == wanted.trim()) == is_unwanted
    })
}

/// Returns whether OpenSSL reads a value as no.
fn is_no(value: &str) -> bool {
    matches!(value, "FALSE" | "false" | "N" | "n" | "NO" | "no")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn found(text: &str) -> Result<Base, String> {
        let directory = tempfile::tempdir().unwrap();
        let (path, more) = (directory.path().join("base"), directory.path().join("more"));
        fs::write(&more, "default_properties = fips=yes\n").unwrap();
        fs::write(&path, text.replace("MORE", more.to_str().unwrap())).unwrap();
        Base::of(&Configuration::read(&path)?)
    }

    #[test]
    fn what_the_included_file_says_is_kept() {
        let base = "openssl_conf = init # first\n[init]\nproviders = some\nssl_conf = ssl\n\
                    alg_section=alg\n[alg]\n.include MORE\n[l]\n[some]\ndefault = d\nlegacy = l\n";
        let known = found(base).unwrap();
        assert_eq!(known.main.as_deref(), Some("init"));
        assert_eq!(known.providers.as_deref(), Some("some"));
        assert_eq!(known.algorithms.as_deref(), Some("alg"));
        assert_eq!(known.properties.as_deref(), Some("fips=yes"));
        assert_eq!((known.unfit(), known.has_engines), (None, false));
        assert_eq!(found("[ca]\nopenssl_conf = x\n"), Ok(Base::default()));
        let reason = |base: &str| found(base).unwrap().unfit().unwrap_or_default();
        assert!(reason(&format!("{base}evener = e\n")).contains("already"));
        assert!(reason(&format!("{base}[some]\n2.evener = e\n")).contains("already"));
        let strict = base.replace("default = d\n", "fips = l\n");
        assert!(reason(&strict).contains("without `default`"));
    }

    #[test]
    fn properties_that_leave_evener_out_are_known() {
        for query in [
            "provider=default",
            "x.y=z, fips=yes",
            "fips",
            "Provider = FIPS",
            "provider!=evener",
            "?provider=default",
            "x.y=z, ?provider!=evener",
            "?evener.cipher=no",
            "-evener.cipher",
        ] {
            assert!(excludes_evener(query), "{query}");
        }
        for query in [
            "",
            "?fips=yes",
            "-fips",
            "fips=no",
            "fips != yes",
            "provider=evener",
            "provider!=x",
            "?provider=evener",
        ] {
            assert!(!excludes_evener(query), "{query}");
        }
    }

    #[test]
    fn what_would_be_lost_is_refused() {
        let base = "openssl_conf = i\n[i]\nalg_section = a\n[a]\n";
        let mode = format!("{base}fips_mode = yes\n");
        assert_eq!(found(&mode).unwrap().properties.as_deref(), Some("fips=yes"));
        let both = format!("{mode}default_properties = x.y=z\n");
        assert_eq!(found(&both).unwrap().properties.as_deref(), Some("x.y=z,fips=yes"));
        for (text, told) in [
            ("openssl_conf = two words\n", "to which nothing can be added"),
            ("openssl_conf = $ENV::HOME\n", "depends on the environment"),
            (&format!("{base}[i]\nproviders.2 = p\n"), "`providers.2` adds to another"),
            (
                &format!("{base}[i]\nproviders = p\n[p]\ndefault = d\nlegacy = l\n"),
                "its provider `legacy` names the section `l`, which is not there",
            ),
            (&format!("{base}[evener_module]\n"), "it has a section `evener_module`"),
            (&format!("{base}default_properties = \"a='b'\"\n"), "can't be written again"),
        ] {
            let reason = found(text).unwrap_err();
            assert!(reason.contains(told), "{reason}");
        }
    }
}
