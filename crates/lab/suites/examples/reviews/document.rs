//! A page of the manual: a table of published and reproduced figures, and two lists.

use std::fmt::Write;

/// Largest error of a figure that counts as reproduced.
const ALIKE: f64 = 0.25;

/// A published figure, and the one found here.
pub(crate) struct Compared {
    pub(crate) what: String,
    pub(crate) published: String,
    pub(crate) found: String,
    /// The error as a share of the published figure. None: only the direction was published.
    pub(crate) error: Option<f64>,
    /// Whether the direction is as published.
    pub(crate) is_direction_right: bool,
    /// The evidence from agreement: predicted, fitted, circular.
    pub(crate) evidence: &'static str,
    /// The reason for the difference, if it is known.
    pub(crate) reason: Option<String>,
}

impl Compared {
    fn is_alike(&self) -> bool {
        self.is_direction_right && self.error.is_none_or(|error| error.abs() <= ALIKE)
    }

    fn error_text(&self) -> String {
        self.error.map_or("-".to_owned(), |error| format!("{:+.0} %", 100.0 * error))
    }
}

/// A page.
pub(crate) struct Document {
    /// The name of its files.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Paragraphs before the table.
    pub(crate) about: Vec<String>,
    pub(crate) compared: Vec<Compared>,
    /// The caption of the picture.
    pub(crate) caption: String,
    /// The picture, as SVG.
    pub(crate) picture: String,
    /// Commands that give the same figures.
    pub(crate) commands: Vec<String>,
}

/// Escapes a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

impl Document {
    /// Returns the page as Markdown.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "# {}\n\nThis page is written by `cargo xtask reviews`, which `cargo xtask nightly` \
             runs.\n\n",
            self.title
        );
        for paragraph in &self.about {
            _ = writeln!(text, "{paragraph}\n");
        }
        // The text of a picture is shown only where the picture is not.
        _ = writeln!(text, "{0}:\n\n![{0}]({1}.svg)\n", self.caption, self.name);
        text += "| figure | published | here | error | evidence |\n|---|---:|---:|---:|---|\n";
        for it in &self.compared {
            _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                cell(&it.what),
                cell(&it.published),
                it.found,
                it.error_text(),
                it.evidence
            );
        }
        self.add_differences(&mut text);
        text += "\n## Commands\n\n```\n";
        self.commands.iter().for_each(|command| _ = writeln!(text, "{command}"));
        text + "```\n"
    }

    /// Adds the figures that came out alike as a number, and each other one with its reason.
    fn add_differences(&self, text: &mut String) {
        let others: Vec<&Compared> = self.compared.iter().filter(|it| !it.is_alike()).collect();
        let all = self.compared.len();
        let alike = all - others.len();
        _ = writeln!(
            text,
            "\n## Alike and not\n\n{alike} of {all} figures are within 25 %, in the right \
             direction.{}",
            if others.is_empty() { "" } else { " The others:\n" }
        );
        for it in others {
            let why = match (&it.reason, it.is_direction_right) {
                (Some(reason), _) => reason.clone(),
                (None, true) => format!("off by {}", it.error_text()),
                (None, false) => "wrong direction".to_owned(),
            };
            _ = writeln!(text, "- {}: {why}", it.what);
        }
    }
}
