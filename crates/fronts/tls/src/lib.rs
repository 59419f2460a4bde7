//! TLS 1.3 over a [`block::Wire`], and the certificates of both sides.
//!
//! [`TlsWire`] is a wire over another wire, so a protocol over it is the same as without
//! encryption. [`ServerTls`] and [`ClientTls`] hold the certificates of one side; these are read
//! again after they have been renewed, and connections that are open continue.
//!
//! The names of the files are those of nbdkit and QEMU:
//!
//! ```text
//!   ca-cert.pem       authorities whose certificates are accepted from the other side
//!   ca-crl.pem        optional: certificates that these authorities have revoked
//!   server-cert.pem   the server's certificate, followed by those of authorities in between
//!   server-key.pem    its key, which no other user may read
//!   client-cert.pem   the same of the client, if it has one
//!   client-key.pem
//! ```
//!
//! The protocol is in crate rustls. This crate parses nothing that comes from the network.
#![forbid(unsafe_code)]

mod client;
mod either;
mod files;
mod refusal;
mod renewed;
mod server;
mod wire;

pub use client::ClientTls;
pub use either::MaybeTls;
pub use refusal::Refusal;
/// One side of a connection: its state, without its bytes on the way.
pub use rustls::Connection as Session;
pub use server::ServerTls;
pub use wire::TlsWire;

use rustls::crypto::CryptoProvider;
use std::sync::Arc;

/// The only version of the protocol: without the older ones, none of their weaknesses exists here.
const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// Returns the ciphers.
///
/// # Errors
/// This program was built without them.
fn ciphers() -> Result<Arc<CryptoProvider>, String> {
    #[cfg(feature = "ciphers")]
    return Ok(Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(not(feature = "ciphers"))]
    Err("this program was built without TLS; build it with its feature 'tls'".to_owned())
}
