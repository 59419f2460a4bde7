//! Reasons why a connection is not trusted.

use rustls::{AlertDescription, CertificateError, Error};
use std::fmt;

/// The reason why a connection was refused or ended by TLS, as the rest of a sentence about the
/// other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal(pub(crate) &'static str);

impl Refusal {
    /// The other side has ended the connection as soon as it was encrypted, without an alert.
    pub const UNEXPLAINED: Refusal =
        Refusal("it ended the connection without a reason; it may require another certificate");
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Refusal {}

impl From<&Error> for Refusal {
    fn from(error: &Error) -> Refusal {
        Refusal(match error {
            Error::InvalidCertificate(error) => of_certificate(error),
            Error::NoCertificatesPresented => "it has sent no certificate",
            Error::AlertReceived(alert) => of_alert(*alert),
            Error::PeerIncompatible(_) => "it does not support TLS 1.3",
            Error::DecryptError => "its data was changed on the way",
            _ => "its messages are not valid TLS",
        })
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::from(&error)
    }
}

fn of_certificate(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; the clock of one side may be wrong"
        }
        CertificateError::Revoked => "its certificate was revoked",
        // Another authority of the same name has signed it.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is of an authority that is not in ca-cert.pem"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is of another host"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not for this side of a connection (extended key usage)"
        }
        CertificateError::UnknownRevocationStatus
        | CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => {
            "ca-crl.pem is outdated, or does not cover the authority of its certificate"
        }
        _ => "its certificate is not valid",
    }
}

fn of_alert(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CertificateExpired => "it reports that this certificate has expired",
        AlertDescription::CertificateRevoked => "it reports that this certificate was revoked",
        AlertDescription::CertificateRequired => "it requires a certificate",
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "it does not accept the authority of this certificate"
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown => "it does not accept this certificate",
        AlertDescription::ProtocolVersion => "it does not support TLS 1.3",
        _ => "it has ended TLS with an error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_common_reason_has_its_own_sentence() {
        let certificate = |error| Refusal::from(Error::InvalidCertificate(error)).to_string();
        let sentences = [
            certificate(CertificateError::Expired),
            certificate(CertificateError::UnknownIssuer),
            certificate(CertificateError::NotValidForName),
            certificate(CertificateError::Revoked),
            certificate(CertificateError::BadEncoding),
            Refusal::from(Error::NoCertificatesPresented).to_string(),
            Refusal::from(Error::AlertReceived(AlertDescription::UnknownCA)).to_string(),
            Refusal::from(Error::AlertReceived(AlertDescription::CloseNotify)).to_string(),
            Refusal::from(Error::DecryptError).to_string(),
        ];
        for (index, sentence) in sentences.iter().enumerate() {
            assert!(!sentences[..index].contains(sentence), "{sentence}");
        }
    }
}
