//! Look-ups in shared memory, the main work of AES.

use std::collections::HashMap;

use evener_core::EngineError;

use super::Bare;
use crate::NAME;
use crate::device::Argument::{Buffer, U32};
use crate::device::{DeviceError, Launch};
use crate::kernels::{self, Form};
use crate::sys::{Channel, Sizes};

/// The highest throughput of shared memory: words of 4 bytes, looked up without bank conflicts.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Lookups {
    /// For all units together, by the device's time.
    pub words_per_second: f64,
    /// For one unit, by its own clock, the median of all units. `None` if the backend has no such
    /// clock.
    pub words_per_clock: Option<f64>,
}

impl Bare {
    /// Measures look-ups in shared memory `rounds` times, and compares every result.
    ///
    /// # Errors
    /// When the device fails, or a result is wrong.
    pub fn lookups(&self, rounds: usize) -> Result<Lookups, EngineError> {
        let mut chains = Chains::open(self).map_err(|error| error.of(NAME))?;
        let mut measured = Vec::new();
        for _ in 0..rounds.max(1) {
            measured.push(chains.run().map_err(|error| error.of(NAME))?);
        }
        let median = |mut figures: Vec<f64>| {
            figures.sort_by(f64::total_cmp);
            figures.get(figures.len() / 2).copied()
        };
        Ok(Lookups {
            words_per_second: median(measured.iter().map(|run| run.words_per_second).collect())
                .unwrap_or_default(),
            words_per_clock: median(
                measured.iter().filter_map(|run| run.words_per_clock).collect(),
            ),
        })
    }
}

/// The kernel, and the parameters for starting it.
struct Chains {
    channel: Channel,
    form: Form,
    groups: u32,
    steps: u32,
}

impl Chains {
    fn open(bare: &Bare) -> Result<Chains, DeviceError> {
        let form = kernels::form("shared_chains", false);
        let groups = bare.device.properties().usable_units() * form.groups;
        let arena = results_at(groups) + groups as usize * form.group_size as usize * 4;
        let channel =
            Channel::open(&*bare.device, Sizes { host: arena, arena, keys: 256, scratch: 256 })?;
        let mut chains = Chains { channel, form, groups, steps: 1 << 8 };
        // Doubles the steps until a run is long enough to measure.
        while chains.start()? < LEAST_SECONDS && chains.steps < MOST_STEPS {
            chains.steps *= 2;
        }
        Ok(chains)
    }

    /// Runs the kernel, and returns its time in seconds.
    fn start(&mut self) -> Result<f64, DeviceError> {
        let output = self.channel.buffers().output;
        let Form { name: kernel, group_size, dynamic_shared, .. } = self.form;
        self.channel.begin_timing()?;
        let arguments = [Buffer(output), U32(self.steps)];
        let groups = self.groups;
        self.channel.launch(&Launch {
            kernel,
            groups,
            group_size,
            dynamic_shared,
            arguments: &arguments,
        })?;
        Ok(self.channel.end_timing()?.max(1e-9))
    }

    fn run(&mut self) -> Result<Lookups, DeviceError> {
        let (groups, threads) = (self.groups as usize, self.form.group_size);
        let bytes = results_at(self.groups) + groups * threads as usize * 4;
        self.channel.zero(self.channel.buffers().output, bytes)?;
        let seconds = self.start()?;
        self.channel.download(0..bytes)?;
        let steps = self.steps;
        let results = &*self.channel.arena()?;
        let (times, sums) = results[..bytes].split_at(results_at(self.groups));
        let due: Vec<u8> =
            (0..threads).flat_map(|thread| sum(thread, steps).to_le_bytes()).collect();
        if sums.chunks_exact(due.len()).any(|group| group != due) {
            let words = "it looks up wrongly".to_owned();
            return Err(DeviceError::Other { doing: "measuring shared memory", words });
        }
        let of_a_group = f64::from(threads) * f64::from(CHAINS) * f64::from(steps);
        Ok(Lookups {
            words_per_second: of_a_group * groups as f64 / seconds,
            words_per_clock: words_per_clock(times, of_a_group),
        })
    }
}

/// The words of a unit in a clock, from each group's output: the unit's clock before and after, and
/// the unit's number.
fn words_per_clock(times: &[u8], of_a_group: f64) -> Option<f64> {
    let mut units: HashMap<u64, (u64, u64, f64)> = HashMap::new();
    for group in times.chunks_exact(TIMES) {
        let number = |index: usize| {
            let bytes = group[8 * index..8 * index + 8].try_into();
            bytes.map_or(0, u64::from_le_bytes)
        };
        let (begun, ended) = (number(0), number(1));
        let unit = units.entry(number(2)).or_insert((begun, ended, 0.0));
        *unit = (unit.0.min(begun), unit.1.max(ended), unit.2 + of_a_group);
    }
    let rates = units.values().filter(|(begun, ended, _)| ended > begun);
    let mut rates: Vec<_> =
        rates.map(|(begun, ended, words)| words / (ended - begun) as f64).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

/// The sum that a thread writes (`kernels/shared.cl`).
fn sum(thread: u32, steps: u32) -> u32 {
    let end = |chain: u32| {
        let start = (thread * 7 + chain * 31) & 255;
        // The words come in a cycle of 256.
        let number = (0..steps % 256).fold(start, |number, _| (number * 77 + 13) & 255);
        (number * LANES + thread % LANES) * 4
    };
    (0..CHAINS).map(end).fold(0, u32::wrapping_add)
}

/// The offset of the threads' sums, in bytes.
fn results_at(groups: u32) -> usize {
    groups as usize * TIMES
}

/// Bytes of a group's clock readings.
const TIMES: usize = 24;
/// Chains of a thread, and copies of a table's word (`kernels/shared.cl` and `common.cl`).
const CHAINS: u32 = 8;
const LANES: u32 = 32;
/// The least time of a run, and its most steps.
const LEAST_SECONDS: f64 = 2e-3;
const MOST_STEPS: u32 = 1 << 16;
