//! Evener itself, as the program that people run.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Contender, ContenderFacts, version};
use crate::LabError;
use crate::process::{Cost, run};

pub(super) struct Evener {
    program: PathBuf,
    key: PathBuf,
    facts: ContenderFacts,
}

impl Evener {
    /// Uses `program`, or the running program when there is none, and has it make a key.
    pub(super) fn set_up(program: Option<&Path>, secrets: &Path) -> Result<Evener, LabError> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => env::current_exe().map_err(LabError::file("find", "the running program"))?,
        };
        let key = secrets.join("evener.key");
        run(Command::new(&program).arg("keygen").arg("-o").arg(&key))?;
        let facts = ContenderFacts {
            name: "evener",
            version: version(&program, "--version")?,
            usage: "`evener encrypt -k KEYFILE`, Cobblestone-256, all defaults",
        };
        Ok(Evener { program, key, facts })
    }

    fn run(&self, operation: &str, source: &Path, target: &Path) -> Result<Cost, LabError> {
        let mut command = Command::new(&self.program);
        command.args([operation, "-q", "-k"]).arg(&self.key).arg(source).arg(target);
        run(&mut command)
    }
}

impl Contender for Evener {
    fn facts(&self) -> &ContenderFacts {
        &self.facts
    }

    fn encrypt(&self, source: &Path, target: &Path) -> Result<Cost, LabError> {
        self.run("encrypt", source, target)
    }

    fn decrypt(&self, source: &Path, target: &Path) -> Result<Cost, LabError> {
        self.run("decrypt", source, target)
    }
}
