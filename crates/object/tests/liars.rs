//! Servers that lie: the answer is an error, and soon.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::name;
use evener_object::{Access, Objects, Settings};
use evener_place::{Fault, Origin, Store};

/// Answers every request in the same way.
struct Liar {
    port: u16,
    requests: Arc<AtomicUsize>,
    /// The bytes of endless answers that were taken.
    sent: Arc<AtomicUsize>,
}

impl Liar {
    fn new(answer: String, is_endless: bool) -> Liar {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests, sent) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (asked, moved) = (requests.clone(), sent.clone());
        thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                asked.fetch_add(1, Ordering::SeqCst);
                read_head(&connection);
                let _ = connection.write_all(answer.as_bytes());
                while is_endless && connection.write_all(&[b'a'; 1 << 16]).is_ok() {
                    moved.fetch_add(1 << 16, Ordering::SeqCst);
                }
            }
        });
        Liar { port, requests, sent }
    }

    fn listing(page: &str) -> Liar {
        let length = page.len();
        Liar::new(
            format!(
                "HTTP/1.1 200 -\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{page}"
            ),
            false,
        )
    }

    fn place(&self) -> Objects {
        let mut settings = Settings::default();
        settings.endpoint = Some(format!("http://127.0.0.1:{}", self.port));
        settings.access = Some(Access { id: "key".to_owned(), secret: "secret".to_owned() });
        Objects::new(&"s3://bucket/x".parse().unwrap(), &settings).unwrap()
    }

    #[track_caller]
    fn assert_lists_nothing(&self, expected: &str) {
        match self.place().has_objects() {
            Err(Fault::Failed(told)) => assert!(told.contains(expected), "{told}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(self.requests.load(Ordering::SeqCst), 1);
    }
}

fn read_head(connection: &TcpStream) {
    let lines = BufReader::new(connection).lines().map_while(Result::ok);
    lines.take_while(|line| !line.is_empty()).for_each(drop);
}

/// The other server would get the token of the session.
#[test]
fn redirects_are_not_followed() {
    let other = Liar::listing("");
    let (port, head) = (other.port, "HTTP/1.1 307 -\r\nConnection: close\r\nContent-Length: 0");
    let liar = Liar::new(format!("{head}\r\nLocation: http://127.0.0.1:{port}/\r\n\r\n"), false);
    match liar.place().look(&name("object")) {
        Err(Fault::Failed(told)) => assert!(told.contains("redirects"), "{told}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(other.requests.load(Ordering::SeqCst), 0);
}

#[test]
fn answers_without_an_end_take_little_memory() {
    for (status, most) in [(200, 16), (400, 1)] {
        let head = format!("HTTP/1.1 {status} -\r\nContent-Length: 1000000000000\r\n\r\n");
        let liar = Liar::new(head, true);
        liar.assert_lists_nothing("the store's answer is too long");
        // The kernel takes some more.
        let sent = liar.sent.load(Ordering::SeqCst);
        assert!(sent < (most + 16) << 20, "{status}: {sent}");
    }
}

#[test]
fn long_heads_are_refused() {
    let etag = "e".repeat(100_000);
    let head = format!("HTTP/1.1 200 -\r\nETag: \"{etag}\"\r\nContent-Length: 0\r\n\r\n");
    match Liar::new(head, false).place().look(&name("object")) {
        Err(Fault::Failed(told)) => assert!(told.contains("too long a head"), "{told}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn lists_that_never_end_are_refused() {
    let page = "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>";
    Liar::listing(page).assert_lists_nothing("neither ends nor goes on");
    let page = "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>\
        <NextKeyMarker>x/1</NextKeyMarker></ListMultipartUploadsResult>";
    let liar = Liar::listing(page);
    let told = liar.place().clean(Duration::ZERO, true).unwrap_err().to_string();
    assert!(told.contains("neither ends nor goes on"), "{told}");
    assert_eq!(liar.requests.load(Ordering::SeqCst), 2);
}

#[test]
fn lists_of_other_objects_are_refused() {
    let key = |key: &str| {
        format!(
            "<ListBucketResult><Contents><Key>{key}</Key><Size>1</Size></Contents></ListBucketResult>"
        )
    };
    for page in [key("x"), key("y/object"), key(&format!("x/{}", "k".repeat(100_000)))] {
        Liar::listing(&page).assert_lists_nothing("not asked for");
    }
}

#[test]
fn other_pages_are_no_lists() {
    for page in ["<html>Please log in</html>", "<Error><Code>InternalError</Code></Error>"] {
        Liar::listing(page).assert_lists_nothing("no list of objects");
    }
}

#[test]
fn a_directory_of_a_sealed_tree_ends() {
    let rest = "<Size>1</Size><LastModified>2020-01-01T00:00:00Z</LastModified><ETag>e</ETag>";
    let key = |key: u32| format!("<Contents><Key>x/keys/{key}</Key>{rest}</Contents>");
    let keys: String = (0..3).map(key).collect();
    let next = "<NextContinuationToken>next</NextContinuationToken>";
    let liar = Liar::listing(&format!("<ListBucketResult>{next}{keys}</ListBucketResult>"));
    match liar.place().list_at_most(&name("keys"), 2) {
        Err(Fault::Refused(told)) => assert!(told.contains("`keys` has more than 2"), "{told}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(liar.requests.load(Ordering::SeqCst), 1);
}
