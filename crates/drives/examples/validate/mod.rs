//! The sections of the validation, for the program that prints them and for the test.

pub(crate) mod load;
pub(crate) mod measured;
pub(crate) mod specification;
pub(crate) mod table;
pub(crate) mod theory;

use table::Table;

/// A section by its name.
pub(crate) type Section = (&'static str, fn(&mut Table));

pub(crate) const SECTIONS: [Section; 11] = [
    ("theory", theory::amplification),
    ("die", theory::die_bound),
    ("specification", specification::all),
    ("turbowrite", measured::turbowrite),
    ("latency", measured::latency),
    ("steady", measured::steady),
    ("revodrive", measured::revodrive),
    ("trim", measured::trim),
    ("full_span", measured::full_span),
    ("intel", measured::intel),
    ("vertex", measured::vertex),
];
