//! Gives a service the name of OpenSSL's configuration.

use std::fs;
use std::path::{Path, PathBuf};

use super::config::plain;
use super::services::{Service, Setting};
use crate::trouble::{Trouble, shown};

/// The changes to make for a service.
pub(super) struct Plan<'p> {
    service: &'static Service,
    root: &'p Path,
    config: &'p Path,
    /// Its installed units.
    units: Vec<&'static str>,
    /// Shell commands that change a file of the service's own, and that change it back.
    pub(super) commands: Option<(String, String)>,
    /// True if systemd gives the service its environment.
    by_systemd: bool,
}

impl<'p> Plan<'p> {
    pub(super) fn of(
        service: &'static Service,
        root: &'p Path,
        config: &'p Path,
    ) -> Result<Plan<'p>, Trouble> {
        // Both are written into commands.
        let (prefix, value) = (plain(root)?, plain(config)?);
        let at = |path: &str| format!("{}/{path}", prefix.trim_end_matches('/'));
        let units = service.units(root);
        let commands = match service.setting {
            Setting::Systemd | Setting::Dovecot => None,
            Setting::Apache if units == ["httpd"] => None,
            Setting::Apache => {
                let line = format!("export OPENSSL_CONF={value}");
                Some(line_commands(&line, &at("etc/apache2/envvars")))
            }
            Setting::Postgresql if !units.is_empty() && !root.join("etc/postgresql").exists() => {
                None
            }
            Setting::Postgresql => {
                let line = format!("OPENSSL_CONF = '{value}'");
                let (set, unset) = line_commands(&line, "$file");
                let each = |command| {
                    let files = at("etc/postgresql/*/*/environment");
                    format!("for file in {files}; do {command}; done")
                };
                Some((each(set), each(unset)))
            }
            Setting::Postfix => {
                Some(postfix_commands(&value, (prefix != "/").then(|| at("etc/postfix"))))
            }
        };
        let by_systemd = commands.is_none() && service.setting != Setting::Dovecot;
        Ok(Plan { service, root, config, units, commands, by_systemd })
    }

    /// The files to write. If `check` names a program that checks the configuration, each unit
    /// calls it before the service starts.
    pub(super) fn files(&self, module: &Path, check: Option<&str>) -> Vec<(PathBuf, String)> {
        let (service, config) = (self.service.name, shown(self.config));
        let head = format!("{HEAD} {service}`; `evener tls disable {service}` removes it.\n");
        let mut files = Vec::new();
        if self.by_systemd || check.is_some() {
            let mut text = format!("{head}[Service]\n");
            if self.by_systemd {
                text += &format!("Environment=OPENSSL_CONF={config}\n");
            }
            // Its unit has NoExecPaths.
            if service == "redis" {
                let directory = shown(module.parent().unwrap_or(Path::new("/")));
                text += &format!("ExecPaths={directory}\n");
            }
            if let Some(program) = check {
                text += &format!("ExecStartPre=+{program} tls check --config {config}\n");
            }
            files.extend(self.drop_ins().map(|path| (path, text.clone())));
        }
        if self.service.setting == Setting::Dovecot {
            let text = match self.is_new_dovecot() {
                true => format!("import_environment {{\n  OPENSSL_CONF = {config}\n}}\n"),
                false => {
                    format!("import_environment = $import_environment OPENSSL_CONF={config}\n")
                }
            };
            files.push((self.of_dovecot(), head + &text));
        }
        files
    }

    /// The files that `files` gave, as far as known: existing ones, and those that it always gives.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        let dovecot = (self.service.setting == Setting::Dovecot).then(|| self.of_dovecot());
        let may_be = |path: &PathBuf| self.by_systemd || path.symlink_metadata().is_ok();
        self.drop_ins().filter(may_be).chain(dovecot).collect()
    }

    /// Refuses a service that does not exist.
    pub(super) fn refuse_absent(&self) -> Result<(), Trouble> {
        if !self.units.is_empty() {
            return Ok(());
        }
        Err(Trouble::Usage(format!(
            "{}: it is not installed: systemd has no {}.service below {}",
            self.service.name,
            self.service.usual_unit(),
            shown(self.root)
        )))
    }

    /// The commands that make all changes, and as comments those that undo them.
    pub(super) fn script(&self, files: &[(PathBuf, String)]) -> String {
        let name = self.service.name;
        let mut lines = Vec::new();
        for (path, text) in files {
            let (directory, path) = (shown(path.parent().unwrap_or(path)), shown(path));
            lines.push(format!("mkdir -p {directory}"));
            lines.push(format!("cat >{path} <<'END'\n{text}END"));
        }
        lines.extend(self.commands.iter().map(|(set, _)| set.clone()));
        let paths: Vec<_> = files.iter().map(|(path, _)| path.clone()).collect();
        lines.extend(self.restart(&paths));
        lines.push(format!("# See whether it holds, with a client connected:\n#   evener tls check --service {name}"));
        lines.push("# Undo it:".to_owned());
        let undoing = self.undoing(&paths).join("\n");
        lines.extend(undoing.lines().map(|line| format!("#   {line}")));
        lines.join("\n") + "\n"
    }

    /// The commands that undo all changes, with these files.
    pub(super) fn undoing(&self, paths: &[PathBuf]) -> Vec<String> {
        let mut lines: Vec<_> = paths.iter().map(|path| format!("rm -f {}", shown(path))).collect();
        lines.extend(self.commands.iter().map(|(_, unset)| unset.clone()));
        lines.extend(self.restart(paths));
        lines
    }

    /// The commands that start the service again after a change of these files. A reload keeps the
    /// environment.
    pub(super) fn restart(&self, paths: &[PathBuf]) -> Vec<String> {
        let names = self.unit_names();
        let has_plain = names.iter().any(|unit| !unit.ends_with('@'));
        // If systemd starts instances with the unit, it also restarts them with it.
        let needed = |unit: &&str| self.by_systemd || !has_plain || !unit.ends_with('@');
        let names = names.into_iter().filter(needed).map(|unit| match unit.ends_with('@') {
            true => format!("'{unit}*'"),
            false => unit.to_owned(),
        });
        let restart = format!("systemctl restart {}", names.collect::<Vec<_>>().join(" "));
        let reload = paths.iter().any(|path| path.ends_with(DROP_IN));
        let reload = reload.then(|| "systemctl daemon-reload".to_owned());
        reload.into_iter().chain([restart]).collect()
    }

    fn unit_names(&self) -> Vec<&'static str> {
        match &self.units[..] {
            [] => vec![self.service.usual_unit()],
            units => units.to_vec(),
        }
    }

    fn drop_ins(&self) -> impl Iterator<Item = PathBuf> {
        let place = below(self.root, Path::new("/etc/systemd/system"));
        self.unit_names()
            .into_iter()
            .map(move |unit| place.join(format!("{unit}.service.d")).join(DROP_IN))
    }

    fn of_dovecot(&self) -> PathBuf {
        below(self.root, Path::new("/etc/dovecot/conf.d/99-evener.conf"))
    }

    /// Returns whether its configuration is for Dovecot 2.4, which states its version.
    fn is_new_dovecot(&self) -> bool {
        let text = fs::read(below(self.root, Path::new("/etc/dovecot/dovecot.conf")));
        let text = text.unwrap_or_default();
        text.split(|&byte| byte == b'\n').any(|line| line.starts_with(b"dovecot_config_version"))
    }
}

/// An absolute path below a root directory.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Commands that add a line to a file, and that remove it again.
fn line_commands(line: &str, file: &str) -> (String, String) {
    let pattern = line.replace('.', "\\.");
    (
        format!("grep -qxF \"{line}\" {file} || echo \"{line}\" >>{file}"),
        format!("sed -i \"\\|^{pattern}\\$|d\" {file}"),
    )
}

/// Postfix's own program changes its configuration, in `directory` if it isn't in the usual one.
fn postfix_commands(value: &str, directory: Option<String>) -> (String, String) {
    let directory = directory.map_or(String::new(), |directory| format!(" -c {directory}"));
    let others =
        format!("$(postconf{directory} -h import_environment | sed 's| OPENSSL_CONF=[^ ]*||g')");
    let set =
        |value: &str| format!("postconf{directory} -e \"import_environment = {others}{value}\"");
    let is_usual = format!(
        "[ \"$(postconf{directory} -h import_environment)\" != \"$(postconf -dh import_environment)\" ]"
    );
    (
        set(&format!(" OPENSSL_CONF={value}")),
        format!("{}\n{is_usual} || postconf{directory} -X import_environment", set("")),
    )
}

/// The name of the file beside a unit's.
const DROP_IN: &str = "evener.conf";

/// The beginning of every file that is written.
pub(super) const HEAD: &str = "# Written by `evener tls enable";
