//! Servers of object stores, on this machine. Other crates' tests take this file too.

#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A server with one bucket, `bucket`.
pub struct Server {
    child: Child,
    home: tempfile::TempDir,
    pub port: u16,
    pub scheme: &'static str,
}

impl Server {
    /// A server of S3's protocol; `None` where it could not be installed.
    pub fn s3() -> Option<Server> {
        let program = installed("bin/versitygw")?;
        let (home, port) = (tempfile::tempdir().unwrap(), free_port());
        fs::create_dir(home.path().join("bucket")).unwrap();
        let mut command = Command::new(program);
        command.env("ROOT_ACCESS_KEY", "key").env("ROOT_SECRET_KEY", "secret");
        command.args(["--port", &format!("127.0.0.1:{port}"), "--quiet", "--access-log"]);
        command.arg(home.path().join("requests")).arg("posix").arg(home.path());
        Some(Server::start(command, home, port, "s3"))
    }

    /// An S3 server that also has a bucket with object lock, `locked`.
    pub fn s3_with_lock() -> Option<Server> {
        let program = installed("bin/versitygw")?;
        let (home, port) = (tempfile::tempdir().unwrap(), free_port());
        for directory in ["buckets", "versions"] {
            fs::create_dir(home.path().join(directory)).unwrap();
        }
        let mut command = Command::new(program);
        command.env("ROOT_ACCESS_KEY", "key").env("ROOT_SECRET_KEY", "secret");
        command.args(["--port", &format!("127.0.0.1:{port}"), "--quiet", "posix"]);
        command.arg("--versioning-dir").arg(home.path().join("versions"));
        command.arg(home.path().join("buckets"));
        let server = Server::start(command, home, port, "s3");
        let lock = ["-X", "PUT", "-H", "x-amz-bucket-object-lock-enabled: true"];
        server.ask_s3(&lock, "locked");
        Some(server)
    }

    /// Asks an S3 server, and returns the head and body of its answer.
    pub fn ask_s3(&self, arguments: &[&str], path: &str) -> String {
        let asked = Command::new("curl")
            .args(["-sSi", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "key:secret"])
            .args(["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"])
            .args(arguments)
            .arg(format!("http://127.0.0.1:{}/{path}", self.port))
            .output()
            .unwrap();
        assert!(asked.status.success(), "{asked:?} {}", self.log());
        String::from_utf8_lossy(&asked.stdout).into_owned()
    }

    /// A server of Google's protocol.
    pub fn gcs() -> Option<Server> {
        let program = installed("bin/fake-gcs-server")?;
        let (home, port) = (tempfile::tempdir().unwrap(), free_port());
        fs::create_dir(home.path().join("bucket")).unwrap();
        let mut command = Command::new(program);
        command.args(["-scheme", "http", "-host", "127.0.0.1", "-backend", "filesystem"]);
        command.args(["-port", &port.to_string(), "-filesystem-root"]).arg(home.path());
        command.args(["-public-host", &format!("127.0.0.1:{port}")]);
        command.args(["-external-url", &format!("http://127.0.0.1:{port}")]);
        Some(Server::start(command, home, port, "gs"))
    }

    /// A server of Azure's protocol.
    pub fn azure() -> Option<Server> {
        let program = installed("azurite/node_modules/.bin/azurite-blob")?;
        let (home, port) = (tempfile::tempdir().unwrap(), free_port());
        let mut command = Command::new(program);
        command.args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]);
        command.args(["--silent", "--skipApiVersionCheck", "--disableTelemetry", "--location"]);
        command.arg(home.path());
        let server = Server::start(command, home, port, "az");
        server.make_container();
        Some(server)
    }

    /// Azure's way to make a bucket, with its signature.
    fn make_container(&self) {
        let date = Command::new("date").args(["-uR"]).env("LC_ALL", "C").output().unwrap().stdout;
        let date = String::from_utf8(date).unwrap().trim().replace("+0000", "GMT");
        let (version, path) = ("2023-11-03", "devstoreaccount1/bucket");
        let headers = format!("x-ms-date:{date}\nx-ms-version:{version}\n");
        let signed =
            format!("PUT{}{headers}/devstoreaccount1/{path}\nrestype:container", "\n".repeat(12));
        let signature = signature(&signed);
        let request = Command::new("curl")
            .args(["-sSf", "-X", "PUT", "-H", &format!("x-ms-date: {date}")])
            .args(["-H", &format!("x-ms-version: {version}"), "-H", "Content-Length: 0"])
            .args(["-H", &format!("Authorization: SharedKey devstoreaccount1:{signature}")])
            .arg(format!("http://127.0.0.1:{}/{path}?restype=container", self.port))
            .output()
            .unwrap();
        assert!(request.status.success(), "{request:?} {}", self.log());
    }

    fn start(
        mut command: Command,
        home: tempfile::TempDir,
        port: u16,
        scheme: &'static str,
    ) -> Server {
        let log = File::create(home.path().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        let server = Server { child, home, port, scheme };
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "{}", server.log());
            thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// The keys of objects that an S3 server was asked to write since the last call, in one request
    /// or as an upload. Leaves out probe objects.
    pub fn written(&self) -> Vec<String> {
        let path = self.home.path().join("requests");
        let requests = fs::read_to_string(&path).unwrap();
        File::options().write(true).truncate(true).open(path).unwrap();
        let key = |line: &str| {
            let mut words = line.split(' ').skip_while(|word| !word.starts_with("s3_"));
            let is_begun = matches!(words.next()?, "s3_PutObject" | "s3_CreateMultipartUpload");
            words.next().filter(|key| is_begun && !key.contains(".evener-")).map(str::to_owned)
        };
        requests.lines().filter_map(key).collect()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("log")).unwrap()
    }

    /// The content of the bucket of a server of S3's protocol.
    pub fn bucket(&self) -> PathBuf {
        self.home.path().join("bucket")
    }

    /// The uploads that are neither completed nor aborted.
    pub fn open_uploads(&self) -> usize {
        let uploads = self.bucket().join(".sgwtmp/multipart");
        let of = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
        of(&uploads).map(|object| of(&object.path()).count()).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The key that every Azurite has.
pub const AZURITE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The signature that Azure requires.
fn signature(signed: &str) -> String {
    let line = "key=$(printf %s \"$1\" | base64 -d | od -An -v -tx1 | tr -d ' \\n')
        printf %s \"$2\" | openssl dgst -sha256 -mac HMAC -macopt hexkey:$key -binary | base64 -w0";
    let made = Command::new("sh").args(["-c", line, "sh", AZURITE_KEY, signed]).output().unwrap();
    String::from_utf8(made.stdout).unwrap()
}

fn installed(path: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = root.join("target/object-stores").join(path);
    if program.exists() {
        return Some(program);
    }
    evener_core::skipped!("{path} is not there; tests/object-stores/install installs it");
    None
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
