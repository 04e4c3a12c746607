//! rclone with a crypt remote on a local directory.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Contender, ContenderFacts, secret, version};
use crate::LabError;
use crate::process::{Cost, run};

pub(super) struct Rclone {
    configuration: PathBuf,
    facts: ContenderFacts,
}

impl Rclone {
    pub(super) fn set_up(secrets: &Path) -> Result<Rclone, LabError> {
        let facts = ContenderFacts {
            name: "rclone crypt",
            version: version(Path::new("rclone"), "version")?,
            usage: "`rclone copy --links` to a crypt remote on a local directory, names not \
                   encrypted, 4 transfers at once (its default)",
        };
        let configuration = secrets.join("rclone.conf");
        let password = obscure(&secret::password()?)?;
        let text = format!(
            "[secret]\ntype = crypt\nremote = /\nfilename_encryption = off\n\
             directory_name_encryption = false\npassword = {password}\n"
        );
        secret::write(&configuration, &text)?;
        Ok(Rclone { configuration, facts })
    }

    /// An rclone command whose remote `secret:` has its ciphertext in `directory`.
    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new("rclone");
        command.env("RCLONE_CONFIG", &self.configuration);
        command.env("RCLONE_CONFIG_SECRET_REMOTE", directory);
        command.args(["copy", "--links"]);
        command
    }
}

impl Contender for Rclone {
    fn facts(&self) -> &ContenderFacts {
        &self.facts
    }

    fn encrypt(&self, source: &Path, target: &Path) -> Result<Cost, LabError> {
        run(self.command(target).arg(source).arg("secret:"))
    }

    fn decrypt(&self, source: &Path, target: &Path) -> Result<Cost, LabError> {
        run(self.command(source).arg("secret:").arg(target))
    }
}

/// A password in the form of rclone's configuration.
fn obscure(password: &str) -> Result<String, LabError> {
    let failed = LabError::file("hand a password to", "rclone obscure");
    let talk = || -> std::io::Result<Vec<u8>> {
        let mut child = Command::new("rclone")
            .args(["obscure", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(password.as_bytes())?;
        }
        Ok(child.wait_with_output()?.stdout)
    };
    let obscured = talk().map_err(failed)?;
    Ok(String::from_utf8_lossy(&obscured).trim().to_owned())
}
