//! `openssl enc`, which many backup scripts still use.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::each_file::each_file;
use super::{Contender, ContenderFacts, secret, version};
use crate::LabError;
use crate::process::Cost;

pub(super) struct Openssl {
    /// `file:` and the path of the password.
    password: OsString,
    facts: ContenderFacts,
}

impl Openssl {
    pub(super) fn set_up(secrets: &Path) -> Result<Openssl, LabError> {
        let facts = ContenderFacts {
            name: "openssl enc",
            version: version(Path::new("openssl"), "version")?,
            usage: "`openssl enc -aes-256-ctr -pbkdf2` with its default 10,000 iterations; \
                   one process a file, as many at once as there are cores; nothing \
                   authenticates the data; links are left out",
        };
        let file = secrets.join("openssl.password");
        secret::write(&file, &secret::password()?)?;
        let mut password = OsString::from("file:");
        password.push(file);
        Ok(Openssl { password, facts })
    }

    fn run(&self, source: &Path, target: &Path, more: &[&str]) -> Result<Cost, LabError> {
        each_file(source, target, |input, output| {
            let mut command = Command::new("openssl");
            command.args(["enc", "-aes-256-ctr", "-pbkdf2", "-pass"]).arg(&self.password);
            command.args(more).arg("-in").arg(input).arg("-out").arg(output);
            command
        })
    }
}

impl Contender for Openssl {
    fn facts(&self) -> &ContenderFacts {
        &self.facts
    }

    fn encrypt(&self, source: &Path, target: &Path) -> Result<Cost, LabError> {
        self.run(source, target, &[])
    }

    fn decrypt(&self, source: &Path, target: &Path) -> Result<Cost, LabError> {
        self.run(source, target, &["-d"])
    }
}
