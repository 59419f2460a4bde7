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

/// Parameters of the package by the options of the command, which libraries name in messages.
const PARAMETERS: [(&str, &str); 20] = [
    ("--cache", "cache"),
    ("--compress", "compress"),
    ("--dependent", "dependent"),
    ("--depth", "depth"),
    ("--device", "devices"),
    ("--era", "era"),
    ("--format", "format"),
    ("--idle-max", "idle_max"),
    ("--map", "map"),
    ("--memory", "memory"),
    ("--only", "only"),
    ("--prices", "prices"),
    ("--sample", "sample"),
    ("--scale", "scale"),
    ("--shards", "shards"),
    ("--span", "span"),
    ("--spare", "spare_percent"),
    ("--speed", "speed"),
    ("--state", "state"),
    ("--time", "time"),
];

/// Returns a message with parameters instead of options. A message begins with the parameter that
/// is wrong; others are in quotes.
fn with_parameters(message: &str) -> String {
    let word = |(index, word): (usize, &str)| {
        let option = word.trim_matches(['(', ',', ':', ';', '.']);
        let found = PARAMETERS.iter().find(|(name, _)| *name == option);
        match found {
            None => word.to_owned(),
            Some((_, parameter)) if index == 0 => word.replace(option, parameter),
            Some((_, parameter)) => word.replace(option, &format!("'{parameter}'")),
        }
    };
    message.split(' ').enumerate().map(word).collect::<Vec<_>>().join(" ")
}

/// Returns the exception for arguments that make no sense.
pub(crate) fn usage(message: &str) -> PyErr {
    UsageError::new_err(with_parameters(message))
}

/// Returns the exception for a trace that was not read.
pub(crate) fn of_trace(error: Error) -> PyErr {
    match error {
        Error::Usage(message) => usage(&message),
        Error::NotFound(message) => NotFoundError::new_err(with_parameters(&message)),
        Error::Permission(message) => PermissionDeniedError::new_err(with_parameters(&message)),
        Error::Io(message) => ReadError::new_err(with_parameters(&message)),
        Error::Malformed(message) => MalformedError::new_err(with_parameters(&message)),
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
    }
}
