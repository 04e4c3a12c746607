//! Waiting for a module.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Waits for a message, at most this long. While the process is stopped (Ctrl-Z, `SIGSTOP`, a frozen
/// control group) the module can't answer, so of that time at most a sixteenth of the limit counts, each
/// time.
///
/// # Errors
/// Those of [`Receiver::recv_timeout`].
pub(crate) fn receive<T>(messages: &Receiver<T>, limit: Duration) -> Result<T, RecvTimeoutError> {
    let part = limit / PARTS;
    for _ in 1..PARTS {
        match messages.recv_timeout(part) {
            // However long it has really been.
            Err(RecvTimeoutError::Timeout) => {}
            result => return result,
        }
    }
    messages.recv_timeout(part)
}

/// In how many parts the time is counted.
const PARTS: u32 = 16;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn it_waits_as_long_as_it_may_and_no_longer_than_it_must() {
        let (send, messages) = sync_channel(1);
        let limit = Duration::from_millis(160);
        let begun = Instant::now();
        assert_eq!(receive::<u8>(&messages, limit), Err(RecvTimeoutError::Timeout));
        assert!(begun.elapsed() >= limit);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(300));
                send.send(7).unwrap();
            });
            assert_eq!(receive(&messages, Duration::from_secs(600)), Ok(7));
        });
        drop(send);
        let begun = Instant::now();
        let longest = Duration::from_secs(600);
        assert_eq!(receive(&messages, longest), Err(RecvTimeoutError::Disconnected));
        assert!(begun.elapsed() < longest / 2);
    }
}
