//! Measures Evener's memory on the largest trees.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::contender::Contender;
use super::place::{Place, remove};
use super::rounds::{DECRYPTED, ENCRYPTED, Rounds};
use super::{TreeName, TreeOptions, Workload};
use crate::LabError;
use crate::watch::Watch;

/// Peak memory of one operation on a tree.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct MemoryRow {
    /// A description of the tree.
    pub tree: String,
    /// `encrypt` or `decrypt`.
    pub operation: &'static str,
    /// Wall time.
    pub seconds: f64,
    /// Peak resident set of the program.
    pub peak_rss_mib: f64,
}

/// Evener's guaranteed memory limit, in MiB.
pub(super) const BOUND_MIB: f64 = 256.0;

/// Measures `evener` on one large file and on a tree of very many small ones.
pub(super) fn measure(
    evener: &dyn Contender,
    options: &TreeOptions,
    place: &Place,
    watch: &mut Watch<'_>,
) -> Result<Vec<MemoryRow>, LabError> {
    let many = Workload::Files { count: options.many, length: 1 << 10, per_directory: 100 };
    let mut rows = Vec::new();
    for workload in [Workload::named(TreeName::Large, options), many] {
        watch.next(&format!("memory: {workload}"))?;
        let source = place.path("source");
        workload.build(place, &source)?;
        let rounds = Rounds { place, source: &source, rounds: 1, budget: Duration::MAX };

        let encrypt = |source: &Path, target: &Path| evener.encrypt(source, target);
        let decrypt = |source: &Path, target: &Path| evener.decrypt(source, target);
        let (encrypted, ciphertext) = rounds.measure(&source, ENCRYPTED, encrypt)?;
        let (decrypted, plaintext) = rounds.measure(&ciphertext, DECRYPTED, decrypt)?;
        rounds.check_whole(evener.facts().name, &plaintext)?;
        for (operation, cost) in [("encrypt", encrypted), ("decrypt", decrypted)] {
            rows.push(MemoryRow {
                tree: workload.to_string(),
                operation,
                seconds: cost.wall.as_secs_f64(),
                peak_rss_mib: cost.peak as f64 / 1024.0,
            });
        }
        for tree in [&source, &ciphertext, &plaintext] {
            remove(tree)?;
        }
    }
    Ok(rows)
}
