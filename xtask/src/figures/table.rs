//! The table of docs/FIGURES.md: one row per figure, with its goal, the measured value, and the
//! command.

use anyhow::{Context, ensure};

/// The columns, as in the head of the table.
const HEAD: [&str; 4] = ["figure", "goal", "measured", "command"];

/// A row of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Row {
    /// Name of the figure.
    pub(super) figure: String,
    /// Goal; `none` if there is no goal.
    pub(super) goal: String,
    /// Last measured value.
    pub(super) measured: String,
    /// Command that measures it, as typed at the root of the tree.
    pub(super) command: String,
}

/// The page: its rows, and the unchanged lines around them.
#[derive(Debug)]
pub(super) struct Page {
    before: String,
    pub(super) rows: Vec<Row>,
    after: String,
}

/// Returns the cells of a line of the table.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

impl Row {
    fn read(line: &str) -> anyhow::Result<Row> {
        let cells = cells(line).with_context(|| format!("not a row: {line}"))?;
        let [figure, goal, measured, command] = cells[..] else {
            anyhow::bail!("a row has four cells, this one {}: {line}", cells.len());
        };
        let command = command.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        let command = command.with_context(|| format!("a command stands in backquotes: {line}"))?;
        for cell in [figure, goal, measured, command] {
            ensure!(!cell.is_empty(), "an empty cell: {line}");
        }
        Ok(Row {
            figure: figure.to_owned(),
            goal: goal.to_owned(),
            measured: measured.to_owned(),
            command: command.to_owned(),
        })
    }
}

impl Page {
    /// Reads the page.
    ///
    /// # Errors
    /// The page has no such table, or more than one, or an invalid row.
    pub(super) fn read(text: &str) -> anyhow::Result<Page> {
        let mut page = Page { before: String::new(), rows: Vec::new(), after: String::new() };
        let mut lines = text.lines();
        for line in lines.by_ref() {
            page.before += line;
            page.before.push('\n');
            if cells(line).is_some_and(|cells| cells == HEAD) {
                break;
            }
        }
        let rule = lines.next().context("docs/FIGURES.md has no table of figures")?;
        page.before += rule;
        page.before.push('\n');
        for line in lines {
            if page.after.is_empty() && line.starts_with('|') {
                page.rows.push(Row::read(line)?);
                continue;
            }
            ensure!(!line.starts_with('|'), "docs/FIGURES.md has a second table: {line}");
            page.after += line;
            page.after.push('\n');
        }
        Ok(page)
    }

    /// Returns the page as text.
    pub(super) fn text(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let Row { figure, goal, measured, command } = row;
            format!("| {figure} | {goal} | {measured} | `{command}` |\n")
        });
        format!("{}{}{}", self.before, rows.collect::<String>(), self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::Page;

    const PAGE: &str = "# Figures\n\n| figure | goal | measured | command |\n|---|---|---|---|\n\
                        | a | 1 | 2 | `cargo xtask test` |\n\nNotes.\n";

    #[test]
    fn a_page_is_written_as_it_was_read() {
        let page = Page::read(PAGE).expect("a page");
        assert_eq!(page.rows.len(), 1);
        assert_eq!(page.text(), PAGE);
    }

    #[test]
    fn rows_that_say_too_little_or_too_much_are_refused() {
        for row in ["| a | 1 | 2 |", "| a | 1 | | `x` |", "| a | 1 | 2 | x |", "| a | 1 | 2 | `x`"]
        {
            let text = PAGE.replace("| a | 1 | 2 | `cargo xtask test` |", row);
            assert!(Page::read(&text).is_err(), "{row}");
        }
        assert!(Page::read("# Figures\n").is_err());
        assert!(Page::read(&format!("{PAGE}| a | second | table | `x` |\n")).is_err());
    }
}
