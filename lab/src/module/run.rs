//! Runs the rounds.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use evener_core::Engine;
use evener_pipeline::PolicyName;

use super::ModuleOptions;
use super::device::Device;
use super::modules::{Module, Turns};
use super::options::WorkKind;
use super::report::{Block, ModuleReport, Row};
use super::work::Work;
use crate::LabError;
use crate::watch::Watch;

/// Runs the benchmark. `progress` is called with each step.
///
/// # Errors
/// When an engine or the program does not exist, there is no room for the files, or a run did not
/// do all of its work.
pub fn run(
    options: &ModuleOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<ModuleReport, LabError> {
    let cpu = crate::find(&options.cpu).map_err(|it| LabError::Unavailable(it.to_string()))?;
    let mut watch = Watch::new(progress);
    let mut report = ModuleReport::new(options);
    let device = match Device::find(options) {
        Ok(device) => device,
        Err(reason) => {
            report.skipped.push(reason);
            None
        }
    };
    for &kind in &options.kinds {
        watch.next(&format!("{}: the cores alone, to size the work", kind.name()))?;
        let bytes_per_ms = speed(kind, options, &cpu)?;
        for &ms in &options.ms {
            let bytes = ((bytes_per_ms * ms as f64) as u64).max(1);
            let mut work = Work::new(kind, options.cipher, bytes, &options.at)?;
            report.blocks.push(measure(&mut work, (kind, ms), options, &cpu, &mut watch)?);
            if let (Some(device), false) = (&device, kind == WorkKind::Messages) {
                report.blocks.push(device.measure(&work, (kind, ms), options, &mut watch)?);
            }
        }
    }
    Ok(report)
}

/// The number of bytes that the cores alone process in 1 ms.
fn speed(kind: WorkKind, options: &ModuleOptions, cpu: &Arc<dyn Engine>) -> Result<f64, LabError> {
    let mut bytes = FIRST_BYTES;
    loop {
        let mut work = Work::new(kind, options.cipher, bytes, &options.at)?;
        let time = work.run(&[Arc::clone(cpu)], PolicyName::Pull)?;
        if time >= LONG_ENOUGH || bytes >= MOST_BYTES {
            return Ok(work.bytes() as f64 / (time.as_secs_f64() * 1e3));
        }
        bytes *= 4;
    }
}

/// Runs all rounds of one piece of work: the cores alone before every few of the modelled modules.
fn measure(
    work: &mut Work,
    (kind, ms): (WorkKind, u64),
    options: &ModuleOptions,
    cpu: &Arc<dyn Engine>,
    watch: &mut Watch<'_>,
) -> Result<Block, LabError> {
    let alone = [Arc::clone(cpu)];
    let cores = thread::available_parallelism().map_or(1, usize::from) as f64;
    // A core's time for 1 MiB, on which the module's time depends.
    let time = work.run(&alone, PolicyName::Pull)?;
    let core = time.mul_f64(cores * f64::from(1 << 20) / work.bytes() as f64);
    let all = Module::all(options).into_iter();
    let contenders: Vec<_> = all
        .flat_map(|module| options.policies.iter().map(move |&policy| (module, policy)))
        .collect();
    let (mut turns, mut by_cores) = (Turns::default(), Vec::new());
    let mut times = vec![Vec::new(); contenders.len()];
    for round in 0..options.rounds as usize {
        for turn in 0..contenders.len() {
            let index = (turn + round) % contenders.len();
            let (module, policy) = contenders[index];
            if turn % FEW == 0 {
                by_cores.push(work.run(&alone, PolicyName::Pull)?);
            }
            watch.next(&format!(
                "{}, {ms} ms, round {}: {module}, {policy}",
                kind.name(),
                round + 1
            ))?;
            times[index].push(turns.take(work, cpu, module, policy, core)?);
        }
    }
    let mut block = Block::new(kind, ms, work.bytes(), &options.cpu, &by_cores);
    block.task_ms = core.as_secs_f64() * 1e3 * work.task() as f64 / f64::from(1 << 20);
    for ((module, policy), times) in contenders.iter().zip(&times) {
        let row = Row::new(module.to_string(), *policy, times, block.bound_ms());
        block.rows.push(row);
    }
    Ok(block)
}

/// Enough time for an accurate speed.
const LONG_ENOUGH: Duration = Duration::from_millis(100);
const FIRST_BYTES: u64 = 1 << 20;
const MOST_BYTES: u64 = 1 << 28;
/// The number of modules' turns for each turn of the cores alone.
const FEW: usize = 4;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ModuleOptions,
    }

    #[test]
    fn every_kind_of_work_is_done_whole() {
        let at = std::env::temp_dir();
        let line = "module --ms 1 --opening 1 --slower 1 --hang none --rounds 1 --policy pull \
            --cipher aes-128-cbc --device none --at";
        let line = line.split_whitespace().map(std::ffi::OsString::from);
        let options = Line::parse_from(line.chain([at.into_os_string()])).options;
        let report = run(&options, &mut |_| {}).unwrap();
        let kinds: Vec<_> = report.blocks.iter().map(|block| block.kind).collect();
        assert_eq!(kinds, [WorkKind::Files, WorkKind::Pipe, WorkKind::Messages]);
        assert_eq!(report.runs(), 3 * 2);
        assert!(report.rows().all(|row| row.ms_median > 0.0), "{report}");
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let line = ["module", "--device", "enigma", "--program", "/nowhere/evener"];
        let reason = Device::find(&Line::parse_from(line).options).err().unwrap();
        assert!(reason.contains("enigma") && reason.contains("/nowhere/evener"), "{reason}");
    }
}
