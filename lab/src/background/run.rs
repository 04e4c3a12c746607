//! Runs the rounds.

use std::thread;
use std::time::Duration;

use super::foreground::Pace;
use super::report::{Case, Turn};
use super::team::{Team, Work};
use super::{BackgroundOptions, BackgroundReport, Program, Setting};
use crate::pin::pin;
use crate::{LabError, Machine};

/// Runs the benchmark. `progress` is called with each step.
///
/// With [`BackgroundOptions::pin`] the calling thread stays on those cores for good.
///
/// # Errors
/// When an engine or core does not exist, the foreground program can't be started, or the engines
/// fail.
pub fn run(
    options: &BackgroundOptions,
    foreground: &Program,
    progress: &mut dyn FnMut(&str),
) -> Result<BackgroundReport, LabError> {
    pin(&options.pin)?;
    let team = Team::new(options)?;
    let cases = cases(&options.settings());
    let mut turns = vec![Vec::new(); cases.len()];
    for round in 0..options.rounds as usize {
        progress(&format!("round {} of {}", round + 1, options.rounds));
        // Each round begins with a different case.
        for place in 0..cases.len() {
            let index = (place + round) % cases.len();
            turns[index].push(take_turn(cases[index], &team, options, foreground)?);
        }
    }
    let turns: Vec<_> = cases.into_iter().zip(turns).collect();
    Ok(BackgroundReport::new(facts(options, &team), team.has_module(), &turns))
}

/// Lists the foreground program alone, and Evener in each setting, alone and beside it.
fn cases(settings: &[Setting]) -> Vec<Case> {
    let beside = |&setting| {
        [false, true].map(|has_foreground| Case { setting: Some(setting), has_foreground })
    };
    let alone = Case { setting: None, has_foreground: true };
    std::iter::once(alone).chain(settings.iter().flat_map(beside)).collect()
}

fn take_turn(
    case: Case,
    team: &Team,
    options: &BackgroundOptions,
    foreground: &Program,
) -> Result<Turn, LabError> {
    let program = || foreground.start(options);
    match (case.setting, case.has_foreground) {
        (None, _) => {
            let pace = program()?.finish()?;
            Ok(Turn { pace: Some(pace), work: None })
        }
        (Some(setting), false) => {
            let time = Duration::from_secs_f64(options.seconds);
            let ((), work) = team.work(setting, |_| {
                thread::sleep(time);
                Ok(())
            })?;
            Ok(Turn { pace: None, work: Some(work) })
        }
        (Some(setting), true) => {
            let (pace, work): (Pace, Work) = team.work(setting, |watch| {
                let running = program()?;
                watch.begin();
                running.finish()
            })?;
            Ok(Turn { pace: Some(pace), work: Some(work) })
        }
    }
}

/// Facts that explain the figures.
fn facts(options: &BackgroundOptions, team: &Team) -> Vec<(String, String)> {
    let engines = team.engines.iter().map(|engine| {
        let description = engine.description();
        format!("{}: {}", description.name, description.detail)
    });
    let threads = counted(options.threads(), "thread");
    let session = if options.same_session { "in Evener's session" } else { "in its own session" };
    let mut facts = vec![
        ("Machine", Machine::look().to_string()),
        ("Evener's engines", engines.collect::<Vec<_>>().join("; ")),
        ("Evener's policy", team.policy.to_string()),
        ("Evener's work", format!("{}, messages of {} bytes", options.cipher, team.length())),
        ("Foreground", format!("{threads}, {} KiB each, {session}", options.working_set)),
        (
            "Turns",
            format!("{} of {} s", counted(options.rounds as usize, "round"), options.seconds),
        ),
    ];
    if !options.pin.is_empty() {
        let cores: Vec<_> = options.pin.iter().map(usize::to_string).collect();
        facts.push(("Kept on core", cores.join(", ")));
    }
    facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect()
}

fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_alone_and_together() {
        let cases = cases(&[Setting::Normal, Setting::Background]);
        assert_eq!(cases.len(), 5);
        assert_eq!(cases[0], Case { setting: None, has_foreground: true });
        let beside = Case { setting: Some(Setting::Background), has_foreground: true };
        assert_eq!(cases.iter().filter(|case| **case == beside).count(), 1);
    }
}
