//! The device: sessions, operations, and what goes wrong with them.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use evener_core::{
    Cipher, Direction, Engine, Iv, Job, Key, Mode, Outcome, Rejection, SessionRequest,
};

use crate::abi::{Call, Caller, Errno, Operation};
use crate::cuse::{Answer, Kind, Request};
use crate::faults::{Fault, Options};
use crate::ring::{Entry, Ring};

pub(crate) struct Device {
    options: Options,
    /// What really computes.
    engine: Arc<dyn Engine>,
    sessions: HashMap<u32, Session>,
    /// One for each open file.
    rings: HashMap<u64, Ring>,
    handles: u64,
    started: u32,
    operations: u64,
    has_vanished: bool,
}

struct Session {
    /// The open file that it belongs to.
    handle: u64,
    cipher: Cipher,
    key: Key,
}

impl Device {
    pub(crate) fn new(options: Options) -> io::Result<Device> {
        Ok(Device {
            options,
            engine: evener_engines::find("openssl").map_err(io::Error::other)?,
            sessions: HashMap::new(),
            rings: HashMap::new(),
            handles: 0,
            started: 0,
            operations: 0,
            has_vanished: false,
        })
    }

    /// `None` when there is no answer, now or ever.
    pub(crate) fn answer(&mut self, request: &Request) -> Option<Answer> {
        match request.kind {
            Kind::Open => {
                self.handles += 1;
                Some(Answer::Opened(self.handles))
            }
            Kind::Release { handle } => {
                self.sessions.retain(|_, session| session.handle != handle);
                self.rings.remove(&handle);
                Some(Answer::Done)
            }
            Kind::Ioctl { handle, command, argument } => {
                let caller = Caller { thread: request.thread, argument };
                match caller.read(command).and_then(|call| self.perform(handle, caller, call)) {
                    Ok(is_answered) => is_answered.then_some(Answer::Done),
                    Err(errno) => Some(Answer::Error(errno)),
                }
            }
            Kind::Poll { handle } => Some(Answer::Events(self.events(handle))),
            Kind::Interrupt { unique } => Some(Answer::Interrupted(unique)),
            Kind::Other => Some(Answer::Error(libc::ENOSYS)),
        }
    }

    pub(crate) fn has_vanished(&self) -> bool {
        self.has_vanished
    }

    /// Whether the call is to be answered.
    fn perform(&mut self, handle: u64, caller: Caller, call: Call) -> Result<bool, Errno> {
        match call {
            Call::StartSession { cipher, key } => {
                caller.write_session(self.start(handle, cipher, &key)?)?;
            }
            Call::EndSession { id } => {
                self.session(handle, id)?;
                self.sessions.remove(&id);
            }
            Call::Describe { id } => {
                let driver = self.driver(self.session(handle, id)?.cipher);
                let Options { alignment, is_software, .. } = self.options;
                caller.write_description(&driver, alignment, !is_software)?;
            }
            Call::Crypt(operation) => {
                if operation.input.len() > LARGEST_DATA {
                    return Err(libc::EINVAL);
                }
                return self.operate(handle, caller, &operation, &[]);
            }
            Call::Submit(operation) => return self.submit(handle, caller, operation),
            Call::Fetch => self.fetch(handle, caller)?,
            Call::Authenticate { operation, aad, tag_length } => {
                if tag_length != 16 || aad.len() > LARGEST_AAD {
                    return Err(libc::EINVAL);
                }
                return self.operate(handle, caller, &operation, &aad);
            }
        }
        Ok(true)
    }

    fn start(&mut self, handle: u64, cipher: u32, key: &[u8]) -> Result<u32, Errno> {
        if self.options.sessions.is_some_and(|most| self.sessions.len() as u64 >= most) {
            return Err(libc::ENOSPC);
        }
        let fits = |known: &Cipher| number(*known) == cipher && known.key_length() == key.len();
        let cipher = Cipher::ALL.iter().copied().find(fits).ok_or(libc::EINVAL)?;
        let key = Key::new(key).ok_or(libc::EINVAL)?;
        self.started += 1;
        self.sessions.insert(self.started, Session { handle, cipher, key });
        Ok(self.started)
    }

    fn operate(
        &mut self,
        handle: u64,
        caller: Caller,
        operation: &Operation,
        aad: &[u8],
    ) -> Result<bool, Errno> {
        match self.result(handle, caller, operation, aad)? {
            Some(output) => caller.write(operation.output_address, &output?)?,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Queues an operation, whose result is for a later [`Call::Fetch`].
    fn submit(&mut self, handle: u64, caller: Caller, operation: Operation) -> Result<bool, Errno> {
        let most = self.options.ring.ok_or(libc::EINVAL)?;
        if operation.input.len() > LARGEST_DATA {
            return Err(libc::EINVAL);
        }
        if self.rings.entry(handle).or_default().is_full(most) {
            return Err(libc::EBUSY);
        }
        let result = self.result(handle, caller, &operation, &[])?;
        if self.has_vanished {
            return Ok(false);
        }
        let Operation { structure, output_address, .. } = operation;
        let ring = self.rings.entry(handle).or_default();
        ring.push(Entry { structure, output_address, result }, most)?;
        if !self.options.is_lazy {
            ring.work();
        }
        Ok(true)
    }

    fn fetch(&mut self, handle: u64, caller: Caller) -> Result<(), Errno> {
        self.options.ring.ok_or(libc::EINVAL)?;
        let entry = self.rings.entry(handle).or_default().pop()?;
        caller.write(entry.output_address, &entry.result.ok_or(libc::EBUSY)??)?;
        caller.write(caller.argument, &entry.structure)
    }

    /// What poll(2) tells of an open file.
    fn events(&mut self, handle: u64) -> i16 {
        let ring = self.rings.entry(handle).or_default();
        ring.work();
        let input = if ring.has_result() { libc::POLLIN } else { 0 };
        let is_full = ring.is_full(self.options.ring.unwrap_or(0));
        input | if is_full { 0 } else { libc::POLLOUT }
    }

    /// Performs an operation, whose number it counts. An error is an operation that is refused,
    /// an error inside one that fails; `None` is one that never ends.
    fn result(
        &mut self,
        handle: u64,
        caller: Caller,
        operation: &Operation,
        aad: &[u8],
    ) -> Result<Option<Result<Vec<u8>, Errno>>, Errno> {
        self.operations += 1;
        let fault = self.options.fault(self.operations);
        match fault {
            Some(Fault::Busy) => return Err(libc::EAGAIN),
            Some(Fault::Invalid) => return Ok(Some(Err(libc::EINVAL))),
            Some(Fault::Hang) => return Ok(None),
            Some(Fault::Vanish) => {
                self.has_vanished = true;
                return Ok(None);
            }
            Some(Fault::Wrong) | None => {}
        }
        let mut result = self.compute(handle, caller, operation, aad);
        if let (Some(Fault::Wrong), Ok(output)) = (fault, &mut result) {
            output.last_mut().into_iter().for_each(|byte| *byte ^= 1);
        }
        Ok(Some(result))
    }

    fn compute(
        &self,
        handle: u64,
        caller: Caller,
        operation: &Operation,
        aad: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let Session { cipher, key, .. } = self.session(handle, operation.session)?;
        let (cipher, input) = (*cipher, &operation.input);
        let is_aligned = |address: u64| address.is_multiple_of(self.options.alignment);
        if !is_aligned(operation.input_address) || !is_aligned(operation.output_address) {
            return Err(libc::EINVAL);
        }
        let direction = if operation.decrypts { Direction::Decrypt } else { Direction::Encrypt };
        let iv = caller.bytes(operation.iv_address, cipher.iv_length() as u32)?;
        let iv = Iv::new(&iv).ok_or(libc::EINVAL)?;
        let request = SessionRequest { cipher, direction, key: Some(key) };
        let mut session = self.engine.open(&request).map_err(|_| libc::EINVAL)?;
        let mut output = vec![0; input.len() + cipher.tag_length()];
        let mut batch = [Job { aad, ..Job::new(iv, input, &mut output) }];
        session.process(&mut batch).map_err(|_| libc::EIO)?;
        match batch[0].outcome {
            Outcome::Done { written } => {
                output.truncate(written);
                Ok(output)
            }
            Outcome::Rejected(Rejection::Tag) => Err(libc::EBADMSG),
            _ => Err(libc::EINVAL),
        }
    }

    fn session(&self, handle: u64, id: u32) -> Result<&Session, Errno> {
        let session = self.sessions.get(&id).filter(|session| session.handle == handle);
        session.ok_or(libc::EINVAL)
    }

    /// Such as `cbc-aes-testbed`.
    fn driver(&self, cipher: Cipher) -> String {
        let mut words: Vec<_> = cipher.name().split('-').rev().collect();
        words.retain(|word| word.parse::<u32>().is_err());
        words.push(if self.options.is_software { "generic" } else { "testbed" });
        words.join("-")
    }
}

/// The number of a cipher in `enum cryptodev_crypto_op_t`; 0 when it has none.
fn number(cipher: Cipher) -> u32 {
    match (cipher.name(), cipher.mode()) {
        ("des-ede3-cbc", _) => 2,
        ("bf-cbc", _) => 3,
        ("camellia-128-cbc" | "camellia-192-cbc" | "camellia-256-cbc", _) => 101,
        (_, Mode::Cbc) => 11,
        (_, Mode::Ctr) => 21,
        (_, Mode::Xts) => 22,
        (_, Mode::Ecb) => 23,
        (_, Mode::Gcm) => 50,
        _ => 0,
    }
}

/// What OCF's drivers take at most, in bytes.
const LARGEST_DATA: usize = (1 << 16) - 1;

/// What cryptodev-linux takes of additional data, in bytes.
const LARGEST_AAD: usize = 4096;
