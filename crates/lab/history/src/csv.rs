//! Lines of CSV: RFC 4180.

use rusqlite::types::ValueRef;

/// Returns the text of a cell.
pub(crate) fn cell(value: ValueRef) -> String {
    match value {
        ValueRef::Null | ValueRef::Blob(_) => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
    }
}

/// Returns a line, with its line end.
pub(crate) fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.map(quote).collect();
    format!("{}\r\n", cells.join(","))
}

fn quote(cell: String) -> String {
    match cell.contains(['"', ',', '\r', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_part_cells_is_quoted() {
        let cells = ["plain", "a,b", "say \"x\"", "", "two\nlines"].map(str::to_owned);
        assert_eq!(line(cells.into_iter()), "plain,\"a,b\",\"say \"\"x\"\"\",,\"two\nlines\"\r\n");
    }
}
