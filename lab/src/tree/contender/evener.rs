//! Evener as a program, with default and other options.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Contender, ContenderFacts, version};
use crate::LabError;
use crate::process::{Cost, evener, run};

pub(super) struct Evener {
    program: PathBuf,
    key: PathBuf,
    arguments: &'static [&'static str],
    facts: ContenderFacts,
}

/// Evener's options.
pub(super) struct Choice {
    name: &'static str,
    arguments: &'static [&'static str],
    usage: &'static str,
}

/// No options.
pub(super) const DEFAULT: Choice = Choice {
    name: "evener",
    arguments: &[],
    usage: "`evener encrypt -k KEYFILE`, Cobblestone-256, all defaults",
};
/// The default policy without a module.
pub(super) const PULL: Choice = Choice {
    name: "pull",
    arguments: &["--policy", "pull"],
    usage: "the same with `--policy pull`",
};
/// One of the two engines that `cpu` chooses from.
pub(super) const OPENSSL: Choice = Choice {
    name: "openssl-alone",
    arguments: &["--engine", "openssl"],
    usage: "the same with `--engine openssl`",
};
/// The other engine that `cpu` chooses from.
pub(super) const LANES: Choice = Choice {
    name: "lanes-alone",
    arguments: &["--engine", "lanes"],
    usage: "the same with `--engine lanes`",
};

impl Evener {
    /// Uses `program`, or by default the installed one, to make a key.
    pub(super) fn set_up(
        choice: Choice,
        program: Option<&Path>,
        secrets: &Path,
    ) -> Result<Evener, LabError> {
        let Choice { name, arguments, usage } = choice;
        let program = evener(program)?;
        let key = secrets.join(format!("{name}.key"));
        run(Command::new(&program).arg("keygen").arg("-o").arg(&key))?;
        let facts = ContenderFacts { name, version: version(&program, "--version")?, usage };
        Ok(Evener { program, key, arguments, facts })
    }

    fn run(&self, operation: &str, source: &Path, target: &Path) -> Result<Cost, LabError> {
        let mut command = Command::new(&self.program);
        command.args([operation, "-q", "-k"]).arg(&self.key).args(self.arguments);
        command.arg(source).arg(target);
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
