//! Values that options take by name. Completions know the names, and an error suggests the
//! nearest one.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use evener::gate::Discipline;
use evener::{Cipher, Direction, Mode, PolicyName, UnknownPolicy};

/// A cipher, in upper or lower case if the option ignores case.
pub fn cipher() -> impl TypedValueParser<Value = Cipher> {
    cipher_of(Cipher::ALL)
}

/// A cipher of `openssl enc`, under any of its names there.
pub fn cipher_of_openssl_enc() -> impl TypedValueParser<Value = Cipher> {
    // Completions omit ciphers that its files can't use; an error says so for each.
    let is_other =
        |cipher: &&Cipher| matches!(cipher.mode(), Mode::Gcm | Mode::Poly1305 | Mode::Xts);
    let others: Vec<_> = Cipher::ALL.iter().filter(is_other).map(|cipher| cipher.name()).collect();
    let value = |name| PossibleValue::new(name).hide(others.contains(&name));
    PossibleValuesParser::new(Cipher::names_of_openssl_enc().map(value))
        .try_map(|name| Cipher::of_openssl_enc(&name))
}

/// One of these ciphers.
pub fn cipher_of(ciphers: &'static [Cipher]) -> impl TypedValueParser<Value = Cipher> {
    let names = ciphers.iter().map(|cipher| cipher.name());
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

/// `encrypt` or `decrypt`.
pub fn direction() -> impl TypedValueParser<Value = Direction> {
    PossibleValuesParser::new(["encrypt", "decrypt"]).map(|name| match &name[..] {
        "encrypt" => Direction::Encrypt,
        _ => Direction::Decrypt,
    })
}

/// A policy. The names of earlier policies get an error that tells what to write instead.
pub fn policy() -> impl TypedValueParser<Value = PolicyName> {
    let names = PolicyName::ALL.iter().map(|policy| PossibleValue::new(policy.name()));
    let former = FORMER_POLICIES.iter().map(|(name, _)| PossibleValue::new(name).hide(true));
    PossibleValuesParser::new(names.chain(former)).try_map(|name| {
        match FORMER_POLICIES.iter().find(|(former, _)| *former == name) {
            Some((_, instead)) => Err((*instead).to_owned()),
            None => name.parse().map_err(|error: UnknownPolicy| error.to_string()),
        }
    })
}

/// Policies of earlier versions, and what has their effect now.
const FORMER_POLICIES: [(&str, &str); 3] = [
    (
        "cpu-only",
        "this policy is gone: name only engines of the processor, as in `--engine openssl`",
    ),
    ("module-only", "this policy is gone: name only modules, as in `--engine cryptodev`"),
    (
        "round-robin",
        "this policy is gone: name all engines that are to work, as in `--engine openssl --engine \
         cryptodev --policy pull`",
    ),
];

/// The order in which the gate admits processes.
pub fn discipline() -> impl TypedValueParser<Value = Discipline> {
    let names = Discipline::ALL.iter().map(|discipline| discipline.name());
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

/// An engine: a name of the registry, alone or followed by `:` and parameters. The registry itself
/// reports unknown engines.
pub fn engine() -> impl TypedValueParser<Value = String> {
    EngineName { others: &[] }
}

/// Like [`engine`], with names that are not in the registry.
pub fn engine_or(others: &'static [&'static str]) -> impl TypedValueParser<Value = String> {
    EngineName { others }
}

/// A message's length, limited to bound memory.
///
/// # Errors
/// The reason, as text.
pub fn message_length(text: &str) -> Result<usize, String> {
    up_to(LONGEST, text)
}

/// A number of threads.
///
/// # Errors
/// The reason, as text.
pub fn threads(text: &str) -> Result<usize, String> {
    up_to(MOST_THREADS, text)
}

fn up_to(most: usize, text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("not a number from 1 to {most}"))
}

/// The limit in bytes. Each thread has several messages of this length.
const LONGEST: usize = 16 << 20;
const MOST_THREADS: usize = 1024;

#[derive(Clone, Debug)]
struct EngineName {
    others: &'static [&'static str],
}

impl TypedValueParser for EngineName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = evener::engines::names().chain(self.others.iter().copied());
        Some(Box::new(names.map(PossibleValue::new)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[arg(long, value_parser = cipher(), ignore_case = true)]
        cipher: Option<Cipher>,
        #[arg(long, value_parser = policy())]
        policy: Option<PolicyName>,
        #[arg(long, value_parser = discipline())]
        gate: Option<Discipline>,
        #[arg(long, value_parser = engine())]
        engine: Option<String>,
    }

    #[test]
    fn a_near_miss_is_answered_with_the_nearest_name() {
        for (option, typed, nearest) in [
            ("--cipher", "aes-256-cb", "aes-256-cbc"),
            ("--policy", "adaptiv", "adaptive"),
            ("--gate", "list", "lists"),
        ] {
            let error = Line::try_parse_from(["line", option, typed]).unwrap_err().to_string();
            assert!(error.contains("tip: a similar value exists"), "{error}");
            assert!(error.contains(&format!("'{nearest}'")), "{error}");
        }
    }

    #[test]
    fn former_policies_are_answered_with_engines() {
        for (name, _) in FORMER_POLICIES {
            let error = Line::try_parse_from(["line", "--policy", name]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("--engine"), "{error}");
        }
        let error = Line::try_parse_from(["line", "--policy", "fifo"]).unwrap_err().to_string();
        assert!(error.contains("[possible values: pull, adaptive]"), "{error}");
    }

    #[test]
    fn every_name_is_read() {
        for cipher in Cipher::ALL {
            let line = Line::parse_from(["line", "--cipher", &cipher.name().to_uppercase()]);
            assert_eq!(line.cipher, Some(*cipher));
        }
        for policy in PolicyName::ALL {
            let line = Line::parse_from(["line", "--policy", policy.name()]);
            assert_eq!(line.policy, Some(*policy));
        }
        for discipline in Discipline::ALL {
            let line = Line::parse_from(["line", "--gate", discipline.name()]);
            assert_eq!(line.gate, Some(*discipline));
        }
    }

    #[test]
    fn engines_are_known_by_name_and_may_have_parameters() {
        let parser = engine();
        let known = parser.possible_values().unwrap();
        let names: Vec<_> = known.map(|value| value.get_name().to_owned()).collect();
        assert!(names.contains(&"openssl".to_owned()) && names.contains(&"lanes".to_owned()));
        let line = Line::parse_from(["line", "--engine", "pkcs11:token=one"]);
        assert_eq!(line.engine.as_deref(), Some("pkcs11:token=one"));
    }
}
