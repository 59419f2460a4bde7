//! The classes of files, and how the policy treats the blocks of each.

/// Maximum number of classes.
pub const CLASSES_MAX: usize = 16;

/// The class of blocks that are in no extent of a map.
pub const UNKNOWN: u8 = 0;

/// How blocks of a class are admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClassAdmission {
    /// As without hints.
    Usual,
    /// Only when a block is accessed again soon after an access that was not admitted.
    SecondAccess,
    /// Never.
    Never,
}

impl ClassAdmission {
    /// All of them.
    pub const ALL: [ClassAdmission; 3] =
        [ClassAdmission::Usual, ClassAdmission::SecondAccess, ClassAdmission::Never];

    /// The name that users give and see.
    pub const fn name(self) -> &'static str {
        match self {
            ClassAdmission::Usual => "usual",
            ClassAdmission::SecondAccess => "second-access",
            ClassAdmission::Never => "never",
        }
    }

    /// Returns the one with this name.
    pub fn by_name(name: &str) -> Option<ClassAdmission> {
        ClassAdmission::ALL.into_iter().find(|admission| admission.name() == name)
    }
}

/// The relative benefit of a cached block of a class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Weight(u16);

impl Weight {
    /// As without hints: 1.0.
    pub const ONE: Weight = Weight(Weight::UNIT);
    /// The smallest weight: 1/16.
    pub const MIN: Weight = Weight(Weight::UNIT / 16);
    /// The largest weight: 16.
    pub const MAX: Weight = Weight(Weight::UNIT * 16);
    const UNIT: u16 = 256;

    /// Returns this weight, rounded to a 256th. None: it is not from 1/16 to 16.
    pub fn new(weight: f64) -> Option<Weight> {
        let rounded = weight * f64::from(Weight::UNIT) + 0.5;
        let fits = rounded >= f64::from(Weight::MIN.0) && weight <= f64::from(Weight::MAX.value());
        fits.then_some(Weight(rounded as u16))
    }

    /// The weight of this many quarters.
    const fn quarters(quarters: u16) -> Weight {
        Weight(Weight::UNIT / 4 * quarters)
    }

    /// The weight as a number.
    pub fn value(self) -> f32 {
        f32::from(self.0) / f32::from(Weight::UNIT)
    }

    /// The weight in 256ths.
    pub(super) fn bits(self) -> u32 {
        self.0.into()
    }
}

/// How the policy treats the blocks of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Treatment {
    /// The benefit of keeping a block: one of weight 2 stays about twice as long as one of weight
    /// 1.
    pub weight: Weight,
    /// How its blocks are admitted.
    pub admission: ClassAdmission,
}

impl Treatment {
    /// As without hints.
    pub const USUAL: Treatment =
        Treatment { weight: Weight::ONE, admission: ClassAdmission::Usual };
}

/// A class of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// Its name, as users give and see it.
    pub name: &'static str,
    /// How it is treated, unless a user chooses something else.
    pub treatment: Treatment,
}

const fn usual(name: &'static str, quarters: u16) -> Class {
    let admission = ClassAdmission::Usual;
    Class { name, treatment: Treatment { weight: Weight::quarters(quarters), admission } }
}

const fn second_access(name: &'static str, quarters: u16) -> Class {
    let admission = ClassAdmission::SecondAccess;
    Class { name, treatment: Treatment { weight: Weight::quarters(quarters), admission } }
}

/// The class of metadata.
const METADATA: u8 = 2;
/// The class of directories.
const DIRECTORIES: u8 = 4;

/// Whether a write to a block of this class may change the map of files. Writes to a journal do not
/// yet: maps are made without it.
pub(super) fn is_of_map(class: u8) -> bool {
    matches!(class, METADATA | DIRECTORIES)
}

/// The classes of files; the index is the number of the class. A journal is written in a circle
/// and hardly read, so its blocks leave early.
pub const CLASSES: [Class; 14] = [
    usual("unknown", 4),
    Class {
        name: "free-space",
        treatment: Treatment { weight: Weight::MIN, admission: ClassAdmission::Never },
    },
    usual("metadata", 8),
    usual("journal", 1),
    usual("directories", 8),
    usual("executables", 6),
    usual("databases", 8),
    usual("documents", 4),
    usual("pictures", 3),
    second_access("big-media", 1),
    second_access("archives", 2),
    usual("other", 4),
    usual("media", 3),
    usual("big-databases", 4),
];

/// Returns the number of the class with this name.
pub fn class_by_name(name: &str) -> Option<u8> {
    CLASSES.iter().position(|class| class.name == name).map(|number| number as u8)
}

/// The treatment of each class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Treatments([Treatment; CLASSES_MAX]);

/// Those of [`CLASSES`].
impl Default for Treatments {
    fn default() -> Treatments {
        let mut all = Treatments::NONE;
        CLASSES.iter().zip(&mut all.0).for_each(|(class, one)| *one = class.treatment);
        all
    }
}

impl Treatments {
    /// All classes are treated as without hints: a map then only yields statistics.
    pub const NONE: Treatments = Treatments([Treatment::USUAL; CLASSES_MAX]);

    /// Returns the treatment of a class, whose number is below [`CLASSES_MAX`].
    #[inline]
    pub fn of(&self, class: u8) -> Treatment {
        self.0[usize::from(class)]
    }

    /// Sets the treatment of a class.
    ///
    /// # Panics
    /// If its number is not below [`CLASSES_MAX`].
    pub fn set(&mut self, class: u8, treatment: Treatment) {
        self.0[usize::from(class)] = treatment;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_admissions_are_found_by_their_names_only() {
        for (number, class) in CLASSES.iter().enumerate() {
            assert_eq!(class_by_name(class.name), Some(number as u8));
            assert_eq!(Treatments::default().of(number as u8), class.treatment);
        }
        assert_eq!(class_by_name("unknown"), Some(UNKNOWN));
        assert_eq!(class_by_name("Free-space"), None);
        for admission in ClassAdmission::ALL {
            assert_eq!(ClassAdmission::by_name(admission.name()), Some(admission));
        }
        assert_eq!(Treatments::default().of(15), Treatment::USUAL);
    }

    #[test]
    fn weights_are_from_a_sixteenth_to_sixteen() {
        assert_eq!(Weight::new(1.0), Some(Weight::ONE));
        assert_eq!(Weight::new(0.0625), Some(Weight::MIN));
        assert_eq!(Weight::new(16.0), Some(Weight::MAX));
        assert_eq!(Weight::new(0.25).map(Weight::value), Some(0.25));
        for bad in [0.0, 0.06, 16.01, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Weight::new(bad), None, "{bad}");
        }
    }
}
