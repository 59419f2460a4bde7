//! The native part of the Python package `overdrive`: traces, simulations and suites.
//!
//! Functions here take and return plain values: strings, numbers, bytes, and the JSON objects of
//! the command. `python/overdrive` makes tables of them, and has the documentation for users.

mod bench;
mod call;
mod errors;
mod names;
mod replay;
mod simulate;
mod trace_reader;

/// Its large tables, such as those of modelled drives, use huge pages when a suite runs.
#[global_allocator]
static ALLOCATOR: host::HugeAllocator = host::HugeAllocator;

/// The native part of the package `overdrive`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::bench::{bench, list_drives, list_suites};
    #[pymodule_export]
    use crate::names::{formats, parse_size, policies};
    #[pymodule_export]
    use crate::replay::{check_replay, replay_trace, served_policies};
    #[pymodule_export]
    use crate::simulate::{simulate, trace_info};
    #[pymodule_export]
    use crate::trace_reader::TraceReader;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
