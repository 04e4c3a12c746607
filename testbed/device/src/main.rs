//! Serves `/dev/crypto` from user space while a command runs, and fails on demand.
//!
//! The kernel's CUSE (character devices in user space) passes the ioctls of other programs to this
//! one, which answers them like cryptodev-linux: `cuse` speaks the kernel's protocol, `device` is
//! the device, `abi` reads its requests from the caller's memory, `ring` keeps the asynchronous
//! ones, `faults` decides which fail, and `lies` makes wrong results that look right. The
//! structures are read by their offsets in the C header and share nothing with the engine that is
//! tested against them.

mod abi;
mod cuse;
mod device;
mod faults;
mod lies;
mod ring;
mod sys;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use cuse::Connection;
use device::Device;
use faults::Options;

fn main() -> ExitCode {
    match run() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("crypto-device: {error}");
            ExitCode::from(125)
        }
    }
}

fn run() -> io::Result<ExitCode> {
    let (options, command) =
        Options::parse(env::args_os().skip(1)).map_err(|what| io::Error::other(what + USAGE))?;
    let [program, arguments @ ..] = command.as_slice() else {
        return Err(io::Error::other(format!("no command was given{USAGE}")));
    };
    let connection = Connection::open("crypto")?;
    let faults = Arc::<AtomicU64>::default();
    let (counted, tally) = (Arc::clone(&faults), options.tally.clone());
    thread::spawn(move || {
        if let Err(error) = serve(connection, options, counted) {
            eprintln!("crypto-device: the device ended: {error}");
        }
    });
    wait_for(Path::new("/dev/crypto"))?;
    let status = Command::new(program).args(arguments).status()?;
    if let Some(file) = tally {
        fs::write(file, format!("{}\n", faults.load(Ordering::Relaxed)))?;
    }
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(125)))
}

/// Answers requests until the connection or the device ends; then the device disappears.
fn serve(mut connection: Connection, options: Options, faults: Arc<AtomicU64>) -> io::Result<()> {
    let mut device = Device::new(options, faults)?;
    while let Some(request) = connection.receive()? {
        match device.answer(&request) {
            Some(answer) => connection.reply(&request, answer)?,
            None if device.has_vanished() => break,
            None => {}
        }
    }
    Ok(())
}

fn wait_for(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !path.exists() {
        if Instant::now() > deadline {
            return Err(io::Error::other(format!("{} did not appear", path.display())));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

const USAGE: &str = "
usage: crypto-device [OPTION]... [--] COMMAND [ARGUMENT]...
  --sessions N    have room for N sessions
  --ring N        take N asynchronous requests at once; without it they are refused
  --lazy          do those only when somebody waits for a result
  --alignment N   refuse data at addresses that are not multiples of N
  --software      claim to be a software driver
  --software-from N  claim so from the Nth session on, as when the hardware went away
  --busy-every N  be busy at every Nth operation, once each
  --invalid-at N  refuse the Nth operation
  --wrong-at N    return a wrong byte from the Nth operation
  --hang-at N     never answer the Nth operation
  --vanish-at N   be gone at the Nth operation
  --lie LIE       from one operation on, return wrong results as if they were right: flip, repeat,
                  swap, truncate, nothing, late, long, symmetric, accept; or be right and slow;
                  or error, interrupt, hang, vanish
  --lie-from N    begin with the Nth operation (1)
  --lie-above N   with `long`, be wrong only if the input has more bytes (1024)
  --lie-delay MS  with `late` and `slow`, be so late (5)
  --tally FILE    write to FILE in the end how many operations something was wrong with";
