//! Named providers, each loaded into its own context.

#[cfg(test)]
mod tests;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{env, fs};

use evener_core::{Kind, shown};
use openssl::error::ErrorStack;

use super::probe::Library;
use super::version;

/// A provider's name and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) name: String,
    /// The directory of its file `NAME.so`, if not one of the system's directories for providers.
    pub(super) directory: Option<String>,
}

/// Loads the provider that `provider=NAME[,path=…]` names. `engine` is the name of the engine. The
/// error is the reason as text.
pub(super) fn find(engine: &str, parameters: &str) -> Result<(Library, Kind, String), String> {
    let selection = Selection::parse(parameters)?;
    let library = Library::load_provider(engine, &selection)
        .map_err(|error| not_loaded(&selection, &error))?;
    if library.is_empty() {
        return Err("the provider has none of the ciphers that Evener knows".to_owned());
    }
    // Other providers are unknown, and their purpose is to use another device.
    let kind = if selection.is_openssls_own() { Kind::Cpu } else { Kind::Module };
    Ok((library, kind, format!("{}, provider {}", version(), selection.name)))
}

/// Why a provider can't be used, in one sentence. libcrypto's own words name the file and line of
/// its source, on the machine where it was built.
fn not_loaded(selection: &Selection, error: &ErrorStack) -> String {
    let name = &selection.name;
    let directories = match &selection.directory {
        Some(directory) => vec![directory.clone()],
        None => system_directories(),
    };
    let files = directories.iter().map(|directory| Path::new(directory).join(format!("{name}.so")));
    let is_own = selection.directory.is_some();
    let found = files.into_iter().find(|file| if is_own { file.is_file() } else { is_roots(file) });
    match found {
        Some(file) => format!("the provider {} can't be loaded: {}", shown(&file), words(error)),
        None if is_own => format!(
            "the provider can't be loaded from {}: there is no {name}.so; path= names the directory \
             it is in",
            directories[0]
        ),
        None => format!(
            "there is no provider `{name}` in {}, as far as those are root's alone; path= names \
             another directory",
            directories.join(", ")
        ),
    }
}

/// What the dynamic loader said, or else libcrypto's reason.
fn words(stack: &ErrorStack) -> String {
    let said = stack.errors().iter().filter_map(|error| error.data());
    let said = said.filter_map(|data| data.split_once("): ").map(|(_, words)| words));
    let reason = || stack.errors().iter().find_map(|error| error.reason());
    said.map(str::to_owned)
        .next()
        .or_else(|| reason().map(str::to_owned))
        .unwrap_or_else(|| "libcrypto does not say why".to_owned())
}

impl Selection {
    /// Reads `provider=NAME`, with `,path=` and the directory that holds `NAME.so`, or the path
    /// of `NAME.so` itself.
    fn parse(parameters: &str) -> Result<Selection, String> {
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

    /// Whether it is a provider of OpenSSL itself, which computes on the calling core.
    pub(super) fn is_openssls_own(&self) -> bool {
        self.directory.is_none() && ["default", "legacy", "fips", "base"].contains(&&*self.name)
    }
}

/// The first of the system's directories with this provider to which only root can write; otherwise
/// a directory that only root can make.
///
/// libcrypto itself uses the directory for which it was built, or an environment variable. With a
/// statically linked library, that directory may belong to any user of the machine.
pub(super) fn directory_of(name: &str) -> String {
    let directories = system_directories();
    let has_it = |directory: &&String| is_roots(&Path::new(directory).join(format!("{name}.so")));
    directories.iter().find(has_it).unwrap_or(&directories[0]).clone()
}

/// Where distributions and OpenSSL's own `make install` put providers.
fn system_directories() -> Vec<String> {
    let family = match env::consts::ARCH {
        "x86" => "i386-linux-gnu".to_owned(),
        "arm" => "arm-linux-gnueabihf".to_owned(),
        "powerpc64" => "powerpc64le-linux-gnu".to_owned(),
        other => format!("{other}-linux-gnu"),
    };
    let places = [&format!("lib/{family}"), "lib64", "lib", "local/lib64", "local/lib"];
    places.map(|place| format!("/usr/{place}/ossl-modules")).into()
}

/// Whether the file exists and only root can write to it or replace it.
fn is_roots(file: &Path) -> bool {
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
