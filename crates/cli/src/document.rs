//! The documents of `--json`: one on standard output, whatever happens.

use std::io;

use evener::program::shown_json;
use evener::{Failure, Listing, Report};
use evener_cli::end;
use serde::Serialize;
use serde_json::json;

use crate::trouble::Trouble;

/// Prints a document.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), Trouble> {
    let print = || -> io::Result<()> {
        let mut text = shown_json(&serde_json::to_string_pretty(document)?);
        text.push('\n');
        end::print_document(&text)
    };
    print().map_err(Trouble::Output)
}

/// Prints the document of a result that has its own fields, and of files that failed.
pub(crate) fn with_failures(result: &impl Serialize, failures: &[Failure]) -> Result<(), Trouble> {
    let mut document = serde_json::to_value(result).unwrap_or_default();
    document["failures"] = json!(failures);
    print_json(&document)
}

/// Prints the document of a command that could not begin. All commands' documents have the error
/// in the same place.
pub(crate) fn print_failure(command: &str, trouble: &Trouble) -> Result<(), Trouble> {
    let failures = vec![trouble.as_failure()];
    match command {
        "encrypt" | "decrypt" | "verify" => {
            let mut report = Report::default();
            command.clone_into(&mut report.operation);
            report.failures = failures;
            print_json(&report)
        }
        "list" => {
            let mut listing = Listing::default();
            listing.failures = failures;
            print_json(&listing)
        }
        _ => print_json(&bare(command, &failures)),
    }
}

/// The document of another command, with nothing but failures in it.
fn bare(command: &str, failures: &[Failure]) -> serde_json::Value {
    match command {
        "engines" => json!({ "engines": [], "failures": failures }),
        "speed" => json!({ "rows": [], "left_out": [], "failures": failures }),
        "gate" => json!({ "gates": [], "failures": failures }),
        "tls" => json!({ "processes": [], "failures": failures }),
        _ => json!({ "failures": failures }),
    }
}

/// The document of a command that a signal ends before it has something to show.
pub(crate) fn interruption(command: &str) -> Vec<u8> {
    let failure = Trouble::usage("interrupted").as_failure();
    let document = match command {
        "list" => json!({ "files": [], "notices": [], "failures": [failure] }),
        _ => bare(command, &[failure]),
    };
    format!("{document:#}\n").into_bytes()
}
