//! Child processes and their descendants.

use std::fs;
use std::io;
use std::process::{Child, Command};
use std::thread;

use evener_cli::limits::with_first_limit;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::iterator::Signals as Arriving;

use super::Signals;

impl Signals {
    /// Starts a program that this one waits for. A signal that ends this one meanwhile, or stops its
    /// work, also ends the child and all that it has started.
    ///
    /// They stay in this program's process group, so they can ask for something on the terminal.
    pub(crate) fn with_child<T>(
        &self,
        command: &mut Command,
        wait: impl FnOnce(&mut Child) -> T,
    ) -> io::Result<T> {
        let mut arriving = Arriving::new(&self.gentle)?;
        let handle = arriving.handle();
        let has_begun = !self.ends_at_once();
        self.end_at_once(false);
        let waited = with_first_limit(|| command.spawn()).map(|mut child| {
            let (process, farewell) = (Pid::from_child(&child), self.farewell.clone());
            let watch = move || {
                let is_in_time = arriving.forever().next().is_some();
                if is_in_time {
                    end_family(process);
                }
                // The terminal's signal may have ended the child so soon that this thread was told
                // to end before it had looked.
                if !has_begun && (is_in_time || arriving.pending().next().is_some()) {
                    farewell.end();
                }
            };
            let watch = thread::Builder::new().name("signals".to_owned()).spawn(watch);
            // Without the thread the child is left behind, and this program ends.
            self.end_at_once(watch.is_err() && !has_begun);
            let result = wait(&mut child);
            handle.close();
            if let Ok(watch) = watch {
                let _ = watch.join();
            }
            result
        });
        self.end_at_once(!has_begun);
        waited
    }
}

/// Asks a process and its descendants to end, the eldest first: a shell must not go on to its next
/// command. Each is stopped before its children are listed, so that it starts no more.
fn end_family(process: Pid) {
    let mut family = vec![process];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        let _ = kill_process(parent, Signal::STOP);
        family.extend(children(parent));
        next += 1;
    }
    for process in family {
        let _ = kill_process(process, Signal::TERM);
        let _ = kill_process(process, Signal::CONT);
    }
}

/// The children of a process that have not ended, as far as /proc shows.
fn children(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero();
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers = |list: String| -> Vec<i32> {
        list.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    };
    lists.flat_map(numbers).filter_map(Pid::from_raw).collect()
}
