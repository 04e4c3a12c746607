//! The benchmark's options.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

/// The benchmark's options. The defaults are those of the published figures.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct TlsOptions {
    /// Contender besides `default`, which is OpenSSL alone: `evener`, or any name with a
    /// configuration of OpenSSL that `evener tls config --counters COUNTERS` wrote; repeatable
    #[arg(long = "contender", value_name = "NAME[=FILE]", default_values = [EVENER])]
    pub contenders: Vec<Named>,
    /// Cipher to measure; the CBC ciphers (not in TLS 1.3) use encrypt-then-MAC
    #[arg(long = "cipher", value_name = "NAME", value_enum, value_delimiter = ',',
          default_values = ["aes-128-gcm"], ignore_case = true)]
    pub suites: Vec<Suite>,
    /// Version of TLS
    #[arg(long = "tls", value_name = "VERSION", value_enum, value_delimiter = ',',
          default_values = ["1.3"])]
    pub versions: Vec<Version>,
    /// Bytes of a body
    #[arg(long = "bytes", value_name = "N", value_delimiter = ',',
          default_values = ["1024", "16384", "1048576", "67108864"],
          value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub lengths: Vec<u64>,
    /// Numbers of connections at once
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "16", "256"],
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub connections: Vec<u16>,
    /// Reuse a connection for many requests (yes), or make one for each request (no)
    #[arg(long, value_name = "YES,NO", value_delimiter = ',', default_values = ["yes", "no"],
          value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub keep_alive: Vec<bool>,
    /// Number of rounds; each contender takes a turn at each case in a round
    #[arg(long, value_name = "N", default_value_t = 11,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Time after which a turn starts no further request
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    pub seconds: f64,
    /// Leave out cases in which the bodies of all connections together exceed this
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub most: u64,
    /// Number of nginx's workers
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// User of nginx's workers if root starts it [default: nobody]
    #[arg(long, value_name = "NAME", value_parser = user_name)]
    pub server_user: Option<String>,
    /// Bytes of text in a record of a long body (nginx's `ssl_buffer_size`)
    #[arg(long = "record", value_name = "N", default_value_t = 16_384,
          value_parser = clap::value_parser!(u16).range(512..=16_384))]
    pub record: u16,
    /// Run nginx on these cores, numbered from 0
    #[arg(long, value_name = "CORES", value_delimiter = ',', requires = "client_cores")]
    pub server_cores: Vec<usize>,
    /// Run the client on these cores
    #[arg(long, value_name = "CORES", value_delimiter = ',', requires = "server_cores")]
    pub client_cores: Vec<usize>,
    /// Number of measured process starts (`openssl version`); 0 skips them
    #[arg(long, value_name = "N", default_value_t = 101,
          value_parser = clap::value_parser!(u32).range(..=1000))]
    pub starts: u32,
    /// The program nginx [default: the one on the PATH or in /usr/sbin]
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// The program evener [default: the one beside this program, otherwise the one on the PATH]
    #[arg(long, value_name = "PATH")]
    pub evener: Option<PathBuf>,
    /// The provider, evener.so [default: where `make install-tls` puts it]
    #[arg(long, value_name = "FILE")]
    pub provider: Option<PathBuf>,
}

/// A contender, as on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Named {
    /// Its name in the report.
    pub name: String,
    /// Its configuration of OpenSSL; without one, it is Evener as installed.
    pub configuration: Option<PathBuf>,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Named, String> {
        let (name, configuration) = match text.split_once('=') {
            Some((name, file)) => (name, Some(PathBuf::from(file))),
            None => (text, None),
        };
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_".contains(char);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err("a name has letters, digits, - and _ only".to_owned());
        }
        if name == DEFAULT {
            return Err(format!("`{DEFAULT}` always takes part"));
        }
        if configuration.is_none() && name != EVENER {
            return Err(format!("name its configuration: {name}=FILE"));
        }
        Ok(Named { name: name.to_owned(), configuration })
    }
}

/// A cipher of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variants are the ciphers' names")]
pub enum Suite {
    #[value(name = "aes-128-gcm")]
    #[serde(rename = "aes-128-gcm")]
    Aes128Gcm,
    #[value(name = "aes-256-gcm")]
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm,
    #[value(name = "aes-128-cbc-sha")]
    #[serde(rename = "aes-128-cbc-sha")]
    Aes128CbcSha,
    #[value(name = "aes-128-cbc-sha256")]
    #[serde(rename = "aes-128-cbc-sha256")]
    Aes128CbcSha256,
    #[value(name = "aes-256-cbc-sha384")]
    #[serde(rename = "aes-256-cbc-sha384")]
    Aes256CbcSha384,
}

impl Suite {
    /// OpenSSL's name of the cipher; `None` if the version lacks it.
    pub(super) fn name(self, version: Version) -> Option<&'static str> {
        Some(match (self, version) {
            (Suite::Aes128Gcm, Version::Tls12) => "ECDHE-ECDSA-AES128-GCM-SHA256",
            (Suite::Aes256Gcm, Version::Tls12) => "ECDHE-ECDSA-AES256-GCM-SHA384",
            (Suite::Aes128Gcm, Version::Tls13) => "TLS_AES_128_GCM_SHA256",
            (Suite::Aes256Gcm, Version::Tls13) => "TLS_AES_256_GCM_SHA384",
            (Suite::Aes128CbcSha, Version::Tls12) => "ECDHE-ECDSA-AES128-SHA",
            (Suite::Aes128CbcSha256, Version::Tls12) => "ECDHE-ECDSA-AES128-SHA256",
            (Suite::Aes256CbcSha384, Version::Tls12) => "ECDHE-ECDSA-AES256-SHA384",
            (_, Version::Tls13) => return None,
        })
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Suite::Aes128Gcm => "aes-128-gcm",
            Suite::Aes256Gcm => "aes-256-gcm",
            Suite::Aes128CbcSha => "aes-128-cbc-sha",
            Suite::Aes128CbcSha256 => "aes-128-cbc-sha256",
            Suite::Aes256CbcSha384 => "aes-256-cbc-sha384",
        })
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variants are the versions' names")]
pub enum Version {
    #[value(name = "1.2")]
    #[serde(rename = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    #[serde(rename = "1.3")]
    Tls13,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Version::Tls12 => "TLS 1.2",
            Version::Tls13 => "TLS 1.3",
        })
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.01 to 600".to_owned()),
    }
}

fn user_name(text: &str) -> Result<String, String> {
    // Other characters may have a meaning in nginx's configuration.
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("not a user's name of letters, digits and `_-.`".to_owned()),
    }
}

/// OpenSSL with the system's configuration: the reference for the other contenders.
pub(super) const DEFAULT: &str = "default";
/// OpenSSL with the configuration that `evener tls config` writes.
const EVENER: &str = "evener";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: TlsOptions,
    }

    #[test]
    fn everything_has_a_default() {
        let options = Line::parse_from(["tls"]).options;
        assert_eq!(options.lengths, [1 << 10, 1 << 14, 1 << 20, 1 << 26]);
        assert_eq!(
            (options.connections, options.keep_alive),
            (vec![1, 16, 256], vec![true, false])
        );
        assert_eq!(
            (options.suites, options.versions),
            (vec![Suite::Aes128Gcm], vec![Version::Tls13])
        );
        assert_eq!(options.contenders, ["evener".parse().unwrap()]);
        assert!(options.rounds >= 11);
    }

    #[test]
    fn lists_and_contenders_are_read() {
        let line =
            ["tls", "--contender", "evener", "--contender", "module=/m.cnf", "--tls", "1.2,1.3"];
        let more = ["--cipher", "AES-128-GCM,aes-256-gcm", "--bytes", "1,2", "--keep-alive", "no"];
        let options = Line::parse_from([&line[..], &more].concat()).options;
        let configuration = Some(PathBuf::from("/m.cnf"));
        assert_eq!(options.contenders[1], Named { name: "module".to_owned(), configuration });
        assert_eq!((options.versions.len(), options.suites.len()), (2, 2));
        assert_eq!((options.lengths, options.keep_alive), (vec![1, 2], vec![false]));
    }

    #[test]
    fn nonsense_is_refused() {
        for (option, value) in [
            ("--contender", "default"),
            ("--contender", "module"),
            ("--contender", "../up=/m.cnf"),
            ("--bytes", "0"),
            ("--connections", "257"),
            ("--cipher", "aes-128-cbc"),
            ("--tls", "1.1"),
            ("--seconds", "NaN"),
            ("--rounds", "0"),
            ("--server-cores", "0"),
        ] {
            assert!(Line::try_parse_from(["tls", option, value]).is_err(), "{option} {value}");
        }
    }
}
