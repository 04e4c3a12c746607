//! Servers that don't exist, or don't answer.

mod common;

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::proxy::{Act, Proxy, Request, at_first};
use common::{Server, assert_same, bytes, name, objects, perform};
use evener_object::{Access, Address, Objects, RequestFailure, Settings};
use evener_place::{Fault, Memory, Operation, Report, Store, TransferOptions};

fn settings(endpoint: &str) -> Settings {
    let mut settings = Settings::default();
    settings.endpoint = Some(endpoint.to_owned());
    settings.access = Some(Access { id: "key".to_owned(), secret: "secret".to_owned() });
    settings
}

fn place(settings: &Settings) -> Result<Objects, Fault> {
    Objects::new(&"s3://bucket/x".parse().unwrap(), settings)
}

/// The reason why a look at an object fails.
#[track_caller]
fn reason(place: &Objects) -> String {
    match place.look(&name("object")) {
        Err(Fault::Failed(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

static TOLD: AtomicU32 = AtomicU32::new(0);

#[test]
fn silence_is_told_once_and_ends() {
    let proxy = Proxy::new(0, |_| Act::Stall);
    let mut settings = settings(&format!("http://127.0.0.1:{}", proxy.port));
    settings.stall = Duration::from_millis(300);
    settings.on_silence = Some(|address: &Address| {
        assert_eq!(address.to_string(), "s3://bucket/x");
        TOLD.fetch_add(1, Ordering::SeqCst);
    });
    let place = place(&settings).unwrap();
    assert_eq!(reason(&place), "the store does not answer");
    assert_eq!((proxy.requests(), TOLD.load(Ordering::SeqCst)), (3, 1));
    assert_eq!(reason(&place), "the store does not answer");
    assert_eq!(TOLD.load(Ordering::SeqCst), 1);
    let Settings { traffic, .. } = &settings;
    assert_eq!((traffic.sent(), traffic.repeated(), traffic.given_up()), (3, 2, 2));
    assert_eq!(traffic.failed(RequestFailure::Timeout), 3);
}

/// Everything arrives although one request of each kind gets no answer.
fn passes(act: Act, is_hit: fn(&Request) -> bool) {
    let Some(server) = Server::s3() else { return };
    let is_first = at_first(1);
    let proxy = Proxy::new(server.port, move |it| match is_hit(it) && is_first(it) {
        true => act,
        false => Act::Pass,
    });
    let mut settings = server.settings(proxy.port);
    settings.stall = Duration::from_millis(500);
    let (plain, back, options) = (objects(), Memory::new(), TransferOptions::default());
    let place = place(&settings).unwrap();
    for (operation, report) in [
        (Operation::Encrypt, perform(Operation::Encrypt, &plain, Some(&place), &options)),
        (Operation::Decrypt, perform(Operation::Decrypt, &place, Some(&back), &options)),
    ] {
        assert!(report.is_success() && report.files == 6, "{operation:?} {:?}", report.failures);
    }
    assert_same(&plain, &back);
    proxy.assert_nothing_was_sealed_twice();
    assert_eq!(server.open_uploads(), 0);
}

#[test]
fn stalls_pass() {
    passes(Act::Stall, |it| it.is_complete() || it.target.contains("/1.enc"));
}

#[test]
fn silence_halfway_is_told() {
    let Some(server) = Server::s3() else { return };
    static TOLD: AtomicU32 = AtomicU32::new(0);
    let is_first = at_first(1);
    let proxy = Proxy::new(server.port, move |it| {
        let is_hit = it.method == "GET" && it.target.contains("/5.enc") && is_first(it);
        if is_hit { Act::StallHalfway } else { Act::Pass }
    });
    let mut settings = server.settings(proxy.port);
    settings.stall = Duration::from_millis(500);
    settings.on_silence = Some(|_| {
        TOLD.fetch_add(1, Ordering::SeqCst);
    });
    let (place, options) = (place(&settings).unwrap(), TransferOptions::default());
    let report = perform(Operation::Encrypt, &objects(), Some(&place), &options);
    assert!(report.is_success(), "{:?}", report.failures);
    let report = perform(Operation::Verify, &place, None, &options);
    assert!(report.is_success(), "{:?}", report.failures);
    assert_eq!(TOLD.load(Ordering::SeqCst), 1);
}

#[test]
fn answers_that_stall_halfway_are_read_again() {
    passes(Act::StallHalfway, |it| it.method == "GET" && it.target.contains("/5.enc"));
}

/// Encrypts an object of this length through a proxy that fails some of its requests.
fn encrypt(server: &Server, length: usize, choose: fn(&Request, u32) -> Act) -> Report {
    let seen = AtomicU32::new(0);
    let proxy = Proxy::new(server.port, move |it| match it.is_put() && !it.is_probe() {
        true => choose(it, seen.fetch_add(1, Ordering::SeqCst)),
        false => Act::Pass,
    });
    let mut settings = server.settings(proxy.port);
    settings.stall = Duration::from_millis(300);
    let plain = Memory::new();
    plain.insert(name("object"), &bytes(length));
    let place = place(&settings).unwrap();
    perform(Operation::Encrypt, &plain, Some(&place), &TransferOptions::default())
}

#[test]
fn a_stored_object_is_recognised_after_a_silence() {
    let Some(server) = Server::s3() else { return };
    let choose = |_: &Request, number| if number == 0 { Act::LoseAnswer } else { Act::Stall };
    let report = encrypt(&server, 1000, choose);
    assert!(report.is_success() && report.files == 1, "{:?}", report.failures);
}

/// The number of times that an upload's completion was sent, and the run's report.
fn complete(server: &Server, act: Act) -> (u32, Report) {
    let completed = Arc::new(AtomicU32::new(0));
    let counted = completed.clone();
    let proxy = Proxy::new(server.port, move |it| match it.is_complete() && !it.is_probe() {
        true => {
            counted.fetch_add(1, Ordering::SeqCst);
            act
        }
        false => Act::Pass,
    });
    let mut settings = server.settings(proxy.port);
    settings.stall = Duration::from_millis(500);
    let (place, plain) = (place(&settings).unwrap(), Memory::new());
    plain.insert(name("long"), &bytes(10_000_000));
    let report = perform(Operation::Encrypt, &plain, Some(&place), &TransferOptions::default());
    (completed.load(Ordering::SeqCst), report)
}

#[test]
fn parts_may_become_an_object_slowly_if_white_space_comes() {
    let Some(server) = Server::s3() else { return };
    let (completed, report) = complete(&server, Act::Spaces);
    assert!(report.is_success() && report.files == 1, "{:?}", report.failures);
    assert_eq!(completed, 1);
}

#[test]
fn a_server_that_is_silent_about_parts_is_given_up() {
    let Some(server) = Server::s3() else { return };
    let begun = std::time::Instant::now();
    let (completed, report) = complete(&server, Act::Stall);
    assert!(report.failures[0].error.to_string().contains("does not answer"), "{report:?}");
    assert_eq!((completed, server.open_uploads()), (3, 0));
    eprintln!("three stalls took {:?}", begun.elapsed());
}

#[test]
fn an_upload_is_aborted_after_a_silence() {
    let Some(server) = Server::s3() else { return };
    let report = encrypt(&server, 30_000_000, |_, _| Act::Stall);
    assert!(report.failures[0].error.to_string().contains("does not answer"));
    assert_eq!(server.open_uploads(), 0);
}

/// One read of 50 would wait for 20 seconds.
#[test]
fn slow_reads_are_overtaken() {
    let Some(server) = Server::s3() else { return };
    let reads = AtomicU32::new(0);
    let proxy = Proxy::new(server.port, move |it| {
        let is_read = it.method == "GET" && it.target.contains(".enc");
        match is_read && reads.fetch_add(1, Ordering::SeqCst) % 50 == 49 {
            true => Act::Stall,
            false => Act::Pass,
        }
    });
    static SILENT: AtomicU32 = AtomicU32::new(0);
    let mut settings = server.settings(proxy.port);
    settings.requests = 4;
    settings.on_silence = Some(|_| {
        SILENT.fetch_add(1, Ordering::SeqCst);
    });
    let (plain, options) = (Memory::new(), TransferOptions::default());
    (0..400).for_each(|number| plain.insert(name(number.to_string()), b"content"));
    let place = place(&settings).unwrap();
    let report = perform(Operation::Encrypt, &plain, Some(&place), &options);
    assert!(report.is_success(), "{:?}", report.failures);
    let (before, begun) = (proxy.requests(), std::time::Instant::now());
    let report = perform(Operation::Verify, &place, None, &options);
    assert!(report.is_success() && report.files == 400, "{:?}", report.failures);
    let requests = proxy.requests() - before;
    eprintln!("400 reads took {requests} requests and {:?}", begun.elapsed());
    assert_eq!(SILENT.load(Ordering::SeqCst), 0);
    assert!(requests > 400 && requests < 480, "{requests}");
}

#[test]
fn a_server_that_falls_silent_among_reads_ends_the_run() {
    let Some(server) = Server::s3() else { return };
    let reads = AtomicU32::new(0);
    let proxy = Proxy::new(server.port, move |it| {
        let is_read = it.method == "GET" && it.target.contains(".enc");
        match is_read && reads.fetch_add(1, Ordering::SeqCst) >= 50 {
            true => Act::Stall,
            false => Act::Pass,
        }
    });
    let mut settings = server.settings(proxy.port);
    settings.requests = 2;
    settings.stall = Duration::from_secs(1);
    let (plain, options) = (Memory::new(), TransferOptions::default());
    (0..100).for_each(|number| plain.insert(name(number.to_string()), b"content"));
    let place = place(&settings).unwrap();
    let report = perform(Operation::Encrypt, &plain, Some(&place), &options);
    assert!(report.is_success(), "{:?}", report.failures);
    let report = perform(Operation::Verify, &place, None, &options);
    assert_eq!(report.files as usize + report.failures.len(), 100);
    for failure in &report.failures {
        assert!(failure.error.to_string().contains("does not answer"), "{failure}");
    }
    assert!(report.failures.len() >= 50, "{}", report.failures.len());
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = format!("http://127.0.0.1:{port}");
    let told = reason(&place(&settings(&endpoint)).unwrap());
    assert_eq!(told, format!("no server listens at {endpoint}"));
    let told = reason(&place(&settings("http://nowhere.invalid")).unwrap());
    assert!(told.starts_with("the host nowhere.invalid was not found: "), "{told}");
    for endpoint in ["ftp://127.0.0.1", "127.0.0.1:9000", "http://", ""] {
        let refused = place(&settings(endpoint)).map(drop).unwrap_err();
        assert!(matches!(&refused, Fault::Refused(it) if it.contains("http://")), "{refused}");
    }
    let refused = place(&settings("http://user:hidden@127.0.0.1:1")).map(drop).unwrap_err();
    assert!(!refused.to_string().contains("hidden"), "{refused}");
}

/// A TLS server with a self-signed certificate.
struct TlsServer {
    child: Child,
    port: u16,
    _home: tempfile::TempDir,
}

impl TlsServer {
    fn new() -> TlsServer {
        let home = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let openssl = |line: &str, directory: &Path| {
            let mut command = Command::new("openssl");
            command.args(line.split(' ')).current_dir(directory);
            // At the end of its input, the server ends.
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let made = "req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout key -out cert";
        assert!(openssl(made, home.path()).status().unwrap().success());
        let serve = format!("s_server -accept {port} -key key -cert cert");
        let child = openssl(&serve, home.path()).spawn().unwrap();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        TlsServer { child, port, _home: home }
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn servers_without_tls_or_trust_are_named() {
    let server = TlsServer::new();
    let endpoint = format!("https://127.0.0.1:{}", server.port);
    let told = reason(&place(&settings(&endpoint)).unwrap());
    assert!(told.starts_with(&format!("the certificate of {endpoint} is not trusted")), "{told}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let told = reason(&place(&settings(&endpoint)).unwrap());
    let expected = format!("TLS with {endpoint} failed: ");
    assert!(told.starts_with(&expected), "{told}");
    server.join().unwrap();
}
