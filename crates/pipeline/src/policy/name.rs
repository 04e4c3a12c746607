//! The policies' names.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use evener_core::Kind;

use super::adaptive::Adaptive;
use super::pull::Pull;
use super::{MakePolicy, Policy, Seat, Setting};

/// One of Evener's policies, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyName {
    /// Every worker takes the next task when it is free.
    Pull,
    /// Measures the engines during the run, and uses the fastest combination.
    Adaptive,
}

impl PolicyName {
    /// All of them.
    pub const ALL: &'static [PolicyName] = &[PolicyName::Pull, PolicyName::Adaptive];

    /// The default: `adaptive` with modules, `pull` with CPU engines only.
    pub fn usual(mut kinds: impl Iterator<Item = Kind>) -> PolicyName {
        match kinds.any(|kind| kind == Kind::Module) {
            true => PolicyName::Adaptive,
            false => PolicyName::Pull,
        }
    }

    /// The name that users write, such as `pull`.
    pub fn name(self) -> &'static str {
        match self {
            PolicyName::Pull => "pull",
            PolicyName::Adaptive => "adaptive",
        }
    }
}

impl MakePolicy for PolicyName {
    fn policy(&self, seats: &[Seat], setting: &Setting) -> Box<dyn Policy> {
        match self {
            PolicyName::Pull => Box::new(Pull),
            PolicyName::Adaptive => Box::new(Adaptive::new(seats, setting)),
        }
    }

    fn uses_costs(&self) -> bool {
        *self == PolicyName::Adaptive
    }
}

impl From<PolicyName> for Arc<dyn MakePolicy> {
    fn from(name: PolicyName) -> Arc<dyn MakePolicy> {
        Arc::new(name)
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<PolicyName, UnknownPolicy> {
        let known = PolicyName::ALL.iter().find(|policy| policy.name() == text);
        known.copied().ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no policy `{0}`; there are {names}", names = names())]
pub struct UnknownPolicy(String);

fn names() -> String {
    PolicyName::ALL.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for &policy in PolicyName::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let error = "fifo".parse::<PolicyName>().unwrap_err().to_string();
        assert!(error.contains("`fifo`") && error.contains("pull"), "{error}");
    }
}
