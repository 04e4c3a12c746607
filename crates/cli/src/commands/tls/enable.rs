//! `evener tls enable` and `evener tls disable`

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::config::plain;
use super::loaded::Loaded;
use super::services::{SERVICES, Service};
use super::setting::{HEAD, Plan, below};
use crate::trouble::{Ending, Trouble, complain, shown};
use crate::whole_file;

/// Print the commands that make a service use Evener, or run them
///
/// The shell commands tell the service which configuration to use; Evener also prints those that
/// undo them. Most services get their environment from systemd. Postfix, Dovecot and PostgreSQL
/// clear it and have settings of their own.
#[derive(Args)]
pub(crate) struct Enable {
    #[command(flatten)]
    target: Target,
    /// Prevent the service from starting if OpenSSL can't load Evener
    ///
    /// Without this option, the service then uses OpenSSL's own ciphers without a message
    #[arg(long)]
    require: bool,
}

/// Print the commands that make a service stop using Evener, or run them
///
/// The shell commands undo `evener tls enable`.
#[derive(Args)]
pub(crate) struct Disable {
    #[command(flatten)]
    target: Target,
}

#[derive(Args)]
struct Target {
    /// Make the changes instead of printing the commands, without restarting the service
    #[arg(long)]
    write: bool,
    /// Configuration that `evener tls config -o FILE` wrote
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/evener.cnf")]
    config: PathBuf,
    /// Directory that contains the service's files, for example that of an image
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    root: PathBuf,
    /// Service to change
    #[arg(value_name = "SERVICE", value_parser = service_parser())]
    service: &'static Service,
}

fn service_parser() -> impl TypedValueParser<Value = &'static Service> {
    let names =
        SERVICES.iter().map(|service| PossibleValue::new(service.name).aliases(service.aliases));
    PossibleValuesParser::new(names).try_map(|name| Service::named(&name).ok_or("no such service"))
}

impl Enable {
    pub(super) fn perform(self) -> Result<Ending, Trouble> {
        let Target { write, config, root, service } = self.target;
        let loaded = usable(&root, &config)?;
        let check = self.require.then(|| program(&root)).transpose()?;
        let plan = Plan::of(service, &root, &config)?;
        let files = plan.files(&loaded.module, check.as_deref());
        if !write {
            return print(&plan.script(&files));
        }
        plan.refuse_absent()?;
        for (path, text) in &files {
            refuse_foreign(path)?;
            let failed = |cause| Trouble::File { action: "write", path: path.clone(), cause };
            path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
            whole_file::replace(path, text)?;
            print(&format!("wrote {}\n", shown(path)))?;
        }
        plan.commands.iter().try_for_each(|(set, _)| run(set))?;
        let paths: Vec<_> = files.into_iter().map(|(path, _)| path).collect();
        print(&format!("now: {}\n", plan.restart(&paths).join(" && ")))?;
        print(&format!(
            "then see whether it holds: evener tls check --service {}\n",
            service.name
        ))?;
        print(&format!("to undo it: evener tls disable --write {}\n", service.name))
    }
}

impl Disable {
    pub(super) fn perform(self) -> Result<Ending, Trouble> {
        let Target { write, config, root, service } = self.target;
        let plan = Plan::of(service, &root, &config)?;
        let mut paths = plan.places();
        if !write {
            return print(&(plan.undoing(&paths).join("\n") + "\n"));
        }
        paths.retain(|path| path.symlink_metadata().is_ok());
        for path in &paths {
            refuse_foreign(path)?;
            fs::remove_file(path).map_err(|cause| Trouble::File {
                action: "remove",
                path: path.clone(),
                cause,
            })?;
            // The directory may hold files of others.
            let _ = path.parent().map(fs::remove_dir);
            print(&format!("removed {}\n", shown(path)))?;
        }
        plan.commands.iter().try_for_each(|(_, unset)| run(unset))?;
        print(&format!("now: {}\n", plan.restart(&paths).join(" && ")))
    }
}

/// Reads what a configuration loads, and checks that a server can use it.
fn usable(root: &Path, config: &Path) -> Result<Loaded, Trouble> {
    plain(config)?;
    let path = below(root, config);
    let way_out = |reason: String| {
        let config = shown(config);
        Trouble::Usage(format!(
            "{reason}; write it with `evener tls config --counters -o {config}`"
        ))
    };
    let loaded = Loaded::by(&path).map_err(way_out)?;
    plain(&loaded.module)?;
    if root == Path::new("/")
        && let Some(reason) = loaded.unfit()
    {
        return Err(way_out(reason));
    }
    for path in [path, below(root, &loaded.module)] {
        if let Some(closed) = closed(&path) {
            complain(&format_args!(
                "{}: not all users may read {}, and a server that starts as another user then goes on \
                 without Evener",
                shown(closed),
                if closed == path { "it" } else { "what is in it" },
            ));
        }
    }
    Ok(loaded)
}

/// The file, or the directory on its path, that others may not read.
fn closed(path: &Path) -> Option<&Path> {
    path.ancestors().find(|part| {
        let wanted = if *part == path { 0o004 } else { 0o001 };
        fs::metadata(part).is_ok_and(|found| found.permissions().mode() & wanted == 0)
    })
}

/// The path of this program below a root directory.
fn program(root: &Path) -> Result<String, Trouble> {
    let own = env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
    let within = own.strip_prefix(root).map(|path| Path::new("/").join(path));
    plain(&within.unwrap_or_else(|_| "/usr/bin/evener".into()))
}

/// Refuses to change a file that somebody else wrote.
fn refuse_foreign(path: &Path) -> Result<(), Trouble> {
    match fs::read(path) {
        Ok(text) if text.starts_with(HEAD.as_bytes()) => Ok(()),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(Trouble::File { action: "read", path: path.into(), cause }),
        Ok(_) => Err(Trouble::Usage(format!(
            "{}: `evener tls enable` did not write it; move it away first",
            shown(path)
        ))),
    }
}

fn run(command: &str) -> Result<(), Trouble> {
    let failed = |cause| Trouble::File { action: "run", path: "sh".into(), cause };
    let status = Command::new("sh").args(["-euc", command]).status().map_err(failed)?;
    if !status.success() {
        return Err(Trouble::Usage(format!("this ended with {status}: {command}")));
    }
    print(&format!("did: {command}\n")).map(drop)
}

fn print(text: &str) -> Result<Ending, Trouble> {
    io::stdout().lock().write_all(text.as_bytes()).map_err(Trouble::Output)?;
    Ok(Ending::Done)
}
