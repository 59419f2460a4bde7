//! From a map of files and a user's rules to the hints of the policy.
//!
//! ```text
//!   files::Map ---+
//!                 +--> class_list --> hotlist::ClassList --+
//!   block::Rules -+    (in the process that maps)          +--> hints --> policy::Hints
//!                 +--> treatments -------------------------+    (in the daemon)
//! ```
#![forbid(unsafe_code)]

mod classes;
mod rules;

pub use classes::{class_list, class_of, hints, names};
pub use rules::{FileFacts, FileRules};
