//! The benchmark's options.

use clap::Args;
use evener_core::Cipher;
use evener_gate::Discipline;

use crate::values;

/// The benchmark's options. The defaults are those of the UltraSPARC paper.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct ProcessesOptions {
    /// Numbers of processes
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = positive,
          default_values = ["1", "8", "64", "256", "500", "1000", "2000"])]
    pub processes: Vec<usize>,
    /// Engine to measure; repeatable
    #[arg(long = "engine", value_name = "NAME", default_values = ["openssl"],
          value_parser = values::engine(), hide_possible_values = true)]
    pub engines: Vec<String>,
    /// Discipline of the gate: fifo, lists or none
    #[arg(long = "gate", value_name = "DISCIPLINE", value_delimiter = ',',
          default_values = ["none", "lists", "fifo"], value_parser = values::discipline(),
          hide_possible_values = true)]
    pub disciplines: Vec<Discipline>,
    /// Number of permits [default: for `fifo`, as many as the engine serves, or one more than there
    /// are cores for CPU engines; for `lists`, the paper's 64, or as many as the engine reports]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub permits: Option<usize>,
    /// The cipher
    #[arg(long, value_name = "CIPHER", default_value = "aes-128-cbc",
          value_parser = values::cipher(), ignore_case = true, hide_possible_values = true)]
    pub cipher: Cipher,
    /// Number of messages of each process
    #[arg(long, value_name = "N", default_value = "1024", value_parser = positive)]
    pub messages: usize,
    /// The length of a message
    #[arg(long, value_name = "BYTES", default_value = "10240", value_parser = positive)]
    pub length: usize,
    /// Number of rounds; the figures are means over them
    #[arg(long, value_name = "N", default_value = "10", value_parser = positive)]
    pub rounds: usize,
    /// Time limit; processes that have not ended by then count as failed
    #[arg(long, value_name = "SECONDS", default_value = "600")]
    pub limit: u64,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 is needed".into()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ProcessesOptions,
    }

    #[test]
    fn defaults_are_the_papers() {
        let options = Line::parse_from(["processes"]).options;
        assert_eq!(options.processes, [1, 8, 64, 256, 500, 1000, 2000]);
        assert_eq!((options.messages, options.length, options.rounds), (1024, 10240, 10));
        assert_eq!(options.cipher, Cipher::Aes128Cbc);
        assert_eq!(options.disciplines, [Discipline::None, Discipline::Lists, Discipline::Fifo]);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Line::try_parse_from(["processes", "--processes", "8,0"]).is_err());
        assert!(Line::try_parse_from(["processes", "--gate", "lifo"]).is_err());
    }
}
