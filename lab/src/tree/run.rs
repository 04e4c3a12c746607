//! Runs the benchmark from start to end.

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;

use super::contender::{Contender, set_up};
use super::place::{Place, remove};
use super::report::{Row, Skipped, TreeReport};
use super::rounds::Rounds;
use super::{ContenderName, TreeName, TreeOptions, Workload, memory};
use crate::LabError;
use crate::watch::Watch;

/// Runs the benchmark; `say` is called with each step.
///
/// The report lists rivals that are not installed or fail, and places and trees that do not exist.
///
/// # Errors
/// When Evener itself or `cp` fails, when no tree could be measured, or when Ctrl-C was pressed.
/// Even then all trees are removed.
pub fn run(options: &TreeOptions, say: &mut dyn FnMut(&str)) -> Result<TreeReport, LabError> {
    let mut watch = Watch::new(say);
    let mut report = TreeReport::new(options);
    let secrets = Place::below(&std::env::temp_dir())?;
    let contenders = set_up_all(options, &secrets.path(""), &mut report)?;

    let mut places = Vec::new();
    for directory in &options.places {
        match Place::below(directory) {
            Ok(place) => places.push(place),
            Err(error) => report.skipped.push(Skipped::new(evener_core::shown(directory), &error)),
        }
    }
    for place in &places {
        report.add_place(place);
        for &tree in &options.trees {
            run_tree(options, place, tree, &contenders, &mut report, &mut watch)?;
        }
    }
    let evener = contenders.iter().find(|contender| contender.facts().name == "evener");
    if let (true, Some(evener), Some(place)) = (options.many > 0, evener, places.first()) {
        report.memory = match memory::measure(&**evener, options, place, &mut watch) {
            Err(error @ LabError::Space { .. }) => {
                report.skipped.push(Skipped::new("memory", &error));
                Vec::new()
            }
            measured => measured?,
        };
    }
    if report.rows.is_empty() && report.memory.is_empty() {
        let reason = |skipped: &Skipped| format!("{}: {}", skipped.what, skipped.reason);
        let reasons: Vec<_> = report.skipped.iter().map(reason).collect();
        return Err(LabError::Unavailable(format!("nothing was measured: {}", reasons.join("; "))));
    }
    Ok(report)
}

/// Prepares all contenders that can take part.
fn set_up_all(
    options: &TreeOptions,
    secrets: &Path,
    report: &mut TreeReport,
) -> Result<Vec<Box<dyn Contender>>, LabError> {
    let asked = |name: &&ContenderName| match options.contenders.as_slice() {
        [] => !name.is_choice(),
        asked => asked.contains(name),
    };
    let mut contenders = Vec::new();
    for &name in ContenderName::value_variants().iter().filter(asked) {
        match set_up(name, options.program.as_deref(), secrets) {
            Ok(contender) => {
                report.contenders.push(contender.facts().clone());
                contenders.push(contender);
            }
            Err(error) if name == ContenderName::Evener => return Err(error),
            Err(error) => {
                report.skipped.push(Skipped::new(format!("{name:?}").to_lowercase(), &error))
            }
        }
    }
    Ok(contenders)
}

fn run_tree(
    options: &TreeOptions,
    place: &Place,
    name: TreeName,
    contenders: &[Box<dyn Contender>],
    report: &mut TreeReport,
    watch: &mut Watch<'_>,
) -> Result<(), LabError> {
    let workload = Workload::named(name, options);
    let label = format!("{}: {workload}", place.name);
    watch.next(&label)?;
    let source = place.path("source");
    let listing = match workload.build(place, &source) {
        Ok(listing) => listing,
        Err(error @ LabError::Space { .. }) => {
            report.skipped.push(Skipped::new(label, &error));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let budget = Duration::from_secs(options.budget);
    let rounds = Rounds { place, source: &source, rounds: options.rounds, budget };
    let (copies, turns) = rounds.run(contenders, watch)?;
    remove(&source)?;

    let heading = report.add_tree(place, name, &workload, &listing);
    report.rows.push(Row::of_copy(&heading, &copies));
    for (contender, turns) in contenders.iter().zip(turns) {
        let facts = contender.facts();
        report.rows.extend(Row::of_turns(&heading, facts, "encrypt", &turns.encrypt));
        report.rows.extend(Row::of_turns(&heading, facts, "decrypt", &turns.decrypt));
        match turns.failure {
            Some(error) if facts.name == "evener" => return Err(error),
            Some(error) => {
                report.skipped.push(Skipped::new(format!("{}, {label}", facts.name), &error))
            }
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
