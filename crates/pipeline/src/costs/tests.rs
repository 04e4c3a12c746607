use std::time::Duration;

use super::*;

fn processed(jobs: u64, bytes: u64, wall_us: u64, cpu_us: u64) -> Processed {
    Processed {
        batches: 1,
        jobs,
        bytes: jobs * bytes,
        wall: Duration::from_micros(wall_us),
        cpu: Duration::from_micros(cpu_us),
    }
}

#[test]
fn costs_are_learnt_and_lie_on_lines_between_sizes() {
    let mut costs = EngineCosts::new(1);
    assert_eq!(costs.cost(16.0, 1.0), None);
    for _ in 0..3 {
        costs.learn(&processed(1, 100, 10, 10), false);
        costs.learn(&processed(1, 1100, 20, 15), false);
    }
    let cost = |bytes| costs.cost(bytes, 1.0).map(|cost| (cost.wall, cost.cpu, cost.is_firm()));
    assert_eq!(cost(600.0), Some((15.0, 12.5, true)));
    assert_eq!(cost(20.0), Some((10.0, 10.0, false)));
    assert_eq!(cost(11_000.0), Some((200.0, 150.0, false)));
}

#[test]
fn an_outlier_changes_little_and_a_lasting_change_is_believed() {
    let mut costs = EngineCosts::new(1);
    for _ in 0..10 {
        costs.learn(&processed(1, 100, 100, 100), false);
    }
    costs.learn(&processed(1, 100, 100_000, 100), false);
    let wall = |costs: &EngineCosts| costs.cost(100.0, 1.0).unwrap().wall;
    assert!(wall(&costs) < 150.0, "{}", wall(&costs));
    for _ in 0..30 {
        costs.learn(&processed(1, 100, 1000, 100), false);
    }
    assert!((wall(&costs) - 1000.0).abs() < 50.0, "{}", wall(&costs));
}

#[test]
fn the_first_jobs_of_a_session_are_a_bound_until_there_are_others() {
    let mut costs = EngineCosts::new(1);
    let cost = |costs: &EngineCosts| costs.cost(100.0, 1.0).map(|cost| (cost.cpu, cost.samples));
    costs.learn(&processed(1, 100, 900, 900), true);
    assert_eq!(cost(&costs), Some((900.0, 0.0)));
    costs.learn(&processed(1, 100, 90, 90), false);
    costs.learn(&processed(1, 100, 900, 900), true);
    assert_eq!(cost(&costs), Some((90.0, 1.0)));
}

#[test]
fn the_least_time_is_remembered_for_a_while() {
    let mut costs = EngineCosts::new(1);
    let least = |costs: &EngineCosts| costs.cost(100.0, 1.0).unwrap().least_wall;
    costs.learn(&processed(1, 100, 100, 50), false);
    for _ in 0..10 {
        costs.learn(&processed(1, 100, 300, 50), false);
    }
    assert!(least(&costs) < 150.0, "{}", least(&costs));
    for _ in 0..4000 {
        costs.learn(&processed(1, 100, 300, 50), false);
    }
    assert!(least(&costs) > 290.0, "{}", least(&costs));
}

#[test]
fn a_batch_takes_no_longer_for_having_fewer_jobs() {
    let mut costs = EngineCosts::new(32);
    costs.learn(&processed(32, 16, 32, 32), false);
    let cpu = |costs: &EngineCosts, jobs| costs.cost(16.0, jobs).unwrap().cpu;
    assert_eq!((cpu(&costs, 32.0), cpu(&costs, 4.0)), (1.0, 8.0));
    costs.learn(&processed(4, 16, 8, 8), false);
    assert_eq!((cpu(&costs, 32.0), cpu(&costs, 4.0), cpu(&costs, 1.0)), (1.0, 2.0, 8.0));
}

#[test]
fn costs_come_from_profiles() {
    let json = r#"{"machine": "m", "cores": 1, "cipher": "aes-128-cbc", "engines": [
        {"name": "cpu", "kind": "cpu", "depth": 1, "points": [
            {"bytes": 16, "wall_us": 2.0, "cpu_us": 1.0}]}]}"#;
    let profile: Profile = json.parse().unwrap();
    let costs = Costs::from_profile(&profile);
    assert!(costs.engine("cpu").unwrap().cost(16.0, 1.0).unwrap().is_firm());
}
