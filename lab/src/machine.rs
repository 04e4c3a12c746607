//! The machine that a benchmark ran on.

use std::fmt;
use std::fs;
use std::thread;

use rustix::system::uname;
use serde::{Deserialize, Serialize};

/// The machine's properties that explain a benchmark's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Machine {
    /// The CPU's model, as the kernel names it.
    pub cpu: String,
    /// The number of threads that can run at once.
    pub cores: usize,
    /// The CPU's instructions for encryption and wide vectors, as the kernel names them.
    pub cpu_features: Vec<String>,
    /// Main memory, in MiB.
    pub memory_mib: u64,
    /// The operating system and its version.
    pub kernel: String,
}

impl Machine {
    /// Reads this machine's properties. Unknown ones are empty or 0.
    pub fn look() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let system = uname();
        Machine {
            cpu: field(&cpuinfo, &["model name", "Model"]).unwrap_or_default().to_owned(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            cpu_features: features(field(&cpuinfo, &["flags", "Features"]).unwrap_or_default()),
            memory_mib: field(&meminfo, &["MemTotal"]).and_then(kibibytes).unwrap_or(0) / 1024,
            kernel: format!(
                "{} {}",
                system.sysname().to_string_lossy(),
                system.release().to_string_lossy()
            ),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cpu, cores, cpu_features, memory_mib, kernel } = self;
        let features = cpu_features.join(" ");
        write!(f, "{cpu}, {cores} cores, {memory_mib} MiB, {kernel}, {features}")
    }
}

/// Returns the value of the first of `names` that occurs in `text`, lines of `name : value`.
fn field<'a>(text: &'a str, names: &[&str]) -> Option<&'a str> {
    let value = |wanted: &&str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(name, _)| name.trim() == *wanted).map(|(_, value)| value.trim())
    };
    names.iter().find_map(value)
}

fn features(flags: &str) -> Vec<String> {
    let interesting = |flag: &&str| FEATURES.contains(flag);
    flags.split_whitespace().filter(interesting).map(str::to_owned).collect()
}

fn kibibytes(value: &str) -> Option<u64> {
    value.split_whitespace().next()?.parse().ok()
}

/// Instruction sets of x86 and of ARM.
const FEATURES: &[&str] = &[
    "aes",
    "pclmulqdq",
    "avx2",
    "avx512f",
    "vaes",
    "vpclmulqdq",
    "sha_ni",
    "asimd",
    "pmull",
    "sve",
    "sha2",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let text = "processor : 0\nmodel name\t: A CPU: fast\nflags : fpu aes sse vaes\n";
        assert_eq!(field(text, &["Model", "model name"]), Some("A CPU: fast"));
        assert_eq!(features(field(text, &["flags"]).unwrap()), ["aes", "vaes"]);
        assert_eq!(kibibytes("2048 kB"), Some(2048));
    }

    #[test]
    fn this_machine_has_cores() {
        assert!(Machine::look().cores > 0);
    }
}
