//! Parses which provider is meant, and finds its directory.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{env, fs};

/// A provider's name and directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) name: String,
    /// The directory of its file `NAME.so`, if not one of the system's directories for providers.
    pub(super) directory: Option<String>,
}

impl Selection {
    /// Parses `provider=NAME`, with `,path=` and the directory that holds `NAME.so`, or the path
    /// of `NAME.so` itself.
    pub(super) fn parse(parameters: &str) -> Result<Selection, String> {
        let (mut name, mut path) = (None, None);
        for parameter in parameters.split(',') {
            let place = match parameter.split_once('=') {
                Some(("provider", value)) => (&mut name, value),
                Some(("path", value)) => (&mut path, value),
                _ => return Err(format!("it takes provider=NAME,path=PATH, not `{parameter}`")),
            };
            if place.0.replace(place.1).is_some() {
                return Err(format!("`{parameter}` is given a second time"));
            }
        }
        let name = name.ok_or("provider=NAME is missing")?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(format!(
                "`{name}` is not a provider's name; give its directory with path="
            ));
        }
        let directory = path.map(|path| directory(name, path)).transpose()?;
        Ok(Selection { name: name.to_owned(), directory })
    }

    /// Returns whether this is a provider of OpenSSL itself, which computes on the calling core.
    pub(super) fn is_openssls_own(&self) -> bool {
        self.directory.is_none() && ["default", "legacy", "fips", "base"].contains(&&*self.name)
    }
}

/// The first of the system's directories that has this provider and to which only root can write;
/// otherwise a directory that only root can make.
///
/// libcrypto itself uses the directory for which it was built, or an environment variable. With a
/// statically linked library, that directory may belong to any user of the machine.
pub(super) fn directory_of(name: &str) -> String {
    let directories = system_directories();
    let has_it = |directory: &&String| is_roots(&Path::new(directory).join(format!("{name}.so")));
    directories.iter().find(has_it).unwrap_or(&directories[0]).clone()
}

/// The directories where distributions and OpenSSL's own `make install` put providers.
pub(super) fn system_directories() -> Vec<String> {
    let family = match env::consts::ARCH {
        "x86" => "i386-linux-gnu".to_owned(),
        "arm" => "arm-linux-gnueabihf".to_owned(),
        "powerpc64" => "powerpc64le-linux-gnu".to_owned(),
        other => format!("{other}-linux-gnu"),
    };
    let places = [&format!("lib/{family}"), "lib64", "lib", "local/lib64", "local/lib"];
    places.map(|place| format!("/usr/{place}/ossl-modules")).into()
}

/// Returns whether the file exists and only root can write to it or replace it.
pub(super) fn is_roots(file: &Path) -> bool {
    let Ok(file) = file.canonicalize() else { return false };
    file.ancestors().all(|part| {
        fs::metadata(part).is_ok_and(|about| about.uid() == 0 && about.mode() & 0o022 == 0)
    })
}

fn directory(name: &str, path: &str) -> Result<String, String> {
    if Path::new(path).is_dir() {
        return Ok(path.to_owned());
    }
    let file = format!("{name}.so");
    match path.strip_suffix(&file).filter(|directory| directory.ends_with('/')) {
        Some(directory) => Ok(directory.to_owned()),
        None => Err(format!("{path} is neither a directory nor a file {file}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display();
        let selected = |parameters: &str| Selection::parse(parameters);
        let plain = Selection { name: "qatprovider".into(), directory: None };
        assert_eq!(selected("provider=qatprovider"), Ok(plain));
        let parameters = format!("path={path},provider=a-b_1.c");
        assert_eq!(selected(&parameters).unwrap().directory, Some(path.to_string()));
        let file = format!("provider=qat,path={path}/qat.so");
        assert_eq!(selected(&file).unwrap().directory, Some(format!("{path}/")));
        for wrong in [
            "fast",
            "provider",
            "provider=",
            "path=/tmp",
            "provider=a,provider=b",
            "provider=a,speed=1",
            "provider=../a",
            "provider=a;b",
            "provider=a,path=/nowhere",
            "provider=a,path=/tmp/b.so",
        ] {
            assert!(selected(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_what_is_roots_alone_is_loaded_by_its_name() {
        assert!(is_roots(Path::new("/usr/bin/env")) && !is_roots(Path::new("/usr/bin/enigma")));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.so");
        fs::write(&file, "").unwrap();
        // Other users can't replace files in this directory of /tmp, but it is not root's.
        assert!(!is_roots(&file));
        let directory = directory_of("enigma");
        assert!(directory.starts_with("/usr/") && directory.ends_with("/ossl-modules"));
    }
}
