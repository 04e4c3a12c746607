//! What is known of the engines for every cipher and direction.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use evener_core::{Cipher, Direction};

use super::Costs;

/// What is known of the engines' costs, shared by the runs of a program.
#[derive(Debug, Default)]
pub struct Knowledge(Mutex<HashMap<(Cipher, Direction), Costs>>);

impl Knowledge {
    /// What is known for a cipher and direction.
    pub fn costs(&self, cipher: Cipher, direction: Direction) -> Costs {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(cipher, direction)).cloned().unwrap_or_default()
    }

    /// Replaces what is known of those engines, alone and together, that `costs` has.
    pub fn learn(&self, cipher: Cipher, direction: Direction, costs: &Costs) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.entry((cipher, direction)).or_default();
        for (name, costs) in &costs.engines {
            known.insert(name, costs.clone());
        }
        for rate in &costs.together {
            known.insert_together(rate.clone());
        }
    }

    /// Everything that is known.
    pub fn all(&self) -> Vec<(Cipher, Direction, Costs)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all =
            known.iter().map(|(&(cipher, direction), costs)| (cipher, direction, costs.clone()));
        all.collect()
    }
}
