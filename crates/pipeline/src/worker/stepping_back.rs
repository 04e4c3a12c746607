//! CPU workers at low priority, so that threads of modules run first.
//!
//! A thread without privileges can raise its nice value and never lower it again. So claims at low
//! priority are performed on a second thread, which has the high nice value for its whole life. The
//! worker's own thread waits meanwhile, and then continues.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;

use super::{End, Manner};
use crate::priority;
use crate::queue::Claimed;
use crate::run::{Run, Work};
use crate::{Queue, WorkerStatistics};

impl<W: Work> Run<'_, W> {
    /// Continues with a claim on a thread at low priority, until a claim is at normal priority
    /// again. `None` if no such thread could be started.
    pub(super) fn step_back(
        &self,
        number: usize,
        claimed: Claimed,
        tasks: &mut VecDeque<W::Task>,
        queue: &Queue<'_, W::Task>,
    ) -> Option<(WorkerStatistics, End)> {
        let (sender, calls) = mpsc::channel();
        thread::scope(|scope| {
            let work = move || {
                priority::yield_to_modules();
                // Threads that it starts would inherit the low priority.
                let start = |worker| _ = sender.send(worker);
                let queue = Queue { inner: &self.inner, start: &start };
                let mut shift = self.shift(number, Manner::Yielding);
                let end = shift.work(self, Some(claimed), tasks, &queue);
                (shift.into_statistics(), end)
            };
            let thread = thread::Builder::new().spawn_scoped(scope, work).ok()?;
            calls.iter().for_each(|worker| (queue.start)(worker));
            Some(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::{Arc, Mutex};

    use std::time::Duration;

    use evener_core::{Cipher, Direction, Engine, EngineError};

    use super::*;
    use crate::policy::{Claim, Decision, Policy, PolicyName, YIELDING_NICE};
    use crate::queue::Inner;
    use crate::run::tests::copier;
    use crate::{Returned, RunOptions, Waiting, Worker};

    /// Everybody pulls, and yields for every second five tasks.
    struct ByFives;

    impl Policy for ByFives {
        fn next(&self, _: usize, waiting: &Waiting, _: Duration) -> Decision {
            Decision::Claim(Claim { yields: waiting.tasks / 5 % 2 == 1, ..Claim::ONE })
        }
    }

    /// Remembers each task with the nice value of the thread that performed it, and fails one.
    struct Record {
        performed: Mutex<Vec<(usize, i32)>>,
        fails: usize,
    }

    impl Work for Record {
        type Task = usize;
        type Bench = ();

        fn bench(&self) {}

        fn perform(
            &self,
            task: usize,
            (): &mut (),
            worker: &mut Worker<'_>,
            _: &Queue<usize>,
        ) -> Result<(), Returned<usize>> {
            if task == self.fails {
                let cause = EngineError::Failed { engine: "copier".into(), reason: "".into() };
                return Err(Returned { task, cause });
            }
            self.performed.lock().unwrap().push((task, nice()));
            worker.count_units(1);
            Ok(())
        }

        fn abandon(&self, _: usize, _: Option<&EngineError>) {}
    }

    fn nice() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    /// Has one worker perform thirty tasks, of which the first is number 30.
    fn perform(fails: usize) -> (Vec<(usize, i32)>, WorkerStatistics, usize) {
        let record = Record { performed: Mutex::default(), fails };
        let seats: [Arc<dyn Engine>; 1] = [copier("a", usize::MAX)];
        let (cipher, direction) = (Cipher::Aes128Ecb, Direction::Encrypt);
        let options = RunOptions::new(PolicyName::Pull, cipher, direction, 1);
        let mut run = Run::new(&seats, &options, &record);
        run.inner = Inner::new(Box::new(ByFives), 1, 1, Record::load);
        run.inner.fill((1..=30).rev());
        run.inner.begin(std::time::Instant::now());
        let mut tasks = VecDeque::new();
        let queue = Queue { inner: &run.inner, start: &|_| {} };
        queue.open();
        queue.close();
        let ended = run.work_as(0, None, &mut tasks, &queue);
        let given_back = tasks.len();
        (record.performed.into_inner().unwrap(), ended.statistics, given_back)
    }

    #[test]
    fn a_worker_steps_back_and_forward_again() {
        let usual = nice();
        let (performed, statistics, given_back) = perform(0);
        let wanted = |task: usize| if task / 5 % 2 == 1 { usual.max(YIELDING_NICE) } else { usual };
        let all: Vec<_> = (1..=30).rev().map(|task| (task, wanted(task))).collect();
        assert_eq!(performed, all);
        assert_eq!((statistics.units, statistics.retired, given_back), (30, None, 0));
        assert_eq!(nice(), usual);
    }

    #[test]
    fn a_worker_whose_engine_fails_meanwhile_gives_its_task_back() {
        for fails in [7, 22] {
            let (performed, statistics, given_back) = perform(fails);
            assert_eq!((performed.len(), statistics.units), (30 - fails, 30 - fails as u64));
            assert!(statistics.retired.is_some() && given_back == 1, "{statistics:?}");
        }
    }
}
