//! `evener tls check`

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use super::config::{module, system_configuration, text, write};
use super::counters::{Count, read};
use crate::trouble::{Ending, Trouble, complain, shown};

/// Run a program and see whether Evener does its TLS
///
/// The program runs with a configuration as `evener tls config` writes it. In the end this says
/// how many records it did with Evener. The exit status is 1 when there were none.
#[derive(Args)]
pub(crate) struct Check {
    /// The provider, evener.so [default: where `make install-tls` puts it]
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// The program with its arguments, such as `curl https://localhost`
    #[arg(value_name = "PROGRAM", required = true, num_args = 1.., trailing_var_arg = true)]
    #[arg(allow_hyphen_values = true)]
    program: Vec<OsString>,
}

impl Check {
    pub(super) fn perform(self) -> Result<Ending, Trouble> {
        let module = module(self.module.as_deref())?;
        // Another user who could write there could have the program load any library.
        let directory = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(|cause| Trouble::File { action: "write", path: "/tmp".into(), cause })?;
        let counters = directory.path().join("counters");
        let configuration = directory.path().join("openssl.cnf");
        let base = system_configuration();
        let line = counters.to_str().map_or(String::new(), |path| format!("counters = {path}\n"));
        let text = text(base.as_deref(), &module, &line)?;
        write(&configuration, &text)?;

        let Some((name, arguments)) = self.program.split_first() else {
            return Err(Trouble::usage("name a program"));
        };
        let program = Path::new(name);
        let status = Command::new(name)
            .args(arguments)
            .env("OPENSSL_CONF", &configuration)
            .status()
            .map_err(|cause| Trouble::File { action: "run", path: program.into(), cause })?;
        if !status.success() {
            complain(&format_args!("{}: it ended with {status}", shown(program)));
        }
        let counts = if counters.exists() {
            read(&counters).map_err(|cause| Trouble::File {
                action: "read",
                path: counters.clone(),
                cause,
            })?
        } else {
            Vec::new()
        };
        let sum = |each: fn(&Count) -> u64| counts.iter().map(each).sum::<u64>();
        let (records, bytes) = (sum(Count::records), sum(Count::bytes));
        if records == 0 {
            complain(&format_args!(
                "{}: Evener did no record of it. Perhaps there was no TLS with AES, or the \
                 program has another library for it than the system's OpenSSL 3 (see `ldd`)",
                shown(program)
            ));
            return Ok(Ending::SomeFailed);
        }
        writeln!(
            io::stdout(),
            "{}: Evener did {records} records with {bytes} bytes",
            shown(program)
        )
        .map_err(Trouble::Output)?;
        Ok(Ending::Done)
    }
}
