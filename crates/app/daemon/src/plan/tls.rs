//! How a daemon's listeners for NBD use TLS.

use ::tls::ServerTls;
use stack::{Exit, Failure};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// Whether clients use TLS.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum TlsMode {
    /// They cannot.
    #[default]
    Off,
    /// They may.
    On,
    /// They must.
    Require,
}

impl TlsMode {
    const ALL: [(TlsMode, &str); 3] =
        [(TlsMode::Off, "off"), (TlsMode::On, "on"), (TlsMode::Require, "require")];
}

impl fmt::Display for TlsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TlsMode::ALL
            .iter()
            .find(|(mode, _)| mode == self)
            .map_or(Ok(()), |(_, word)| f.write_str(word))
    }
}

impl FromStr for TlsMode {
    type Err = String;

    fn from_str(text: &str) -> Result<TlsMode, String> {
        let found = TlsMode::ALL.iter().find(|(_, word)| *word == text);
        found.map(|(mode, _)| *mode).ok_or_else(|| "write off, on or require".to_owned())
    }
}

/// The use of TLS by all listeners for NBD.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TlsPlan {
    mode: TlsMode,
    /// The directory of certificates.
    certificates: Option<PathBuf>,
    verifies_peers: bool,
}

impl TlsPlan {
    /// Makes a plan. `verifies_peers`: clients must have a certificate of an authority in
    /// `certificates`.
    ///
    /// # Errors
    /// A sentence with a correction: a mode without certificates, or the reverse.
    pub fn new(
        mode: TlsMode,
        certificates: Option<PathBuf>,
        verifies_peers: bool,
    ) -> Result<TlsPlan, String> {
        let has_certificates = certificates.is_some();
        match mode {
            TlsMode::Off if has_certificates || verifies_peers => {
                Err("TLS is off, so certificates have no effect; add --tls require (in a config \
                     file: tls = \"require\")"
                    .to_owned())
            }
            TlsMode::On | TlsMode::Require if !has_certificates => {
                Err("TLS needs certificates; add --tls-certificates DIR, with ca-cert.pem, \
                     server-cert.pem and server-key.pem (in a config file: tls_certificates)"
                    .to_owned())
            }
            _ => Ok(TlsPlan { mode, certificates, verifies_peers }),
        }
    }

    /// Whether clients use TLS.
    pub fn mode(&self) -> TlsMode {
        self.mode
    }

    /// Returns the directory of certificates, if TLS is used.
    pub fn certificates(&self) -> Option<&Path> {
        self.certificates.as_deref()
    }

    /// Whether clients must have a certificate.
    pub fn verifies_peers(&self) -> bool {
        self.verifies_peers
    }

    /// Whether each connection is encrypted, and each client has a valid certificate.
    pub fn protects_all(&self) -> bool {
        self.mode == TlsMode::Require && self.verifies_peers
    }

    /// Reads the certificates. None: TLS is off.
    ///
    /// # Errors
    /// Usage: a file is missing or not valid, or other users may use the key.
    pub fn open(&self) -> Result<Option<Arc<ServerTls>>, Failure> {
        let Some(directory) = &self.certificates else { return Ok(None) };
        let is_required = self.mode == TlsMode::Require;
        let opened = ServerTls::open(directory, is_required, self.verifies_peers);
        let failed = |why| Failure::new(Exit::Usage, format!("TLS: {why}"));
        opened.map(|tls| Some(Arc::new(tls))).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_words() {
        for (mode, word) in TlsMode::ALL {
            assert_eq!((mode.to_string(), word.parse()), (word.to_owned(), Ok(mode)));
        }
        assert!("yes".parse::<TlsMode>().is_err());
    }

    #[test]
    fn certificates_and_mode_belong_together() {
        let plan = |mode, certificates: Option<&str>, verifies| {
            TlsPlan::new(mode, certificates.map(PathBuf::from), verifies)
        };
        assert_eq!(plan(TlsMode::Off, None, false), Ok(TlsPlan::default()));
        for refused in [
            plan(TlsMode::Off, Some("/c"), false),
            plan(TlsMode::Off, None, true),
            plan(TlsMode::On, None, false),
            plan(TlsMode::Require, None, true),
        ] {
            assert!(refused.expect_err("incomplete").contains("--tls"));
        }
        for (mode, verifies, protects) in [
            (TlsMode::Require, true, true),
            (TlsMode::Require, false, false),
            (TlsMode::On, true, false),
        ] {
            let plan = plan(mode, Some("/c"), verifies).expect("complete");
            assert_eq!(plan.protects_all(), protects, "{plan:?}");
        }
    }
}
