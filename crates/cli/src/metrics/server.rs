//! A server of metrics on a thread of its own.
//!
//! It can cost the run no more than this thread's little time and memory, whatever its clients do:
//! it serves [`MOST`] connections at once, each for [`PATIENCE`] at most. When one more comes, the
//! oldest is closed, so idle ones keep nobody out. It looks at all of them only every [`PAUSE`].

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::request::{LONGEST, answer};

/// Serves until it is dropped.
pub(super) struct Server {
    address: SocketAddr,
    /// The thread ends when this is closed.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at an address, and answers with the metrics that `text` makes.
    ///
    /// # Errors
    /// When the port is in use, the address is not of this machine, or no thread can be started.
    pub(super) fn open(
        address: SocketAddr,
        text: impl Fn() -> String + Send + 'static,
    ) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (end, ended) = UnixStream::pair()?;
        let serve = move || serve(&listener, &ended, &text);
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(Server { address, end: Some(end), thread: Some(thread) })
    }

    /// The address, with the port that the system chose.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        // If the thread panicked, that was told already.
        self.thread.take().map(JoinHandle::join);
    }
}

fn serve(listener: &TcpListener, ended: &UnixStream, text: &dyn Fn() -> String) {
    let mut clients = VecDeque::<Client>::new();
    loop {
        let mut descriptors =
            vec![PollFd::new(ended, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        descriptors.extend(clients.iter().map(|it| PollFd::new(&it.stream, it.awaits())));
        // The oldest one is the first to lose patience.
        let at_most = clients.front().map(Client::left);
        let at_most = at_most.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut descriptors, at_most.as_ref()) {
            Ok(_) if !descriptors[0].revents().is_empty() => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Without descriptors or memory, the run goes on without metrics.
            Err(_) => return,
        }
        clients.retain_mut(|client| client.go_on(text) && !client.left().is_zero());
        for stream in (0..MOST).map_while(|_| listener.accept().ok()).map(|(stream, _)| stream) {
            if clients.len() == MOST {
                clients.pop_front();
            }
            clients.extend(Client::new(stream));
        }
        thread::sleep(PAUSE);
    }
}

/// A connection.
struct Client {
    stream: TcpStream,
    until: Instant,
    request: Vec<u8>,
    /// The answer, and how much of it was sent.
    answer: Option<(Vec<u8>, usize)>,
}

impl Client {
    fn new(stream: TcpStream) -> Option<Client> {
        stream.set_nonblocking(true).ok()?;
        let until = Instant::now() + PATIENCE;
        Some(Client { stream, until, request: Vec::new(), answer: None })
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    fn awaits(&self) -> PollFlags {
        if self.answer.is_some() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Reads and writes what is possible now. Returns whether there is more to do.
    fn go_on(&mut self, text: &dyn Fn() -> String) -> bool {
        match self.read(text).and_then(|()| self.write()) {
            Ok(is_over) => !is_over,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn read(&mut self, text: &dyn Fn() -> String) -> io::Result<()> {
        let mut bytes = [0; 1 << 10];
        while self.answer.is_none() {
            let room = bytes.len().min(LONGEST - self.request.len());
            match self.stream.read(&mut bytes[..room])? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => self.request.extend_from_slice(&bytes[..count]),
            }
            self.answer = answer(&self.request, text).map(|answer| (answer, 0));
        }
        Ok(())
    }

    /// Returns whether the whole answer was sent.
    fn write(&mut self) -> io::Result<bool> {
        let Some((answer, sent)) = &mut self.answer else { return Ok(false) };
        while *sent < answer.len() {
            match self.stream.write(&answer[*sent..])? {
                0 => return Err(ErrorKind::WriteZero.into()),
                count => *sent += count,
            }
        }
        Ok(true)
    }
}

/// The most connections at once.
const MOST: usize = 16;

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time between two looks at the connections.
const PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        told
    }

    #[test]
    fn it_serves_until_it_is_dropped() {
        let server = Server::open(([127, 0, 0, 1], 0).into(), || "a 1\n".to_owned()).unwrap();
        let address = server.address();
        assert!(ask(address).ends_with("\r\n\r\na 1\n"));
        assert!(Server::open(address, String::new).is_err());
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn idle_connections_keep_nobody_out() {
        let server = Server::open(([127, 0, 0, 1], 0).into(), || "a 1\n".to_owned()).unwrap();
        let idle: Vec<_> =
            (0..200).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        assert!(ask(server.address()).ends_with("\r\n\r\na 1\n"));
        drop(idle);
    }
}
