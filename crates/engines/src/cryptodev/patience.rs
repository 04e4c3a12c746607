//! Retries with backoff while the device is too busy for a request.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// The state of the retries of one request.
pub(super) struct Patience {
    wait: Duration,
    give_up: Option<Instant>,
}

impl Patience {
    pub(super) fn new() -> Patience {
        Patience { wait: SHORTEST_WAIT, give_up: None }
    }

    /// Returns when the request should be retried, after growing intervals: the device is busy, or
    /// a signal interrupted it.
    ///
    /// # Errors
    /// The same error, if it has another cause or the retries have lasted too long.
    pub(super) fn after(&mut self, error: io::Error) -> io::Result<()> {
        if !is_busy(&error) && !is_interrupted(&error) {
            return Err(error);
        }
        let give_up = *self.give_up.get_or_insert_with(|| Instant::now() + LIMIT);
        if Instant::now() >= give_up {
            return Err(error);
        }
        self.pause();
        Ok(())
    }

    /// Waits a little longer than the last time.
    pub(super) fn pause(&mut self) {
        thread::sleep(self.wait);
        self.wait = LONGEST_WAIT.min(self.wait * 2);
    }
}

/// Returns whether a signal ended the request. A broken driver may always report that.
pub(super) fn is_interrupted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}

/// Returns whether the device has no slot for a request now, or no result yet.
pub(super) fn is_busy(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY))
}

/// Retries a request while the device is too busy.
pub(super) fn patiently<T>(mut request: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut patience = Patience::new();
    loop {
        match request() {
            Err(error) => patience.after(error)?,
            done => return done,
        }
    }
}

const SHORTEST_WAIT: Duration = Duration::from_micros(50);
const LONGEST_WAIT: Duration = Duration::from_millis(5);

/// After this time a busy device counts as failed.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_devices_are_asked_again() {
        let mut answers = [libc::EAGAIN, libc::EINTR, libc::EBUSY, libc::EINVAL].into_iter();
        let result = patiently(|| match answers.next() {
            Some(error) => Err::<(), _>(io::Error::from_raw_os_error(error)),
            None => Ok(()),
        });
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(answers.next(), None);
    }

    #[test]
    fn a_device_that_is_always_interrupted_is_asked_ever_more_rarely() {
        let until = Instant::now() + LONGEST_WAIT * 10;
        let mut requests = 0;
        let result: io::Result<()> = patiently(|| {
            requests += 1;
            let is_over = Instant::now() >= until;
            Err(io::Error::from_raw_os_error(if is_over { libc::EIO } else { libc::EINTR }))
        });
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EIO));
        assert!(requests <= 20, "{requests} requests in 50 ms");
    }
}
