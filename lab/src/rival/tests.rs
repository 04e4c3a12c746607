use std::collections::VecDeque;
use std::time::Duration;

use evener_pipeline::Load;
use evener_pipeline::costs::Costs;
use evener_pipeline::scheduler::{Call, Scheduler, Turn};

use super::*;

#[test]
fn names_are_read_and_written() {
    for &rival in Rival::ALL {
        assert_eq!(rival.to_string().parse(), Ok(rival));
    }
    let own = Rival::ALL.iter().filter(|rival| matches!(rival, Rival::Own(_)));
    assert_eq!(own.count(), PolicyName::ALL.len());
    assert!("fifo".parse::<Rival>().is_err());
}

const NOW: Duration = Duration::ZERO;

/// A scheduler of tasks 0 to 9 for a CPU worker and a module's, and the calls that start them.
fn scheduler(policy: Rival) -> (Scheduler<u32>, Vec<Call>) {
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

/// Lets a worker work alone and says how many tasks it got.
fn alone(scheduler: &mut Scheduler<u32>, worker: usize) -> usize {
    let claims = std::iter::from_fn(|| turn(scheduler, worker).filter(|tasks| !tasks.is_empty()));
    claims.map(|tasks| tasks.len()).sum()
}

#[test]
fn one_kind_has_the_queue_for_itself() {
    for (policy, worker) in [(Rival::CpuOnly, 0), (Rival::ModuleOnly, 1)] {
        let (mut scheduler, calls) = scheduler(policy);
        assert_eq!(calls, [Call::Start(worker)]);
        scheduler.close(NOW);
        assert_eq!(alone(&mut scheduler, worker), 10);
        assert!(scheduler.is_over() && !scheduler.is_stopped());
    }
}

#[test]
fn round_robin_deals_equal_shares() {
    let (mut scheduler, calls) = scheduler(Rival::RoundRobin);
    assert_eq!(calls, [Call::Start(0), Call::Start(1)]);
    scheduler.close(NOW);
    assert_eq!(turn(&mut scheduler, 1), Some(vec![0]));
    assert_eq!(alone(&mut scheduler, 0), 5);
    assert_eq!(alone(&mut scheduler, 1), 4);
    assert_eq!(scheduler.calls().collect::<Vec<_>>(), [Call::Wake(0)]);
    assert_eq!(turn(&mut scheduler, 0), None);
}

#[test]
fn round_robin_deals_the_share_of_a_failed_worker_again() {
    let (mut scheduler, _) = scheduler(Rival::RoundRobin);
    scheduler.close(NOW);
    let tasks = turn(&mut scheduler, 1).unwrap();
    assert_eq!(alone(&mut scheduler, 0), 5);
    scheduler.leave(1, tasks.into_iter().map(|task| (task, Load::job(100))), NOW);
    assert_eq!(scheduler.calls().collect::<Vec<_>>(), [Call::Wake(0)]);
    assert_eq!(alone(&mut scheduler, 0), 5);
    assert!(scheduler.is_over() && !scheduler.is_deserted());
}

#[test]
fn shared_tasks_belong_to_whoever_is_free() {
    let (mut scheduler, _) = scheduler(Rival::RoundRobin);
    assert_eq!(turn(&mut scheduler, 0), Some(vec![0]));
    assert_eq!(alone(&mut scheduler, 1), 5);
    scheduler.share(99, Load::job(100), NOW);
    assert_eq!(scheduler.calls().collect::<Vec<_>>(), [Call::Wake(1)]);
    assert_eq!(turn(&mut scheduler, 1), Some(vec![99]));
}
