//! The client: threads with one connection each, which fetch one file after the other.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use openssl::error::ErrorStack;
use openssl::ssl::{SslConnector, SslMethod, SslStream, SslVersion};

use super::certificate::HOST;
use super::{Case, Suite, Turn, Version};
use crate::LabError;

/// The common settings of connections: the certificate that they trust and the one cipher that they
/// offer.
pub(super) struct Client {
    connector: SslConnector,
    suite: &'static str,
}

impl Client {
    /// Makes a client that trusts a certificate.
    ///
    /// # Errors
    /// OpenSSL's.
    pub(super) fn new(
        certificate: &Path,
        suite: Suite,
        version: Version,
    ) -> Result<Client, ErrorStack> {
        let name = suite.name(version).ok_or_else(ErrorStack::get)?;
        let mut builder = SslConnector::builder(SslMethod::tls_client())?;
        builder.set_ca_file(certificate)?;
        let version = match version {
            Version::Tls12 => {
                builder.set_cipher_list(name)?;
                SslVersion::TLS1_2
            }
            Version::Tls13 => {
                builder.set_ciphersuites(name)?;
                SslVersion::TLS1_3
            }
        };
        builder.set_min_proto_version(Some(version))?;
        builder.set_max_proto_version(Some(version))?;
        builder.set_read_ahead(true);
        Ok(Client { connector: builder.build(), suite: name })
    }

    fn connect(&self, port: u16) -> io::Result<Connection> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let stream = self.connector.connect(HOST, stream).map_err(io::Error::other)?;
        let suite = stream.ssl().current_cipher().map_or("none", |cipher| cipher.name());
        if suite != self.suite {
            return Err(io::Error::other(format!("the cipher is {suite} and not {}", self.suite)));
        }
        Ok(Connection { stream, buffer: vec![0; BUFFER].into_boxed_slice() })
    }
}

/// A turn at a server: the client, the server's port, the requests, and the time limit.
pub(super) struct Visit<'a> {
    pub(super) client: &'a Client,
    pub(super) port: u16,
    pub(super) case: &'a Case,
    /// The time after which no connection begins a further request; each makes at least one.
    pub(super) time: Duration,
    /// The file's content.
    pub(super) content: &'a [u8],
}

impl Visit<'_> {
    /// Makes the turn; `cpu` returns the server's CPU time, before and after.
    ///
    /// With keep-alive, the connections are made before the clock starts. Before it starts, the
    /// first connection also fetches the file and compares its content; later requests only check
    /// its length.
    ///
    /// # Errors
    /// When a request failed, or returned anything other than the file.
    pub(super) fn pay(
        &self,
        mut cpu: impl FnMut() -> Result<Duration, LabError>,
    ) -> Result<Turn, LabError> {
        let connections = usize::from(self.case.connections);
        let (ready, go) = (Barrier::new(connections + 1), Barrier::new(connections + 1));
        let failed = LabError::file("fetch from", "nginx");
        thread::scope(|scope| {
            let visitors: Vec<_> = (0..connections)
                .map(|number| {
                    let (ready, go) = (&ready, &go);
                    scope.spawn(move || {
                        let prepared = self.prepare(number == 0);
                        ready.wait();
                        go.wait();
                        prepared.and_then(|connection| self.ask(connection))
                    })
                })
                .collect();
            ready.wait();
            // The server may still be sending data that a client does not wait for.
            thread::sleep(REST);
            let before = cpu();
            let start = Instant::now();
            go.wait();
            let visited: Vec<_> = visitors.into_iter().map(|visitor| visitor.join()).collect();
            thread::sleep(REST);
            let after = cpu()?;
            let mut turn = Turn {
                requests: 0,
                bytes: 0,
                seconds: 0.0,
                cpu_seconds: after.saturating_sub(before?).as_secs_f64(),
            };
            let visited: io::Result<Vec<Visited>> = visited
                .into_iter()
                .map(|visited| {
                    visited.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
                })
                .collect();
            for visited in visited.map_err(failed)? {
                turn.requests += visited.requests;
                turn.bytes += visited.requests * self.case.bytes;
                turn.seconds = turn.seconds.max((visited.end - start).as_secs_f64());
            }
            Ok(turn)
        })
    }

    fn prepare(&self, is_first: bool) -> io::Result<Option<Connection>> {
        let keep_alive = self.case.keep_alive;
        if !keep_alive && !is_first {
            return Ok(None);
        }
        let mut connection = self.client.connect(self.port)?;
        if is_first {
            connection.fetch(self.case.bytes, keep_alive, Some(self.content))?;
        } else {
            connection.fetch(0, keep_alive, None)?;
        }
        Ok(keep_alive.then_some(connection))
    }

    fn ask(&self, mut kept: Option<Connection>) -> io::Result<Visited> {
        let Case { bytes, keep_alive, .. } = *self.case;
        let start = Instant::now();
        let mut requests = 0;
        loop {
            match &mut kept {
                Some(connection) => connection.fetch(bytes, keep_alive, None)?,
                None => self.client.connect(self.port)?.fetch(bytes, keep_alive, None)?,
            }
            requests += 1;
            let end = Instant::now();
            if end - start >= self.time {
                return Ok(Visited { requests, end, _kept: kept });
            }
        }
    }
}

/// The work of a connection.
struct Visited {
    requests: u64,
    end: Instant,
    /// The connection, closed only after the clocks have stopped.
    _kept: Option<Connection>,
}

/// A connection to a server.
struct Connection<S = SslStream<TcpStream>> {
    stream: S,
    buffer: Box<[u8]>,
}

impl<S: Read + Write> Connection<S> {
    /// Fetches the file of a length. Without `keep_alive`, the server closes the connection.
    fn fetch(&mut self, length: u64, keep_alive: bool, content: Option<&[u8]>) -> io::Result<()> {
        let close = if keep_alive { "" } else { "Connection: close\r\n" };
        let request = format!("GET /{length} HTTP/1.1\r\nHost: {HOST}\r\n{close}\r\n");
        self.stream.write_all(request.as_bytes())?;
        let (head, mut filled) = self.head()?;
        let announced = announced(&self.buffer[..head])?;
        if announced != length {
            return Err(io::Error::other(format!("{announced} bytes came instead of {length}")));
        }
        let mut body = head;
        let mut got: u64 = 0;
        loop {
            let part = &self.buffer[body..filled];
            if got + part.len() as u64 > length {
                return Err(io::Error::other("more came than was asked for"));
            }
            if let Some(content) = content {
                // No usize is longer than a u64, and `got` is within the content.
                let wanted = content.get(got as usize..).and_then(|rest| rest.get(..part.len()));
                if wanted != Some(part) {
                    return Err(io::Error::other("something else came than the file"));
                }
            }
            got += part.len() as u64;
            if got == length {
                break;
            }
            body = 0;
            filled = self.read(0)?;
        }
        if !keep_alive && self.stream.read(&mut self.buffer)? > 0 {
            return Err(io::Error::other("more came than was asked for"));
        }
        Ok(())
    }

    /// Reads the head of an answer; returns the end of the head, and the end of the data received.
    fn head(&mut self) -> io::Result<(usize, usize)> {
        let mut filled = 0;
        loop {
            filled += self.read(filled)?;
            let end = self.buffer[..filled].windows(END.len()).position(|bytes| bytes == END);
            if let Some(end) = end {
                return Ok((end + END.len(), filled));
            }
        }
    }

    /// Reads into the buffer from an offset.
    fn read(&mut self, from: usize) -> io::Result<usize> {
        match self.stream.read(&mut self.buffer[from..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }
}

/// The length that the head of a response announces.
fn announced(head: &[u8]) -> io::Result<u64> {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(io::Error::other(format!("the answer was `{status}`")));
    }
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    length.ok_or_else(|| io::Error::other("the answer did not say how long it is"))
}

/// The longest wait for a server's next byte.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time that a server has to settle before its CPU time is read.
const REST: Duration = Duration::from_millis(5);
/// The buffer's length, in bytes; a TLS record has at most 16 KiB.
const BUFFER: usize = 32 * 1024;
const END: &[u8] = b"\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    /// A server's response, in pieces.
    struct Pieces(Vec<Vec<u8>>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            buffer[..piece.len()].copy_from_slice(&piece);
            Ok(piece.len())
        }
    }

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn fetch(length: u64, keep_alive: bool, pieces: &[&str]) -> Result<(), String> {
        let stream = Pieces(pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect());
        let mut connection = Connection { stream, buffer: vec![0; 100].into_boxed_slice() };
        let content = b"abcdef";
        connection.fetch(length, keep_alive, Some(content)).map_err(|error| error.to_string())
    }

    #[test]
    fn answers_are_read_however_they_come() {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n";
        fetch(6, true, &[head, "abc", "def"]).unwrap();
        fetch(6, false, &[&head[..20], &head[20..], "a", "bcdef"]).unwrap();
        let whole = format!("{head}abcdef");
        fetch(6, true, &[&whole]).unwrap();
        fetch(0, true, &["HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]).unwrap();
    }

    #[test]
    fn whatever_is_not_the_file_is_an_error() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n";
        for (pieces, complaint) in [
            (&[head, "abcdeF"][..], "something else"),
            (&[head, "abcdefg"], "more came"),
            (&[head, "abc"], "unexpected end of file"),
            (&[head, "abcdef", "g"], "more came"),
            (&["HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n", "abcdef"], "404 Not Found"),
            (&["HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", "abcdefg"], "7 bytes came"),
            (&["HTTP/1.1 200 OK\r\n\r\nabcdef"], "how long"),
            (&[&"x".repeat(100)], "unexpected end of file"),
        ] {
            let error = fetch(6, false, pieces).unwrap_err();
            assert!(error.contains(complaint), "{pieces:?}: {error}");
        }
    }
}
