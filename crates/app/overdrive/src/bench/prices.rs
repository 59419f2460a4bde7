//! Finds the price list, and reports a measurement.

use lane::Prices;
use stack::{Exit, Failure};

/// Returns the prices: from the given file, or of this machine.
pub(crate) fn find(asked: Option<&str>) -> Result<Prices, Failure> {
    let found = rigs::prices::find(asked).map_err(|what| Failure::new(Exit::Usage, what))?;
    if let Some(note) = found.note {
        daemon::tell!("overdrive: {note}");
    }
    Ok(found.prices)
}
