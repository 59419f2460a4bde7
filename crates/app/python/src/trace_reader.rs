//! The requests of a trace as columns: buffers in the layout of Arrow, of which
//! `overdrive/_trace.py` makes arrays.

use crate::errors::of_trace;
use crate::{call, names};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use simulator::{Error, TraceFile};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use trace::{Access, Operation};

/// A column: its values, and for one with nulls the bits of those that are known.
type Column<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// Requests: their number, their columns, and the names of the devices and processes seen until
/// then.
type Batch<'py> = (usize, Vec<Column<'py>>, Vec<String>, Vec<String>);

/// A trace that is being read.
#[pyclass(frozen, module = "overdrive._native")]
pub(crate) struct TraceReader {
    file: Mutex<Reading>,
}

struct Reading {
    file: TraceFile,
    accesses: Vec<Access>,
    /// Number of `accesses` that were returned.
    taken: usize,
}

/// Requests as columns, in little-endian order.
#[derive(Default)]
struct Columns {
    rows: usize,
    time_ns: Vec<u8>,
    device: Vec<u8>,
    operation: Vec<u8>,
    first_byte: Vec<u8>,
    bytes: Vec<u8>,
    took_ns: Nullable,
    sent_ns: Nullable,
    process: Nullable,
    fua: Bits,
    marks: Vec<u8>,
}

/// Bits, lowest first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

/// Values that may be null.
#[derive(Default)]
struct Nullable {
    values: Vec<u8>,
    known: Bits,
    has_null: bool,
}

impl Bits {
    fn push(&mut self, is_set: bool) {
        if self.count.is_multiple_of(8) {
            self.bytes.push(0);
        }
        let last = self.bytes.len() - 1;
        self.bytes[last] |= u8::from(is_set) << (self.count % 8);
        self.count += 1;
    }
}

impl Nullable {
    fn push<const BYTES: usize>(&mut self, value: Option<[u8; BYTES]>) {
        self.values.extend_from_slice(&value.unwrap_or([0; BYTES]));
        self.known.push(value.is_some());
        self.has_null |= value.is_none();
    }

    fn column<'py>(&self, py: Python<'py>) -> Column<'py> {
        let known = self.has_null.then(|| PyBytes::new(py, &self.known.bytes));
        (PyBytes::new(py, &self.values), known)
    }
}

/// Returns the index of an operation in the names of `overdrive/_trace.py`.
fn operation_index(operation: Option<Operation>) -> i8 {
    match operation {
        Some(Operation::Read) => 0,
        Some(Operation::Write { .. }) => 1,
        Some(Operation::Flush) => 2,
        Some(Operation::Discard) => 3,
        Some(Operation::Zero { .. }) => 4,
        Some(Operation::Advise) => 5,
        None => 6,
    }
}

impl Columns {
    fn push(&mut self, access: &Access) {
        let (operation, details) = (access.operation(), &access.details);
        let is_fua = matches!(
            operation,
            Some(Operation::Write { fua: true } | Operation::Zero { fua: true, .. })
        );
        self.rows += 1;
        self.time_ns.extend_from_slice(&access.time_ns.to_le_bytes());
        self.device.extend_from_slice(&access.device.to_le_bytes());
        self.operation.extend_from_slice(&operation_index(operation).to_le_bytes());
        self.first_byte.extend_from_slice(&access.first_byte.to_le_bytes());
        self.bytes.extend_from_slice(&access.bytes.to_le_bytes());
        self.took_ns.push(details.took_ns.map(u64::to_le_bytes));
        self.sent_ns.push(details.sent_ns.map(u64::to_le_bytes));
        self.process.push(details.process.map(u32::to_le_bytes));
        self.fua.push(is_fua);
        self.marks.extend_from_slice(&details.marks.0.to_le_bytes());
    }

    fn columns<'py>(&self, py: Python<'py>) -> Vec<Column<'py>> {
        let plain = |values: &[u8]| (PyBytes::new(py, values), None);
        vec![
            plain(&self.time_ns),
            plain(&self.device),
            plain(&self.operation),
            plain(&self.first_byte),
            plain(&self.bytes),
            self.took_ns.column(py),
            self.sent_ns.column(py),
            self.process.column(py),
            plain(&self.fua.bytes),
            plain(&self.marks),
        ]
    }
}

impl Reading {
    /// Reads the next requests, up to this number; fewer only at the end of the trace, or if
    /// `goes_on` returns false.
    fn next(&mut self, rows: usize, mut goes_on: impl FnMut() -> bool) -> Result<Columns, Error> {
        let mut columns = Columns::default();
        while columns.rows < rows && goes_on() {
            if self.taken == self.accesses.len() {
                self.taken = 0;
                if !self.file.next(&mut self.accesses)? {
                    break;
                }
            }
            let left = &self.accesses[self.taken..];
            let taken = left.len().min(rows - columns.rows);
            left[..taken].iter().for_each(|access| columns.push(access));
            self.taken += taken;
        }
        Ok(columns)
    }
}

#[pymethods]
impl TraceReader {
    /// Opens a trace, and detects its format if none is given.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, format: Option<&str>) -> PyResult<TraceReader> {
        let format = names::format(format)?;
        let opened = call::run(py, |_| TraceFile::open(&path, format))?;
        let file = opened.map_err(of_trace)?;
        Ok(TraceReader { file: Mutex::new(Reading { file, accesses: Vec::new(), taken: 0 }) })
    }

    /// Returns the name of its format.
    fn format(&self) -> &'static str {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).file.format.name()
    }

    /// Returns the next requests; none at the end.
    fn next<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<Batch<'py>> {
        let read = call::run(py, |signals| {
            let mut reading = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            let columns = reading.next(rows, || signals.look())?;
            let devices = reading.file.devices().names().to_vec();
            Ok((columns, devices, reading.file.processes().names().to_vec()))
        })?;
        let (columns, devices, processes) = read.map_err(of_trace)?;
        Ok((columns.rows, columns.columns(py), devices, processes))
    }
}
