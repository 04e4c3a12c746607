//! Evener's settings for sharing the cores with the foreground program.

use std::fmt;

use evener_pipeline::Courtesy;

/// A setting for sharing the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// The default.
    Normal,
    /// With `--background`.
    Background,
    /// With `--background`, but only its scheduling class.
    ClassOnly,
    /// With `--max-cpu` and this percentage.
    MaxCpu(u8),
}

impl Setting {
    /// The setting as options of a run.
    pub(super) fn courtesy(self) -> Courtesy {
        let courtesy = Courtesy::default();
        match self {
            Setting::Normal => courtesy,
            Setting::Background | Setting::ClassOnly => {
                Courtesy { in_background: true, ..courtesy }
            }
            Setting::MaxCpu(percent) => Courtesy { most_cpu: Some(percent), ..courtesy },
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Normal => f.pad("normal"),
            Setting::Background => f.pad("--background"),
            Setting::ClassOnly => f.pad("class only"),
            Setting::MaxCpu(percent) => f.pad(&format!("--max-cpu {percent}")),
        }
    }
}
