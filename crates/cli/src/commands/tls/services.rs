//! The services that Evener knows, as Debian has them.

use std::path::Path;

/// A server, and how it gets the name of OpenSSL's configuration.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: &'static str,
    /// Other names that people know it by.
    pub(super) aliases: &'static [&'static str],
    /// Its units of systemd, without `.service`, also of other distributions. Those with an `@` have
    /// instances.
    units: &'static [&'static str],
    /// Its programs that do TLS.
    programs: &'static [&'static str],
    pub(super) setting: Setting,
}

/// Where a server's environment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// From systemd, by a file beside the unit's.
    Systemd,
    /// A file that its start script reads.
    Apache,
    /// Its own configuration: it clears its initial environment.
    Postfix,
    Dovecot,
    Postgresql,
}

pub(super) static SERVICES: [Service; 10] = [
    Service {
        name: "nginx",
        aliases: &[],
        units: &["nginx"],
        programs: &["nginx"],
        setting: Setting::Systemd,
    },
    Service {
        name: "apache2",
        aliases: &["httpd"],
        units: &["apache2", "httpd"],
        programs: &["apache2", "httpd"],
        setting: Setting::Apache,
    },
    Service {
        name: "haproxy",
        aliases: &[],
        units: &["haproxy"],
        programs: &["haproxy"],
        setting: Setting::Systemd,
    },
    Service {
        name: "postfix",
        aliases: &[],
        units: &["postfix", "postfix@"],
        programs: &["smtpd", "smtp", "lmtp", "tlsproxy", "tlsmgr"],
        setting: Setting::Postfix,
    },
    Service {
        name: "dovecot",
        aliases: &[],
        units: &["dovecot"],
        programs: &["imap-login", "pop3-login", "managesieve-login", "submission-login", "lmtp"],
        setting: Setting::Dovecot,
    },
    Service {
        name: "postgresql",
        aliases: &["postgres"],
        units: &["postgresql", "postgresql@"],
        programs: &["postgres"],
        setting: Setting::Postgresql,
    },
    Service {
        name: "ssh",
        aliases: &["sshd"],
        units: &["ssh", "ssh@", "sshd", "sshd@"],
        programs: &["sshd", "sshd-session", "sshd-auth"],
        setting: Setting::Systemd,
    },
    Service {
        name: "openvpn",
        aliases: &[],
        units: &["openvpn-server@", "openvpn-client@", "openvpn@"],
        programs: &["openvpn"],
        setting: Setting::Systemd,
    },
    Service {
        name: "redis",
        aliases: &["redis-server"],
        units: &["redis-server", "redis-server@", "redis", "redis@"],
        programs: &["redis-server"],
        setting: Setting::Systemd,
    },
    Service {
        name: "mariadb",
        aliases: &["mysql"],
        units: &["mariadb", "mariadb@"],
        programs: &["mariadbd"],
        setting: Setting::Systemd,
    },
];

impl Service {
    pub(super) fn named(name: &str) -> Option<&'static Service> {
        SERVICES.iter().find(|service| service.name == name || service.aliases.contains(&name))
    }

    /// The units installed below a root directory. A link is another name of a unit.
    pub(super) fn units(&self, root: &Path) -> Vec<&'static str> {
        let is_there = |unit: &&str| {
            let file = format!("{unit}.service");
            PLACES.iter().any(|place| {
                root.join(place).join(&file).symlink_metadata().is_ok_and(|found| found.is_file())
            })
        };
        self.units.iter().copied().filter(is_there).collect()
    }

    /// Its unit in Debian.
    pub(super) fn usual_unit(&self) -> &'static str {
        self.units[0]
    }
}

/// Where systemd finds units, the most important ones first.
const PLACES: [&str; 4] = [
    "etc/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// Defines which processes belong to a service, a known one or any unit of systemd.
pub(super) struct Membership {
    pub(super) name: String,
    known: Option<&'static Service>,
}

impl Membership {
    pub(super) fn of(name: &str) -> Membership {
        let name = name.strip_suffix(".service").unwrap_or(name).to_owned();
        Membership { known: Service::named(&name), name }
    }

    /// Advice on how to get Evener loaded.
    pub(super) fn advice(&self) -> String {
        self.known.map_or(String::new(), |known| {
            format!("; `evener tls enable {}` says how to have that", known.name)
        })
    }

    /// Returns whether a part of a control group's path is one of its units, or an instance of one.
    pub(super) fn has_group(&self, part: &str) -> bool {
        let is_of = |unit: &str| {
            let instance = part.strip_prefix(unit).and_then(|rest| rest.strip_suffix(".service"));
            instance
                .is_some_and(|rest| rest.is_empty() || unit.ends_with('@') || rest.starts_with('@'))
        };
        self.known
            .map_or_else(|| is_of(&self.name), |known| known.units.iter().any(|unit| is_of(unit)))
    }

    /// Returns whether a program of this name, cut to 15 bytes by the system, does the service's
    /// TLS. For an unknown unit, every program in its group does, and so does one with the unit's
    /// name.
    pub(super) fn has_program(&self, name: &str, is_in_group: bool) -> bool {
        match self.known {
            Some(known) => {
                known.programs.iter().any(|program| name == &program[..program.len().min(15)])
            }
            None => is_in_group || name == self.name.get(..15).unwrap_or(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_services_processes_are_known_by_group_and_name() {
        let postfix = Membership::of("postfix");
        assert!(postfix.has_group("postfix.service") && postfix.has_group("postfix@-.service"));
        assert!(!postfix.has_group("postfix") && !postfix.has_group("postfixed.service"));
        assert!(postfix.has_program("smtpd", true) && !postfix.has_program("master", true));
        let dovecot = Membership::of("dovecot.service");
        assert!(dovecot.has_program("managesieve-log", false));
        let other = Membership::of("stunnel");
        assert!(other.has_group("stunnel@imap.service") && !other.has_group("stunnels.service"));
        assert!(other.has_program("stunnel4", true) && !other.has_program("stunnel4", false));
        assert!(other.has_program("stunnel", false));
        assert_eq!(Membership::of("sshd").known.map(|known| known.name), Some("ssh"));
    }

    #[test]
    fn units_are_those_that_are_installed() {
        let root = tempfile::tempdir().unwrap();
        let ssh = Service::named("ssh").unwrap();
        assert!(ssh.units(root.path()).is_empty());
        let places = PLACES.map(|place| root.path().join(place));
        places.iter().for_each(|place| std::fs::create_dir_all(place).unwrap());
        std::fs::write(places[2].join("ssh.service"), "").unwrap();
        std::os::unix::fs::symlink("ssh.service", places[0].join("sshd.service")).unwrap();
        assert_eq!(ssh.units(root.path()), ["ssh"]);
    }
}
