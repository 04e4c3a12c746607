//! Calls into drivers that have not come back when the program ends.
//!
//! A thread that hangs in a module's own code ends with the process. One that hangs inside the
//! kernel, in a driver that waits for its device, does not: the process stays as a zombie until
//! the driver answers, and whoever waits for its end waits as long. Nothing here can change that,
//! so it is said. (A driver may also hold the process when its device is closed, which happens
//! after all that the program can say.)

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use rustix::fs::Dir;

use crate::trouble::complain;

/// Says so if a thread that was left behind keeps the process from ending.
pub(crate) fn tell() {
    // A thread may be in the kernel for a moment; one that hangs is there later too.
    if stuck_threads() > 0 {
        thread::sleep(A_MOMENT);
        let stuck = stuck_threads();
        if stuck > 0 {
            let threads = if stuck == 1 { "a thread hangs" } else { "several threads hang" };
            complain(&format_args!(
                "{threads} inside the kernel, in the driver of an engine that was given up; this \
                 process can't end until the driver answers, nor can what waits for its end go on"
            ));
        }
    }
}

/// How many of the threads that work with modules can't be ended.
fn stuck_threads() -> usize {
    // A link for each thread, and the two that every directory has: usually it is known at once
    // that there are none but the program's own two.
    if fs::metadata(TASKS).is_ok_and(|tasks| tasks.nlink() <= 2 + OWN_THREADS) {
        return 0;
    }
    // The standard library's directories panic where closing one fails.
    let opened = fs::File::open(TASKS).and_then(|tasks| Ok(Dir::read_from(tasks)?));
    let Ok(tasks) = opened else { return 0 };
    let states = tasks.flatten().filter_map(|task| {
        let name = task.file_name().to_str().ok()?;
        fs::read_to_string(format!("{TASKS}/{name}/stat")).ok()
    });
    states.filter(|state| is_stuck(state)).count()
}

/// Reads proc(5)'s `stat`: the number of a task, its name in parentheses, and its state, which
/// is D where no signal can end its sleep.
fn is_stuck(stat: &str) -> bool {
    let Some((start, rest)) = stat.rsplit_once(')') else { return false };
    let name = start.split_once('(').map_or("", |(_, name)| name);
    NAMES.contains(&name) && rest.trim_start().starts_with('D')
}

const TASKS: &str = "/proc/self/task";

/// The threads on which modules are looked for and work.
const NAMES: [&str; 2] = ["evener-probe", "evener-module"];

/// The one that works, and the one that waits for signals.
const OWN_THREADS: u64 = 2;

const A_MOMENT: Duration = Duration::from_millis(20);

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
        assert_eq!(stuck_threads(), 0);
    }
}
