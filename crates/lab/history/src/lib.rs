//! Saved results of the suites, and samples of volumes and drives over time: two SQLite files, for
//! this program and for any other that reads SQL.
//!
//! ```text
//!   overdrive bench ...   --keep-->      results  --list, get, csv--> overdrive bench history
//!   a daemon              --Recorder-->  samples  --volume--> overdrive volume history
//!   overdrive drive health    --record_drive-->   --drive-->  overdrive drive history
//! ```
//!
//! Results belong to a user and stay until they are removed. Samples belong to a machine, are
//! thinned, and have a maximum size. Several programs may write to either file at the same time.
#![forbid(unsafe_code)]

mod csv;
mod error;
mod recorder;
mod results;
mod results_schema;
mod samples;
mod store;

pub use error::Error;
pub use recorder::{Recorder, SECONDS_A_BATCH};
pub use results::{History, Run, Which};
pub use samples::{
    BYTES_MAX, DriveFigures, DriveIdentity, DriveSample, Figures, MINUTES_KEPT_S, Merge, Range,
    SECONDS_KEPT_S, Samples, Span, VolumeSample,
};
