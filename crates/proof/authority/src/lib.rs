//! An authority that issues certificates, for tests of TLS.
//!
//! The files have the names that crate `tls` reads, as do nbdkit and QEMU.
#![forbid(unsafe_code)]

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber, date_time_ymd,
};
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// An authority.
pub struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// The side of a connection for which a certificate is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// `server-cert.pem` and `server-key.pem`.
    Server,
    /// `client-cert.pem` and `client-key.pem`.
    Client,
}

impl Authority {
    /// Creates an authority.
    ///
    /// # Panics
    /// If there is no randomness.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = key();
        let certificate = params.self_signed(&key).expect("complete");
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    /// Writes the authority's certificate into a directory, which then trusts it.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn trust(&self, directory: &Path) {
        fs::write(directory.join("ca-cert.pem"), self.certificate.pem()).expect("room");
    }

    /// Issues a certificate for these hosts, names or numeric addresses, and writes it and its key
    /// into a directory. `last_year`: the last year in which it is valid. `serial`: its number.
    ///
    /// # Panics
    /// If a name is not valid, or a file cannot be written.
    pub fn issue(&self, directory: &Path, side: Side, hosts: &[&str], last_year: i32, serial: u64) {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("valid names");
        let (name, purpose) = match side {
            Side::Server => ("server", ExtendedKeyUsagePurpose::ServerAuth),
            Side::Client => ("client", ExtendedKeyUsagePurpose::ClientAuth),
        };
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![purpose];
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(last_year, 12, 31);
        params.serial_number = Some(SerialNumber::from(serial));
        let key = key();
        let certificate = params.signed_by(&key, &self.issuer).expect("complete");
        let path = |kind| directory.join(format!("{name}-{kind}.pem"));
        fs::write(path("cert"), certificate.pem()).expect("room");
        // The former key may be in the way with other rights.
        let _ = fs::remove_file(path("key"));
        let file = fs::File::options().write(true).create_new(true).mode(0o600).open(path("key"));
        file.and_then(|mut file| file.write_all(key.serialize_pem().as_bytes())).expect("room");
    }

    /// Writes a list that revokes the certificate with this number into a directory.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn revoke(&self, directory: &Path, serial: u64) {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(VALID, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).expect("complete");
        fs::write(directory.join("ca-crl.pem"), list.pem().expect("valid")).expect("room");
    }
}

/// A last year that is far away.
pub const VALID: i32 = 2120;
/// A last year that is over.
pub const EXPIRED: i32 = 2020;

fn key() -> KeyPair {
    KeyPair::generate().expect("randomness")
}
