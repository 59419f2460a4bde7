//! The names of tests as cells of matrices: `65/35, random 4 KiB` is a cell of SNIA's matrix of
//! sizes and mixes, `random read, 4 KiB, QD8` one of sizes and depths.

use crate::direction::direction;
use crate::heatmap::Matrix;

/// The cell of a test in a matrix.
#[derive(Clone, PartialEq, Eq, Debug)]
struct CellName {
    /// The subject of the matrix.
    group: String,
    row: String,
    column: String,
    is_mix: bool,
}

/// Least number of cells of a matrix; fewer values are bars.
const CELLS_MIN: usize = 6;

/// Returns the cell of a test. None: its name has no two quantities.
fn cell_name(test: &str) -> Option<CellName> {
    let parts: Vec<&str> = test.split(", ").collect();
    let (first, rest) = parts.split_first()?;
    if is_mix(first) && !rest.is_empty() {
        let (order, size) = rest[0].split_once(' ')?;
        let group = [&[order], &rest[1..]].concat().join(", ");
        return is_size(size).then(|| CellName {
            group,
            row: size.to_owned(),
            column: (*first).to_owned(),
            is_mix: true,
        });
    }
    match rest {
        [size, depth] if is_size(size) && depth.starts_with("QD") => Some(CellName {
            group: (*first).to_owned(),
            row: (*size).to_owned(),
            column: depth[2..].to_owned(),
            is_mix: false,
        }),
        _ => None,
    }
}

fn is_size(word: &str) -> bool {
    let units = ["B", "KiB", "MiB", "GiB"];
    word.split_once(' ')
        .is_some_and(|(number, unit)| number.parse::<u32>().is_ok() && units.contains(&unit))
}

/// Whether this is a mix of reads and writes, in percent: `65/35`.
fn is_mix(word: &str) -> bool {
    let parts = word.split_once('/');
    let parts =
        parts.and_then(|(one, other)| Some((one.parse::<u32>().ok()?, other.parse::<u32>().ok()?)));
    parts.is_some_and(|(one, other)| one + other == 100)
}

/// Returns matrices of the values that belong in some, and the indices of the others. Each value
/// has its test and its figure; all have this unit. Rows and columns are in the order of the tests.
pub fn matrices(values: &[(&str, f64)], unit: &str) -> (Vec<Matrix>, Vec<usize>) {
    let names: Vec<Option<CellName>> = values.iter().map(|(test, _)| cell_name(test)).collect();
    let mut groups: Vec<&str> = Vec::new();
    for name in names.iter().flatten() {
        if !groups.contains(&name.group.as_str()) {
            groups.push(&name.group);
        }
    }
    let mut drawn = Vec::new();
    let mut used = vec![false; values.len()];
    for group in groups {
        let of: Vec<usize> = (0..values.len())
            .filter(|index| names[*index].as_ref().is_some_and(|name| name.group == group))
            .collect();
        let cells: Vec<(&CellName, f64)> = of
            .iter()
            .filter_map(|index| Some((names[*index].as_ref()?, values[*index].1)))
            .collect();
        if cells.len() >= CELLS_MIN
            && let Some(matrix) = matrix(group, unit, &cells, values[of[0]].0)
        {
            drawn.push(matrix);
            of.iter().for_each(|index| used[*index] = true);
        }
    }
    (drawn, (0..values.len()).filter(|index| !used[*index]).collect())
}

/// Returns a matrix of these cells. None: it would be a single row or column.
fn matrix(group: &str, unit: &str, cells: &[(&CellName, f64)], test: &str) -> Option<Matrix> {
    let (mut rows, mut columns): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (name, _) in cells {
        for (list, word) in [(&mut rows, &name.row), (&mut columns, &name.column)] {
            if !list.contains(word) {
                list.push(word.clone());
            }
        }
    }
    let at = |row: &String, column: &String| {
        let found = cells.iter().find(|(name, _)| name.row == *row && name.column == *column);
        found.map(|(_, value)| *value)
    };
    let values = rows.iter().map(|row| columns.iter().map(|column| at(row, column)).collect());
    let values = values.collect();
    let is_mix = cells.iter().all(|(name, _)| name.is_mix);
    (rows.len() > 1 && columns.len() > 1).then(|| Matrix {
        title: capitalized(group),
        unit: unit.to_owned(),
        down: "size".to_owned(),
        along: if is_mix { "% reads / % writes" } else { "requests in flight" }.to_owned(),
        rows,
        columns,
        values,
        direction: if is_mix { None } else { direction(test) },
    })
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_take_their_cells_and_leave_the_rest() {
        let mut tests: Vec<String> = vec!["score".to_owned()];
        for size in ["8 KiB", "4 KiB"] {
            for mix in ["100/0", "65/35", "0/100"] {
                tests.push(format!("{mix}, random {size}, QD1"));
            }
        }
        for (size, depth) in [("4 KiB", 1), ("4 KiB", 2), ("8 KiB", 1)] {
            tests.push(format!("random read, {size}, QD{depth}"));
        }
        let values: Vec<(&str, f64)> =
            tests.iter().enumerate().map(|(number, test)| (test.as_str(), number as f64)).collect();
        let (drawn, left) = matrices(&values, "ms");
        assert_eq!((drawn.len(), left), (1, vec![0, 7, 8, 9]), "three cells are no matrix");
        let snia = &drawn[0];
        assert_eq!(
            (snia.title.as_str(), snia.rows.as_slice()),
            ("Random, QD1", &["8 KiB", "4 KiB"].map(str::to_owned)[..])
        );
        assert_eq!(snia.columns, ["100/0", "65/35", "0/100"]);
        assert_eq!(snia.values[1][2], Some(6.0));
    }

    #[test]
    fn sizes_and_depths_are_a_matrix_with_gaps() {
        let tests =
            ["512 B, QD1", "512 B, QD2", "512 B, QD4", "4 KiB, QD1", "4 KiB, QD2", "8 KiB, QD1"];
        let tests = tests.map(|test| format!("random write, {test}"));
        let values: Vec<(&str, f64)> = tests.iter().map(|test| (test.as_str(), 1.0)).collect();
        let (drawn, left) = matrices(&values, "MB/s");
        assert_eq!((drawn.len(), left.len()), (1, 0));
        assert_eq!(drawn[0].values[2], [Some(1.0), None, None]);
        assert_eq!(drawn[0].direction, Some(crate::direction::Direction::Write));
        for none in
            ["write, 4 KiB", "web server, QD8", "1/2, random 4 KiB", "65/35", "100/0, sequential"]
        {
            assert_eq!(cell_name(none), None, "{none}");
        }
    }
}
