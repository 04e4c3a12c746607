//! The servers: nginx.

use std::env;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::contender::Contender;
use super::site::{CERTIFICATE, KEY, ROOT, Site};
use super::{TlsOptions, usage};
use crate::LabError;
use crate::pin::pin;

/// The program nginx.
pub(super) struct Nginx {
    program: PathBuf,
    /// The versions of nginx and its OpenSSL.
    pub(super) version: String,
    workers: u16,
    record: u16,
    user: Option<String>,
    cores: Vec<usize>,
}

impl Nginx {
    /// Finds the named program, or one on the PATH or in the directories of root's programs.
    ///
    /// # Errors
    /// When there is no nginx that supports TLS with OpenSSL.
    pub(super) fn find(options: &TlsOptions) -> Result<Nginx, LabError> {
        let path = env::var_os("PATH").unwrap_or_default();
        let directories =
            env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
        let program = match &options.program {
            Some(program) => Some(program.clone()),
            None => {
                directories.map(|directory| directory.join("nginx")).find(|path| path.is_file())
            }
        };
        let program = program.ok_or_else(|| {
            LabError::Unavailable(
                "there is no nginx: install it (`apt install nginx`), or name it with --program"
                    .to_owned(),
            )
        })?;
        let failed = |source| LabError::Start { program: program.clone(), source };
        let output =
            Command::new(&program).arg("-V").stdin(Stdio::null()).output().map_err(failed)?;
        let version = version(&String::from_utf8_lossy(&output.stderr)).ok_or_else(|| {
            LabError::Unavailable(format!(
                "{} does no TLS with OpenSSL; name another nginx with --program",
                evener_core::shown(&program)
            ))
        })?;
        let (workers, record) = (options.workers, options.record);
        let (user, cores) = (options.server_user.clone(), options.server_cores.clone());
        Ok(Nginx { program, version, workers, record, user, cores })
    }

    /// Starts a server with a contender's configuration of OpenSSL, and returns when it serves.
    ///
    /// # Errors
    /// When it does not.
    pub(super) fn start(&self, site: &Site, contender: &Contender) -> Result<Server, LabError> {
        let name = format!("nginx-{}", contender.name);
        let home = site.path(&name);
        if !home.exists() {
            // nginx's workers must be able to enter it.
            site.directory(&name, 0o711)?;
        }
        let port = free_port().map_err(LabError::file("find a port at", "127.0.0.1"))?;
        let (file, log) = (home.join("nginx.conf"), home.join("log"));
        let text = self.configuration(port);
        fs::write(&file, text).map_err(LabError::file("write", &file))?;
        let said = File::create(&log).map_err(LabError::file("create", &log))?;
        let mut command = contender.command(&self.program);
        command.arg("-e").arg(&log).arg("-p").arg(&home).arg("-c").arg(&file);
        // Ctrl-C goes to this program, which then ends the servers.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).process_group(0);
        let child = thread::scope(|scope| {
            let start = || {
                pin(&self.cores)?;
                let program = self.program.clone();
                command.spawn().map_err(|source| LabError::Start { program, source })
            };
            // The server inherits the new thread's cores, and this thread keeps its own.
            scope.spawn(start).join().expect("nothing there panics")
        })?;
        let mut server = Server { child, port, workers: Vec::new() };
        server.wait_until_ready(usize::from(self.workers), &log)?;
        Ok(server)
    }

    /// The server's configuration. Its paths are relative to the server's directory in the site's
    /// folder.
    fn configuration(&self, port: u16) -> String {
        let Nginx { workers, record, .. } = self;
        // Only root can make the workers run as another user.
        let user = match (&self.user, geteuid().is_root()) {
            (Some(user), true) => format!("user {user};\n"),
            (None, true) => format!(
                "user nobody {};\n",
                group(&fs::read_to_string("/etc/group").unwrap_or_default())
            ),
            (_, false) => String::new(),
        };
        // With one socket, the kernel wakes the same waiting worker each time, which may then have
        // all connections. With a socket for each worker, connections are distributed at random.
        let sockets = if *workers > 1 { " reuseport" } else { "" };
        format!(
            "{user}daemon off;
worker_processes {workers};
pid pid;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    server {{
        listen 127.0.0.1:{port} ssl{sockets};
        ssl_certificate ../{CERTIFICATE};
        ssl_certificate_key ../{KEY};
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_buffer_size {record};
        root ../{ROOT};
    }}
}}
"
        )
    }
}

/// A running server. Dropping it ends it.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
    workers: Vec<u32>,
}

impl Server {
    /// The CPU time of the server's workers.
    ///
    /// # Errors
    /// When a worker is gone.
    pub(super) fn cpu_time(&self) -> Result<Duration, LabError> {
        self.workers.iter().map(|&worker| usage::cpu_time(worker)).sum()
    }

    fn wait_until_ready(&mut self, workers: usize, log: &Path) -> Result<(), LabError> {
        let begun = Instant::now();
        loop {
            let ended = self.child.try_wait().map_err(LabError::file("wait for", "nginx"))?;
            let has_given_up = begun.elapsed() > PATIENCE;
            if ended.is_some() || has_given_up {
                let said = fs::read_to_string(log).unwrap_or_default();
                let said =
                    said.lines().find(|line| line.contains("[emerg]")).or(said.lines().last());
                return Err(LabError::Unavailable(format!(
                    "nginx does not start: {}",
                    said.unwrap_or("it said nothing").trim()
                )));
            }
            self.workers = usage::children(self.child.id());
            if self.workers.len() == workers
                && TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
            {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, process: u32, signal: Signal) {
        if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
            // A process that has ended needs no signal.
            let _ = kill_process(process, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let begun = Instant::now();
        if let Ok(None) = self.child.try_wait() {
            self.signal(self.child.id(), Signal::TERM);
        }
        while let Ok(None) = self.child.try_wait() {
            if begun.elapsed() > PATIENCE {
                // The workers would continue without the server.
                for &worker in &self.workers {
                    self.signal(worker, Signal::KILL);
                }
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The lines of `nginx -V` with its version and OpenSSL's.
fn version(text: &str) -> Option<String> {
    let line = |begin: &str| text.lines().find_map(|line| line.strip_prefix(begin));
    let nginx = line("nginx version: ")?;
    Some(format!("{nginx}, {}", line("built with OpenSSL ").map(|rest| format!("OpenSSL {rest}"))?))
}

/// A free port.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The group of the user `nobody`, which has one of two names.
fn group(groups: &str) -> &'static str {
    let has = |name: &str| groups.lines().any(|line| line.split(':').next() == Some(name));
    if has("nogroup") { "nogroup" } else { "nobody" }
}

/// The longest time for a server to start or to end.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: TlsOptions,
    }

    #[test]
    fn versions_are_read() {
        let said = "nginx version: nginx/1.22.1\nbuilt with OpenSSL 3.0.8 7 Feb 2023 (running with \
                    OpenSSL 3.0.17 1 Jul 2025)\nTLS SNI support enabled\n";
        assert_eq!(
            version(said).unwrap(),
            "nginx/1.22.1, OpenSSL 3.0.8 7 Feb 2023 (running with OpenSSL 3.0.17 1 Jul 2025)"
        );
        assert_eq!(version("nginx version: nginx/1.22.1\nbuilt with BoringSSL\n"), None);
        assert_eq!(version(""), None);
    }

    #[test]
    fn an_nginx_that_is_not_there_is_named() {
        let find =
            |program: &str| Nginx::find(&Line::parse_from(["tls", "--program", program]).options);
        let Err(error) = find("/absent/nginx") else { panic!("it is there") };
        assert!(error.to_string().contains("/absent/nginx"), "{error}");
        let Err(error) = find("true") else { panic!("it is nginx") };
        assert!(error.to_string().contains("--program"), "{error}");
    }

    #[test]
    fn groups_have_two_names() {
        assert_eq!(group("root:x:0:\nnogroup:x:65534:\n"), "nogroup");
        assert_eq!(group("nobody:x:65534:\n"), "nobody");
    }
}
