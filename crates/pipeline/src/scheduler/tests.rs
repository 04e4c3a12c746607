use evener_core::Kind;

use super::*;
use crate::costs::Costs;
use crate::policy::{MakePolicy, PolicyName, Seat, Setting};

const NOW: Duration = Duration::ZERO;

/// A scheduler of tasks 0 to 9 for a CPU worker and a module's, and the calls that start them.
fn scheduler(policy: PolicyName) -> (Scheduler<u32>, Vec<Call>) {
    let seat = |kind| Seat { engine: kind_name(kind), kind, batch: 1, bytes: 0, opening: None };
    let seats = [seat(Kind::Cpu), seat(Kind::Module)];
    let setting = Setting { cores: 1, costs: Costs::default() };
    let mut scheduler = Scheduler::new(policy.policy(&seats, &setting), &seats, None);
    for task in 0..10 {
        scheduler.fill(task, Load::job(100));
    }
    scheduler.open(NOW);
    let calls = scheduler.calls().collect();
    (scheduler, calls)
}

fn kind_name(kind: Kind) -> String {
    format!("{kind:?}")
}

/// The tasks that a worker gets next; `None` when it is told to leave.
fn turn(scheduler: &mut Scheduler<u32>, worker: usize) -> Option<Vec<u32>> {
    let mut claim = VecDeque::new();
    match scheduler.turn(worker, None, &mut claim, NOW) {
        Turn::Leave => None,
        Turn::Wait(_) => Some(Vec::new()),
        Turn::Work { .. } => Some(claim.into()),
    }
}

#[test]
fn a_module_that_opens_slowly_starts_only_where_cores_have_work_for_so_long() {
    let seat = |kind, opening| Seat { engine: kind_name(kind), kind, batch: 1, bytes: 0, opening };
    let seats = [seat(Kind::Cpu, None), seat(Kind::Module, Some(Duration::from_secs(3)))];
    let setting = Setting { cores: 1, costs: Costs::default() };
    let started = |seats: &[Seat]| {
        let mut scheduler = Scheduler::new(PolicyName::Pull.policy(seats, &setting), seats, None);
        scheduler.open(NOW);
        (0..10).for_each(|task| scheduler.push(task, Load::job(100), NOW));
        scheduler.calls().collect::<Vec<_>>()
    };
    assert_eq!(started(&seats), [Call::Start(0)]);
    // There is no other worker.
    assert_eq!(started(&seats[1..]), [Call::Start(0)]);
}

#[test]
fn when_all_have_left_the_run_is_over_and_the_tasks_stay() {
    let (mut scheduler, _) = scheduler(PolicyName::Pull);
    for worker in 0..2 {
        let tasks = turn(&mut scheduler, worker).unwrap();
        scheduler.leave(worker, tasks.into_iter().map(|task| (task, Load::job(100))), NOW);
    }
    assert!(scheduler.is_deserted() && scheduler.is_over());
    assert_eq!(scheduler.into_tasks().len(), 10);
}

#[test]
fn a_module_of_which_nothing_is_known_gets_one_job() {
    let (mut scheduler, _) = scheduler(PolicyName::Pull);
    // A task is as many jobs as its number has units here.
    let split = |task: &mut u32, jobs: u64| {
        let rest = task.checked_sub(jobs as u32).filter(|rest| *rest > 0)?;
        *task = jobs as u32;
        Some(rest)
    };
    scheduler.divide(split, |task| Load::jobs(u64::from(*task), 100));
    scheduler.share(7, Load::jobs(7, 100), NOW);
    assert_eq!(turn(&mut scheduler, 1), Some(vec![1]));
    assert_eq!(turn(&mut scheduler, 0), Some(vec![6]));
}

#[test]
fn workers_share_out_what_is_left_at_the_end() {
    let seat = Seat { engine: "cpu".into(), kind: Kind::Cpu, batch: 1, bytes: 0, opening: None };
    let seats = [(); 4].map(|()| seat.clone());
    let setting = Setting { cores: 4, costs: Costs::default() };
    let mut scheduler = Scheduler::new(PolicyName::Pull.policy(&seats, &setting), &seats, None);
    scheduler.divide(
        |task: &mut u32, jobs| {
            let rest = task.checked_sub(jobs as u32).filter(|rest| *rest > 0)?;
            *task = jobs as u32;
            Some(rest)
        },
        |task| Load::unknown(u64::from(*task)),
    );
    scheduler.fill(32, Load::unknown(32));
    scheduler.open(NOW);
    assert_eq!(turn(&mut scheduler, 0), Some(vec![32]), "more may come");
    scheduler.share(32, Load::unknown(32), NOW);
    // The others find nothing to do, and wait.
    for worker in 1..4 {
        let first = turn(&mut scheduler, worker);
        assert_eq!(first, Some(if worker == 1 { vec![32] } else { vec![] }));
    }
    scheduler.share(30, Load::unknown(30), NOW);
    scheduler.close(NOW);
    scheduler.calls().for_each(drop);
    assert_eq!(turn(&mut scheduler, 1), Some(vec![8]));
    let woken: Vec<_> = scheduler.calls().collect();
    assert_eq!(woken.len(), 0, "{woken:?}");
    assert_eq!(turn(&mut scheduler, 2), Some(vec![6]));
    assert_eq!(turn(&mut scheduler, 3), Some(vec![4]));
    assert_eq!(turn(&mut scheduler, 0), Some(vec![3]));
}

/// The time of tasks of unknown size tells nothing about other tasks.
#[test]
fn a_module_that_hangs_with_its_first_long_task_loses_it() {
    let ms = Duration::from_millis;
    let seat = |kind| Seat { engine: kind_name(kind), kind, batch: 1, bytes: 0, opening: None };
    let seats = [seat(Kind::Cpu), seat(Kind::Module)];
    let setting = Setting { cores: 1, costs: Costs::default() };
    let mut scheduler = Scheduler::new(PolicyName::Pull.policy(&seats, &setting), &seats, None);
    for task in 0..6 {
        scheduler.fill(task, Load::unknown(1));
    }
    scheduler.open(NOW);
    let mut claim = VecDeque::new();
    let performed = Performed { wall: ms(1), done: (1, 4096), ..Performed::default() };
    for round in 0..3 {
        for worker in [0, 1] {
            let performed = (round > 0).then_some(&performed);
            let turn = scheduler.turn(worker, performed, &mut claim, ms(round));
            assert!(matches!(turn, Turn::Work { .. }), "{turn:?}");
        }
    }
    scheduler.share(6, Load::job(1 << 20), ms(3));
    claim.clear();
    scheduler.turn(1, Some(&performed), &mut claim, ms(3));
    assert_eq!(claim, [6]);
    scheduler.close(ms(3));
    assert!(matches!(
        scheduler.turn(0, Some(&performed), &mut claim, ms(3)),
        Turn::Wait(Some(time)) if time <= ms(10)
    ));
    scheduler.turn(0, None, &mut claim, ms(20));
    assert!(scheduler.calls().any(|call| call == Call::Recall(1)));
}
