//! A server that only lists, in short pages, and counts its requests.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use evener_object::{Access, Objects, Settings};

/// A bucket of names, in pages as S3's protocol has them.
pub struct Pages {
    pub port: u16,
    state: Arc<State>,
}

struct State {
    keys: BTreeSet<String>,
    most: usize,
    delay: Duration,
    /// The number of the request that is refused.
    refused: Option<u64>,
    requests: AtomicU64,
    in_flight: AtomicU64,
    most_in_flight: AtomicU64,
}

impl Pages {
    /// Lists the names below the prefix `x`, at most so many in a page, and refuses one request.
    pub fn new(names: &[String], most: usize, delay: Duration, refused: Option<u64>) -> Pages {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            keys: names.iter().map(|name| format!("x/{name}")).collect(),
            most,
            delay,
            refused,
            requests: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            most_in_flight: AtomicU64::new(0),
        });
        let shared = state.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = shared.clone();
                thread::spawn(move || state.serve(&connection));
            }
        });
        Pages { port, state }
    }

    pub fn place(&self, requests: usize) -> Objects {
        let mut settings = Settings::default();
        settings.endpoint = Some(format!("http://127.0.0.1:{}", self.port));
        settings.access = Some(Access { id: "key".to_owned(), secret: "secret".to_owned() });
        settings.requests = requests;
        Objects::new(&"s3://bucket/x".parse().unwrap(), &settings).unwrap()
    }

    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::SeqCst)
    }

    pub fn most_in_flight(&self) -> u64 {
        self.state.most_in_flight.load(Ordering::SeqCst)
    }

    /// Returns when no more requests come.
    pub fn wait_until_quiet(&self) {
        let mut before = u64::MAX;
        while before != self.requests() || self.state.in_flight.load(Ordering::SeqCst) > 0 {
            before = self.requests();
            thread::sleep(Duration::from_millis(200));
        }
    }
}

impl State {
    fn serve(&self, connection: &TcpStream) {
        let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
        while let Some(first) = lines.next() {
            let number = self.requests.fetch_add(1, Ordering::SeqCst);
            lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
            let in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_in_flight.fetch_max(in_flight, Ordering::SeqCst);
            thread::sleep(self.delay);
            let target = first.split(' ').nth(1).unwrap_or_default();
            let (status, page) = match self.refused == Some(number) {
                true => (403, "<Error><Code>AccessDenied</Code></Error>".to_owned()),
                false => (200, self.page(target)),
            };
            self.in_flight.fetch_sub(1, Ordering::SeqCst);
            let head = format!("HTTP/1.1 {status} -\r\nContent-Length: {}\r\n\r\n", page.len());
            if (&mut &*connection).write_all(format!("{head}{page}").as_bytes()).is_err() {
                return;
            }
        }
    }

    fn page(&self, target: &str) -> String {
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let value = |name: &str| {
            let found = query.split('&').find_map(|pair| pair.strip_prefix(name));
            decoded(found.unwrap_or_default())
        };
        let (prefix, after) = (value("prefix="), value("continuation-token="));
        let is_direct = !value("delimiter=").is_empty();
        let (mut page, mut names, mut last) = (String::new(), 0, String::new());
        let mut is_truncated = false;
        for key in self.keys.iter().filter(|key| key.starts_with(&prefix)) {
            let slash = key[prefix.len()..].find('/').filter(|_| is_direct);
            let name = slash.map_or(&**key, |at| &key[..=prefix.len() + at]);
            if name <= &*after || name == last {
                continue;
            }
            if names == self.most {
                is_truncated = true;
                break;
            }
            names += 1;
            last = name.to_owned();
            page += &match slash {
                Some(_) => format!("<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"),
                None => format!("<Contents><Key>{name}</Key>{REST}</Contents>"),
            };
        }
        let next = format!("<NextContinuationToken>{last}</NextContinuationToken>");
        let next = if is_truncated { &next } else { "" };
        format!(
            "<ListBucketResult><IsTruncated>{is_truncated}</IsTruncated>{next}{page}</ListBucketResult>"
        )
    }
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}

const REST: &str =
    "<Size>1</Size><LastModified>2020-01-01T00:00:00Z</LastModified><ETag>\"e\"</ETag>";
