//! Whole connections: a client and the server on one simulated lane, joined by a pipe.

mod agreed;
mod budget;
mod client;
mod contexts;
mod handshake;
mod hostile;
mod limits;
mod lockstep;
mod part;
mod places;
mod refused;
mod scene;
mod stack;
mod stalled;
mod tls;
mod transmission;
