//! Finds the ciphers of `/dev/crypto` and the kernel's drivers behind them.

use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use evener_core::{Cipher, Direction, Iv, Mode, shown_error};

use super::abi::algorithm;
use super::bounce::Bounce;
use super::patience::{is_interrupted, patiently};
use super::sys::{Data, Device, PATH, Request, SessionFacts, SessionId, TAG_LENGTH};
use crate::kernel;
use crate::probing::{DEADLINE, Waiter};

/// A cipher of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) cipher: Cipher,
    /// The kernel's name of its driver.
    pub(super) driver: String,
    pub(super) is_hardware: bool,
    /// Addresses of data should be multiples of this, in bytes.
    pub(super) alignment: usize,
    /// Several requests can run at once.
    pub(super) is_asynchronous: bool,
    /// The kernel may use another driver for a session.
    pub(super) takes_any: bool,
}

/// The drivers to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice<'a> {
    /// All hardware drivers.
    Hardware,
    /// The driver of this name.
    Driver(&'a str),
    /// Any driver that the kernel chooses.
    Any,
}

/// The ciphers of the chosen drivers. The error is the reason why there are none.
pub(super) fn services(choice: Choice<'_>, waiter: &Waiter) -> Result<Vec<Service>, String> {
    let all = all_services(waiter)?;
    let drivers = Drivers(&all).to_string();
    let wanted = |service: &Service| match choice {
        Choice::Driver(driver) => service.driver == driver,
        Choice::Hardware => service.is_hardware,
        Choice::Any => true,
    };
    let mut kept: Vec<_> = all.into_iter().filter(wanted).collect();
    if choice == Choice::Any {
        for service in &mut kept {
            service.takes_any = true;
            service.alignment = service.alignment.max(SAFE_ALIGNMENT);
        }
    }
    if !kept.is_empty() {
        return Ok(kept);
    }
    Err(match choice {
        Choice::Driver(_) => format!("{PATH} is not served by this driver, but by {drivers}"),
        _ => format!(
            "{PATH} is served by software only: {drivers}; software drivers are used only when \
             named, as in cryptodev:DRIVER, or with cryptodev:any"
        ),
    })
}

/// Checks, by the device's information, whether a session may be used. The error is the reason why
/// not. Every session is checked, because the kernel may use another driver for each.
pub(super) fn check_session(service: &Service, facts: &SessionFacts) -> Result<(), String> {
    let Service { driver, is_hardware, alignment, takes_any, .. } = service;
    let is_another = facts.driver != *driver || is_hardware_driver(facts) != *is_hardware;
    let now = format!("{} ({})", facts.driver, nature(is_hardware_driver(facts)));
    if is_another && !takes_any {
        let before = format!("{driver} ({})", nature(*is_hardware));
        return Err(format!(
            "{PATH} was served by {before}, and the kernel gave the session to {now}; \
             cryptodev:any takes whatever it gives"
        ));
    }
    if facts.alignment > *alignment {
        return Err(format!(
            "{PATH} is served by {now} now, which needs data at multiples of {} bytes",
            facts.alignment
        ));
    }
    Ok(())
}

fn is_hardware_driver(facts: &SessionFacts) -> bool {
    facts.is_kernel_only || !kernel::computes_on_the_calling_core(&facts.driver)
}

fn nature(is_hardware: bool) -> &'static str {
    if is_hardware { "hardware" } else { "software" }
}

fn all_services(waiter: &Waiter) -> Result<Vec<Service>, String> {
    let device = Device::open().map_err(|error| absence(&error))?;
    waiter.expect(LONGEST_TURN + DEADLINE);
    let _turn = wait_for_turn();
    let mut services = Vec::new();
    let mut why_not = None;
    for &cipher in Cipher::ALL {
        waiter.expect(DEADLINE);
        match algorithm(cipher).map(|_| try_out(&device, cipher)) {
            Some(Ok(service)) => services.push(service),
            // A device without a free session may still have the cipher.
            Some(Err(error)) if has_no_room(&error) => return Err(refusal(&error)),
            Some(Err(error)) => why_not = Some(error),
            None => {}
        }
    }
    match why_not {
        Some(error) if services.is_empty() => Err(refusal(&error)),
        _ => {
            // One cipher stands for all, except GCM, which has no asynchronous requests.
            let chained = |service: &&mut Service| service.cipher.mode() != Mode::Gcm;
            let is_asynchronous =
                services.iter_mut().find(chained).is_some_and(|service| takes_several(service));
            for service in services.iter_mut().filter(chained) {
                service.is_asynchronous = is_asynchronous;
            }
            Ok(services)
        }
    }
}

/// Waits until no other process probes the device, and locks it until the returned guard is
/// dropped. Many processes that probe at once would take each other's sessions, and the retries
/// would keep the device busy. If the lock does not come, because its holder was stopped, this
/// process probes without it.
fn wait_for_turn() -> Option<Device> {
    let (give, turn) = mpsc::channel();
    // The wait for a lock can't be cancelled. A lock that comes too late is released.
    let wait = move || {
        let device = Device::open().ok()?;
        device.wait_for_turn().ok()?;
        give.send(device).ok()
    };
    thread::Builder::new().spawn(wait).ok()?;
    turn.recv_timeout(LONGEST_TURN).ok()
}

/// Returns whether the device has asynchronous requests.
fn takes_several(service: &Service) -> bool {
    let try_one = || -> io::Result<()> {
        let device = Device::open()?;
        let key = trial_key(service.cipher);
        let id = start_between_others(&device, service.cipher, &key)?;
        let mut bounce = Bounce::new(TRIAL_LENGTH, service.alignment);
        let iv = Iv::new(&key[..service.cipher.iv_length()]).unwrap_or(Iv::NONE);
        let data = Data::InPlace(bounce.take(TRIAL_LENGTH));
        device.transform_all(id, Direction::Encrypt, &mut [Request::new(iv, data)])?;
        Ok(())
    };
    try_one().is_ok()
}

/// Starts a session and reads its information. A GCM session also gets an empty message, because
/// some devices have the cipher but not the request for it.
fn try_out(device: &Device, cipher: Cipher) -> io::Result<Service> {
    let key = trial_key(cipher);
    let id = start_between_others(device, cipher, &key)?;
    let facts = patiently(|| device.describe(id));
    let trial = match (cipher.mode(), &facts) {
        (Mode::Gcm, Ok(facts)) => {
            let iv = &key[..cipher.iv_length()];
            let mut nothing = Bounce::new(TAG_LENGTH, facts.alignment);
            patiently(|| {
                let nothing = nothing.take(TAG_LENGTH);
                device.authenticate_in_place(id, Direction::Encrypt, iv, &[], nothing)
            })
        }
        _ => Ok(()),
    };
    patiently(|| device.end_session(id))?;
    trial?;
    let facts = facts?;
    let is_hardware = is_hardware_driver(&facts);
    let SessionFacts { driver, alignment, .. } = facts;
    let (is_asynchronous, takes_any) = (false, false);
    Ok(Service { cipher, driver, is_hardware, alignment, is_asynchronous, takes_any })
}

/// Starts a session; retries while other processes that probe the device hold its sessions for a
/// moment.
fn start_between_others(device: &Device, cipher: Cipher, key: &[u8]) -> io::Result<SessionId> {
    let until = Instant::now() + LONGEST_LOOK;
    loop {
        match device.start_session(cipher, key) {
            Err(error)
                if (has_no_room(&error) || is_interrupted(&error)) && Instant::now() < until =>
            {
                thread::sleep(BETWEEN_LOOKS);
            }
            started => return started,
        }
    }
}

fn has_no_room(error: &io::Error) -> bool {
    let codes = [libc::ENOSPC, libc::ENOMEM, libc::EBUSY, libc::EAGAIN];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// A key without equal parts, which some drivers refuse.
fn trial_key(cipher: Cipher) -> Vec<u8> {
    (1..).take(cipher.key_length()).collect()
}

/// Time limit and interval of the retries for a session.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Time limit of the wait for other processes that probe: some hundreds take more than half a
/// minute on a busy device.
const LONGEST_TURN: Duration = Duration::from_secs(120);

/// The reason why there is no device, and what to do.
pub(super) fn absence(error: &io::Error) -> String {
    let words = shown_error(error);
    match error.kind() {
        io::ErrorKind::NotFound => {
            format!("there is no {PATH}: load the kernel module cryptodev of cryptodev-linux")
        }
        io::ErrorKind::PermissionDenied => format!(
            "this process may not open {PATH} ({words}): change its permissions, or run as a \
             user who may"
        ),
        _ => format!("{PATH} could not be opened: {words}"),
    }
}

/// The reason why a session could not be started.
pub(super) fn refusal(error: &io::Error) -> String {
    let words = shown_error(error);
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::ENOMEM | libc::EBUSY | libc::EAGAIN | libc::EMFILE) => {
            format!("{PATH} has no room for another session ({words}): use fewer workers")
        }
        Some(libc::ENOTTY) => format!("{PATH} is not a crypto device ({words})"),
        Some(libc::EINVAL | libc::ENOENT) => {
            format!("{PATH} does not perform the cipher ({words})")
        }
        _ => format!("{PATH} refused a session: {words}"),
    }
}

/// The alignment of data for every driver, in bytes: a cache line, the most that any of the
/// kernel's drivers needs.
const SAFE_ALIGNMENT: usize = 128;

/// Two of the longest blocks, in bytes.
const TRIAL_LENGTH: usize = 32;

/// The drivers of the ciphers, each once, marked as hardware or software.
pub(super) struct Drivers<'a>(pub(super) &'a [Service]);

impl fmt::Display for Drivers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named: Vec<&str> = Vec::new();
        for Service { driver, is_hardware, .. } in self.0 {
            if !named.contains(&driver.as_str()) {
                let comma = if named.is_empty() { "" } else { ", " };
                write!(f, "{comma}{driver} ({})", nature(*is_hardware))?;
                named.push(driver);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(driver: &str, is_kernel_only: bool, alignment: usize) -> SessionFacts {
        SessionFacts { driver: driver.to_owned(), is_kernel_only, alignment }
    }

    #[test]
    fn a_session_that_another_driver_serves_is_refused_unless_any_will_do() {
        let found = Service {
            cipher: Cipher::Aes128Cbc,
            driver: "virtio_crypto_aes_cbc".to_owned(),
            is_hardware: true,
            alignment: 16,
            is_asynchronous: false,
            takes_any: false,
        };
        assert_eq!(check_session(&found, &facts("virtio_crypto_aes_cbc", false, 16)), Ok(()));
        let software = facts("cbc(aes-generic)", false, 1);
        let words = check_session(&found, &software).unwrap_err();
        assert!(words.contains("served by virtio_crypto_aes_cbc (hardware)"), "{words}");
        assert!(words.contains("cbc(aes-generic) (software)"), "{words}");
        // Another device may have other rules than the probed one.
        assert!(check_session(&found, &facts("cbc-aes-caam", true, 1)).is_err());
        let any = Service { takes_any: true, alignment: 128, ..found };
        assert_eq!(check_session(&any, &software), Ok(()));
        assert!(check_session(&any, &facts("cbc-aes-caam", true, 4096)).is_err());
    }
}
