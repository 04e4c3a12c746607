//! Pipes: encryption and decryption of streams, with the output in the order of the input.
//!
//! ```text
//! input ─▶ feed (caller's thread): cuts into pieces ─▶ queue ─▶ workers ─▶ sequencer ─▶ output
//!             ▲ waits for a buffer                                            │
//!             └──────────────────── pool of buffers ◀─────────────────────────┘
//! ```
//!
//! A piece is a segment of a file of unknown length. The pool limits the number of pieces. Only the
//! sequencer restores the order; no worker waits for another worker's piece, so a piece whose
//! engine failed always finds a free worker. A cipher that chains has one worker; when its engine
//! fails, another run continues with the next engine.

mod base64;
mod pool;
mod reader;
mod sequencer;
mod sink;
mod trial;
mod work;

use std::fmt;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

use evener_core::Direction;
use evener_format::{FileCipher, Recipe};
use evener_keys::{Candidates, age};
use evener_pipeline::Worker;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::retry_on_intr;

use crate::identity::FileState;
use crate::naming::kind_of_name;
use crate::output::Outputs;
use crate::seats::Accounts;
use crate::{
    Failure, FileError, FileOutcome, KeyRing, Notice, Operation, OperationError, Refusal, Report,
    RunSettings, Settled, StreamOptions, contradictions, seats,
};
use evener_seal::{SegmentError, bytes_to_prepare, opens};

pub use self::base64::Base64;
use pool::Pool;
use reader::{Input, Reader};
use sequencer::{Sequencer, WriteAll};
use sink::Sink;
pub use sink::{commands_terminals, takes_a_stream};
use trial::Trial;
use work::{Cut, StreamWork};

/// The source of a stream.
pub enum StreamSource<'s> {
    /// An open descriptor, such as standard input.
    Descriptor(OwnedFd),
    /// A file.
    File(PathBuf),
    /// An open file, read from its current position, and its path.
    Opened(OwnedFd, PathBuf),
    /// An open descriptor from which these bytes were read already, and its path for reports.
    Begun {
        /// The descriptor.
        descriptor: OwnedFd,
        /// Its path, or `-`.
        path: PathBuf,
        /// The bytes before those that it still has.
        read: Vec<u8>,
    },
    /// Anything that can be read. It is read on the calling thread, and asked to stop only between
    /// two reads.
    Reader(Box<dyn Read + Send + 's>),
}

impl StreamSource<'_> {
    /// The path for reports; `-` for a descriptor.
    fn name(&self) -> PathBuf {
        match self {
            StreamSource::Descriptor(_) | StreamSource::Reader(_) => PathBuf::from("-"),
            StreamSource::File(path)
            | StreamSource::Opened(_, path)
            | StreamSource::Begun { path, .. } => path.clone(),
        }
    }
}

impl fmt::Debug for StreamSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamSource({})", evener_core::shown(&self.name()))
    }
}

/// The target of a stream.
pub enum StreamTarget<'t> {
    /// An open descriptor, such as standard output. Plaintext is written to it only after its
    /// chunks were authenticated; a later failure can't call it back.
    Descriptor(OwnedFd),
    /// A descriptor of a terminal, which gets only text: bytes that would command it are an error.
    Terminal(OwnedFd),
    /// A file, which gets its name when it is complete; or a device or FIFO, which is written to
    /// like a descriptor.
    File(PathBuf),
    /// Anything that can be written to, under the conditions of a descriptor. It is written to on
    /// workers' threads, and flushed at the end.
    Writer(Box<dyn Write + Send + 't>),
    /// No target, for verifying.
    Nowhere,
}

impl fmt::Debug for StreamTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StreamTarget::Descriptor(_) => "StreamTarget::Descriptor",
            StreamTarget::Terminal(_) => "StreamTarget::Terminal",
            StreamTarget::File(_) => "StreamTarget::File",
            StreamTarget::Writer(_) => "StreamTarget::Writer",
            StreamTarget::Nowhere => "StreamTarget::Nowhere",
        })
    }
}

/// Encrypts, decrypts or verifies one stream from beginning to end.
///
/// # Errors
/// [`OperationError::Incomplete`] when it failed later: its report has the failure, with the path
/// `-` for a descriptor. [`OperationError::NotBegun`] when it could not begin: an end can't be
/// opened, no engine supports the cipher, or one chunk takes more memory than is allowed.
pub fn process_stream(
    operation: Operation,
    keys: &KeyRing,
    source: StreamSource<'_>,
    target: StreamTarget<'_>,
    run: &RunSettings,
    options: &StreamOptions,
) -> Result<Report, OperationError> {
    let fail = |error| Failure { path: source.name(), error };
    contradictions::in_run(run).map_err(fail)?;
    perform(operation, keys, source, target, run, options)?.into_result()
}

/// As [`process_stream`], but returns a report for failures too.
pub(crate) fn perform(
    operation: Operation,
    keys: &KeyRing,
    source: StreamSource<'_>,
    target: StreamTarget<'_>,
    run: &RunSettings,
    options: &StreamOptions,
) -> Result<Report, Failure> {
    let started = Instant::now();
    let name = source.name();
    let fail = |error| Failure { path: name.clone(), error };
    let cipher = keys.primary().cipher();
    let seats = seats::able(run, cipher, operation.direction()).map_err(fail)?;
    let is_named = matches!(source, StreamSource::File(_) | StreamSource::Opened(..));
    let read = match &source {
        StreamSource::Begun { read, .. } => read.clone(),
        _ => Vec::new(),
    };
    let mut input = open(source).map_err(fail)?;
    let outputs =
        Outputs::new(operation, options.overwrite, false, &options.protected, &run.control);
    let mut sink = Sink::open(target, &outputs, input.descriptor())?;
    if let (Direction::Encrypt, Some(form)) = (operation.direction(), options.base64) {
        sink = sink.encoding(form);
    }
    if operation == Operation::Decrypt && !options.insecure_modes {
        sink.refuse_exposed()?;
    }
    // A redirection may deliver anything; a named file must be read in one state.
    let named = |input: &Opened<'_>| match input.descriptor().filter(|_| is_named) {
        Some(file) => state_of_file(file),
        None => Ok(None),
    };
    let before = named(&input).map_err(fail)?;
    run.control.found(1, 0);

    let mut report = Report {
        operation: operation.name().to_owned(),
        format: keys.primary().format().to_owned(),
        cipher: cipher.to_string(),
        ..Report::default()
    };
    let write = |bytes: &[u8], offset| sink.write_all(bytes, offset);
    let mut stream = Stream { operation, keys, run, options, write: &write, report: &mut report };
    let result = stream.work(&seats, input.input(), read).and_then(|()| {
        if before.is_some() && named(&input)? != before {
            return Err(FileError::Changed);
        }
        sink.finish()?;
        sink.publish(&outputs, options.durable)
    });
    let engines: Vec<_> = report.retired.iter().map(|retired| retired.engine.clone()).collect();
    report.add_doubts(engines.into_iter().map(|engine| (engine, name.clone())));
    match result {
        Ok(()) => {
            run.control.settled(Settled::Done);
            if let Some(listener) = &run.listener {
                listener(&name, FileOutcome::Done);
            }
            report.files = 1;
        }
        Err(error @ FileError::Memory { .. }) => return Err(fail(error)),
        Err(FileError::Interrupted) => {}
        Err(error) => {
            run.control.settled(Settled::Failed);
            run.control.failed();
            report.failures.push(fail(error));
        }
    }
    for reason in outputs.notices() {
        report.notices.push(Notice { path: name.clone(), reason: reason.to_owned() });
    }
    if let (Operation::Encrypt, 1, Some(end)) = (operation, report.files, sink.end_on_device()) {
        let reason = format!(
            "what was on the device follows the {end} bytes of the output; to decrypt it, read \
             these alone, as with `head -c {end}`"
        );
        report.notices.push(Notice { path: name.clone(), reason });
    }
    report.interrupted = run.control.is_stopped();
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// One stream at work.
struct Stream<'a> {
    operation: Operation,
    keys: &'a KeyRing,
    run: &'a RunSettings,
    options: &'a StreamOptions,
    write: &'a WriteAll<'a>,
    report: &'a mut Report,
}

impl<'a> Stream<'a> {
    fn work<'i>(
        &mut self,
        seats: &[std::sync::Arc<dyn evener_core::Engine>],
        input: Input<'i>,
        read: Vec<u8>,
    ) -> Result<(), FileError>
    where
        'a: 'i,
    {
        let direction = self.operation.direction();
        let run = self.run;
        let mut reader = Reader::new(input, &run.control).behind(read);
        if let (Direction::Decrypt, Some(Base64::Lines | Base64::OneLine)) =
            (direction, self.options.base64)
        {
            reader = reader.decode();
        }
        let (file, header) = match direction {
            Direction::Encrypt => {
                let (file, header) = self.keys.primary().create()?;
                (file, Some(header))
            }
            Direction::Decrypt => (self.identify(&mut reader, seats)?, None),
        };
        // Chained chunks take one worker, in the order of the queue. When its engine fails, a run
        // on the next engine continues.
        let ranked = seats::for_one_at_a_time(seats, file.cipher(), direction);
        let crews: Vec<_> = match file.is_chained(direction) {
            true => ranked.chunks(1).collect(),
            false => vec![seats],
        };
        let header = header.as_ref().map(|header| [&self.options.head, header.bytes()].concat());
        let sequencer = Sequencer::new(self.write, &header.unwrap_or_default())?;
        let pool = Pool::new(&file, direction, run.memory, crews[0])?;
        let work = StreamWork::new(&file, direction, &pool, &sequencer, &run.control);
        let run_options = run.options(file.cipher(), direction, pool.pieces());
        let accounts = Accounts::open(seats);
        let mut cut = Cut::default();
        let mut trial = Trial::new(&file, direction, ranked.iter().chain(&run.reference));
        for crew in crews {
            let mut statistics = evener_pipeline::run(crew, &run_options, &work, |queue| {
                work.feed(&mut reader, &mut cut, &mut trial, queue);
            });
            for worker in &mut statistics.workers {
                worker.worker += self.report.workers.len();
            }
            self.report.add_statistics(statistics);
            if !work.can_go_on() {
                break;
            }
        }
        accounts.settle(self.report);
        self.report.bytes = reader.bytes();
        self.report.bytes_written = sequencer.bytes();
        work.result()
    }

    /// Reads the header and finds the key that opens the stream.
    fn identify(
        &self,
        reader: &mut Reader<'_>,
        seats: &[std::sync::Arc<dyn evener_core::Engine>],
    ) -> Result<FileCipher, FileError> {
        let mut longest = bytes_to_prepare(self.keys);
        let reads_age = self.keys.recipes().any(|recipe| matches!(recipe, Recipe::Age(_)));
        let mut is_armoured = false;
        let (beginning, at_end) = loop {
            if longest > self.run.memory as u64 / 2 {
                return Err(FileError::Memory { needed: longest.saturating_mul(2) });
            }
            let mut beginning = vec![0; longest as usize];
            let length = reader.peek(&mut beginning)?;
            beginning.truncate(length);
            let at_end = length < longest as usize;
            if !is_armoured && reads_age && age::is_armoured(&beginning) {
                reader.unarmour();
                is_armoured = true;
                continue;
            }
            longest = self.keys.bytes_to_open(&beginning) as u64;
            if at_end || longest <= length as u64 {
                break (beginning, at_end);
            }
        };
        let beginning = &beginning[..];
        let file = match self.keys.open(beginning)? {
            Candidates::One(file) => *file,
            Candidates::Several(candidates) => {
                let on = (self.keys.primary().cipher(), self.operation.direction());
                seats::before_a_run(self.run, seats, on, |worker| {
                    choose(&candidates, beginning, at_end, worker)
                })?
            }
        };
        reader.skip(file.geometry().header as usize);
        Ok(file)
    }
}

/// Finds the candidate under which the first chunk is authentic.
fn choose(
    candidates: &[FileCipher],
    beginning: &[u8],
    at_end: bool,
    worker: &mut Worker<'_>,
) -> Result<FileCipher, SegmentError> {
    let mut scratch = vec![0; beginning.len()];
    for candidate in candidates {
        let geometry = candidate.geometry();
        let body = (beginning.len() as u64).saturating_sub(geometry.header);
        let full = geometry.full_sealed_length(0);
        // The data after a full chunk is unknown unless the stream has ended: both are tried.
        let whole = (body >= full).then(|| geometry.full_chunk(0)).transpose();
        let whole = whole.map_err(FileError::from)?;
        let last = (at_end && body <= full || body == full)
            .then(|| geometry.last_chunk_of_sealed(0, body.min(full)).ok())
            .flatten();
        for chunk in whole.into_iter().chain(last) {
            if opens(candidate, chunk, beginning, &mut scratch, worker)? {
                return Ok(candidate.clone());
            }
        }
    }
    Err(FileError::Rejected { chunk: 0, rejection: evener_core::Rejection::Tag }.into())
}

/// An open source.
enum Opened<'s> {
    Descriptor(OwnedFd),
    Reader(Box<dyn Read + Send + 's>),
}

impl Opened<'_> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Opened::Descriptor(descriptor) => Some(descriptor.as_fd()),
            Opened::Reader(_) => None,
        }
    }

    fn input(&mut self) -> Input<'_> {
        match self {
            Opened::Descriptor(descriptor) => Input::Descriptor(OwnedFd::as_fd(descriptor)),
            Opened::Reader(reader) => Input::Reader(&mut **reader),
        }
    }
}

fn open(source: StreamSource<'_>) -> Result<Opened<'_>, FileError> {
    let opened = match source {
        StreamSource::Reader(reader) => return Ok(Opened::Reader(reader)),
        StreamSource::Descriptor(descriptor)
        | StreamSource::Opened(descriptor, _)
        | StreamSource::Begun { descriptor, .. } => descriptor,
        StreamSource::File(path) => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
            retry_on_intr(|| openat(CWD, &path, flags, Mode::empty())).map_err(|errno| {
                match kind_of_name(CWD, path.as_os_str()) {
                    Some(FileType::Socket) => Refusal::Socket.into(),
                    _ => FileError::system("open it")(errno),
                }
            })?
        }
    };
    // A larger pipe means fewer turns between the programs; a refusal costs nothing.
    let _ = rustix::pipe::fcntl_setpipe_size(&opened, PIPE_SIZE);
    Ok(Opened::Descriptor(opened))
}

/// The state of a regular file; `None` for anything else.
fn state_of_file(input: BorrowedFd<'_>) -> Result<Option<FileState>, FileError> {
    let status = fstat(input).map_err(FileError::system("read its status"))?;
    let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    Ok(is_file.then(|| FileState::of(&status)))
}

/// A larger pipe means fewer turns between the programs.
const PIPE_SIZE: usize = 1 << 20;
