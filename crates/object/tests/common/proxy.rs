//! A proxy in front of a server of S3's protocol. It fails where a test wants it, and watches that
//! nothing is sealed twice.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A request, as far as tests look at it.
#[derive(Clone, Debug)]
pub struct Request {
    /// How many came before it, of all kinds.
    pub number: u64,
    /// The number of requests being answered, including this one.
    pub in_flight: usize,
    pub method: String,
    /// The path and the query.
    pub target: String,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Request {
    /// The common part of repeated requests.
    pub fn purpose(&self) -> String {
        let head = String::from_utf8_lossy(&self.head).to_ascii_lowercase();
        let range = head.lines().find(|line| line.starts_with("range:")).unwrap_or_default();
        format!("{} {} {range}", self.method, self.target)
    }

    /// True if it makes parts an object.
    pub fn is_complete(&self) -> bool {
        self.method == "POST" && self.target.contains("uploadId=")
    }

    /// True if it begins an upload.
    pub fn is_begin(&self) -> bool {
        self.method == "POST" && self.target.contains("uploads")
    }

    /// True if it puts an object or a part of one.
    pub fn is_put(&self) -> bool {
        self.method == "PUT"
    }

    /// True if it is of the questions that are asked at first use.
    pub fn is_probe(&self) -> bool {
        self.target.contains(".evener-")
    }
}

/// True for the first `times` requests of each kind.
pub fn at_first(times: u32) -> impl Fn(&Request) -> bool {
    let seen: Mutex<HashMap<String, u32>> = Mutex::default();
    move |request| {
        let mut seen = seen.lock().unwrap();
        let number = seen.entry(request.purpose()).or_default();
        *number += 1;
        *number <= times
    }
}

/// The way the proxy treats a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Pass,
    /// Answers itself, with this status.
    Answer(u16),
    /// Answers, in place of the store, that the request's time differs from the store's.
    Skewed,
    /// Answers 503 in place of the store, and asks for a pause of a second.
    AskLater,
    /// Answers 200 with a page of HTML, as a captive portal does.
    Portal,
    /// Ends the connection, and the server hears nothing.
    Reset,
    /// The server gets half of the request's body, and then both connections end.
    Break,
    /// The server does it, and the answer is lost.
    LoseAnswer,
    /// Half of the answer's body comes.
    Cut,
    /// Sends no answer, and keeps the connection.
    Stall,
    /// Sends half of the answer's body, and keeps the connection.
    StallHalfway,
    /// White space comes for three seconds before the answer's body, as from Amazon's store while it
    /// makes parts an object.
    Spaces,
    /// The answer names another ETag.
    OtherEtag,
    /// The answer names another length of the object.
    OtherLength,
    /// The answer's time is in the year 2100.
    Later,
}

/// Amazon's answer to a request whose time differs.
const SKEWED: &str = "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference between the \
     request time and the current time is too large.</Message></Error>";

const PORTAL: &str = "HTTP/1.1 200 -\r\nContent-Length: 26\r\n\r\n<html>Please log in</html>";

const LATER: &str = "Fri, 01 Jan 2100 00:00:00 GMT";

/// The salts of uploads.
type Salts = HashMap<String, Vec<u8>>;

/// A hash of the bytes of each part of each salt.
type Parts = HashMap<(Vec<u8>, String), u64>;

type Choose = dyn Fn(&Request) -> Act + Send + Sync;

/// A proxy that listens on a port of its own.
pub struct Proxy {
    pub port: u16,
    state: Arc<State>,
}

struct State {
    upstream: u16,
    choose: Box<Choose>,
    requests: AtomicU64,
    in_flight: AtomicUsize,
    sealed: Mutex<(Salts, Parts)>,
    sealed_twice: Mutex<Vec<String>>,
}

impl Proxy {
    pub fn new(upstream: u16, choose: impl Fn(&Request) -> Act + Send + Sync + 'static) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            upstream,
            choose: Box::new(choose),
            requests: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            sealed: Mutex::default(),
            sealed_twice: Mutex::default(),
        });
        let shared = state.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = shared.clone();
                thread::spawn(move || drop(state.serve(&connection)));
            }
        });
        Proxy { port, state }
    }

    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// Fails if the same part of the same salt was seen with two contents.
    #[track_caller]
    pub fn assert_nothing_was_sealed_twice(&self) {
        assert_eq!(*self.state.sealed_twice.lock().unwrap(), Vec::<String>::new());
        assert!(!self.state.sealed.lock().unwrap().1.is_empty(), "nothing was seen");
    }
}

/// Sends an answer with this body, a document of XML, after white space.
fn send_spaces(mut connection: &TcpStream, body: &[u8]) -> io::Result<()> {
    let declaration = body.windows(2).position(|it| it == b"?>").map_or(0, |at| at + 2);
    let length = body.len() + 30;
    write!(connection, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?;
    connection.write_all(&body[..declaration])?;
    for _ in 0..30 {
        thread::sleep(Duration::from_millis(100));
        connection.write_all(b" ")?;
    }
    connection.write_all(&body[declaration..])?;
    connection.shutdown(Shutdown::Both)
}

/// Changes the character that follows `start` in the head of an answer.
fn change(head: &mut [u8], start: &str) {
    if let Some(at) = String::from_utf8_lossy(head).to_ascii_lowercase().find(start) {
        let changed = &mut head[at + start.len()];
        *changed = if *changed == b'1' { b'2' } else { b'1' };
    }
}

fn until_closed(mut reader: impl Read) -> io::Result<()> {
    io::copy(&mut reader, &mut io::sink()).map(drop)
}

impl State {
    fn serve(&self, connection: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(connection);
        while let Some(request) = self.read(&mut reader)? {
            self.watch(&request);
            let act = (self.choose)(&request);
            if !matches!(act, Act::Pass) {
                self.in_flight.fetch_sub(1, Ordering::SeqCst);
            }
            match act {
                Act::Skewed => {
                    let answer = format!(
                        "HTTP/1.1 403 -\r\nContent-Length: {}\r\n\r\n{SKEWED}",
                        SKEWED.len()
                    );
                    (&mut &*connection).write_all(answer.as_bytes())?;
                    continue;
                }
                Act::AskLater => {
                    let answer = "HTTP/1.1 503 -\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
                    (&mut &*connection).write_all(answer.as_bytes())?;
                    continue;
                }
                Act::Answer(status) => {
                    let answer =
                        format!("HTTP/1.1 {status} -\r\nETag: \"0\"\r\nContent-Length: 0\r\n\r\n");
                    (&mut &*connection).write_all(answer.as_bytes())?;
                    continue;
                }
                Act::Portal => {
                    (&mut &*connection).write_all(PORTAL.as_bytes())?;
                    continue;
                }
                Act::Reset => return connection.shutdown(Shutdown::Both),
                Act::Break => {
                    // The server sees the end before the request is sent again.
                    self.send(&request, request.body.len() / 2)?.shutdown(Shutdown::Write)?;
                    thread::sleep(Duration::from_millis(100));
                    return connection.shutdown(Shutdown::Both);
                }
                Act::Stall => return until_closed(reader),
                _ => {}
            }
            let answer = self.forward(&request);
            if act == Act::Pass {
                self.in_flight.fetch_sub(1, Ordering::SeqCst);
            }
            let mut answer = answer?;
            let body = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap_or(0) + 4;
            match act {
                Act::LoseAnswer => return connection.shutdown(Shutdown::Both),
                Act::Cut | Act::StallHalfway => {
                    answer.truncate(body + answer.len().saturating_sub(body) / 2);
                }
                Act::Spaces => return send_spaces(connection, &answer[body..]),
                Act::OtherEtag => change(&mut answer[..body], "etag: \""),
                Act::OtherLength => change(&mut answer[..body], "content-length: "),
                Act::Later => {
                    let head = String::from_utf8_lossy(&answer[..body]).to_ascii_lowercase();
                    let at = head.find("date: ").expect("an answer has a date") + 6;
                    answer.splice(at..at + LATER.len(), LATER.bytes());
                }
                _ => {}
            }
            (&mut &*connection).write_all(&answer)?;
            if act == Act::StallHalfway {
                return until_closed(reader);
            }
            // The server was asked to end the connection.
            return connection.shutdown(Shutdown::Both);
        }
        Ok(())
    }

    fn read(&self, reader: &mut BufReader<&TcpStream>) -> io::Result<Option<Request>> {
        let (mut head, mut length) = (Vec::new(), 0);
        loop {
            let start = head.len();
            if reader.read_until(b'\n', &mut head)? == 0 {
                return Ok(None);
            }
            let line = String::from_utf8_lossy(&head[start..]).to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let first = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
        let mut words = first.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        let in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(Some(Request { number, in_flight, method, target, head, body }))
    }

    fn forward(&self, request: &Request) -> io::Result<Vec<u8>> {
        let mut answer = Vec::new();
        self.send(request, request.body.len())?.read_to_end(&mut answer)?;
        Ok(answer)
    }

    /// Sends the server a request with the first `length` bytes of its body.
    fn send(&self, request: &Request, length: usize) -> io::Result<TcpStream> {
        let mut server = TcpStream::connect(("127.0.0.1", self.upstream))?;
        let end = request.head.len() - 2;
        server.write_all(&request.head[..end])?;
        server.write_all(b"Connection: close\r\n\r\n")?;
        server.write_all(&request.body[..length])?;
        Ok(server)
    }

    /// An object begins with its salt, and so does the first part of one.
    fn watch(&self, request: &Request) {
        if !request.is_put() || request.is_probe() || request.body.is_empty() {
            return;
        }
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name));
        let (upload, part) = (value("uploadId="), value("partNumber=").unwrap_or("1"));
        let (salts, seen) = &mut *self.sealed.lock().unwrap();
        let salt = || request.body[..request.body.len().min(24)].to_vec();
        let salt = match upload {
            Some(upload) if part == "1" => salts.entry(upload.to_owned()).or_insert_with(salt),
            Some(upload) => salts.get_mut(upload).expect("the first part comes first"),
            None => &mut salt(),
        };
        let mut hasher = DefaultHasher::new();
        request.body.hash(&mut hasher);
        let hash = hasher.finish();
        if *seen.entry((salt.clone(), part.to_owned())).or_insert(hash) != hash {
            self.sealed_twice.lock().unwrap().push(format!("part {part} of {path}"));
        }
    }
}
