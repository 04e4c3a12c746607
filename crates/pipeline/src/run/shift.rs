//! The loop of one worker, which goes on with another thread while it lets modules go first.
//!
//! A thread without privileges can raise its nice value, and never lower it again; and whether a
//! worker of the processor should let the threads of modules go first changes while it works. So
//! it steps back on a second thread, which has that nice value from its beginning to its end,
//! and goes on with the first one, which waits meanwhile, when that is over.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use evener_core::{EngineError, Kind};

use super::{Ended, Run, Work};
use crate::clock::thread_cpu_time;
use crate::priority;
use crate::queue::Claimed;
use crate::{Queue, Worker, WorkerStatistics};

/// What a thread does for a worker, from one claim on.
struct Shift<'run, W: Work> {
    worker: Worker<'run>,
    bench: W::Bench,
    manner: Manner,
}

/// Which claims a thread performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Those for which the thread is to keep its priority.
    Normal,
    /// Those for which it is to let the threads of modules go first, as it does.
    Yielding,
    /// All.
    Any,
}

/// Why a shift has ended.
enum End {
    /// The run is over for the worker.
    Over,
    /// Its engine has failed.
    Failed(EngineError),
    /// It has claimed tasks that another thread is to perform.
    Relieved(Claimed),
}

impl<W: Work> Run<'_, W> {
    /// Is a worker, until the run is over for it or its engine fails. What is then left of its
    /// claim stays in `tasks`. `callers_cpu` is the CPU time that the thread has used before, if
    /// it is not the worker's own.
    pub(super) fn work_as(
        &self,
        number: usize,
        callers_cpu: Option<Duration>,
        tasks: &mut VecDeque<W::Task>,
        queue: &Queue<'_, W::Task>,
    ) -> Ended {
        let is_cpu = self.seats[number].description().kind == Kind::Cpu;
        // Whoever lets all programs go first lets the threads of modules.
        let is_last = is_cpu && self.options.courtesy.in_background;
        if is_last {
            priority::yield_to_everybody();
        }
        let mut shift = self.shift(number, if is_last { Manner::Any } else { Manner::Normal });
        let mut elsewhere = WorkerStatistics::default();
        let mut claim = None;
        let failure = loop {
            match shift.work(self, claim.take(), tasks, queue) {
                End::Over => break None,
                End::Failed(cause) => break Some(cause),
                End::Relieved(claimed) => match self.step_back(number, claimed, tasks, queue) {
                    Some((statistics, end)) => {
                        elsewhere.add(statistics);
                        match end {
                            End::Over => break None,
                            End::Failed(cause) => break Some(cause),
                            End::Relieved(claimed) => claim = Some(claimed),
                        }
                    }
                    // There is no other thread to be had.
                    None => (shift.manner, claim) = (Manner::Any, Some(claimed)),
                },
            }
        };
        let mut statistics = shift.into_statistics();
        statistics.cpu = statistics.cpu.saturating_sub(callers_cpu.unwrap_or_default());
        statistics.add(elsewhere);
        if let Some(cause) = &failure {
            statistics.retire(cause);
        }
        Ended { statistics, failure }
    }

    fn shift(&self, number: usize, manner: Manner) -> Shift<'_, W> {
        let engine = self.seats[number].as_ref();
        let worker = Worker::new(engine, number)
            .throttled(self.throttle.as_ref())
            .giving_way(self.pressure.as_ref());
        Shift { worker, bench: self.work.bench(), manner }
    }

    /// Goes on with a claim on a thread that lets those of modules go first, until the worker
    /// is to step forward again. `None` where there is no such thread.
    fn step_back(
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
                // The threads that it would start would step back too.
                let start = |worker| _ = sender.send(worker);
                let queue = Queue { hall: &self.hall, start: &start };
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

impl<W: Work> Shift<'_, W> {
    /// Claims and performs, beginning with what is claimed already.
    fn work(
        &mut self,
        run: &Run<'_, W>,
        mut claimed: Option<Claimed>,
        tasks: &mut VecDeque<W::Task>,
        queue: &Queue<'_, W::Task>,
    ) -> End {
        let Shift { worker, bench, manner } = self;
        let mut performed = None;
        let mut ended = run.hall.now();
        loop {
            let next = claimed.take();
            let next =
                next.or_else(|| queue.claim(worker.number(), performed.as_ref(), tasks, ended));
            let Some(claim) = next else { return End::Over };
            if !manner.suits(claim) {
                return End::Relieved(claim);
            }
            let begun = run.hall.now();
            let before = worker.begin(claim.measured);
            let result = run.work.perform_claim(tasks, bench, worker, queue);
            ended = run.hall.now();
            let wall = ended.saturating_sub(begun);
            worker.statistics_mut().busy += wall;
            if let Err(cause) = result {
                return End::Failed(cause);
            }
            performed = Some(worker.performed(wall, before));
        }
    }

    /// What was done, on the thread that has done it.
    fn into_statistics(mut self) -> WorkerStatistics {
        self.worker.statistics_mut().cpu = thread_cpu_time() + self.worker.cpu_elsewhere();
        self.worker.into_statistics()
    }
}

impl Manner {
    fn suits(self, claim: Claimed) -> bool {
        match self {
            Manner::Normal => !claim.yields,
            Manner::Yielding => claim.yields,
            Manner::Any => true,
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::{Arc, Mutex};

    use evener_core::{Cipher, Direction, Engine};

    use super::super::tests::copier;
    use super::*;
    use crate::policy::{Claim, Decision, Policy, PolicyName, YIELDING_NICE};
    use crate::queue::Hall;
    use crate::{Returned, RunOptions, Waiting};

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
        run.hall = Hall::new(Box::new(ByFives), 1, 1, Record::load);
        run.hall.fill((1..=30).rev());
        run.hall.begin(std::time::Instant::now());
        let mut tasks = VecDeque::new();
        let queue = Queue { hall: &run.hall, start: &|_| {} };
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
