//! The names of the suites as their authors write them.

/// Names on the command line, and the names in full.
const TITLES: [(&str, &str); 26] = [
    ("corners", "Corners"),
    ("fourcorners", "AnandTech's four corners"),
    ("consistency", "AnandTech's performance consistency"),
    ("trim", "TRIM validation"),
    ("seqfill", "Sequential fill"),
    ("qd1", "Random 4 KiB at depth 1"),
    ("sizes", "Transfer sizes"),
    ("atto", "ATTO Disk Benchmark"),
    ("cdm", "CrystalDiskMark"),
    ("as-ssd", "AS SSD Benchmark"),
    ("hdtune", "HD Tune"),
    ("iometer", "Iometer"),
    ("sweep", "Sweep of sizes and depths"),
    ("pts", "SNIA PTS: IOPS"),
    ("pts-throughput", "SNIA PTS: throughput"),
    ("pts-latency", "SNIA PTS: latency"),
    ("pts-wsat", "SNIA PTS: write saturation"),
    ("custom", "Own loads"),
    ("filebench", "The Tech Report's FileBench"),
    ("loadtime", "Load times"),
    ("drivebench1", "The Tech Report's DriveBench 1.0"),
    ("drivebench2", "The Tech Report's DriveBench 2.0"),
    ("heavy", "AnandTech Storage Bench 2011, Heavy"),
    ("light", "AnandTech Storage Bench 2011, Light"),
    ("destroyer", "AnandTech Storage Bench 2013, Destroyer"),
    ("pcmark", "PCMark 8, storage"),
];

/// Returns the name of a suite in full; a name without one is returned unchanged.
pub fn title(name: &str) -> &str {
    TITLES.iter().find(|(known, _)| *known == name).map_or(name, |(_, title)| title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_those_of_suites() {
        for (name, title) in TITLES {
            assert!(crate::find(name).is_some(), "{name}");
            assert_eq!(super::title(name), title);
        }
        assert_eq!(title("another"), "another");
    }
}
