//! Remarks on the rows of a table: what all rows share is said once, the rest as footnotes.

use crate::plot::escaped;

/// The remarks of a table's rows.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Notes {
    /// Remarks that all rows have; empty if there is only one row.
    pub shared: Vec<String>,
    /// The other remarks, each once, in the order of their numbers: the first is note 1.
    pub footnotes: Vec<String>,
    /// The numbers of each row's footnotes.
    pub numbers: Vec<Vec<usize>>,
}

impl Notes {
    /// Returns the remarks of the rows, which are given row by row.
    pub fn of(rows: &[Vec<String>]) -> Notes {
        let mut notes = Notes::default();
        if let [first, others @ ..] = rows
            && !others.is_empty()
        {
            let is_shared = |note: &&String| others.iter().all(|row| row.contains(note));
            notes.shared = first.iter().filter(is_shared).cloned().collect();
        }
        for row in rows {
            let own = row.iter().filter(|note| !notes.shared.contains(note));
            let mut numbers = Vec::new();
            for note in own {
                let known = notes.footnotes.iter().position(|known| known == note);
                numbers.push(1 + known.unwrap_or(notes.footnotes.len()));
                if known.is_none() {
                    notes.footnotes.push(note.clone());
                }
            }
            notes.numbers.push(numbers);
        }
        notes
    }

    /// Returns the cell of a row: the numbers of its footnotes.
    pub fn cell(&self, row: usize) -> String {
        let numbers = self.numbers.get(row).into_iter().flatten();
        numbers.map(usize::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Returns the remarks below a table, as HTML; nothing if there are none.
    pub fn html(&self) -> String {
        let mut html = String::new();
        if !self.shared.is_empty() {
            html +=
                &format!("<p class=\"sub\">All rows: {}.</p>\n", escaped(&self.shared.join(", ")));
        }
        if !self.footnotes.is_empty() {
            let items = self.footnotes.iter().map(|note| format!("<li>{}</li>\n", escaped(note)));
            html += &format!("<ol class=\"notes\">\n{}</ol>\n", items.collect::<String>());
        }
        html
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(rows: &[&[&str]]) -> Notes {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|note| (*note).to_owned()).collect()).collect();
        Notes::of(&rows)
    }

    #[test]
    fn shared_remarks_are_said_once_and_others_have_numbers() {
        let found = notes(&[&["cold", "fill"], &["warm", "fill"], &["cold", "fill", "<late>"]]);
        assert_eq!(found.shared, ["fill"]);
        assert_eq!(found.footnotes, ["cold", "warm", "<late>"]);
        assert_eq!([found.cell(0), found.cell(1), found.cell(2)], ["1", "2", "1, 3"]);
        let html = found.html();
        assert!(
            html.contains("All rows: fill.") && html.contains("<li>&lt;late&gt;</li>"),
            "{html}"
        );
        assert_eq!(notes(&[&["one"]]).footnotes, ["one"], "a single row shares nothing");
        assert_eq!((notes(&[]).html(), notes(&[&[], &[]]).html()), (String::new(), String::new()));
    }
}
