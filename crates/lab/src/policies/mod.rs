//! Policies side by side: the experiment of the 2013 and 2015 papers.

mod row;

pub use row::Row;
