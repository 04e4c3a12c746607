//! `evener tls`: its messages, and what becomes of its files, whatever a program or a user does.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;
use std::time::Duration;

use common::{Ended, Fixture, PROVIDER};
use rustix::fs::{OFlags, fcntl_setfl};

#[test]
fn a_program_to_check_that_is_not_there_is_named() {
    let fixture = Fixture::new();
    let ended = fixture.expect(2, &["tls", "check", "--provider", PROVIDER, "no-such-program"]);
    let told = "evener: no-such-program: can't run it: No such file or directory\n";
    assert_eq!(ended.messages, told);
}

/// Anyone can put files into /dev/shm.
#[test]
fn a_configuration_without_an_end_is_refused() {
    let fixture = Fixture::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        fixture.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let includes = format!(".include {}\n", fixture.path("pipe").display());
    fs::write(fixture.path("includes"), includes).unwrap();
    for (base, reason) in [
        ("pipe", "it is no file"),
        ("/dev/zero", "it is larger than 16 MiB"),
        ("includes", "it is no file"),
    ] {
        let ended = fixture.run(&["tls", "config", "--provider", PROVIDER, "--base", base]);
        assert_eq!(ended.status, Some(2), "{base}: {}", ended.messages);
        assert!(ended.messages.contains(reason), "{base}: {}", ended.messages);
    }
    let ended = fixture.run(&["tls", "config", "--provider", PROVIDER, "--base", "/dev/null"]);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
}

#[test]
fn what_others_leave_behind_is_no_failure_of_tls_status() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let rubbish = format!("/dev/shm/evener-tls-{}", 3_000_000_000 + u64::from(std::process::id()));
    fs::write(&rubbish, "no counters").unwrap();
    let ended = Fixture::new().run(&["tls", "status"]);
    fs::remove_file(&rubbish).unwrap();
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    let told = format!("{rubbish}: can't read it: it is no file of counters");
    assert!(ended.messages.contains(&told), "{}", ended.messages);
}

/// A script sees how the program ended, and nothing of the configuration remains.
#[test]
fn a_checked_program_says_how_it_ended() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("temporary")).unwrap();
    for (line, status, told) in [
        ("exit 22", 22, "sh: it ended with exit status: 22\n"),
        ("kill -INT $$", 130, "sh: interrupted\n"),
        ("kill -TERM $$", 130, "sh: interrupted\n"),
        ("kill -QUIT $PPID; sleep 0.1; kill -QUIT $$", 131, "(SIGQUIT)"),
        ("kill -INT $PPID; sleep 0.1; exit 3", 3, "exit status: 3\n"),
        ("kill -KILL $$", 137, "(SIGKILL)"),
        ("mkdir ${OPENSSL_CONF%/*}/counters; exit 9", 9, "it is no file of counters\n"),
        ("kill -TERM $PPID; exec sleep 60", 130, "sh: interrupted\n"),
        ("exit 0", 1, "Perhaps there was no TLS"),
    ] {
        let mut command = fixture.command(&["tls", "check", "--provider", PROVIDER, "sh", "-c"]);
        let ended = Ended::of(
            command.arg(line).env("OPENSSL_CONF", "").env("TMPDIR", fixture.path("temporary")),
        );
        assert_eq!(ended.status, Some(status), "{line}: {}", ended.messages);
        assert!(ended.messages.contains(told), "{line}: {}", ended.messages);
        assert_eq!(ended.messages.contains("Perhaps"), line == "exit 0", "{line}");
        assert_eq!(fixture.names("temporary"), [""; 0], "{line}");
    }
}

/// Nothing remains once the end is reported, however long it takes; until then no signal ends it.
#[test]
fn a_checked_programs_directory_is_removed_before_its_end_is_told() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("temporary")).unwrap();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // A full pipe takes nothing more.
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    while writer.write(b".").is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    let mut command = fixture.command(&["tls", "check", "--provider", PROVIDER, "touch", "ended"]);
    command.env("OPENSSL_CONF", "").env("TMPDIR", fixture.path("temporary")).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    while !fixture.path("ended").exists() {
        sleep(SOON / 10);
    }
    sleep(SOON);
    assert_eq!(fixture.names("temporary"), [""; 0]);
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(said.contains("Perhaps there was no TLS"), "{said}");
}

#[test]
fn nobody_else_can_write_what_a_checked_program_reads() {
    let fixture = Fixture::new();
    for umask in ["0", "777"] {
        let look = format!(
            "umask {umask}; $evener tls check --provider $evener sh -c 'stat -c %a ${{OPENSSL_CONF%/*}}'"
        );
        let ended = fixture.shell(&look);
        assert_eq!(String::from_utf8_lossy(&ended.output), "700\n", "{}", ended.messages);
    }
}

#[test]
fn a_checked_program_may_open_as_many_files_as_without_evener() {
    let fixture = Fixture::new();
    let look = "ulimit -Sn 333; $evener tls check --provider $evener sh -c 'ulimit -n'";
    let ended = fixture.shell(look);
    assert_eq!(String::from_utf8_lossy(&ended.output), "333\n", "{}", ended.messages);
}

/// Whatever replaces the directory is not removed.
#[test]
fn a_checked_programs_directory_that_cant_be_removed_is_told() {
    let fixture = Fixture::new();
    let replace = "at=${OPENSSL_CONF%/*}; rm -r $at; echo a file >$at; echo $at; exit 9";
    let ended = fixture.run(&["tls", "check", "--provider", PROVIDER, "sh", "-c", replace]);
    let place = String::from_utf8(ended.output).unwrap();
    assert_eq!(ended.status, Some(9), "{}", ended.messages);
    let told = format!("evener: {}: can't remove it: ", place.trim_end());
    assert!(ended.messages.contains(&told), "{}", ended.messages);
    fs::remove_file(place.trim_end()).unwrap();
}

/// The files of a system with a service of each kind, whose `evener.cnf` loads Evener.
fn system(units: &[&str]) -> Fixture {
    let fixture = Fixture::new();
    for unit in units {
        let unit = fixture.path(&format!("root/usr/lib/systemd/system/{unit}.service"));
        fs::create_dir_all(unit.parent().unwrap()).unwrap();
        fs::write(unit, "[Service]\n").unwrap();
    }
    fs::create_dir_all(fixture.path("root/etc/ssl")).unwrap();
    fs::write(fixture.path("base.cnf"), "").unwrap();
    let config = ["tls", "config", "--provider", PROVIDER, "--base", "base.cnf", "-o"];
    fixture.expect(0, &[&config[..], &["root/etc/ssl/evener.cnf"]].concat());
    fixture
}

/// Runs `evener tls ACTION --root ROOT` with more arguments.
fn on_system(fixture: &Fixture, action: &str, words: &[&str]) -> Ended {
    let root = fixture.path("root");
    fixture.run(&[&["tls", action, "--root", root.to_str().unwrap()], words].concat())
}

#[test]
fn a_service_is_enabled_and_disabled_by_a_file_beside_its_unit() {
    let fixture = system(&["openvpn-server@", "openvpn@", "nginx"]);
    let unit = |name: &str| format!("root/etc/systemd/system/{name}.service.d");
    let ended = on_system(&fixture, "enable", &["--write", "--require", "openvpn"]);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    let said = String::from_utf8(ended.output).unwrap();
    let restart = "systemctl daemon-reload && systemctl restart 'openvpn-server@*' 'openvpn@*'";
    assert!(said.contains(restart), "{said}");
    for name in ["openvpn-server@", "openvpn@"] {
        let text = fs::read_to_string(fixture.path(&(unit(name) + "/evener.conf"))).unwrap();
        let [_, section, environment, check] = &text.lines().collect::<Vec<_>>()[..] else {
            panic!("{text}")
        };
        assert_eq!(
            (*section, *environment),
            ("[Service]", "Environment=OPENSSL_CONF=/etc/ssl/evener.cnf")
        );
        assert!(check.starts_with("ExecStartPre=+/"), "{text}");
        assert!(check.ends_with(" tls check --config /etc/ssl/evener.cnf"), "{text}");
    }
    assert!(!fixture.path(&unit("openvpn-client@")).exists());
    // Evener rewrites its own file, and leaves others' files alone.
    assert_eq!(on_system(&fixture, "enable", &["--write", "openvpn"]).status, Some(0));
    fs::create_dir_all(fixture.path(&unit("nginx"))).unwrap();
    fs::write(fixture.path(&(unit("nginx") + "/evener.conf")), "[Service]\n").unwrap();
    for action in ["enable", "disable"] {
        let ended = on_system(&fixture, action, &["--write", "nginx"]);
        assert_eq!(ended.status, Some(2), "{action}");
        assert!(ended.messages.contains("did not write it"), "{}", ended.messages);
    }
    let ended = on_system(&fixture, "disable", &["--write", "openvpn"]);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    assert_eq!(fixture.names("root/etc/systemd/system"), ["nginx.service.d"]);
    let ended = on_system(&fixture, "enable", &["--write", "haproxy"]);
    assert_eq!(ended.status, Some(2), "{}", ended.messages);
    assert!(ended.messages.contains("haproxy: it is not installed"), "{}", ended.messages);
}

#[test]
fn a_service_that_clears_its_environment_is_enabled_in_its_own_settings() {
    let fixture = system(&["apache2", "postgresql", "postgresql@", "dovecot"]);
    for place in
        ["etc/apache2", "etc/postgresql/15/main", "etc/postgresql/15/two", "etc/dovecot/conf.d"]
    {
        fs::create_dir_all(fixture.path("root").join(place)).unwrap();
    }
    let files = [
        ("apache2", "etc/apache2/envvars", "export OPENSSL_CONF=/etc/ssl/evener.cnf\n"),
        (
            "postgresql",
            "etc/postgresql/15/main/environment",
            "OPENSSL_CONF = '/etc/ssl/evener.cnf'\n",
        ),
        (
            "postgresql",
            "etc/postgresql/15/two/environment",
            "OPENSSL_CONF = '/etc/ssl/evener.cnf'\n",
        ),
    ];
    let text = |file: &str| fs::read_to_string(fixture.path("root").join(file)).unwrap();
    for (_, file, _) in files {
        fs::write(fixture.path("root").join(file), "# mine\n").unwrap();
    }
    for (service, file, line) in files {
        // Doing it twice has the same result as once.
        for _ in 0..2 {
            let ended = on_system(&fixture, "enable", &["--write", service]);
            assert_eq!(ended.status, Some(0), "{service}: {}", ended.messages);
        }
        assert_eq!(text(file), format!("# mine\n{line}"));
    }
    for (service, file, _) in files {
        let ended = on_system(&fixture, "disable", &["--write", service]);
        assert_eq!(ended.status, Some(0), "{service}: {}", ended.messages);
        assert_eq!(text(file), "# mine\n");
    }
    let place = "etc/dovecot/conf.d/99-evener.conf";
    for (version, expected) in [
        ("", "import_environment = $import_environment OPENSSL_CONF=/etc/ssl/evener.cnf\n"),
        (
            "dovecot_config_version = 2.4.1\n",
            "import_environment {\n  OPENSSL_CONF = /etc/ssl/evener.cnf\n}\n",
        ),
    ] {
        fs::write(fixture.path("root/etc/dovecot/dovecot.conf"), version).unwrap();
        assert_eq!(on_system(&fixture, "enable", &["--write", "dovecot"]).status, Some(0));
        assert!(text(place).ends_with(expected), "{}", text(place));
    }
    assert_eq!(on_system(&fixture, "disable", &["--write", "dovecot"]).status, Some(0));
    assert!(!fixture.path("root").join(place).exists());
}

/// The printed commands do the same when a shell runs them.
#[test]
fn the_printed_commands_enable_and_disable() {
    let fixture = system(&["redis-server"]);
    let on_shell = |action: &str| {
        let ended = on_system(&fixture, action, &["redis"]);
        let script = String::from_utf8(ended.output).unwrap();
        assert_eq!(ended.status, Some(0), "{}", ended.messages);
        let ended = fixture.shell(&format!("systemctl() {{ :; }}\nset -e\n{script}"));
        assert_eq!(ended.status, Some(0), "{}: {script}", ended.messages);
    };
    on_shell("enable");
    let place = "root/etc/systemd/system/redis-server.service.d/evener.conf";
    let printed = fs::read_to_string(fixture.path(place)).unwrap();
    assert!(printed.contains("\nExecPaths=/"), "{printed}");
    assert_eq!(on_system(&fixture, "enable", &["--write", "redis"]).status, Some(0));
    assert_eq!(fs::read_to_string(fixture.path(place)).unwrap(), printed);
    on_shell("disable");
    assert!(!fixture.path(place).exists());
}

#[test]
fn a_configuration_that_servers_cant_use_is_named() {
    let fixture = system(&["nginx"]);
    let config = fixture.path("root/etc/ssl/evener.cnf");
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    let ended = on_system(&fixture, "enable", &["nginx"]);
    assert!(ended.messages.contains("not all users may read it"), "{}", ended.messages);
    fs::write(&config, "a = b\n").unwrap();
    let ended = on_system(&fixture, "enable", &["nginx"]);
    assert_eq!(ended.status, Some(2), "{}", ended.messages);
    let told = "it doesn't load Evener; write it with `evener tls config --counters -o /etc/ssl/evener.cnf`";
    assert!(ended.messages.contains(told), "{}", ended.messages);
    fs::remove_file(&config).unwrap();
    assert_eq!(on_system(&fixture, "enable", &["nginx"]).status, Some(2));
    // Undoing needs none.
    assert_eq!(on_system(&fixture, "disable", &["nginx"]).status, Some(0));
}

#[test]
fn a_process_that_runs_is_looked_at() {
    let fixture = Fixture::new();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let number = child.id().to_string();
    // The process gets its own name a moment after its start.
    while fs::read_to_string(format!("/proc/{number}/comm")).unwrap() != "sleep\n" {
        std::thread::yield_now();
    }
    let ended = fixture.run(&["tls", "check", "--pid", &number]);
    let said = String::from_utf8(ended.output).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ended.status, Some(1), "{}", ended.messages);
    assert!(said.starts_with(&format!("sleep, process {number}\n")), "{said}");
    assert!(said.ends_with("  counted: nothing: Evener is not loaded\n"), "{said}");
    let ended = fixture.expect(2, &["tls", "check", "--pid", &number]);
    assert!(ended.messages.contains("can't read it: No such file"), "{}", ended.messages);
    let ended = fixture.expect(2, &["tls", "check", "--service", "no-such-service"]);
    assert!(ended.messages.contains("no process of such a service runs"), "{}", ended.messages);
    fixture.expect(2, &["tls", "check", "--pid", "1", "true"]);
    fixture.expect(2, &["tls", "check"]);
}

const SOON: Duration = Duration::from_millis(300);
