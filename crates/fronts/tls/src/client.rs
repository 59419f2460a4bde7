//! The client's side: the host that the server must prove to be, and new sessions.

use crate::files::{self, AUTHORITIES, REVOKED};
use crate::renewed::Renewed;
use crate::{VERSIONS, ciphers};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Beginning of the names of the client's files.
const NAME: &str = "client";
/// The files of a client.
const FILES: &[&str] = &[AUTHORITIES, REVOKED, "client-cert.pem", "client-key.pem"];

/// How a client protects its connections to one host.
pub struct ClientTls {
    host: ServerName<'static>,
    config: Renewed<ClientConfig>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls")
            .field("directory", &self.config.directory())
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl ClientTls {
    /// Reads the certificates in a directory. The server must have a certificate of the
    /// directory's authorities for `host`, a name or a numeric address. The client's own
    /// certificate is optional.
    ///
    /// # Errors
    /// A sentence: a file cannot be read or is not valid, other users may use the key, the key
    /// belongs to another certificate, the host cannot be in a certificate, or this program was
    /// built without TLS.
    pub fn open(directory: &Path, host: &str) -> Result<ClientTls, String> {
        let name = ServerName::try_from(host.to_owned());
        let host = name.map_err(|_| {
            format!("'{host}' is not the name of a host that a certificate can have")
        })?;
        Ok(ClientTls { host, config: Renewed::open(directory, FILES, read)? })
    }

    /// Reads the certificates again if their files have changed since they were last read. Returns
    /// whether they have.
    ///
    /// # Errors
    /// As [`ClientTls::open`], once for each change of the files. New connections continue to use
    /// the former certificates.
    pub fn renew(&self) -> Result<bool, String> {
        self.config.renew(read)
    }

    /// Starts the client's side of a connection.
    pub fn session(&self) -> Connection {
        let session = ClientConnection::new(self.config.get(), self.host.clone());
        session.expect("its configuration is complete").into()
    }
}

fn read(directory: &Path) -> Result<ClientConfig, String> {
    let ciphers = ciphers()?;
    let authorities = Arc::new(files::authorities(directory)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(authorities, ciphers.clone())
        .with_crls(files::revoked(directory)?)
        .build()
        .map_err(|error| files::unusable_list(directory, &error))?;
    let builder = ClientConfig::builder_with_provider(ciphers)
        .with_protocol_versions(VERSIONS)
        .map_err(|error| error.to_string())?
        .with_webpki_verifier(verifier);
    let mut config = if files::has_own_certificate(directory, NAME) {
        let (chain, key) = files::own_certificate(directory, NAME)?;
        let config = builder.with_client_auth_cert(chain, key);
        config.map_err(|error| files::unusable_pair(directory, NAME, &error))?
    } else {
        builder.with_no_client_auth()
    };
    // A resumed session would outlive the certificates of its first connection.
    config.resumption = Resumption::disabled();
    Ok(config)
}
