//! The device: sessions, operations, and their faults.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evener_core::{
    Cipher, Direction, Engine, Iv, Job, Key, Mode, Outcome, Rejection, SessionRequest,
};

use crate::abi::{Call, Caller, Errno, Operation};
use crate::cuse::{Answer, Kind, Request};
use crate::faults::{Fault, Options};
use crate::lies::{Liar, Lie};
use crate::ring::{Entry, Ring};

pub(crate) struct Device {
    options: Options,
    /// The engine that really computes.
    engine: Arc<dyn Engine>,
    sessions: HashMap<u32, Session>,
    /// A ring for each open file.
    rings: HashMap<u64, Ring>,
    handles: u64,
    started: u32,
    operations: u64,
    /// Number of operations with a fault.
    faults: Arc<AtomicU64>,
    liar: Liar,
    has_vanished: bool,
}

struct Session {
    /// The open file to which it belongs.
    handle: u64,
    cipher: Cipher,
    key: Key,
    /// The IV of an operation that brings none: the one that the operation before left, or zeros.
    iv: Iv,
    /// The driver of a session is chosen at its start.
    is_software: bool,
}

impl Device {
    /// The device adds to `faults` for each operation with a fault.
    pub(crate) fn new(options: Options, faults: Arc<AtomicU64>) -> io::Result<Device> {
        Ok(Device {
            options,
            engine: evener_engines::find("openssl").map_err(io::Error::other)?,
            sessions: HashMap::new(),
            rings: HashMap::new(),
            handles: 0,
            started: 0,
            operations: 0,
            faults,
            liar: Liar::default(),
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

    /// Returns whether the call gets an answer.
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
                let session = self.session(handle, id)?;
                let alignment = self.options.alignment;
                caller.write_description(&session.driver(), alignment, !session.is_software)?;
            }
            Call::Crypt(operation) => {
                if operation.length > LARGEST_DATA {
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
        let key = Key::new(key).map_err(|_| libc::EINVAL)?;
        self.started += 1;
        let iv = Iv::new(&[0; Iv::MAX_LENGTH][..cipher.iv_length()]).map_err(|_| libc::EINVAL)?;
        let is_software = self.options.is_software(self.started);
        self.sessions.insert(self.started, Session { handle, cipher, key, iv, is_software });
        Ok(self.started)
    }

    /// Performs an operation while its caller waits.
    fn operate(
        &mut self,
        handle: u64,
        caller: Caller,
        operation: &Operation,
        aad: &[u8],
    ) -> Result<bool, Errno> {
        let fault = self.next_fault(operation);
        match fault {
            Some(Fault::Busy) => return Err(libc::EAGAIN),
            Some(Fault::Interrupt) => return Err(libc::EINTR),
            Some(Fault::Hang) => return Ok(false),
            Some(Fault::Vanish) => {
                self.has_vanished = true;
                return Ok(false);
            }
            Some(Fault::Invalid | Fault::Lie(_)) | None => {}
        }
        let iv = self.read_iv(handle, caller, operation)?;
        self.transform(handle, caller, operation, iv.as_deref(), aad, fault)?;
        Ok(true)
    }

    /// Queues an operation for a later [`Call::Fetch`] of its result.
    fn submit(&mut self, handle: u64, caller: Caller, operation: Operation) -> Result<bool, Errno> {
        let most = self.options.ring.ok_or(libc::EINVAL)?;
        if operation.length > LARGEST_DATA {
            return Err(libc::EINVAL);
        }
        if self.rings.entry(handle).or_default().is_full(most) {
            return Err(libc::EBUSY);
        }
        let fault = self.next_fault(&operation);
        match fault {
            Some(Fault::Busy) => return Err(libc::EAGAIN),
            Some(Fault::Interrupt) => return Err(libc::EINTR),
            Some(Fault::Vanish) => {
                self.has_vanished = true;
                return Ok(false);
            }
            _ => {}
        }
        let iv = self.read_iv(handle, caller, &operation)?;
        let ring = self.rings.entry(handle).or_default();
        ring.push(Entry { caller, operation, iv, fault, result: Ok(()) }, most)?;
        if !self.options.is_lazy {
            self.work(handle);
        }
        Ok(true)
    }

    /// Performs the queued operations in order of arrival.
    fn work(&mut self, handle: u64) {
        let mut ring = self.rings.remove(&handle).unwrap_or_default();
        ring.work(|Entry { caller, operation, iv, fault, .. }| {
            self.transform(handle, *caller, operation, iv.as_deref(), &[], *fault)
        });
        self.rings.insert(handle, ring);
    }

    fn fetch(&mut self, handle: u64, caller: Caller) -> Result<(), Errno> {
        self.options.ring.ok_or(libc::EINVAL)?;
        let entry = self.rings.entry(handle).or_default().pop()?;
        entry.result?;
        caller.write(caller.argument, &entry.operation.structure)
    }

    /// The events of poll(2) for an open file.
    fn events(&mut self, handle: u64) -> i16 {
        self.work(handle);
        let ring = self.rings.entry(handle).or_default();
        let input = if ring.has_result() { libc::POLLIN } else { 0 };
        let is_full = ring.is_full(self.options.ring.unwrap_or(0));
        input | if is_full { 0 } else { libc::POLLOUT }
    }

    /// Counts an operation, and returns its fault.
    fn next_fault(&mut self, operation: &Operation) -> Option<Fault> {
        self.operations += 1;
        let fault = self.options.fault(self.operations, operation.length);
        self.faults.fetch_add(fault.is_some().into(), Ordering::Relaxed);
        fault
    }

    /// The IV that an operation brings, if any.
    fn read_iv(
        &self,
        handle: u64,
        caller: Caller,
        operation: &Operation,
    ) -> Result<Option<Vec<u8>>, Errno> {
        let length = self.session(handle, operation.session)?.cipher.iv_length() as u32;
        let address = Some(operation.iv_address).filter(|&address| address != 0);
        address.map(|address| caller.bytes(address, length)).transpose()
    }

    /// Reads an operation's data and writes its result.
    fn transform(
        &mut self,
        handle: u64,
        caller: Caller,
        operation: &Operation,
        iv: Option<&[u8]>,
        aad: &[u8],
        fault: Option<Fault>,
    ) -> Result<(), Errno> {
        if fault == Some(Fault::Invalid) {
            return Err(libc::EINVAL);
        }
        let input = caller.bytes(operation.input_address, operation.length)?;
        let output = match fault {
            Some(Fault::Lie(lie)) => {
                self.compute_wrongly(lie, handle, operation, &input, iv, aad)?
            }
            _ => {
                let output = self.compute(handle, operation, &input, iv, aad)?;
                self.liar.keep(&output);
                output
            }
        };
        caller.write(operation.output_address, &output)
    }

    fn compute_wrongly(
        &mut self,
        lie: Lie,
        handle: u64,
        operation: &Operation,
        input: &[u8],
        iv: Option<&[u8]>,
        aad: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let wrong = lie.iv(iv);
        let mut output = match self.compute(handle, operation, input, wrong.as_deref(), aad) {
            Err(libc::EBADMSG) if lie == Lie::Accept => {
                self.decrypt_only(handle, operation, input, iv)?
            }
            result => result?,
        };
        self.liar.tell(lie, self.options.delay, &mut output);
        Ok(output)
    }

    /// Decrypts a message whose tag is wrong. The bytes are those that GCM computes when it
    /// encrypts the ciphertext.
    fn decrypt_only(
        &mut self,
        handle: u64,
        operation: &Operation,
        input: &[u8],
        iv: Option<&[u8]>,
    ) -> Result<Vec<u8>, Errno> {
        let tag = self.session(handle, operation.session)?.cipher.tag_length();
        let length = input.len().saturating_sub(tag);
        let operation = Operation { decrypts: false, ..operation.clone() };
        let mut output = self.compute(handle, &operation, &input[..length], iv, &[])?;
        output.truncate(length);
        Ok(output)
    }

    fn compute(
        &mut self,
        handle: u64,
        operation: &Operation,
        input: &[u8],
        iv: Option<&[u8]>,
        aad: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let is_aligned = |address: u64| address.is_multiple_of(self.options.alignment);
        if !is_aligned(operation.input_address) || !is_aligned(operation.output_address) {
            return Err(libc::EINVAL);
        }
        let engine = Arc::clone(&self.engine);
        let session = self.session_mut(handle, operation.session)?;
        // As in cryptodev-linux: without an IV it continues with the session's last one, and does
        // not report that.
        if let Some(iv) = iv {
            session.iv = Iv::new(iv).map_err(|_| libc::EINVAL)?;
        }
        let Session { cipher, iv, .. } = *session;
        let direction = if operation.decrypts { Direction::Decrypt } else { Direction::Encrypt };
        let request = SessionRequest { cipher, direction, key: Some(&session.key) };
        let mut opened = engine.open(&request).map_err(|_| libc::EINVAL)?;
        let mut output = vec![0; input.len() + cipher.tag_length()];
        let mut batch = [Job { aad, ..Job::new(iv, input, &mut output) }];
        opened.process(&mut batch).map_err(|_| libc::EIO)?;
        match batch[0].outcome {
            Outcome::Done { written } => {
                output.truncate(written);
                let ciphertext = if operation.decrypts { input } else { &output };
                session.iv = match cipher.mode() {
                    Mode::Ctr => iv.advanced(input.len().div_ceil(Iv::MAX_LENGTH) as u64),
                    _ => iv.following(cipher, ciphertext).unwrap_or(iv),
                };
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

    fn session_mut(&mut self, handle: u64, id: u32) -> Result<&mut Session, Errno> {
        let session = self.sessions.get_mut(&id).filter(|session| session.handle == handle);
        session.ok_or(libc::EINVAL)
    }
}

impl Session {
    /// Such as `cbc-aes-testbed`.
    fn driver(&self) -> String {
        let mut words: Vec<_> = self.cipher.name().split('-').rev().collect();
        words.retain(|word| word.parse::<u32>().is_err());
        words.push(if self.is_software { "generic" } else { "testbed" });
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

/// The most data that OCF's drivers accept, in bytes.
const LARGEST_DATA: u32 = (1 << 16) - 1;

/// The most additional data that cryptodev-linux accepts, in bytes.
const LARGEST_AAD: usize = 4096;
