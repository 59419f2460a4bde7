//! The vendors with known SMART attributes.

/// The vendor of a drive's attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vendor {
    /// Samsung's SATA drives.
    Samsung,
    /// Intel's X25 series from its second generation on.
    Intel,
    /// Intel's X25 series before that: without the attribute of workload wear.
    IntelFirst,
    /// Indilinx Barefoot.
    Indilinx,
    /// SandForce.
    SandForce,
    /// NVMe's health log, whose fields have names but no numbers.
    Nvme,
}

/// The words for vendors in drives' files, in the order of [`Vendor`].
pub(crate) const VENDORS: [(&str, Vendor); 6] = [
    ("samsung", Vendor::Samsung),
    ("intel", Vendor::Intel),
    ("intel-first", Vendor::IntelFirst),
    ("indilinx", Vendor::Indilinx),
    ("sandforce", Vendor::SandForce),
    ("nvme", Vendor::Nvme),
];
