//! Evener's engines, one folder each.
