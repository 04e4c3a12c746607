//! Cores beside a module are never much slower than the cores alone.

use super::*;

const GPU: &str = include_str!("../../../reference/gpu-assumed.json");

/// The most that a run may lose to trying engines out, compared with the cores alone.
fn within_regret(both: Duration, alone: Duration) -> bool {
    both.as_secs_f64() <= 1.03 * alone.as_secs_f64() + 0.02
}

#[test]
fn cores_with_a_gpu_are_never_below_the_cores_alone() {
    let profile: Profile = GPU.parse().unwrap();
    let cores = profile.engine("cpu").unwrap();
    for bytes in [64, 1024, 16_384, 1 << 20] {
        for count in [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000] {
            let jobs = vec![bytes; count];
            let run = |engines| {
                let scene = Scene::new(profile.cores, engines, jobs.clone());
                scene.run(PolicyName::Adaptive, Costs::default()).unwrap()
            };
            let alone = run(vec![cores]);
            let both = run(profile.engines.iter().collect());
            println!("{bytes} {count}: {:?} {:?} {:?}", alone.wall, both.wall, both.jobs);
            assert!(within_regret(both.wall, alone.wall), "{bytes} bytes, {count} jobs");
            // With enough long messages, the GPU does a part of them, and that helps.
            let is_long = bytes >= 16_384 && count == 1_000_000;
            assert!(!is_long || both.jobs[1] > 0 && both.wall < alone.wall, "{bytes} bytes");
        }
    }
}

/// A module that needs little of a core for a job must not make the work look too small for all
/// cores.
#[test]
fn all_cores_start_beside_a_module_that_needs_little_of_them() {
    let cores = EngineProfile { depth: 16, ..cpu(4_000.0, f64::INFINITY) };
    let module = engine("module", Kind::Module, 62, 1_000.0, f64::INFINITY, 0.03);
    let module = EngineProfile { depth: 4, ..module };
    let mut costs = Costs::default();
    for engine in [&cores, &module] {
        costs.insert(&engine.name, EngineCosts::of(engine));
    }
    for count in [80, 124] {
        let run = |engines| {
            let scene = Scene::new(16, engines, vec![65_536; count]);
            scene.run(PolicyName::Adaptive, costs.clone()).unwrap().wall
        };
        let (alone, both) = (run(vec![&cores]), run(vec![&cores, &module]));
        assert!(both <= alone + Duration::from_millis(5), "{count}: {both:?} beside {alone:?}");
    }
}

/// The most by which a module may lengthen a run, in addition to one task on a core: a fifth of the
/// delay that people notice.
const NOTICED: Duration = Duration::from_millis(20);

/// Cores, with a module that opens late, is slow, or hangs.
struct Beside {
    cost_on_cpu: f64,
    jobs: usize,
    opening: (Duration, Duration),
    /// The ratio of the module's time to a core's.
    slower: f64,
    /// The part of the module's time on a core.
    on_core: f64,
    batch: usize,
    depth: usize,
}

impl Beside {
    fn engines(&self) -> [EngineProfile; 2] {
        let cores = EngineProfile { depth: 2, ..cpu(self.cost_on_cpu, f64::INFINITY) };
        let module = engine(
            "module",
            Kind::Module,
            self.batch,
            self.cost_on_cpu * self.slower,
            f64::INFINITY,
            self.on_core,
        );
        [cores, EngineProfile { depth: self.depth, ..module }]
    }

    /// Checks the bound, and returns the number of the module's batches.
    fn check(&self, policy: PolicyName, hangs_at: Option<u64>) -> u64 {
        let [cores, module] = &self.engines();
        let alone = Scene::new(2, vec![cores], vec![4096; self.jobs]);
        let alone = alone.run(policy, Costs::default()).unwrap().wall;
        let jobs = vec![4096; self.jobs];
        let scene =
            Scene { opening: self.opening, hangs_at, ..Scene::new(2, vec![cores, module], jobs) };
        let scene = Scene { pull_spares_cores: true, ..scene };
        let both = scene.run(policy, Costs::default()).unwrap();
        let task = Duration::from_nanos((self.cost_on_cpu * 1e3) as u64);
        assert!(
            both.wall <= alone + task + NOTICED,
            "{policy}, {} jobs of {} us, opening {:?}, {} times slower, {} of it on a core, {} a batch, depth \
             {}, hangs at {hangs_at:?}: {:?} beside {alone:?} alone; {:?}",
            self.jobs,
            self.cost_on_cpu,
            self.opening,
            self.slower,
            self.on_core,
            self.batch,
            self.depth,
            both.wall,
            both.jobs,
        );
        both.module_batches
    }
}

#[test]
fn no_module_makes_a_run_slower() {
    let openings = [0, 10, 300, 3_000].map(Duration::from_millis);
    let openings = openings.iter().flat_map(|&it| [(it, Duration::ZERO), (Duration::ZERO, it)]);
    // Runs of 50 ms, 500 ms and 10 s on the cores.
    let runs = [(100.0, 1_000), (2_000.0, 50), (1_000.0, 1_000), (100_000.0, 10), (5_000.0, 4_000)];
    let mut cases = 0;
    for opening in openings {
        for (cost_on_cpu, jobs) in runs {
            for slower in [1.0, 10.0, 1_000.0] {
                for (batch, depth) in [(1, 1), (1, 4), (32, 1), (32, 2)] {
                    let on_core = 0.02 / slower;
                    let beside =
                        Beside { cost_on_cpu, jobs, opening, slower, on_core, batch, depth };
                    for policy in [PolicyName::Pull, PolicyName::Adaptive] {
                        let last = beside.check(policy, None);
                        for hangs_at in [1, 10, last] {
                            beside.check(policy, Some(hangs_at));
                            cases += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cases, 2_880);
}

/// Many cores finish the rest of a run sooner than a module finishes a batch.
#[test]
fn no_module_makes_a_run_on_many_cores_slower() {
    let cores = EngineProfile { depth: 16, ..cpu(3_300.0, f64::INFINITY) };
    for count in [32, 124, 310, 1_240, 5_000] {
        let jobs = vec![65_536; count];
        let alone = Scene::new(16, vec![&cores], jobs.clone());
        let alone = alone.run(PolicyName::Pull, Costs::default()).unwrap().wall;
        let openings = [0, 60, 100, 250].map(Duration::from_millis);
        let modules = [(1_000.0, 64, 4), (2_000.0, 64, 4), (33_000.0, 32, 2), (3_300.0, 32, 2)];
        for (opening, (each, batch, depth)) in
            openings.iter().flat_map(|it| modules.map(|module| (*it, module)))
        {
            let module = engine("module", Kind::Module, batch, each, f64::INFINITY, 0.02);
            let module = EngineProfile { depth, ..module };
            let scene = Scene {
                opening: (Duration::ZERO, opening),
                ..Scene::new(16, vec![&cores, &module], jobs.clone())
            };
            let both = scene.run(PolicyName::Adaptive, Costs::default()).unwrap();
            println!("{count} {each} {opening:?}: {alone:?} {:?} {:?}", both.wall, both.jobs);
            let bound = alone + Duration::from_micros(3_300) + NOTICED;
            assert!(both.wall <= bound, "{count} {each} {opening:?}: {:?}, {alone:?}", both.wall);
        }
    }
}

#[test]
fn no_module_takes_more_time_from_the_cores_than_it_saves() {
    let opening = (Duration::ZERO, Duration::ZERO);
    let runs = [(100.0, 1_000), (2_000.0, 50), (1_000.0, 1_000), (20.0, 100_000), (5_000.0, 4_000)];
    for (cost_on_cpu, jobs) in runs {
        for slower in [1.0, 1.5, 3.0, 30.0, 1_000.0] {
            for (batch, depth) in [(1, 1), (1, 4), (32, 1), (32, 2)] {
                for on_core in [0.5, 1.0] {
                    let beside =
                        Beside { cost_on_cpu, jobs, opening, slower, on_core, batch, depth };
                    for policy in [PolicyName::Pull, PolicyName::Adaptive] {
                        beside.check(policy, None);
                    }
                }
            }
        }
    }
}
