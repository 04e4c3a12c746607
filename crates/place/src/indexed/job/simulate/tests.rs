//! Cases whose time and requests can be computed by hand.

use super::*;
use crate::Control;

/// One request at a time, of which each takes a second; nothing else takes time.
fn scenario(workers: u64) -> Scenario {
    let machine = Machine {
        requests: 1,
        down: f64::INFINITY,
        up: f64::INFINITY,
        connection: f64::INFINITY,
        cores: f64::INFINITY,
        object_cpu: 0.0,
        byte_cpu: 0.0,
    };
    let limits = Limits {
        latency: 1.0,
        list_latency: 1.0,
        lists: 1,
        reads: f64::INFINITY,
        writes: f64::INFINITY,
        source_prefixes: 1,
        target_prefixes: 256,
    };
    let failures = Failures { kills: 0.0, restart: 0.0, stragglers: 0.0, slowness: 1.0 };
    Scenario { workers, machine, limits, failures, seed: 1 }
}

/// Shards with so many objects of 1,000 bytes: each takes a read and a write.
fn work(shards: &[u64]) -> Work {
    Work::of_shards((0..).zip(shards).map(|(place, objects)| (place, *objects, objects * 1000)))
}

fn run(work: &Work, scenario: &Scenario) -> Outcome {
    simulate(work, scenario, &Control::default()).unwrap()
}

/// A worker's start, and what comes before and after the objects of a shard.
const START: f64 = 9.0;
const AROUND: f64 = 5.0 + 1.0 + 2.0;

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "{found} instead of {expected}");
}

#[test]
fn one_worker_takes_the_sum() {
    let outcome = run(&work(&[32, 64]), &scenario(1));
    assert_near(outcome.run_seconds, START + 2.0 * AROUND + 2.0 * 96.0);
    let Outcome { attempts, overtaken, duplicates, already, retries, kills, .. } = outcome;
    assert_eq!((attempts, overtaken, duplicates, already, retries, kills), (2, 0, 0, 0, 0, 0));
    // One page of the source.
    let plan = (2.0 + 4.0) * 1.0 + 1.0;
    assert_near(outcome.plan_seconds, plan);
    assert_near(outcome.seconds, plan + outcome.run_seconds + outcome.finish_seconds);
}

#[test]
fn all_objects_and_shards_take_their_requests() {
    let outcome = run(&work(&[32, 64]), &scenario(1));
    let Requests { get, put, begin, part, complete, list, .. } = outcome.requests;
    // For each object one; for each shard three, and four in the end; for the worker three.
    assert_eq!(get, 96 + 2 * 3 + (4 * 2 + 4) + 3);
    // For each object one; for each shard the mark, a block and the receipt, and its file.
    assert_eq!(put, 96 + 2 * (3 + 1) + 4 + 4 + 4);
    assert_eq!((begin, part, complete), (0, 0, 0));
    // The source, the marks of each shard, and the receipts, before the worker would help others; in
    // the end the receipts, and two directories.
    assert_eq!(list, 1 + 2 + 1 + 1 + 2);
    // For each shard one, and one at every fifth second of an attempt.
    let looks = (AROUND + 64.0) as u64 / 5 + (AROUND + 128.0) as u64 / 5;
    assert_eq!(outcome.requests.head, 2 + looks);
}

#[test]
fn two_workers_take_half() {
    let outcome = run(&work(&[64, 64]), &scenario(2));
    assert_near(outcome.run_seconds, START + AROUND + 128.0);
    assert_eq!((outcome.attempts, outcome.duplicates), (2, 0));
}

#[test]
fn several_requests_in_flight_share_the_time() {
    let mut four = scenario(1);
    four.machine.requests = 4;
    let outcome = run(&work(&[128]), &four);
    assert_near(outcome.run_seconds, START + AROUND + 2.0 * 32.0);
    // 129 objects take 33 rounds.
    let outcome = run(&work(&[129]), &four);
    assert_near(outcome.run_seconds, START + AROUND + 2.0 * 33.0);
    assert!(outcome.limits.latency > 0.99, "{:?}", outcome.limits);
}

#[test]
fn the_scarcest_means_decides() {
    let work = work(&[32]);
    let sealed = work.shards[0].passage.sealed as f64;
    let mut slow = scenario(1);
    slow.machine.up = 10.0;
    let outcome = run(&work, &slow);
    // 32 entries of the index, with their files in the receipt.
    let after = 32.0 * (114.0 + 70.0) / 10.0;
    assert_near(outcome.run_seconds, START + 6.0 + sealed / 10.0 + after);
    assert!(outcome.limits.upload > 0.9, "{:?}", outcome.limits);
    slow.machine.down = 1.0;
    let outcome = run(&work, &slow);
    // The manifest, the rows, and the objects.
    let down = 250.0 + 32.0 * 100.0 + 32_000.0;
    assert_near(outcome.run_seconds, down + after);
    assert!(outcome.limits.download > 0.9, "{:?}", outcome.limits);
}

#[test]
fn the_longest_object_of_a_shard_goes_part_by_part() {
    let work = Work::of_shards([(0, 1, 100_000_000)]);
    let mut many = scenario(1);
    many.machine.requests = 1000;
    let outcome = run(&work, &many);
    // Its length, its beginning, twelve parts and its end.
    assert_near(outcome.run_seconds, START + AROUND + 15.0);
    assert!(outcome.limits.long_objects > 0.3, "{:?}", outcome.limits);
}

#[test]
fn a_limit_of_writes_decides_and_refuses() {
    let mut limited = scenario(1);
    limited.machine.requests = 32;
    limited.limits.writes = 2.0;
    // Without the limit, all 32 rounds take 64 s.
    let outcome = run(&work(&[1024]), &limited);
    assert_near(outcome.run_seconds, START + AROUND + 1024.0 / 2.0);
    // An eighth of 32 requests fits: each sawtooth answers 3/8 of 16, and refuses one.
    let expected = 1024.0 / (1.0 + 0.375 * 16.0);
    assert!((outcome.retries as f64 - expected).abs() < 33.0, "{}", outcome.retries);
    assert!(outcome.limits.store_writes > 0.9, "{:?}", outcome.limits);
    // Two shards lie below two prefixes.
    let mut two = limited;
    two.workers = 2;
    let apart = run(&work(&[1024, 1024]), &two).run_seconds;
    assert_near(apart, outcome.run_seconds);
    two.limits.target_prefixes = 1;
    let together = run(&work(&[1024, 1024]), &two).run_seconds;
    assert!(together > outcome.run_seconds + 500.0, "{together}");
}

#[test]
fn a_straggler_is_helped_and_overtaken() {
    let mut slow = scenario(2);
    slow.failures.stragglers = 0.5;
    slow.failures.slowness = 5.0;
    let outcome = run(&work(&[640, 640]), &slow);
    // Alone, the straggler would take five times as long.
    let alone = 5.0 * (START + AROUND + 1280.0);
    assert!(outcome.run_seconds < alone * 0.75, "{outcome:?}");
    // The faster worker did its own shard, and then the other one. It looked for each object there.
    assert_eq!((outcome.attempts, outcome.kills), (3, 0));
    assert!(outcome.already > 0 && outcome.duplicates > 0, "{outcome:?}");
    assert!(outcome.already + outcome.duplicates <= 640, "{outcome:?}");
    let fast = START + 2.0 * AROUND + 2.0 * 640.0 + 3.0 * 640.0;
    let looked = 6.0 * outcome.already as f64;
    assert!(outcome.run_seconds <= fast + looked, "{} > {}", outcome.run_seconds, fast + looked);
}

#[test]
fn helpers_of_a_straggler_share_its_shards() {
    let mut slow = scenario(20);
    slow.failures.stragglers = 0.05;
    slow.failures.slowness = 20.0;
    let outcome = run(&work(&[32; 2000]), &slow);
    // The nineteen others could do it in this time, if no shard were done twice.
    let least = START + 2000.0 / 19.0 * (AROUND + 64.0);
    assert!(outcome.run_seconds < 1.1 * least, "{outcome:?}");
    assert!(outcome.duplicates < 64_000 / 50, "{outcome:?}");
}

#[test]
fn a_killed_worker_begins_again_and_finds_its_objects() {
    let mut killed = scenario(1);
    killed.failures.kills = 12.0;
    killed.failures.restart = 100.0;
    let outcome = run(&work(&[320]), &killed);
    let undisturbed = START + AROUND + 640.0;
    assert!(outcome.kills > 0, "{outcome:?}");
    assert!(outcome.run_seconds > undisturbed + 100.0 * outcome.kills as f64, "{outcome:?}");
    assert!((2..=outcome.kills + 1).contains(&outcome.attempts));
    assert!(outcome.already > 0);
    assert_eq!(outcome.duplicates, 0);
    // The same seed has the same end, another one has another.
    assert_eq!(run(&work(&[320]), &killed), outcome);
    killed.seed = 2;
    assert_ne!(run(&work(&[320]), &killed), outcome);
}

#[test]
fn the_fewest_workers_in_time_are_found() {
    let (work, one) = (work(&[64; 16]), scenario(1));
    let control = Control::default();
    let ends = run(&work, &one);
    let ends = ends.plan_seconds + ends.finish_seconds;
    // Four shards each.
    let four = START + 4.0 * (AROUND + 128.0);
    let found = workers_within(&work, &one, ends + four + 1.0, &control).unwrap();
    let Within::Enough(outcome) = found else { panic!("{found:?}") };
    assert_eq!(outcome.workers, 4);
    assert_near(outcome.run_seconds, four);
    let never = workers_within(&work, &one, ends + 1.0, &control).unwrap();
    assert!(matches!(never, Within::Never(_)), "{never:?}");
    control.stop();
    assert_eq!(workers_within(&work, &one, 1e9, &control), None);
}

#[test]
fn requests_and_machines_cost() {
    let outcome = run(&work(&[1000]), &scenario(1));
    let Requests { get, head, put, list, .. } = outcome.requests;
    let prices = Prices::default().with(|prices| {
        prices.gigabyte = 10.0;
        prices.hour = 3.6;
    });
    let cost = outcome.cost(&prices);
    assert_near(cost.reads, (get + head) as f64 * 0.0004 / 1000.0);
    assert_near(cost.writes, (put + list) as f64 * 0.005 / 1000.0);
    assert_near(cost.transfer, (outcome.bytes_read + outcome.bytes_written) as f64 / 1e8);
    assert_near(cost.machines, outcome.seconds / 1000.0);
    assert_near(cost.total, cost.reads + cost.writes + cost.transfer + cost.machines);
}
