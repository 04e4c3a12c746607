//! Values that options take by name.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use evener_cli::values::engine_or;
pub(crate) use evener_cli::values::{
    cipher, cipher_of, direction, discipline, message_length, policy, threads,
};

use crate::{Rival, model};

/// Parses an engine: one of the registry, or a [model](crate::model).
pub(crate) fn engine() -> impl TypedValueParser<Value = String> {
    engine_or(&[model::NAME])
}

/// Parses a policy of a comparison.
pub(crate) fn rival() -> impl TypedValueParser<Value = Rival> {
    let names = Rival::ALL.iter().map(|rival| rival.name());
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}
