//! Named providers, each loaded into its own context.

#[cfg(test)]
mod tests;

use std::path::Path;

use evener_core::{Kind, shown};
use openssl::error::ErrorStack;

use super::probe::Library;
use super::selection::{Selection, is_roots, system_directories};
use super::version;

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

/// The reason why a provider can't be used, in one sentence. libcrypto's own message names the file
/// and line of its source, on the machine where it was built.
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

/// The dynamic loader's message, or else libcrypto's reason.
fn words(stack: &ErrorStack) -> String {
    let said = stack.errors().iter().filter_map(|error| error.data());
    let said = said.filter_map(|data| data.split_once("): ").map(|(_, words)| words));
    let reason = || stack.errors().iter().find_map(|error| error.reason());
    said.map(str::to_owned)
        .next()
        .or_else(|| reason().map(str::to_owned))
        .unwrap_or_else(|| "libcrypto does not say why".to_owned())
}
