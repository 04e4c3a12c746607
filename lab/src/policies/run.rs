//! Runs the policies in turns.

use std::sync::Arc;
use std::time::Duration;

use evener_core::{Cipher, Direction, Engine, Kind};
use evener_engines::measure::{Plan, measure};
use evener_pipeline::costs::Costs;
use evener_pipeline::{PolicyName, RunOptions, RunStatistics, run as run_fed, run_filled};

use super::files::{Files, Processing};
use super::{PoliciesOptions, PoliciesReport, Row, Sizes};
use crate::done::{Amount, all_done};
use crate::pin::pin;
use crate::rival::dispatch;
use crate::statistics::median;
use crate::{LabError, Machine, Rival};

/// Runs the benchmark. `progress` is called with each step.
///
/// With [`PoliciesOptions::pin`] the calling thread stays on those cores for good.
///
/// # Errors
/// When an engine or core does not exist, or [`LabError::Differs`] when a policy's results differ
/// from OpenSSL's.
pub fn run(
    options: &PoliciesOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<PoliciesReport, LabError> {
    pin(&options.pin)?;
    let find =
        |name: &String| crate::find(name).map_err(|error| LabError::Unavailable(error.to_string()));
    let team = Team {
        cpu: find(&options.cpu)?,
        module: options.module.as_ref().map(find).transpose()?,
        options,
    };
    let both = [Direction::Encrypt, Direction::Decrypt];
    let directions =
        if options.directions.is_empty() { &both[..] } else { &options.directions[..] };
    let mut report = PoliciesReport::new("Policies side by side", team.facts());
    for &cipher in &options.ciphers {
        for &direction in directions {
            let policies = team.policies(cipher, direction, &mut report);
            let costs = match policies.contains(&PolicyName::Adaptive.into()) {
                true => team.costs(cipher, direction)?,
                false => Costs::default(),
            };
            for bytes in Sizes::all(&options.sizes) {
                if !policies.is_empty() {
                    progress(&format!("{cipher} {direction}, {bytes} bytes"));
                    let case = Case { cipher, direction, bytes, team: &team, costs: &costs };
                    report.add_rows(case.rows(&policies)?)?;
                }
            }
        }
    }
    Ok(report)
}

/// The engines.
struct Team<'a> {
    cpu: Arc<dyn Engine>,
    module: Option<Arc<dyn Engine>>,
    options: &'a PoliciesOptions,
}

impl Team<'_> {
    /// Facts that explain the figures.
    fn facts(&self) -> Vec<(String, String)> {
        let engine = |engine: &dyn Engine| {
            let description = engine.description();
            format!("{}: {}", description.name, description.detail)
        };
        let options = self.options;
        let module = self.module.as_deref().map_or_else(|| "none".to_owned(), engine);
        let mut facts = vec![
            ("Machine".to_owned(), Machine::look().to_string()),
            ("Processor".to_owned(), engine(&*self.cpu)),
            ("Module".to_owned(), module),
        ];
        for (name, workers) in [
            ("Processor's workers", options.cpu_workers),
            ("Module's workers", options.module_workers),
        ] {
            facts.extend(workers.map(|workers| (name.to_owned(), workers.to_string())));
        }
        let learning = "begins each run with a profile that was measured before the first";
        facts.push(("Adaptive policy".to_owned(), learning.to_owned()));
        if !options.pin.is_empty() {
            let cores: Vec<_> = options.pin.iter().map(usize::to_string).collect();
            facts.push(("Kept on core".to_owned(), cores.join(", ")));
        }
        facts
    }

    /// The engines of the workers, one entry for each.
    fn seats(&self, cipher: Cipher, direction: Direction) -> Vec<Arc<dyn Engine>> {
        let module = self.module.iter().map(|module| (module, self.options.module_workers));
        let engines = std::iter::once((&self.cpu, self.options.cpu_workers)).chain(module);
        let seats = engines.flat_map(|(engine, workers)| {
            let likes = engine.offer(cipher, direction).map_or(0, |offer| offer.depth);
            let workers = if likes == 0 { 0 } else { workers.map_or(likes, usize::from) };
            std::iter::repeat_n(Arc::clone(engine), workers)
        });
        seats.collect()
    }

    /// The engines' costs at the sizes, measured like `evener engines --measure`.
    fn costs(&self, cipher: Cipher, direction: Direction) -> Result<Costs, LabError> {
        let engines = std::iter::once(&self.cpu).chain(&self.module);
        let engines: Vec<&dyn Engine> = engines.map(|engine| &**engine).collect();
        let sizes = Sizes::all(&self.options.sizes);
        let plan = Plan { sizes, time: PROFILE_TIME, rounds: 3, ..Plan::new(cipher, direction) };
        let unavailable =
            |error: evener_core::EngineError| LabError::Unavailable(error.to_string());
        let profile = measure("this machine", &engines, &plan).map_err(unavailable)?;
        Ok(Costs::from_profile(&profile))
    }

    /// The policies that have workers; the report lists the others.
    fn policies(
        &self,
        cipher: Cipher,
        direction: Direction,
        report: &mut PoliciesReport,
    ) -> Vec<Rival> {
        let seats = self.seats(cipher, direction);
        let wanted = &self.options.policies;
        let wanted = if wanted.is_empty() { Rival::ALL } else { wanted };
        let (able, unable): (Vec<_>, Vec<_>) = wanted.iter().partition(|policy: &&Rival| {
            seats.iter().any(|engine| policy.admits(engine.description().kind))
        });
        let why = |policy| format!("{policy}, {cipher} {direction}: no engine here has it");
        report.skipped.extend(unable.into_iter().map(why));
        able
    }
}

/// One cipher, direction and size.
struct Case<'a> {
    cipher: Cipher,
    direction: Direction,
    bytes: usize,
    team: &'a Team<'a>,
    /// The initial costs of the adaptive policy.
    costs: &'a Costs,
}

impl Case<'_> {
    /// Runs the policies in turns; each round starts with a different one.
    fn rows(&self, policies: &[Rival]) -> Result<Vec<Row>, LabError> {
        let &Case { cipher, direction, bytes, team, costs } = self;
        let count = team.options.files as usize;
        let seats = team.seats(cipher, direction);
        let mut files = Files::new(cipher, direction, bytes, count)?;
        let mut turns = vec![Vec::new(); policies.len()];
        for run in 0..team.options.runs as usize {
            for turn in 0..policies.len() {
                let index = (turn + run) % policies.len();
                turns[index].push(take_turn(policies[index], &seats, costs, &mut files)?);
            }
        }
        let rows = policies.iter().zip(&turns);
        Ok(rows.map(|(policy, turns)| self.row(*policy, turns)).collect())
    }

    fn row(&self, policy: Rival, turns: &[Turn]) -> Row {
        let runs = turns.len() as f64;
        let ms: Vec<f64> = turns.iter().map(|turn| turn.ms).collect();
        let mean = |figures: &mut dyn Iterator<Item = f64>| figures.sum::<f64>() / runs;
        Row {
            bytes: self.bytes,
            policy: policy.to_string(),
            cipher: self.cipher.to_string(),
            direction: self.direction.to_string(),
            files: self.team.options.files.into(),
            runs: turns.len() as u64,
            ms_mean: mean(&mut ms.iter().copied()),
            ms_median: median(&ms).unwrap_or_default(),
            ms_min: ms.iter().copied().fold(f64::INFINITY, f64::min),
            ms_max: ms.iter().copied().fold(0.0, f64::max),
            files_cpu: mean(&mut turns.iter().map(|turn| turn.files_cpu as f64)),
            files_module: mean(&mut turns.iter().map(|turn| turn.files_module as f64)),
        }
    }
}

/// One policy's figures in one run.
#[derive(Clone, Debug)]
struct Turn {
    ms: f64,
    files_cpu: u64,
    files_module: u64,
}

fn take_turn(
    policy: Rival,
    seats: &[Arc<dyn Engine>],
    costs: &Costs,
    files: &mut Files,
) -> Result<Turn, LabError> {
    let Files { cipher, direction, .. } = *files;
    let seats: Vec<_> = seats
        .iter()
        .filter(|engine| policy.admits(engine.description().kind))
        .map(Arc::clone)
        .collect();
    let processing = Processing::new(cipher, direction);
    let jobs = files.jobs();
    let mut options = RunOptions::new(policy, cipher, direction, jobs.len());
    options.ignores_burden = policy.ignores_burden();
    options.costs = costs.clone();
    let statistics = match policy {
        Rival::Polling => run_fed(&seats, &options, &processing, |queue| dispatch(queue, jobs)),
        _ => run_filled(&seats, &options, &processing, jobs),
    };
    processing.result()?;
    if !files.are_right() {
        return Err(LabError::Differs { contender: policy.name(), cipher });
    }
    let [files_cpu, files_module] =
        [Kind::Cpu, Kind::Module].map(|kind| units(&statistics, &seats, kind));
    let done = Amount::of(files_cpu + files_module, files.bytes());
    let run = format!("{policy}, {cipher} {direction}, {} bytes", files.bytes());
    all_done(&run, done, Amount::of(files.count() as u64, files.bytes()))?;
    Ok(Turn { ms: statistics.wall.as_secs_f64() * 1e3, files_cpu, files_module })
}

/// The number of files that engines of a kind did.
fn units(statistics: &RunStatistics, seats: &[Arc<dyn Engine>], kind: Kind) -> u64 {
    let workers = statistics.workers.iter();
    let of_kind = workers.filter(|worker| {
        let engine = seats.get(worker.worker);
        engine.is_some_and(|engine| engine.description().kind == kind)
    });
    of_kind.map(|worker| worker.units).sum()
}

/// Measuring time per engine and size in each round.
const PROFILE_TIME: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: PoliciesOptions,
    }

    #[test]
    fn every_policy_does_every_file() {
        let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/reference/am3358-profile-aes128.json");
        let module = format!("model:{profile}#module");
        let line = ["policies", "--sizes", "8,100", "--files", "40", "--runs", "2", "--module"];
        let options = Line::parse_from(line.into_iter().chain([module.as_str()])).options;
        let report = run(&options, &mut |_| {}).unwrap();
        // The modelled module only encrypts.
        assert_eq!(report.rows().len(), 2 * (2 * Rival::ALL.len() - 1));
        for row in report.rows() {
            assert_eq!((row.files, row.files_cpu + row.files_module), (40, 40.0), "{row:?}");
            assert!(row.ms_min <= row.ms_median && row.ms_median <= row.ms_max, "{row:?}");
        }
        assert_eq!(report.skipped.len(), 1);
        assert!(report.skipped[0].starts_with("module-only, aes-128-cbc decrypt"));
    }

    #[test]
    fn an_engine_that_is_not_there_is_named() {
        let options = Line::parse_from(["policies", "--module", "enigma"]).options;
        let error = run(&options, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("enigma"), "{error}");
    }
}
