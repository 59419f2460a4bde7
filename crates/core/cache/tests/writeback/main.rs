//! The workers and the flusher in virtual time: when data is written back, how much at a time, and
//! the handling of errors. The crash laboratory checks that it is correct; these tests check that
//! it agrees with the documents.

mod amounts;
mod changes;
mod cuts;
mod discards;
mod passes;
mod retries;
mod rivals;
mod runs;
mod scene;
mod sets;
mod turns;
mod wakes;
