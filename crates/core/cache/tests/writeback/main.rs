//! The workers and the flusher in virtual time: what is written out when, how much at a time, and
//! what happens when it fails. The crash laboratory asks whether it is right; this, whether it is
//! as the documents say.

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
