//! Asks for metrics, and reads them strictly.

#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A run of the program that serves metrics at a port that the system chose.
pub struct Run {
    pub child: Child,
    pub address: SocketAddr,
    messages: JoinHandle<String>,
}

impl Run {
    /// Starts a command with `--metrics 0` or the like, and reads where its metrics are.
    pub fn start(command: &mut Command) -> Run {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        messages.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("evener: metrics are at http://");
        let address = address.and_then(|it| it.strip_suffix("/metrics")?.parse().ok());
        let address = address.unwrap_or_else(|| panic!("{line}"));
        let messages = thread::spawn(move || {
            let mut rest = String::new();
            messages.read_to_string(&mut rest).unwrap();
            rest
        });
        Run { child, address, messages }
    }

    pub fn metrics(&self) -> Metrics {
        Metrics::read(&ask(self.address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"))
    }

    /// Asks again and again until the metrics are as expected.
    pub fn until(&self, is_expected: impl Fn(&Metrics) -> bool) -> Metrics {
        loop {
            let metrics = self.metrics();
            if is_expected(&metrics) {
                return metrics;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end of the run. Returns its status and its later messages.
    pub fn end(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap().code();
        (status, self.messages.join().unwrap())
    }
}

/// Sends a request, and returns the whole answer.
pub fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Samples by their names with labels, as in `evener_files_total{outcome="done"}`.
#[derive(Debug)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// The value of a sample.
    #[track_caller]
    pub fn of(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("{name}: {self:?}"))
    }

    /// The sum of a metric's samples.
    pub fn sum(&self, name: &str) -> f64 {
        let is_its = |key: &str| key == name || key.starts_with(&format!("{name}{{"));
        self.0.iter().filter(|(key, _)| is_its(key)).map(|(_, value)| value).sum()
    }

    /// Reads an answer with text of the format 0.0.4, and accepts nothing unusual: each metric has
    /// one line of help, one with its type, and then its samples, each once.
    #[track_caller]
    pub fn read(answer: &str) -> Metrics {
        let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", text.len())), "{head}");
        assert!(text.ends_with('\n'), "{text}");
        let mut samples = BTreeMap::new();
        let mut known = BTreeSet::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let (name, help) = line
                .strip_prefix("# HELP ")
                .unwrap_or_else(|| panic!("{line}"))
                .split_once(' ')
                .unwrap();
            assert!(is_name(name) && name.starts_with("evener_"), "{line}");
            assert!(help.ends_with('.') && known.insert(name), "{line}");
            let line = lines.next().unwrap();
            let kind =
                line.strip_prefix(&format!("# TYPE {name} ")).unwrap_or_else(|| panic!("{line}"));
            assert!(matches!(kind, "counter" | "gauge"), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let labels = series.strip_prefix(name).unwrap_or_else(|| panic!("{line}"));
                assert!(labels.is_empty() || are_labels(labels), "{line}");
                let value: f64 = value.parse().unwrap();
                assert!(value >= 0.0 && value.is_finite(), "{line}");
                assert!(samples.insert(series.to_owned(), value).is_none(), "{line}");
            }
        }
        Metrics(samples)
    }
}

fn is_name(name: &str) -> bool {
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(is_first)
        && name.bytes().all(|byte| is_first(byte) || byte.is_ascii_digit())
}

/// `{name="value",…}`, of values that need no escapes.
fn are_labels(text: &str) -> bool {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    inner.is_some_and(|inner| {
        inner.split(',').all(|label| {
            let Some((name, value)) = label.split_once('=') else { return false };
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            is_name(name) && value.is_some_and(|value| !value.contains(['"', '\\', '\n']))
        })
    })
}
