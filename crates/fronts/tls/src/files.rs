//! Files of certificates and keys.

use rustls::RootCertStore;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Certificates of the authorities.
pub(crate) const AUTHORITIES: &str = "ca-cert.pem";
/// Certificates that they have revoked.
pub(crate) const REVOKED: &str = "ca-crl.pem";

/// Rights of a key that belongs to its user: others have none.
const FOREIGN_RIGHTS: u32 = 0o077;
/// Rights that no other user may have for a key of root. Its group may read the key, as on systems
/// with a group for keys.
const FOREIGN_RIGHTS_OF_ROOT: u32 = 0o037;

/// The certificate of one side, with the certificates that lead to its authority, and its key.
pub(crate) type OwnCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Returns the authorities of a directory.
///
/// # Errors
/// A sentence with the file.
pub(crate) fn authorities(directory: &Path) -> Result<RootCertStore, String> {
    let path = directory.join(AUTHORITIES);
    let mut store = RootCertStore::empty();
    for certificate in certificates(&path)? {
        store.add(certificate).map_err(|_| {
            format!("{}: has a certificate that is not valid; make it again", path.display())
        })?;
    }
    Ok(store)
}

/// Returns the lists of revoked certificates of a directory; none if there is no such file.
///
/// # Errors
/// A sentence with the file.
pub(crate) fn revoked(
    directory: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let path = directory.join(REVOKED);
    match fs::metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        _ => objects(&path, "list of revoked certificates"),
    }
}

/// Returns a certificate and its key, from `NAME-cert.pem` and `NAME-key.pem`.
///
/// # Errors
/// A sentence with the file.
pub(crate) fn own_certificate(directory: &Path, name: &str) -> Result<OwnCertificate, String> {
    let (cert, key) = own_paths(directory, name);
    let chain = certificates(&cert)?;
    Ok((chain, private_key(&key)?))
}

/// Whether a directory has a certificate or a key of this name.
pub(crate) fn has_own_certificate(directory: &Path, name: &str) -> bool {
    let (cert, key) = own_paths(directory, name);
    cert.exists() || key.exists()
}

/// Returns the sentence for a key that cannot be used with its certificate.
pub(crate) fn unusable_pair(directory: &Path, name: &str, error: &dyn Display) -> String {
    let (cert, key) = own_paths(directory, name);
    let (cert, key) = (cert.display(), key.display());
    format!("{key}: does not belong to the certificate in {cert}, or is not usable: {error}")
}

/// Returns the sentence for a list of revoked certificates that cannot be used.
pub(crate) fn unusable_list(directory: &Path, error: &dyn Display) -> String {
    format!("{}: {error}", directory.join(REVOKED).display())
}

/// Returns the paths of a certificate and of its key.
fn own_paths(directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    (directory.join(format!("{name}-cert.pem")), directory.join(format!("{name}-key.pem")))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    objects(path, "certificate")
}

/// Returns all objects of a kind in a file, at least one.
fn objects<T: PemObject>(path: &Path, kind: &str) -> Result<Vec<T>, String> {
    let text = read(path)?;
    let found: Result<Vec<T>, PemError> = T::pem_slice_iter(&text).collect();
    match found {
        Ok(objects) if !objects.is_empty() => Ok(objects),
        _ => Err(format!("{}: has no valid {kind} in PEM format", path.display())),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let found = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    let foreign = if found.uid() == 0 { FOREIGN_RIGHTS_OF_ROOT } else { FOREIGN_RIGHTS };
    if found.mode() & foreign != 0 {
        return Err(format!(
            "{}: other users may use this key (mode {:04o}); make a new key, or at least run \
             chmod 600 {0}",
            path.display(),
            found.mode() & 0o7777
        ));
    }
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        format!("{}: has no valid key in PEM format (without a password)", path.display())
    })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("{}: cannot be read: {error}", path.display())
}
