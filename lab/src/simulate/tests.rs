mod beside;
mod hidden;

use std::time::Duration;

use evener_core::{EngineProfile, Point};
use evener_pipeline::PolicyName;
use evener_pipeline::costs::EngineCosts;

use super::*;
use crate::policies::{PoliciesReport, Ratios};

const PROFILE: &str = include_str!("../../reference/am3358-profile-aes128.json");

fn plan(policies: &[PolicyName]) -> Plan {
    Plan {
        sizes: vec![8, 16, 64, 256, 1024, 4096, 8192, 16_384],
        policies: policies.iter().copied().map(Rival::from).collect(),
        files: 4000,
        cores: None,
    }
}

/// The greatest differences of simulated times and of the processor's numbers of files from the
/// published ones, at any of the eight sizes, in tenths of a per cent, as printed by `evener-lab
/// simulate PROFILE --published` and stated in docs/evidence/papers.md.
const DIFFERENCES: [(&str, u32, Option<u32>); 6] = [
    ("cpu-only", 1, Some(0)),
    ("module-only", 1, Some(0)),
    ("round-robin", 28, Some(0)),
    ("polling", 482, Some(215)),
    ("pull", 164, Some(64)),
    ("adaptive", 40, None),
];

#[test]
fn the_published_tables_are_met() {
    let profile: Profile = PROFILE.parse().unwrap();
    let mut report = PoliciesReport::new("", Vec::new());
    let plan = Plan { policies: Rival::ALL.to_vec(), ..plan(&[]) };
    report.add_rows(simulate(&profile, &plan).unwrap()).unwrap();
    let found = report.differences();
    let up = |part: f64| (part * 1000.0).ceil() as u32;
    let found: Vec<_> =
        found.iter().map(|it| (it.policy.as_str(), up(it.time), it.files.map(up))).collect();
    // Each is the difference reached, rounded up, and no more.
    assert_eq!(found, DIFFERENCES);
    let (papers, report) =
        (include_str!("../../../docs/evidence/papers.md"), Ratios(&report).to_string());
    let stated: Vec<_> = report.lines().filter(|line| line.contains(": time ")).collect();
    assert_eq!(stated.len(), DIFFERENCES.len());
    assert!(stated.iter().all(|line| papers.lines().any(|it| it == *line)), "{stated:#?}");
}

/// A policy that leaves files undone has no figures, nor does a report that contains it.
#[test]
fn a_run_that_does_not_do_all_files_is_an_error() {
    let profile: Profile = PROFILE.parse().unwrap();
    let cores = profile.engines.iter().filter(|engine| engine.kind == Kind::Cpu).collect();
    let scene = Scene::new(1, cores, vec![8; 4000]);
    let error = scene.run(Rival::ModuleOnly, Costs::default()).unwrap_err().to_string();
    assert_eq!(
        error,
        "module-only, simulated: 0 of 4000 files were done (0 of 32000 bytes), so there are no figures"
    );
    assert!(Scene { jobs: Vec::new(), ..scene }.run(Rival::Polling, Costs::default()).is_err());
}

/// An engine that takes `fixed` microseconds for a job plus one for every `bytes` bytes; `part` of
/// that time is on a core.
fn engine(
    name: &str,
    kind: Kind,
    batch: usize,
    fixed: f64,
    bytes: f64,
    part: f64,
) -> EngineProfile {
    let point = |size: usize| {
        let wall_us = fixed + size as f64 / bytes;
        Point { bytes: size, wall_us, cpu_us: wall_us * part, hidden_us: 0.0 }
    };
    EngineProfile {
        name: name.into(),
        kind,
        detail: String::new(),
        depth: 1,
        batch,
        bytes: 0,
        points: [16, 256, 4096, 16_384, 1 << 20].map(point).into(),
        points_at_depth: Vec::new(),
        open_us: 0.0,
    }
}

fn cpu(fixed: f64, bytes: f64) -> EngineProfile {
    engine("cpu", Kind::Cpu, 1, fixed, bytes, 1.0)
}

fn module(name: &str, fixed: f64, bytes: f64, part: f64) -> EngineProfile {
    engine(name, Kind::Module, 1, fixed, bytes, part)
}

/// The ratio of `adaptive`'s time, without prior knowledge, to that of the best other policy.
fn against_the_best(scene: &Scene<'_>) -> f64 {
    let best = Rival::ALL
        .iter()
        .filter(|policy| **policy != PolicyName::Adaptive.into())
        .map(|&policy| scene.run(policy, Costs::default()).unwrap())
        .map(|outcome| outcome.wall)
        .min()
        .unwrap();
    let adaptive = scene.run(PolicyName::Adaptive, Costs::default()).unwrap();
    let ratio = adaptive.wall.as_secs_f64() / best.as_secs_f64();
    println!("{ratio:.3}: {:?} {:?} of {best:?}", adaptive.wall, adaptive.jobs);
    ratio
}

/// The costs that a profile would give for the scene's engines if hidden costs were not measured:
/// only those that the threads' clocks show.
fn measured(scene: &Scene<'_>) -> Costs {
    let mut costs = Costs::default();
    for engine in &scene.engines {
        let mut engine = EngineProfile::clone(engine);
        engine.points.iter_mut().for_each(|point| point.hidden_us = 0.0);
        costs.insert(&engine.name, EngineCosts::of(&engine));
    }
    costs
}

#[test]
fn adaptive_is_never_slower_than_the_best() {
    let profile: Profile = PROFILE.parse().unwrap();
    for cores in [1, 2] {
        for bytes in [8, 16, 64, 256, 1024, 1500, 2000, 2500, 3500, 4096, 8192, 16_384] {
            let scene = Scene::new(cores, profile.engines.iter().collect(), vec![bytes; 4000]);
            let ratio = against_the_best(&scene);
            assert!(ratio <= 1.05, "{cores} cores, {bytes} bytes: {ratio}");
        }
    }
}

#[test]
fn adaptive_is_never_slower_with_sizes_mixed() {
    let profile: Profile = PROFILE.parse().unwrap();
    let sizes = [16, 16_384, 64, 8192, 1024, 16, 256, 4096];
    let jobs = (0..4000).map(|number| sizes[number * 7 % 8]).collect();
    let ratio = against_the_best(&Scene::new(1, profile.engines.iter().collect(), jobs));
    // The module gets the jobs from which it gains most.
    assert!(ratio <= 0.95, "{ratio}");
}

#[test]
fn several_modules_are_filled_in_the_order_of_their_cost() {
    let engines = [
        cpu(5.0, 10.0),
        module("good", 50.0, 50.0, 0.1),
        module("poor", 50.0, 10.0, 0.3),
        module("bad", 200.0, 5.0, 0.9),
    ];
    for bytes in [16, 1024, 16_384] {
        let scene = Scene::new(1, engines.iter().collect(), vec![bytes; 2000]);
        assert!(against_the_best(&scene) <= 1.05, "{bytes}");
    }
    let scene = Scene::new(1, engines.iter().collect(), vec![16_384; 2000]);
    let outcome = scene.run(PolicyName::Adaptive, Costs::default()).unwrap();
    assert!(outcome.jobs[1] > outcome.jobs[2] && outcome.jobs[3] <= 5, "{:?}", outcome.jobs);
}

#[test]
fn a_module_that_gets_busy_gets_less_and_a_processor_that_gets_busy_leaves_more() {
    let engines = [cpu(5.0, 10.0), module("module", 50.0, 20.0, 0.1)];
    let mut scene = Scene::new(1, engines.iter().collect(), vec![16_384; 1500]);
    scene.slowness = |engine, now| match (engine, now > Duration::from_millis(500)) {
        (1, true) => (10.0, 1.0),
        _ => (1.0, 1.0),
    };
    assert!(against_the_best(&scene) <= 1.05);
    // The processor's own work takes three times as long from then on.
    scene.slowness = |engine, now| match (engine, now > Duration::from_millis(500)) {
        (0, true) => (3.0, 3.0),
        _ => (1.0, 1.0),
    };
    assert!(against_the_best(&scene) <= 1.05);
}

#[test]
fn engines_get_the_batches_that_they_like() {
    let cpu = EngineProfile { depth: 2, ..engine("cpu", Kind::Cpu, 32, 0.01, 3000.0, 1.0) };
    let card = engine("card", Kind::Module, 4096, 0.05, 20_000.0, 0.05);
    for bytes in [16, 1024, 16_384] {
        let scene = Scene::new(2, vec![&cpu, &card], vec![bytes; 100_000]);
        let outcome = scene.run(PolicyName::Adaptive, Costs::default()).unwrap();
        let alone = Scene::new(2, vec![&cpu], vec![bytes; 100_000]);
        let alone = alone.run(PolicyName::Adaptive, Costs::default()).unwrap();
        println!("{:?} {:?}, the processor alone {:?}", outcome.wall, outcome.jobs, alone.wall);
        assert!(outcome.wall <= alone.wall + alone.wall / 20);
    }
    let scene = Scene::new(2, vec![&cpu, &card], vec![16_384; 100_000]);
    assert!(scene.run(PolicyName::Adaptive, Costs::default()).unwrap().jobs[1] > 4096);
}

#[test]
fn two_engines_of_the_processor_share_its_cores() {
    // One engine is for short jobs, the other for long ones.
    let short = EngineProfile { depth: 2, ..engine("short", Kind::Cpu, 1, 1.0, 100.0, 1.0) };
    let long = EngineProfile { depth: 2, ..engine("long", Kind::Cpu, 1, 10.0, 1000.0, 1.0) };
    let engines = vec![&short, &long];
    for (bytes, better) in [(100, 0), (16_384, 1)] {
        let scene = Scene::new(2, engines.clone(), vec![bytes; 3000]);
        let outcome = scene.run(PolicyName::Adaptive, Costs::default()).unwrap();
        assert!(outcome.jobs[1 - better] < 60, "{bytes}: {:?}", outcome.jobs);
    }
    let mixed = (0..3000).map(|number| if number % 2 == 0 { 100 } else { 16_384 }).collect();
    let outcome =
        Scene::new(2, engines, mixed).run(PolicyName::Adaptive, Costs::default()).unwrap();
    let ideal = Duration::from_micros(1500 * (2 + 26) / 2);
    assert!(outcome.wall < ideal + ideal / 10, "{:?} of {ideal:?}", outcome.wall);
}

#[test]
fn little_work_starts_no_thread() {
    let engines = [cpu(5.0, 100.0), module("module", 50.0, 200.0, 0.1)];
    let few = Scene::new(2, engines.iter().collect(), vec![64; 4]);
    let outcome = few.run(PolicyName::Adaptive, Costs::default()).unwrap();
    assert_eq!((outcome.threads, outcome.jobs), (0, vec![4, 0]));
    let many = Scene::new(2, engines.iter().collect(), vec![64; 4000]);
    assert!(many.run(PolicyName::Adaptive, Costs::default()).unwrap().threads > 0);
}

#[test]
fn nobody_is_late() {
    // The module takes as long for one job as the processor for ten.
    let engines = [cpu(0.0, 10.0), module("module", 0.0, 1.0, 0.05)];
    for jobs in 1..40 {
        let scene = Scene::new(1, engines.iter().collect(), vec![4096; jobs]);
        let adaptive = scene.run(PolicyName::Adaptive, measured(&scene)).unwrap();
        let alone = scene.run(Rival::CpuOnly, Costs::default()).unwrap();
        assert!(adaptive.wall <= alone.wall + alone.wall / 20, "{jobs}: {adaptive:?} {alone:?}");
    }
}

#[test]
fn with_one_engine_it_is_as_good_as_pull() {
    let engine = EngineProfile { depth: 2, ..cpu(1.0, 100.0) };
    for jobs in [1000, 10_000] {
        let scene = Scene::new(2, vec![&engine], vec![1000; jobs]);
        let [pull, adaptive] = [PolicyName::Pull, PolicyName::Adaptive]
            .map(|policy| scene.run(policy, Costs::default()).unwrap().wall);
        assert!(adaptive <= pull + pull / 100, "{jobs}: {adaptive:?} {pull:?}");
    }
}

#[test]
fn a_profile_of_all_engines_of_a_machine_without_a_module_is_simulated() {
    let mut profile: Profile = PROFILE.parse().unwrap();
    profile.engines.retain(|engine| engine.kind == Kind::Cpu);
    for name in ["openssl", "lanes"] {
        profile.engines.push(engine(name, Kind::Cpu, 1, 10.0, 100.0, 1.0));
    }
    assert_eq!(without_parts(&mut profile), ["openssl", "lanes"]);
    let rows = simulate(&profile, &plan(&[PolicyName::Pull, PolicyName::Adaptive])).unwrap();
    assert_eq!(rows.len(), 16);
    for row in &rows {
        assert_eq!((row.files, row.files_cpu, row.files_module), (4000, 4000.0, 0.0));
        assert!(row.ms_mean > 0.0 && row.files_module.is_sign_positive(), "{row:?}");
    }
    // Without the whole, each part is a separate engine.
    profile.engines[0].name = "openssl".to_owned();
    assert!(without_parts(&mut profile).is_empty());
}
