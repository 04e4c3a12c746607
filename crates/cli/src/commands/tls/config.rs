//! `evener tls config`

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::{env, iter};

use clap::{Args, ValueEnum};
use evener::engines::check_module;

use super::base::{self, Base, DEFAULT, MODULE, excludes_evener};
use super::configuration::{Configuration, contents};
use super::provider;
use crate::options::{from_one, permits, steps};
use crate::trouble::{Ending, Trouble, complain, shown};
use crate::whole_file;

/// Print or write a configuration of OpenSSL that loads Evener
///
/// Programs read the configuration if OPENSSL_CONF names it. It includes the system's
/// configuration, and prefers Evener's ciphers to OpenSSL's own, which remain for everything that
/// Evener does not do.
#[derive(Args)]
pub(crate) struct Config {
    /// Write the configuration to this new file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "output")]
    overwrite: bool,
    /// Path of the provider, evener.so [default: the installed one]
    #[arg(long = "provider", alias = "module", value_name = "FILE")]
    module: Option<PathBuf>,
    /// Configuration to include [default: the system's]
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// Count records for `evener tls status`, in the user's own file or in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "on")]
    counters: Option<PathBuf>,
    #[command(flatten)]
    routing: Routing,
}

/// Options for a crypto module that processes records.
#[derive(Args)]
struct Routing {
    /// Send the records of connections with much data to this module
    ///
    /// NAME is cryptodev or af_alg, alone or with a driver, such as cryptodev:ctr-aes-caam, or the
    /// pkcs11: URI of a token
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Records that the module processes, by mode: `gcm`, `cbc`, or both (`gcm,cbc`)
    #[arg(
        long,
        value_name = "MODES",
        value_delimiter = ',',
        default_value = "gcm",
        requires = "engine"
    )]
    modes: Vec<RecordMode>,
    /// Leave shorter records to the processor [default: each process measures it]
    #[arg(long, value_name = "BYTES", requires = "engine", value_parser = from_one)]
    crossover: Option<NonZeroUsize>,
    /// Recompute one in N records and compare [default: 100]
    #[arg(long, value_name = "N", requires = "engine", value_parser = from_one)]
    verify_engine: Option<NonZeroUsize>,
    /// Number of processes that may use the module at once [default: the module's own limit]
    #[arg(long, value_name = "N", requires = "engine", value_parser = permits)]
    permits: Option<NonZeroUsize>,
    /// Raise the priority of threads that use the module by N steps of the nice value (1 to 20)
    /// [default: not at all]
    #[arg(long, value_name = "N", requires = "engine", allow_negative_numbers = true, value_parser = steps)]
    ahead: Option<NonZeroUsize>,
}

/// A mode of AES in TLS's records.
#[derive(Clone, Copy, ValueEnum)]
enum RecordMode {
    Gcm,
    Cbc,
}

impl Routing {
    /// The lines of the provider's section.
    fn lines(&self) -> Result<String, Trouble> {
        let Some(engine) = &self.engine else { return Ok(String::new()) };
        check(engine)?;
        let modes = self.modes.iter().filter_map(ValueEnum::to_possible_value);
        let modes: Vec<_> = modes.map(|mode| mode.get_name().to_owned()).collect();
        let mut lines = format!("engine = {engine}\nmodes = {}\n", modes.join(", "));
        let numbers = [
            ("crossover", self.crossover),
            ("verify", self.verify_engine),
            ("permits", self.permits),
        ];
        for (name, number) in numbers {
            lines.extend(number.map(|number| format!("{name} = {number}\n")));
        }
        lines.extend(self.ahead.map(|steps| format!("ahead = {steps}\n")));
        Ok(lines)
    }
}

/// Checks a module's name. Messages do not repeat the part after its colon, which may hold a PIN.
fn check(engine: &str) -> Result<(), Trouble> {
    let kind = engine.split_once(':').map_or(engine, |(kind, _)| kind);
    let refused =
        |reason: &str| Trouble::usage(format!("--engine {}: {reason}", shown(Path::new(kind))));
    check_module(engine).map_err(|reason| refused(&reason))?;
    // Other characters have a meaning in OpenSSL's configuration.
    let is_plain =
        |char: char| char.is_ascii_alphanumeric() || "-._~:()[],;?&=/%@!*+|".contains(char);
    match engine.chars().find(|&char| !is_plain(char)) {
        Some(char) if kind == "pkcs11" && char.is_ascii() => Err(refused(&format!(
            "a configuration of OpenSSL needs `{}` written as %{:02X}",
            shown(Path::new(&char.to_string())),
            u32::from(char)
        ))),
        Some(char) => Err(refused(&format!("no driver's name has {char:?}"))),
        None => Ok(()),
    }
}

impl Config {
    pub(crate) fn perform(self) -> Result<Ending, Trouble> {
        let counters = match self.counters {
            Some(file) if file == Path::new("on") => Some("on".to_owned()),
            Some(file) if file.is_dir() => {
                return Err(Trouble::Usage(format!(
                    "--counters {}: it is a directory; name a file in it",
                    shown(&file)
                )));
            }
            Some(file) => Some(plain(&file)?),
            None => None,
        };
        whole_file::refuse_dash("tls config", self.output.as_deref())?;
        let mut lines =
            counters.map_or(String::new(), |counters| format!("counters = {counters}\n"));
        lines += &self.routing.lines()?;
        let module = module(self.module.as_deref())?;
        let base = self.base.or_else(system_configuration);
        let text = text(base.as_deref(), &module, &lines, "give another one with --base")?;
        let is_base = |path: &Path| {
            let whole = |path: &Path| path.canonicalize().ok();
            base.as_deref().and_then(whole).is_some_and(|base| whole(path) == Some(base))
        };
        match self.output {
            Some(path) if self.overwrite && is_base(&path) => {
                return Err(Trouble::Usage(format!(
                    "{}: it would include itself; write another file",
                    shown(&path)
                )));
            }
            Some(path) if self.overwrite => whole_file::replace(&path, &text)?,
            Some(path) => whole_file::make(&path, &text).map_err(with_way_out)?,
            None => io::stdout().lock().write_all(text.as_bytes()).map_err(Trouble::Output)?,
        }
        Ok(Ending::Done)
    }
}

/// Adds the way to replace a file that exists already.
fn with_way_out(trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::File { action, path, cause } if cause.kind() == io::ErrorKind::AlreadyExists => {
            let cause = io::Error::other("it is there already; --overwrite replaces it");
            Trouble::File { action, path, cause }
        }
        other => other,
    }
}

/// The provider's absolute path: as given, or where it is installed beside this program. OpenSSL
/// reports nothing for a provider that it can't load.
pub(super) fn module(given: Option<&Path>) -> Result<PathBuf, Trouble> {
    let path = match given {
        Some(path) => path.canonicalize().map_err(|cause| Trouble::File {
            action: "find",
            path: path.into(),
            cause,
        })?,
        None => installed()?,
    };
    plain(&path)?;
    match provider::unfit(&path) {
        Some(reason) => Err(Trouble::Usage(format!(
            "{}: OpenSSL can't load it: {reason}; name an evener.so with --provider",
            shown(&path)
        ))),
        None => Ok(path),
    }
}

fn installed() -> Result<PathBuf, Trouble> {
    let program = env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
    let beside = program.parent().unwrap_or(Path::new("/"));
    let places = iter::once(beside.join("../lib/evener/evener.so"))
        .chain(["/usr/local/lib/evener/evener.so", "/usr/lib/evener/evener.so"].map(PathBuf::from));
    places.filter_map(|path| path.canonicalize().ok()).next().ok_or_else(|| {
        Trouble::usage(
            "there is no evener.so: name it with --provider; Evener's packages have it, and `make install-tls` in its sources installs it",
        )
    })
}

/// The configuration that programs read by default.
pub(super) fn system_configuration() -> Option<PathBuf> {
    ["/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/usr/lib/ssl/openssl.cnf"]
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.exists())
}

/// Returns the configuration's text, with these lines in the provider's section. If nothing can be
/// added to the base, the error says what to do.
pub(super) fn text(
    base: Option<&Path>,
    module: &Path,
    lines: &str,
    way_out: &str,
) -> Result<String, Trouble> {
    let mut text = String::from(HEAD);
    let mut found = Base::default();
    if let Some(path) = base {
        let failed = |action| move |cause| Trouble::File { action, path: path.to_owned(), cause };
        let read = contents(path).map_err(failed("read"))?;
        let refused =
            |reason: &str| Trouble::Usage(format!("{}: {reason}; {way_out}", shown(path)));
        // OpenSSL accepts the mark in a file that nothing includes.
        if read.starts_with("\u{FEFF}".as_bytes()) {
            return Err(refused(
                "it begins with a byte-order mark, with which OpenSSL includes no file",
            ));
        }
        let configuration = Configuration::read(path)
            .map_err(|reason| Trouble::Usage(format!("{reason}; correct it, or {way_out}")))?;
        found = Base::of(&configuration).map_err(|reason| refused(&reason))?;
        found.unfit().map_or(Ok(()), |reason| Err(refused(reason)))?;
        if let Some(properties) = found.properties.as_deref().filter(|found| excludes_evener(found))
        {
            complain(&format_args!(
                "{}: with its `default_properties = {properties}` OpenSSL never takes Evener's ciphers",
                shown(path)
            ));
        }
        if found.has_engines {
            complain(&format_args!(
                "{}: where an engine of its `engines` can't be started, OpenSSL loads no provider, and \
                 says nothing; see `evener tls check`",
                shown(path)
            ));
        }
        let whole = path.canonicalize().map_err(failed("find"))?;
        text += &format!(".include {}\n\n", plain(&whole)?);
    }
    let name = |found: Option<String>, otherwise: &str| found.unwrap_or(otherwise.to_owned());
    let main = name(found.main, base::OPENSSL);
    let providers = name(found.providers, base::PROVIDERS);
    let algorithms = name(found.algorithms, base::ALGORITHMS);
    let properties = match found.properties {
        Some(properties) => format!("{properties},{PREFERRED}"),
        None => PREFERRED.to_owned(),
    };
    let module = plain(module)?;
    text += &format!(
        "[default]\nopenssl_conf = {main}\n\n\
         [{main}]\nproviders = {providers}\nalg_section = {algorithms}\n\n\
         [{providers}]\ndefault = {DEFAULT}\nevener = {MODULE}\n\n\
         [{DEFAULT}]\nactivate = 1\n\n\
         [{MODULE}]\nmodule = {module}\nactivate = 1\n{lines}\n\
         [{algorithms}]\ndefault_properties = {properties}\n"
    );
    Ok(text)
}

/// Returns a path that means the same in a configuration, where it has no special characters.
pub(super) fn plain(path: &Path) -> Result<String, Trouble> {
    let is_plain = |char: char| char.is_alphanumeric() || "/._-+,@=:~".contains(char);
    match path.to_str() {
        Some(text) if text.starts_with('/') && text.chars().all(is_plain) => Ok(text.to_owned()),
        _ => Err(Trouble::usage(format!(
            "{}: a configuration of OpenSSL needs an absolute path of letters, digits and \
             /._-+,@=:~",
            shown(path)
        ))),
    }
}

/// A property that Evener's ciphers have and others lack; OpenSSL wants a dot in such a name. It
/// isn't the property `provider`: programs that query that one themselves, as stunnel does, would
/// replace the preference.
const PREFERRED: &str = "?evener.cipher=yes";

const HEAD: &str = "\
# Has OpenSSL 3.0 or later do AES with Evener, in programs that find this file's name in the
# environment variable OPENSSL_CONF. Written by `evener tls config`. The file that it includes must not
# include it: OpenSSL would go round until there are no descriptors.

";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_would_mean_something_else_are_refused() {
        for path in ["relative.so", "/a#b", "/a b", "/a$b", "/a\\b", "/a\nb", "/a\"b"] {
            assert!(plain(Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(plain(Path::new("/usr/lib/evener.so")).unwrap(), "/usr/lib/evener.so");
    }
}
