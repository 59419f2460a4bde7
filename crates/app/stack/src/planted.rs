//! Planted bugs of a takeover: each breaks a promise of the running daemon, and a test of the real
//! program must find it.
//!
//! A program with the feature `planted` has the bug that the environment names. In the product
//! [`planted`] is constant false, and the compiler removes the code behind it.

#[cfg(all(feature = "planted", not(debug_assertions)))]
compile_error!("planted bugs are for tests: no release has them");

/// A bug that can be planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// C5: a device whose memory is lost is served from the data on the backing.
    ServeLostDevice,
    /// C5: the contents of a backing are examined again when it is taken over.
    ExamineTakenOver,
    /// C9: clean blocks are kept although another program may have changed the image.
    TrustChangedImage,
}

/// Whether this bug is planted.
#[cfg(feature = "planted")]
pub(crate) fn planted(bug: Bug) -> bool {
    std::env::var("OVERDRIVE_PLANTED").is_ok_and(|name| name == format!("{bug:?}"))
}

/// Whether this bug is planted: never, in the product.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) const fn planted(_bug: Bug) -> bool {
    false
}
