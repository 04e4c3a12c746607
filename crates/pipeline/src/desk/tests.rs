use evener_core::Kind;

use super::*;
use crate::policy::{PolicyName, Seat, Setting};

const NOW: Duration = Duration::ZERO;

/// A desk of tasks 0 to 9 for a CPU worker and a module's, and who was started.
fn desk(policy: PolicyName) -> (Desk<u32>, Vec<Call>) {
    let seat = |kind| Seat { engine: kind_name(kind), kind, batch: 1 };
    let seats = [seat(Kind::Cpu), seat(Kind::Module)];
    let setting = Setting { cores: 1, costs: Costs::default() };
    let mut desk = Desk::new(policy.policy(&seats, &setting), seats.len());
    for task in 0..10 {
        desk.fill(task, Load::job(100));
    }
    desk.open(NOW);
    let calls = desk.calls().collect();
    (desk, calls)
}

fn kind_name(kind: Kind) -> String {
    format!("{kind:?}")
}

/// The tasks that a worker gets next; `None` when it is told to leave.
fn turn(desk: &mut Desk<u32>, worker: usize) -> Option<Vec<u32>> {
    let mut claim = VecDeque::new();
    match desk.turn(worker, None, &mut claim, NOW) {
        Turn::Leave => None,
        Turn::Wait(_) => Some(Vec::new()),
        Turn::Work { .. } => Some(claim.into()),
    }
}

/// Lets a worker work alone and says how many tasks it got.
fn alone(desk: &mut Desk<u32>, worker: usize) -> usize {
    let claims = std::iter::from_fn(|| turn(desk, worker).filter(|tasks| !tasks.is_empty()));
    claims.map(|tasks| tasks.len()).sum()
}

#[test]
fn one_kind_has_the_queue_for_itself() {
    for (policy, worker) in [(PolicyName::CpuOnly, 0), (PolicyName::ModuleOnly, 1)] {
        let (mut desk, calls) = desk(policy);
        assert_eq!(calls, [Call::Start(worker)]);
        desk.close(NOW);
        assert_eq!(alone(&mut desk, worker), 10);
        assert!(desk.is_over() && !desk.is_stopped());
    }
}

#[test]
fn round_robin_deals_equal_shares() {
    let (mut desk, calls) = desk(PolicyName::RoundRobin);
    assert_eq!(calls, [Call::Start(0), Call::Start(1)]);
    desk.close(NOW);
    assert_eq!(turn(&mut desk, 1), Some(vec![0]));
    assert_eq!(alone(&mut desk, 0), 5);
    assert_eq!(alone(&mut desk, 1), 4);
    assert_eq!(desk.calls().collect::<Vec<_>>(), [Call::Wake(0)]);
    assert_eq!(turn(&mut desk, 0), None);
}

#[test]
fn round_robin_deals_the_share_of_a_failed_worker_again() {
    let (mut desk, _) = desk(PolicyName::RoundRobin);
    desk.close(NOW);
    let tasks = turn(&mut desk, 1).unwrap();
    assert_eq!(alone(&mut desk, 0), 5);
    desk.leave(1, tasks.into_iter().map(|task| (task, Load::job(100))), NOW);
    assert_eq!(desk.calls().collect::<Vec<_>>(), [Call::Wake(0)]);
    assert_eq!(alone(&mut desk, 0), 5);
    assert!(desk.is_over() && !desk.is_deserted());
}

#[test]
fn shared_tasks_belong_to_whoever_is_free() {
    let (mut desk, _) = desk(PolicyName::RoundRobin);
    assert_eq!(turn(&mut desk, 0), Some(vec![0]));
    assert_eq!(alone(&mut desk, 1), 5);
    desk.share(99, Load::job(100), NOW);
    assert_eq!(desk.calls().collect::<Vec<_>>(), [Call::Wake(1)]);
    assert_eq!(turn(&mut desk, 1), Some(vec![99]));
}

#[test]
fn a_dispatcher_hands_tasks_to_those_who_wait() {
    let (mut desk, _) = desk(PolicyName::Polling);
    assert_eq!(turn(&mut desk, 0), Some(vec![]));
    assert!(desk.dispatch(0, NOW) && !desk.dispatch(0, NOW) && !desk.dispatch(1, NOW));
    assert_eq!(desk.calls().collect::<Vec<_>>(), [Call::Wake(0)]);
    assert_eq!(turn(&mut desk, 0), Some(vec![0]));
    assert_eq!(turn(&mut desk, 0), Some(vec![]));
    assert!(desk.dispatch(0, NOW));
    assert_eq!(turn(&mut desk, 0), Some(vec![1]));
}

#[test]
fn when_all_have_left_the_run_is_over_and_the_tasks_stay() {
    let (mut desk, _) = desk(PolicyName::Pull);
    for worker in 0..2 {
        let tasks = turn(&mut desk, worker).unwrap();
        desk.leave(worker, tasks.into_iter().map(|task| (task, Load::job(100))), NOW);
    }
    assert!(desk.is_deserted() && desk.is_over());
    assert_eq!(desk.into_tasks().len(), 10);
}
