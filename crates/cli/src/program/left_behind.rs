//! Reports calls into drivers that still hang when the program ends.
//!
//! A thread that hangs in a module's own code ends with the process. A thread that hangs inside the
//! kernel, in a driver that waits for its device, does not: the process stays as a zombie until the
//! driver answers, and so do processes that wait for it. The program can only report that. (A
//! driver may also block when its device is closed, which is too late for a report.)

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use rustix::fs::Dir;

use crate::messages::complain;
use crate::witness;

/// Prints a message if an abandoned thread keeps the process from ending.
pub(crate) fn tell() {
    // A thread may be in the kernel for a moment; a hanging thread is still there later, without
    // progress.
    let before = stuck_threads();
    if !before.is_empty() {
        thread::sleep(A_MOMENT);
        let stuck = stuck_threads().intersection(&before).count();
        if stuck > 0 {
            let threads = if stuck == 1 { "a thread hangs" } else { "several threads hang" };
            let remains = match witness::is_there() {
                true => "a process of this program can't end until the driver answers",
                false => {
                    "this process can't end until the driver answers, nor can what waits for its \
                     end go on"
                }
            };
            complain(&format_args!(
                "{threads} inside the kernel, in the driver of an engine that was given up; {remains}"
            ));
        }
    }
}

/// The module threads that can't be ended: the ID and the `schedstat` of each.
fn stuck_threads() -> HashSet<(String, String)> {
    // The directory has a link for each thread plus two. Usually this shows at once that only the
    // program's own two threads exist.
    if fs::metadata(TASKS).is_ok_and(|tasks| tasks.nlink() <= 2 + OWN_THREADS) {
        return HashSet::new();
    }
    // The standard library's directories panic if closing one fails.
    let opened = fs::File::open(TASKS).and_then(|tasks| Ok(Dir::read_from(tasks)?));
    let Ok(tasks) = opened else { return HashSet::new() };
    let stuck = tasks.flatten().filter_map(|task| {
        let name = task.file_name().to_str().ok()?;
        let read = |file| fs::read_to_string(format!("{TASKS}/{name}/{file}")).ok();
        let is_stuck = is_stuck(&read("stat")?);
        Some((name.to_owned(), read("schedstat").unwrap_or_default())).filter(|_| is_stuck)
    });
    stuck.collect()
}

/// Reads proc(5)'s `stat`: the ID of a task, its name in parentheses, and its state, which is D if
/// no signal can end its sleep.
fn is_stuck(stat: &str) -> bool {
    let Some((start, rest)) = stat.rsplit_once(')') else { return false };
    let name = start.split_once('(').map_or("", |(_, name)| name);
    NAMES.contains(&name) && rest.trim_start().starts_with('D')
}

const TASKS: &str = "/proc/self/task";

/// The names of the threads for probing and running modules.
const NAMES: [&str; 2] = ["evener-probe", "evener-module"];

/// The main thread, and the thread that waits for signals.
const OWN_THREADS: u64 = 2;

const A_MOMENT: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_modules_thread_that_no_signal_ends_is_stuck() {
        assert!(is_stuck("4711 (evener-module) D 4000 4711 4000 0 -1"));
        assert!(is_stuck("4711 (evener-probe) D 4000 4711 4000 0 -1"));
        assert!(!is_stuck("4711 (evener-module) S 4000 4711 4000 0 -1"));
        assert!(!is_stuck("4711 (evener) D 4000 4711 4000 0 -1"));
        assert!(!is_stuck("") && !is_stuck("4711 (evener-module)"));
        assert!(stuck_threads().is_empty());
    }
}
