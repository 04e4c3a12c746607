//! A profile as a table.

use std::fmt::Write;

use evener::engines::{Point, Profile};

/// Lists the costs by size for every engine and number of workers.
pub(super) fn table(profile: &Profile) -> String {
    let mut table = String::new();
    // Writing to a string does not fail.
    let Profile { machine, cipher, direction, .. } = profile;
    let _ = writeln!(table, "{machine}: {direction} {cipher}, microseconds a job\n");
    let _ = writeln!(
        table,
        "{:<32} {:>7} {:>9} {:>12} {:>12} {:>12}",
        "engine", "workers", "bytes", "wall", "cpu", "hidden"
    );
    for engine in &profile.engines {
        for (workers, points) in engine.by_workers() {
            for Point { bytes, wall_us, cpu_us, hidden_us } in points {
                let name = &engine.name;
                let _ = writeln!(
                    table,
                    "{name:<32} {workers:>7} {bytes:>9} {wall_us:>12.3} {cpu_us:>12.3} {hidden_us:>12.3}"
                );
            }
        }
    }
    table
}
