//! Holders and daemons as real processes, which are really killed.

mod common;
mod hostile;
mod life;
mod systemd;
