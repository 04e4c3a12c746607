//! Waits for a child and measures its peak memory.

use std::fs;
use std::io;
use std::process::{Child, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Waits for `child` and returns its exit status and its peak resident set in KiB, read from the
/// kernel every 2 ms while the child runs; 0 if it ended before the first reading.
///
/// `wait4` reports a peak too, but its figure is at least the resident set of this process: the
/// kernel counts the child's memory between fork and exec.
///
/// # Errors
/// Those of `pidfd_open`, `poll` and `waitpid`.
pub(crate) fn wait_with_peak(mut child: Child) -> io::Result<(ExitStatus, u64)> {
    let id = child.id();
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let mut peak = 0;
    loop {
        peak = peak.max(high_water_mark(id));
        match poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&INTERVAL)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok((child.wait()?, peak)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A process's peak resident set in KiB; 0 if it has ended.
fn high_water_mark(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")).map(str::parse);
    number.and_then(Result::ok).unwrap_or(0)
}

const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn status_and_peak_are_the_childs() {
        // More memory than the child takes.
        let own = std::hint::black_box(vec![1_u8; 200 << 20]);
        let script = "text=$(head -c 20000000 /dev/zero | tr '\\0' x); sleep 0.1; exit 3";
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let (status, peak) = wait_with_peak(child).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!((20_000..150_000).contains(&peak), "{peak} KiB beside {}", own.len());
    }
}
