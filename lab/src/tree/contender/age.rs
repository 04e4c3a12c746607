//! age, with an X25519 recipient.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::each_file::each_file;
use super::{Contender, ContenderFacts, capture, secret, version};
use crate::LabError;
use crate::process::{Cost, run};

pub(super) struct Age {
    identity: PathBuf,
    recipients: PathBuf,
    facts: ContenderFacts,
}

impl Age {
    pub(super) fn set_up(secrets: &Path) -> Result<Age, LabError> {
        let facts = ContenderFacts {
            name: "age",
            version: version(Path::new("age"), "--version")?,
            usage: "`age -R RECIPIENTS` with one X25519 recipient; one process a file, as many \
                   at once as there are cores; links are left out",
        };
        let identity = secrets.join("age.identity");
        run(Command::new("age-keygen").arg("-o").arg(&identity))?;
        let recipient = capture(Command::new("age-keygen").arg("-y").arg(&identity))?;
        let recipients = secrets.join("age.recipients");
        secret::write(&recipients, &recipient)?;
        Ok(Age { identity, recipients, facts })
    }
}

impl Contender for Age {
    fn facts(&self) -> &ContenderFacts {
        &self.facts
    }

    fn encrypt(&self, source: &Path, target: &Path) -> Result<Cost, LabError> {
        each_file(source, target, |input, output| {
            let mut command = Command::new("age");
            command.arg("-R").arg(&self.recipients).arg("-o").arg(output).arg(input);
            command
        })
    }

    fn decrypt(&self, source: &Path, target: &Path) -> Result<Cost, LabError> {
        each_file(source, target, |input, output| {
            let mut command = Command::new("age");
            command.args(["-d", "-i"]).arg(&self.identity).arg("-o").arg(output).arg(input);
            command
        })
    }
}
