//! Whole connections: a client and the server on one simulated lane, joined by a pipe.

mod client;
mod handshake;
mod hostile;
mod limits;
mod scene;
mod stack;
mod transmission;
