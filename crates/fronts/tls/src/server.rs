//! The server's side: its certificates, which can be renewed, and new sessions.

use crate::files::{self, AUTHORITIES, REVOKED};
use crate::renewed::Renewed;
use crate::{VERSIONS, ciphers};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{Connection, ServerConfig, ServerConnection};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Beginning of the names of the server's files.
const NAME: &str = "server";
/// The files of a server.
const FILES: &[&str] = &[AUTHORITIES, REVOKED, "server-cert.pem", "server-key.pem"];

/// How a server protects its connections.
pub struct ServerTls {
    is_required: bool,
    verifies_peers: bool,
    config: Renewed<ServerConfig>,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls")
            .field("directory", &self.config.directory())
            .field("is_required", &self.is_required)
            .field("verifies_peers", &self.verifies_peers)
            .finish_non_exhaustive()
    }
}

impl ServerTls {
    /// Reads the certificates in a directory. `is_required`: clients without TLS are refused.
    /// `verifies_peers`: clients without a certificate of the directory's authorities are refused.
    ///
    /// # Errors
    /// A sentence: a file cannot be read or is not valid, other users may use the key, the key
    /// belongs to another certificate, or this program was built without TLS.
    pub fn open(
        directory: &Path,
        is_required: bool,
        verifies_peers: bool,
    ) -> Result<ServerTls, String> {
        let config = Renewed::open(directory, FILES, |directory| read(directory, verifies_peers))?;
        Ok(ServerTls { is_required, verifies_peers, config })
    }

    /// Whether clients without TLS are refused.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// Reads the certificates again if their files have changed since they were last read. Returns
    /// whether they have.
    ///
    /// # Errors
    /// As [`ServerTls::open`], once for each change of the files. New connections continue to use
    /// the former certificates.
    pub fn renew(&self) -> Result<bool, String> {
        self.config.renew(|directory| read(directory, self.verifies_peers))
    }

    /// Starts the server's side of a connection.
    pub fn session(&self) -> Connection {
        let config = self.config.get();
        ServerConnection::new(config).expect("its configuration is complete").into()
    }
}

fn read(directory: &Path, verifies_peers: bool) -> Result<ServerConfig, String> {
    let ciphers = ciphers()?;
    let builder = ServerConfig::builder_with_provider(ciphers.clone())
        .with_protocol_versions(VERSIONS)
        .map_err(|error| error.to_string())?;
    let builder = if verifies_peers {
        let authorities = Arc::new(files::authorities(directory)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(authorities, ciphers)
            .with_crls(files::revoked(directory)?)
            .build()
            .map_err(|error| files::unusable_list(directory, &error))?;
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let (chain, key) = files::own_certificate(directory, NAME)?;
    let config = builder.with_single_cert(chain, key);
    let mut config = config.map_err(|error| files::unusable_pair(directory, NAME, &error))?;
    // A resumed session would outlive the certificates of its first connection.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
