//! The exceptions of the package, which `overdrive/errors.py` defines.

use pyo3::PyErr;
use pyo3::exceptions::PyKeyboardInterrupt;
use simulator::Error;

pyo3::import_exception!(overdrive.errors, DeviceError);
pyo3::import_exception!(overdrive.errors, InternalError);
pyo3::import_exception!(overdrive.errors, MalformedError);
pyo3::import_exception!(overdrive.errors, NotFoundError);
pyo3::import_exception!(overdrive.errors, PermissionDeniedError);
pyo3::import_exception!(overdrive.errors, ReadError);
pyo3::import_exception!(overdrive.errors, UsageError);

/// Returns the exception for arguments that make no sense. Messages name options as the command
/// has them; parameters have the same names without dashes.
pub(crate) fn usage(message: &str) -> PyErr {
    let message = message.strip_prefix("--").unwrap_or(message);
    UsageError::new_err(message.to_owned())
}

/// Returns the exception for a trace that was not read.
pub(crate) fn of_trace(error: Error) -> PyErr {
    match error {
        Error::Usage(message) => usage(&message),
        Error::NotFound(message) => NotFoundError::new_err(message),
        Error::Permission(message) => PermissionDeniedError::new_err(message),
        Error::Io(message) => ReadError::new_err(message),
        Error::Malformed(message) => MalformedError::new_err(message),
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
    }
}
