//! `overdrive bench` as users run it: its output, its files, and its exit status.

mod catalogue;
mod common;
mod drives;
mod exports;
mod files;
mod fio;
mod jobs;
mod mistakes;
mod output;
mod reading;
