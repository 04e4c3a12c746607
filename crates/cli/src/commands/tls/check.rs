//! `evener tls check`

use std::env;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use clap::{ArgGroup, Args};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use super::config::{module, plain, system_configuration, text};
use super::counters::{Work, read};
use super::loaded::{Loaded, try_out};
use super::running;
use super::services::Membership;
use crate::signals::Signals;
use crate::trouble::{Ending, Trouble, complain, shown};
use crate::whole_file;

/// Check whether Evener does the TLS of a program
///
/// For running processes (--pid, --service), this command reports whether they have loaded Evener,
/// what their configuration says and what they have counted. The exit status is 1 if one of them
/// has not loaded it. Root can check the processes of all users.
///
/// Evener runs a PROGRAM with a configuration like that of `evener tls config`, which includes the
/// one that OPENSSL_CONF names or the system's. At the end, it prints on standard error how many
/// records of the program it processed. If the program fails, the exit status is the program's (128
/// plus the signal's number after a signal, 130 after an interrupt); otherwise it is 1 if there
/// were no records. Ctrl-C reaches the program from the terminal; Evener passes SIGTERM and SIGHUP
/// on to it.
#[derive(Args)]
#[command(group = ArgGroup::new("subject").required(true))]
pub(crate) struct Check {
    /// Check these running processes (N,...)
    #[arg(long = "pid", value_name = "N", value_delimiter = ',', group = "subject")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    processes: Vec<u32>,
    /// Check the processes of this service: nginx, postfix, or another unit of systemd
    #[arg(long, value_name = "NAME", group = "subject")]
    service: Option<String>,
    /// Check whether OpenSSL can load Evener with this configuration
    #[arg(long, value_name = "FILE", group = "subject")]
    config: Option<PathBuf>,
    /// Path of the provider, evener.so, for PROGRAM [default: the installed one]
    #[arg(long = "provider", alias = "module", value_name = "FILE", requires = "program")]
    module: Option<PathBuf>,
    /// Program to run, with its arguments, such as `curl https://localhost`
    #[arg(value_name = "PROGRAM", num_args = 1.., trailing_var_arg = true)]
    #[arg(allow_hyphen_values = true, group = "subject")]
    program: Vec<OsString>,
}

impl Check {
    pub(super) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        if let Some(path) = &self.config {
            return check_configuration(path);
        }
        if let Some(name) = &self.service {
            return running::perform(&[], Some(&Membership::of(name)));
        }
        match self.program.split_first() {
            Some((name, arguments)) => self.run(name, arguments, signals),
            None => running::perform(&self.processes, None),
        }
    }

    fn run(
        &self,
        name: &OsString,
        arguments: &[OsString],
        signals: &Signals,
    ) -> Result<Ending, Trouble> {
        let program = Path::new(name);
        if name.as_encoded_bytes().starts_with(b"-") {
            return Err(Trouble::Usage(format!(
                "{}: this is no option of `tls check`, and no program; options come before the \
                 program",
                shown(program)
            )));
        }
        let module = module(self.module.as_deref())?;
        // The directory must be removed whatever signal comes.
        let mut held = signals.hold()?;
        let directory = directory()?;
        let counters = directory.path().join("counters");
        let configuration = directory.path().join("openssl.cnf");
        let line = format!("counters = {}\n", plain(&counters)?);
        let usual = usual_configuration();
        let text = text(usual.as_deref(), &module, &line, "name another one in OPENSSL_CONF")?;
        whole_file::make(&configuration, &text)?;

        let mut command = Command::new(name);
        command.args(arguments).env("OPENSSL_CONF", &configuration);
        let status = held.run(&mut command);
        let status =
            status.map_err(|cause| Trouble::File { action: "run", path: program.into(), cause })?;
        let Some(status) = status else {
            complain(&"interrupted");
            return Ok(Ending::Interrupted);
        };
        let ending = ending(status);
        let counts = if counters.exists() { read(&counters, None) } else { Ok(Vec::new()) };
        let place = directory.path().to_owned();
        if let Err(cause) = directory.close()
            && cause.kind() != ErrorKind::NotFound
        {
            complain(&Trouble::File { action: "remove", path: place, cause });
        }
        drop(held);

        match ending {
            Ending::Done => {}
            Ending::Interrupted => complain(&format_args!("{}: interrupted", shown(program))),
            _ => complain(&format_args!("{}: it ended with {status}", shown(program))),
        }
        let counts = match counts {
            Ok(counts) => counts,
            Err(cause) => {
                let trouble = Trouble::File { action: "read", path: counters, cause };
                if ending == Ending::Done {
                    return Err(trouble);
                }
                complain(&trouble);
                return Ok(ending);
            }
        };
        let mut work = Work::default();
        counts.iter().for_each(|count| work.add(&count.work));
        let (records, bytes) = (work.records(), work.bytes());
        if records == 0 && ending == Ending::Done {
            complain(&format_args!(
                "{}: Evener did no record of it. Perhaps there was no TLS with AES, the program \
                 works on in the background (see `evener tls check --pid N`) or as another user, it has another library for it than \
                 the system's OpenSSL 3 (see `ldd`), or OpenSSL can't load {} (see \
                 `OPENSSL_CONF=FILE openssl list -providers` with a FILE of `evener tls config -o \
                 FILE`)",
                shown(program),
                shown(&module)
            ));
            return Ok(Ending::SomeFailed);
        }
        // Standard output belongs to the program.
        let program = shown(program);
        let noun = if records == 1 { "record" } else { "records" };
        complain(&format_args!("{program}: Evener did {records} {noun} with {bytes} bytes"));
        Ok(ending)
    }
}

/// Reports whether a configuration makes OpenSSL load Evener.
fn check_configuration(path: &Path) -> Result<Ending, Trouble> {
    let loaded = Loaded::by(path).map_err(Trouble::Usage)?;
    if let Some(reason) = loaded.unfit() {
        complain(&reason);
        return Ok(Ending::SomeFailed);
    }
    let tried = try_out(path)?;
    let (library, path) = (shown(&loaded.module), shown(path));
    match tried {
        Some(true) => complain(&format_args!("{path}: OpenSSL loads {library}")),
        Some(false) => {
            complain(&format_args!(
                "{path}: OpenSSL does not load {library}; see what `ldd {library}` misses, and whether \
                 its file system allows programs (`noexec`)"
            ));
            return Ok(Ending::SomeFailed);
        }
        None => complain(&format_args!(
            "{path}: it names {library}, which is whole; there is no program `openssl` to try it"
        )),
    }
    Ok(Ending::Done)
}

/// Derives this program's ending from the other one's, as a shell reports it.
fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ending::Done,
        (_, Some(SIGINT | SIGTERM | SIGHUP)) => Ending::Interrupted,
        (code, signal) => {
            let status = code.or(signal.map(|signal| 128 + signal));
            Ending::ProgramFailed(status.and_then(|status| status.try_into().ok()).unwrap_or(1))
        }
    }
}

/// Makes a private directory: another user who could write there could make the program load any
/// library. OpenSSL's configuration can't name every path.
fn directory() -> Result<TempDir, Trouble> {
    let mut place = env::temp_dir();
    if plain(&place).is_err() {
        place = "/tmp".into();
    }
    let private = || Permissions::from_mode(0o700);
    let made = tempfile::Builder::new().permissions(private()).tempdir_in(&place);
    // The umask must not change the mode.
    made.and_then(|made| fs::set_permissions(made.path(), private()).map(|()| made))
        .map_err(|cause| Trouble::File { action: "write", path: place, cause })
}

/// The configuration that the program would otherwise read, unless it loads Evener. An empty name
/// tells OpenSSL to read none.
fn usual_configuration() -> Option<PathBuf> {
    let named = env::var_os("OPENSSL_CONF").map(PathBuf::from);
    if named.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
        return None;
    }
    named.filter(|path| Loaded::by(path).is_err()).or_else(system_configuration)
}
