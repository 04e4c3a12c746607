//! The contenders that encrypt and decrypt a tree, and `cp -r`, which copies it.

mod age;
mod copy;
mod each_file;
mod evener;
mod gocryptfs;
mod openssl;
mod rclone;
mod secret;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use serde::Serialize;

pub(super) use self::copy::copy;
use crate::LabError;
use crate::process::Cost;

/// The contenders' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the variants are the programs' names")]
pub enum ContenderName {
    Evener,
    Openssl,
    Age,
    Rclone,
    Gocryptfs,
    Pull,
    OpensslAlone,
    LanesAlone,
}

impl ContenderName {
    /// Returns whether this is Evener with non-default options, which exists only for comparison
    /// with the default.
    pub(super) fn is_choice(self) -> bool {
        matches!(
            self,
            ContenderName::Pull | ContenderName::OpensslAlone | ContenderName::LanesAlone
        )
    }
}

/// A contender's description for the report.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ContenderFacts {
    /// The contender's name, as in the rows.
    pub name: &'static str,
    /// The program's version.
    pub version: String,
    /// The command, and its effect on the figures.
    pub usage: &'static str,
}

/// A program that encrypts and decrypts a tree.
pub(super) trait Contender {
    /// Its description.
    fn facts(&self) -> &ContenderFacts;

    /// Encrypts the tree `source` into `target`, which does not exist yet.
    fn encrypt(&self, source: &Path, target: &Path) -> Result<Cost, LabError>;

    /// Decrypts the output of [`Contender::encrypt`] into `target`, which does not exist yet.
    fn decrypt(&self, source: &Path, target: &Path) -> Result<Cost, LabError>;
}

/// Prepares a contender: finds its program and makes its keys in `secrets`, a directory that only
/// this user may enter.
///
/// # Errors
/// [`LabError::Unavailable`] when the program is not installed or can't work here.
pub(super) fn set_up(
    name: ContenderName,
    program: Option<&Path>,
    secrets: &Path,
) -> Result<Box<dyn Contender>, LabError> {
    let evener = |choice| Ok(Box::new(evener::Evener::set_up(choice, program, secrets)?));
    Ok(match name {
        ContenderName::Evener => evener(evener::DEFAULT)?,
        ContenderName::Pull => evener(evener::PULL)?,
        ContenderName::OpensslAlone => evener(evener::OPENSSL)?,
        ContenderName::LanesAlone => evener(evener::LANES)?,
        ContenderName::Openssl => Box::new(openssl::Openssl::set_up(secrets)?),
        ContenderName::Age => Box::new(age::Age::set_up(secrets)?),
        ContenderName::Rclone => Box::new(rclone::Rclone::set_up(secrets)?),
        ContenderName::Gocryptfs => Box::new(gocryptfs::Gocryptfs::set_up(secrets)?),
    })
}

/// The first line of a program's version output.
fn version(program: &Path, argument: &str) -> Result<String, LabError> {
    let output = capture(Command::new(program).arg(argument))?;
    Ok(output.lines().next().unwrap_or_default().trim().to_owned())
}

/// A program's output.
fn capture(command: &mut Command) -> Result<String, LabError> {
    let program = PathBuf::from(command.get_program());
    let output = command.output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => {
            LabError::Unavailable(format!("{} is not installed", evener_core::shown(&program)))
        }
        _ => LabError::Start { program: program.clone(), source },
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let program = evener_core::shown(&program).to_string();
    Err(LabError::Failed { program, status: output.status, message })
}

#[cfg(test)]
pub(super) mod tests;
