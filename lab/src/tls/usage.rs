//! The CPU time of other processes, from the kernel.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

use crate::LabError;

/// The CPU time of all threads of a process: in nanoseconds if the kernel counts them, otherwise in
/// ticks. The time in nanoseconds excludes threads that have ended.
///
/// # Errors
/// When the process is gone.
pub(super) fn cpu_time(process: u32) -> Result<Duration, LabError> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let time = |thread: fs::DirEntry| {
        of_schedstat(&fs::read_to_string(thread.path().join("schedstat")).ok()?)
    };
    let times: Vec<_> = threads.filter_map(time).collect();
    if !times.is_empty() {
        return Ok(times.iter().sum());
    }
    let gone = || LabError::Unavailable(format!("process {process} of nginx is gone"));
    let stat = read(process, "stat").map_err(|_| gone())?;
    Stat::parse(&stat).map(|stat| stat.time(clock_ticks_per_second())).ok_or_else(gone)
}

/// The child processes of `parent`, by number.
pub(super) fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |process: &u32| {
        let stat = read(*process, "stat").ok();
        stat.as_deref().and_then(Stat::parse).is_some_and(|stat| stat.parent == parent)
    };
    let mut children: Vec<u32> = processes.filter(is_child).collect();
    children.sort_unstable();
    children
}

fn read(process: u32, file: &str) -> std::io::Result<String> {
    // A process's name may contain any bytes.
    let path = PathBuf::from(format!("/proc/{process}/{file}"));
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// The first number is the time on a CPU in nanoseconds; it is 0 only if the kernel does not count
/// it.
fn of_schedstat(text: &str) -> Option<Duration> {
    let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
    (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
}

/// The needed part of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// Time in user mode and in the kernel.
    ticks: u64,
}

impl Stat {
    /// The name, in parentheses, may itself contain spaces and parentheses.
    fn parse(text: &str) -> Option<Stat> {
        let (_, after_name) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let parent = u32::try_from(number(1)?).ok()?;
        Some(Stat { parent, ticks: number(11)?.checked_add(number(12)?)? })
    }

    fn time(&self, ticks_per_second: u64) -> Duration {
        Duration::from_secs_f64(self.ticks as f64 / ticks_per_second as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        let line =
            "31081 (nginx: (x) 9) S 31080 31080 31080 0 -1 4194368 1 2 3 4 250 50 5 6 20 0 1 0";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat, Stat { parent: 31080, ticks: 300 });
        assert_eq!(stat.time(100), Duration::from_secs(3));
        for wrong in ["", "1 (x", "1 (x) S", "1 (x) S 1 2 3 4 5 6 7 8 9 10 a b", "1 (x) S -1"] {
            assert_eq!(Stat::parse(wrong), None, "{wrong}");
        }
        assert_eq!(of_schedstat("130533332 1229158 57\n"), Some(Duration::from_nanos(130_533_332)));
        for wrong in ["", "x 1 2", "0 0 0\n", "-1 0 0"] {
            assert_eq!(of_schedstat(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_child_is_found_and_has_used_the_processor() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(children(std::process::id()).contains(&child.id()));
        assert!(cpu_time(std::process::id()).unwrap() > Duration::ZERO);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!children(std::process::id()).contains(&child.id()));
        assert!(cpu_time(child.id()).is_err());
    }
}
