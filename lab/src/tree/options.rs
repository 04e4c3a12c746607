//! The benchmark's options.

use std::path::PathBuf;

use clap::Args;

use super::{ContenderName, TreeName};

/// The benchmark's options. The defaults are those of the published figures.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct TreeOptions {
    /// Build the trees below this directory; repeatable
    #[arg(long = "at", value_name = "DIR", default_values = ["/dev/shm", "/var/tmp"])]
    pub places: Vec<PathBuf>,
    /// Tree to encrypt; repeatable
    #[arg(long = "tree", value_name = "TREE", value_enum,
          default_values = ["small", "large", "mixed"])]
    pub trees: Vec<TreeName>,
    /// The real directory that the mixed tree is a copy of
    #[arg(long, value_name = "DIR", default_value = "/usr/share/doc")]
    pub mixed: PathBuf,
    /// Contender besides `cp -r`; repeatable [default: Evener and all installed rivals]
    #[arg(long = "contender", value_name = "NAME", value_enum)]
    pub contenders: Vec<ContenderName>,
    /// Number of rounds; each contender runs once in a round
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Time limit in seconds per contender and tree; after it, the contender takes part in no
    /// further round
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub budget: u64,
    /// The `evener` program to measure [default: the one beside this program, otherwise the one on
    /// the PATH]
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// Number of files of 16 KiB in the small and the flat tree
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    pub files: u64,
    /// Size of the large file
    #[arg(long, value_name = "MIB", default_value_t = 1_024)]
    pub large: u64,
    /// Number of files of the tree for the memory measurement; 0 skips it
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub many: u64,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: TreeOptions,
    }

    #[test]
    fn everything_has_a_default() {
        let options = Line::parse_from(["tree"]).options;
        assert_eq!(options.places.len(), 2);
        assert_eq!(options.trees, [TreeName::Small, TreeName::Large, TreeName::Mixed]);
        assert!(options.contenders.is_empty());
        assert_eq!((options.files, options.large, options.rounds), (4_000, 1_024, 5));
    }

    #[test]
    fn no_rounds_are_refused() {
        assert!(Line::try_parse_from(["tree", "--rounds", "0"]).is_err());
    }
}
