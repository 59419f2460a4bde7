//! The table: what was expected, how near, what came out, and what the row is worth.

/// What a row is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The target is a closed form.
    Theory,
    /// Nothing of the target is in the model.
    Predicted,
    /// A value or a policy that no source gives was chosen so that this row comes out.
    Fitted,
    /// The target itself is one of the model's values: the row shows that the model obeys it.
    Circular,
}

impl Origin {
    fn word(self) -> &'static str {
        match self {
            Origin::Theory => "theory",
            Origin::Predicted => "predicted",
            Origin::Fitted => "fitted",
            Origin::Circular => "circular",
        }
    }
}

/// Rows that are known to miss, each with the reason. A row that misses and is not here, or is here and
/// does not miss, fails the test of its section.
pub(crate) const KNOWN_MISSES: [(&str, &str); 0] = [];

/// Prints rows as they come and keeps those that miss.
pub(crate) struct Table {
    /// What was looked at.
    pub(crate) rows: Vec<String>,
    /// Of these, what missed.
    pub(crate) missed: Vec<String>,
    origins: [u32; 4],
}

impl Table {
    pub(crate) fn new() -> Table {
        println!(
            "{:<62} {:<9} {:>11} {:>9} {:>11} {:>8}",
            "what", "worth", "target", "allowed", "model", "error"
        );
        Table { rows: Vec::new(), missed: Vec::new(), origins: [0; 4] }
    }

    /// A value that should be `target`, within so many percent.
    pub(crate) fn near(
        &mut self,
        origin: Origin,
        what: &str,
        target: f64,
        percent: f64,
        found: f64,
    ) {
        let error = (found / target - 1.0) * 100.0;
        let allowed = format!("{percent} %");
        let told = format!("{error:+.2} %");
        self.row(origin, what, target, &allowed, found, &told, error.abs() <= percent);
    }

    /// A value that should lie between two.
    pub(crate) fn between(&mut self, origin: Origin, what: &str, low: f64, high: f64, found: f64) {
        let allowed = format!("..{high:.0}");
        self.row(origin, what, low, &allowed, found, "", (low..=high).contains(&found));
    }

    /// A value that should be at least this.
    pub(crate) fn least(&mut self, origin: Origin, what: &str, low: f64, found: f64) {
        self.row(origin, what, low, "at least", found, "", found >= low);
    }

    #[allow(clippy::too_many_arguments, reason = "a line of the table has so many fields")]
    fn row(
        &mut self,
        origin: Origin,
        what: &str,
        target: f64,
        allowed: &str,
        found: f64,
        error: &str,
        met: bool,
    ) {
        self.rows.push(what.to_owned());
        self.origins[origin as usize] += 1;
        let digits = if target.abs() < 100.0 { 3 } else { 0 };
        let known = KNOWN_MISSES.iter().find(|(known, _)| *known == what);
        let verdict = match (met, known) {
            (true, None) => String::new(),
            (true, Some(_)) => "met, and listed as a known miss: take it off the list".to_owned(),
            (false, None) => "MISSED".to_owned(),
            (false, Some((_, reason))) => format!("MISSED: {reason}"),
        };
        if !met {
            self.missed.push(what.to_owned());
        }
        let worth = origin.word();
        println!(
            "{what:<62} {worth:<9} {target:>11.digits$} {allowed:>9} {found:>11.digits$} {error:>8} {verdict}"
        );
    }

    /// Prints the sums; returns how many missed.
    pub(crate) fn end(&self) -> usize {
        let all = [Origin::Theory, Origin::Predicted, Origin::Fitted, Origin::Circular];
        let sums = all.map(|origin| format!("{} {}", self.origins[origin as usize], origin.word()));
        println!("{} rows ({}), {} missed", self.rows.len(), sums.join(", "), self.missed.len());
        self.missed.len()
    }
}
