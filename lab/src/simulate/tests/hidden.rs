//! Costs that no clock shows, and noise.

use super::*;

/// A module whose driver takes `hidden` microseconds of CPU time in addition to its worker's, which
/// the worker's clock does not show.
fn hiding(name: &str, wall: f64, cpu: f64, hidden: f64) -> EngineProfile {
    let mut module = module(name, wall, f64::INFINITY, cpu / wall);
    module.points.iter_mut().for_each(|point| point.hidden_us = hidden);
    module
}

/// The costs that `evener engines --measure` would give for them.
fn known(scene: &Scene<'_>) -> Costs {
    let mut costs = Costs::default();
    for engine in &scene.engines {
        costs.insert(&engine.name, EngineCosts::of(engine));
    }
    costs
}

/// The ratio of `adaptive`'s time, with a profile, to that of the best other policy.
fn against_the_best_once_measured(scene: &Scene<'_>) -> f64 {
    let best = Rival::ALL
        .iter()
        .filter(|policy| **policy != PolicyName::Adaptive.into())
        .map(|&policy| scene.run(policy, Costs::default()).unwrap())
        .map(|outcome| outcome.wall)
        .min()
        .unwrap();
    let outcome = scene.run(PolicyName::Adaptive, measured(scene)).unwrap();
    let ratio = outcome.wall.as_secs_f64() / best.as_secs_f64();
    println!("{ratio:.3}: {:?} {:?} of {best:?}", outcome.wall, outcome.jobs);
    ratio
}

#[test]
fn what_no_clock_shows_is_found() {
    // The worker's clock shows 45 of 95 microseconds, with times like those of the testbed.
    for cost_on_cpu in [25.0, 40.0, 60.0, 85.0, 95.0, 120.0, 460.0, 1800.0] {
        let engines = [cpu(cost_on_cpu, f64::INFINITY), hiding("module", 110.0, 45.0, 50.0)];
        for cores in [1, 2] {
            let scene = Scene::new(cores, engines.iter().collect(), vec![4096; 4000]);
            let ratio = against_the_best_once_measured(&scene);
            assert!(ratio <= 1.05, "{cost_on_cpu} us, {cores} cores: {ratio}");
        }
    }
}

#[test]
fn what_a_profile_says_to_be_hidden_need_not_be_found() {
    for cost_on_cpu in [25.0, 60.0, 85.0, 120.0, 460.0, 1800.0] {
        let engines = [cpu(cost_on_cpu, f64::INFINITY), hiding("module", 110.0, 45.0, 50.0)];
        let mut scene = Scene::new(1, engines.iter().collect(), vec![4096; 4000]);
        // Opening a session in vain is a loss, too.
        scene.opening = (Duration::from_millis(10), Duration::from_millis(10));
        let fixed = [Rival::CpuOnly, Rival::ModuleOnly, PolicyName::Pull.into()];
        let best = fixed.map(|policy| scene.run(policy, Costs::default()).unwrap().wall);
        let best = best.into_iter().min().unwrap();
        let outcome = scene.run(PolicyName::Adaptive, known(&scene)).unwrap();
        println!("{cost_on_cpu} us: {:?} {:?} of {best:?}", outcome.wall, outcome.jobs);
        assert!(outcome.wall <= best + best / 33, "{cost_on_cpu} us");
    }
}

#[test]
fn a_module_whose_sessions_open_slowly_is_tried_only_in_a_long_run() {
    let mut engines = [cpu(85.0, f64::INFINITY), hiding("module", 110.0, 45.0, 50.0)];
    engines[1].open_us = 1_000_000.0;
    let tried = |jobs| {
        let mut scene = Scene::new(1, engines.iter().collect(), vec![4096; jobs]);
        scene.opening = (Duration::from_millis(1), Duration::from_millis(999));
        scene.run(PolicyName::Adaptive, known(&scene)).unwrap().jobs[1]
    };
    // Runs of 0.7 and 8.5 s.
    assert_eq!(tried(8_000), 0);
    assert!(tried(100_000) > 0);
}

#[test]
fn a_profile_that_says_too_much_to_be_hidden_is_doubted_in_a_long_run() {
    let mut engines = [cpu(120.0, f64::INFINITY), hiding("module", 110.0, 20.0, 80.0)];
    let scene = Scene::new(1, engines.iter().collect(), vec![4096; 60_000]);
    let told = known(&scene);
    engines[1] = hiding("module", 110.0, 20.0, 5.0);
    let scene = Scene::new(1, engines.iter().collect(), vec![4096; 60_000]);
    let best = scene.run(PolicyName::Pull, Costs::default()).unwrap().wall;
    let outcome = scene.run(PolicyName::Adaptive, told).unwrap();
    println!("{:?} {:?} of {best:?}", outcome.wall, outcome.jobs);
    assert!(outcome.wall <= best + best / 10);
}

#[test]
fn of_two_modules_the_one_that_hides_its_cost_is_found() {
    for (one, other) in [(10.0, 60.0), (60.0, 10.0), (60.0, 60.0), (10.0, 10.0)] {
        let engines = [
            cpu(85.0, f64::INFINITY),
            hiding("quick", 120.0, 40.0, one),
            hiding("slow", 250.0, 45.0, other),
        ];
        let scene = Scene::new(1, engines.iter().collect(), vec![4096; 6000]);
        let ratio = against_the_best_once_measured(&scene);
        // For 60 and 60, the mean of seven nearby cases is 1.0496.
        assert!(ratio <= 1.055, "{one} and {other} us: {ratio}");
        let best = engines[1..].iter().map(|module| {
            let alone = Scene::new(1, vec![&engines[0], module], vec![4096; 6000]);
            alone.run(PolicyName::Adaptive, Costs::default()).unwrap().wall.as_secs_f64()
        });
        let best = best.fold(f64::INFINITY, f64::min);
        let both = scene.run(PolicyName::Adaptive, Costs::default()).unwrap().wall.as_secs_f64();
        assert!(both <= 1.05 * best, "{one} and {other} us: {both} of {best}");
    }
}

#[test]
fn what_no_clock_shows_is_found_with_sizes_mixed() {
    // The module pays for a job of 16 KB but not for one of 1 KB, although its clock suggests that
    // it pays for both.
    let engines = [cpu(20.0, 20.0), hiding("module", 110.0, 45.0, 50.0)];
    let jobs = (0..6000).map(|number| if number % 3 == 0 { 16_384 } else { 1024 }).collect();
    let scene = Scene::new(1, engines.iter().collect(), jobs);
    let ratio = against_the_best_once_measured(&scene);
    assert!(ratio <= 1.0, "{ratio}");
}

#[test]
fn a_module_that_begins_or_ceases_to_hide_its_cost_is_noticed() {
    let engines = [cpu(85.0, f64::INFINITY), hiding("module", 110.0, 30.0, 60.0)];
    let mut scene = Scene::new(1, engines.iter().collect(), vec![4096; 60_000]);
    let second = Duration::from_secs(1);
    scene.hidden = |_, now| if now > Duration::from_secs(1) { 1.0 } else { 0.1 };
    let outcome = scene.run(PolicyName::Adaptive, Costs::default()).unwrap();
    // One second with both, then the processor alone.
    let left = 60_000.0 - 1e6 * (1.0 / 110.0 + (1.0 - 36.0 / 110.0) / 85.0);
    let ideal = second + Duration::from_secs_f64(left * 85e-6);
    println!("{:?} {:?} of {ideal:?}", outcome.wall, outcome.jobs);
    assert!(outcome.wall <= ideal + ideal / 20);

    scene.hidden = |_, now| if now > Duration::from_secs(1) { 0.1 } else { 1.0 };
    let outcome = scene.run(PolicyName::Adaptive, Costs::default()).unwrap();
    // The policy may take two seconds to try again.
    let left = 60_000.0 - 3e6 / 85.0;
    let rate = 1.0 / 110.0 + (1.0 - 36.0 / 110.0) / 85.0;
    let ideal = 3 * second + Duration::from_secs_f64(left / rate * 1e-6);
    println!("{:?} {:?} of {ideal:?}", outcome.wall, outcome.jobs);
    assert!(outcome.wall <= ideal + ideal / 20);
}

#[test]
fn a_module_that_is_late_beside_the_processor_is_found() {
    // The module needs most of a core, and so do workers that compute all the time.
    for (cost_on_cpu, hidden) in [(85.0, 20.0), (120.0, 20.0), (400.0, 55.0)] {
        let engines = [cpu(cost_on_cpu, f64::INFINITY), hiding("module", 110.0, 45.0, hidden)];
        let scene = Scene::new(1, engines.iter().collect(), vec![4096; 4000]);
        assert_little_regret(&scene, 0.03, &format!("{cost_on_cpu} us"));
    }
}

/// Fails if `adaptive` takes more than `part` (3 %) plus 20 ms longer than the best fixed choice in
/// hindsight.
fn assert_little_regret(scene: &Scene<'_>, part: f64, what: &str) {
    for (_, is_little, run) in regrets(scene, part, what) {
        assert!(is_little, "{run}");
    }
}

/// The ratio of `adaptive`'s time to that of the best fixed choice, whether it takes at most `part`
/// plus 20 ms longer, and both times as text; for three states of a profile.
fn regrets(scene: &Scene<'_>, part: f64, what: &str) -> [(f64, bool, String); 3] {
    let fixed = [Rival::CpuOnly, Rival::ModuleOnly, PolicyName::Pull.into()];
    let best =
        fixed.map(|policy| scene.run(policy, Costs::default()).unwrap().wall).into_iter().min();
    let best = best.unwrap_or_default();
    let costs = [("clocks", measured(scene)), ("all", known(scene)), ("nothing", Costs::default())];
    costs.map(|(knowing, costs)| {
        let outcome = scene.run(PolicyName::Adaptive, costs).unwrap();
        let most = best.mul_f64(1.0 + part) + Duration::from_millis(20);
        let (wall, jobs) = (outcome.wall, outcome.jobs);
        let run = format!("{what}, knowing {knowing}: {wall:?} {jobs:?} of {best:?}");
        println!("{run}");
        (wall.as_secs_f64() / best.as_secs_f64(), wall <= most, run)
    })
}

/// A temporary slowdown of engines: its name, and the part of the time that it may cost.
type Noise = (&'static str, f64, fn(usize, Duration) -> (f64, f64));

/// Returns whether a time is in the second half of its period.
fn is_noisy(now: Duration, period_ms: u128) -> bool {
    now.as_millis() % period_ms >= period_ms / 2
}

#[test]
fn regret_is_bounded_where_noise_comes_and_goes() {
    const NOISES: [Noise; 6] = [
        ("none", 0.03, |_, _| (1.0, 1.0)),
        // Another program takes half of the core from the processor's work. The loss depends on
        // where in the noise the run begins: over twelve phases and periods it is 4 to 10 %, if a
        // profile states the hidden costs.
        ("on the processor, 200 ms", 0.06, |engine, now| match engine == 0 && is_noisy(now, 200) {
            true => (2.0, 2.0),
            false => (1.0, 1.0),
        }),
        ("on the processor, 1.4 s", 0.03, |engine, now| match engine == 0 && is_noisy(now, 1400) {
            true => (3.0, 3.0),
            false => (1.0, 1.0),
        }),
        // Somebody else shares the device.
        ("in the module, 600 ms", 0.035, |engine, now| match engine == 1 && is_noisy(now, 600) {
            true => (4.0, 1.0),
            false => (1.0, 1.0),
        }),
        // A virtual machine stops now and then.
        ("in the module, 15 ms of 400", 0.06, |engine, now| {
            match engine == 1 && (now.as_millis() + 200) % 400 < 15 {
                true => (10.0, 10.0),
                false => (1.0, 1.0),
            }
        }),
        ("everywhere, 300 ms", 0.04, |_, now| match is_noisy(now, 300) {
            true => (2.0, 2.0),
            false => (1.0, 1.0),
        }),
    ];
    let mut runs = Vec::new();
    for (cost_on_cpu, hidden) in [(50.0, 10.0), (85.0, 50.0), (400.0, 20.0), (1200.0, 60.0)] {
        let engines = [cpu(cost_on_cpu, f64::INFINITY), hiding("module", 110.0, 45.0, hidden)];
        for (noise, part, slowness) in NOISES {
            for jobs in [500, 4000, 20_000] {
                let mut scene = Scene::new(1, engines.iter().collect(), vec![4096; jobs]);
                scene.slowness = slowness;
                for opening in [0, 8] {
                    let half = Duration::from_millis(opening / 2);
                    scene.opening = (half, half);
                    let what = format!("{cost_on_cpu} us, {jobs} jobs, opening {opening} ms");
                    runs.extend(regrets(&scene, part, &format!("{what}, noise {noise}")));
                }
            }
        }
    }
    let mean = runs.iter().map(|(ratio, ..)| ratio).sum::<f64>() / runs.len() as f64;
    let worst = runs.iter().map(|(ratio, ..)| *ratio).fold(0.0, f64::max);
    println!("{} runs: {mean:.4} times the best's time, at most {worst:.3} times", runs.len());
    let beyond: Vec<_> = runs.iter().filter(|(_, is_little, _)| !is_little).collect();
    assert!(beyond.is_empty(), "{} beyond the bound: {beyond:?}", beyond.len());
}
