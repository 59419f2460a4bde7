//! Holders and daemons as real processes, killed for real.

mod common;
mod hostile;
mod life;
mod systemd;
