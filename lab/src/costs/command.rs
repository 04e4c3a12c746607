//! The command that draws the costs.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use evener_core::Profile;

use super::chart;
use crate::LabError;

/// `evener-lab chart`.
#[derive(Args, Clone, Debug)]
pub struct Command {
    /// The profile
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// The file to draw to, as SVG
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

impl Command {
    /// Reads the profile and draws it.
    ///
    /// # Errors
    /// When the profile can't be read or is not valid, or the drawing can't be written.
    pub fn run(&self) -> Result<(), LabError> {
        let path = &self.profile;
        let text = fs::read_to_string(path).map_err(LabError::file("read", path))?;
        let profile: Profile =
            text.parse().map_err(|error| LabError::Profile { path: path.clone(), error })?;
        fs::write(&self.output, chart::svg(&profile)).map_err(LabError::file("write", &self.output))
    }
}
