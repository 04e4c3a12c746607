//! A peer: a program that processes the message on request.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use evener_core::{Cipher, Direction};

use super::build::Built;
use crate::LabError;

/// A running peer. Dropping it ends it.
pub(super) struct Peer {
    name: &'static str,
    child: Child,
    /// `None` only after it was closed.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The peer's description of itself.
    pub(super) version: String,
}

/// The way in which a peer divides the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Parts of 1 MiB.
    Parts,
    /// Blocks of 16 bytes.
    Blocks,
}

impl Peer {
    /// Starts a peer with a message of `bytes` bytes.
    ///
    /// # Errors
    /// [`LabError::Unavailable`] when it does not run.
    pub(super) fn start(name: &'static str, built: &Built, bytes: usize) -> Result<Peer, LabError> {
        let mut command = Command::new(&built.program);
        command.args(&built.arguments).arg(bytes.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let start = |source| LabError::Start { program: built.program.clone(), source };
        let mut child = command.spawn().map_err(start)?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let silent = || LabError::Unavailable(format!("{name} has no standard output"));
        let answers = BufReader::new(answers.ok_or_else(silent)?);
        let mut peer = Peer { name, child, orders, answers, version: String::new() };
        peer.version = peer.answer()?;
        Ok(peer)
    }

    /// Makes the peer process the message once, and returns the time.
    ///
    /// # Errors
    /// When the peer does not answer with a time.
    pub(super) fn turn(
        &mut self,
        cipher: Cipher,
        direction: Direction,
        way: Way,
        threads: u16,
    ) -> Result<Duration, LabError> {
        let way = match way {
            Way::Parts => "parts",
            Way::Blocks => "blocks",
        };
        let answer = self.ask(&format!("{cipher} {direction} {way} {threads}\n"))?;
        answer.parse().map(Duration::from_nanos).map_err(|_| self.lost(&answer))
    }

    /// A digest of the last result of a direction, as [`digest`](super::contender::digest).
    ///
    /// # Errors
    /// When the peer does not answer with a digest.
    pub(super) fn digest(&mut self, direction: Direction) -> Result<u64, LabError> {
        let answer = self.ask(&format!("digest {direction}\n"))?;
        u64::from_str_radix(&answer, 16).map_err(|_| self.lost(&answer))
    }

    fn ask(&mut self, order: &str) -> Result<String, LabError> {
        let told = self.orders.as_mut().map(|orders| orders.write_all(order.as_bytes()));
        match told {
            Some(Ok(())) => self.answer(),
            _ => Err(self.lost("nothing, it has gone")),
        }
    }

    fn answer(&mut self) -> Result<String, LabError> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(1..) => Ok(line.trim().to_owned()),
            _ => Err(self.lost("nothing, it has gone")),
        }
    }

    fn lost(&self, answer: &str) -> LabError {
        LabError::Unavailable(format!("{} answered: {answer}", self.name))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both peers end when their input closes; `kill` also ends a peer that hangs.
        self.orders = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
