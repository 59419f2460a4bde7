//! The table: what was expected, how near, what came out.

/// Prints rows as they come and counts those that miss.
pub(crate) struct Table {
    rows: u32,
    missed: u32,
}

impl Table {
    pub(crate) fn new() -> Table {
        println!("{:<62} {:>11} {:>9} {:>11} {:>8}", "what", "target", "allowed", "model", "error");
        Table { rows: 0, missed: 0 }
    }

    /// A value that should be `target`, within so many percent.
    pub(crate) fn near(&mut self, what: &str, target: f64, percent: f64, found: f64) {
        let error = (found / target - 1.0) * 100.0;
        let allowed = format!("{percent} %");
        self.row(what, target, &allowed, found, &format!("{error:+.2} %"), error.abs() <= percent);
    }

    /// A value that should lie between two.
    pub(crate) fn between(&mut self, what: &str, low: f64, high: f64, found: f64) {
        let allowed = format!("..{high:.0}");
        self.row(what, low, &allowed, found, "", (low..=high).contains(&found));
    }

    /// A value that should be at least this.
    pub(crate) fn least(&mut self, what: &str, low: f64, found: f64) {
        self.row(what, low, "at least", found, "", found >= low);
    }

    fn row(&mut self, what: &str, target: f64, allowed: &str, found: f64, error: &str, met: bool) {
        self.rows += 1;
        self.missed += u32::from(!met);
        let digits = if target.abs() < 100.0 { 3 } else { 0 };
        let verdict = if met { "" } else { "MISSED" };
        println!(
            "{what:<62} {target:>11.digits$} {allowed:>9} {found:>11.digits$} {error:>8} {verdict}"
        );
    }

    /// Prints the sum; returns how many missed.
    pub(crate) fn end(&self) -> u32 {
        println!("{} rows, {} missed", self.rows, self.missed);
        self.missed
    }
}
