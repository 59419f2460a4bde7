//! Drives that have been reported to die when they were erased.

/// Parts of models' names, and the report. The XP941's is hearsay: none of the reviews of 2013 and
/// 2014 that were found describes it, so the warning is a precaution.
const RISKS: &[(&[&str], &str)] = &[(
    // The name in reviews, and the beginnings of its models' names.
    &["XP941", "MZHPU128", "MZHPU256", "MZHPU512"],
    "a Samsung XP941 is said to have died in a secure erase at a reviewer's (no source was found): \
     expect that it may not work afterwards",
)];

/// Returns the reports about a model.
pub(super) fn of(model: &str) -> Vec<String> {
    let is_it = |names: &&(&[&str], &str)| names.0.iter().any(|name| model.contains(name));
    RISKS.iter().filter(is_it).map(|(_, words)| (*words).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_that_died_are_known_by_both_names() {
        assert_eq!(of("SAMSUNG MZHPU256HCGL-00000").len(), 1);
        assert_eq!(of("Samsung XP941 512GB").len(), 1);
        assert!(of("Samsung SSD 850 PRO").is_empty() && of("").is_empty());
    }
}
